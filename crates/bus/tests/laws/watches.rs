//! Watching keys.

use crate::bench::{Bench, bucket, bytes, kind, soon, wait_connected};
use zester_bus::{Kind, Seen, Watch};

/// The next thing seen: a key with its value, or "current".
async fn seen(watch: &mut Watch) -> String {
    match soon(watch.next()).await.expect("the watch ended").unwrap() {
        Seen::Entry(entry) => format!("{}={}", entry.key, String::from_utf8_lossy(&entry.value)),
        Seen::Current => "current".into(),
    }
}

pub async fn a_watch_tells_what_is_there_and_what_comes(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = bucket(&*bus, "facts").await;
    for (key, value) in [("p.a", "1"), ("q.x", "1"), ("p.b", "1"), ("p.a", "2")] {
        bus.put("facts", key, bytes(value)).await.unwrap();
    }
    let mut watch = bus.watch("facts", "p.*", 10).await.unwrap();
    assert_eq!(
        [seen(&mut watch).await, seen(&mut watch).await, seen(&mut watch).await],
        ["p.b=1", "p.a=2", "current"]
    );
    bus.put("facts", "q.y", bytes("no")).await.unwrap();
    bus.put("facts", "p.c", bytes("3")).await.unwrap();
    assert_eq!(seen(&mut watch).await, "p.c=3");
    // Removal is not told, a new value is.
    bus.purge("facts", "p.c", None).await.unwrap();
    bus.create("facts", "p.c", bytes("4")).await.unwrap();
    assert_eq!(seen(&mut watch).await, "p.c=4");
    assert_eq!(bus.usage(&store).await.unwrap().consumers, 1);
}

pub async fn a_watch_of_nothing_is_current_at_once(bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "facts").await;
    let mut watch = bus.watch("facts", ">", 10).await.unwrap();
    assert_eq!(seen(&mut watch).await, "current");
    bus.put("facts", "a", bytes("1")).await.unwrap();
    assert_eq!(seen(&mut watch).await, "a=1");
    bus.close().await.unwrap();
    assert!(soon(watch.next()).await.is_none());
}

pub async fn a_watch_lives_through_a_crash(mut bench: Bench) {
    let bus = bench.connect("one").await;
    bucket(&*bus, "facts").await;
    bus.put("facts", "a", bytes("1")).await.unwrap();
    let mut watch = bus.watch("facts", ">", 10).await.unwrap();
    assert_eq!([seen(&mut watch).await, seen(&mut watch).await], ["a=1", "current"]);
    bench.crash();
    wait_connected(&*bus, false).await;
    bench.restart();
    wait_connected(&*bus, true).await;
    bench.connect("two").await.put("facts", "a", bytes("2")).await.unwrap();
    assert_eq!(seen(&mut watch).await, "a=2");
}

/// A new bucket counts from one again: whoever went on at the old number would hear nothing.
pub async fn a_watch_of_a_bucket_that_was_made_again_ends_and_the_next_one_tells_all(mut bench: Bench) {
    let bus = bench.connect("one").await;
    let store = bucket(&*bus, "facts").await;
    for value in ["1", "2", "3"] {
        bus.put("facts", "a", bytes(value)).await.unwrap();
    }
    let mut watch = bus.watch("facts", ">", 10).await.unwrap();
    assert_eq!([seen(&mut watch).await, seen(&mut watch).await], ["a=3", "current"]);
    bench.recreate(&*bus, &store).await;
    bus.put("facts", "b", bytes("new")).await.unwrap();
    assert_eq!(kind(soon(watch.next()).await.expect("told why")), Some(Kind::Missing));
    assert!(soon(watch.next()).await.is_none());
    let mut watch = bus.watch("facts", ">", 10).await.unwrap();
    assert_eq!([seen(&mut watch).await, seen(&mut watch).await], ["b=new", "current"]);
}
