//! What goes over the bus: returns that wait for it, direct requests, garbage, progress (J-16, J-21, J-22).

use crate::world::{Did, PEEL, World, patient, peel_id};
use serde_json::json;
use std::time::Duration;
use zester_bus::{Bytes, Listen};
use zester_health::State;
use zester_link::Reason;
use zester_rule::rule;
use zester_wire::*;

#[tokio::test(start_paused = true)]
#[rule("J-22")]
async fn j22_a_return_waits_for_the_bus_and_is_delivered_when_it_is_back() {
    let mut world = World::started().await;
    let request = world.request("test.hold");
    world.send(&request).await;
    world.until_did(Did::Began(request.jid.clone())).await;
    world.net.cut(PEEL);
    world.work.release.add_permits(1);
    world.nothing_returned().await;
    assert!(matches!(world.health.state("bus"), Some(State::Degraded(_))));
    assert!(world.health.report().0, "a peel works without a bus");
    assert!(world.health.metrics().unwrap().contains("zester_peel_outbox 1\n"));
    world.net.heal(PEEL);
    let ret = world.returned().await;
    assert!(ret.success && ret.jid == request.jid);
    world.heartbeat(|beat| beat.outbox == 0 && beat.connects == 2).await;
    assert_eq!(world.health.state("bus"), Some(State::Up));
    world.nothing_returned().await;
}

#[tokio::test(start_paused = true)]
#[rule("J-22")]
async fn j22_a_return_that_waited_is_delivered_by_the_next_life() {
    let mut world = World::started().await;
    let request = world.request("test.ping");
    world.net.crash();
    world.net.restart();
    world.heartbeat(|beat| beat.connects == 2).await;
    world.send(&request).await;
    world.net.set_faults(NoReturns);
    world.until_did(Did::Ended(request.jid.clone())).await;
    world.crash().await;
    world.net.set_faults(zester_bus::memory::Perfect);
    world.start();
    let ret = world.returned().await;
    assert!(ret.jid == request.jid, "{ret:?}");
}

/// Returns do not reach the server.
struct NoReturns;

impl zester_bus::memory::Faults for NoReturns {
    fn fate(&mut self, leg: zester_bus::memory::Leg<'_>) -> zester_bus::memory::Fate {
        if leg.subject.contains(".return.") { Vec::new() } else { vec![Duration::ZERO] }
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-9")]
async fn d9_a_peel_starts_without_a_bus_and_works_once_there_is_one() {
    let mut world = World::new().await;
    world.net.crash();
    world.start();
    tokio::time::sleep(Duration::from_secs(100)).await;
    world.net.restart();
    world.heartbeat(|beat| beat.connects == 1).await;
    world.send(&world.request("test.ping")).await;
    assert!(world.returned().await.success);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_counted_and_nothing_else_happens() {
    let mut world = World::started().await;
    let subject = Subject::Command { peel: peel_id() }.to_string();
    for garbage in [&b""[..], b"\xc1", b"hello", &[0x80]] {
        world.master.bus().publish(&subject, Bytes::from_static(garbage)).await.unwrap();
    }
    let unknown = PeelCommand::Unknown;
    let _cannot_be_written = world.master.publish(&Subject::Command { peel: peel_id() }, &unknown).await;
    world.send(&world.request("test.ping")).await;
    assert!(world.returned().await.success);
    assert!(world.dropped.of(Reason::Malformed) >= 4);
    let metrics = world.health.metrics().unwrap();
    assert!(metrics.contains("zester_messages_dropped"), "{metrics}");
}

async fn ask(world: &World, request: &ExecRequest) -> Return {
    let subject = Subject::Command { peel: peel_id() };
    let command = PeelCommand::Exec(request.clone());
    world.master.request(&subject, &command, Duration::from_secs(300)).await.unwrap()
}

#[tokio::test(start_paused = true)]
#[rule("J-21")]
async fn j21_a_direct_request_is_answered_where_it_was_asked() {
    let mut world = World::started().await;
    let mut request = world.request("test.ping");
    request.direct = true;
    let ret = ask(&world, &request).await;
    assert!(ret.success && ret.jid == request.jid);
    world.nothing_returned().await;
    let again = ask(&world, &request).await;
    assert_eq!((again.cause, again.success), (Cause::Refused, false));
    world.crash().await;
    world.start();
    world.heartbeat(|beat| beat.busy == 0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ask(&world, &request).await.cause, Cause::Refused);
}

#[tokio::test(start_paused = true)]
#[rule("J-21")]
async fn j21_a_copy_of_a_direct_request_gets_its_own_answer() {
    let world = World::started().await;
    let mut request = world.request("test.hold");
    request.direct = true;
    let first = ask(&world, &request);
    let copies = async {
        world.until_did(Did::Began(request.jid.clone())).await;
        let copy = ask(&world, &request).await;
        assert_eq!(copy.cause, Cause::Refused);
        world.work.release.add_permits(1);
    };
    let (first, ()) = tokio::join!(first, copies);
    assert!(first.success, "{first:?}");
}

#[tokio::test(start_paused = true)]
#[rule("J-16")]
async fn j16_a_return_that_is_too_large_is_cut_and_says_so() {
    let mut world = World::started().await;
    let mut request = world.request("test.ping");
    request.args.insert("answer".into(), json!({"long": "x".repeat(40_000), "more": ["y".repeat(40_000)]}));
    // The request still fits; the return does not.
    world.send(&request).await;
    world.net.set_max_payload(64 * 1024);
    let ret = world.returned().await;
    assert!(ret.success && ret.truncated);
    assert!(ret.answer["long"].as_str().unwrap().contains("truncated"), "{:?}", ret.answer);
}

#[tokio::test(start_paused = true)]
#[rule("J-16")]
async fn j16_an_answer_that_nests_too_deep_for_a_reader_says_so() {
    let mut world = World::started().await;
    let mut answer = json!(1);
    (0..70).for_each(|_| answer = json!([answer]));
    let mut request = world.request("test.ping");
    request.args.insert("answer".into(), answer);
    world.send(&request).await;
    let ret = world.returned().await;
    assert!(ret.success && ret.truncated, "{ret:?}");
    assert!(ret.answer.as_str().unwrap().contains("deeper"), "{:?}", ret.answer);
}

#[tokio::test(start_paused = true)]
async fn progress_is_told_while_it_runs() {
    let world = World::started().await;
    let request = world.request("test.hold");
    let pattern = subject::all_progress(&request.jid);
    let mut heard = world.master.bus().subscribe(&pattern, Listen::alone(8)).await.unwrap();
    world.send(&request).await;
    let raw = world.master.delivered(patient(heard.next()).await.unwrap()).unwrap();
    let subject = world.master.subject_of(&raw).unwrap();
    let progress = world.master.open_addressed::<Progress>(&subject, &raw.payload).unwrap().message;
    assert_eq!((progress.seq, progress.total, progress.state), (1, 1, json!({"name": "test.hold"})));
    assert!(!world.work.did().contains(&Did::Ended(request.jid)));
}

#[tokio::test(start_paused = true)]
async fn two_peels_of_one_id_are_told_of() {
    let mut world = World::started().await;
    let own = world.heartbeat(|_| true).await;
    let mut other = own.clone();
    other.boot = world.master.new_token().unwrap();
    world.master.put(&Key::Peel(peel_id()), &other).await.unwrap();
    // The record is not written often: a master that hears both says so at once.
    let told = async {
        while world.health.state("id").is_none() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    patient(told).await;
    world.seen(|record| record.boot == own.boot).await;
    assert!(world.health.report().0, "it works on");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_master_that_hears_two_peels_of_one_id_is_believed() {
    let world = World::started().await;
    let own = world.heartbeat(|_| true).await.boot;
    let shared = |boot| PeelCommand::SharedId(SharedId { v: VERSION, boot });
    world.tell(&shared(own)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.health.state("id"), None);
    world.tell(&shared(world.master.new_token().unwrap())).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(world.health.state("id"), Some(State::Degraded(_))));
}

#[tokio::test(start_paused = true)]
async fn a_peel_that_comes_back_is_no_second_one() {
    let mut world = World::started().await;
    let first = world.heartbeat(|_| true).await.boot;
    world.crash().await;
    world.start();
    world.heartbeat(|beat| beat.boot != first).await;
    // Away for longer than a heartbeat lives.
    world.net.cut(PEEL);
    tokio::time::sleep(Duration::from_secs(120)).await;
    world.net.heal(PEEL);
    world.heartbeat(|beat| beat.connects == 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.health.state("id"), None);
}
