//! The bus over NATS. The only code that names the client, one concern a file.

mod connect;
mod core;
mod direct;
mod durable;
mod fault;
mod kv;
mod passport;
mod read;
mod stores;
mod watch;

pub use connect::{Credentials, Options, connect};
pub use direct::Reads;
pub use passport::{Passport, Proof, Prove};

/// Whom the client names when it logs, for whoever wants to hear less of it.
pub const CLIENT_LOGS: &str = "async_nats";

use crate::durable::{Acknowledge, DurableReader, Pending, Taken};
use crate::error::{Error, Kind};
use crate::event::{EventSender, Events};
use crate::message::{Entry, Info, Message, Page, Record, Sequence, Stored, Usage};
use crate::queue::Queue;
use crate::storage::{Drift, Found, Store};
use crate::subscription::{Listen, Subscription, Watch};
use crate::{Answer, Bus, Bytes};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// One connection to a NATS server or cluster.
pub struct Nats {
    client: async_nats::Client,
    jetstream: async_nats::jetstream::Context,
    event_sender: EventSender,
    answer_timeout: Duration,
    reads: Reads,
    closed: CancellationToken,
    /// The queues of live subscriptions, so that closing ends them.
    queues: Arc<Mutex<BTreeMap<u64, Queue>>>,
    next_queue: AtomicU64,
    /// Where each durable reader gets what it asked for, while nobody looks.
    inboxes: Mutex<BTreeMap<String, durable::Inbox>>,
}

impl Nats {
    /// Runs a call that must neither outlive the bus nor begin without a connection.
    async fn connected<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::closed());
        }
        if !self.is_connected() {
            return Err(Error::disconnected());
        }
        self.until_closed(call).await
    }

    async fn until_closed<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match self.closed.run_until_cancelled(call).await {
            // The client hangs up while we close, and a call under way may see that first.
            Some(Err(_)) if self.closed.is_cancelled() => Err(Error::closed()),
            Some(answer) => answer,
            None => Err(Error::closed()),
        }
    }

    fn is_connected(&self) -> bool {
        self.client.connection_state() == async_nats::connection::State::Connected
    }
}

/// Nothing can be asked of a client that nobody holds any more, so its tasks end too.
impl Drop for Nats {
    fn drop(&mut self) {
        self.end_queues();
        self.closed.cancel();
    }
}

impl Bus for Nats {
    fn info(&self) -> Info {
        self.server_info()
    }

    fn events(&self) -> Events {
        self.event_sender.listen()
    }

    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, ()> {
        Box::pin(self.connected(self.send(subject, payload)))
    }

    fn publish_stored<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        id: Option<&'a str>,
    ) -> Answer<'a, Stored> {
        Box::pin(self.connected(self.store(subject, payload, id)))
    }

    fn publish_first<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, Stored> {
        Box::pin(self.connected(self.store_first(subject, payload)))
    }

    fn request<'a>(&'a self, subject: &'a str, payload: Bytes, timeout: Duration) -> Answer<'a, Message> {
        Box::pin(self.connected(self.ask(subject, payload, timeout)))
    }

    fn subscribe<'a>(&'a self, pattern: &'a str, listen: Listen) -> Answer<'a, Subscription> {
        Box::pin(self.until_closed(self.listen(pattern, listen)))
    }

    fn get<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        Box::pin(self.connected(self.kv_get(bucket, key)))
    }

    fn get_latest<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        Box::pin(self.connected(self.kv_get_latest(bucket, key)))
    }

    fn put<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        Box::pin(self.connected(self.kv_write(bucket, key, value, None)))
    }

    fn create<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        Box::pin(self.connected(self.kv_create(bucket, key, value)))
    }

    fn update<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Bytes,
        expected: Sequence,
    ) -> Answer<'a, Sequence> {
        Box::pin(self.connected(self.kv_write(bucket, key, value, Some(expected))))
    }

    fn purge<'a>(&'a self, bucket: &'a str, key: &'a str, expected: Option<Sequence>) -> Answer<'a, ()> {
        Box::pin(self.connected(self.kv_purge(bucket, key, expected)))
    }

    fn purge_all<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, ()> {
        Box::pin(self.connected(self.kv_purge_all(bucket, pattern)))
    }

    fn keys<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(self.connected(self.kv_keys(bucket, pattern)))
    }

    fn scan<'a>(&'a self, bucket: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Entry>> {
        Box::pin(self.connected(self.kv_scan(bucket, pattern, from)))
    }

    fn replay<'a>(&'a self, stream: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Record>> {
        Box::pin(self.connected(self.read(stream, pattern, from)))
    }

    fn ensure_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Found> {
        Box::pin(self.connected(self.ensure_durable(reader)))
    }

    fn adjust_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Vec<Drift>> {
        Box::pin(self.connected(self.adjust_durable(reader)))
    }

    fn take<'a>(&'a self, reader: &'a DurableReader, count: usize, wait: Duration) -> Answer<'a, Vec<Taken>> {
        Box::pin(self.connected(self.take_durable(reader, count, wait)))
    }

    fn acknowledge<'a>(&'a self, taken: &'a Taken, what: Acknowledge) -> Answer<'a, ()> {
        Box::pin(self.connected(self.acknowledge(taken, what)))
    }

    fn pending<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Pending> {
        Box::pin(self.connected(self.pending_of(reader)))
    }

    fn last<'a>(&'a self, stream: &'a str, subject: &'a str) -> Answer<'a, Option<Record>> {
        Box::pin(self.connected(self.last_of(stream, subject)))
    }

    fn at<'a>(&'a self, stream: &'a str, sequence: Sequence) -> Answer<'a, Option<Record>> {
        Box::pin(self.connected(self.read_at(stream, sequence)))
    }

    fn watch<'a>(&'a self, bucket: &'a str, pattern: &'a str, capacity: usize) -> Answer<'a, Watch> {
        Box::pin(self.connected(self.kv_watch(bucket, pattern, capacity)))
    }

    fn ensure<'a>(&'a self, store: &'a Store, replicas: usize) -> Answer<'a, Found> {
        Box::pin(self.connected(self.ensure_store(store, replicas)))
    }

    fn usage<'a>(&'a self, store: &'a Store) -> Answer<'a, Usage> {
        Box::pin(self.connected(self.store_usage(store)))
    }

    fn end<'a>(&'a self, store: &'a Store) -> Answer<'a, Sequence> {
        Box::pin(self.connected(self.store_end(store)))
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(self.connected(self.round_trip()))
    }

    fn reconnect(&self) -> Answer<'_, ()> {
        Box::pin(async {
            let gone =
                |error: &dyn std::fmt::Display| Error::new(Kind::Disconnected, format!("reconnect: {error}"));
            self.client.force_reconnect().await.map_err(|error| gone(&error))
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(self.shut())
    }
}
