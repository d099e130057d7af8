//! Which jobs have a task here, and how messages reach them.
//!
//! Sending never waits. What finds a full inbox is read again from the stream.

use super::requester::Requester;
use super::targets::JobTargets;
use super::task::Task;
use crate::catch_up::Losses;
use crate::core::Core;
use crate::limits::{JOB_INBOX, JOBS_MAX};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::{mpsc, oneshot};
use zester_jobs::{CancelEffect, Owner};
use zester_wire::{Jid, MasterId, PeelId, Return};

/// What a job is told.
#[derive(Debug)]
pub enum JobMessage {
    Ack {
        peel: PeelId,
        dispatch_epoch: u64,
    },
    Return(Box<Return>),
    /// The stream has the event of it. Whoever asked for it hears what it met.
    Cancel {
        by: String,
        answer: Option<oneshot::Sender<CancelEffect>>,
    },
    Connected(PeelId),
    /// What was sent may be lost.
    AskAgain,
    /// Its heartbeat ended.
    Gone(PeelId),
    /// Who owns the job by its record.
    OwnedBy {
        owner: MasterId,
        epoch: u64,
    },
    /// A client asks for the same jid.
    Asked(Box<Requester>),
}

/// How a job is reached.
#[derive(Clone)]
pub struct Handle {
    inbox: mpsc::Sender<JobMessage>,
    losses: Arc<Losses>,
    targets: Arc<JobTargets>,
}

impl Handle {
    pub fn targets(&self) -> &Arc<JobTargets> {
        &self.targets
    }

    /// Leaves a message; one that finds no room is found again in the stream.
    pub fn leave(&self, message: JobMessage) {
        if self.inbox.try_send(message).is_err() {
            self.losses.dropped();
        }
    }

    /// Hands over a message that stands in no stream. Gives it back when the job is gone.
    pub async fn hand(&self, message: JobMessage) -> Result<(), JobMessage> {
        self.inbox.send(message).await.map_err(|unsent| unsent.0)
    }
}

/// A task to be started.
pub struct Start {
    pub task: Task,
}

/// Why a job gets no task.
#[derive(Debug)]
pub enum Unstarted {
    /// It has one.
    UnderWay(Option<Box<Requester>>),
    TooMany(Option<Box<Requester>>),
    Stopping(Option<Box<Requester>>),
}

#[derive(Default)]
pub struct RunningJobs {
    jobs: RwLock<BTreeMap<Jid, Handle>>,
}

impl RunningJobs {
    pub fn len(&self) -> usize {
        self.read().len()
    }

    pub fn get(&self, jid: &Jid) -> Option<Handle> {
        self.read().get(jid).cloned()
    }

    pub fn contains(&self, jid: &Jid) -> bool {
        self.read().contains_key(jid)
    }

    /// Tells every job that asked this peel that it came (back).
    pub fn connected(&self, peel: &PeelId) {
        for handle in self.read().values().filter(|handle| handle.targets.contains(peel)) {
            handle.leave(JobMessage::Connected(peel.clone()));
        }
    }

    /// Tells every job that asked this peel that its heartbeat ended.
    pub fn gone(&self, peel: &PeelId) {
        for handle in self.read().values().filter(|handle| handle.targets.contains(peel)) {
            handle.leave(JobMessage::Gone(peel.clone()));
        }
    }

    pub fn handles(&self) -> Vec<(Jid, Handle)> {
        self.read().iter().map(|(jid, handle)| (jid.clone(), handle.clone())).collect()
    }

    /// The record that stands may name other targets than the request would.
    pub fn retarget(&self, jid: &Jid, targets: Arc<JobTargets>) {
        if let Some(handle) = self.write().get_mut(jid) {
            handle.targets = targets;
        }
    }

    pub fn remove(&self, jid: &Jid) {
        self.write().remove(jid);
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Jid, Handle>> {
        self.jobs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Jid, Handle>> {
        self.jobs.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether one more job may run over all masters (J-27).
fn has_room(here: usize, elsewhere: usize) -> bool {
    here.saturating_add(elsewhere) < JOBS_MAX
}

/// Gives a job its task: registers it, so that there is never a second, and has it started.
pub async fn start(
    core: &Arc<Core>,
    owner: Owner,
    adopted: bool,
    requester: Option<Requester>,
) -> Result<(), Unstarted> {
    let requester = requester.map(Box::new);
    if core.detach.is_cancelled() {
        return Err(Unstarted::Stopping(requester));
    }
    let jid = owner.job().jid.clone();
    let (inbox, message) = mpsc::channel(JOB_INBOX);
    let targets = Arc::new(JobTargets::new(&owner.job().targets));
    {
        let mut jobs = core.running.write();
        if jobs.contains_key(&jid) {
            return Err(Unstarted::UnderWay(requester));
        }
        // An orphan is one of those that run already.
        let elsewhere = if adopted { 0 } else { core.jobs_elsewhere.load(Ordering::Relaxed) };
        if !has_room(jobs.len(), elsewhere) {
            return Err(Unstarted::TooMany(requester));
        }
        jobs.insert(jid.clone(), Handle { inbox, losses: core.losses.clone(), targets: targets.clone() });
    }
    let task = Task::new(core.clone(), owner, adopted, message, targets, requester);
    match core.starts.send(Start { task }).await {
        Ok(()) => Ok(()),
        Err(unsent) => {
            core.running.remove(&jid);
            Err(Unstarted::Stopping(unsent.0.task.into_requester()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("J-27")]
    fn j27_ten_thousand_jobs_run_over_all_masters_and_no_more() {
        assert_eq!(JOBS_MAX, 10_000);
        assert!(has_room(JOBS_MAX - 1, 0));
        assert!(has_room(0, JOBS_MAX - 1));
        assert!(!has_room(JOBS_MAX, 0));
        assert!(!has_room(4_000, 6_000));
    }
}
