//! What happens to one job, as it happens, and how it ended.
//!
//! Messages on the bus make the view quick, and nothing more: they may be lost, and a master may die between the last write
//! and the event that announces it. The record in the bucket is what counts, so it is read every couple of seconds. None of
//! this costs the server a consumer (J-30): what was missed is read peel by peel.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{FOLLOW_QUEUE, POLL_INTERVAL, POLL_SOON};
use crate::received::{Received, Returns};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::{Delivery, Events, Listen, Message, Subscription};
use zester_link::Found;
use zester_wire::subject::all_of_job;
use zester_wire::{Ack, Jid, Job, JobEvent, JobEventKind, PeelId, Progress, Return, Subject};

/// One thing that happened to a job. Each peel acks and returns at most once here.
#[derive(Clone, Debug, PartialEq)]
pub enum JobUpdate {
    /// The peel has it; so many executions stand before it.
    Ack {
        peel: PeelId,
        ahead: u32,
    },
    Progress(Box<Progress>),
    Return(Arc<Return>),
    /// The connection to the bus is gone. The job goes on, and its end is awaited for so long.
    BusAway {
        patience: Duration,
    },
    BusBack,
    /// The last one.
    Ended(Box<Ended>),
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub job: Job,
    pub returns: Returns,
    /// False: the deadline and a failover have passed, and no master finished the job.
    pub finished: bool,
}

/// Why a follower woke up.
enum Wakeup {
    Poll,
    Delivery(Option<Delivery>),
    Connection(Option<zester_bus::Event>),
}

pub struct Follow {
    client: Client,
    jid: Jid,
    subscription: Subscription,
    events: Events,
    acked: BTreeSet<PeelId>,
    returns: Returns,
    /// Once they are known, messages of nobody else count.
    targets: Option<BTreeSet<PeelId>>,
    poll_at: Instant,
    give_up_at: Option<Instant>,
    /// Messages may have been missed: the stream is asked for them.
    needs_catch_up: bool,
    /// An event said that the job is over; the record will say so too.
    end_announced: bool,
    away: bool,
    ready: VecDeque<JobUpdate>,
    over: bool,
}

impl Client {
    /// Follows a job that exists, with what happened before.
    pub async fn follow(&self, jid: &Jid) -> Result<Follow, Error> {
        let mut follow = Follow::begin(self, jid).await?;
        let Some(job) = self.job_of(jid).await? else { return Err(Error::NoSuchJob(jid.to_string())) };
        // The deadline is of a master's clock. Ours may be off, but never by more than the job may take.
        let left = job.deadline().since(self.link.now()).min(job.timeout());
        let known = job.has_targets().then(|| job.targets.iter().cloned().collect());
        follow.expect(known, left);
        follow.needs_catch_up = true;
        follow.poll_at = Instant::now();
        Ok(follow)
    }
}

impl Follow {
    /// Subscribes. Nothing is known of the job yet.
    pub(crate) async fn begin(client: &Client, jid: &Jid) -> Result<Follow, Error> {
        let events = client.link.bus().events();
        let subscription = client.link.bus().subscribe(&all_of_job(jid), Listen::alone(FOLLOW_QUEUE)).await?;
        Ok(Follow {
            client: client.clone(),
            jid: jid.clone(),
            subscription,
            events,
            acked: BTreeSet::new(),
            returns: Returns::new(),
            targets: None,
            poll_at: Instant::now() + client.link.jittered(POLL_INTERVAL),
            give_up_at: None,
            needs_catch_up: false,
            end_announced: false,
            away: false,
            ready: VecDeque::new(),
            over: false,
        })
    }

    /// Whose messages count, where that is known, and how long the job may still take.
    pub(crate) fn expect(&mut self, targets: Option<BTreeSet<PeelId>>, left: Duration) {
        self.targets = targets;
        self.give_up_at = Instant::now().checked_add(left.saturating_add(self.client.finish_grace));
        self.poll_in(POLL_INTERVAL);
    }

    pub fn jid(&self) -> &Jid {
        &self.jid
    }

    /// The next update; none after the end. May be cancelled: what was under way is asked again. An error says nothing of the
    /// job: it goes on (J-28).
    pub async fn next(&mut self) -> Result<Option<JobUpdate>, Error> {
        let update = self.next_update().await;
        update.map_err(|why| Error::OutOfSight { jid: self.jid.clone(), why: Box::new(why) })
    }

    async fn next_update(&mut self) -> Result<Option<JobUpdate>, Error> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Ok(Some(update));
            }
            if self.over {
                return Ok(None);
            }
            let wakeup = tokio::select! {
                biased;
                // First, or a flood of messages would keep it waiting.
                () = tokio::time::sleep_until(self.poll_at) => Wakeup::Poll,
                delivery = self.subscription.next() => Wakeup::Delivery(delivery),
                event = self.events.next() => Wakeup::Connection(event),
            };
            match wakeup {
                Wakeup::Delivery(Some(Delivery::Message(message))) => self.on_message(&message),
                Wakeup::Delivery(Some(missed)) => {
                    self.client.link.delivered(missed);
                    self.needs_catch_up = true;
                }
                Wakeup::Delivery(None) | Wakeup::Connection(None) => return Err(closed()),
                Wakeup::Connection(Some(event)) => self.on_connection(&event),
                Wakeup::Poll => self.poll().await?,
            }
        }
    }

    fn on_connection(&mut self, event: &zester_bus::Event) {
        use zester_bus::Event;
        match event {
            Event::Reconnected | Event::Missed(_) => {
                self.needs_catch_up = true;
                if std::mem::take(&mut self.away) {
                    self.ready.push_back(JobUpdate::BusBack);
                }
            }
            Event::Disconnected if !std::mem::replace(&mut self.away, true) => {
                let left = self.give_up_at.map(|at| at.saturating_duration_since(Instant::now()));
                self.ready.push_back(JobUpdate::BusAway { patience: left.unwrap_or_default() });
            }
            _ => {}
        }
    }

    fn on_message(&mut self, message: &Message) {
        let link = self.client.link.clone();
        let Some(subject) = link.subject_of(message) else { return };
        match &subject {
            Subject::JobAck { .. } => {
                if let Some(ack) = link.open_addressed::<Ack>(&subject, &message.payload) {
                    self.on_ack(ack.message);
                }
            }
            Subject::JobReturn { .. } => {
                if let Some(ret) = link.open_addressed::<Return>(&subject, &message.payload) {
                    self.on_return(Arc::new(ret.message));
                }
            }
            Subject::JobProgress { .. } => {
                if let Some(progress) = link.open_addressed::<Progress>(&subject, &message.payload)
                    && self.is_target(&progress.message.peel)
                {
                    self.ready.push_back(JobUpdate::Progress(Box::new(progress.message)));
                }
            }
            Subject::JobStatus { .. } => {
                let event = link.open_addressed::<JobEvent>(&subject, &message.payload);
                if let Some(JobEventKind::Status { status, .. }) = event.map(|event| event.message.event)
                    && status.is_terminal()
                {
                    self.end_announced = true;
                    self.poll_at = Instant::now();
                }
            }
            _ => {}
        }
    }

    fn is_target(&self, peel: &PeelId) -> bool {
        self.targets.as_ref().is_none_or(|targets| targets.contains(peel))
    }

    fn on_ack(&mut self, ack: Ack) {
        let Ack { peel, ahead, .. } = ack;
        if self.is_target(&peel) && !self.returns.contains_key(&peel) && self.acked.insert(peel.clone()) {
            self.ready.push_back(JobUpdate::Ack { peel, ahead });
        }
    }

    fn on_return(&mut self, ret: Arc<Return>) {
        if self.is_target(&ret.peel) && !self.returns.contains_key(&ret.peel) {
            self.returns.insert(ret.peel.clone(), ret.clone());
            self.ready.push_back(JobUpdate::Return(ret));
        }
    }

    /// Jittered, so that clients that began together do not ask together for ever.
    fn poll_in(&mut self, interval: Duration) {
        self.poll_at = Instant::now() + self.client.link.jittered(interval);
    }

    /// Reads the record. What cannot be read now is read the next time.
    async fn poll(&mut self) -> Result<(), Error> {
        let out_of_time = self.give_up_at.is_some_and(|at| Instant::now() >= at);
        match self.read_record(out_of_time).await {
            Ok(()) => Ok(()),
            Err(Error::Bus(error)) if error.retryable() && !out_of_time => {
                self.poll_in(POLL_INTERVAL);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn read_record(&mut self, out_of_time: bool) -> Result<(), Error> {
        match self.client.record_of(&self.jid).await? {
            Some(found) if found.value.status.is_terminal() || out_of_time => {
                let job = self.named(found).await?;
                self.end(job).await
            }
            None if out_of_time => Err(Error::NoSuchJob(self.jid.to_string())),
            _ => {
                if self.needs_catch_up {
                    self.catch_up().await?;
                }
                self.poll_in(if self.end_announced { POLL_SOON } else { POLL_INTERVAL });
                Ok(())
            }
        }
    }

    /// With its targets: those of a large job stand on pages, which need not be read again where they are known.
    async fn named(&self, found: Found<Job>) -> Result<Job, Error> {
        match &self.targets {
            Some(known) if known.len() as u64 == found.value.target_count() => {
                Ok(Job { targets: known.iter().cloned().collect(), ..found.value })
            }
            _ => Ok(self.client.link.with_targets(found).await?.value),
        }
    }

    async fn catch_up(&mut self) -> Result<(), Error> {
        let Some(targets) = &self.targets else { return Ok(()) };
        let silent = targets.iter().filter(|peel| !self.returns.contains_key(*peel)).cloned().collect();
        let received = self.client.received(&self.jid, silent).await?;
        self.needs_catch_up = false;
        let mut returned = Vec::new();
        for (_, received) in received {
            match received {
                Received::Nothing => {}
                Received::Ack(ack) => self.on_ack(ack),
                Received::Return(ret) => returned.push(ret),
            }
        }
        returned.into_iter().for_each(|ret| self.on_return(Arc::from(ret)));
        Ok(())
    }

    /// The record has the last word on who returned; what was received live need not be read again.
    async fn end(&mut self, job: Job) -> Result<(), Error> {
        let is_known = |peel: &PeelId| self.returns.contains_key(peel) && !job.missing.contains_key(peel);
        let (known, unread): (Vec<PeelId>, Vec<PeelId>) = job.targets.iter().cloned().partition(is_known);
        let mut returns: Returns = known
            .into_iter()
            .filter_map(|peel| self.returns.get(&peel).map(|ret| (peel, ret.clone())))
            .collect();
        if job.has_targets() {
            self.client.read_returns(&job, &unread, &mut returns).await?;
            self.targets = Some(job.targets.iter().cloned().collect());
        } else {
            returns = self.client.returns(&job).await?;
        }
        returns.values().for_each(|ret| self.on_return(ret.clone()));
        let finished = job.status.is_terminal();
        self.ready.push_back(JobUpdate::Ended(Box::new(Ended { job, returns, finished })));
        self.over = true;
        Ok(())
    }
}

fn closed() -> Error {
    zester_bus::Error::new(zester_bus::Kind::Closed, "the bus is closed").into()
}
