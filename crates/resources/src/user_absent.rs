//! `user.absent`: a user that is not there.

use crate::accounts::{self, How, UserState};
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use zester_host::{Fault, FaultKind};

/// A user that is not there.
#[params(kind = "user.absent", primary = "name", manual = "user_absent.md")]
pub struct Absent {
    /// The name that they log in with.
    name: String,
    /// Removes their home and mail too, which no revert can bring back.
    #[param(default)]
    purge: bool,
    /// Removes them even while they are logged in.
    #[param(default)]
    force: bool,
}

impl Resource for Absent {
    type State = UserState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &UserState, _: &Checking<'_>) -> Result<Want<UserState>, Fault> {
        match now {
            UserState::Present(account) if account.elsewhere => {
                let message = format!(
                    "the user `{}` is not in /etc/passwd: the name service has it from elsewhere",
                    self.name
                );
                Err(Fault::new(FaultKind::Unsupported, message).hint("remove it where it comes from"))
            }
            UserState::Present(_) => Ok(Want::Be(UserState::Absent)),
            UserState::Absent => Ok(Want::Same),
        }
    }

    fn how(&self) -> How {
        How { purge: self.purge, force: self.force, ..How::of_state() }
    }

    fn validate(&self) -> Vec<Invalid> {
        match self.name.as_str() {
            "root" => vec![Invalid::new("name", "root is never removed")],
            _ => accounts::odd_names("name", [&self.name]),
        }
    }

    fn claims(&self) -> Claims {
        Claims::of(Claim::new(ManagedItem::User(self.name.clone()), "absent"))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::accounts::fake_books::{BOOKS, WEB, fake_books};
    use crate::laws::{Case, Promise};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("user.absent", params, promise, move |host| fake_books(host, world)).with_books(BOOKS)
    };
    vec![
        case(json!({ "name": "web" }), Promise::Clean, ""),
        case(json!({ "name": "web" }), Promise::Converges, WEB),
        case(json!({ "name": "web", "force": true }), Promise::Converges, WEB),
        case(json!({ "name": "directory" }), Promise::Fails, WEB),
    ]
}
