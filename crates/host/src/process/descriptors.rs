//! Room for the descriptors of many commands at once.
//!
//! A running command costs us three descriptors (two pipes and a pidfd; a fourth while stdin is written). The
//! usual soft limit of 1024 would end at some 250 commands, so it is raised towards the hard limit when that
//! many are in flight, and not before: a child must start with the limit its user knows (`select(2)` breaks
//! above 1024), and giving it back costs the fast spawn path.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::sync::Mutex;
use std::sync::PoisonError;

/// Descriptors per command, with one to spare for the moment of spawning.
const EACH: u64 = 5;
/// What the rest of the process may need.
const OTHERS: u64 = 128;

pub(super) struct Descriptors {
    soft: u64,
    hard: u64,
    now: Mutex<u64>,
}

impl Descriptors {
    pub(super) fn new() -> Descriptors {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        Descriptors { soft, hard, now: Mutex::new(soft) }
    }

    /// How many commands can be in flight at most.
    pub(super) fn slots(&self) -> usize {
        let room = self.hard.saturating_sub(OTHERS) / EACH;
        usize::try_from(room).unwrap_or(usize::MAX).clamp(1, 1 << 20)
    }

    /// Makes room for so many commands. Returns the limits that a child needs to be given back, once ours are
    /// raised.
    pub(super) fn make_room(&self, in_flight: usize) -> Option<(u64, u64)> {
        let needed = (in_flight as u64 + 1) * EACH + OTHERS;
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if needed > *now && *now < self.hard {
            let wanted = needed.saturating_mul(2).min(self.hard);
            if setrlimit(Resource::RLIMIT_NOFILE, wanted, self.hard).is_ok() {
                *now = wanted;
            }
        }
        (*now != self.soft).then_some((self.soft, self.hard))
    }
}
