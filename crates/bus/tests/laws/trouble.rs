//! What a real server does when something is wrong, so that the memory bus does it too.

use crate::bench::{Bench, PATIENCE, bucket, bytes, kind, soon, wait_connected};
use zester_bus::{Bytes, Delivery, Event, Kind, Listen, Store};
use zester_testkit::wait_until;

/// The server stands still, then goes on: whoever asked gave up, and what it asked for is done all the same.
pub async fn a_write_that_timed_out_lands_later(mut bench: Bench) {
    let bus = bench.connect_hasty("one").await;
    bucket(&*bus, "jobs").await;
    let revision = bus.put("jobs", "a", bytes("before")).await.unwrap();
    bench.freeze();
    assert_eq!(kind(soon(bus.update("jobs", "a", bytes("after"), revision)).await), Some(Kind::Timeout));
    assert!(bus.info().connected, "nobody noticed yet");
    bench.thaw();
    let entry = wait_until("the write that was given up", PATIENCE, || async {
        bus.get("jobs", "a").await.ok().flatten().filter(|entry| entry.value == bytes("after"))
    })
    .await;
    assert!(entry.revision > revision);
}

/// The same for a message that nobody asked an answer for, and for one that waits for its listener.
pub async fn what_is_sent_into_a_silence_comes_when_it_ends(mut bench: Bench) {
    let (bus, other) = (bench.connect_hasty("one").await, bench.connect_hasty("two").await);
    let mut heard = other.subscribe("news", Listen::alone(10)).await.unwrap();
    bench.freeze();
    bus.publish("news", bytes("old")).await.unwrap();
    let silent = tokio::time::timeout(std::time::Duration::from_millis(50), heard.next()).await;
    assert!(silent.is_err(), "nothing passes");
    bench.thaw();
    let Some(Delivery::Message(message)) = soon(heard.next()).await else { panic!("nothing came") };
    assert_eq!(message.payload, bytes("old"));
}

/// A request whose responder is silent is no request without responders: it times out, and is heard later.
pub async fn a_request_into_a_silence_times_out_and_is_heard_later(mut bench: Bench) {
    let (asking, answering) = (bench.connect_hasty("one").await, bench.connect_hasty("two").await);
    let mut questions = answering.subscribe("service", Listen::shared("masters", 10)).await.unwrap();
    bench.freeze();
    let asked = asking.request("service", bytes("claim it"), std::time::Duration::from_millis(200));
    assert_eq!(kind(soon(asked).await), Some(Kind::Timeout));
    bench.thaw();
    let Some(Delivery::Message(message)) = soon(questions.next()).await else { panic!("nothing came") };
    assert_eq!(message.payload, bytes("claim it"));
}

pub async fn a_full_bucket_keeps_the_old_value_and_takes_a_smaller_one(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = Store { max_message_bytes: 2000, ..Store::bucket("jobs", 20_000) };
    bus.ensure(&store, 1).await.unwrap();
    let value = |size: usize| Bytes::from(vec![b'x'; size]);
    let first = bus.put("jobs", "first", value(1000)).await.unwrap();
    let mut count = 0;
    while bus.put("jobs", &format!("k{count}"), value(1000)).await.is_ok() {
        count += 1;
    }
    assert_eq!(kind(bus.update("jobs", "first", value(1500), first).await), Some(Kind::Full));
    let entry = bus.get("jobs", "first").await.unwrap().unwrap();
    assert_eq!((entry.revision, entry.value.len()), (first, 1000), "the old value stays");
    bus.update("jobs", "first", value(100), first).await.unwrap();
    bus.purge("jobs", "k0", None).await.unwrap();
    bus.purge("jobs", "k1", None).await.unwrap();
    bus.put("jobs", "new", value(1000)).await.unwrap();
}

/// A stream that was removed and made again counts from one: revisions compare within one making only.
pub async fn a_bucket_that_was_made_again_counts_from_one(mut bench: Bench) {
    let bus = bench.connect("one").await;
    let store = bucket(&*bus, "peel-heartbeat").await;
    for _ in 0..5 {
        bus.put("peel-heartbeat", "web-01", bytes("old")).await.unwrap();
    }
    bench.recreate(&*bus, &store).await;
    assert_eq!(bus.get("peel-heartbeat", "web-01").await.unwrap(), None);
    assert_eq!(bus.put("peel-heartbeat", "web-01", bytes("new")).await.unwrap(), 1);
}

/// Whoever knows that its line is dead need not wait until the bus does.
pub async fn a_connection_that_is_given_up_is_made_again(bench: Bench) {
    let (bus, other) = (bench.connect("one").await, bench.connect("two").await);
    let mut heard = bus.subscribe("news", Listen::alone(10)).await.unwrap();
    let mut events = bus.events();
    bus.reconnect().await.unwrap();
    let mut told = Vec::new();
    while told.last() != Some(&Event::Reconnected) {
        told.push(soon(events.next()).await.unwrap());
    }
    assert!(told.contains(&Event::Disconnected), "{told:?}");
    bus.flush().await.unwrap();
    other.publish("news", bytes("new")).await.unwrap();
    let Some(Delivery::Message(message)) = soon(heard.next()).await else { panic!("nothing came") };
    assert_eq!(message.payload, bytes("new"));
}

/// Nothing that is wrong for a moment ends the connection.
pub async fn a_short_silence_is_not_noticed(mut bench: Bench) {
    let bus = bench.connect_hasty("one").await;
    bench.freeze();
    assert_eq!(kind(soon(bus.flush()).await), Some(Kind::Timeout));
    bench.thaw();
    wait_connected(&*bus, true).await;
    wait_until("a round trip", PATIENCE, || async { bus.flush().await.ok() }).await;
}
