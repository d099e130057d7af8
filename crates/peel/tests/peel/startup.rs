//! What a peel does at its start, unasked.

use crate::world::{Did, PEEL, World};
use serde_json::json;
use zester_peel::work::FunctionAsked;
use zester_rule::rule;
use zester_wire::Jid;

fn asked() -> FunctionAsked {
    FunctionAsked { function: "test.hold", words: vec![json!("web"), json!("db")] }
}

/// The jid of the one execution that began.
async fn begun(world: &World) -> Jid {
    loop {
        if let Some(request) = world.work.asked.lock().unwrap().first() {
            return request.jid.clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
#[rule("S-37", "J-15")]
async fn s37_what_a_peel_does_at_its_start_waits_for_states_and_has_its_place_in_the_queue() {
    let mut world = World::new().await;
    world.work.startup = Some(asked());
    world.start();
    world.heartbeat(|_| true).await;
    world.nothing_returned().await;
    assert!(world.work.did().is_empty(), "there are no states yet");
    world.work.states.add_permits(1);
    let first = begun(&world).await;
    let request = world.work.asked.lock().unwrap()[0].clone();
    assert_eq!((request.function.as_str(), request.state_id.as_str()), ("test.hold", "web"));
    assert_eq!((request.positionals, request.user.as_str()), (vec![json!("db")], "startup_states"));
    // A job waits behind it.
    let job = world.request("test.hold");
    world.send(&job).await;
    assert_eq!(world.ack().await.ahead, 1);
    world.work.release.add_permits(2);
    assert_eq!(world.returned().await.jid, job.jid, "no master hears of what nobody asked for");
    world.nothing_returned().await;
    let wanted =
        [Did::Began(first.clone()), Did::Ended(first), Did::Began(job.jid.clone()), Did::Ended(job.jid)];
    assert_eq!(world.work.did(), wanted);
}

#[tokio::test(start_paused = true)]
#[rule("D-9")]
async fn d9_what_a_peel_does_at_its_start_needs_no_bus_and_ends_with_the_peel() {
    let mut world = World::new().await;
    world.work.startup = Some(asked());
    world.work.states.add_permits(1);
    world.start();
    world.net.cut(PEEL);
    let jid = begun(&world).await;
    world.stop().await;
    assert_eq!(world.work.did(), [Did::Began(jid.clone()), Did::Ended(jid.clone())]);
    let failures = world.work.startup_failures.lock().unwrap().clone();
    let told: Vec<_> = failures.iter().map(|one| (one.jid.as_ref(), one.function.as_str())).collect();
    assert_eq!(told, [(Some(&jid), "test.hold")]);
    assert_eq!(failures[0].error, "interrupted: the peel was stopped");
    // The next life begins with it again.
    world.start();
    world.work.release.add_permits(1);
    loop {
        let asked = world.work.asked.lock().unwrap().len();
        if asked == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    world.stop().await;
    assert_eq!(world.work.startup_failures.lock().unwrap().len(), 1, "what went well is no failure");
}
