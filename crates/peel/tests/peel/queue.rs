//! One at a time, canceled, out of time (J-5, J-11, J-15).

use crate::world::{Did, World};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::memory::{Fate, Faults, Leg};
use zester_jobs::peel::BUSY;
use zester_rule::rule;
use zester_wire::{Cause, ExecRequest};

async fn holding(world: &mut World) -> ExecRequest {
    let request = world.request("test.hold");
    world.send(&request).await;
    world.ack().await;
    world.until_did(Did::Began(request.jid.clone())).await;
    request
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_cancel_stops_what_runs_and_it_returns_what_it_has() {
    let mut world = World::started().await;
    let request = holding(&mut world).await;
    world.cancel(&request).await;
    let ret = world.returned().await;
    assert_eq!((ret.jid, ret.cause, ret.canceled), (request.jid.clone(), Cause::Canceled, true));
    assert_eq!(ret.error, "canceled: it was stopped");
    assert_eq!(world.work.did(), [Did::Began(request.jid.clone()), Did::Ended(request.jid)]);
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_cancel_reaches_what_waits_and_it_never_starts() {
    let mut world = World::started().await;
    let first = holding(&mut world).await;
    let second = world.request("test.hold");
    world.send(&second).await;
    assert_eq!(world.ack().await.ahead, 1);
    world.cancel(&second).await;
    let ret = world.returned().await;
    assert_eq!((ret.jid, ret.cause), (second.jid.clone(), Cause::Canceled));
    world.work.release.add_permits(2);
    assert_eq!(world.returned().await.jid, first.jid);
    world.nothing_returned().await;
    assert!(!world.work.did().contains(&Did::Began(second.jid)));
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_cancel_that_overtakes_its_request_is_remembered() {
    let mut world = World::started().await;
    let request = world.request("test.ping");
    world.cancel(&request).await;
    world.send(&request).await;
    assert_eq!(world.returned().await.cause, Cause::Canceled);
    assert!(world.work.did().is_empty());
}

#[tokio::test(start_paused = true)]
#[rule("J-5")]
async fn j5_an_execution_ends_by_itself_after_its_time_bus_or_no_bus() {
    let mut world = World::started().await;
    let request = holding(&mut world).await;
    let began = tokio::time::Instant::now();
    world.net.crash();
    world.until_did(Did::Ended(request.jid.clone())).await;
    let took = began.elapsed();
    assert!(took >= request.budget && took < request.budget + Duration::from_secs(1), "{took:?}");
    world.net.restart();
    let ret = world.returned().await;
    assert_eq!((ret.cause, ret.canceled, ret.counts()), (Cause::Deadline, true, false));
    assert!(ret.error.starts_with("canceled by the deadline"), "{}", ret.error);
}

#[tokio::test(start_paused = true)]
#[rule("J-15")]
async fn j15_sixty_four_wait_and_the_next_is_refused_at_once() {
    let mut world = World::started().await;
    let first = holding(&mut world).await;
    for ahead in 1..=64 {
        world.send(&world.request("test.hold")).await;
        assert_eq!(world.ack().await.ahead, ahead);
    }
    let refused = world.request("test.hold");
    world.send(&refused).await;
    let ret = world.returned().await;
    assert_eq!((ret.jid, ret.cause, ret.error.as_str()), (refused.jid, Cause::Busy, BUSY));
    let metrics = world.health.metrics().unwrap();
    assert!(metrics.contains("zester_peel_busy 65\n"), "{metrics}");
    assert!(metrics.contains("zester_peel_jobs_refused_total 1\n"), "{metrics}");
    world.work.release.add_permits(100);
    assert_eq!(world.returned().await.jid, first.jid);
    for _ in 0..64 {
        assert!(world.returned().await.success);
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-15")]
async fn j15_mutating_ones_run_in_the_order_they_came() {
    let mut world = World::started().await;
    let mut requests = vec![holding(&mut world).await];
    for _ in 0..5 {
        requests.push(world.request("test.hold"));
        world.send(requests.last().unwrap()).await;
    }
    world.work.release.add_permits(6);
    for request in &requests {
        assert_eq!(world.returned().await.jid, request.jid);
    }
    let order: Vec<Did> = requests
        .iter()
        .flat_map(|request| [Did::Began(request.jid.clone()), Did::Ended(request.jid.clone())])
        .collect();
    assert_eq!(world.work.did(), order);
}

#[tokio::test(start_paused = true)]
#[rule("J-15")]
async fn j15_a_ping_answers_beside_a_long_execution() {
    let mut world = World::started().await;
    let long = holding(&mut world).await;
    let ping = world.request("test.ping");
    world.send(&ping).await;
    assert_eq!(world.returned().await.jid, ping.jid);
    world.work.release.add_permits(1);
    assert_eq!(world.returned().await.jid, long.jid);
}

/// Has no room for one command.
struct DropsOne(bool);

impl zester_bus::memory::Faults for DropsOne {
    fn fate(&mut self, _: zester_bus::memory::Leg<'_>) -> zester_bus::memory::Fate {
        vec![Duration::ZERO]
    }

    fn overflows(&mut self, leg: zester_bus::memory::Leg<'_>) -> bool {
        leg.subject.starts_with("zester.cmd.") && std::mem::take(&mut self.0)
    }
}

/// A cancel may be among what was dropped; the answer to the heartbeat brings it again.
#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_peel_that_missed_commands_says_at_once_what_it_works_on() {
    let mut world = World::started().await;
    let request = holding(&mut world).await;
    world.net.set_faults(DropsOne(true));
    let dropped = tokio::time::Instant::now();
    world.cancel(&request).await;
    let beat = world.heartbeat(|beat| beat.jobs.iter().any(|job| job.jid == request.jid)).await;
    assert_eq!(beat.jobs.len(), 1);
    assert!(dropped.elapsed() < Duration::from_secs(1), "{:?}", dropped.elapsed());
    assert!(!world.work.did().contains(&Did::Ended(request.jid.clone())), "the cancel was dropped");
    world.work.release.add_permits(1);
    assert_eq!(world.returned().await.jid, request.jid);
}

/// The queue of commands has no room for the next one that comes.
struct OneOverflow(bool);

impl Faults for OneOverflow {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn overflows(&mut self, leg: Leg<'_>) -> bool {
        leg.subject.starts_with("zester.cmd.") && !std::mem::replace(&mut self.0, true)
    }
}

/// A cancel that found no room is not lost: the peel says at once what it works on, and hears what of it is over.
#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_cancel_that_found_no_room_in_the_queue_comes_again() {
    let mut world = World::started().await;
    let request = world.request("test.hold");
    world.send(&request).await;
    world.ack().await;
    let before = world.heartbeat(|beat| beat.jobs.iter().any(|job| job.jid == request.jid)).await;
    // Time is paused: so that the next heartbeat is later than this one.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.net.set_faults(OneOverflow(false));
    let asked = Instant::now();
    world.cancel(&request).await;
    let beat = world.heartbeat(|beat| beat.ts > before.ts).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "not only with the next beat: {:?}", asked.elapsed());
    assert_eq!(beat.jobs[0].jid, request.jid);
    // As a master answers a heartbeat that names a job which is over.
    world.cancel(&request).await;
    let ret = world.returned().await;
    assert_eq!((ret.jid, ret.cause), (request.jid.clone(), Cause::Canceled));
}
