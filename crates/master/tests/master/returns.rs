//! What stands in the bucket of returns, whoever wrote it: each once, and late exactly when the end does not count it (J-9).

use crate::again::record;
use crate::fleet::{Fleet, LONG, Peel, eventually, peel};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::memory::{Fate, Faults, Leg, Perfect};
use zester_jobs::Timing;
use zester_rule::rule;
use zester_wire::*;

/// Less than what is written here, and more than what has to be.
const SMALL_PAYLOAD: usize = 8 * 1024;

fn other() -> MasterId {
    MasterId::new("m9", "boot").unwrap()
}

/// The record of a job that another master has ended without the return of its one target.
fn ended_elsewhere(fleet: &Fleet, request: &DispatchRequest) -> Job {
    let now = fleet.link.now();
    let missing = BTreeMap::from([(peel("web-1"), Missing::Running)]);
    Job { missing, ..record(request, &other(), JobStatus::Timeout, now) }
}

fn return_of(web: &Peel, job: &Job) -> Return {
    Return {
        success: true,
        ..Return::refusing(job.jid.clone(), web.id.clone(), job.dispatch_epoch, Cause::Finished, "")
    }
}

async fn write_record(fleet: &Fleet, job: &Job) {
    fleet.link.put(&Key::Job(job.jid.clone()), job).await.unwrap();
}

async fn write_return(fleet: &Fleet, ret: &Return) {
    fleet.link.create(&Key::Return(ret.jid.clone(), ret.peel.clone()), ret).await.unwrap();
}

/// Every return that the stream has is acknowledged.
async fn all_met(fleet: &Fleet) {
    tokio::time::sleep(LONG).await;
    fleet.known("web-1", 1).await;
}

/// A master that was cut off did not know that another had ended its job, and stored what it heard.
#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_what_a_superseded_owner_stored_after_the_end_is_marked_late() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let web = fleet.peel("web-1").await;
    let job = ended_elsewhere(&fleet, &fleet.request("web-1"));
    write_record(&fleet, &job).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ret = return_of(&web, &job);
    write_return(&fleet, &ret).await;
    web.send(&ret).await;
    eventually("it stands as late", async || {
        fleet.stored(&job.jid, "web-1").await.filter(|stored| stored.late)
    })
    .await;
}

/// What a deadline cut off does not count, so its peel is missing although its return came in time.
#[tokio::test(start_paused = true)]
#[rule("J-5", "J-9")]
async fn j9_what_does_not_count_is_late_only_when_it_was_stored_after_the_end() {
    for after_the_end in [false, true] {
        let fleet = Fleet::new().await;
        let _master = fleet.master("m1").await;
        let web = fleet.peel("web-1").await;
        fleet.known("web-1", 1).await;
        let job = ended_elsewhere(&fleet, &fleet.request("web-1"));
        let ret = Return { cause: Cause::Deadline, ..return_of(&web, &job) };
        if after_the_end {
            write_record(&fleet, &job).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            write_return(&fleet, &ret).await;
        } else {
            write_return(&fleet, &ret).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            write_record(&fleet, &job).await;
        }
        web.send(&ret).await;
        all_met(&fleet).await;
        assert_eq!(fleet.stored(&job.jid, "web-1").await.unwrap().late, after_the_end);
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-7", "J-9")]
async fn j9_a_late_return_of_another_dispatch_is_not_the_jobs() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let web = fleet.peel("web-1").await;
    let job = ended_elsewhere(&fleet, &fleet.request("web-1"));
    write_record(&fleet, &job).await;
    web.send(&Return { dispatch_epoch: job.dispatch_epoch + 1, ..return_of(&web, &job) }).await;
    eventually("it is let go", async || (master.metric("zester_returns_stray_total") > 0).then_some(()))
        .await;
    assert_eq!(fleet.stored(&job.jid, "web-1").await, None);
    // The one of this dispatch is.
    web.send(&return_of(&web, &job)).await;
    assert!(fleet.stored_eventually(&job.jid, "web-1").await.late);
}

/// Another has ended the job and stored the return as late; the owner that does not know yet hears the same return.
#[tokio::test(start_paused = true)]
#[rule("J-9", "J-10")]
async fn j9_an_owner_that_does_not_know_of_the_end_does_not_take_the_mark_from_a_late_return() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = fleet.request("*");
    fleet.ask(&request).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    let job = Job { epoch: 2, ..ended_elsewhere(&fleet, &request) };
    write_record(&fleet, &job).await;
    let ret = return_of(&web, &job);
    write_return(&fleet, &Return { late: true, ..ret.clone() }).await;
    web.send(&ret).await;
    eventually("the first has let go", async || (first.metric("zester_jobs_active") == 0).then_some(()))
        .await;
    assert!(fleet.stored(&job.jid, "web-1").await.unwrap().late);
}

/// Returns reach the master a moment later.
struct SlowReturns;

impl Faults for SlowReturns {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        let slow = leg.to == "m1" && leg.subject.contains(".return.");
        vec![if slow { Duration::from_secs(1) } else { Duration::ZERO }]
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_of_a_return_that_does_not_fit_its_bucket_is_kept_how_it_ended() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.net.set_faults(SlowReturns);
    let answer = serde_json::Value::String("x".repeat(2 * SMALL_PAYLOAD));
    web.send(&Return { answer, ..web.returning(&exec, true) }).await;
    fleet.net.set_max_payload(SMALL_PAYLOAD);
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Complete, 1));
    let stored = fleet.stored(&jid, "web-1").await.unwrap();
    assert!(stored.success && stored.truncated && stored.answer.is_null(), "{stored:?}");
    fleet.net.set_faults(Perfect);
}

/// Whatever of it is long: a return that can never be stored would keep its job from ending.
#[tokio::test(start_paused = true)]
#[rule("J-5", "J-9", "J-16")]
async fn j16_no_return_is_so_large_that_its_job_never_ends() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.net.set_faults(SlowReturns);
    let error = "x".repeat(100 * 1024);
    web.send(&Return { error, ..web.returning(&exec, false) }).await;
    fleet.net.set_max_payload(SMALL_PAYLOAD);
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Failed, 1));
    let stored = fleet.stored(&jid, "web-1").await.unwrap();
    assert!(!stored.success && stored.truncated && stored.error.contains("truncated"), "{stored:?}");
    fleet.net.set_faults(Perfect);
}

#[tokio::test(start_paused = true)]
#[rule("J-5", "J-17")]
async fn j17_a_record_that_is_too_large_with_who_is_missing_ends_without() {
    const TARGETS: usize = 1_000;
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let targets: Vec<PeelId> = (0..TARGETS).map(|number| peel(&format!("web-{number:06}"))).collect();
    let request = DispatchRequest { targets, ..fleet.request("") };
    assert_eq!(fleet.ask(&request).await.error, None);
    fleet.net.set_max_payload(SMALL_PAYLOAD);
    let job = fleet.over(&request.jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Timeout, 0));
    assert!(job.missing.is_empty(), "{}", job.missing.len());
}

/// Replicas are this far behind.
struct Behind;

impl Faults for Behind {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn lag(&mut self, _: &str, stream: &str) -> Duration {
        if stream == "KV_jobs" { LONG } else { Duration::ZERO }
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_before_a_late_return_is_let_go_the_leader_is_asked_for_its_job() {
    let fleet = Fleet::new().await;
    let timing = Timing { retry_pause: Duration::from_millis(100), ..Timing::default() };
    let _master = fleet.start_on("m1", Arc::new(fleet.net.connect("m1")), timing);
    let web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    fleet.net.set_faults(Behind);
    let job = ended_elsewhere(&fleet, &fleet.request("web-1"));
    write_record(&fleet, &job).await;
    web.send(&return_of(&web, &job)).await;
    // Others keep the reader awake, so that it has looked often enough before the replicas know.
    let stored = eventually("it is stored", async || {
        let stray = Job { jid: fleet.link.new_jid(), ..job.clone() };
        web.send(&return_of(&web, &stray)).await;
        fleet.stored(&job.jid, "web-1").await
    })
    .await;
    assert!(stored.late);
}
