//! Jobs and peels as the buckets have them.

use crate::world::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use zester_client::{Error, Killed};
use zester_rule::rule;
use zester_wire::*;

#[tokio::test(start_paused = true)]
async fn jobs_come_newest_first_and_only_so_many() {
    let world = world().await;
    let mut jids = Vec::new();
    for _ in 0..4 {
        let jid = world.other.new_jid();
        put_job(&world.other, &job(&world.other, &jid, &["web-1"], JobStatus::Complete)).await;
        jids.push(jid);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    let reaction = Jid::parse("rxn-0123456789abcdef0123456789abcdef").unwrap();
    put_job(&world.other, &job(&world.other, &reaction, &["web-1"], JobStatus::Complete)).await;
    let found: Vec<Jid> = world.client.jobs(3).await.unwrap().into_iter().map(|job| job.jid).collect();
    assert_eq!(found, [reaction, jids[3].clone(), jids[2].clone()]);
}

/// Ids within one second say nothing of their order, those of reactions nothing at all, and an old job may be written last.
#[tokio::test(start_paused = true)]
async fn the_newest_jobs_are_listed_whatever_their_ids_say() {
    let world = world().await;
    let at = world.other.now();
    let mut made = Vec::new();
    for number in 0..1_200_u64 {
        let jid = match number % 3 {
            0 => world.other.new_jid(),
            _ => Jid::parse(&format!("rxn-{:032x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15))).unwrap(),
        };
        let created = UnixMillis(at.0 + number);
        let job = Job { created, ..job(&world.other, &jid, &["web-1"], JobStatus::Complete) };
        put_job(&world.other, &job).await;
        made.push(job);
    }
    // The end of one that began long before comes last.
    put_job(&world.other, &made[0]).await;
    let found: Vec<Jid> = world.client.jobs(5).await.unwrap().into_iter().map(|job| job.jid).collect();
    let newest: Vec<Jid> = made.iter().rev().take(5).map(|job| job.jid.clone()).collect();
    assert_eq!(found, newest);
    assert_eq!(world.client.jobs(5_000).await.unwrap().len(), made.len());
}

#[tokio::test(start_paused = true)]
async fn only_jobs_that_are_not_over_are_active() {
    let world = world().await;
    for status in [JobStatus::Running, JobStatus::Complete] {
        let jid = world.other.new_jid();
        put_job(&world.other, &job(&world.other, &jid, &["web-1"], status)).await;
        let marked = job(&world.other, &jid, &[], status);
        world.other.put(&Key::Active(jid), &marked).await.unwrap();
    }
    let active = world.client.active().await.unwrap();
    assert_eq!(active.iter().map(|job| job.status).collect::<Vec<_>>(), [JobStatus::Running]);
}

#[tokio::test(start_paused = true)]
async fn a_job_is_found_by_a_prefix_that_only_it_has() {
    let world = world().await;
    let texts = ["2hPx2Kd8VnR7YmWqTz4PLsCfNjA", "2hPx2Kd8VnR7YmWqTz4PLsCfNjB"];
    for text in texts {
        let jid = Jid::parse(text).unwrap();
        put_job(&world.other, &job(&world.other, &jid, &["web-1"], JobStatus::Complete)).await;
    }
    assert_eq!(world.client.job(texts[0]).await.unwrap().jid.as_str(), texts[0]);
    assert!(matches!(world.client.job("2hPx").await, Err(Error::Ambiguous { count: 2, .. })));
    assert!(matches!(world.client.job("9").await, Err(Error::NoSuchJob(_))));
    assert!(matches!(world.client.job("").await, Err(Error::NoSuchJob(_))));
}

#[tokio::test(start_paused = true)]
#[rule("J-17")]
async fn j17_the_missing_of_a_running_job_are_told_apart() {
    let world = world().await;
    let (link, jid) = (&world.other, world.other.new_jid());
    let record = job(link, &jid, &["acked", "died", "gone", "here", "done"], JobStatus::Running);
    put_job(link, &record).await;
    put_heartbeat(link, "here").await;
    put_heartbeat(link, "acked").await;
    send_ack(link, &ack(&jid, "acked", 0)).await;
    send_ack(link, &ack(&jid, "died", 0)).await;
    send_return(link, &ret(&jid, "done")).await;
    let missing = world.client.missing(&record, &BTreeMap::new()).await.unwrap();
    let expected = [
        (peel("acked"), Missing::Running),
        (peel("died"), Missing::Unreachable),
        (peel("gone"), Missing::Unreachable),
        (peel("here"), Missing::NeverAcked),
    ];
    assert_eq!(missing, BTreeMap::from(expected));
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_a_late_return_corrects_who_is_missing() {
    let world = world().await;
    let (link, jid) = (&world.other, world.other.new_jid());
    let mut record = job(link, &jid, &["late", "never"], JobStatus::Timeout);
    record.missing = BTreeMap::from([(peel("late"), Missing::Running), (peel("never"), Missing::NeverAcked)]);
    let late = Return { late: true, ..ret(&jid, "late") };
    put_return(link, &late).await;
    let returns = world.client.returns(&record).await.unwrap();
    let missing = world.client.missing(&record, &returns).await.unwrap();
    assert_eq!(missing, BTreeMap::from([(peel("never"), Missing::NeverAcked)]));
}

#[tokio::test(start_paused = true)]
#[rule("J-9", "J-18")]
async fn j18_what_failed_or_was_stopped_after_the_end_leaves_its_peel_missing() {
    let world = world().await;
    let (link, jid) = (&world.other, world.other.new_jid());
    let mut record = job(link, &jid, &["failed", "stopped"], JobStatus::Timeout);
    let running = |name: &str| (peel(name), Missing::Running);
    record.missing = BTreeMap::from([running("failed"), running("stopped")]);
    put_return(link, &Return { late: true, success: false, ..ret(&jid, "failed") }).await;
    let stopped = Return { late: true, success: false, cause: Cause::Canceled, ..ret(&jid, "stopped") };
    put_return(link, &stopped).await;
    let returns = world.client.returns(&record).await.unwrap();
    assert_eq!(returns.len(), 2);
    assert_eq!(world.client.missing(&record, &returns).await.unwrap(), record.missing);
}

#[tokio::test(start_paused = true)]
#[rule("J-17")]
async fn j17_names_that_no_peel_has_are_among_the_missing() {
    let world = world().await;
    let (link, jid) = (&world.other, world.other.new_jid());
    let ghost = BTreeMap::from([(peel("ghost"), Missing::UnknownPeel)]);
    for status in [JobStatus::Running, JobStatus::Complete] {
        let record = Job {
            return_count: 1,
            unknown_peels: vec![peel("ghost")],
            ..job(link, &jid, &["web-1"], status)
        };
        let returns = BTreeMap::from([(peel("web-1"), std::sync::Arc::new(ret(&jid, "web-1")))]);
        assert_eq!(world.client.missing(&record, &returns).await.unwrap(), ghost);
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_killing_a_job_that_is_over_says_so() {
    let mut world = world().await;
    let jid = world.other.new_jid();
    put_job(&world.other, &job(&world.other, &jid, &["web-1"], JobStatus::Complete)).await;
    world
        .serve("zester.admin.kill", |_, asked: AdminRequest| async move {
            assert!(matches!(asked, AdminRequest::Kill { user, .. } if user == "me"));
            let refusal = Refusal::new(RefusalKind::AlreadyOver, "the job is over");
            Some(AdminReply::refusing(refusal))
        })
        .await;
    match world.client.kill(&jid, "me").await.unwrap() {
        Killed::WasOver { job } => assert_eq!(job.status, JobStatus::Complete),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-18")]
async fn j18_a_retry_is_a_new_job_whose_id_the_client_made() {
    let mut world = world().await;
    let jid = world.other.new_jid();
    let old = jid.clone();
    world
        .serve("zester.admin.retry", move |_, asked: AdminRequest| {
            let old = old.clone();
            async move {
                let AdminRequest::Retry { jid, new_jid, part, timeout, .. } = asked else {
                    panic!("{asked:?}")
                };
                assert_eq!(timeout, Some(Duration::from_secs(90)));
                assert_eq!((jid, part), (old, RetryPart::Missing));
                Some(AdminReply { jid: Some(new_jid), ..AdminReply::done("1 peel") })
            }
        })
        .await;
    let retried =
        world.client.retry(&jid, RetryPart::Missing, Some(Duration::from_secs(90)), "me").await.unwrap();
    assert_ne!(retried.jid, jid);
}

#[tokio::test(start_paused = true)]
async fn peels_are_those_with_facts_or_a_heartbeat() {
    let world = world().await;
    put_facts(&world.other, "web-1", json!({"os": "Alpine"})).await;
    put_facts(&world.other, "web-2", json!({"os": "Alpine"})).await;
    put_heartbeat(&world.other, "web-2").await;
    put_heartbeat(&world.other, "web-3").await;
    let peels = world.client.peels().await.unwrap();
    let told: Vec<(&str, bool, &str)> =
        peels.iter().map(|peel| (peel.id.as_str(), peel.online, peel.os.as_str())).collect();
    assert_eq!(told, [("web-1", false, "Alpine"), ("web-2", true, "Debian"), ("web-3", true, "Debian")]);
    assert!(matches!(world.client.peel(&peel("web-4")).await, Err(Error::NoSuchPeel(_))));
    assert!(world.client.peel(&peel("web-3")).await.unwrap().online);
}

#[tokio::test(start_paused = true)]
#[rule("J-25")]
async fn j25_who_is_online_and_when_it_was_last_seen_is_what_a_master_says() {
    let mut world = world().await;
    put_facts(&world.other, "web-1", json!({"os": "Alpine"})).await;
    put_heartbeat(&world.other, "web-1").await;
    let status = |name: &str, online, seconds: u64| PeelStatus {
        peel: peel(name),
        online,
        last_seen: UnixMillis(seconds * 1_000),
        version: String::new(),
        os: String::new(),
        busy: 0,
        outbox: 0,
    };
    let pages = [vec![status("web-1", false, 7)], vec![status("web-2", true, 9)]];
    world
        .serve("zester.peel.list", move |_, asked: PeelsRequest| {
            let more = asked.after.is_none();
            let peels = pages[usize::from(!more)].clone();
            async move { Some(PeelsReply { v: 1, peels, more, error: None }) }
        })
        .await;
    let peels = world.client.peels().await.unwrap();
    let told: Vec<(&str, bool, u64)> =
        peels.iter().map(|peel| (peel.id.as_str(), peel.online, peel.last_seen.0)).collect();
    assert_eq!(told, [("web-1", false, 7_000), ("web-2", true, 9_000)]);
}
