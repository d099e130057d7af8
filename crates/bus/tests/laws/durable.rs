//! Readers that the server remembers.

use crate::bench::{Bench, PATIENCE, bytes, kind, soon, wait_connected};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::{Acknowledge, Bus, DurableReader, Kind, Store, Taken};
use zester_testkit::wait_until;

/// Long enough that nothing comes again by itself.
const ACK_WAIT: Duration = Duration::from_secs(60);
const NO_WAIT: Duration = Duration::ZERO;

fn returns() -> DurableReader {
    DurableReader {
        stream: "job-events".into(),
        name: "late".into(),
        pattern: "job.*.return.*".into(),
        ack_wait: ACK_WAIT,
        unacked_max: 1_000,
    }
}

fn store() -> Store {
    Store::stream("job-events", &["job.*.status", "job.*.return.*"], 16 * 1024 * 1024)
}

async fn stream(bench: &Bench) -> Arc<dyn Bus> {
    let bus = bench.connect("one").await;
    bus.ensure(&store(), 1).await.unwrap();
    bus
}

async fn publish(bus: &dyn Bus, numbers: std::ops::Range<usize>) {
    for number in numbers {
        bus.publish_stored(&format!("job.{number}.return.web"), bytes(&number.to_string()), None)
            .await
            .unwrap();
    }
}

fn texts(taken: &[Taken]) -> Vec<String> {
    taken.iter().map(|one| String::from_utf8(one.record.payload.to_vec()).unwrap()).collect()
}

async fn finish(bus: &dyn Bus, taken: &[Taken]) {
    for one in taken {
        bus.acknowledge(one, Acknowledge::Done).await.unwrap();
    }
    bus.flush().await.unwrap();
}

pub async fn what_came_while_nobody_read_is_given_and_acked_once(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = returns();
    let unmade = bus.take(&reader, 1, NO_WAIT).await;
    assert!(kind(unmade).is_some_and(Kind::retryable));
    publish(&*bus, 0..3).await;
    bus.publish_stored("job.0.status", bytes("other"), None).await.unwrap();
    bus.ensure_reader(&reader).await.unwrap();
    bus.ensure_reader(&reader).await.unwrap();
    let taken = bus.take(&reader, 10, NO_WAIT).await.unwrap();
    assert_eq!(texts(&taken), ["0", "1", "2"]);
    assert_eq!(taken[1].record.subject, "job.1.return.web");
    assert!(taken.iter().all(|one| one.deliveries == 1));
    assert!(taken.is_sorted_by_key(|one| one.record.sequence));
    finish(&*bus, &taken).await;
    drop(bus);
    let bus = bench.connect("two").await;
    publish(&*bus, 3..4).await;
    assert_eq!(texts(&bus.take(&reader, 10, NO_WAIT).await.unwrap()), ["3"]);
    assert_eq!(bus.usage(&store()).await.unwrap().consumers, 1);
    let none = DurableReader { stream: "none".into(), ..reader };
    assert!(bus.ensure_reader(&none).await.is_err());
}

pub async fn readers_of_one_name_share_the_messages(bench: Bench) {
    let (one, two) = (stream(&bench).await, bench.connect("two").await);
    let reader = returns();
    one.ensure_reader(&reader).await.unwrap();
    two.ensure_reader(&reader).await.unwrap();
    publish(&*one, 0..20).await;
    let mut seen = Vec::new();
    while seen.len() < 20 {
        for bus in [&one, &two] {
            seen.extend(texts(&bus.take(&reader, 3, NO_WAIT).await.unwrap()));
        }
    }
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 20, "each goes to one of them");
    assert_eq!(one.usage(&store()).await.unwrap().consumers, 1);
}

pub async fn what_is_not_acknowledged_comes_again(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { ack_wait: Duration::from_secs(1), ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..3).await;
    let taken = bus.take(&reader, 3, NO_WAIT).await.unwrap();
    assert_eq!(taken.len(), 3);
    bus.acknowledge(&taken[0], Acknowledge::Done).await.unwrap();
    bus.acknowledge(&taken[1], Acknowledge::Later(Duration::from_millis(200))).await.unwrap();
    assert_eq!(bus.take(&reader, 3, NO_WAIT).await.unwrap(), []);
    let again = soon(bus.take(&reader, 1, PATIENCE)).await.unwrap();
    assert_eq!((texts(&again), again[0].deliveries), (vec!["1".to_string()], 2));
    finish(&*bus, &again).await;
    // Whoever took the last one says nothing: it is given again by itself.
    let again = soon(bus.take(&reader, 1, PATIENCE)).await.unwrap();
    assert_eq!(texts(&again), ["2"]);
    assert!(again[0].deliveries >= 2);
    finish(&*bus, &again).await;
    assert_eq!(bus.take(&reader, 3, Duration::from_secs(2)).await.unwrap(), []);
}

pub async fn a_durable_reader_waits_for_what_comes(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = returns();
    bus.ensure_reader(&reader).await.unwrap();
    let other = bench.connect("two").await;
    let later = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        publish(&*other, 0..1).await;
    };
    let (taken, ()) = tokio::join!(soon(bus.take(&reader, 8, PATIENCE)), later);
    assert_eq!(texts(&taken.unwrap()), ["0"]);
}

pub async fn no_more_are_given_than_may_be_unacked(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { unacked_max: 4, ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..6).await;
    let first = bus.take(&reader, 4, NO_WAIT).await.unwrap();
    assert_eq!(first.len(), 4);
    finish(&*bus, &first).await;
    let rest = soon(bus.take(&reader, 4, PATIENCE)).await.unwrap();
    assert_eq!(texts(&rest), ["4", "5"]);
}

pub async fn a_durable_reader_lives_through_a_crash(mut bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { ack_wait: Duration::from_secs(2), ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..4).await;
    let taken = bus.take(&reader, 2, NO_WAIT).await.unwrap();
    finish(&*bus, &taken[..1]).await;
    bench.crash();
    wait_connected(&*bus, false).await;
    bench.restart();
    wait_connected(&*bus, true).await;
    // What was acknowledged a moment before may come again too: a crash forgets what was not yet written.
    let wanted: BTreeSet<_> = (0..3).map(|step| taken[1].record.sequence + step).collect();
    let mut seen = BTreeSet::new();
    while !wanted.is_subset(&seen) {
        let more = wait_until("the rest", PATIENCE, || async {
            bus.take(&reader, 8, Duration::from_millis(500)).await.ok().filter(|more| !more.is_empty())
        });
        seen.extend(more.await.iter().map(|one| one.record.sequence));
    }
}
