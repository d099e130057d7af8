//! What happens to a job, told once and to the end.

use crate::world::*;
use std::time::Duration;
use tokio::time::Instant;
use zester_client::{Ended, Error, Follow, JobUpdate, limits};
use zester_rule::rule;
use zester_wire::*;

async fn all(mut follow: Follow) -> Vec<JobUpdate> {
    let mut updates = Vec::new();
    while let Some(update) = follow.next().await.unwrap() {
        updates.push(update);
    }
    updates
}

fn words(updates: &[JobUpdate]) -> Vec<String> {
    let word = |update: &JobUpdate| match update {
        JobUpdate::Ack { peel, ahead } => format!("ack {peel} {ahead}"),
        JobUpdate::Progress(progress) => format!("progress {} {}", progress.peel, progress.seq),
        JobUpdate::Return(ret) => format!("return {}", ret.peel),
        JobUpdate::BusAway { .. } => "away".to_string(),
        JobUpdate::BusBack => "back".to_string(),
        JobUpdate::Ended(ended) => format!("ended {}", ended.job.status.as_str()),
    };
    updates.iter().map(word).collect()
}

fn end(updates: &[JobUpdate]) -> &Ended {
    match updates.last() {
        Some(JobUpdate::Ended(ended)) => ended,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_told_once_as_it_happens_and_the_buckets_have_the_last_word() {
    let mut world = world().await;
    world
        .serve("zester.dispatch", |link, asked: DispatchRequest| async move {
            let jid = asked.jid;
            let mut record = job(&link, &jid, &["web-1", "web-2"], JobStatus::Running);
            put_job(&link, &record).await;
            send_ack(&link, &ack(&jid, "web-1", 0)).await;
            send_ack(&link, &ack(&jid, "web-1", 0)).await;
            send_ack(&link, &ack(&jid, "web-2", 3)).await;
            let progress = Progress {
                v: 1,
                jid: jid.clone(),
                peel: peel("web-1"),
                dispatch_epoch: 1,
                seq: 1,
                total: 2,
                state: serde_json::Value::Null,
            };
            let subject = Subject::JobProgress { jid: jid.clone(), peel: peel("web-1") };
            link.publish(&subject, &progress).await.unwrap();
            for name in ["web-1", "web-2"] {
                send_return(&link, &ret(&jid, name)).await;
                send_return(&link, &ret(&jid, name)).await;
                put_return(&link, &ret(&jid, name)).await;
            }
            // Nobody that was asked.
            send_return(&link, &ret(&jid, "db-1")).await;
            record.status = JobStatus::Complete;
            put_job(&link, &record).await;
            let event = zester_jobs::messages::status_event(&record, link.now());
            link.publish(&Subject::JobStatus { jid: jid.clone() }, &event).await.unwrap();
            Some(granted(&jid, &["web-1", "web-2"]))
        })
        .await;
    let began = Instant::now();
    let dispatched = world.client.dispatch(world.request("test.ping")).await.unwrap();
    let updates = all(dispatched.follow).await;
    assert_eq!(
        words(&updates),
        ["ack web-1 0", "ack web-2 3", "progress web-1 1", "return web-1", "return web-2", "ended complete"]
    );
    assert_eq!(end(&updates).returns.len(), 2);
    assert!(began.elapsed() < limits::POLL_INTERVAL, "an event ends it, not a poll");
}

#[tokio::test(start_paused = true)]
async fn lost_events_only_make_it_slower() {
    let mut world = world().await;
    world
        .serve("zester.dispatch", |link, asked: DispatchRequest| async move {
            let record = job(&link, &asked.jid, &["web-1"], JobStatus::Complete);
            put_return(&link, &ret(&asked.jid, "web-1")).await;
            put_job(&link, &record).await;
            Some(granted(&asked.jid, &["web-1"]))
        })
        .await;
    let dispatched = world.client.dispatch(world.request("test.ping")).await.unwrap();
    assert_eq!(words(&all(dispatched.follow).await), ["return web-1", "ended complete"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_nobody_finishes_is_given_up_after_its_deadline_and_a_failover() {
    let mut world = world().await;
    world
        .serve("zester.dispatch", |link, asked: DispatchRequest| async move {
            put_job(&link, &job(&link, &asked.jid, &["web-1", "web-2"], JobStatus::Running)).await;
            put_return(&link, &ret(&asked.jid, "web-1")).await;
            Some(granted(&asked.jid, &["web-1", "web-2"]))
        })
        .await;
    let began = Instant::now();
    let dispatched = world.client.dispatch(world.request("test.ping")).await.unwrap();
    let updates = all(dispatched.follow).await;
    assert!(!end(&updates).finished);
    assert_eq!(words(&updates), ["return web-1", "ended running"]);
    assert!(began.elapsed() >= Duration::from_secs(60) + limits::FINISH_GRACE);
    assert!(began.elapsed() < Duration::from_secs(65) + limits::FINISH_GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_happened_before_it_began() {
    let world = world().await;
    let (link, jid) = (&world.other, world.other.new_jid());
    let mut record = job(link, &jid, &["web-1", "web-2"], JobStatus::Running);
    put_job(link, &record).await;
    send_ack(link, &ack(&jid, "web-2", 1)).await;
    send_return(link, &ret(&jid, "web-1")).await;
    let mut follow = world.client.follow(&jid).await.unwrap();
    assert!(matches!(follow.next().await.unwrap(), Some(JobUpdate::Ack { ahead: 1, .. })));
    assert!(matches!(follow.next().await.unwrap(), Some(JobUpdate::Return(_))));
    record.status = JobStatus::Canceled;
    put_job(link, &record).await;
    assert_eq!(words(&all(follow).await), ["ended canceled"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_across_a_lost_connection() {
    let world = world().await;
    let (link, jid) = (&world.other, world.other.new_jid());
    let mut record = job(link, &jid, &["web-1", "web-2"], JobStatus::Running);
    put_job(link, &record).await;
    let follow = world.client.follow(&jid).await.unwrap();
    world.net.cut("operator");
    let mut telling = tokio::task::JoinSet::new();
    telling.spawn(all(follow));
    tokio::time::sleep(Duration::from_secs(5)).await;
    send_return(link, &ret(&jid, "web-1")).await;
    put_return(link, &ret(&jid, "web-1")).await;
    record.status = JobStatus::Partial;
    put_job(link, &record).await;
    world.net.heal("operator");
    let updates = telling.join_next().await.unwrap().unwrap();
    assert_eq!(words(&updates), ["away", "back", "return web-1", "ended partial"]);
}

/// A server that lags answers with less than the record counts.
#[tokio::test(start_paused = true)]
#[rule("J-30")]
async fn j30_returns_that_the_record_counts_are_read_until_they_are_there() {
    let world = world().await;
    let (link, jid) = (world.other.clone(), world.other.new_jid());
    let record =
        Job { return_count: 2, ..job(&link, &jid, &["web-1", "web-2", "web-3"], JobStatus::Partial) };
    put_job(&link, &record).await;
    put_return(&link, &ret(&jid, "web-1")).await;
    let follow = world.client.follow(&jid).await.unwrap();
    let mut lagging = tokio::task::JoinSet::new();
    lagging.spawn(async move {
        tokio::time::sleep(limits::LAG_PAUSE * 3).await;
        put_return(&link, &ret(&jid, "web-2")).await;
    });
    assert_eq!(words(&all(follow).await), ["return web-1", "return web-2", "ended partial"]);
}

/// What the record calls missing is missing, whatever was received: a late return counts once it is stored.
#[tokio::test(start_paused = true)]
async fn the_record_has_the_last_word_on_who_returned() {
    let world = world().await;
    let (link, jid) = (&world.other, world.other.new_jid());
    let mut record = job(link, &jid, &["web-1"], JobStatus::Running);
    put_job(link, &record).await;
    send_return(link, &ret(&jid, "web-1")).await;
    let mut follow = world.client.follow(&jid).await.unwrap();
    assert!(matches!(follow.next().await.unwrap(), Some(JobUpdate::Return(_))));
    record.status = JobStatus::Timeout;
    record.missing = std::collections::BTreeMap::from([(peel("web-1"), Missing::Running)]);
    put_job(link, &record).await;
    let updates = all(follow).await;
    assert_eq!((words(&updates), end(&updates).returns.len()), (vec!["ended timeout".to_string()], 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_does_not_exist_cannot_be_watched() {
    let world = world().await;
    let error = world.client.follow(&world.other.new_jid()).await.err().unwrap();
    assert!(matches!(error, Error::NoSuchJob(_)));
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_a_bus_that_is_gone_to_the_end_is_no_word_about_the_job() {
    let mut world = world().await;
    world
        .serve("zester.dispatch", |link, asked: DispatchRequest| async move {
            put_job(&link, &job(&link, &asked.jid, &["web-1"], JobStatus::Running)).await;
            Some(granted(&asked.jid, &["web-1"]))
        })
        .await;
    let mut dispatched = world.client.dispatch(world.request("test.ping")).await.unwrap();
    world.net.cut("operator");
    let away = dispatched.follow.next().await.unwrap().unwrap();
    let JobUpdate::BusAway { patience } = away else { panic!("whoever waits is told at once: {away:?}") };
    assert!(patience >= Duration::from_secs(60), "{patience:?}");
    let error = dispatched.follow.next().await.unwrap_err();
    let Error::OutOfSight { jid, .. } = &error else { panic!("{error}") };
    assert_eq!(*jid, dispatched.jid);
    assert!(error.to_string().contains(&format!("zester job show {jid}")), "{error}");
}
