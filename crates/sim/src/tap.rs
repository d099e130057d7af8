//! A node's way to the bus: every call is counted, noticed, and may be tampered with.

use crate::Mutation;
use crate::crash::Caller;
use crate::dice::Dice;
use crate::observed::Observed;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::storage::{EVENTS, JOB_EVENTS};
use zester_bus::{
    Acknowledge, Answer, Bus, Bytes, Drift, DurableReader, Entry, Events, Found, Info, Kind, Listen, Message,
    Page, Pending, Record, Sequence, Store, Stored, Subscription, Taken, Usage, Watch,
};
use zester_wire::subject::ALL_RETURNS;
use zester_wire::{
    Bucket, Envelope, Event, Jid, Job, JobStatus, Missing, PeelCommand, Return, Subject, decode, encode,
};

/// How late an end is written where that is to be missed.
const LATE_END: Duration = Duration::from_secs(30);

/// How often an event is given where the server counts.
const DELIVERIES_COUNTED: u64 = 5;

pub struct BusTap {
    pub bus: Arc<dyn Bus>,
    pub mutation: Mutation,
    pub observed: Observed,
    /// Names this start of this node.
    pub boot: String,
    /// Jobs whose owner dies right after it wrote `running`. Each kills once.
    pub doomed: Arc<Mutex<BTreeSet<Jid>>>,
    pub caller: Caller,
    pub dice: Dice,
    pub memory: Mutex<Memory>,
}

/// What one start of a master did.
#[derive(Default)]
pub struct Memory {
    dispatched: BTreeSet<Jid>,
    /// What was last sent to each peel to be done.
    work: BTreeMap<String, Bytes>,
    /// Where the last event of a rule went.
    sent: Option<String>,
}

/// What is to be done with a call.
enum Verdict {
    Pass(Bytes),
    /// Answered as if it were done.
    Swallow,
}

impl BusTap {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }

    /// Whether whoever writes this takes it for written, whatever the server says.
    fn believes(&self, bucket: &str, key: &str) -> bool {
        self.is(Mutation::NoLeaseFence) && bucket == Bucket::Leases.as_str() && key == "publisher"
    }

    /// A command to a peel.
    fn command(&self, payload: Bytes) -> Verdict {
        let Some(command) = unseal::<PeelCommand>(&payload) else { return Verdict::Pass(payload) };
        let mut seen = self.observed.lock();
        let now = Instant::now();
        match command {
            PeelCommand::Exec(mut request) => {
                let adopted = !self.memory().dispatched.contains(&request.jid);
                if self.is(Mutation::AdoptWithoutResend) && adopted {
                    return Verdict::Swallow;
                }
                let key = (request.jid.clone(), self.boot.clone());
                seen.sent_work.entry(key).or_insert((now, now)).1 = now;
                if self.is(Mutation::LongBudget) {
                    request.budget *= 10;
                    return Verdict::Pass(reseal(&payload, &PeelCommand::Exec(request)));
                }
            }
            PeelCommand::Cancel(cancel) => {
                seen.sent_cancel.entry((cancel.jid, self.boot.clone())).or_insert(now);
                if self.is(Mutation::DropCancelCommand) {
                    return Verdict::Swallow;
                }
            }
            _ => {}
        }
        Verdict::Pass(payload)
    }

    /// What was sent to a peel before, where a cancel is sent to it now and the work is to follow.
    fn work_after_cancel(&self, subject: &str, payload: &Bytes) -> Option<Bytes> {
        if !self.is(Mutation::WorkAfterCancel) {
            return None;
        }
        match unseal::<PeelCommand>(payload)? {
            PeelCommand::Exec(_) => {
                self.memory().work.insert(subject.into(), payload.clone());
                None
            }
            PeelCommand::Cancel(cancel) => {
                let work = self.memory().work.get(subject).cloned()?;
                let PeelCommand::Exec(request) = unseal::<PeelCommand>(&work)? else { return None };
                (request.jid == cancel.jid).then_some(work)
            }
            _ => None,
        }
    }

    /// A message for a stream.
    fn stored(&self, subject: &str, payload: Bytes) -> Verdict {
        let swallow = match Subject::parse(subject) {
            Ok(Subject::Event(_)) => self.is(Mutation::NoFinalizedEvent),
            Ok(Subject::JobCancel { .. }) => self.is(Mutation::CancelNotStored),
            Ok(Subject::JobReturn { .. }) => self.is(Mutation::DeliverBlindly) && self.dice.happens(200),
            _ => false,
        };
        if swallow { Verdict::Swallow } else { Verdict::Pass(payload) }
    }

    /// A key that is created.
    fn created(&self, bucket: &str, key: &str, value: Bytes) -> Verdict {
        if bucket == Bucket::Jobs.as_str()
            && let Ok(jid) = Jid::parse(key)
        {
            self.memory().dispatched.insert(jid);
        }
        if bucket == Bucket::JobReturns.as_str() {
            if self.is(Mutation::DropReturnWrite) {
                return Verdict::Swallow;
            }
            if self.is(Mutation::UnmarkedLateReturn)
                && let Some(ret) = unseal::<Return>(&value)
            {
                return Verdict::Pass(reseal(&value, &Return { late: false, ..ret }));
            }
        }
        Verdict::Pass(value)
    }

    fn tamper_record(&self, value: Bytes) -> Bytes {
        let Some(mut job) = unseal::<Job>(&value) else { return value };
        match self.mutation {
            Mutation::WrongCount if job.status.is_terminal() => job.success_count += 1,
            Mutation::WrongStatus if job.status == JobStatus::Failed => job.status = JobStatus::Complete,
            Mutation::WrongReason => {
                job.missing.values_mut().for_each(|reason| *reason = Missing::NeverAcked);
            }
            Mutation::AllUnreachable => {
                job.missing.values_mut().for_each(|reason| *reason = Missing::Unreachable);
            }
            Mutation::NewDispatchEpoch if job.reclaim_count > 0 => job.dispatch_epoch = job.epoch,
            _ => return value,
        }
        reseal(&value, &job)
    }

    async fn write_record(
        &self,
        key: &str,
        value: Bytes,
        expected: Sequence,
    ) -> Result<Sequence, zester_bus::Error> {
        let jobs = Bucket::Jobs.as_str();
        let record = unseal::<Job>(&value);
        let value = self.tamper_record(value);
        let sealed = value.clone();
        let runs = record.as_ref().is_some_and(|job| job.status == JobStatus::Running);
        if self.is(Mutation::NoTakeover) && record.as_ref().is_some_and(|job| job.reclaim_count > 0) {
            return Err(zester_bus::Error::new(Kind::Timeout, "it stays whose it was"));
        }
        if self.is(Mutation::SendBeforeRunning) && runs {
            return Ok(expected);
        }
        let ends = record.as_ref().filter(|job| job.status.is_terminal());
        match self.mutation {
            Mutation::NoTerminalWrite if ends.is_some() => return Ok(expected),
            Mutation::LateTerminalWrite if ends.is_some() => tokio::time::sleep(LATE_END).await,
            _ => {}
        }
        let written = if self.is(Mutation::WriteWithoutCompare) {
            self.bus.put(jobs, key, value).await
        } else {
            self.bus.update(jobs, key, value, expected).await
        };
        if let Some(job) = ends.filter(|_| self.is(Mutation::SecondEnd) && written.is_ok()) {
            let failed = Job { status: JobStatus::Failed, ..job.clone() };
            let _second = self.bus.put(jobs, key, reseal(&sealed, &failed)).await;
        }
        if let Some(job) = ends.filter(|_| self.is(Mutation::CancelTheMissing) && written.is_ok()) {
            self.cancel_missing(job, &sealed).await;
        }
        let running = record.filter(|_| written.is_ok() && runs);
        let doomed = |jid: &Jid| self.doomed.lock().unwrap_or_else(PoisonError::into_inner).remove(jid);
        if running.is_some_and(|job| doomed(&job.jid)) {
            self.caller.die().await;
        }
        written
    }
}

/// What becomes of events on their way to and from a reactor.
impl BusTap {
    async fn take_events(
        &self,
        reader: &DurableReader,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Taken>, zester_bus::Error> {
        let mut taken = self.bus.take(reader, count, wait).await?;
        match self.mutation {
            Mutation::AckBeforeEffect => {
                for one in &taken {
                    self.bus.acknowledge(one, Acknowledge::Done).await?;
                }
            }
            Mutation::NoOrigin => taken.iter_mut().for_each(|one| {
                let of_peel = one.record.subject.strip_prefix("zester.event.p");
                let rest = of_peel.and_then(|rest| rest.split_once('.')).map(|(_, rest)| rest.to_string());
                if let Some(rest) = rest {
                    one.record.subject = format!("zester.event.p0.{rest}");
                }
            }),
            Mutation::NoSpoofGate => taken.iter_mut().for_each(|one| {
                let tag = match Subject::parse(&one.record.subject) {
                    Ok(Subject::Event(subject)) => subject.tag(),
                    _ => return,
                };
                if let Some(event) = unseal::<Event>(&one.record.payload) {
                    one.record.payload = reseal(&one.record.payload, &Event { tag, ..event });
                }
            }),
            _ => {}
        }
        Ok(taken)
    }

    /// An event that a rule sends.
    fn sent_by_rule(&self, subject: &str, payload: Bytes) -> Bytes {
        if !subject.starts_with("zester.event._master.reaction.") {
            return payload;
        }
        self.memory().sent = Some(subject.to_string());
        match unseal::<Event>(&payload) {
            Some(event) if self.is(Mutation::RandomSentId) => {
                let id = format!("{}-{}", event.id, self.dice.next());
                reseal(&payload, &Event { id, ..event })
            }
            _ => payload,
        }
    }
}

impl BusTap {
    async fn cancel_missing(&self, job: &Job, sealed: &Bytes) {
        let cancel = PeelCommand::Cancel(zester_jobs::messages::cancel(job));
        for peel in job.missing.keys() {
            let subject = Subject::Command { peel: peel.clone() }.to_string();
            if let Verdict::Pass(payload) = self.command(reseal(sealed, &cancel)) {
                let _lost = self.bus.publish(&subject, payload).await;
            }
        }
    }
}

fn is_return(subject: &str) -> bool {
    matches!(Subject::parse(subject), Ok(Subject::JobReturn { .. }))
}

fn unseal<T: zester_wire::Message>(payload: &[u8]) -> Option<T> {
    decode::<Envelope>(payload).ok()?.open().ok()
}

/// Another message in the envelope of one that was tampered with.
fn reseal<T: zester_wire::Message>(payload: &Bytes, message: &T) -> Bytes {
    let resealed = decode::<Envelope>(payload).ok().and_then(|envelope| {
        let body = encode(message).ok()?;
        encode(&Envelope { payload: body, ..envelope }).ok()
    });
    resealed.map_or_else(|| payload.clone(), Bytes::from)
}

impl Bus for BusTap {
    fn info(&self) -> Info {
        self.bus.info()
    }

    fn events(&self) -> Events {
        self.bus.events()
    }

    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, ()> {
        Box::pin(self.caller.call(async move {
            let verdict = if subject.starts_with("zester.cmd.") {
                self.command(payload)
            } else {
                Verdict::Pass(payload)
            };
            match verdict {
                Verdict::Pass(payload) => {
                    let follows = self.work_after_cancel(subject, &payload);
                    self.bus.publish(subject, payload).await?;
                    let Some(work) = follows else { return Ok(()) };
                    let Verdict::Pass(work) = self.command(work) else { return Ok(()) };
                    self.bus.publish(subject, work).await
                }
                Verdict::Swallow => Ok(()),
            }
        }))
    }

    fn publish_stored<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        id: Option<&'a str>,
    ) -> Answer<'a, Stored> {
        Box::pin(self.caller.call(async move {
            let verdict = self.stored(subject, self.sent_by_rule(subject, payload));
            let new_id = format!("{}", self.dice.next());
            let new =
                self.is(Mutation::RandomSentId) && subject.starts_with("zester.event._master.reaction.");
            let id = if new { Some(new_id.as_str()) } else { id };
            if self.is(Mutation::ReturnsStay) && is_return(subject) {
                return Err(zester_bus::Error::new(Kind::Timeout, "it stays"));
            }
            match verdict {
                Verdict::Pass(payload) => self.bus.publish_stored(subject, payload, id).await,
                Verdict::Swallow => Ok(Stored { stream: JOB_EVENTS.into(), sequence: 1, duplicate: false }),
            }
        }))
    }

    fn publish_first<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, Stored> {
        Box::pin(self.caller.call(async move {
            match self.stored(subject, payload) {
                Verdict::Pass(payload) if self.is(Mutation::EachFinalizedEvent) => {
                    self.bus.publish_stored(subject, payload, None).await
                }
                Verdict::Pass(payload) => self.bus.publish_first(subject, payload).await,
                Verdict::Swallow => Ok(Stored { stream: EVENTS.into(), sequence: 1, duplicate: false }),
            }
        }))
    }

    fn request<'a>(&'a self, subject: &'a str, payload: Bytes, timeout: Duration) -> Answer<'a, Message> {
        Box::pin(self.caller.call(async move {
            let answer = self.bus.request(subject, payload, timeout).await;
            let hides = self.is(Mutation::SilenceIsNobody) && subject == Subject::Dispatch.to_string();
            answer.map_err(|error| match error.kind() {
                Kind::Timeout if hides => zester_bus::Error::new(Kind::NoResponders, "nobody"),
                _ => error,
            })
        }))
    }

    fn subscribe<'a>(&'a self, pattern: &'a str, listen: Listen) -> Answer<'a, Subscription> {
        let deaf = self.is(Mutation::DeafToReturns) && pattern == ALL_RETURNS;
        let pattern = if deaf { "zester.nothing" } else { pattern };
        Box::pin(self.caller.call(self.bus.subscribe(pattern, listen)))
    }

    fn get<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        Box::pin(self.caller.call(self.bus.get(bucket, key)))
    }

    fn get_latest<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        Box::pin(self.caller.call(self.bus.get_latest(bucket, key)))
    }

    fn put<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        Box::pin(self.caller.call(async move {
            if self.is(Mutation::NoHeartbeat) && bucket == Bucket::MasterHeartbeat.as_str() {
                return Ok(1);
            }
            self.bus.put(bucket, key, value).await
        }))
    }

    fn create<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        Box::pin(self.caller.call(async move {
            match self.created(bucket, key, value) {
                Verdict::Pass(value) => {
                    let written = self.bus.create(bucket, key, value).await;
                    if self.believes(bucket, key) { written.or(Ok(1)) } else { written }
                }
                Verdict::Swallow => Ok(1),
            }
        }))
    }

    fn update<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Bytes,
        expected: Sequence,
    ) -> Answer<'a, Sequence> {
        Box::pin(self.caller.call(async move {
            if bucket == Bucket::Jobs.as_str() {
                return self.write_record(key, value, expected).await;
            }
            let written = self.bus.update(bucket, key, value, expected).await;
            if self.believes(bucket, key) { written.or(Ok(expected)) } else { written }
        }))
    }

    fn purge<'a>(&'a self, bucket: &'a str, key: &'a str, expected: Option<Sequence>) -> Answer<'a, ()> {
        Box::pin(self.caller.call(async move {
            if self.is(Mutation::KeepActiveKey) && bucket == Bucket::Jobs.as_str() {
                return Ok(());
            }
            self.bus.purge(bucket, key, expected).await
        }))
    }

    fn purge_all<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, ()> {
        Box::pin(self.caller.call(self.bus.purge_all(bucket, pattern)))
    }

    fn keys<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(self.caller.call(self.bus.keys(bucket, pattern)))
    }

    fn scan<'a>(&'a self, bucket: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Entry>> {
        Box::pin(self.caller.call(self.bus.scan(bucket, pattern, from)))
    }

    fn replay<'a>(&'a self, stream: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Record>> {
        Box::pin(self.caller.call(async move {
            let mut page = self.bus.replay(stream, pattern, from).await?;
            if self.is(Mutation::DeafToReturns) {
                page.items.retain(|record| !is_return(&record.subject));
            }
            Ok(page)
        }))
    }

    fn ensure_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Found> {
        Box::pin(self.caller.call(self.bus.ensure_reader(reader)))
    }

    fn reconnect(&self) -> Answer<'_, ()> {
        Box::pin(self.caller.call(self.bus.reconnect()))
    }

    fn adjust_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Vec<Drift>> {
        Box::pin(self.caller.call(async move {
            if self.is(Mutation::CountDeliveries) && reader.stream == EVENTS {
                let counted = DurableReader { max_deliver: Some(DELIVERIES_COUNTED), ..reader.clone() };
                return self.bus.adjust_reader(&counted).await;
            }
            self.bus.adjust_reader(reader).await
        }))
    }

    fn take<'a>(&'a self, reader: &'a DurableReader, count: usize, wait: Duration) -> Answer<'a, Vec<Taken>> {
        if reader.stream == EVENTS {
            return Box::pin(self.caller.call(self.take_events(reader, count, wait)));
        }
        Box::pin(self.caller.call(async move {
            if self.is(Mutation::DeafToReturns) && reader.stream == JOB_EVENTS {
                tokio::time::sleep(wait).await;
                return Ok(Vec::new());
            }
            self.bus.take(reader, count, wait).await
        }))
    }

    fn acknowledge<'a>(&'a self, taken: &'a Taken, what: Acknowledge) -> Answer<'a, ()> {
        let of_event = taken.record.subject.starts_with("zester.event.");
        let what = match (self.mutation, what) {
            (Mutation::DropAcks, _) if of_event => return Box::pin(std::future::ready(Ok(()))),
            (Mutation::AckFailures, Acknowledge::Later(_)) if of_event => Acknowledge::Done,
            (_, what) => what,
        };
        Box::pin(self.caller.call(self.bus.acknowledge(taken, what)))
    }

    fn pending<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Pending> {
        Box::pin(self.caller.call(self.bus.pending(reader)))
    }

    fn last<'a>(&'a self, stream: &'a str, subject: &'a str) -> Answer<'a, Option<Record>> {
        Box::pin(self.caller.call(self.bus.last(stream, subject)))
    }

    fn at<'a>(&'a self, stream: &'a str, sequence: Sequence) -> Answer<'a, Option<Record>> {
        Box::pin(self.caller.call(async move {
            let found = self.bus.at(stream, sequence).await?;
            let believed = self.memory().sent.clone();
            Ok(found.map(|found| match believed {
                Some(subject) if self.is(Mutation::BelieveDuplicate) && found.subject.contains(".junk") => {
                    Record { subject, ..found }
                }
                _ => found,
            }))
        }))
    }

    fn watch<'a>(&'a self, bucket: &'a str, pattern: &'a str, capacity: usize) -> Answer<'a, Watch> {
        Box::pin(self.caller.call(self.bus.watch(bucket, pattern, capacity)))
    }

    fn ensure<'a>(&'a self, store: &'a Store, replicas: usize) -> Answer<'a, Found> {
        Box::pin(self.caller.call(self.bus.ensure(store, replicas)))
    }

    fn usage<'a>(&'a self, store: &'a Store) -> Answer<'a, Usage> {
        Box::pin(self.caller.call(self.bus.usage(store)))
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(self.caller.call(self.bus.flush()))
    }

    fn close(&self) -> Answer<'_, ()> {
        self.bus.close()
    }
}
