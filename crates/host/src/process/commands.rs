//! The commands that run right now, and which of the past ones were killed.

use super::table::ticks_now;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a killed command is remembered, in hundredths of a second: an hour, far longer than any run takes to end.
const REMEMBERED_TICKS: u64 = 360_000;

/// A command that was started and has not ended.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) id: u64,
    /// The direct child, which leads its process group.
    pub(super) pid: u32,
    /// Clock ticks at its birth, or a little before.
    pub(super) start: u64,
    /// No other command ran during its life so far.
    pub(super) alone: bool,
    /// A transaction: never to be signalled.
    pub(super) uninterruptible: bool,
}

#[derive(Default)]
struct State {
    running: HashMap<u32, Running>,
    /// By their id: the clock ticks between which they lived.
    killed: HashMap<u64, (u64, Option<u64>)>,
    last_id: u64,
}

/// All commands of this process.
#[derive(Default)]
pub(super) struct Commands {
    state: Mutex<State>,
    /// Commands between fork and their entry in `running`: children of ours that nobody knows yet.
    spawning: AtomicUsize,
}

/// Held from before a spawn until the child is entered.
pub(super) struct Spawning<'a>(&'a Commands);

impl Drop for Spawning<'_> {
    fn drop(&mut self) {
        self.0.spawning.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Commands {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_id(&self) -> u64 {
        let mut state = self.state();
        state.last_id += 1;
        state.last_id
    }

    pub(super) fn spawning(&self) -> Spawning<'_> {
        self.spawning.fetch_add(1, Ordering::SeqCst);
        Spawning(self)
    }

    pub(super) fn enter(&self, id: u64, pid: u32, start: u64, uninterruptible: bool) {
        let mut state = self.state();
        let alone = state.running.is_empty();
        // With two or more running all of them are marked already.
        if state.running.len() == 1 {
            state.running.values_mut().for_each(|other| other.alone = false);
        }
        state.running.insert(pid, Running { id, pid, start, alone, uninterruptible });
    }

    pub(super) fn leave(&self, pid: u32) {
        self.state().running.remove(&pid);
    }

    /// Those that may be ended.
    pub(super) fn interruptible(&self) -> Vec<Running> {
        self.state().running.values().filter(|running| !running.uninterruptible).cloned().collect()
    }

    pub(super) fn get(&self, pid: u32) -> Option<Running> {
        self.state().running.get(&pid).cloned()
    }

    /// Remembers that whatever this command started is to die with it.
    pub(super) fn note_killed(&self, running: &Running) {
        let forgotten = ticks_now().saturating_sub(REMEMBERED_TICKS);
        let mut state = self.state();
        state.killed.retain(|_, (_, end)| end.is_none_or(|end| end > forgotten));
        state.killed.insert(running.id, (running.start, None));
    }

    pub(super) fn note_kill_ended(&self, id: u64) {
        if let Some((_, end)) = self.state().killed.get_mut(&id) {
            *end = Some(ticks_now());
        }
    }

    pub(super) fn was_killed(&self, id: u64) -> bool {
        self.state().killed.contains_key(&id)
    }

    /// Born while a command lived that was killed. Without a mark, that is all that can be said of an orphan.
    pub(super) fn born_under_killed_command(&self, tick: u64) -> bool {
        let state = self.state();
        state.killed.values().any(|(start, end)| *start <= tick && end.is_none_or(|end| tick <= end))
    }

    pub(super) fn is_running(&self, id: u64) -> bool {
        self.state().running.values().any(|running| running.id == id)
    }

    /// Surely no direct child of ours: everybody who was spawned is entered, and this one is not.
    pub(super) fn is_not_our_child(&self, pid: u32) -> bool {
        self.spawning.load(Ordering::SeqCst) == 0 && !self.state().running.contains_key(&pid)
    }

    /// A little before now: a child's birth is rounded down to a clock tick.
    pub(super) fn birth_tick() -> u64 {
        ticks_now().saturating_sub(2)
    }
}
