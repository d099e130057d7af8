//! A reactor that cannot start yet, or does not know all peels yet, is done with no event.

use crate::fleet::{Fleet, Losing, Master, eventually};
use crate::reactor::{all_done, decided, event, fleet_with, ledger, ping, reaction_jid, send};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_bus::memory::Perfect;
use zester_bus::storage::reactor;
use zester_health::State;
use zester_link::Link;
use zester_rule::rule;

/// A master that has made sure of its stores, and from then on reaches all but this one.
fn start_without(fleet: &Fleet, store: &'static str) -> Master {
    let mut began = false;
    fleet.net.set_faults(Losing::new(usize::MAX, move |leg| {
        began |= leg.from == "m1" && leg.subject.starts_with("$KV.master-heartbeat.");
        began && leg.from == "m1" && leg.subject == store
    }));
    fleet.start("m1")
}

/// Until it was refused, not only has just begun.
async fn is_down(master: &Master, words: &str) {
    eventually("the reactor is down", async || match master.health.state("reactor") {
        Some(State::Down(why)) if why.contains(words) => Some(()),
        _ => None,
    })
    .await;
    assert!(!master.health.report().0, "it is not ready");
}

async fn is_up(master: &Master) {
    eventually("it is up", async || (master.health.state("reactor") == Some(State::Up)).then_some(())).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-15")]
async fn r15_a_reactor_whose_server_is_away_is_down_and_back_within_seconds() {
    let fleet = fleet_with(json!({"say": {"log": "hi"}})).await;
    let master = start_without(&fleet, "events");
    is_down(&master, "no answer in time").await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    // It is tried again all the time.
    sleep(Duration::from_secs(100)).await;
    is_down(&master, "no answer in time").await;
    fleet.net.set_faults(Perfect);
    let back = Instant::now();
    is_up(&master).await;
    assert!(back.elapsed() < Duration::from_secs(30), "it took {:?}", back.elapsed());
    decided(&fleet, "e1", "logged").await;
    all_done(&fleet).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-15")]
async fn r15_half_an_index_says_of_nobody_that_he_is_not_there() {
    let fleet = fleet_with(ping()).await;
    let mut web = fleet.peel("web-1").await;
    let master = start_without(&fleet, "KV_facts");
    is_up(&master).await;
    // It has listened for long enough to have heard of everybody who is silent, but does not know the facts.
    sleep(Duration::from_secs(60)).await;
    let sender = Link::new(Arc::new(fleet.net.connect("sender")));
    send(&sender, "web-1", &event("e1", "x", json!({}))).await;
    sleep(Duration::from_secs(60)).await;
    assert!(ledger(&fleet).await.is_empty(), "nothing is decided");
    assert_eq!(fleet.link.bus().pending(&reactor()).await.unwrap().unacked, 1, "it is not done with");
    fleet.net.set_faults(Perfect);
    web.beat().await;
    let request = web.serve(true).await;
    assert_eq!(request.jid, reaction_jid("e1", "reactor.a", "ping"));
    decided(&fleet, "e1", "dispatched").await;
}
