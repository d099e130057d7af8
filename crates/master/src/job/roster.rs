//! Which jobs have a task here, and how messages reach them.
//!
//! Sending never waits. A job whose inbox is full is told that it missed something, and reads it again from the stream.

use super::asker::Asker;
use super::task::Task;
use crate::core::Core;
use crate::limits::{JOB_INBOX, JOBS_MAX};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::{Notify, mpsc, oneshot};
use zester_jobs::{CancelEffect, Owner};
use zester_wire::{Jid, PeelId, Return};

/// What a job is told.
#[derive(Debug)]
pub enum Mail {
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
    /// Its heartbeat ended.
    Gone(PeelId),
    /// A client asks for the same jid.
    Asked(Box<Asker>),
}

/// How a job is reached.
#[derive(Clone)]
pub struct Handle {
    inbox: mpsc::Sender<Mail>,
    missed: Arc<Notify>,
    targets: Arc<HashSet<PeelId>>,
}

impl Handle {
    /// Leaves a message; one that finds no room is found again in the stream.
    pub fn leave(&self, mail: Mail) {
        if self.inbox.try_send(mail).is_err() {
            self.missed.notify_one();
        }
    }

    /// Hands over a message that stands in no stream. Gives it back when the job is gone.
    pub async fn hand(&self, mail: Mail) -> Result<(), Mail> {
        self.inbox.send(mail).await.map_err(|unsent| unsent.0)
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
    UnderWay(Option<Box<Asker>>),
    TooMany(Option<Box<Asker>>),
    Stopping(Option<Box<Asker>>),
}

#[derive(Default)]
pub struct Roster {
    jobs: RwLock<BTreeMap<Jid, Handle>>,
}

impl Roster {
    pub fn len(&self) -> usize {
        self.read().len()
    }

    pub fn get(&self, jid: &Jid) -> Option<Handle> {
        self.read().get(jid).cloned()
    }

    pub fn contains(&self, jid: &Jid) -> bool {
        self.read().contains_key(jid)
    }

    /// Leaves a message for a job. Gives it back if nobody here has the job.
    pub fn leave(&self, jid: &Jid, mail: Mail) -> Result<(), Mail> {
        match self.read().get(jid) {
            Some(handle) => {
                handle.leave(mail);
                Ok(())
            }
            None => Err(mail),
        }
    }

    /// Tells every job that asked this peel that it came (back).
    pub fn connected(&self, peel: &PeelId) {
        for handle in self.read().values().filter(|handle| handle.targets.contains(peel)) {
            handle.leave(Mail::Connected(peel.clone()));
        }
    }

    /// Tells every job that asked this peel that its heartbeat ended.
    pub fn gone(&self, peel: &PeelId) {
        for handle in self.read().values().filter(|handle| handle.targets.contains(peel)) {
            handle.leave(Mail::Gone(peel.clone()));
        }
    }

    /// Tells every job that messages may be lost.
    pub fn missed(&self) {
        self.read().values().for_each(|handle| handle.missed.notify_one());
    }

    /// The record that stands may name other targets than the request would.
    pub fn retarget(&self, jid: &Jid, targets: &[PeelId]) {
        if let Some(handle) = self.write().get_mut(jid) {
            handle.targets = Arc::new(targets.iter().cloned().collect());
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

/// Gives a job its task: registers it, so that there is never a second, and has it started.
pub async fn start(
    core: &Arc<Core>,
    owner: Owner,
    adopted: bool,
    asker: Option<Asker>,
) -> Result<(), Unstarted> {
    let asker = asker.map(Box::new);
    if core.detach.is_cancelled() {
        return Err(Unstarted::Stopping(asker));
    }
    let jid = owner.job().jid.clone();
    let (inbox, mail) = mpsc::channel(JOB_INBOX);
    let missed = Arc::new(Notify::new());
    let targets = Arc::new(owner.job().targets.iter().cloned().collect());
    {
        let mut jobs = core.roster.write();
        if jobs.contains_key(&jid) {
            return Err(Unstarted::UnderWay(asker));
        }
        if jobs.len() >= JOBS_MAX {
            return Err(Unstarted::TooMany(asker));
        }
        jobs.insert(jid.clone(), Handle { inbox, missed: missed.clone(), targets });
    }
    let task = Task::new(core.clone(), owner, adopted, mail, missed, asker);
    match core.starts.send(Start { task }).await {
        Ok(()) => Ok(()),
        Err(unsent) => {
            core.roster.remove(&jid);
            Err(Unstarted::Stopping(unsent.0.task.into_asker()))
        }
    }
}
