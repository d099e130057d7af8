//! A reactor that cannot start yet, or does not know all peels yet, is done with no event.

use crate::fleet::{Fleet, Losing, Master, eventually};
use crate::reactor::{all_done, decided, event, fleet_with, ledger, ping, reaction_jid, send};
use serde_json::json;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_bus::memory::{Memory, Perfect};
use zester_bus::storage::reactor;
use zester_bus::{
    Acknowledge, Answer, Bus, Bytes, Drift, DurableReader, Entry, Error, Events, Found, Info, Kind, Listen,
    Message, Page, Pending, Record, Sequence, Store, Stored, Subscription, Taken, Usage, Watch,
};
use zester_health::State;
use zester_jobs::Timing;
use zester_link::Link;
use zester_rule::rule;

/// A master that has made sure of its stores, and from then on reaches all but this one.
fn start_without(fleet: &Fleet, store: &'static str) -> Master {
    let mut began = false;
    fleet.net.set_faults(Losing::new(usize::MAX, move |leg| {
        began |= leg.from == "m1" && leg.subject.starts_with("$KV.master-heartbeat.");
        began && leg.from == "m1" && leg.subject == store
    }));
    fleet.start("m1")
}

/// Until it was refused, not only has just begun.
async fn is_down(master: &Master, words: &str) {
    eventually("the reactor is down", async || match master.health.state("reactor") {
        Some(State::Down(why)) if why.contains(words) => Some(()),
        _ => None,
    })
    .await;
    assert!(!master.health.report().0, "it is not ready");
}

async fn is_up(master: &Master) {
    eventually("it is up", async || (master.health.state("reactor") == Some(State::Up)).then_some(())).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-15")]
async fn r15_a_reactor_whose_server_is_away_is_down_and_back_within_seconds() {
    let fleet = fleet_with(json!({"say": {"log": "hi"}})).await;
    let master = start_without(&fleet, "events");
    is_down(&master, "no answer in time").await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    // It is tried again all the time.
    sleep(Duration::from_secs(100)).await;
    is_down(&master, "no answer in time").await;
    fleet.net.set_faults(Perfect);
    let back = Instant::now();
    is_up(&master).await;
    assert!(back.elapsed() < Duration::from_secs(30), "it took {:?}", back.elapsed());
    decided(&fleet, "e1", "logged").await;
    all_done(&fleet).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-15")]
async fn r15_half_an_index_says_of_nobody_that_he_is_not_there() {
    let fleet = fleet_with(ping()).await;
    let mut web = fleet.peel("web-1").await;
    let master = start_without(&fleet, "KV_facts");
    is_up(&master).await;
    // It has listened for long enough to have heard of everybody who is silent, but does not know the facts.
    sleep(Duration::from_secs(60)).await;
    let sender = Link::new(Arc::new(fleet.net.connect("sender")));
    send(&sender, "web-1", &event("e1", "x", json!({}))).await;
    sleep(Duration::from_secs(60)).await;
    assert!(ledger(&fleet).await.is_empty(), "nothing is decided");
    assert_eq!(fleet.link.bus().pending(&reactor()).await.unwrap().unacked, 1, "it is not done with");
    fleet.net.set_faults(Perfect);
    web.beat().await;
    let request = web.serve(true).await;
    assert_eq!(request.jid, reaction_jid("e1", "reactor.a", "ping"));
    decided(&fleet, "e1", "dispatched").await;
}

/// A bus whose server refuses the reader of the reactors once, after the stores were made sure of.
struct Refusing {
    bus: Memory,
    asked: AtomicUsize,
}

impl Bus for Refusing {
    fn ensure_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Found> {
        let is_ours = reader.name == reactor().name;
        if is_ours && self.asked.fetch_add(1, Ordering::Relaxed) == 1 {
            return Box::pin(ready(Err(Error::new(Kind::Invalid, "no such reader is made here"))));
        }
        self.bus.ensure_reader(reader)
    }

    fn reconnect(&self) -> Answer<'_, ()> {
        self.bus.reconnect()
    }

    fn adjust_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Vec<Drift>> {
        self.bus.adjust_reader(reader)
    }

    fn info(&self) -> Info {
        self.bus.info()
    }

    fn events(&self) -> Events {
        self.bus.events()
    }

    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, ()> {
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

    fn publish_first<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, Stored> {
        self.bus.publish_first(subject, payload)
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
        self.bus.create(bucket, key, value)
    }

    fn update<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Bytes,
        expected: Sequence,
    ) -> Answer<'a, Sequence> {
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
        self.bus.replay(stream, pattern, from)
    }

    fn take<'a>(&'a self, reader: &'a DurableReader, count: usize, wait: Duration) -> Answer<'a, Vec<Taken>> {
        self.bus.take(reader, count, wait)
    }

    fn acknowledge<'a>(&'a self, taken: &'a Taken, what: Acknowledge) -> Answer<'a, ()> {
        self.bus.acknowledge(taken, what)
    }

    fn pending<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Pending> {
        self.bus.pending(reader)
    }

    fn last<'a>(&'a self, stream: &'a str, subject: &'a str) -> Answer<'a, Option<Record>> {
        self.bus.last(stream, subject)
    }

    fn at<'a>(&'a self, stream: &'a str, sequence: Sequence) -> Answer<'a, Option<Record>> {
        self.bus.at(stream, sequence)
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

#[tokio::test(start_paused = true)]
#[rule("R-15")]
async fn r15_a_reactor_that_cannot_start_is_down_and_tries_again_after_a_minute() {
    let fleet = fleet_with(json!({"say": {"log": "hi"}})).await;
    let bus = Refusing { bus: fleet.net.connect("m1"), asked: AtomicUsize::new(0) };
    let master = fleet.start_on("m1", Arc::new(bus), Timing::default());
    is_down(&master, "no such reader is made here").await;
    let failed = Instant::now();
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    is_up(&master).await;
    let took = failed.elapsed().as_secs();
    assert!((55..=65).contains(&took), "it was tried again after {took} s");
    decided(&fleet, "e1", "logged").await;
    all_done(&fleet).await;
}
