//! The same job id again (J-3).

use crate::fleet::{Fleet, Master, eventually, peel};
use std::collections::BTreeMap;
use std::time::Duration;
use zester_rule::rule;
use zester_wire::*;

/// The record that a master would have made of a request.
pub fn record(request: &DispatchRequest, owner: &MasterId, status: JobStatus, now: UnixMillis) -> Job {
    Job {
        v: 1,
        jid: request.jid.clone(),
        function: request.function.clone(),
        args: request.args.clone(),
        state_id: request.state_id.clone(),
        targets: vec![peel("web-1")],
        target_expr: request.target_expr.clone(),
        timeout: request.timeout,
        deadline: now.plus(request.timeout),
        status,
        created: now,
        updated: now,
        user: request.user.clone(),
        owner: owner.clone(),
        epoch: 1,
        dispatch_epoch: 1,
        reclaim_count: 0,
        return_count: 0,
        success_count: 0,
        metadata: request.metadata.clone(),
        positionals: Vec::new(),
        test: false,
        reason: String::new(),
        missing: BTreeMap::new(),
        unknown_peels: Vec::new(),
        request: Vec::new(),
        claim_until: UnixMillis(0),
        target_digest: None,
        target_list: None,
        rest: BTreeMap::new(),
    }
}

async fn fleet() -> (Fleet, Master, crate::fleet::Peel) {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    (fleet, master, web)
}

fn other() -> MasterId {
    MasterId::new("m9", "boot").unwrap()
}

fn kind(reply: &DispatchReply) -> Option<RefusalKind> {
    reply.error.as_ref().map(|refusal| refusal.kind)
}

async fn put(fleet: &Fleet, job: &Job) {
    fleet.link.put(&Key::Job(job.jid.clone()), job).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_the_own_claim_is_resumed() {
    let (fleet, master, mut web) = fleet().await;
    let request = fleet.request("*");
    put(&fleet, &record(&request, &master.id, JobStatus::Claimed, fleet.link.now())).await;
    assert_eq!(fleet.ask(&request).await.jid, Some(request.jid.clone()));
    web.serve(true).await;
    assert_eq!(fleet.over(&request.jid).await.status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_the_claim_of_a_living_master_is_pending() {
    let (fleet, _master, mut web) = fleet().await;
    let second = fleet.master("m2").await;
    let request = fleet.request("*");
    let job = record(&request, &second.id, JobStatus::Claimed, fleet.link.now());
    put(&fleet, &job).await;
    // Whoever of the two is asked: the first says so, the owner resumes.
    eventually("the owner is asked", async || {
        let reply = fleet.ask(&request).await;
        match kind(&reply) {
            None => Some(()),
            Some(kind) => {
                assert_eq!(kind, RefusalKind::ClaimPending);
                assert!(kind.is_retryable());
                None
            }
        }
    })
    .await;
    web.serve(true).await;
    assert_eq!(fleet.over(&request.jid).await.status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_the_claim_of_a_dead_master_is_adopted_though_nothing_marks_it() {
    let (fleet, master, mut web) = fleet().await;
    let request = DispatchRequest { timeout: Duration::from_secs(3600), ..fleet.request("*") };
    put(&fleet, &record(&request, &other(), JobStatus::Claimed, fleet.link.now())).await;
    assert_eq!(kind(&fleet.ask(&request).await), Some(RefusalKind::ClaimPending));
    let exec = web.serve(true).await;
    assert_eq!(exec.dispatch_epoch, 2);
    let job = fleet.over(&request.jid).await;
    assert_eq!((job.status, &job.owner), (JobStatus::Complete, &master.id));
}

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_a_running_or_finished_job_with_the_same_intent_is_a_success_and_nothing_new() {
    let (fleet, _master, mut web) = fleet().await;
    let request = fleet.request("*");
    fleet.ask(&request).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    let again = fleet.ask(&request).await;
    assert_eq!((again.jid, again.error), (Some(request.jid.clone()), None));
    web.ret(&exec, true).await;
    let job = fleet.over(&request.jid).await;
    let again = fleet.ask(&request).await;
    assert_eq!((again.jid, again.targets, again.error), (Some(request.jid.clone()), job.targets, None));
    assert!(web.hears_nothing(Duration::from_secs(30)).await);
    // Of another master.
    let request = fleet.request("web*");
    put(&fleet, &record(&request, &other(), JobStatus::Running, fleet.link.now())).await;
    assert_eq!(fleet.ask(&request).await.jid, Some(request.jid));
}

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_another_intent_is_a_conflict_also_while_the_job_is_under_way() {
    let (fleet, _master, mut web) = fleet().await;
    let request = fleet.request("*");
    fleet.ask(&request).await;
    let other = DispatchRequest { function: "cmd.run".into(), ..request.clone() };
    assert_eq!(kind(&fleet.ask(&other).await), Some(RefusalKind::Conflict));
    web.serve(true).await;
    fleet.over(&request.jid).await;
    // A master that has just ended it asks to be asked again.
    let refused = eventually("an answer for good", async || {
        kind(&fleet.ask(&other).await).filter(|kind| !kind.is_retryable())
    });
    assert_eq!(refused.await, RefusalKind::Conflict);
}

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_many_who_ask_at_once_get_one_job() {
    let (fleet, _master, mut web) = fleet().await;
    let request = fleet.request("*");
    let asked = (0..20).map(|_| fleet.ask(&request));
    for reply in futures_util::future::join_all(asked).await {
        assert_eq!((reply.jid, reply.error), (Some(request.jid.clone()), None));
    }
    web.serve(true).await;
    assert_eq!(fleet.over(&request.jid).await.return_count, 1);
    assert!(web.hears_nothing(Duration::from_secs(10)).await);
}
