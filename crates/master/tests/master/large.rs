//! Jobs of many targets: their names stand on pages of their own.

use crate::fleet::{Fleet, eventually, peel};
use std::time::Duration;
use zester_bus::Listen;
use zester_master::limits::TARGETS_MAX;
use zester_rule::rule;
use zester_wire::limits::TARGETS_INLINE_MAX;
use zester_wire::*;

fn names(count: usize) -> Vec<PeelId> {
    (0..count).map(|at| peel(&format!("web-{at:06}"))).collect()
}

fn of(fleet: &Fleet, targets: Vec<PeelId>) -> DispatchRequest {
    DispatchRequest { targets, timeout: Duration::from_secs(120), ..fleet.request("") }
}

async fn pages(fleet: &Fleet, jid: &Jid) -> usize {
    let bucket = Bucket::JobTargets.as_str();
    fleet.link.bus().keys(bucket, &Key::all_target_pages(jid)).await.unwrap().len()
}

/// Whoever has nothing to do is told once how often is often enough, and a peel that does so is left alone.
#[tokio::test(start_paused = true)]
#[rule("J-26")]
async fn j26_the_peels_of_a_large_fleet_are_told_to_beat_more_seldom() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let ten = Duration::from_secs(10);
    web.beat_promising(ten).await;
    assert!(web.hears_nothing(ten).await, "a fleet of one");
    let facts = |peel: &PeelId| FactsRecord {
        v: 1,
        peel: peel.clone(),
        ts: UnixMillis(1),
        hash: "x".into(),
        facts: serde_json::Map::new(),
    };
    for peel in names(10_000) {
        fleet.link.put(&Key::Facts(peel.clone()), &facts(&peel)).await.unwrap();
    }
    fleet.known("*", 10_001).await;
    tokio::time::sleep(ten).await;
    web.beat_promising(ten).await;
    let PeelCommand::Pace(pace) = web.command().await else { panic!("no pace") };
    assert_eq!(pace.every, Duration::from_millis(20_002), "10,001 peels send 500 heartbeats a second");
    web.beat_promising(pace.every).await;
    assert!(web.hears_nothing(ten).await, "it was told before");
}

#[tokio::test(start_paused = true)]
#[rule("J-23")]
async fn j23_the_targets_of_a_large_job_do_not_live_in_its_record() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let small = of(&fleet, names(TARGETS_INLINE_MAX));
    assert_eq!(fleet.ask(&small).await.error, None);
    assert_eq!(fleet.record(&small.jid).await.unwrap().targets, small.targets);
    assert_eq!(pages(&fleet, &small.jid).await, 0);

    let large = of(&fleet, names(20_000));
    let reply = fleet.ask(&large).await;
    assert_eq!((reply.error, reply.targets.len()), (None, 20_000));
    let entry = fleet.link.bus().get("jobs", large.jid.as_str()).await.unwrap().unwrap();
    assert!(entry.value.len() < 2_000, "the record has {} bytes", entry.value.len());
    let record = fleet.record(&large.jid).await.unwrap();
    assert_eq!((record.targets.len(), record.target_count()), (0, 20_000));
    assert_eq!(pages(&fleet, &large.jid).await, 10);
    let job = fleet.link.job(&large.jid).await.unwrap().unwrap().value;
    assert_eq!(job.targets, large.targets);
    // The same request again is the same job.
    assert_eq!(fleet.ask(&large).await.error, None);
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
#[rule("J-23")]
async fn j23_an_adopter_reads_the_targets_of_a_large_job() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let targets = names(TARGETS_INLINE_MAX + 50);
    let request = of(&fleet, targets.clone());
    assert_eq!(fleet.ask(&request).await.error, None);
    let mut last = fleet.silent_peel(targets[targets.len() - 1].as_str()).await;
    drop(first);
    let _second = fleet.master("m2").await;
    // It is asked again by the adopter, and answers.
    last.serve(true).await;
    let job = fleet.over(&request.jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Partial, 1));
    assert_eq!((job.missing.len(), job.reclaim_count), (targets.len() - 1, 1));
}

async fn retry_missing(fleet: &Fleet, jid: &Jid) -> (Jid, AdminReply) {
    let new_jid = fleet.link.new_jid();
    let (jid, part, user) = (jid.clone(), RetryPart::Missing, "me".into());
    let request =
        AdminRequest::Retry { jid, new_jid: new_jid.clone(), part, user, wait: None, timeout: None };
    (new_jid, fleet.admin(&request).await)
}

#[tokio::test(start_paused = true)]
#[rule("J-18")]
async fn j18_the_missing_of_a_thousand_are_asked_again() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let targets = names(1_000);
    let request = of(&fleet, targets.clone());
    let mut first = fleet.silent_peel(targets[0].as_str()).await;
    assert_eq!(fleet.ask(&request).await.error, None);
    first.serve(true).await;
    let job = fleet.over(&request.jid).await;
    assert_eq!((job.return_count, job.missing.len()), (1, 999));
    let (again, reply) = retry_missing(&fleet, &request.jid).await;
    assert_eq!((reply.error, reply.message.as_str()), (None, "asked 999 peels again"));
    let again = fleet.link.job(&again).await.unwrap().unwrap().value;
    assert_eq!(again.targets, targets[1..]);

    // Nobody can say who is missing of a list that is gone, so nobody says that none is.
    let page = &job.target_list.as_ref().unwrap().keys(&job.jid).unwrap()[0];
    fleet.link.purge(page).await.unwrap();
    let refusal = retry_missing(&fleet, &request.jid).await.1.error.unwrap();
    assert!(refusal.message.contains("the list of the 1000 targets"), "{}", refusal.message);
}

#[tokio::test(start_paused = true)]
#[rule("J-27")]
async fn j27_a_hundred_thousand_targets_are_accepted_and_one_more_names_the_limit() {
    assert_eq!(TARGETS_MAX, 100_000);
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    // Names by the hundred thousand come of an expression. Here one request brings them, so it may be larger.
    fleet.net.set_max_payload(4 * 1024 * 1024);
    let refusal = fleet.ask(&of(&fleet, names(TARGETS_MAX + 1))).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::Invalid);
    assert!(
        refusal.message.contains("100001 peels match; one job has at most 100000"),
        "{}",
        refusal.message
    );

    let request = of(&fleet, names(TARGETS_MAX));
    let commands = fleet.link.bus().subscribe("zester.cmd.>", Listen::alone(1)).await.unwrap();
    let asked = fleet.link.clone();
    let question = request.clone();
    let asking = tokio::spawn(async move {
        let reply: DispatchReply =
            asked.request(&Subject::Dispatch, &question, Duration::from_secs(300)).await.unwrap();
        reply
    });
    // What the master itself writes and answers fits the payload of a server that nobody configured.
    eventually("it is asked", async || (master.metric("zester_jobs_active") == 1).then_some(())).await;
    fleet.net.set_max_payload(1024 * 1024);
    let reply = asking.await.unwrap();
    assert_eq!((reply.error, reply.targets.len()), (None, 0), "the names are read from the pages");
    let job = fleet.link.job(&request.jid).await.unwrap().unwrap().value;
    assert_eq!(job.targets, request.targets);
    drop(commands);
}

#[tokio::test(start_paused = true)]
#[rule("J-27")]
async fn j27_names_that_do_not_fit_one_answer_are_too_many_and_not_silence() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let names: Vec<PeelId> = (0..4_500).map(|at| peel(&format!("{at:0>120}"))).collect();
    for name in &names {
        let facts = serde_json::Map::new();
        let record = FactsRecord { v: 1, peel: name.clone(), ts: UnixMillis(1), hash: String::new(), facts };
        fleet.link.put(&Key::Facts(name.clone()), &record).await.unwrap();
    }
    fleet.net.set_max_payload(512 * 1024);
    let reply =
        eventually("all are known", async || fleet.resolve("*").await.ok().filter(|reply| reply.too_many))
            .await;
    assert!(reply.error.unwrap().message.contains("cannot name them"));
}
