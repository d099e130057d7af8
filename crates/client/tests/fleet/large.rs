//! Jobs of so many targets that their names stand on pages of their own.

use crate::world::*;
use std::collections::BTreeMap;
use std::time::Duration;
use zester_bus::memory::{Fate, Faults, Leg};
use zester_client::{Ended, JobUpdate};
use zester_rule::rule;
use zester_wire::*;

const TARGETS: usize = 1_000;
const RETURNED: usize = 990;

fn name(at: usize) -> String {
    format!("web-{at:04}")
}

/// A server that answers direct gets of the pages as they were long ago.
struct PagesLag;

impl Faults for PagesLag {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn lag(&mut self, client: &str, stream: &str) -> Duration {
        let lags = client == "operator" && stream.ends_with(Bucket::JobTargets.as_str());
        if lags { Duration::from_secs(5) } else { Duration::ZERO }
    }
}

/// A job that is over; ten of its thousand have not returned. Says what its record would.
async fn ended(world: &World, jid: &Jid) -> Job {
    let link = &world.other;
    // Long after the beginning: a server can only lag behind what has been.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let names: Vec<String> = (0..TARGETS).map(name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut job = job(link, jid, &names, JobStatus::Partial);
    job.target_list = TargetList::of(&job.targets);
    link.store_targets(&job, job.target_list.as_ref().unwrap()).await.unwrap();
    for name in &names[..RETURNED] {
        put_return(link, &ret(jid, name)).await;
    }
    (job.return_count, job.success_count) = (RETURNED as u64, RETURNED as u64);
    job.missing = names[RETURNED..].iter().map(|name| (peel(name), Missing::Unreachable)).collect();
    job
}

async fn followed(world: &World, jid: &Jid) -> Ended {
    let mut follow = world.client.follow(jid).await.unwrap();
    loop {
        match follow.next().await.unwrap() {
            Some(JobUpdate::Ended(ended)) => return *ended,
            Some(_) => {}
            None => panic!("it ended without a word"),
        }
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-17")]
#[rule("J-23")]
async fn j23_a_large_job_is_shown_whole_whichever_server_answers() {
    let world = world().await;
    let jid = world.other.new_jid();
    let job = ended(&world, &jid).await;
    put_job(&world.other, &job.recorded()).await;
    world.net.set_faults(PagesLag);

    let shown = world.client.job(jid.as_str()).await.unwrap();
    assert_eq!(shown.targets, job.targets);
    let returns = world.client.returns(&shown).await.unwrap();
    assert_eq!(returns.len(), RETURNED);
    assert_eq!(world.client.missing(&shown, &returns).await.unwrap(), job.missing);
    let ended = followed(&world, &jid).await;
    assert_eq!((ended.job.targets.len(), ended.returns.len()), (TARGETS, RETURNED));
}

#[tokio::test(start_paused = true)]
#[rule("J-17")]
async fn j17_the_missing_are_found_where_they_are_too_many_for_the_record() {
    let world = world().await;
    let jid = world.other.new_jid();
    let job = ended(&world, &jid).await;
    put_job(&world.other, &Job { missing: BTreeMap::new(), ..job.recorded() }).await;
    send_ack(&world.other, &ack(&jid, &name(RETURNED), 0)).await;
    put_heartbeat(&world.other, &name(RETURNED)).await;

    let shown = world.client.job(jid.as_str()).await.unwrap();
    let returns = world.client.returns(&shown).await.unwrap();
    let missing = world.client.missing(&shown, &returns).await.unwrap();
    assert_eq!(missing.keys().collect::<Vec<_>>(), job.missing.keys().collect::<Vec<_>>());
    assert_eq!(missing[&peel(&name(RETURNED))], Missing::Running);
    assert_eq!(missing[&peel(&name(RETURNED + 1))], Missing::Unreachable);
}

#[tokio::test(start_paused = true)]
#[rule("J-23")]
async fn j23_a_list_that_is_gone_is_not_a_job_without_targets() {
    let world = world().await;
    let jid = world.other.new_jid();
    let job = ended(&world, &jid).await;
    put_job(&world.other, &job.recorded()).await;
    let page = &job.target_list.as_ref().unwrap().keys(&jid).unwrap()[0];
    world.other.purge(page).await.unwrap();

    let ended = followed(&world, &jid).await;
    assert!(!ended.job.has_targets());
    assert_eq!((ended.job.target_count(), ended.returns.len()), (TARGETS as u64, RETURNED));
}
