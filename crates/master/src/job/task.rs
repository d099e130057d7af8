//! One job: the machine decides, this carries out.
//!
//! Steps run one after the other, returns are written beside them, and messages are taken all the while. What the job asked
//! to tell the world waits in a line of its own, so that a slow stream does not hold up the work.

use super::action::{Action, Ended, carry_out, mark};
use super::held::Held;
use super::persist::Persists;
use super::publish::Events;
use super::requester::Requester;
use super::running_jobs::{Inbox, JobMessage};
use super::targets::JobTargets;
use crate::core::Core;
use crate::limits::{FINISH_LIMIT, REQUESTERS_MAX};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use zester_jobs::intake::{Verdict, judge};
use zester_jobs::{CancelEffect, Command, Event, Note, Owner, Stage, messages};
use zester_link::SteadyClock;
use zester_wire::{Jid, Job, Refusal, Subject, TargetTree};

pub struct Task {
    core: Arc<Core>,
    owner: Owner,
    clock: SteadyClock,
    inbox: Inbox,
    targets: Arc<JobTargets>,
    /// Clients that wait to hear that the job was accepted.
    requesters: Vec<Requester>,
    accepted: bool,
    /// Who wait to hear what their cancel met.
    killers: Vec<oneshot::Sender<CancelEffect>>,
    /// It came from a master that died.
    adopted: bool,
    counted: bool,
    steps: VecDeque<Action>,
    step: Option<BoxFuture<'static, Ended>>,
    events: Events,
    persists: Persists,
    /// The room of the return that is handed to the machine just now.
    held: Option<Held>,
    /// When those are asked again who could not be asked.
    ask_again_at: Option<Instant>,
    detached: bool,
    tree: Option<Arc<TargetTree>>,
}

impl Task {
    pub(super) fn new(
        core: Arc<Core>,
        owner: Owner,
        adopted: bool,
        inbox: Inbox,
        targets: Arc<JobTargets>,
        requester: Option<Box<Requester>>,
    ) -> Task {
        Task {
            clock: SteadyClock::new(core.link.now()),
            core,
            owner,
            inbox,
            targets,
            requesters: requester.into_iter().map(|requester| *requester).collect(),
            accepted: false,
            killers: Vec::new(),
            adopted,
            counted: false,
            steps: VecDeque::new(),
            step: None,
            events: Events::default(),
            persists: Persists::default(),
            held: None,
            ask_again_at: None,
            detached: false,
            tree: None,
        }
    }

    pub(super) fn into_requester(self) -> Option<Box<Requester>> {
        self.requesters.into_iter().next().map(Box::new)
    }

    /// Until there is nothing left to do here.
    pub async fn run(mut self) {
        let jid = self.owner.job().jid.clone();
        let registered = Registered { core: self.core.clone(), jid };
        self.begin().await;
        while !self.owner.is_finished() {
            self.turn().await;
        }
        // From here on returns find their way as late ones; what came before is still taken.
        drop(registered);
        self.inbox.close();
        while let Some(message) = self.inbox.left() {
            self.take(message).await;
        }
        let _out_of_time = tokio::time::timeout(FINISH_LIMIT, self.finish()).await;
        self.dismiss().await;
    }

    async fn begin(&mut self) {
        let absent = self.core.index.absent(&self.owner.job().targets);
        self.step(Event::Begin { absent }).await;
    }

    /// Waits for whatever happens next, and takes it.
    async fn turn(&mut self) {
        self.start_what_waits();
        let wake = self.owner.next_wake().map(|moment| self.clock.instant_of(moment));
        tokio::select! {
            biased;
            () = self.core.detach.cancelled(), if !self.detached => {
                self.detached = true;
                self.step(Event::Detach).await;
            }
            ended = open(&mut self.step) => {
                self.step = None;
                self.ended(ended).await;
            }
            () = at(wake) => self.step(Event::Tick).await,
            Some((event, held)) = self.persists.next() => self.wrote(event, held).await,
            () = at(self.ask_again_at) => {
                self.ask_again_at = None;
                self.step(Event::AskAgain).await;
            }
            () = self.events.next() => {}
            messages = self.inbox.next() => {
                for message in messages {
                    self.take(message).await;
                }
            }
        }
    }

    /// Lets what is under way end.
    async fn finish(&mut self) {
        loop {
            self.start_what_waits();
            if self.step.is_none() && self.persists.is_empty() && self.events.is_empty() {
                return;
            }
            tokio::select! {
                biased;
                ended = open(&mut self.step) => {
                    self.step = None;
                    self.ended(ended).await;
                }
                Some((event, held)) = self.persists.next() => self.wrote(event, held).await,
                () = self.events.next() => {}
            }
        }
    }

    /// Nobody is left without an answer.
    async fn dismiss(&mut self) {
        for requester in self.requesters.drain(..) {
            let why = Requester::in_doubt("this master let the job go before it ran; ask again");
            requester.refuse(&self.core, why).await;
        }
    }

    fn start_what_waits(&mut self) {
        if self.step.is_none()
            && let Some(step) = self.steps.pop_front()
        {
            self.step = Some(Box::pin(carry_out(self.core.clone(), step)));
        }
        self.events.start(&self.core);
        self.persists.start(&self.core.link);
    }

    async fn take(&mut self, message: JobMessage) {
        match message {
            JobMessage::Ack { peel, dispatch_epoch } => self.step(Event::Ack { peel, dispatch_epoch }).await,
            JobMessage::Return(ret, held) => self.step_holding(Event::Return(ret), held).await,
            JobMessage::Cancel { by, answer } => {
                self.killers.extend(answer);
                self.step(Event::Cancel { by }).await;
            }
            JobMessage::AskAgain => self.step(Event::AskAgain).await,
            JobMessage::Connected(peel) => self.step(Event::Connected { peel }).await,
            JobMessage::Gone { peel, stopped } => self.step(Event::Gone { peel, stopped }).await,
            JobMessage::Hearing(hears) => self.step(Event::Hearing(hears)).await,
            JobMessage::OwnedBy { owner, epoch } => self.step(Event::OwnedBy { owner, epoch }).await,
            JobMessage::Asked(requester) => self.asked(*requester).await,
        }
    }

    /// The same jid again while it is under way here (J-3).
    async fn asked(&mut self, requester: Requester) {
        let job = self.owner.job();
        if !requester.request.is_intent_of(job) {
            let conflict = judge(job, &requester.request, &self.core.id, false);
            if let Verdict::Refuse(refusal) = conflict {
                requester.refuse(&self.core, refusal).await;
            }
        } else if self.accepted {
            requester.accept_known(&self.core, &job.jid, &job.targets).await;
        } else if self.requesters.len() < REQUESTERS_MAX {
            self.requesters.push(requester);
        } else {
            requester.refuse(&self.core, Requester::in_doubt("too many ask for this job; ask again")).await;
        }
    }

    async fn ended(&mut self, ended: Ended) {
        match ended {
            Ended::Answer(event) => {
                if let Event::Loaded(Ok(returns)) = &event {
                    returns.iter().for_each(|ret| self.targets.set_stored(&ret.peel));
                }
                self.step(event).await;
            }
            Ended::Sent { unsent } if unsent.is_empty() => {}
            Ended::Sent { .. } => {
                self.ask_again_at = Some(Instant::now() + self.core.timing.retry_pause);
            }
        }
    }

    async fn wrote(&mut self, event: Event, held: Held) {
        if let Event::Persisted { peel } = &event {
            self.targets.set_stored(peel);
            self.core.metrics.returns_stored.inc();
        }
        // What could not be written waits for its next try, in the same room.
        self.step_holding(event, held).await;
    }

    /// A step about one return. Its room goes with it to the disk, or is free when the machine does not want it.
    async fn step_holding(&mut self, event: Event, held: Held) {
        self.held = Some(held);
        self.step(event).await;
        self.held = None;
    }

    /// Tells the machine, and takes note of what it wants.
    async fn step(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            match self.owner.step(event, self.clock.now()) {
                Ok(commands) => next = self.obey(commands).await,
                Err(illegal) => {
                    self.core.metrics.illegal.inc();
                    let (state, event) = (illegal.state, illegal.event);
                    tracing::error!(jid = %self.owner.job().jid, state, event, "a job met what it cannot take");
                }
            }
        }
    }

    /// An event to go on with, where another machine took over.
    async fn obey(&mut self, commands: Vec<Command>) -> Option<Event> {
        for command in commands {
            if let Command::Existing { job, revision } = command {
                // What follows belongs to a machine that lost; the one that takes over asks anew.
                return self.existing(*job, revision).await;
            }
            self.note(command).await;
        }
        None
    }

    async fn note(&mut self, command: Command) {
        let now = self.clock.now();
        let job = self.owner.job();
        match command {
            Command::CreateRecord(job) => self.steps.push_back(Action::Create(job)),
            Command::WriteRecord { job, revision } => self.steps.push_back(Action::Write { job, revision }),
            Command::MarkActive => self.steps.push_back(Action::MarkActive(mark(job, now))),
            Command::PublishDispatch => {
                self.steps.push_back(Action::Announce(messages::dispatch_event(job, now)));
            }
            Command::Accept => self.accept().await,
            Command::Existing { .. } => {}
            Command::SendExec { peels, budget } => {
                if let Some(Action::Exec { request, peels: more, .. }) = self.steps.back_mut()
                    && request.budget == budget
                {
                    more.extend(peels);
                } else {
                    let request = Box::new(messages::exec_request(job, budget));
                    let tree = self.tree();
                    self.steps.push_back(Action::Exec { request, peels, tree });
                }
            }
            Command::LoadReturns => {
                self.steps.push_back(Action::Load(job.jid.clone()));
                self.count();
            }
            Command::Replay => {
                let (jid, dispatch_epoch) = (job.jid.clone(), job.dispatch_epoch);
                self.steps.push_back(Action::Replay { jid, dispatch_epoch });
            }
            Command::Persist { ret, pause } => {
                let held = self.held.take().unwrap_or_else(|| {
                    let bytes = zester_wire::encode(&*ret).map_or(0, |bytes| bytes.len());
                    self.core.running.held().take_anyway(bytes)
                });
                self.persists.add(ret, pause, held);
            }
            Command::Refuse(refusal) => self.refuse(&refusal).await,
            Command::CancelTaken(effect) => {
                for killer in self.killers.drain(..) {
                    // Who has gone needs no answer.
                    let _gone = killer.send(effect);
                }
            }
            Command::SendCancel { peels } => {
                let cancel = messages::cancel(job);
                self.steps.push_back(Action::Cancel { cancel, peels });
            }
            Command::PublishStatus => {
                let event = messages::status_event(job, now);
                self.events.add(Subject::JobStatus { jid: event.jid.clone() }, event);
            }
            Command::EmitFinalized => match messages::finalized_event(job, now) {
                Ok((subject, event)) => {
                    self.steps.push_back(Action::Emit { subject, event: Box::new(event) })
                }
                Err(bad) => tracing::error!(jid = %job.jid, "no event can be made of the job: {bad}"),
            },
            Command::PurgeActive => self.steps.push_back(Action::Purge(job.jid.clone())),
            Command::Stop => self.stopped(),
            Command::Note(note) => self.remark(&note),
        }
    }

    /// What proves to each peel that the operator named it. The same for every request of the job.
    fn tree(&mut self) -> Option<Arc<TargetTree>> {
        let job = self.owner.job();
        let digest = job.target_digest.as_ref()?;
        if self.tree.as_ref().is_none_or(|tree| tree.digest() != *digest) {
            self.tree = Some(Arc::new(TargetTree::new(&job.targets)));
        }
        self.tree.clone()
    }

    async fn accept(&mut self) {
        let first = !std::mem::replace(&mut self.accepted, true);
        self.count();
        let job = self.owner.job();
        if first && let Some(event) = messages::dispatched_event(job, self.clock.now()).transpose() {
            self.core.events.tell(event);
        }
        for requester in std::mem::take(&mut self.requesters) {
            requester.accept(&self.core, &job.jid, &job.targets).await;
        }
    }

    async fn refuse(&mut self, refusal: &Refusal) {
        tracing::warn!(jid = %self.owner.job().jid, "a job was refused: {refusal}");
        for requester in std::mem::take(&mut self.requesters) {
            requester.refuse(&self.core, refusal.clone()).await;
        }
    }

    /// A job counts once it runs here.
    fn count(&mut self) {
        if std::mem::replace(&mut self.counted, true) {
            return;
        }
        if !self.adopted {
            self.core.metrics.dispatched.inc();
            return;
        }
        let job = self.owner.job();
        tracing::info!(jid = %job.jid, epoch = job.epoch, "adopted a job of a master that died");
        self.core.metrics.adopted.inc();
    }

    /// The jid is taken: what is there decides (J-3).
    async fn existing(&mut self, job: Job, revision: u64) -> Option<Event> {
        let core = self.core.clone();
        let Some(requester) = self.requesters.first() else {
            return Some(Event::Superseded);
        };
        let verdict = judge(&job, &requester.request, &core.id, core.orphans.is_dead(&job.owner));
        let timing = core.timing.clone();
        match verdict {
            Verdict::Resume => {
                self.owner = Owner::resume(job, revision, requester.claim_until, timing);
            }
            Verdict::Adopt => match Owner::adopt(job, revision, core.id.clone(), timing) {
                Ok(owner) => {
                    self.owner = owner;
                    self.adopted = true;
                }
                Err(_) => return None,
            },
            Verdict::Same => {
                for requester in std::mem::take(&mut self.requesters) {
                    requester.accept_known(&core, &job.jid, &job.targets).await;
                }
                return None;
            }
            Verdict::Refuse(refusal) => {
                if refusal.kind == zester_wire::RefusalKind::ClaimPending {
                    core.orphans.look_at(&job.jid);
                }
                for requester in std::mem::take(&mut self.requesters) {
                    requester.refuse(&core, refusal.clone()).await;
                }
                return None;
            }
        }
        let job = self.owner.job();
        self.targets = Arc::new(JobTargets::new(&job.targets));
        core.running.retarget(&job.jid, self.targets.clone());
        Some(Event::Begin { absent: core.index.absent(&job.targets) })
    }

    fn stopped(&mut self) {
        let job = self.owner.job();
        if self.owner.stage() == Stage::Done {
            self.core.ended.note(job);
            self.core.metrics.finalized(job.status);
            tracing::info!(jid = %job.jid, status = job.status.as_str(), "the job is over");
        }
    }

    fn remark(&self, note: &Note) {
        tracing::debug!(jid = %self.owner.job().jid, "{note:?}");
    }
}

/// A job that has a task. Also one whose task breaks is none any more: a scan will find it.
struct Registered {
    core: Arc<Core>,
    jid: Jid,
}

impl Drop for Registered {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.core.orphans.broke(&self.jid);
        }
        self.core.running.remove(&self.jid);
    }
}

/// What is open, if anything is.
async fn open<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
