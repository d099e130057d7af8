//! What `readyz` of a peel says of its work (J-29).

use crate::world::*;
use std::sync::atomic::Ordering;
use zester_bus::storage::JOB_EVENTS;
use zester_health::State;
use zester_rule::rule;

/// Waits until a part is so.
async fn is(world: &World, part: &str, fits: impl Fn(&State) -> bool) {
    let told = async {
        while !world.health.state(part).is_some_and(|state| fits(&state)) {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    patient(told).await;
}

fn degraded<'a>(words: &'a [&str]) -> impl Fn(&State) -> bool + 'a {
    move |state| matches!(state, State::Degraded(why) if words.iter().all(|word| why.contains(word)))
}

#[tokio::test(start_paused = true)]
#[rule("J-29")]
async fn j29_a_full_disk_is_told_before_somebody_asks_for_work_and_until_it_has_room() {
    let world = World::started().await;
    world.disk.full.store(true, Ordering::Relaxed);
    is(&world, "store", |state| {
        matches!(state, State::Down(why) if why.contains("no space left") && why.contains("since 22:1"))
    })
    .await;
    assert!(!world.health.report().0, "a peel that starts nothing is not ready");
    world.disk.full.store(false, Ordering::Relaxed);
    is(&world, "store", |state| *state == State::Up).await;
}

#[tokio::test(start_paused = true)]
#[rule("J-29")]
async fn j29_a_server_that_takes_no_returns_is_told_with_the_reason() {
    let mut world = World::started().await;
    world.net.set_full(JOB_EVENTS, true);
    world.send(&world.request("test.ping")).await;
    is(&world, "returns", degraded(&["the server keeps none since", JOB_EVENTS])).await;
    world.net.set_full(JOB_EVENTS, false);
    assert!(world.returned().await.success);
    is(&world, "returns", |state| *state == State::Up).await;
}

#[tokio::test(start_paused = true)]
#[rule("J-29")]
async fn j29_a_server_whose_disk_is_full_is_told_until_it_has_room() {
    let world = World::started().await;
    world.net.set_disk_full(true);
    *world.work.facts.lock().unwrap() = serde_json::json!({"os": "another"});
    for part in ["facts", "last-seen"] {
        is(&world, part, degraded(&["the server keeps none since"])).await;
    }
    world.net.set_disk_full(false);
    for part in ["facts", "last-seen"] {
        is(&world, part, |state| *state == State::Up).await;
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-29")]
async fn j29_a_bus_that_is_away_is_told_since_when() {
    let world = World::started().await;
    world.net.cut(PEEL);
    is(&world, "bus", degraded(&["no connection since 22:1"])).await;
    assert!(world.health.report().0, "it works without");
    world.net.heal(PEEL);
    is(&world, "bus", |state| *state == State::Up).await;
}
