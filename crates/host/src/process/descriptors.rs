//! Room for the descriptors of many commands at once.
//!
//! A running command costs us three descriptors (two pipes and a pidfd; a fourth while stdin is written). The
//! usual soft limit of 1024 would end at some 250 commands, so it is raised towards the hard limit when that
//! many are in flight, and not before: a child must start with the limit its user knows (`select(2)` breaks
//! above 1024), and giving it back costs the fast spawn path. Whoever spawns without giving it back holds a [`Room`],
//! and the limit is not raised before all of those have spawned.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Descriptors per command, with one to spare for the moment of spawning.
const EACH: u64 = 5;
/// What the rest of the process may need.
const OTHERS: u64 = 128;

pub(super) struct Descriptors {
    soft: u64,
    hard: u64,
    state: Mutex<State>,
}

struct State {
    limit: u64,
    /// Commands that are being spawned with whatever limit we have.
    plain: usize,
}

/// What one command needs to be spawned. To be dropped once it is.
pub(super) struct Room<'a> {
    descriptors: &'a Descriptors,
    /// The limits that the child has to be given back.
    pub(super) give_back: Option<(u64, u64)>,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.give_back.is_none() {
            self.descriptors.lock().plain -= 1;
        }
    }
}

impl Descriptors {
    pub(super) fn new() -> Descriptors {
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
        Descriptors { soft, hard, state: Mutex::new(State { limit: soft, plain: 0 }) }
    }

    /// How many commands can be in flight at most.
    pub(super) fn slots(&self) -> usize {
        let room = self.hard.saturating_sub(OTHERS) / EACH;
        usize::try_from(room).unwrap_or(usize::MAX).clamp(1, 1 << 20)
    }

    /// Makes room for so many commands. Limits are given back from half the way on, so that those who are spawned without
    /// are through when it is raised.
    pub(super) fn make_room(&self, in_flight: usize) -> Room<'_> {
        let needed = (in_flight as u64 + 1) * EACH + OTHERS;
        let mut state = self.lock();
        if needed > state.limit && state.limit < self.hard && state.plain == 0 {
            let wanted = needed.saturating_mul(2).min(self.hard);
            if setrlimit(Resource::RLIMIT_NOFILE, wanted, self.hard).is_ok() {
                state.limit = wanted;
            }
        }
        let raised = state.limit != self.soft || needed.saturating_mul(2) > state.limit;
        state.plain += usize::from(!raised);
        Room { descriptors: self, give_back: raised.then_some((self.soft, self.hard)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
