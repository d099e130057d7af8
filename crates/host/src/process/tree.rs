//! Ending everything that a command started.
//!
//! **What belongs to a command.** Every command leads its own process group and carries a mark in its
//! environment (`ZESTER_EXEC`), which children inherit. This process is a child subreaper, so what a command
//! orphans becomes ours and not init's. The tree of a command is:
//!
//! - its process group and session, and all descendants of these;
//! - every process whose environment holds the mark, with descendants;
//! - whatever was once seen in the tree;
//! - an orphan that we adopted and that shows no mark at all, if it was born while this command was the only
//!   one.
//!
//! **What is guaranteed.** After a cancel or a timeout all members are looked up, then all get SIGTERM. When
//! the grace has passed, whatever is left gets SIGKILL. New members found meanwhile get the same, unless whoever
//! started them was told and lives: that is a command that cleans up (`trap … TERM`), and it has the grace for it.
//! The end is two scans in a row that find nobody. This reaches children that ignore SIGTERM, that call `setsid`, and
//! daemons that forked twice.
//!
//! - Where control groups of version 2 are writable for us (root, or a delegated group; Linux 5.14 and
//!   later), the members are moved into a group made for the kill, so that a child that forks faster than we
//!   scan cannot win.
//! - Elsewhere the same holds but for such a race without end: a fork bomb that also leaves group and
//!   session.
//! - A process that cleared its environment, left session and group, and forked twice before the kill, while
//!   *other* commands ran too, cannot be told from theirs. It outlives the kill of its command;
//!   [`super::Processes::kill_everything`] ends it with the run: every adopted orphan that carries the mark
//!   of a killed command, or carries none and was born while a killed command lived.
//! - A process in uninterruptible sleep (a dead NFS server) dies when the kernel lets it; it is reported in
//!   [`super::Exit::survivors`].
//! - If this process itself is killed with SIGKILL, nobody is left to end its commands, until one that takes its place
//!   calls [`super::kill_leftovers`].
//!
//! **What is left alone.** What a command that ended by itself left in the background (`server &`, X-6), and
//! commands launched as uninterruptible. A process that was started elsewhere on request (`systemd-run`,
//! `at`, `docker run`) is a child of that service and not of ours.

use super::cgroup::KillCgroup;
use super::commands::Running;
use super::reaper;
use super::runner::Shared;
use super::table::{Key, Process, Snapshot};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::HashSet;
use std::time::{Duration, Instant};
use zester_model::limits::KILL_GRACE;

/// How long SIGKILL may take before we stop waiting: only a process that the kernel holds needs more.
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often an emptied control group is tried to be removed before the next kill has to.
const REMOVE_TRIES: usize = 10;
/// How often a process in a hurry looks for what is left of a command.
const SCANS_MAX: usize = 50;
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Sends a signal to exactly this process: the descriptor cannot mean a later one with the same number.
pub(super) fn signal(key: Key, signal: Signal) {
    let Some(pid) = Pid::from_raw(key.0 as i32) else { return };
    let Ok(opened) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return };
    let same = super::table::read(key.0, u64::MAX).is_some_and(|process| process.start == key.1);
    if same {
        // It may just have died, which is what we want.
        let _ = rustix::process::pidfd_send_signal(opened, signal);
    }
}

/// The tree of one command, or all that escaped, as found in one snapshot.
trait ProcessSet: Sync {
    fn roots(&self, snapshot: &Snapshot, shared: &Shared) -> Vec<Key>;
}

impl ProcessSet for Running {
    fn roots(&self, snapshot: &Snapshot, shared: &Shared) -> Vec<Key> {
        // Another process under the leader's number means that group and session are gone and the numbers
        // mean others.
        let reused = snapshot.get(self.pid).is_some_and(|leader| leader.start > self.start + 200);
        let mark = shared.mark(self.id);
        let belongs = |process: &Process| {
            process.start >= self.start
                && ((!reused && (process.group == self.pid || process.session == self.pid))
                    || process.marks.contains(&mark)
                    || (self.alone && self.is_likely_mine(process, snapshot, shared)))
        };
        snapshot.processes.iter().filter(|process| belongs(process)).map(Process::key).collect()
    }
}

impl Running {
    /// An adopted orphan without any mark, and no worker of some daemon that was there before.
    fn is_likely_mine(&self, process: &Process, snapshot: &Snapshot, shared: &Shared) -> bool {
        let older = snapshot.get(process.session).is_some_and(|leader| leader.start < self.start);
        !older && process.marks.is_empty() && is_adopted(process, shared)
    }
}

/// Ours by inheritance: not started by us, and not by other code of this process (which stays in our group).
fn is_adopted(process: &Process, shared: &Shared) -> bool {
    process.ppid == shared.own_pid
        && process.group != shared.own_group
        && process.start >= shared.born
        && shared.commands.is_not_our_child(process.pid)
}

/// Adopted orphans of commands that were killed: by their mark, or for want of one by the time of their
/// birth.
struct EscapedProcesses;

impl ProcessSet for EscapedProcesses {
    fn roots(&self, snapshot: &Snapshot, shared: &Shared) -> Vec<Key> {
        let spared = |process: &Process| {
            let ids = process.marks.iter().filter_map(|mark| shared.id_of(mark));
            let mut ids = ids.peekable();
            match ids.peek() {
                // A service started by a script that clears its environment (`service x start`) must outlive
                // the run.
                None => !shared.commands.born_under_killed_command(process.start),
                Some(_) => ids.all(|id| !shared.commands.was_killed(id) || shared.commands.is_running(id)),
            }
        };
        let escaped = snapshot.children_of(shared.own_pid);
        let escaped = escaped.filter(|process| is_adopted(process, shared) && !spared(process));
        escaped.map(Process::key).collect()
    }
}

/// Whoever was found so far, and the group they are kept in.
struct TreeKiller<'a> {
    shared: &'a Shared,
    processes: &'a dyn ProcessSet,
    known: HashSet<Key>,
    cgroup: Option<KillCgroup>,
}

impl TreeKiller<'_> {
    /// Scans, and returns who is alive, new members included, and whether its parent is a living member too; reaps
    /// adopted ones that died.
    async fn scan(&mut self) -> Vec<(Key, bool)> {
        let snapshot = self.shared.table.fresh().await;
        let mut roots = self.processes.roots(&snapshot, self.shared);
        roots.extend(self.known.iter().copied());
        let in_cgroup = self.cgroup.iter().flat_map(KillCgroup::members);
        roots.extend(in_cgroup.filter_map(|pid| snapshot.get(pid)).map(Process::key));
        let found = snapshot.with_descendants(roots);
        let is_member = |pid: u32| {
            snapshot.get(pid).is_some_and(|process| !process.zombie && found.contains(&process.key()))
        };
        let mut alive = Vec::new();
        for key in &found {
            let key = *key;
            let Some(process) = snapshot.get(key.0) else { continue };
            if process.zombie {
                if process.ppid == self.shared.own_pid {
                    reaper::reap(self.shared, process.pid);
                }
                continue;
            }
            if self.known.insert(key)
                && let Some(cgroup) = &self.cgroup
            {
                cgroup.take(key.0);
            }
            alive.push((key, is_member(process.ppid)));
        }
        // The oldest first: a shell that lost its children before it heard why would take that for the end of its work, and
        // its trap would never run.
        alive.sort_unstable_by_key(|((pid, start), _)| (*start, *pid));
        alive
    }

    /// Signals everybody until nobody is left or the time is up; each process once per signal, but SIGKILL
    /// always. What a process starts that was told to end, and lives, is its way to end.
    async fn signal_until_gone(&mut self, with: Signal, within: Duration) -> Vec<Key> {
        let deadline = Instant::now() + within;
        let mut signalled: HashSet<Key> = HashSet::new();
        let mut pause = PAUSE_FIRST;
        let mut quiet = false;
        let mut first = true;
        loop {
            let alive = self.scan().await;
            if alive.is_empty() && quiet {
                return Vec::new();
            }
            quiet = alive.is_empty();
            if with == Signal::KILL
                && let Some(cgroup) = &self.cgroup
            {
                cgroup.kill();
            }
            for (key, has_parent) in &alive {
                if with == Signal::KILL || (first || !has_parent) && signalled.insert(*key) {
                    signal(*key, with);
                }
            }
            first = false;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return alive.into_iter().map(|(key, _)| key).collect();
            }
            tokio::time::sleep(if quiet { PAUSE_FIRST } else { pause.min(left) }).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// SIGTERM, grace, SIGKILL. Returns whom even that did not end.
    async fn end(mut self) -> Vec<u32> {
        let mut left = self.signal_until_gone(Signal::TERM, KILL_GRACE).await;
        if !left.is_empty() {
            left = self.signal_until_gone(Signal::KILL, KILL_WAIT_MAX).await;
        }
        if let Some(cgroup) = &self.cgroup {
            for _ in 0..REMOVE_TRIES {
                if cgroup.remove() {
                    break;
                }
                tokio::time::sleep(PAUSE_FIRST).await;
            }
        }
        left.into_iter().map(|(pid, _)| pid).collect()
    }
}

/// Ends the tree of a running command.
pub(super) async fn end_command(shared: &Shared, command: &Running) -> Vec<u32> {
    shared.commands.note_killed(command);
    let cgroup = KillCgroup::new(&shared.mark(command.id));
    // Nobody is told to end before all are known: a parent that dies first would cut the trail to a child
    // without a mark.
    let survivors = TreeKiller { shared, processes: command, known: HashSet::new(), cgroup }.end().await;
    shared.commands.note_kill_ended(command.id);
    survivors
}

/// Ends what slipped out of every command's tree.
pub(super) async fn end_escaped(shared: &Shared) -> Vec<u32> {
    TreeKiller { shared, processes: &EscapedProcesses, known: HashSet::new(), cgroup: None }.end().await
}

/// For a run that is dropped in the middle (a panic, a runtime that ends, a second Ctrl-C): no time for manners. A shell
/// may start its next command between the look and the signal, so it looks again until twice nobody is alive.
pub(super) fn kill_now(shared: &Shared, command: &Running) {
    shared.commands.note_killed(command);
    let mut quiet = 0;
    for _ in 0..SCANS_MAX {
        let snapshot = Snapshot::take(shared.born);
        let found = snapshot.with_descendants(command.roots(&snapshot, shared));
        let alive = |key: &Key| snapshot.get(key.0).is_some_and(|process| !process.zombie);
        let alive: Vec<Key> = found.into_iter().filter(alive).collect();
        quiet = if alive.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            break;
        }
        alive.into_iter().for_each(|key| signal(key, Signal::KILL));
    }
    shared.commands.note_kill_ended(command.id);
}
