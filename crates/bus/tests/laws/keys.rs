//! Keys and their values.

use crate::bench::{Bench, PATIENCE, bucket, bytes, kind};
use std::time::Duration;
use zester_bus::{Bytes, Kind, Store};
use zester_testkit::wait_until;

pub async fn create_loses_to_an_existing_key(bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "jobs").await;
    let revision = bus.create("jobs", "a.b", bytes("first")).await.unwrap();
    assert_eq!(kind(bus.create("jobs", "a.b", bytes("second")).await), Some(Kind::Conflict));
    let entry = bus.get("jobs", "a.b").await.unwrap().unwrap();
    assert_eq!((entry.key.as_str(), &entry.value, entry.revision), ("a.b", &bytes("first"), revision));
}

pub async fn an_update_with_a_stale_revision_loses(bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "jobs").await;
    let first = bus.create("jobs", "a", bytes("1")).await.unwrap();
    bus.put("jobs", "other", bytes("between")).await.unwrap();
    let second = bus.update("jobs", "a", bytes("2"), first).await.unwrap();
    assert!(second > first);
    assert_eq!(kind(bus.update("jobs", "a", bytes("3"), first).await), Some(Kind::Conflict));
    assert_eq!(kind(bus.update("jobs", "none", bytes("3"), first).await), Some(Kind::Conflict));
    let third = bus.put("jobs", "a", bytes("4")).await.unwrap();
    assert_eq!(kind(bus.update("jobs", "a", bytes("5"), second).await), Some(Kind::Conflict));
    assert_eq!(bus.get("jobs", "a").await.unwrap().unwrap().revision, third);
    assert_eq!(bus.get("jobs", "none").await.unwrap(), None);
}

pub async fn of_many_creates_one_wins(bench: Bench) {
    let bus = bench.connect("setup").await;
    bucket(&*bus, "leases").await;
    let mut tasks = Vec::new();
    for number in 0..10 {
        let bus = bench.connect(&format!("master-{number}")).await;
        tasks.push(tokio::spawn(async move { bus.create("leases", "publisher", bytes("me")).await }));
    }
    let mut won = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(_) => won += 1,
            Err(error) => assert_eq!(error.kind(), Kind::Conflict),
        }
    }
    assert_eq!(won, 1);
}

pub async fn the_latest_value_is_what_was_written_last(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = bucket(&*bus, "jobs").await;
    assert_eq!(bus.get_latest("jobs", "a").await.unwrap(), None);
    bus.put("jobs", "a", bytes("1")).await.unwrap();
    let revision = bus.put("jobs", "a", bytes("\0\u{ff} 2")).await.unwrap();
    let entry = bus.get_latest("jobs", "a").await.unwrap().unwrap();
    assert_eq!((entry.key.as_str(), &entry.value), ("a", &bytes("\0\u{ff} 2")));
    assert_eq!(entry, bus.get("jobs", "a").await.unwrap().unwrap());
    assert_eq!(entry.revision, revision);
    bus.purge("jobs", "a", None).await.unwrap();
    assert_eq!(bus.get_latest("jobs", "a").await.unwrap(), None);
    assert!(bus.get_latest("nowhere", "a").await.is_err(), "a bucket that is not there is no missing key");
    assert_eq!(bus.usage(&store).await.unwrap().limit, Some(store.max_bytes));
}

pub async fn all_keys_of_a_pattern_are_purged_at_once(bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "job-returns").await;
    for key in ["a.p1", "a.p2", "b.p1"] {
        bus.put("job-returns", key, bytes("x")).await.unwrap();
    }
    bus.purge_all("job-returns", "a.*").await.unwrap();
    assert_eq!(bus.keys("job-returns", ">").await.unwrap(), ["b.p1"]);
    bus.purge_all("job-returns", "a.*").await.unwrap();
}

pub async fn a_purged_key_is_gone_from_get_and_listing(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = bucket(&*bus, "jobs").await;
    bus.put("jobs", "a", bytes("1")).await.unwrap();
    bus.put("jobs", "b", bytes("2")).await.unwrap();
    bus.purge("jobs", "a", None).await.unwrap();
    assert_eq!(bus.get("jobs", "a").await.unwrap(), None);
    assert_eq!(bus.keys("jobs", ">").await.unwrap(), ["b"]);
    assert_eq!(bus.usage(&store).await.unwrap().messages, 1, "no marker is left");
    bus.purge("jobs", "a", None).await.unwrap();
    bus.create("jobs", "a", bytes("again")).await.unwrap();
    assert_eq!(bus.keys("jobs", ">").await.unwrap(), ["a", "b"]);
}

pub async fn a_purge_with_a_stale_revision_loses(bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "leases").await;
    let mine = bus.put("leases", "a", bytes("mine")).await.unwrap();
    let theirs = bus.put("leases", "a", bytes("theirs")).await.unwrap();
    assert_eq!(kind(bus.purge("leases", "a", Some(mine)).await), Some(Kind::Conflict));
    assert_eq!(bus.get("leases", "a").await.unwrap().unwrap().revision, theirs);
    bus.purge("leases", "a", Some(theirs)).await.unwrap();
    assert_eq!(bus.get("leases", "a").await.unwrap(), None);
    assert_eq!(kind(bus.purge("leases", "a", Some(theirs)).await), Some(Kind::Conflict));
}

pub async fn keys_are_listed_by_pattern(bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "jobs").await;
    assert_eq!(bus.keys("jobs", ">").await.unwrap(), Vec::<String>::new());
    for key in ["z", "active.b", "active.a", "a", "activeless", "active.c.d"] {
        bus.put("jobs", key, bytes(key)).await.unwrap();
    }
    assert_eq!(bus.keys("jobs", "active.*").await.unwrap(), ["active.a", "active.b"]);
    assert_eq!(bus.keys("jobs", "active.>").await.unwrap(), ["active.a", "active.b", "active.c.d"]);
    assert_eq!(bus.keys("jobs", "a").await.unwrap(), ["a"]);
    assert_eq!(bus.keys("jobs", "none.*").await.unwrap(), Vec::<String>::new());
    assert_eq!(bus.keys("jobs", ">").await.unwrap().len(), 6);
}

pub async fn a_scan_gives_the_entries_of_a_pattern(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = bucket(&*bus, "job-returns").await;
    for key in ["x.b", "y.a", "x.a", "x.b"] {
        bus.put("job-returns", key, bytes(key)).await.unwrap();
    }
    let page = bus.scan("job-returns", "x.*", 0).await.unwrap();
    let found: Vec<(&str, &Bytes)> =
        page.items.iter().map(|entry| (entry.key.as_str(), &entry.value)).collect();
    // In the order of their last writes.
    assert_eq!(found, [("x.a", &bytes("x.a")), ("x.b", &bytes("x.b"))]);
    assert_eq!(page.next, None);
    let get = bus.get("job-returns", "x.a").await.unwrap().unwrap();
    assert_eq!(page.items[0], get);
    assert_eq!(bus.scan("job-returns", "none.*", 0).await.unwrap().items, []);
    assert_eq!(bus.usage(&store).await.unwrap().consumers, 0);
}

pub async fn a_value_expires(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = Store::bucket("peel-heartbeat", 1024 * 1024).ttl(Duration::from_secs(1));
    bus.ensure(&store, 1).await.unwrap();
    bus.put("peel-heartbeat", "web-01", bytes("alive")).await.unwrap();
    assert!(bus.get("peel-heartbeat", "web-01").await.unwrap().is_some());
    wait_until("the end of the value", PATIENCE, || async {
        bus.get("peel-heartbeat", "web-01").await.unwrap().is_none().then_some(())
    })
    .await;
    assert_eq!(bus.keys("peel-heartbeat", ">").await.unwrap(), Vec::<String>::new());
    bus.create("peel-heartbeat", "web-01", bytes("back")).await.unwrap();
}

/// A bucket may be made later, or have no leader now: to readers and writers that is the same.
pub async fn a_bucket_that_does_not_exist_is_a_failure_that_may_pass(bench: Bench) {
    let bus = bench.connect("one").await;
    // Some servers answer a direct get with silence.
    assert!(kind(bus.get("none", "a").await).unwrap().retryable());
    assert_eq!(kind(bus.put("none", "a", Bytes::new()).await), Some(Kind::Unavailable));
    assert_eq!(kind(bus.keys("none", ">").await), Some(Kind::Missing));
    assert_eq!(kind(bus.purge("none", "a", None).await), Some(Kind::Missing));
    assert_eq!(kind(bus.scan("none", ">", 0).await), Some(Kind::Missing));
}

pub async fn a_value_larger_than_the_bucket_takes_is_refused(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = Store { max_message_bytes: 1000, ..Store::bucket("leases", 1024 * 1024) };
    bus.ensure(&store, 1).await.unwrap();
    assert_eq!(kind(bus.put("leases", "a", Bytes::from(vec![0; 1001])).await), Some(Kind::TooLarge));
    assert_eq!(bus.get("leases", "a").await.unwrap(), None);
    bus.put("leases", "a", Bytes::from(vec![0; 500])).await.unwrap();
}
