//! What is too much is refused, and said so.

use crate::fleet::{Fleet, eventually};
use serde_json::json;
use zester_wire::*;

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
