//! Being there: heartbeats, facts, the end (J-6, D-7).

use crate::world::{Did, PEEL, World};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zester_bus::memory::{Fate, Faults, Leg, SERVER};
use zester_health::State;
use zester_rule::rule;
use zester_wire::{Cause, Pace, PeelCommand, PublishFacts, UnixMillis, VERSION};

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_a_peel_announces_every_connect_and_stays_there() {
    let mut world = World::started().await;
    let first = world.heartbeat(|beat| !beat.os.is_empty()).await;
    assert_eq!((first.connects, first.version.as_str(), first.os.as_str()), (1, "1.2.3", "Debian"));
    // Several times as long as a heartbeat lives.
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let beat = world.heartbeat(|_| true).await;
        assert_eq!((beat.boot, beat.connects), (first.boot.clone(), 1));
    }
    world.net.cut(PEEL);
    world.net.heal(PEEL);
    world.heartbeat(|beat| beat.connects == 2).await;
    world.crash().await;
    world.start();
    let again = world.heartbeat(|beat| beat.boot != first.boot).await;
    assert_eq!(again.connects, 1);
}

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_the_heartbeat_says_what_the_peel_is_at() {
    let world = World::started().await;
    for _ in 0..3 {
        world.send(&world.request("test.hold")).await;
    }
    world.heartbeat(|beat| beat.busy == 3).await;
    world.work.release.add_permits(3);
    world.heartbeat(|beat| beat.busy == 0).await;
}

#[tokio::test(start_paused = true)]
#[rule("D-7")]
async fn d7_facts_are_published_when_they_changed_and_only_then() {
    let mut world = World::started().await;
    let first = world.facts(|_| true).await;
    assert_eq!(first.facts["os"], json!("Debian"));
    let revision = || async {
        let key = zester_wire::Key::Facts(crate::world::peel_id());
        world.master.get::<zester_wire::FactsRecord>(&key).await.unwrap().unwrap().revision
    };
    let before = revision().await;
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    assert!(world.work.gathered.load(Ordering::Relaxed) > 3);
    assert_eq!(revision().await, before);
    *world.work.facts.lock().unwrap() = json!({"id": PEEL, "os": "Alpine"});
    let changed = world.facts(|record| record.hash != first.hash).await;
    assert_eq!(changed.facts["os"], json!("Alpine"));
    // The next life sees that the bus has them.
    let before = revision().await;
    world.crash().await;
    world.start();
    world.heartbeat(|beat| beat.boot.as_str() != "" && beat.connects == 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let key = zester_wire::Key::Facts(crate::world::peel_id());
    let found = world.master.get::<zester_wire::FactsRecord>(&key).await.unwrap().unwrap();
    assert_eq!(found.revision, before);
    // Somebody else's facts under this key are written over.
    let mut forged = found.value;
    forged.hash = "other".into();
    world.master.put(&key, &forged).await.unwrap();
    world.net.cut(PEEL);
    world.net.heal(PEEL);
    world.facts(|record| record.hash == changed.hash).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_what_runs_and_tells_what_became_of_everything() {
    let mut world = World::started().await;
    let (running, waiting) = (world.request("test.hold"), world.request("test.hold"));
    world.send(&running).await;
    world.send(&waiting).await;
    world.until_did(Did::Began(running.jid.clone())).await;
    world.ack().await;
    world.ack().await;
    world.stop().await;
    let ret = world.returned().await;
    assert_eq!((ret.jid, ret.cause, ret.canceled), (running.jid.clone(), Cause::Interrupted, true));
    let ret = world.returned().await;
    assert_eq!((ret.jid, ret.cause), (waiting.jid, Cause::Interrupted));
    assert_eq!(world.work.did(), [Did::Began(running.jid.clone()), Did::Ended(running.jid)]);
    world.start();
    world.nothing_returned().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_a_bus_keeps_the_returns_for_the_next_life() {
    let mut world = World::started().await;
    let request = world.request("test.hold");
    world.send(&request).await;
    world.until_did(Did::Began(request.jid.clone())).await;
    world.net.cut(PEEL);
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.stop().await;
    world.start();
    let ret = world.returned().await;
    assert_eq!((ret.jid, ret.cause), (request.jid, Cause::Interrupted));
    assert!(!world.work.did().contains(&Did::KilledLeftovers));
}

#[tokio::test(start_paused = true)]
#[rule("D-11")]
async fn d11_a_peel_says_how_it_is() {
    let mut world = World::started().await;
    assert_eq!(world.health.state("bus"), Some(State::Up));
    assert_eq!(world.health.state("store"), Some(State::Up));
    world.send(&world.request("test.ping")).await;
    world.send(&world.request("test.crash")).await;
    world.returned().await;
    world.returned().await;
    let metrics = world.health.metrics().unwrap();
    assert!(metrics.contains("zester_peel_jobs_executed_total 2\n"), "{metrics}");
    assert!(metrics.contains("zester_peel_jobs_failed_total 1\n"), "{metrics}");
}

#[tokio::test(start_paused = true)]
#[rule("J-26")]
async fn j26_heartbeats_are_sent_often_and_written_seldom() {
    let world = World::started().await;
    let revision = || async {
        let key = zester_wire::Key::Peel(crate::world::peel_id());
        let found = world.master.get::<zester_wire::PeelHeartbeat>(&key).await.unwrap();
        found.map(|found| found.revision)
    };
    world.seen(|record| record.connects == 1).await;
    let (begun, mut written, mut last) = (tokio::time::Instant::now(), 0, revision().await);
    let first = world.heartbeat(|_| true).await.ts;
    while begun.elapsed() < Duration::from_secs(3_000) {
        tokio::time::sleep(Duration::from_secs(10)).await;
        let now = revision().await;
        written += usize::from(now != last);
        last = now;
    }
    assert!((9..=11).contains(&written), "{written} records in 3,000 s");
    assert!(world.heartbeat(|_| true).await.ts > first.plus(Duration::from_secs(2_980)));
}

/// Counts what passes between the peel and everybody else.
struct Counted(Arc<AtomicUsize>);

impl Faults for Counted {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if [leg.from, leg.to].contains(&PEEL) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        vec![Duration::ZERO]
    }
}

fn pace(every: u64) -> PeelCommand {
    let (every, lasts) = (Duration::from_secs(every), Duration::from_secs(86_400));
    PeelCommand::Pace(Pace { v: VERSION, every, lasts })
}

/// What 50,000 idle peels cost: each sends a heartbeat with its probe every 100 s, a record every ten minutes, looks at its
/// facts every five, and no more.
#[tokio::test(start_paused = true)]
#[rule("J-26")]
async fn j26_an_idle_peel_of_a_large_fleet_costs_less_than_three_messages_a_minute() {
    let (world, count) = (World::started().await, Arc::new(AtomicUsize::new(0)));
    world.net.set_faults(Counted(count.clone()));
    world.tell(&pace(100)).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    count.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    let in_an_hour = count.load(Ordering::Relaxed);
    assert!((100..180).contains(&in_an_hour), "{in_an_hour} messages in an hour");
    let beat = world.heartbeat(|_| true).await;
    assert_eq!(beat.next, Some(Duration::from_secs(100)), "it says when the next one comes");
}

#[tokio::test(start_paused = true)]
#[rule("J-8", "J-11", "J-26")]
async fn j26_a_peel_that_beats_seldom_shows_itself_when_it_is_asked_and_while_it_works() {
    let mut world = World::started().await;
    world.tell(&pace(100)).await;
    world.heartbeat(|beat| beat.next == Some(Duration::from_secs(100))).await;
    let (request, asked) = (world.request("test.hold"), tokio::time::Instant::now());
    world.send(&request).await;
    world.heartbeat(|beat| beat.next == Some(Duration::from_secs(10))).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    world.heartbeat(|beat| !beat.jobs.is_empty()).await;
    let count = Arc::new(AtomicUsize::new(0));
    world.net.set_faults(Counted(count.clone()));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(count.load(Ordering::Relaxed) >= 24, "it works, and beats every ten seconds");
    world.work.release.add_permits(1);
    world.returned().await;
    world.heartbeat(|beat| beat.next == Some(Duration::from_secs(100))).await;
}

/// Nothing is answered, and the bus itself would not notice for minutes.
#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_a_peel_whose_heartbeats_are_not_answered_makes_another_connection() {
    let world = World::started().await;
    world.net.set_faults(NoRoundTrips(3));
    let begun = tokio::time::Instant::now();
    world.heartbeat(|beat| beat.connects == 2).await;
    assert!(begun.elapsed() < Duration::from_secs(31), "{:?}", begun.elapsed());
}

/// So many probes are not answered.
struct NoRoundTrips(usize);

impl Faults for NoRoundTrips {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if leg.subject == "a round trip" && leg.from == SERVER && self.0 > 0 {
            self.0 -= 1;
            return Vec::new();
        }
        vec![Duration::ZERO]
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-25")]
async fn j25_a_peel_that_stops_says_goodbye() {
    let mut world = World::started().await;
    world.stop().await;
    assert!(world.heartbeat(|beat| beat.stopped).await.stopped);
    assert!(world.seen(|record| record.stopped).await.stopped);
    // The next life is there again.
    world.start();
    world.heartbeat(|beat| !beat.stopped).await;
    world.seen(|record| !record.stopped).await;
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_heartbeat_names_the_jobs_that_run_and_wait() {
    let mut world = World::started().await;
    let mut requests = Vec::new();
    for _ in 0..3 {
        requests.push(world.request("test.hold"));
        world.send(requests.last().unwrap()).await;
        world.ack().await;
    }
    let beat = world.heartbeat(|beat| beat.jobs.len() == 3).await;
    for request in &requests {
        assert!(beat.jobs.iter().any(|job| job.jid == request.jid && job.dispatch_epoch == 1));
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_more_jobs_than_a_heartbeat_holds_are_named_in_turn() {
    let mut world = World::started().await;
    let mut unnamed = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let request = world.request("test.hold");
        unnamed.insert(request.jid.clone());
        world.send(&request).await;
        world.ack().await;
    }
    let mut last = UnixMillis(0);
    for _ in 0..3 {
        let beat = world.heartbeat(|beat| beat.busy == 60 && beat.ts > last).await;
        assert!(beat.jobs.len() <= zester_wire::limits::HEARTBEAT_JOBS_MAX);
        beat.jobs.iter().for_each(|job| {
            unnamed.remove(&job.jid);
        });
        last = beat.ts;
    }
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

#[tokio::test(start_paused = true)]
#[rule("D-7")]
async fn d7_facts_that_are_gone_from_the_bus_are_published_again() {
    let world = World::started().await;
    world.facts(|_| true).await;
    world.seen(|_| true).await;
    let id = crate::world::peel_id();
    for key in [zester_wire::Key::Facts(id.clone()), zester_wire::Key::Peel(id)] {
        world.master.purge(&key).await.unwrap();
    }
    world.facts(|_| true).await;
}

/// Without it the facts would come with the next connection, or with the next change.
#[tokio::test(start_paused = true)]
#[rule("D-7")]
async fn d7_a_peel_that_is_asked_publishes_its_facts_again() {
    let world = World::started().await;
    let first = world.facts(|_| true).await;
    world.net.recreate("KV_facts");
    world.tell(&PeelCommand::PublishFacts(PublishFacts { v: VERSION })).await;
    let again = world.facts(|_| true).await;
    assert_eq!(again.hash, first.hash);
}
