//! `group.present`, `group.absent`: a group of this machine.

use crate::accounts::{self, GroupAccount, GroupState, HowMade, Members};
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::Read;
use zester_host::{Fault, FaultKind};

/// A group of this machine.
#[params(kind = "group.present", primary = "name", manual = "group_present.md")]
pub struct Present {
    /// Its name.
    name: String,
    /// Its number. Unset: whichever is free, or as it is.
    gid: Option<u32>,
    /// A new group gets a number of the system's.
    #[param(default)]
    system: bool,
    /// Who is in it, and nobody else.
    #[param(list)]
    members: Option<Vec<String>>,
    /// Who is in it, whoever else is.
    #[param(list, default)]
    addusers: Vec<String>,
    /// Who is not in it.
    #[param(list, default)]
    delusers: Vec<String>,
    /// Allows a number that another group has too.
    #[param(default)]
    non_unique: bool,
    /// Makes no group: one that is not there is an error.
    #[param(default)]
    must_exist: bool,
}

impl Present {
    fn wanted_members(&self, now: &Members, cx: &Checking<'_>) -> Result<Members, Fault> {
        let mut wanted = match &self.members {
            Some(members) => Members::of(members.iter().cloned()),
            None => now.clone(),
        };
        wanted.extend(self.addusers.iter().cloned());
        wanted.retain(|name| !self.delusers.contains(name));
        for name in wanted.difference(now) {
            if cx.host.user(name)?.is_none() {
                let message = format!("there is no user `{name}` to put into the group `{}`", self.name);
                return Err(Fault::new(FaultKind::NotFound, message).hint("a `user.present` state makes it"));
            }
        }
        Ok(wanted)
    }
}

impl Resource for Present {
    type State = GroupState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &GroupState, cx: &Checking<'_>) -> Result<Want<GroupState>, Fault> {
        let now = match now {
            GroupState::Present(now) => now.clone(),
            GroupState::Absent if self.must_exist => {
                return accounts::group(cx.host, &self.name).map(|_| Want::Same);
            }
            GroupState::Absent => {
                let expected = GroupState::next_gid(&Read::of_check(cx), self.system)?;
                GroupAccount { expected, ..GroupAccount::default() }
            }
        };
        let members = self.wanted_members(&now.members, cx)?;
        Ok(Want::Be(GroupState::Present(GroupAccount { gid: self.gid.or(now.gid), members, ..now })))
    }

    fn how(&self) -> HowMade {
        HowMade { system: self.system, non_unique: self.non_unique }
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = accounts::odd_names("name", [&self.name]);
        invalid.extend(accounts::odd_names("members", self.members.iter().flatten()));
        invalid.extend(accounts::odd_names("addusers", &self.addusers));
        if self.members.is_some() && !(self.addusers.is_empty() && self.delusers.is_empty()) {
            let message = "it says who is in the group already; leave out `addusers` and `delusers`";
            invalid.push(Invalid::new("members", message));
        }
        if let Some(both) = self.addusers.iter().find(|name| self.delusers.contains(name)) {
            let message = format!("`{both}` is to be put in and taken out");
            invalid.push(Invalid::new("delusers", message));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let members = self.members.as_ref().map(|members| Members::of(members.iter().cloned()).0);
        let claim = Claim::new(ManagedItem::Group(self.name.clone()), "present")
            .with("gid", self.gid)
            .with("members", members);
        let named = self.members.iter().flatten().chain(&self.addusers);
        named.fold(Claims::of(claim), |claims, name| claims.accounts(Some(name), None))
    }
}

/// A group that is not there.
#[params(kind = "group.absent", primary = "name", manual = "group_absent.md")]
pub struct Absent {
    /// Its name.
    name: String,
}

impl Resource for Absent {
    type State = GroupState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, _: &GroupState, _: &Checking<'_>) -> Result<Want<GroupState>, Fault> {
        Ok(Want::Be(GroupState::Absent))
    }

    fn validate(&self) -> Vec<Invalid> {
        match self.name.as_str() {
            "root" => vec![Invalid::new("name", "root is never removed")],
            _ => accounts::odd_names("name", [&self.name]),
        }
    }

    fn claims(&self) -> Claims {
        Claims::of(Claim::new(ManagedItem::Group(self.name.clone()), "absent"))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::accounts::fake_books::{BOOKS, WEB, fake_books};
    use crate::laws::{Case, Promise};
    use serde_json::json;
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, |host| fake_books(host, WEB)).with_books(BOOKS)
    };
    vec![
        case("group.present", json!({ "name": "new" }), Promise::Converges),
        case("group.present", json!({ "name": "new", "gid": 700, "system": true }), Promise::Converges),
        case("group.present", json!({ "name": "new", "members": ["web", "root"] }), Promise::Converges),
        case("group.present", json!({ "name": "new", "members": ["nobody-here"] }), Promise::Fails),
        case("group.present", json!({ "name": "staff" }), Promise::Clean),
        case("group.present", json!({ "name": "staff", "gid": 51 }), Promise::Converges),
        case("group.present", json!({ "name": "staff", "members": [] }), Promise::Converges),
        case("group.present", json!({ "name": "staff", "addusers": ["root"] }), Promise::Converges),
        case("group.present", json!({ "name": "staff", "delusers": ["web"] }), Promise::Converges),
        case(
            "group.present",
            json!({ "name": "staff", "addusers": ["web"], "delusers": "root" }),
            Promise::Clean,
        ),
        case("group.absent", json!({ "name": "new" }), Promise::Clean),
        case("group.absent", json!({ "name": "staff" }), Promise::Converges),
        case("group.absent", json!({ "name": "web" }), Promise::Fails),
    ]
}
