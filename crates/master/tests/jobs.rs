//! Jobs from the request to the end, with one master.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::{Fleet, LONG, peel};
use std::time::Duration;
use zester_testkit::wait_until;
use zester_wire::*;

#[tokio::test(start_paused = true)]
async fn j5_all_returned_and_ok_is_complete() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = fleet.dispatch("*").await;
    web.serve(true).await;
    db.serve(true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count, job.success_count), (JobStatus::Complete, 2, 2));
    assert_eq!(job.targets, [peel("db-1"), peel("web-1")]);
    assert_eq!(job.owner, master.id);
    assert!(fleet.stored(&jid, "web-1").await.unwrap().success);
    wait_until("the job is counted", LONG, async || {
        (master.metric("zester_jobs_finalized_total{status=\"complete\"}") == 1).then_some(())
    })
    .await;
    assert_eq!(master.metric("zester_returns_stored_total"), 2);
}

#[tokio::test(start_paused = true)]
async fn j5_some_failed_is_failed_and_some_missing_is_partial() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = fleet.dispatch("*").await;
    web.serve(false).await;
    db.serve(true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count, job.success_count), (JobStatus::Failed, 2, 1));

    let jid = fleet.dispatch("*").await;
    web.serve(true).await;
    let request = db.exec().await;
    db.ack(&request).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Partial, 1));
    assert_eq!(job.missing.get(&peel("db-1")), Some(&Missing::Running));

    let jid = fleet.dispatch("db-1").await;
    let request = db.exec().await;
    assert!(request.budget <= Duration::from_secs(60));
    let job = fleet.over(&jid).await;
    assert_eq!(job.status, JobStatus::Timeout);
}
