//! What is left of a simulation: on the bus, on the disks, and in what the simulator saw.

use super::reactions::StoredEvent;
use crate::disk::Disk;
use crate::network::Network;
use crate::node::{BEGIN, Environment};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::storage::{EVENTS, JOB_EVENTS, REACTOR_LEDGER, reactor};
use zester_bus::{Bus, Pending, Record};
use zester_link::Link;
use zester_reactor::DropReason;
use zester_wire::{
    Ack, Bucket, Envelope, Jid, Job, JobEvent, Key, LedgerEntry, PeelId, Return, Subject, UnixMillis, decode,
};

/// How one job ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub job: Job,
    /// Every return that the bus kept, and how long after the beginning of the simulation that was.
    pub returns: Vec<(Return, Duration)>,
    /// What stands in `job-returns`.
    pub stored: Vec<Return>,
}

/// A version of a record, and when the server got it.
pub struct Version {
    pub record: Job,
    pub at: Instant,
}

/// What the bus keeps of one job.
#[derive(Default)]
pub struct JobEvidence {
    pub versions: Vec<Version>,
    pub acks: Vec<(Ack, Instant)>,
    pub returned: Vec<(Return, Instant)>,
    pub canceled_at: Option<Instant>,
    /// `job-returns`, and when each was written.
    pub stored: BTreeMap<PeelId, (Return, Instant)>,
    pub active: bool,
    /// Events `job/<jid>/finalized`.
    pub finalized: u64,
}

impl JobEvidence {
    /// The version that ended it.
    pub fn end(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.record.status.is_terminal())
    }
}

pub struct Evidence {
    pub environment: Environment,
    pub network: Network,
    pub disks: BTreeMap<String, Disk>,
    pub jobs: BTreeMap<Jid, JobEvidence>,
    pub events: Vec<StoredEvent>,
    /// What the ledger says that the stream dropped before anybody was given it.
    pub unread: Vec<String>,
    /// What the reactors have before them.
    pub pending: Pending,
}

/// The start of the master that owns a job: the boot in its owner's name.
pub fn boot_of(job: &Job) -> &str {
    job.owner.as_str().split_once('.').map_or("", |(_, boot)| boot)
}

fn open<T: zester_wire::Message>(payload: &[u8]) -> Option<T> {
    decode::<Envelope>(payload).ok()?.open().ok()
}

impl Evidence {
    pub async fn collect(
        link: &Link,
        environment: Environment,
        network: Network,
        disks: BTreeMap<String, Disk>,
    ) -> Result<Evidence, zester_link::Error> {
        let (jobs, events, unread) = (BTreeMap::new(), Vec::new(), Vec::new());
        let bus = link.bus();
        let pending = match environment.reacts {
            true => bus.pending(&reactor()).await?,
            false => Pending::default(),
        };
        let mut evidence = Evidence { environment, network, disks, jobs, events, unread, pending };
        for entry in bus.scan(Bucket::Jobs.as_str(), ">", 0).await?.items {
            let at = evidence.instant(entry.at);
            match Key::parse(Bucket::Jobs, &entry.key) {
                Ok(Key::Job(jid)) => {
                    let record = link.record::<Job>(Bucket::Jobs, &entry)?.value;
                    evidence.jobs.entry(jid).or_default().versions.push(Version { record, at });
                }
                Ok(Key::Active(jid)) => evidence.jobs.entry(jid).or_default().active = true,
                _ => {}
            }
        }
        for entry in bus.scan(Bucket::JobReturns.as_str(), ">", 0).await?.items {
            if let Ok(Key::Return(jid, peel)) = Key::parse(Bucket::JobReturns, &entry.key) {
                let (ret, at) =
                    (link.record::<Return>(Bucket::JobReturns, &entry)?.value, evidence.instant(entry.at));
                evidence.jobs.entry(jid).or_default().stored.insert(peel, (ret, at));
            }
        }
        for record in everything(&**bus, JOB_EVENTS, "zester.job.>").await? {
            evidence.hear(&record);
        }
        for record in everything(&**bus, EVENTS, ">").await? {
            let event = open::<zester_wire::Event>(&record.payload);
            if let (Some(event), Ok(Subject::Event(subject))) =
                (event.clone(), Subject::parse(&record.subject))
            {
                evidence.events.push(StoredEvent { subject, event });
            }
            let finalized = event.filter(|event| event.tag.as_str().ends_with("/finalized"));
            let jid = finalized.and_then(|event| Jid::parse(event.data.get("jid")?.as_str()?).ok());
            if let Some(jid) = jid {
                evidence.jobs.entry(jid).or_default().finalized += 1;
            }
        }
        for record in everything(&**bus, REACTOR_LEDGER, ">").await? {
            let entry = open::<LedgerEntry>(&record.payload);
            let unread = entry.filter(|entry| entry.decision == DropReason::Unread.as_str());
            evidence.unread.extend(unread.map(|entry| entry.reason));
        }
        Ok(evidence)
    }

    fn hear(&mut self, record: &Record) {
        let at = self.instant(record.at);
        match Subject::parse(&record.subject) {
            Ok(Subject::JobReturn { jid, .. }) => {
                let ret = open::<Return>(&record.payload);
                self.jobs.entry(jid).or_default().returned.extend(ret.map(|ret| (ret, at)));
            }
            Ok(Subject::JobAck { jid, .. }) => {
                let ack = open::<Ack>(&record.payload);
                self.jobs.entry(jid).or_default().acks.extend(ack.map(|ack| (ack, at)));
            }
            Ok(Subject::JobCancel { jid }) if open::<JobEvent>(&record.payload).is_some() => {
                self.jobs.entry(jid).or_default().canceled_at.get_or_insert(at);
            }
            _ => {}
        }
    }

    pub fn outcome(&self, jid: &Jid) -> Option<Outcome> {
        let job = self.jobs.get(jid)?;
        let since = |at: &Instant| at.duration_since(self.environment.begin);
        let returns = job.returned.iter().map(|(ret, at)| (ret.clone(), since(at))).collect();
        let stored = job.stored.values().map(|(ret, _)| ret.clone()).collect();
        Some(Outcome { job: job.versions.last()?.record.clone(), returns, stored })
    }

    /// The server's clock is right.
    pub fn instant(&self, at_ms: u64) -> Instant {
        self.environment.begin + Duration::from_millis(at_ms.saturating_sub(BEGIN))
    }

    pub fn instant_of(&self, wall: UnixMillis) -> Instant {
        self.environment.begin + wall.since(UnixMillis(BEGIN))
    }

    /// Whether everything that must come has come.
    pub fn is_settled(&self) -> bool {
        let over = |job: &JobEvidence| {
            let terminal = job.versions.last().is_none_or(|last| last.record.status.is_terminal());
            let stored = |ret: &Return| job.stored.contains_key(&ret.peel);
            let finalized = job.versions.is_empty() || job.finalized > 0;
            terminal && !job.active && finalized && job.returned.iter().all(|(ret, _)| stored(ret))
        };
        let empty = self.undelivered().is_empty();
        let idle = self.environment.observed.lock().executions.iter().all(|one| one.ended.is_some());
        let reacted = !self.environment.reacts || self.are_reactions_settled();
        empty && idle && reacted && self.jobs.values().all(over)
    }

    /// Whether a node, the server and the network gave no excuse.
    pub fn no_excuse(&self, name: &str, from: Instant, until: Instant) -> bool {
        let seen = self.environment.observed.lock();
        seen.was_there(name, from, until)
            && seen.was_there("server", from, until)
            && seen.was_calm(from, until)
    }

    /// The first stretch of that length in which all of them were there without an excuse.
    pub fn together(&self, names: &[&str], from: Instant, until: Instant, long: Duration) -> Option<Instant> {
        let mut start = from;
        while start + long <= until {
            if names.iter().all(|name| self.no_excuse(name, start, start + long)) {
                return Some(start);
            }
            start += Duration::from_secs(1);
        }
        None
    }

    /// Whether the disk of a peel failed in this time.
    pub fn disks_failed(&self, from: Instant, until: Instant) -> bool {
        let seen = self.environment.observed.lock();
        let overlaps =
            |begin: Instant, end: Option<Instant>| begin <= until && end.is_none_or(|end| end >= from);
        seen.disturbed.iter().any(|(name, begin, end)| *name == "peel disk" && overlaps(*begin, *end))
    }

    /// Whether a clock was set: then its deadlines cannot be compared with anybody's.
    pub fn clocks_jumped(&self) -> bool {
        self.environment.observed.lock().faults.contains_key("clock jump")
    }
}

async fn everything(bus: &dyn Bus, stream: &str, pattern: &str) -> Result<Vec<Record>, zester_bus::Error> {
    let (mut items, mut from) = (Vec::new(), 0);
    loop {
        let page = bus.replay(stream, pattern, from).await?;
        items.extend(page.items);
        let Some(next) = page.next else { return Ok(items) };
        from = next;
    }
}
