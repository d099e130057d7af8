//! What a master must know before it acts on the jobs of others: that a silent one is dead (J-13), that its own are still its
//! own (J-10), that there is room (J-27), that it may (J-23).

use crate::again::record;
use crate::fleet::{Fleet, LONG, Losing, eventually, peel};
use std::sync::Arc;
use std::time::Duration;
use zester_bus::Store;
use zester_bus::memory::{Fate, Faults, Leg, Perfect, SERVER};
use zester_health::State;
use zester_jobs::Timing;
use zester_master::limits::JOBS_MAX;
use zester_rule::rule;
use zester_wire::*;

async fn long_job(fleet: &Fleet) -> Jid {
    let request = DispatchRequest { timeout: Duration::from_secs(3600), ..fleet.request("*") };
    fleet.ask(&request).await.jid.unwrap()
}

fn is_heartbeat_of(leg: Leg<'_>, master: &str) -> bool {
    leg.from == master && leg.to == SERVER && leg.subject.starts_with("$KV.master-heartbeat.")
}

/// Nobody could write a heartbeat for a while, and one of two masters can a little later than the other.
#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_after_an_outage_of_the_heartbeats_a_living_owner_keeps_its_job() {
    const HEARTBEATS: &str = "KV_master-heartbeat";
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    // It looks often enough to miss the other twice before all could write.
    let timing = Timing { orphan_scan: Duration::from_millis(500), ..Timing::default() };
    let second = fleet.start_on("m2", Arc::new(fleet.net.connect("m2")), timing.clone());
    eventually("the second looks for orphans", async || {
        (second.health.state("jobs") == Some(State::Up)).then_some(())
    })
    .await;
    fleet.net.set_led(HEARTBEATS, false);
    tokio::time::sleep(timing.master_ttl * 3).await;
    fleet.net.set_faults(Losing::new(usize::MAX, |leg| is_heartbeat_of(leg, "m1")));
    fleet.net.set_led(HEARTBEATS, true);
    tokio::time::sleep(timing.master_ttl - Duration::from_secs(2)).await;
    fleet.net.set_faults(Perfect);
    tokio::time::sleep(LONG).await;
    let job = fleet.record(&jid).await.unwrap();
    assert_eq!((job.owner, job.epoch), (first.id.clone(), 1));
}

/// A master that could not write its heartbeat, and was never cut off otherwise, has lost its job meanwhile.
#[tokio::test(start_paused = true)]
#[rule("J-10")]
async fn j10_an_owner_whose_heartbeat_was_away_looks_whether_its_jobs_are_still_its_own() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    let second = fleet.master("m2").await;
    fleet.net.set_faults(Losing::new(usize::MAX, |leg| is_heartbeat_of(leg, "m1")));
    // The peel is there and works: nothing but the look at the records can tell the first.
    eventually("the job is adopted", async || {
        web.beat().await;
        fleet.record(&jid).await.filter(|job| job.owner == second.id)
    })
    .await;
    assert_eq!(first.metric("zester_jobs_active"), 1, "nobody has told it yet");
    fleet.net.set_faults(Perfect);
    eventually("the first has let go", async || {
        web.beat().await;
        (first.metric("zester_jobs_active") == 0).then_some(())
    })
    .await;
    assert_eq!(fleet.record(&jid).await.unwrap().status, JobStatus::Running);
    web.ret(&exec, true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.owner), (JobStatus::Complete, second.id.clone()));
}

#[tokio::test(start_paused = true)]
#[rule("J-27")]
async fn j27_the_jobs_of_other_masters_count_too() {
    let fleet = Fleet::new().await;
    for _ in 0..JOBS_MAX {
        let key = Key::Active(fleet.link.new_jid()).to_string();
        fleet.link.bus().create("jobs", &key, "another's".into()).await.unwrap();
    }
    let master = fleet.start("m1");
    eventually("it has looked for orphans", async || {
        (master.health.state("jobs") == Some(State::Up)).then_some(())
    })
    .await;
    let request = DispatchRequest { targets: vec![peel("web-1")], ..fleet.request("") };
    let refusal = fleet.ask(&request).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::Unavailable);
    assert!(refusal.message.contains("10000 jobs are running"), "{}", refusal.message);
}

/// Removing a record takes half a minute.
struct SlowPurges;

impl Faults for SlowPurges {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        let slow = leg.from == "m1" && leg.to == SERVER && leg.subject.starts_with("KV_job-returns");
        vec![Duration::from_secs(if slow { 4 } else { 0 })]
    }
}

fn lease_of(fleet: &Fleet, holder: &MasterId) -> Lease {
    Lease {
        v: 1,
        name: Token::parse("pruner").unwrap(),
        holder: holder.clone(),
        since: fleet.link.now(),
        serial: 0,
    }
}

/// Holds the lease in the name of another for so long.
async fn hold(fleet: &Fleet, long: Duration) {
    let (key, holder) = (Key::Lease(Token::parse("pruner").unwrap()), MasterId::new("m9", "boot").unwrap());
    let end = tokio::time::Instant::now() + long;
    while tokio::time::Instant::now() < end {
        fleet.link.put(&key, &lease_of(fleet, &holder)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn records(fleet: &Fleet) -> usize {
    fleet.link.bus().keys("jobs", "*").await.unwrap().len()
}

#[tokio::test(start_paused = true)]
#[rule("J-23")]
async fn j23_old_jobs_are_removed_by_the_holder_of_the_lease_alone_and_only_while_it_holds_it() {
    let small = Store::bucket("jobs", 256 * 1024);
    let fleet = Fleet::with(std::slice::from_ref(&small)).await;
    let long_ago = UnixMillis(fleet.link.now().0 - 3_600_000);
    let owner = MasterId::new("m0", "boot").unwrap();
    while fleet.link.bus().usage(&small).await.unwrap().percent() < 93 {
        let request = DispatchRequest { state_id: "x".repeat(2_000), ..fleet.request("*") };
        let job = record(&request, &owner, JobStatus::Complete, long_ago);
        fleet.link.create(&Key::Job(request.jid.clone()), &job).await.unwrap();
    }
    let all = records(&fleet).await;
    fleet.link.put(&Key::Lease(Token::parse("pruner").unwrap()), &lease_of(&fleet, &owner)).await.unwrap();
    let _master = fleet.start("m1");
    hold(&fleet, LONG).await;
    assert_eq!(records(&fleet).await, all, "another has the lease");
    // It has the lease now, removes slowly, and loses the lease in the middle.
    fleet.net.set_faults(SlowPurges);
    eventually("it begins", async || (records(&fleet).await < all).then_some(())).await;
    let before = records(&fleet).await;
    hold(&fleet, LONG).await;
    let left = records(&fleet).await;
    // What was under way when the lease went is done; the next is not begun before the lease was looked at.
    assert!(before - left <= 3, "{left} of {all} are left, {before} when the lease went");
    fleet.net.set_faults(Perfect);
    eventually("room is made by the next holder", async || {
        (fleet.link.bus().usage(&small).await.unwrap().percent() <= 70).then_some(())
    })
    .await;
}
