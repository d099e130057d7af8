//! `cron.env_present`, `cron.env_absent`: a variable for the jobs of a crontab.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::crontab::{Crontab, claims_of};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use zester_host::Fault;

/// A variable for the jobs of a crontab.
#[params(kind = "cron.env_present", primary = "name", manual = "cron_env_present.md")]
pub struct Present {
    /// The name of the variable.
    name: String,
    /// What it is to be.
    value: String,
    /// Whose crontab.
    #[param(default = "root".to_string())]
    user: String,
}

impl Resource for Present {
    type State = Crontab;

    fn key(&self) -> String {
        self.user.clone()
    }

    async fn desired(&self, now: &Crontab, _: &Checking<'_>) -> Result<Want<Crontab>, Fault> {
        Ok(Want::Be(now.with_variable(&self.name, &self.value)))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = odd(&self.name, &self.user);
        if self.value.contains('\n') {
            invalid.push(Invalid::new("value", "a variable of a crontab is one line"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(item(&self.name, &self.user), "present").with("value", Some(&self.value));
        claims_of(Claims::of(claim), &self.user)
    }
}

/// A variable that the jobs of a crontab do not get.
#[params(kind = "cron.env_absent", primary = "name", manual = "cron_env_absent.md")]
pub struct Absent {
    /// The name of the variable.
    name: String,
    /// Whose crontab.
    #[param(default = "root".to_string())]
    user: String,
}

impl Resource for Absent {
    type State = Crontab;

    fn key(&self) -> String {
        self.user.clone()
    }

    async fn desired(&self, now: &Crontab, _: &Checking<'_>) -> Result<Want<Crontab>, Fault> {
        Ok(now.without_variable(&self.name).map_or(Want::Same, Want::Be))
    }

    fn validate(&self) -> Vec<Invalid> {
        odd(&self.name, &self.user)
    }

    fn claims(&self) -> Claims {
        claims_of(Claims::of(Claim::new(item(&self.name, &self.user), "absent")), &self.user)
    }
}

fn item(name: &str, user: &str) -> ManagedItem {
    ManagedItem::Named("crontab variable", format!("{name} of {user}"))
}

fn odd(name: &str, user: &str) -> Vec<Invalid> {
    let mut invalid = crate::accounts::odd_names("user", [&user.to_string()]);
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() || !name.chars().all(plain) {
        invalid.push(Invalid::new("name", format!("`{name}` cannot name a variable")));
    }
    invalid
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::crontab::fake_crontab::{SPOOL, fake_crontab};
    use crate::laws::{Case, Promise};
    use serde_json::json;
    const WORLD: &str = "# Lines below here are managed by Salt, do not edit\nMAILTO=root\n";
    let case = |kind, params, promise, world: &'static str| {
        Case::new(kind, params, promise, move |host| fake_crontab(host, world)).with_books(&[SPOOL])
    };
    vec![
        case("cron.env_present", json!({ "name": "MAILTO", "value": "root" }), Promise::Clean, WORLD),
        case("cron.env_present", json!({ "name": "MAILTO", "value": "" }), Promise::Converges, WORLD),
        case("cron.env_present", json!({ "name": "PATH", "value": "/bin" }), Promise::Converges, ""),
        case("cron.env_absent", json!({ "name": "MAILTO" }), Promise::Converges, WORLD),
        case("cron.env_absent", json!({ "name": "PATH" }), Promise::Clean, WORLD),
    ]
}
