//! Runs commands on this machine.

use super::commands::{Commands, Running};
use super::descriptors::Descriptors;
use super::output::Pump;
use super::table::{MARK, Table, UNINTERRUPTIBLE, ticks_now};
use super::{BoxFuture, Exit, Launch, OutputSink, Processes, reaper, spawn, tree};
use crate::fault::{Fault, FaultKind};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::process::Child;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use zester_model::limits::OUTPUT_DRAIN;

/// How long we wait for a child that SIGKILL did not end, before reporting it as a survivor.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// A program that was written a moment ago counts as being written for as long as a child that was forked meanwhile has
/// not become its own program. That is a matter of milliseconds, and no reason to fail.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
const BUSY_PAUSES_MAX: u32 = 200;

/// How often a process that is about to leave looks whether its commands have ended.
const STOP_PAUSE: Duration = Duration::from_millis(5);

/// What all runners of this process share: the kernel knows children by process, not by runner.
pub(super) struct Shared {
    pub(super) own_pid: u32,
    pub(super) own_group: u32,
    /// Clock ticks at which we began: nothing older is ours.
    pub(super) born: u64,
    pub(super) commands: Commands,
    pub(super) table: Table,
    pub(super) reaping: AtomicBool,
    descriptors: Descriptors,
    slots: Semaphore,
    inherited: String,
}

impl Shared {
    fn new() -> Shared {
        let born = ticks_now();
        // Without it an orphan would become init's and be lost to us. Refused only by sandboxes; groups and
        // marks remain.
        let _ = nix::sys::prctl::set_child_subreaper(true);
        let descriptors = Descriptors::new();
        let mut inherited = std::env::var(MARK).unwrap_or_default();
        if !inherited.is_empty() {
            inherited.push(':');
        }
        Shared {
            own_pid: std::process::id(),
            // Zero where it is the group of a process outside our pid namespace, which no process in here has.
            own_group: nix::unistd::getpgrp().as_raw().unsigned_abs(),
            born,
            commands: Commands::default(),
            table: Table::new(born),
            reaping: AtomicBool::new(false),
            slots: Semaphore::new(descriptors.slots().min(Semaphore::MAX_PERMITS)),
            descriptors,
            inherited,
        }
    }

    /// What marks the processes of one command; no other process on this machine uses the same.
    pub(super) fn mark(&self, id: u64) -> String {
        format!("{}-{}-{id}", self.own_pid, self.born)
    }

    /// The command behind a mark, if it is one of ours.
    pub(super) fn id_of(&self, mark: &str) -> Option<u64> {
        let rest = mark.strip_prefix(&format!("{}-{}-", self.own_pid, self.born))?;
        let rest = rest.strip_suffix(UNINTERRUPTIBLE).unwrap_or(rest);
        rest.parse().ok()
    }

    fn in_flight(&self) -> usize {
        self.descriptors.slots() - self.slots.available_permits()
    }
}

/// Runs commands for real. Cheap to make and to clone; all share one book of what runs.
#[derive(Clone)]
pub struct Runner {
    shared: Arc<Shared>,
}

impl Default for Runner {
    fn default() -> Runner {
        Runner::new()
    }
}

impl Runner {
    /// Makes this process a child subreaper, once.
    pub fn new() -> Runner {
        static SHARED: OnceLock<Arc<Shared>> = OnceLock::new();
        Runner { shared: Arc::clone(SHARED.get_or_init(|| Arc::new(Shared::new()))) }
    }

    /// The name of this process among all that ever ran here: its commands carry it, and survive it if it is killed. See
    /// [`kill_leftovers`](super::kill_leftovers).
    pub fn life(&self) -> String {
        format!("{}-{}", self.shared.own_pid, self.shared.born)
    }

    /// SIGKILL to every command at once and without waiting, for a process that is about to leave in a hurry
    /// (a second Ctrl-C). Transactions are spared here too.
    pub fn kill_at_once(&self) {
        for running in self.shared.commands.interruptible() {
            tree::kill_now(&self.shared, &running);
        }
    }

    /// For a process that is about to leave in order: no command starts any more, and those that were told to stop have
    /// ended with all that they started. Returns the processes that could not be ended.
    pub async fn stop(&self) -> Vec<u32> {
        let shared = &self.shared;
        shared.slots.close();
        while shared.in_flight() > 0 {
            tokio::time::sleep(STOP_PAUSE).await;
        }
        tree::end_escaped(shared).await
    }

    async fn carry_out(
        &self,
        launch: &Launch,
        live: Option<OutputSink>,
        cancel: &CancellationToken,
    ) -> Result<Exit, Fault> {
        let shared = &self.shared;
        if cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        let _slot = tokio::select! {
            slot = shared.slots.acquire() => slot.map_err(|_| Fault::new(FaultKind::Io, "no commands can be run any more"))?,
            () = cancel.cancelled() => return Err(Fault::canceled()),
        };
        let room = shared.descriptors.make_room(shared.in_flight());
        let id = shared.commands.next_id();
        let ending = if launch.uninterruptible { UNINTERRUPTIBLE } else { "" };
        let mark = format!("{}{}{ending}", shared.inherited, shared.mark(id));
        let mut command = spawn::prepare(launch, &mark, room.give_back)?;
        let input = spawn::input(launch)?;
        let mut pauses = 0;
        let (mut child, start, spawning) = loop {
            let spawning = shared.commands.spawning();
            let start = Commands::birth_tick();
            match spawn::start(launch, &mut command) {
                Ok(child) => break (child, start, spawning),
                Err(fault) if spawn::is_busy(&fault) && pauses < BUSY_PAUSES_MAX => {
                    drop(spawning);
                    pauses += 1;
                    tokio::time::sleep(BUSY_PAUSE).await;
                }
                Err(fault) => return Err(fault),
            }
        };
        drop(room);
        let pid = child.id().unwrap_or_default();
        shared.commands.enter(id, pid, start, launch.uninterruptible);
        drop(spawning);
        let mut kill_on_drop = KillOnDrop { shared, pid, disarmed: launch.uninterruptible };
        let mut pump = Pump::new(&mut child, launch, input, live.as_ref());
        let ended = wait_or_kill(shared, launch, pid, &mut child, &mut pump, cancel).await;
        if launch.leaves_nothing
            && let Some(running) = shared.commands.get(pid)
        {
            tree::end_command(shared, &running).await;
        }
        kill_on_drop.disarmed = true;
        // What the child wrote last may still be on its way; what it left running may hold the pipes for
        // ever.
        let _ = tokio::time::timeout(OUTPUT_DRAIN, pump.run()).await;
        drop(kill_on_drop);
        drop(child);
        reaper::after_command(shared);
        Ok(ended.into_exit(pid, pump))
    }
}

impl Processes for Runner {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        Box::pin(self.carry_out(launch, live, cancel))
    }

    fn kill_everything(&self) -> BoxFuture<'_, Vec<u32>> {
        Box::pin(tree::end_escaped(&self.shared))
    }
}

/// A run that is dropped before its end takes its processes along.
struct KillOnDrop<'a> {
    shared: &'a Shared,
    pid: u32,
    disarmed: bool,
}

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        if !self.disarmed
            && let Some(running) = self.shared.commands.get(self.pid)
        {
            tree::kill_now(self.shared, &running);
        }
        self.shared.commands.leave(self.pid);
        crate::accounts::a_command_ended();
    }
}

#[derive(Default)]
struct Ended {
    status: Option<ExitStatus>,
    timed_out: bool,
    canceled: bool,
    survivors: Vec<u32>,
}

impl Ended {
    fn into_exit(self, pid: u32, pump: Pump) -> Exit {
        let (stdout, stderr) = pump.finish();
        Exit {
            pid,
            code: self.status.and_then(|status| status.code()),
            signal: self.status.and_then(|status| status.signal()),
            stdout,
            stderr,
            timed_out: self.timed_out,
            canceled: self.canceled,
            survivors: self.survivors,
        }
    }
}

async fn pass(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Carries output until the child ends, the time is up or somebody cancels; in the last two cases ends the
/// tree first.
async fn wait_or_kill(
    shared: &Shared,
    launch: &Launch,
    pid: u32,
    child: &mut Child,
    pump: &mut Pump,
    cancel: &CancellationToken,
) -> Ended {
    let mut ended = Ended::default();
    let timeout = pass(launch.timeout);
    tokio::pin!(timeout);
    while ended.status.is_none() {
        tokio::select! {
            status = child.wait() => {
                ended.status = status.ok();
                return ended;
            }
            () = pump.run(), if !pump.at_end() => {}
            () = &mut timeout, if !ended.timed_out => ended.timed_out = true,
            () = cancel.cancelled(), if !ended.canceled => ended.canceled = true,
        }
        let stop = (ended.timed_out || ended.canceled) && !launch.uninterruptible;
        if stop && let Some(running) = shared.commands.get(pid) {
            end_tree(shared, &running, child, pump, &mut ended).await;
            return ended;
        }
    }
    ended
}

/// Output is still carried while the tree ends: a process that cleans up may have to write, and must not
/// block on us.
async fn end_tree(shared: &Shared, running: &Running, child: &mut Child, pump: &mut Pump, ended: &mut Ended) {
    let ending = tree::end_command(shared, running);
    tokio::pin!(ending);
    loop {
        tokio::select! {
            survivors = &mut ending => {
                ended.survivors = survivors;
                break;
            }
            status = child.wait(), if ended.status.is_none() => ended.status = status.ok(),
            () = pump.run(), if !pump.at_end() => {}
        }
    }
    if ended.status.is_none() {
        let waited = tokio::time::timeout(LAST_WAIT, child.wait()).await;
        ended.status = waited.ok().and_then(Result::ok);
    }
}
