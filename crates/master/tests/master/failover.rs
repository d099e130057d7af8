//! Masters that stop, crash and start again (J-10, J-12 to J-14).

use crate::fleet::{Fleet, eventually};
use std::time::Duration;
use zester_bus::memory::{Fate, Faults, Leg, Perfect, SERVER};
use zester_rule::rule;
use zester_wire::*;

async fn long_job(fleet: &Fleet) -> Jid {
    let request = DispatchRequest { timeout: Duration::from_secs(3600), ..fleet.request("*") };
    fleet.ask(&request).await.jid.unwrap()
}

async fn heartbeats(fleet: &Fleet) -> Vec<String> {
    fleet.link.bus().keys("master-heartbeat", ">").await.unwrap()
}

#[tokio::test(start_paused = true)]
#[rule("J-12")]
async fn j12_a_graceful_stop_detaches() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = long_job(&fleet).await;
    web.serve(true).await;
    let of_db = db.exec().await;
    db.ack(&of_db).await;
    fleet.stored_eventually(&jid, "web-1").await;
    let owner = first.id.clone();
    assert_eq!(heartbeats(&fleet).await, [owner.to_string()]);
    first.stop().await;
    assert_eq!(heartbeats(&fleet).await, Vec::<String>::new());
    let job = fleet.record(&jid).await.unwrap();
    assert_eq!((job.status, job.owner, job.epoch), (JobStatus::Running, owner, 1));
    assert!(fleet.is_active(&jid).await);

    // J-14: the same master, started again, takes its job back, and what came meanwhile is not lost.
    db.ret(&of_db, true).await;
    let second = fleet.master("m1").await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count, job.epoch), (JobStatus::Complete, 2, 2));
    assert_eq!((job.owner, job.dispatch_epoch), (second.id.clone(), 1));
    assert_eq!(second.metric("zester_jobs_adopted_total"), 1);
    second.stop().await;
}

#[tokio::test(start_paused = true)]
#[rule("J-12")]
async fn j12_a_stop_while_the_last_return_is_written_finalizes() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    web.serve(true).await;
    eventually("the job flushes or is over", async || fleet.stored(&jid, "web-1").await).await;
    master.stop().await;
    assert_eq!(fleet.record(&jid).await.unwrap().status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
#[rule("J-12")]
async fn j12_a_master_that_stops_takes_no_new_jobs_and_stops_without_a_bus() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    long_job(&fleet).await;
    fleet.net.cut("m1");
    master.stop().await;
    let request = fleet.request("*");
    let asked = fleet.link.request(&Subject::Dispatch, &request, Duration::from_secs(1));
    let asked: Result<DispatchReply, _> = asked.await;
    assert!(asked.is_err());
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_the_job_of_a_master_that_crashed_is_adopted_by_one() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    let mut mail = fleet.peel("mail-1").await;
    fleet.known("*", 3).await;
    let jid = long_job(&fleet).await;
    web.serve(true).await;
    fleet.stored_eventually(&jid, "web-1").await;
    let of_db = db.exec().await;
    db.ack(&of_db).await;
    let of_mail = mail.exec().await;
    drop(first);
    let masters = [fleet.start("m2"), fleet.start("m3")];
    db.ret(&of_db, true).await;
    // The silent one is asked again for the same dispatch, the others are not.
    let again = mail.exec().await;
    assert_eq!((again.jid.clone(), again.dispatch_epoch), (jid.clone(), of_mail.dispatch_epoch));
    assert!(again.budget < of_mail.budget);
    mail.ack(&again).await;
    mail.ret(&again, true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count, job.reclaim_count), (JobStatus::Complete, 3, 1));
    assert!(masters.iter().any(|master| master.id == job.owner));
    let adopted = masters.iter().map(|master| master.metric("zester_jobs_adopted_total")).sum::<u64>();
    assert_eq!(adopted, 1);
    assert!(web.hears_nothing(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
#[rule("J-10")]
async fn j10_a_superseded_owner_writes_nothing() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.net.cut("m1");
    let second = fleet.start("m2");
    eventually("the job is adopted", async || fleet.record(&jid).await.filter(|job| job.owner == second.id))
        .await;
    fleet.net.heal("m1");
    web.ret(&exec, true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, &job.owner, job.epoch), (JobStatus::Complete, &second.id, 2));
    eventually("the first has let go", async || (first.metric("zester_jobs_active") == 0).then_some(()))
        .await;
    assert_eq!(fleet.record(&jid).await.unwrap().owner, second.id);
    assert_eq!(first.metric("zester_jobs_finalized_total{status=\"complete\"}"), 0);
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_after_too_many_owners_the_job_is_given_up() {
    let fleet = Fleet::new().await;
    let _web = fleet.peel("web-1").await;
    let mut master = fleet.master("m0").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    for turn in 1..=4_u32 {
        drop(master);
        master = fleet.start(&format!("m{turn}"));
        eventually("the job is adopted", async || {
            fleet.record(&jid).await.filter(|job| job.owner == master.id)
        })
        .await;
    }
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.reclaim_count), (JobStatus::Failed, 4));
    assert!(job.reason.contains("more than 3 times"), "{}", job.reason);
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_a_living_owner_keeps_its_job_and_failed_scans_count_for_nothing() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let second = fleet.master("m2").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(fleet.record(&jid).await.unwrap().owner, first.id);
    // Only half of what a scan asks is answered.
    fleet.net.set_faults(crate::fleet::Losing::new(usize::MAX, |leg| {
        leg.from == "m2" && leg.subject == "KV_master-heartbeat"
    }));
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(second.metric("zester_scan_failures_total") > 0);
    assert_eq!(fleet.record(&jid).await.unwrap().owner, first.id);
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_a_mark_without_a_record_is_removed() {
    let fleet = Fleet::new().await;
    let jid = fleet.link.new_jid();
    let key = Key::Active(jid.clone()).to_string();
    fleet.link.bus().create("jobs", &key, "whatever".into()).await.unwrap();
    let _master = fleet.master("m1").await;
    eventually("the mark is gone", async || (!fleet.is_active(&jid).await).then_some(())).await;
}

/// The record that says `running` takes its time.
struct SlowStart;

impl Faults for SlowStart {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        let is_record = leg.to == SERVER && leg.subject.starts_with("$KV.jobs.");
        let is_mark = leg.subject.contains(".active.");
        vec![Duration::from_secs(if is_record && !is_mark { 2 } else { 0 })]
    }
}

/// A client that hears "nothing was done" gives up with exit 1, and whoever adopts the job runs it.
#[tokio::test(start_paused = true)]
#[rule("J-28", "J-12")]
async fn j28_a_job_that_is_let_go_before_it_was_accepted_is_in_doubt() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    fleet.net.set_faults(SlowStart);
    let request = DispatchRequest { wait: Some(Duration::from_secs(15)), ..fleet.request("*") };
    let stop = async {
        eventually("the job is marked", async || fleet.is_active(&request.jid).await.then_some(())).await;
        first.stop().await;
    };
    let (reply, ()) = tokio::join!(fleet.ask(&request), stop);
    assert_eq!(reply.error.unwrap().kind, RefusalKind::ClaimPending);
    fleet.net.set_faults(Perfect);
    let _second = fleet.master("m2").await;
    assert_eq!(web.serve(true).await.jid, request.jid, "it runs all the same");
}

/// A newer release may write what this one cannot read, and works on it.
#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_a_record_that_cannot_be_read_is_ended_only_when_its_owner_is_gone() {
    let fleet = Fleet::new().await;
    let _newer = fleet.master("m2").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    // The newer release writes its record again; this one has never seen such a thing.
    let key = Key::Job(jid.clone()).to_string();
    let strange = fleet.link.bus().get("jobs", &key).await.unwrap().unwrap().value.slice(..20);
    fleet.link.bus().put("jobs", &key, strange.clone()).await.unwrap();
    let _older = fleet.master("m1").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(fleet.is_active(&jid).await, "its owner lives");
    assert_eq!(fleet.link.bus().get("jobs", &key).await.unwrap().unwrap().value, strange);
    fleet.net.cut("m2");
    let record = async || fleet.link.get::<Job>(&Key::Job(jid.clone())).await.ok()?;
    let ended = eventually("the job that nobody can go on with ends", record).await.value;
    assert_eq!(ended.status, JobStatus::Failed);
}
