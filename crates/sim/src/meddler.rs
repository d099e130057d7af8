//! A master's way to the bus: everything passes through, is noticed, and may be tampered with.

use crate::Mutation;
use crate::journal::Journal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use zester_bus::storage::JOB_EVENTS;
use zester_bus::{
    Acknowledge, Answer, Bus, Bytes, DurableReader, Entry, Events, Found, Info, Listen, Message, Page,
    Record, Sequence, Store, Stored, Subscription, Taken, Usage, Watch,
};
use zester_wire::{Bucket, Envelope, Jid, Job, JobStatus, PeelCommand, decode};

pub struct Meddler {
    pub bus: Arc<dyn Bus>,
    pub mutation: Mutation,
    pub journal: Journal,
    /// Names this life of this master.
    pub boot: String,
    /// Jobs whose owner dies right after it wrote `running`. Each kills once.
    pub doomed: Arc<Mutex<BTreeSet<Jid>>>,
    /// Where to ask for one's own end.
    pub wants_to_die: Arc<AtomicBool>,
    pub dying: Arc<Notify>,
    pub memory: Mutex<Memory>,
}

/// What one life of a master did.
#[derive(Default)]
pub struct Memory {
    dispatched: BTreeSet<Jid>,
    replays: BTreeMap<String, u32>,
}

impl Meddler {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a command to a peel may go out.
    fn command(&self, payload: &[u8]) -> bool {
        let Some(command) = unseal::<PeelCommand>(payload) else { return true };
        let mut seen = self.journal.lock();
        match command {
            PeelCommand::Exec(request) => {
                let adopted = !self.memory().dispatched.contains(&request.jid);
                if self.mutation == Mutation::AdoptWithoutResend && adopted {
                    return false;
                }
                seen.sent_work.insert((request.jid, self.boot.clone()), Instant::now());
            }
            PeelCommand::Cancel(cancel) => {
                seen.sent_cancel.entry((cancel.jid, self.boot.clone())).or_insert_with(Instant::now);
            }
            PeelCommand::Unknown => {}
        }
        true
    }

    async fn write_record(
        &self,
        key: &str,
        value: Bytes,
        expected: Sequence,
    ) -> Result<Sequence, zester_bus::Error> {
        let jobs = Bucket::Jobs.as_str();
        let record = unseal::<Job>(&value);
        let written = if self.mutation == Mutation::FinalizeWithoutCas {
            self.bus.put(jobs, key, value).await
        } else {
            self.bus.update(jobs, key, value, expected).await
        };
        let running = record.filter(|job| written.is_ok() && job.status == JobStatus::Running);
        let doomed = |jid: &Jid| self.doomed.lock().unwrap_or_else(PoisonError::into_inner).remove(jid);
        if running.is_some_and(|job| doomed(&job.jid)) {
            // The end comes before anything else can be sent.
            self.wants_to_die.store(true, Ordering::Relaxed);
            self.dying.notify_one();
            std::future::pending::<()>().await;
        }
        written
    }

    async fn read_history(
        &self,
        stream: &str,
        pattern: &str,
        from: Sequence,
    ) -> Result<Page<Record>, zester_bus::Error> {
        let page = self.bus.replay(stream, pattern, from).await?;
        if self.mutation == Mutation::SkipSecondReplay && stream == JOB_EVENTS && from == 0 {
            let mut memory = self.memory();
            let count = memory.replays.entry(pattern.to_string()).or_insert(0);
            *count += 1;
            if *count > 1 {
                return Ok(Page { items: Vec::new(), next: None });
            }
        }
        Ok(page)
    }
}

fn unseal<T: zester_wire::Message>(payload: &[u8]) -> Option<T> {
    decode::<Envelope>(payload).ok()?.open().ok()
}

impl Bus for Meddler {
    fn info(&self) -> Info {
        self.bus.info()
    }

    fn events(&self) -> Events {
        self.bus.events()
    }

    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, ()> {
        if subject.starts_with("zester.cmd.") && !self.command(&payload) {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.bus.publish(subject, payload)
    }

    fn publish_stored<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        id: Option<&'a str>,
    ) -> Answer<'a, Stored> {
        self.bus.publish_stored(subject, payload, id)
    }

    fn request<'a>(&'a self, subject: &'a str, payload: Bytes, timeout: Duration) -> Answer<'a, Message> {
        self.bus.request(subject, payload, timeout)
    }

    fn subscribe<'a>(&'a self, pattern: &'a str, listen: Listen) -> Answer<'a, Subscription> {
        self.bus.subscribe(pattern, listen)
    }

    fn get<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        self.bus.get(bucket, key)
    }

    fn get_latest<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        self.bus.get_latest(bucket, key)
    }

    fn put<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        self.bus.put(bucket, key, value)
    }

    fn create<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        if bucket == Bucket::Jobs.as_str()
            && let Ok(jid) = Jid::parse(key)
        {
            self.memory().dispatched.insert(jid);
        }
        self.bus.create(bucket, key, value)
    }

    fn update<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Bytes,
        expected: Sequence,
    ) -> Answer<'a, Sequence> {
        if bucket == Bucket::Jobs.as_str() {
            return Box::pin(self.write_record(key, value, expected));
        }
        self.bus.update(bucket, key, value, expected)
    }

    fn purge<'a>(&'a self, bucket: &'a str, key: &'a str, expected: Option<Sequence>) -> Answer<'a, ()> {
        self.bus.purge(bucket, key, expected)
    }

    fn purge_all<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, ()> {
        self.bus.purge_all(bucket, pattern)
    }

    fn keys<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, Vec<String>> {
        self.bus.keys(bucket, pattern)
    }

    fn scan<'a>(&'a self, bucket: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Entry>> {
        self.bus.scan(bucket, pattern, from)
    }

    fn replay<'a>(&'a self, stream: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Record>> {
        Box::pin(self.read_history(stream, pattern, from))
    }

    fn ensure_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, ()> {
        self.bus.ensure_reader(reader)
    }

    fn take<'a>(&'a self, reader: &'a DurableReader, count: usize, wait: Duration) -> Answer<'a, Vec<Taken>> {
        self.bus.take(reader, count, wait)
    }

    fn acknowledge<'a>(&'a self, taken: &'a Taken, what: Acknowledge) -> Answer<'a, ()> {
        self.bus.acknowledge(taken, what)
    }

    fn last<'a>(&'a self, stream: &'a str, subject: &'a str) -> Answer<'a, Option<Record>> {
        self.bus.last(stream, subject)
    }

    fn watch<'a>(&'a self, bucket: &'a str, pattern: &'a str, capacity: usize) -> Answer<'a, Watch> {
        self.bus.watch(bucket, pattern, capacity)
    }

    fn ensure<'a>(&'a self, store: &'a Store, replicas: usize) -> Answer<'a, Found> {
        self.bus.ensure(store, replicas)
    }

    fn usage<'a>(&'a self, store: &'a Store) -> Answer<'a, Usage> {
        self.bus.usage(store)
    }

    fn flush(&self) -> Answer<'_, ()> {
        self.bus.flush()
    }

    fn close(&self) -> Answer<'_, ()> {
        self.bus.close()
    }
}
