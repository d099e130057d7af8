//! What happens to one job, as it happens, and how it ended.
//!
//! Events on the bus make the view quick, and nothing more: they may be lost, and a master may die between the last write
//! and the event that tells of it. The record and the returns in the buckets are what counts, so the record is read every
//! couple of seconds and everything is read once at the end.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{FOLLOW_QUEUE, POLL_INTERVAL, POLL_SOON};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::{Delivery, Events, Listen, Message, Subscription};
use zester_wire::subject::all_of_job;
use zester_wire::{Ack, Jid, Job, JobEvent, JobEventKind, PeelId, Progress, Return, Subject};

/// One thing that happened. Each peel acks and returns at most once here.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// The peel has it; so many executions stand before it.
    Ack {
        peel: PeelId,
        ahead: u32,
    },
    Progress(Box<Progress>),
    Return(Box<Return>),
    /// The last thing.
    Ended(Box<Ended>),
}

/// What the buckets say at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub job: Job,
    pub returns: BTreeMap<PeelId, Return>,
    /// False: the deadline and a failover have passed, and no master finished the job.
    pub finished: bool,
}

/// Why a follower woke up.
enum Woken {
    Poll,
    Heard(Option<Delivery>),
    Connection(Option<zester_bus::Event>),
}

pub struct Follow {
    client: Client,
    jid: Jid,
    heard: Subscription,
    events: Events,
    acked: BTreeSet<PeelId>,
    returned: BTreeSet<PeelId>,
    /// Known targets; nobody else's messages are told.
    targets: Option<BTreeSet<PeelId>>,
    poll_at: Instant,
    give_up_at: Option<Instant>,
    /// Something may have been missed: the stream is asked what.
    behind: bool,
    /// An event said that the job is over; the record will say so too.
    told_over: bool,
    ready: VecDeque<Happening>,
    over: bool,
}

impl Client {
    /// Follows a job that exists, with what happened before.
    pub async fn follow(&self, jid: &Jid) -> Result<Follow, Error> {
        let mut follow = Follow::begin(self, jid).await?;
        let Some(job) = self.job_of(jid).await? else { return Err(Error::NoSuchJob(jid.to_string())) };
        // The deadline is of a master's clock. Ours may be off, but never by more than the job may take.
        let left = job.deadline().since(self.link.now()).min(job.timeout());
        follow.expect(job.targets.iter().cloned().collect(), left);
        follow.behind = true;
        follow.poll_at = Instant::now();
        Ok(follow)
    }
}

impl Follow {
    /// Listens. Nothing is known of the job yet.
    pub(crate) async fn begin(client: &Client, jid: &Jid) -> Result<Follow, Error> {
        let events = client.link.bus().events();
        let heard = client.link.bus().subscribe(&all_of_job(jid), Listen::alone(FOLLOW_QUEUE)).await?;
        Ok(Follow {
            client: client.clone(),
            jid: jid.clone(),
            heard,
            events,
            acked: BTreeSet::new(),
            returned: BTreeSet::new(),
            targets: None,
            poll_at: Instant::now() + POLL_INTERVAL,
            give_up_at: None,
            behind: false,
            told_over: false,
            ready: VecDeque::new(),
            over: false,
        })
    }

    /// Whom to listen to, and how long the job may still take.
    pub(crate) fn expect(&mut self, targets: BTreeSet<PeelId>, left: Duration) {
        self.targets = Some(targets);
        self.give_up_at = Instant::now().checked_add(left.saturating_add(self.client.finish_grace));
        self.poll_at = Instant::now() + POLL_INTERVAL;
    }

    pub fn jid(&self) -> &Jid {
        &self.jid
    }

    /// The next thing; none after the end. May be cancelled: what was under way is asked again.
    pub async fn next(&mut self) -> Result<Option<Happening>, Error> {
        loop {
            if let Some(happening) = self.ready.pop_front() {
                return Ok(Some(happening));
            }
            if self.over {
                return Ok(None);
            }
            let woken = tokio::select! {
                biased;
                // First, or a flood of messages would keep it waiting.
                () = tokio::time::sleep_until(self.poll_at) => Woken::Poll,
                delivery = self.heard.next() => Woken::Heard(delivery),
                event = self.events.next() => Woken::Connection(event),
            };
            match woken {
                Woken::Heard(Some(Delivery::Message(message))) => self.hear(&message),
                Woken::Heard(Some(missed)) => {
                    self.client.link.delivered(missed);
                    self.behind = true;
                }
                Woken::Heard(None) | Woken::Connection(None) => return Err(closed()),
                Woken::Connection(Some(zester_bus::Event::Reconnected | zester_bus::Event::Missed(_))) => {
                    self.behind = true;
                }
                Woken::Connection(Some(_)) => {}
                Woken::Poll => self.poll().await?,
            }
        }
    }

    fn hear(&mut self, message: &Message) {
        let link = self.client.link.clone();
        let Some(subject) = link.subject_of(message) else { return };
        match &subject {
            Subject::JobAck { .. } => {
                if let Some(ack) = link.open_addressed::<Ack>(&subject, &message.payload) {
                    self.ack(ack.message.peel, ack.message.ahead);
                }
            }
            Subject::JobReturn { .. } => {
                if let Some(ret) = link.open_addressed::<Return>(&subject, &message.payload) {
                    self.take(ret.message);
                }
            }
            Subject::JobProgress { .. } => {
                if let Some(progress) = link.open_addressed::<Progress>(&subject, &message.payload)
                    && self.is_target(&progress.message.peel)
                {
                    self.ready.push_back(Happening::Progress(Box::new(progress.message)));
                }
            }
            Subject::JobStatus { .. } => {
                let event = link.open_addressed::<JobEvent>(&subject, &message.payload);
                if let Some(JobEventKind::Status { status, .. }) = event.map(|event| event.message.event)
                    && status.is_terminal()
                {
                    self.told_over = true;
                    self.poll_at = Instant::now();
                }
            }
            _ => {}
        }
    }

    fn is_target(&self, peel: &PeelId) -> bool {
        self.targets.as_ref().is_none_or(|targets| targets.contains(peel))
    }

    fn ack(&mut self, peel: PeelId, ahead: u32) {
        if self.is_target(&peel) && !self.returned.contains(&peel) && self.acked.insert(peel.clone()) {
            self.ready.push_back(Happening::Ack { peel, ahead });
        }
    }

    fn take(&mut self, ret: Return) {
        if self.is_target(&ret.peel) && self.returned.insert(ret.peel.clone()) {
            self.ready.push_back(Happening::Return(Box::new(ret)));
        }
    }

    /// Reads the record. What cannot be read now is read the next time.
    async fn poll(&mut self) -> Result<(), Error> {
        let out_of_time = self.give_up_at.is_some_and(|at| Instant::now() >= at);
        match self.look(out_of_time).await {
            Ok(()) => Ok(()),
            Err(Error::Bus(error)) if error.retryable() && !out_of_time => {
                self.poll_at = Instant::now() + POLL_INTERVAL;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn look(&mut self, out_of_time: bool) -> Result<(), Error> {
        let job = self.client.job_of(&self.jid).await?;
        match job {
            Some(job) if job.status.is_terminal() || out_of_time => self.end(job).await,
            None if out_of_time => Err(Error::NoSuchJob(self.jid.to_string())),
            _ => {
                if self.behind {
                    self.catch_up().await?;
                }
                self.poll_at = Instant::now() + if self.told_over { POLL_SOON } else { POLL_INTERVAL };
                Ok(())
            }
        }
    }

    async fn catch_up(&mut self) -> Result<(), Error> {
        let history = self.client.history(&self.jid).await?;
        self.behind = false;
        for ack in history.acks.into_values() {
            self.ack(ack.peel, ack.ahead);
        }
        history.returns.into_values().for_each(|ret| self.take(ret));
        Ok(())
    }

    async fn end(&mut self, job: Job) -> Result<(), Error> {
        let returns = self.client.returns(&self.jid).await?;
        self.targets = Some(job.targets.iter().cloned().collect());
        returns.values().for_each(|ret| self.take(ret.clone()));
        let finished = job.status.is_terminal();
        self.ready.push_back(Happening::Ended(Box::new(Ended { job, returns, finished })));
        self.over = true;
        Ok(())
    }
}

fn closed() -> Error {
    zester_bus::Error::new(zester_bus::Kind::Closed, "the bus is closed").into()
}
