//! Users and groups, through the system's name service.
//!
//! A look-up may go over the network (LDAP), so an answer is remembered for a moment: long enough for the
//! states of one level that name the same owner. It is forgotten as soon as the machine's own books of accounts
//! are others than they were, and whenever a command of ours has ended, for that may have been `usermod`. That
//! somebody does *not* exist is never remembered, because the very next state may create them.

use crate::fault::{Fault, FaultKind};
use crate::files::{Group, User};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const REMEMBERED: Duration = Duration::from_secs(2);
const ACCOUNT_FILES: [&str; 3] = ["/etc/passwd", "/etc/group", "/etc/nsswitch.conf"];

/// Commands of this process that have ended.
static ENDED: AtomicU64 = AtomicU64::new(0);

/// To be called when a command has ended.
pub(crate) fn a_command_ended() {
    ENDED.fetch_add(1, Ordering::SeqCst);
}

/// What tells one state of the books from another.
#[derive(Clone, PartialEq, Eq)]
struct Stamp {
    ended: u64,
    /// Inode, size, and times of the last change of each.
    account_files: [Option<(u64, u64, i64, i64)>; ACCOUNT_FILES.len()],
}

impl Stamp {
    fn now() -> Stamp {
        let of = |path: &str| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec()))
        };
        Stamp { ended: ENDED.load(Ordering::SeqCst), account_files: ACCOUNT_FILES.map(of) }
    }
}

struct Memory<T>(Mutex<HashMap<String, (Instant, Stamp, T)>>);

impl<T: Clone> Memory<T> {
    fn new() -> Memory<T> {
        Memory(Mutex::new(HashMap::new()))
    }

    /// What is remembered, if nothing speaks against it; else what `look_up` finds. The stamp is taken before,
    /// so that a change meanwhile is not missed.
    fn get(
        &self,
        name: &str,
        look_up: impl FnOnce() -> Result<Option<T>, Fault>,
    ) -> Result<Option<T>, Fault> {
        let stamp = Stamp::now();
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some((when, stamped, found)) = known
            && stamped == stamp
            && when.elapsed() < REMEMBERED
        {
            return Ok(Some(found));
        }
        let found = look_up()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &found {
            Some(found) => known.insert(name.to_string(), (Instant::now(), stamp, found.clone())),
            None => known.remove(name),
        };
        Ok(found)
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
        self.users.get(name, || look_up_user(name))
    }

    pub(crate) fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        self.groups.get(name, || {
            let found = nix::unistd::Group::from_name(name).map_err(|error| failed("group", name, error))?;
            Ok(found.map(|group| Group { name: group.name, gid: group.gid.as_raw() }))
        })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_a_command_may_have_changed_is_looked_up_again() {
        let memory = Memory::new();
        let uid = Cell::new(1000);
        let asked = Cell::new(0);
        let look_up = || {
            asked.set(asked.get() + 1);
            Ok(Some(uid.get()))
        };
        assert_eq!(memory.get("web", look_up).unwrap(), Some(1000));
        uid.set(2000);
        a_command_ended();
        assert_eq!(memory.get("web", look_up).unwrap(), Some(2000), "stale after `usermod`");
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn a_thousand_states_of_one_owner_ask_once() {
        let memory = Memory::new();
        let asked = Cell::new(0);
        for _ in 0..1000 {
            let found = memory.get("root", || {
                asked.set(asked.get() + 1);
                Ok(Some(0))
            });
            assert_eq!(found.unwrap(), Some(0));
        }
        // Another test of this process may end a command meanwhile, and the machine be slow.
        assert!(asked.get() < 100, "{}", asked.get());
    }

    #[test]
    fn somebody_who_is_missing_is_looked_for_again() {
        let memory = Memory::new();
        assert_eq!(memory.get("new", || Ok(None::<u32>)).unwrap(), None);
        assert_eq!(memory.get("new", || Ok(Some(7))).unwrap(), Some(7));
    }

    #[tokio::test]
    async fn a_command_that_ran_may_have_changed_accounts() {
        use crate::{Launch, Processes, process::Runner};
        let memory = Memory::new();
        assert_eq!(memory.get("web", || Ok(Some(1000))).unwrap(), Some(1000));
        let cancel = tokio_util::sync::CancellationToken::new();
        Runner::new().run(&Launch::argv(["true"]), None, &cancel).await.unwrap();
        assert_eq!(memory.get("web", || Ok(Some(2000))).unwrap(), Some(2000), "stale after a command");
    }
}
