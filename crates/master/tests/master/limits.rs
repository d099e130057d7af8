//! What is too much is refused, and said so.

use crate::fleet::{Fleet, eventually, peel};
use serde_json::json;
use std::time::Duration;
use zester_master::limits::{JOBS_MAX, TARGETS_MAX};
use zester_wire::*;

#[tokio::test(start_paused = true)]
async fn a_job_with_too_many_targets_is_refused() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let targets = (0..=TARGETS_MAX).map(|number| peel(&format!("p{number}"))).collect();
    let refusal = fleet.ask(&DispatchRequest { targets, ..fleet.request("") }).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::Invalid);
    assert!(refusal.message.contains("20001 peels match"), "{}", refusal.message);
}

#[tokio::test(start_paused = true)]
async fn a_master_with_too_many_jobs_says_ask_again() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let long = || DispatchRequest { timeout: Duration::from_secs(3600), ..fleet.request("*") };
    for _ in 0..JOBS_MAX {
        assert_eq!(fleet.ask(&long()).await.error, None);
    }
    let request = long();
    let refusal = fleet.ask(&request).await.error.unwrap();
    assert!(refusal.kind.is_retryable());
    assert_eq!(master.metric("zester_jobs_active"), JOBS_MAX as u64);
    assert_eq!(master.metric("zester_jobs_dispatched_total"), JOBS_MAX as u64);
    assert!(fleet.record(&request.jid).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_record_is_too_large_is_refused_at_once() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    fleet.net.set_max_payload(10_000);
    let mut request = fleet.request("*");
    request.args.insert("text".into(), json!("x".repeat(6_000)));
    let refusal = fleet.ask(&request).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::Invalid);
    assert!(refusal.message.starts_with("the job cannot be recorded"), "{}", refusal.message);
    assert!(fleet.record(&request.jid).await.is_none());
    eventually("the job is let go", async || (master.metric("zester_jobs_active") == 0).then_some(())).await;
}
