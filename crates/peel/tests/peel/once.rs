//! Once, in order, on disk before anything (J-6, J-7, J-22).

use crate::world::{Did, World};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use zester_health::State;
use zester_jobs::peel::INTERRUPTED;
use zester_rule::rule;
use zester_wire::{Cause, UnixMillis};

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_a_request_is_acked_executed_and_returned() {
    let mut world = World::started().await;
    let mut request = world.request("test.ping");
    request.args.insert("answer".into(), json!({"pong": 1}));
    world.send(&request).await;
    let ack = world.ack().await;
    assert_eq!((&ack.jid, ack.dispatch_epoch, ack.ahead), (&request.jid, 1, 0));
    let ret = world.returned().await;
    assert!(ret.success && ret.error.is_empty() && !ret.canceled, "{ret:?}");
    assert_eq!((ret.answer, ret.cause), (json!({"pong": 1}), Cause::Finished));
    assert!(ret.ts > UnixMillis(0));
}

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_the_ack_comes_before_the_execution_ends() {
    let mut world = World::started().await;
    let request = world.request("test.hold");
    world.send(&request).await;
    assert_eq!(world.ack().await.jid, request.jid);
    world.until_did(Did::Began(request.jid.clone())).await;
    world.work.release.add_permits(1);
    assert!(world.returned().await.success);
}

#[tokio::test(start_paused = true)]
#[rule("J-7")]
async fn j7_a_copy_of_a_request_is_answered_and_not_executed() {
    let mut world = World::started().await;
    let request = world.request("test.hold");
    world.send(&request).await;
    world.send(&request).await;
    world.ack().await;
    world.until_did(Did::Began(request.jid.clone())).await;
    world.send(&request).await;
    world.ack().await;
    world.work.release.add_permits(5);
    world.returned().await;
    world.send(&request).await;
    let again = world.returned().await;
    assert!(again.success && again.jid == request.jid);
    assert_eq!(world.work.did(), [Did::Began(request.jid.clone()), Did::Ended(request.jid)]);
}

#[tokio::test(start_paused = true)]
#[rule("J-7")]
async fn j7_what_was_returned_is_not_executed_by_the_next_life_either() {
    let mut world = World::started().await;
    let request = world.request("test.ping");
    world.send(&request).await;
    world.returned().await;
    world.crash().await;
    world.start();
    world.heartbeat(|beat| beat.busy == 0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.send(&request).await;
    assert!(world.returned().await.success);
    assert_eq!(world.work.did(), [Did::Began(request.jid.clone()), Did::Ended(request.jid)]);
}

#[tokio::test(start_paused = true)]
#[rule("J-7")]
async fn j7_a_request_that_is_out_of_time_is_refused() {
    let mut world = World::started().await;
    let mut request = world.request("test.ping");
    request.budget = Duration::ZERO;
    world.net.set_faults(Slow);
    world.send(&request).await;
    let ret = world.returned().await;
    assert_eq!((ret.cause, ret.success), (Cause::Expired, false));
    assert!(ret.error.contains("compare the clocks"), "{}", ret.error);
    assert!(world.work.did().is_empty());
}

struct Slow;

impl zester_bus::memory::Faults for Slow {
    fn fate(&mut self, _: zester_bus::memory::Leg<'_>) -> zester_bus::memory::Fate {
        vec![Duration::from_millis(50)]
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-22")]
async fn j22_a_peel_that_starts_again_returns_interrupted_after_killing_what_is_left() {
    let mut world = World::started().await;
    let request = world.request("test.hold");
    world.send(&request).await;
    world.until_did(Did::Began(request.jid.clone())).await;
    world.ack().await;
    world.crash().await;
    world.start();
    let ret = world.returned().await;
    assert_eq!(
        (ret.cause, ret.error.as_str(), ret.jid),
        (Cause::Interrupted, INTERRUPTED, request.jid.clone())
    );
    assert_eq!(world.work.did(), [Did::Began(request.jid.clone()), Did::KilledLeftovers]);
    world.send(&request).await;
    assert_eq!(world.returned().await.cause, Cause::Interrupted);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_the_failure_of_its_job_only() {
    let mut world = World::started().await;
    let crash = world.request("test.crash");
    world.send(&crash).await;
    let ret = world.returned().await;
    assert!(!ret.success && ret.error.contains("a bug"), "{ret:?}");
    assert_eq!(ret.cause, Cause::Finished);
    world.send(&world.request("test.ping")).await;
    assert!(world.returned().await.success);
}

#[tokio::test(start_paused = true)]
#[rule("J-7")]
async fn j7_what_cannot_be_written_down_is_not_executed() {
    let mut world = World::started().await;
    world.disk.full.store(true, Ordering::Relaxed);
    let request = world.request("test.ping");
    world.send(&request).await;
    let ret = world.returned().await;
    assert_eq!((ret.cause, ret.success), (Cause::Refused, false));
    assert!(world.work.did().is_empty());
    assert!(matches!(world.health.state("store"), Some(State::Down(why)) if why.contains("no space")));
    world.disk.full.store(false, Ordering::Relaxed);
    world.send(&world.request("test.ping")).await;
    assert!(world.returned().await.success);
    assert_eq!(world.health.state("store"), Some(State::Up));
}

#[tokio::test(start_paused = true)]
#[rule("J-22")]
async fn j22_a_return_that_cannot_be_stored_is_handed_over_once_and_stored_later() {
    let mut world = World::started().await;
    let request = world.request("test.hold");
    world.send(&request).await;
    world.until_did(Did::Began(request.jid.clone())).await;
    world.disk.full.store(true, Ordering::Relaxed);
    world.work.release.add_permits(1);
    assert!(world.returned().await.success);
    world.nothing_returned().await;
    world.disk.full.store(false, Ordering::Relaxed);
    world.nothing_returned().await;
    // A copy of the request finds the stored one.
    world.send(&request).await;
    assert!(world.returned().await.success);
    assert_eq!(world.work.did(), [Did::Began(request.jid.clone()), Did::Ended(request.jid)]);
}
