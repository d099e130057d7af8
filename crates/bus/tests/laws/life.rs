//! The connection: lost, found, closed.

use crate::bench::{Bench, PATIENCE, bucket, bytes, kind, soon, text, wait_connected};
use std::time::Duration;
use zester_bus::{Bytes, Event, Kind, Listen};
use zester_testkit::wait_until;

pub async fn after_a_crash_everything_works_again_and_what_was_stored_is_there(mut bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "jobs").await;
    let revision = bus.put("jobs", "a", bytes("kept")).await.unwrap();
    let mut heard = bus.subscribe("news", Listen::alone(10)).await.unwrap();
    let mut events = bus.events();
    bench.crash();
    wait_connected(&*bus, false).await;
    bench.restart();
    wait_connected(&*bus, true).await;
    let told = async {
        while events.next().await != Some(Event::Disconnected) {}
        while events.next().await != Some(Event::Reconnected) {}
    };
    soon(told).await;
    // What this connection sends now comes after its subscriptions are in place again.
    bus.flush().await.unwrap();
    let other = bench.connect("two").await;
    other.publish("news", bytes("after the crash")).await.unwrap();
    assert_eq!(text(&mut heard).await, "after the crash");
    // JetStream may need a moment longer than the connection.
    let entry =
        wait_until("the bucket", PATIENCE, || async { bus.get("jobs", "a").await.ok().flatten() }).await;
    assert_eq!((entry.value, entry.revision), (bytes("kept"), revision));
    bus.update("jobs", "a", bytes("changed"), revision).await.unwrap();
}

pub async fn without_a_server_calls_fail_at_once(mut bench: Bench) {
    let bus = bench.connect("one").await;
    bench.crash();
    wait_connected(&*bus, false).await;
    assert_eq!(kind(soon(bus.publish("a", Bytes::new())).await), Some(Kind::Disconnected));
    assert_eq!(kind(soon(bus.publish_stored("a", Bytes::new(), None)).await), Some(Kind::Disconnected));
    assert_eq!(kind(soon(bus.request("a", Bytes::new(), PATIENCE)).await), Some(Kind::Disconnected));
    assert_eq!(kind(soon(bus.get("a", "b")).await), Some(Kind::Disconnected));
    assert_eq!(kind(soon(bus.flush()).await), Some(Kind::Disconnected));
    // A subscription waits for the server, its maker does not.
    let mut heard = soon(bus.subscribe("news", Listen::alone(10))).await.unwrap();
    bench.restart();
    wait_connected(&*bus, true).await;
    bus.flush().await.unwrap();
    bus.publish("news", bytes("here")).await.unwrap();
    assert_eq!(text(&mut heard).await, "here");
}

pub async fn a_closed_bus_answers_errors(bench: Bench) {
    let (bus, other) = (bench.connect("one").await, bench.connect("two").await);
    let store = bucket(&*bus, "jobs").await;
    let mut heard = bus.subscribe("a", Listen::alone(10)).await.unwrap();
    let mut last = other.subscribe("last.words", Listen::alone(10)).await.unwrap();
    let mut events = bus.events();
    bus.publish("last.words", bytes("goodbye")).await.unwrap();
    soon(bus.close()).await.unwrap();
    assert_eq!(text(&mut last).await, "goodbye");
    assert_eq!(soon(heard.next()).await, None);
    let closed = async { while events.next().await != Some(Event::Closed) {} };
    soon(closed).await;
    assert!(!bus.info().connected);
    assert_eq!(kind(soon(bus.publish("a", Bytes::new())).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.publish_stored("a", Bytes::new(), None)).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.request("a", Bytes::new(), PATIENCE)).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.subscribe("a", Listen::alone(1))).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.get("jobs", "a")).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.create("jobs", "a", Bytes::new())).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.purge("jobs", "a", None)).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.keys("jobs", ">")).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.replay("KV_jobs", ">", 0)).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.watch("jobs", ">", 1)).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.ensure(&store, 1)).await), Some(Kind::Closed));
    assert_eq!(kind(soon(bus.flush()).await), Some(Kind::Closed));
    soon(bus.close()).await.unwrap();
}

pub async fn closing_ends_a_request_under_way(bench: Bench) {
    let (bus, other) = (bench.connect("one").await, bench.connect("two").await);
    let mut questions = other.subscribe("service", Listen::alone(1)).await.unwrap();
    let close_once_asked = async {
        questions.next().await;
        bus.close().await.unwrap();
    };
    let asked = bus.request("service", Bytes::new(), Duration::from_secs(3600));
    let (answer, ()) = soon(async { tokio::join!(asked, close_once_asked) }).await;
    assert_eq!(kind(answer), Some(Kind::Closed));
}
