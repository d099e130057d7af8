//! Messages that are kept.

use crate::bench::{Bench, PATIENCE, bucket, bytes, kind};
use std::sync::Arc;
use zester_bus::limits::PAGE_MESSAGES_MAX;
use zester_bus::{Bus, Bytes, Kind, Listen, Store};
use zester_testkit::wait_until;

fn job_events() -> Store {
    Store::stream("job-events", &["job.*.status", "job.*.ack.*"], 16 * 1024 * 1024)
}

async fn stream(bench: &Bench) -> (Arc<dyn Bus>, Store) {
    let bus = bench.connect("one").await;
    let store = job_events();
    bus.ensure(&store, 1).await.unwrap();
    (bus, store)
}

pub async fn a_message_id_is_kept_once(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    let first = bus.publish_stored("job.x.status", bytes("1"), Some("id-1")).await.unwrap();
    let again = bus.publish_stored("job.x.status", bytes("1"), Some("id-1")).await.unwrap();
    let other = bus.publish_stored("job.x.status", bytes("2"), Some("id-2")).await.unwrap();
    let none = bus.publish_stored("job.x.status", bytes("3"), None).await.unwrap();
    assert_eq!(first.stream, "job-events");
    assert_eq!(
        [first.duplicate, again.duplicate, other.duplicate, none.duplicate],
        [false, true, false, false]
    );
    assert_eq!(again.sequence, first.sequence);
    assert_eq!(bus.usage(&store).await.unwrap().messages, 3);
}

/// Also where the window for ids is over, or a stream has forgotten them.
pub async fn the_first_of_a_subject_is_kept_and_no_other(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    let first = bus.publish_first("job.x.status", bytes("1")).await.unwrap();
    assert_eq!((first.stream.as_str(), first.duplicate), ("job-events", false));
    assert_eq!(kind(bus.publish_first("job.x.status", bytes("2")).await), Some(Kind::Conflict));
    bus.publish_first("job.y.status", bytes("3")).await.unwrap();
    bus.publish_stored("job.z.status", bytes("4"), None).await.unwrap();
    assert_eq!(kind(bus.publish_first("job.z.status", bytes("5")).await), Some(Kind::Conflict));
    assert_eq!(kind(bus.publish_first("other", bytes("6")).await), Some(Kind::Unavailable));
    assert_eq!(kind(bus.publish_first("job.*.status", bytes("7")).await), Some(Kind::Invalid));
    assert_eq!(bus.usage(&store).await.unwrap().messages, 3);
}

pub async fn a_replay_gives_everything_in_order_and_leaves_no_consumer(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    for number in 0..200 {
        let subject = format!("job.{}.ack.web-{number}", if number % 2 == 0 { "x" } else { "y" });
        bus.publish_stored(&subject, bytes(&number.to_string()), None).await.unwrap();
    }
    let page = bus.replay("job-events", "job.x.ack.*", 0).await.unwrap();
    assert_eq!(page.next, None);
    let found: Vec<&[u8]> = page.items.iter().map(|record| &record.payload[..]).collect();
    let wanted: Vec<String> = (0..200).step_by(2).map(|number| number.to_string()).collect();
    assert_eq!(found, wanted.iter().map(|text| text.as_bytes()).collect::<Vec<_>>());
    assert!(page.items.is_sorted_by_key(|record| record.sequence));
    assert_eq!(page.items[0].subject, "job.x.ack.web-0");
    let half = bus.replay("job-events", "job.x.ack.*", page.items[50].sequence).await.unwrap();
    assert_eq!(half.items, page.items[50..]);
    assert_eq!(bus.replay("job-events", "job.none.ack.*", 0).await.unwrap().items, []);
    assert_eq!(bus.usage(&store).await.unwrap().consumers, 0);
}

/// nats-server 2.9 miscounts what is before a consumer that begins in the middle: nothing may be missing for it.
pub async fn a_replay_from_any_place_gives_all_that_follows(bench: Bench) {
    let (bus, _) = stream(&bench).await;
    for number in 0..120 {
        let subject = format!("job.{}.ack.web-{}", if number % 3 == 0 { "x" } else { "y" }, number % 40);
        bus.publish_stored(&subject, Bytes::from(vec![b'x'; 300]), None).await.unwrap();
    }
    for pattern in ["job.*.ack.*", "job.x.ack.*", ">"] {
        let all = bus.replay("job-events", pattern, 0).await.unwrap().items;
        for from in (1..=121).step_by(4) {
            let wanted: Vec<u64> = all.iter().map(|one| one.sequence).filter(|at| *at >= from).collect();
            let found = bus.replay("job-events", pattern, from).await.unwrap();
            let found: Vec<u64> = found.items.iter().map(|one| one.sequence).collect();
            assert_eq!(found, wanted, "{pattern} from {from}");
        }
    }
}

/// The filter of "everything about one job" lies within none of the stream's subjects.
pub async fn a_replay_may_cross_the_subjects_of_a_stream(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    for subject in ["job.x.status", "job.y.status", "job.x.ack.a", "job.x.status", "job.x.ack.b"] {
        bus.publish_stored(subject, bytes(subject), None).await.unwrap();
    }
    let subjects = |page: &zester_bus::Page<zester_bus::Record>| -> Vec<String> {
        page.items.iter().map(|record| record.subject.clone()).collect()
    };
    let job = bus.replay("job-events", "job.x.>", 0).await.unwrap();
    assert_eq!(subjects(&job), ["job.x.status", "job.x.ack.a", "job.x.status", "job.x.ack.b"]);
    let all = bus.replay("job-events", ">", 0).await.unwrap();
    assert_eq!(all.items.len(), 5);
    let none = bus.replay("job-events", "elsewhere.>", 0).await.unwrap();
    assert_eq!((none.items.len(), none.next), (0, None));
    assert_eq!(bus.usage(&store).await.unwrap().consumers, 0);
}

pub async fn the_newest_message_of_a_subject_is_read_without_a_consumer(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    for (subject, text) in [("job.x.ack.a", "1"), ("job.x.ack.a", "2"), ("job.x.ack.b", "3")] {
        bus.publish_stored(subject, bytes(text), None).await.unwrap();
    }
    let newest = bus.last("job-events", "job.x.ack.a").await.unwrap().unwrap();
    assert_eq!((newest.subject.as_str(), &newest.payload, newest.sequence), ("job.x.ack.a", &bytes("2"), 2));
    assert_eq!(bus.replay("job-events", "job.x.ack.a", 0).await.unwrap().items[1], newest);
    assert_eq!(bus.last("job-events", "job.x.ack.none").await.unwrap(), None);
    assert_eq!(kind(bus.last("job-events", "job.x.ack.*").await), Some(Kind::Invalid));
    assert!(kind(bus.last("no-such-stream", "job.x.ack.a").await).is_some_and(Kind::retryable));
    assert_eq!(bus.usage(&store).await.unwrap().consumers, 0);
}

pub async fn a_long_replay_comes_in_pages(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    let count = PAGE_MESSAGES_MAX * 2 + 10;
    for number in 0..count {
        let subject = if number % 3 == 0 { "job.x.status" } else { "job.x.ack.web-01" };
        bus.publish(subject, bytes(&number.to_string())).await.unwrap();
    }
    wait_until("everything stored", PATIENCE, || async {
        (bus.usage(&store).await.unwrap().messages == count as u64).then_some(())
    })
    .await;
    for pattern in [">", "job.x.>"] {
        let (mut from, mut found, mut pages) = (0, Vec::new(), 0);
        loop {
            let page = bus.replay("job-events", pattern, from).await.unwrap();
            found.extend(page.items.into_iter().map(|record| record.payload));
            pages += 1;
            let Some(next) = page.next else { break };
            from = next;
        }
        assert!(pages >= 2);
        assert_eq!(found, (0..count).map(|number| bytes(&number.to_string())).collect::<Vec<Bytes>>());
    }
    assert_eq!(bus.usage(&store).await.unwrap().consumers, 0);
}

/// Ids can be guessed: who is told that a message was there already looks whose it is.
pub async fn the_message_at_a_place_says_whose_a_duplicate_is(bench: Bench) {
    let (bus, _) = stream(&bench).await;
    let other = bus.publish_stored("job.x.ack.web", bytes("theirs"), Some("id")).await.unwrap();
    let ours = bus.publish_stored("job.x.ack.db", bytes("ours"), Some("id")).await.unwrap();
    assert!(ours.duplicate);
    let found = bus.at("job-events", ours.sequence).await.unwrap().unwrap();
    assert_eq!((found.subject.as_str(), found.payload), ("job.x.ack.web", bytes("theirs")));
    assert_eq!(found.sequence, other.sequence);
    assert_eq!(bus.at("job-events", other.sequence + 1).await.unwrap(), None);
    assert_eq!(bus.at("job-events", 0).await.unwrap(), None);
    // Who reads message by message is not told whether a stream is not there or has no leader.
    let missing = if bus.info().single_reads { Kind::Unavailable } else { Kind::Missing };
    assert_eq!(kind(bus.at("none", 1).await), Some(missing));
}

/// The history of one job in the stream of all: what is not meant must not be read, and nothing that is may be passed over.
pub async fn few_messages_of_many_are_found_wherever_they_lie(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    let count = PAGE_MESSAGES_MAX * 4;
    // A cluster at the beginning, one at the end, and some that lie far apart.
    let is_meant = |number: usize| number < 40 || number.is_multiple_of(701) || number > count - 300;
    for number in 0..count {
        let subject = if is_meant(number) { "job.x.status" } else { "job.y.status" };
        bus.publish(subject, bytes(&number.to_string())).await.unwrap();
    }
    wait_until("everything stored", PATIENCE, || async {
        (bus.usage(&store).await.unwrap().messages == count as u64).then_some(())
    })
    .await;
    for start in [0, 30, 2_000, count as u64] {
        let (mut from, mut found) = (Some(start), Vec::new());
        while let Some(next) = from {
            let page = bus.replay("job-events", "job.x.status", next).await.unwrap();
            found.extend(page.items.into_iter().map(|record| record.sequence));
            from = page.next;
        }
        let meant = (0..count).filter(|number| is_meant(*number)).map(|number| number as u64 + 1);
        assert_eq!(found, meant.filter(|sequence| *sequence >= start).collect::<Vec<u64>>(), "from {start}");
    }
}

pub async fn the_end_of_a_store_is_its_newest_message(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    assert_eq!(bus.end(&store).await.unwrap(), 0);
    for subject in ["job.x.status", "job.x.ack.web", "job.y.status"] {
        let stored = bus.publish_stored(subject, bytes("x"), None).await.unwrap();
        assert_eq!(bus.end(&store).await.unwrap(), stored.sequence);
    }
    let none = Store::stream("none", &["none"], 1024 * 1024);
    assert!(bus.end(&none).await.is_err());
}

pub async fn what_no_stream_takes_is_unavailable(bench: Bench) {
    let (bus, _) = stream(&bench).await;
    assert_eq!(kind(bus.publish_stored("other", bytes("1"), None).await), Some(Kind::Unavailable));
    assert_eq!(kind(bus.replay("none", ">", 0).await), Some(Kind::Missing));
}

pub async fn a_full_stream_drops_its_oldest_and_a_full_bucket_refuses(bench: Bench) {
    let bus = bench.connect("one").await;
    let store = Store { max_messages: Some(3), ..Store::stream("events", &["event.>"], 1024 * 1024) };
    bus.ensure(&store, 1).await.unwrap();
    for number in 0..5 {
        bus.publish_stored("event.a", bytes(&number.to_string()), None).await.unwrap();
    }
    let kept = bus.replay("events", "event.>", 0).await.unwrap();
    assert_eq!(kept.items.iter().map(|record| record.payload.clone()).collect::<Vec<_>>(), ["2", "3", "4"]);

    let small = Store { max_message_bytes: 3000, ..Store::bucket("facts", 5000) };
    bus.ensure(&small, 1).await.unwrap();
    bus.put("facts", "a", Bytes::from(vec![0; 2500])).await.unwrap();
    assert_eq!(kind(bus.put("facts", "b", Bytes::from(vec![0; 2900])).await), Some(Kind::Full));
    assert!(bus.get("facts", "a").await.unwrap().is_some());
}

/// What an idle peel does, on buckets and streams that are there.
pub async fn a_client_that_listens_and_gets_holds_no_consumer(bench: Bench) {
    let (bus, store) = stream(&bench).await;
    let files = bucket(&*bus, "state-files").await;
    bus.put("state-files", "_revision", bytes("7")).await.unwrap();
    let peel = bench.connect("web-01").await;
    let _commands = peel.subscribe("zester.cmd.web-01", Listen::alone(64)).await.unwrap();
    let _notices = peel.subscribe("zester.notify.*", Listen::alone(64)).await.unwrap();
    assert_eq!(peel.get("state-files", "_revision").await.unwrap().unwrap().value, bytes("7"));
    peel.put("state-files", "note", bytes("here")).await.unwrap();
    peel.publish_stored("job.x.ack.web-01", bytes("ack"), Some("x.web-01")).await.unwrap();
    for store in [&store, &files] {
        assert_eq!(bus.usage(store).await.unwrap().consumers, 0, "{}", store.name);
    }
}
