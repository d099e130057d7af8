//! A job that cannot be claimed for longer than it may take: the reaction is done all the same, or is told.

use crate::fleet::Fleet;
use crate::reactor::{
    all_done, decided, event, fleet_with, ping, publish, reacting, reaction_jid, ready, send,
};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::memory::{Fate, Faults, Leg, SERVER};
use zester_reactor::Guards;
use zester_rule::rule;
use zester_wire::*;

/// Longer than the minute that a job has by itself.
const OUTAGE: Duration = Duration::from_secs(180);

/// Claims are lost, or their answers are, until a moment.
struct Doubtful {
    until: Instant,
    lands: bool,
}

impl Faults for Doubtful {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        let lost = if self.lands { leg.from == SERVER } else { leg.to == SERVER };
        match lost && leg.subject.starts_with("$KV.jobs.") && Instant::now() < self.until {
            true => Vec::new(),
            false => vec![Duration::ZERO],
        }
    }
}

async fn a_claim_in_doubt(lands: bool) {
    let fleet = fleet_with(ping()).await;
    let _master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    let until = Instant::now() + OUTAGE;
    fleet.net.set_faults(Doubtful { until, lands });
    send(&web.link, "web-1", &event("e1", "x", json!({}))).await;
    tokio::time::sleep_until(until).await;
    let request = web.serve(true).await;
    let entry = decided(&fleet, "e1", "dispatched").await;
    assert_eq!(entry.jid, Some(request.jid.clone()));
    assert_eq!(fleet.over(&request.jid).await.status, JobStatus::Complete);
    all_done(&fleet).await;
    assert!(web.hears_nothing(OUTAGE).await, "it was done twice");
}

#[tokio::test(start_paused = true)]
#[rule("R-10", "R-8")]
async fn r10_a_claim_that_is_lost_for_longer_than_the_job_may_take_is_made_later() {
    a_claim_in_doubt(false).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-10", "R-8")]
async fn r10_a_claim_that_landed_unheard_is_gone_on_with_later() {
    a_claim_in_doubt(true).await;
}

/// The job of an event that comes again.
async fn left_by_another(fleet: &Fleet, job: Job) {
    fleet.link.create(&Key::Job(job.jid.clone()), &job.recorded()).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[rule("R-10", "R-1")]
async fn r10_a_reaction_whose_job_never_ran_is_exhausted_and_no_duplicate() {
    let fleet = fleet_with(ping()).await;
    let _master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    send(&web.link, "web-1", &event("e1", "x", json!({}))).await;
    let done = fleet.over(&web.serve(true).await.jid).await;
    let mut metadata = done.metadata.clone();
    metadata.insert("event_id".into(), json!("e2"));
    let jid = reaction_jid("e2", "reactor.a", "ping");
    let reason = "it never ran: nobody could record it".to_string();
    let job = Job { jid: jid.clone(), metadata, status: JobStatus::Failed, reason, ..done };
    left_by_another(&fleet, job).await;
    send(&web.link, "web-1", &event("e2", "x", json!({}))).await;
    let entry = decided(&fleet, "e2", "exhausted").await;
    assert_eq!((entry.jid, entry.reason.contains("it never ran")), (Some(jid), true));
    all_done(&fleet).await;
}

/// What an orchestration will be made of: a job names its event, and its end is one that rules answer.
#[tokio::test(start_paused = true)]
#[rule("R-20")]
async fn r20_the_job_of_a_reaction_names_its_event_and_its_end_is_an_event_for_rules() {
    let mut fleet = fleet_with(ping()).await;
    fleet.reacting = reacting(Guards::default());
    let top = json!([{"*/x": ["reactor.a"]}, {"_master/job/*/finalized": ["reactor.b"]}]);
    publish(&fleet, &[("top.zy", top), ("a.zy", ping()), ("b.zy", json!({"say": {"log": "over"}}))]).await;
    let _master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    send(&web.link, "web-1", &event("e1", "x", json!({}))).await;
    let jid = web.serve(true).await.jid;
    let job = fleet.over(&jid).await;
    assert_eq!(job.metadata.get("event_id"), Some(&json!("e1")));
    assert_eq!(job.metadata.get("event_origin"), Some(&json!("web-1")));
    let entry = decided(&fleet, &format!("job-{jid}-finalized"), "logged").await;
    assert_eq!((entry.rule.as_str(), entry.origin.as_str()), ("reactor.b", "_master"));
}
