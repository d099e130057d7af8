//! Which jobs have a task here, and how messages reach them.
//!
//! Sending never waits. What finds a full inbox is read again from the stream; who came and went stands in none, and is kept beside
//! it. A heartbeat that begins or ends costs what its
//! peel has to do, however many jobs run (J-26).

use super::held::{Held, HeldBytes};
use super::requester::Requester;
use super::signs::{Sign, Signs};
use super::targets::JobTargets;
use super::task::Task;
use crate::catch_up::Losses;
use crate::core::Core;
use crate::limits::{HELD_PAUSE, JOB_INBOX, JOBS_MAX};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::{mpsc, oneshot};
use zester_jobs::{CancelEffect, Owner, RefusedRequests};
use zester_wire::{Jid, MasterId, PeelId, Refusal, Return, UnixMillis};

/// What a job is told.
#[derive(Debug)]
pub enum JobMessage {
    Ack {
        peel: PeelId,
        dispatch_epoch: u64,
    },
    /// With the room that it takes until it is stored.
    Return(Box<Return>, Held),
    /// The stream has the event of it. Whoever asked for it hears what it met.
    Cancel {
        by: String,
        answer: Option<oneshot::Sender<CancelEffect>>,
    },
    Connected(PeelId),
    /// What was sent may be lost.
    AskAgain,
    /// Its heartbeat ended.
    Gone {
        peel: PeelId,
        stopped: bool,
    },
    /// Whether this master hears anybody.
    Hearing(bool),
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
    held: HeldBytes,
    signs: Signs,
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

    /// Leaves a return of so many bytes; one that finds no room is found again in the stream.
    pub fn leave_return(&self, ret: Return, bytes: usize) {
        match self.held.take(bytes) {
            Some(held) => self.leave(JobMessage::Return(Box::new(ret), held)),
            None => self.losses.dropped(),
        }
    }

    /// Hands over a return that was read from the stream, once it has room: every job ends, and with it what it holds. A job
    /// that has ended meanwhile needs it no more.
    pub async fn hand_return(&self, ret: Return, bytes: usize) {
        while !self.inbox.is_closed() {
            if let Some(held) = self.held.take(bytes) {
                let _ended = self.hand(JobMessage::Return(Box::new(ret), held)).await;
                return;
            }
            tokio::time::sleep(HELD_PAUSE).await;
        }
    }

    /// Hands over a message that stands in no stream. Gives it back when the job is gone.
    pub async fn hand(&self, message: JobMessage) -> Result<(), JobMessage> {
        self.inbox.send(message).await.map_err(|unsent| unsent.0)
    }
}

/// What a job reads.
pub struct Inbox {
    messages: mpsc::Receiver<JobMessage>,
    signs: Signs,
}

impl Inbox {
    /// The next, once there is one. Nothing is lost where nobody waits for it to the end.
    pub async fn next(&mut self) -> Vec<JobMessage> {
        tokio::select! {
            biased;
            Some(message) = self.messages.recv() => vec![message],
            signs = self.signs.take() => signs,
        }
    }

    /// Takes nothing more.
    pub fn close(&mut self) {
        self.messages.close();
    }

    /// What came before it was closed.
    pub fn left(&mut self) -> Option<JobMessage> {
        self.messages.try_recv().ok()
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
    /// A copy of its request was refused for good.
    Refused(Option<Box<Requester>>, Refusal),
}

#[derive(Default)]
pub struct RunningJobs {
    jobs: RwLock<BTreeMap<Jid, Handle>>,
    /// Which of them asked a peel. Under a lock of its own: that of a large job takes a while, and messages do not wait for it.
    by_peel: RwLock<HashMap<PeelId, Vec<Jid>>>,
    held: HeldBytes,
    /// What will not run. Looked at and written under the lock of `jobs`: a job is refused or begun, never both.
    refused: Mutex<RefusedRequests>,
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

    /// Refuses a request whose client waits until then, unless a copy of it was begun: then this is its job. What to answer.
    pub fn refuse_new(
        &self,
        jid: &Jid,
        refusal: Refusal,
        until: UnixMillis,
        now: UnixMillis,
    ) -> Result<Refusal, Handle> {
        let jobs = self.write();
        match jobs.get(jid) {
            Some(handle) => Err(handle.clone()),
            None => Ok(self.refused().refuse(jid, refusal, until, now)),
        }
    }

    /// Refuses a request whose job ends with that.
    pub fn refuse(&self, jid: &Jid, refusal: Refusal, until: UnixMillis, now: UnixMillis) -> Refusal {
        let _jobs = self.write();
        self.refused().refuse(jid, refusal, until, now)
    }

    fn refused(&self) -> MutexGuard<'_, RefusedRequests> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The room for returns of all jobs.
    pub fn held(&self) -> &HeldBytes {
        &self.held
    }

    /// Tells every job that asked this peel that it came (back).
    pub fn connected(&self, peel: &PeelId) {
        for handle in self.that_asked(peel) {
            handle.signs.leave(&handle.inbox, peel, Sign::Connected);
        }
    }

    /// Tells every job that asked this peel that its heartbeat ended, and whether it said so.
    pub fn gone(&self, peel: &PeelId, stopped: bool) {
        for handle in self.that_asked(peel) {
            handle.signs.leave(&handle.inbox, peel, Sign::Gone { stopped });
        }
    }

    /// Tells every job whether this master hears anybody.
    pub fn hearing(&self, hears: bool) {
        self.read().values().for_each(|handle| handle.signs.leave_hearing(&handle.inbox, hears));
    }

    fn that_asked(&self, peel: &PeelId) -> Vec<Handle> {
        let by_peel = self.by_peel.read().unwrap_or_else(PoisonError::into_inner);
        let Some(jids) = by_peel.get(peel) else { return Vec::new() };
        let jobs = self.read();
        jids.iter().filter_map(|jid| jobs.get(jid).cloned()).collect()
    }

    /// Before the task of a job looks who is there, so that it misses nobody who comes after that.
    fn note_targets(&self, jid: &Jid, targets: &JobTargets) {
        let mut by_peel = self.by_peel.write().unwrap_or_else(PoisonError::into_inner);
        for peel in targets.names() {
            by_peel.entry(peel.clone()).or_default().push(jid.clone());
        }
    }

    fn forget_targets(&self, jid: &Jid, targets: &JobTargets) {
        let mut by_peel = self.by_peel.write().unwrap_or_else(PoisonError::into_inner);
        for peel in targets.names() {
            let Some(jids) = by_peel.get_mut(peel) else { continue };
            jids.retain(|asked| asked != jid);
            if jids.is_empty() {
                by_peel.remove(peel);
            }
        }
    }

    pub fn handles(&self) -> Vec<(Jid, Handle)> {
        self.read().iter().map(|(jid, handle)| (jid.clone(), handle.clone())).collect()
    }

    /// The record that stands may name other targets than the request would.
    pub fn retarget(&self, jid: &Jid, targets: Arc<JobTargets>) {
        let replaced =
            self.write().get_mut(jid).map(|handle| std::mem::replace(&mut handle.targets, targets.clone()));
        if let Some(before) = replaced {
            self.forget_targets(jid, &before);
            self.note_targets(jid, &targets);
        }
    }

    pub fn remove(&self, jid: &Jid) {
        let removed = self.write().remove(jid);
        if let Some(handle) = removed {
            self.forget_targets(jid, &handle.targets);
        }
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
    let ((inbox, messages), signs) = (mpsc::channel(JOB_INBOX), Signs::default());
    let targets = Arc::new(JobTargets::new(&owner.job().targets));
    {
        let mut jobs = core.running.write();
        if jobs.contains_key(&jid) {
            return Err(Unstarted::UnderWay(requester));
        }
        // A reaction is asked for again under the same id, and no client was promised anything.
        let is_promised = requester.as_ref().is_some_and(|requester| requester.claim_until > UnixMillis(0));
        let refused = core.running.refused().get(&jid, core.link.now()).filter(|_| is_promised).cloned();
        if let Some(refusal) = refused {
            return Err(Unstarted::Refused(requester, refusal));
        }
        // An orphan is one of those that run already.
        let elsewhere = if adopted { 0 } else { core.jobs_elsewhere.load(Ordering::Relaxed) };
        if !has_room(jobs.len(), elsewhere) {
            return Err(Unstarted::TooMany(requester));
        }
        let (losses, held) = (core.losses.clone(), core.running.held.clone());
        let handle = Handle { inbox, losses, targets: targets.clone(), held, signs: signs.clone() };
        jobs.insert(jid.clone(), handle);
    }
    core.running.note_targets(&jid, &targets);
    let inbox = Inbox { messages, signs };
    let task = Task::new(core.clone(), owner, adopted, inbox, targets, requester);
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
    use crate::limits::RETURNS_HELD_BYTES_MAX;
    use zester_rule::rule;
    use zester_wire::{Cause, UnixMillis};

    fn jid(number: u8) -> Jid {
        Jid::new(UnixMillis(1_800_000_000_000), [number; 16])
    }

    fn peel(name: &str) -> PeelId {
        PeelId::parse(name).unwrap()
    }

    fn job(running: &RunningJobs, number: u8, peels: &[&str]) -> mpsc::Receiver<JobMessage> {
        let (inbox, messages) = mpsc::channel(8);
        let names: Vec<PeelId> = peels.iter().map(|name| peel(name)).collect();
        let targets = Arc::new(JobTargets::new(&names));
        running.note_targets(&jid(number), &targets);
        let (losses, signs) = (Arc::default(), Signs::default());
        let handle = Handle { inbox, losses, targets, held: running.held.clone(), signs };
        running.write().insert(jid(number), handle);
        messages
    }

    #[test]
    #[rule("J-26")]
    fn j26_a_heartbeat_reaches_the_jobs_of_its_peel_and_no_others() {
        let running = RunningJobs::default();
        let mut both = job(&running, 1, &["web-1", "db-1"]);
        let mut web = job(&running, 2, &["web-1"]);
        running.connected(&peel("db-1"));
        assert!(matches!(both.try_recv(), Ok(JobMessage::Connected(name)) if name == peel("db-1")));
        assert!(web.try_recv().is_err());
        running.gone(&peel("web-1"), false);
        assert!(matches!(both.try_recv(), Ok(JobMessage::Gone { .. })));
        assert!(matches!(web.try_recv(), Ok(JobMessage::Gone { .. })));
        // The record that stands names another.
        running.retarget(&jid(2), Arc::new(JobTargets::new(&[peel("mail-1")])));
        running.gone(&peel("web-1"), false);
        assert!(web.try_recv().is_err());
        running.gone(&peel("mail-1"), false);
        assert!(matches!(web.try_recv(), Ok(JobMessage::Gone { .. })));
        running.remove(&jid(1));
        running.remove(&jid(2));
        let left = running.by_peel.read().unwrap();
        assert!(left.is_empty(), "nothing is kept of jobs that are over: {left:?}");
    }

    #[tokio::test]
    #[rule("J-8", "J-26")]
    async fn j26_who_came_and_went_while_the_inbox_was_full_is_told_as_it_is_now() {
        let running = RunningJobs::default();
        let messages = job(&running, 1, &["web-1", "db-1"]);
        let handle = running.get(&jid(1)).unwrap();
        let mut inbox = Inbox { messages, signs: handle.signs.clone() };
        (0..8).for_each(|_| handle.leave(JobMessage::AskAgain));
        running.connected(&peel("web-1"));
        running.gone(&peel("web-1"), true);
        running.hearing(false);
        // There is room again, and what is older still waits.
        assert!(matches!(inbox.left(), Some(JobMessage::AskAgain)));
        running.connected(&peel("web-1"));
        running.gone(&peel("db-1"), false);
        running.hearing(true);
        assert!(!handle.losses.are_noticed(), "no stream has it");
        for _ in 0..7 {
            assert!(matches!(inbox.left(), Some(JobMessage::AskAgain)));
        }
        let told = inbox.next().await;
        assert!(
            matches!(&told[..], [JobMessage::Gone { peel: db, stopped: false }] if db == &peel("db-1")),
            "{told:?}"
        );
        let told = inbox.next().await;
        let is_now = matches!(&told[..], [JobMessage::Connected(web), JobMessage::Hearing(true)] if web == &peel("web-1"));
        assert!(is_now, "{told:?}");
        // From now on they come by the inbox again.
        running.gone(&peel("web-1"), false);
        assert!(matches!(inbox.left(), Some(JobMessage::Gone { .. })));
    }

    #[test]
    #[rule("J-9")]
    fn j9_a_return_without_room_is_a_loss_that_the_stream_makes_good() {
        let running = RunningJobs::default();
        let mut messages = job(&running, 1, &["web-1"]);
        let handle = running.get(&jid(1)).unwrap();
        let ret = || Return::refusing(jid(1), peel("web-1"), 1, Cause::Finished, "");
        handle.leave_return(ret(), RETURNS_HELD_BYTES_MAX);
        assert!(!handle.losses.are_noticed());
        handle.leave_return(ret(), 1);
        assert!(handle.losses.are_noticed());
        assert!(matches!(messages.try_recv(), Ok(JobMessage::Return(..))));
        assert!(messages.try_recv().is_err());
        handle.leave_return(ret(), 1);
        assert!(messages.try_recv().is_ok(), "what was let go made room");
    }

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
