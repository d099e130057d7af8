//! Users and groups, through the system's name service.
//!
//! A look-up may go over the network (LDAP), so an answer is remembered for a moment: long enough for the
//! states of one level that name the same owner, short enough that `userdel` is soon noticed. That somebody
//! does *not* exist is never remembered, because the very next state may create them.

use crate::fault::{Fault, FaultKind};
use crate::files::{Group, User};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const REMEMBERED: Duration = Duration::from_secs(2);

struct Memory<T>(Mutex<HashMap<String, (Instant, T)>>);

impl<T: Clone> Memory<T> {
    fn new() -> Memory<T> {
        Memory(Mutex::new(HashMap::new()))
    }

    fn get(&self, name: &str) -> Option<T> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(name).filter(|(when, _)| when.elapsed() < REMEMBERED).map(|(_, found)| found.clone())
    }

    fn put(&self, name: &str, found: &T) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(name.to_string(), (Instant::now(), found.clone()));
    }
}

pub(crate) struct Accounts {
    users: Memory<User>,
    groups: Memory<Group>,
}

impl Accounts {
    pub(crate) fn new() -> Accounts {
        Accounts { users: Memory::new(), groups: Memory::new() }
    }

    pub(crate) fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        if let Some(user) = self.users.get(name) {
            return Ok(Some(user));
        }
        let user = look_up_user(name)?;
        if let Some(user) = &user {
            self.users.put(name, user);
        }
        Ok(user)
    }

    pub(crate) fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        if let Some(group) = self.groups.get(name) {
            return Ok(Some(group));
        }
        let found = nix::unistd::Group::from_name(name).map_err(|error| failed("group", name, error))?;
        let group = found.map(|group| Group { name: group.name, gid: group.gid.as_raw() });
        if let Some(group) = &group {
            self.groups.put(name, group);
        }
        Ok(group)
    }
}

/// Asks the system, remembering nothing.
pub(crate) fn look_up_user(name: &str) -> Result<Option<User>, Fault> {
    let found = nix::unistd::User::from_name(name).map_err(|error| failed("user", name, error))?;
    Ok(found.map(|user| User {
        name: user.name,
        uid: user.uid.as_raw(),
        gid: user.gid.as_raw(),
        home: user.dir,
    }))
}

fn failed(what: &str, name: &str, error: nix::errno::Errno) -> Fault {
    Fault::new(FaultKind::Io, format!("cannot look up the {what} `{name}`: {}", error.desc()))
}
