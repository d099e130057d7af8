//! Readers that the server remembers.

use crate::bench::{Bench, PATIENCE, bytes, kind, soon, wait_connected};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::{Acknowledge, Bus, DurableReader, Found, Kind, Reached, Start, Store, Taken};
use zester_testkit::wait_until;

/// Long enough that nothing comes again by itself.
const ACK_WAIT: Duration = Duration::from_secs(60);
const NO_WAIT: Duration = Duration::ZERO;
/// Soon, and not at the end of a question, which lasts a second: nats-server 2.9 takes a message whose turn comes again at that
/// very moment for one that it has yet to give, and counts its deliveries from 1. What must be done once is not told by counts.
const SHORT_ACK_WAIT: Duration = Duration::from_millis(1_500);

fn returns() -> DurableReader {
    DurableReader {
        stream: "job-events".into(),
        name: "late".into(),
        pattern: "job.*.return.*".into(),
        start: Start::Oldest,
        ack_wait: ACK_WAIT,
        unacked_max: 1_000,
        max_deliver: None,
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

/// So many, however many questions that takes: under load the server may answer one too late.
async fn take_all(bus: &dyn Bus, reader: &DurableReader, count: usize) -> Vec<Taken> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(soon(bus.take(reader, count - taken.len(), PATIENCE)).await.unwrap());
    }
    taken
}

async fn finish(bus: &dyn Bus, taken: &[Taken]) {
    for one in taken {
        bus.acknowledge(one, Acknowledge::Done).await.unwrap();
    }
    bus.flush().await.unwrap();
}

/// How many wait, and how many are not acknowledged.
async fn counts(bus: &dyn Bus, reader: &DurableReader) -> (u64, u64) {
    let pending = bus.pending(reader).await.unwrap();
    (pending.waiting, pending.unacked)
}

pub async fn what_came_while_nobody_read_is_given_and_acked_once(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = returns();
    let unmade = bus.take(&reader, 1, NO_WAIT).await;
    assert!(kind(unmade).is_some_and(Kind::retryable));
    publish(&*bus, 0..3).await;
    bus.publish_stored("job.0.status", bytes("other"), None).await.unwrap();
    assert_eq!(bus.ensure_reader(&reader).await.unwrap(), Found::Created);
    assert_eq!(bus.ensure_reader(&reader).await.unwrap(), Found::Existing(vec![]));
    let taken = take_all(&*bus, &reader, 3).await;
    assert_eq!(texts(&taken), ["0", "1", "2"]);
    assert_eq!(taken[1].record.subject, "job.1.return.web");
    assert!(taken.iter().all(|one| one.deliveries == 1));
    assert!(taken.is_sorted_by_key(|one| one.record.sequence));
    finish(&*bus, &taken).await;
    drop(bus);
    let bus = bench.connect("two").await;
    publish(&*bus, 3..4).await;
    assert_eq!(texts(&take_all(&*bus, &reader, 1).await), ["3"]);
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
    let reader = DurableReader { ack_wait: SHORT_ACK_WAIT, ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..3).await;
    let taken = take_all(&*bus, &reader, 3).await;
    let (given_at, delay) = (tokio::time::Instant::now(), Duration::from_millis(200));
    bus.acknowledge(&taken[0], Acknowledge::Done).await.unwrap();
    bus.acknowledge(&taken[1], Acknowledge::Later(delay)).await.unwrap();
    // Whoever took the last one says nothing: it is given again by itself.
    let mut again = BTreeSet::new();
    while again.len() < 2 {
        let one = take_all(&*bus, &reader, 1).await;
        assert!(one[0].deliveries >= 2 && given_at.elapsed() >= delay);
        again.extend(texts(&one));
        finish(&*bus, &one).await;
    }
    assert_eq!(again, ["1", "2"].map(String::from).into());
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
    let first = take_all(&*bus, &reader, 4).await;
    // A limit that is reached is no failure: there is nothing to take until something is acknowledged.
    assert_eq!(bus.take(&reader, 10, NO_WAIT).await.unwrap(), []);
    assert_eq!(bus.take(&reader, 10, Duration::from_millis(200)).await.unwrap(), []);
    assert_eq!(counts(&*bus, &reader).await, (2, 4));
    let other = bench.connect("two").await;
    let acks = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        finish(&*other, &first).await;
    };
    let (rest, ()) = tokio::join!(soon(bus.take(&reader, 1, PATIENCE)), acks);
    assert_eq!(texts(&rest.unwrap()), ["4"]);
    let rest = soon(bus.take(&reader, 4, PATIENCE)).await.unwrap();
    assert_eq!(texts(&rest), ["5"]);
}

/// A message that waits for its next turn is given and not acknowledged: whoever hands back as many as there is room for keeps
/// everything else waiting.
pub async fn what_is_handed_back_for_a_while_keeps_its_room(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { unacked_max: 2, ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..3).await;
    for one in take_all(&*bus, &reader, 2).await {
        bus.acknowledge(&one, Acknowledge::Later(Duration::from_millis(1_500))).await.unwrap();
    }
    bus.flush().await.unwrap();
    assert_eq!(bus.take(&reader, 3, Duration::from_millis(300)).await.unwrap(), []);
    assert_eq!(counts(&*bus, &reader).await, (1, 2));
    let mut seen = BTreeSet::new();
    while seen.len() < 3 {
        let again = take_all(&*bus, &reader, 1).await;
        assert!(!seen.is_empty() || texts(&again) != ["2"], "no room was free before");
        finish(&*bus, &again).await;
        seen.extend(texts(&again));
    }
}

/// Whoever asks while all room is taken is given something as soon as there is some.
pub async fn a_reader_without_room_goes_on_once_there_is_some(bench: Bench) {
    const MESSAGES: usize = 120;
    let (bus, other) = (stream(&bench).await, bench.connect("two").await);
    let reader = DurableReader { unacked_max: 4, ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..MESSAGES).await;
    let mut seen = Vec::new();
    let mut in_hand = soon(bus.take(&reader, 10, PATIENCE)).await.unwrap();
    while !in_hand.is_empty() {
        seen.extend(texts(&in_hand));
        let last = seen.len() == MESSAGES;
        let acks = async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            finish(&*other, &in_hand).await;
        };
        let wait = if last { NO_WAIT } else { PATIENCE };
        let (next, ()) = tokio::join!(soon(bus.take(&reader, 10, wait)), acks);
        in_hand = next.unwrap();
    }
    let expected: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    assert_eq!(seen, expected);
    assert_eq!(counts(&*bus, &reader).await, (0, 0));
}

pub async fn a_reader_of_what_is_new_begins_when_it_is_made(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { start: Start::New, ..returns() };
    publish(&*bus, 0..3).await;
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 3..5).await;
    // It goes on where it is, whoever asks for it again.
    bench.connect("two").await.ensure_reader(&reader).await.unwrap();
    let taken = take_all(&*bus, &reader, 2).await;
    assert_eq!(texts(&taken), ["3", "4"]);
    finish(&*bus, &taken).await;
    assert_eq!(counts(&*bus, &reader).await, (0, 0));
}

/// What a stream drops before it was given is skipped. Whoever reads sees by the numbers how much that was: each delivery has one,
/// and each message.
pub async fn what_a_stream_dropped_unread_shows_in_the_numbers(bench: Bench) {
    let bus = bench.connect("one").await;
    let small = Store { max_messages: Some(4), ..store() };
    bus.ensure(&small, 1).await.unwrap();
    publish(&*bus, 0..2).await;
    let reader = DurableReader { start: Start::New, pattern: ">".into(), ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    let Reached { made, given, sequence } = bus.pending(&reader).await.unwrap().reached;
    assert_eq!((given, sequence), (0, 2));
    publish(&*bus, 2..4).await;
    let taken = take_all(&*bus, &reader, 2).await;
    let numbers = |taken: &[Taken]| -> Vec<(u64, u64)> {
        taken.iter().map(|one| (one.given, one.record.sequence)).collect()
    };
    assert_eq!(numbers(&taken), [(1, 3), (2, 4)]);
    finish(&*bus, &taken[..1]).await;
    // One comes again, which is a delivery and no new message.
    bus.acknowledge(&taken[1], Acknowledge::Later(Duration::ZERO)).await.unwrap();
    let again = take_all(&*bus, &reader, 1).await;
    assert_eq!(numbers(&again), [(3, 4)]);
    finish(&*bus, &again).await;
    publish(&*bus, 4..11).await;
    let reached = bus.pending(&reader).await.unwrap().reached;
    assert_eq!(reached, Reached { made, given: 3, sequence: 4 });
    let taken = take_all(&*bus, &reader, 4).await;
    assert_eq!(numbers(&taken), [(4, 8), (5, 9), (6, 10), (7, 11)]);
    let reached = bus.pending(&reader).await.unwrap().reached;
    assert_eq!(reached, Reached { made, given: 7, sequence: 11 });
    // Whoever begins with the oldest that is kept missed nothing of what went before it came.
    let later = DurableReader { name: "later".into(), ..returns() };
    bus.ensure_reader(&later).await.unwrap();
    let reached = bus.pending(&later).await.unwrap().reached;
    assert_eq!((reached.given, reached.sequence), (0, 7));
    let taken = take_all(&*bus, &later, 4).await;
    assert_eq!(numbers(&taken), [(1, 8), (2, 9), (3, 10), (4, 11)]);
}

pub async fn after_its_last_delivery_a_message_never_comes_again(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { max_deliver: Some(3), ack_wait: SHORT_ACK_WAIT, ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..2).await;
    let later = Acknowledge::Later(Duration::from_millis(10));
    let mut given: Vec<(String, u64)> = Vec::new();
    while given.len() < 6 {
        // The first is refused each time, the second forgotten.
        for one in soon(bus.take(&reader, 1, PATIENCE)).await.unwrap() {
            given.push((texts(std::slice::from_ref(&one)).remove(0), one.deliveries));
            if one.record.subject.contains(".0.") {
                bus.acknowledge(&one, later).await.unwrap();
            }
        }
    }
    given.sort_unstable();
    let thrice = |text: &str| (1..=3).map(|count| (text.to_string(), count)).collect::<Vec<_>>();
    assert_eq!(given, [thrice("0"), thrice("1")].concat());
    assert_eq!(bus.take(&reader, 2, Duration::from_secs(2)).await.unwrap(), []);
    wait_until("the room of both", PATIENCE, || async {
        (counts(&*bus, &reader).await == (0, 0)).then_some(())
    })
    .await;
}

pub async fn who_says_that_it_works_on_a_message_keeps_it(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { ack_wait: SHORT_ACK_WAIT, ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..2).await;
    let taken = take_all(&*bus, &reader, 2).await;
    bus.acknowledge(&taken[1], Acknowledge::Never).await.unwrap();
    let begin = tokio::time::Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        bus.acknowledge(&taken[0], Acknowledge::Progress).await.unwrap();
        assert_eq!(bus.take(&reader, 2, Duration::from_millis(300)).await.unwrap(), []);
    }
    assert_eq!(counts(&*bus, &reader).await, (0, 1));
    // Silence gives it back, and what nobody can use stays away.
    let again = soon(bus.take(&reader, 2, PATIENCE)).await.unwrap();
    assert_eq!((texts(&again), again[0].deliveries), (vec!["0".to_string()], 2));
}

pub async fn an_acknowledgement_of_an_earlier_delivery_counts(bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { ack_wait: SHORT_ACK_WAIT, ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..1).await;
    let first = take_all(&*bus, &reader, 1).await;
    let second = soon(bus.take(&reader, 1, PATIENCE)).await.unwrap();
    assert_eq!(second[0].deliveries, 2);
    finish(&*bus, &first).await;
    assert_eq!(bus.take(&reader, 1, Duration::from_secs(3)).await.unwrap(), []);
    finish(&*bus, &second).await;
    assert_eq!(counts(&*bus, &reader).await, (0, 0));
}

pub async fn drift_of_an_existing_reader_is_told_and_not_repaired(bench: Bench) {
    let bus = stream(&bench).await;
    let old = returns();
    let new = DurableReader { max_deliver: Some(5), ack_wait: Duration::from_secs(7), ..old.clone() };
    assert_eq!(bus.ensure_reader(&old).await.unwrap(), Found::Created);
    for _ in 0..2 {
        let Found::Existing(drift) = bus.ensure_reader(&new).await.unwrap() else { panic!("it was there") };
        let told: Vec<String> = drift.iter().map(ToString::to_string).collect();
        let wanted = [
            "reader late of job-events: ack wait is 60s, should be 7s",
            "reader late of job-events: deliveries is none, should be 5",
        ];
        assert_eq!(told, wanted);
    }
    assert_eq!(bus.ensure_reader(&old).await.unwrap(), Found::Existing(vec![]));
    let none = DurableReader { unacked_max: 0, name: "other".into(), ..old };
    assert_eq!(kind(bus.ensure_reader(&none).await), Some(Kind::Invalid));
}

pub async fn how_an_existing_reader_gives_is_adjusted_and_its_place_stays(bench: Bench) {
    let bus = stream(&bench).await;
    let old = DurableReader { max_deliver: Some(1), ack_wait: Duration::from_secs(30), ..returns() };
    bus.ensure_reader(&old).await.unwrap();
    publish(&*bus, 0..2).await;
    finish(&*bus, &take_all(&*bus, &old, 1).await).await;
    let new = DurableReader { max_deliver: None, ack_wait: SHORT_ACK_WAIT, ..old.clone() };
    let adjusted = bus.adjust_reader(&new).await.unwrap();
    let told: Vec<String> = adjusted.iter().map(ToString::to_string).collect();
    let wanted = [
        "reader late of job-events: ack wait is 30s, should be 1.5s",
        "reader late of job-events: deliveries is 1, should be none",
    ];
    assert_eq!(told, wanted);
    assert_eq!(bus.adjust_reader(&new).await.unwrap(), []);
    assert_eq!(bus.ensure_reader(&new).await.unwrap(), Found::Existing(vec![]));
    // It goes on where it was, and gives in the new way.
    let first = take_all(&*bus, &new, 1).await;
    assert_eq!(texts(&first), ["1"]);
    let again = soon(bus.take(&new, 2, PATIENCE)).await.unwrap();
    assert_eq!((texts(&again), again[0].deliveries), (vec!["1".to_string()], 2));
    // What it reads is not for changing.
    let other = DurableReader { pattern: "job.*.status".into(), ..new.clone() };
    assert_eq!(bus.adjust_reader(&other).await.unwrap(), []);
    assert_eq!(bus.ensure_reader(&new).await.unwrap(), Found::Existing(vec![]));
    let missing = DurableReader { name: "nobody".into(), ..new };
    assert_eq!(kind(bus.adjust_reader(&missing).await), Some(Kind::Unavailable));
}

pub async fn a_durable_reader_lives_through_a_crash(mut bench: Bench) {
    let bus = stream(&bench).await;
    let reader = DurableReader { ack_wait: Duration::from_secs(2), ..returns() };
    bus.ensure_reader(&reader).await.unwrap();
    publish(&*bus, 0..4).await;
    let taken = take_all(&*bus, &reader, 2).await;
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
