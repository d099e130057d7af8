//! Files that render slowly, or never: nothing is lost, doubled or overtaken.

use crate::fleet::{Fleet, eventually};
use crate::reactor::{
    Gate, Gatekeeper, all_done, clock, decided, event, gated, ledger, ping, publish, reaction_jid, ready,
    send,
};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_reactor::Guards;
use zester_rule::rule;

/// A fleet whose rule for `*/x` waits at the gate, and whose rule for `*/y` does not.
async fn slow_fleet(effect: Value) -> (Fleet, Gatekeeper) {
    let mut fleet = Fleet::new().await;
    let (reacting, gate) = gated(Guards { source_rate_limit: 0, ..Guards::default() });
    fleet.reacting = reacting;
    let top = json!([{"*/x": ["reactor.slow"]}, {"*/y": ["reactor.quick"]}]);
    let (slow, quick) = (json!({"wait": effect}), log());
    publish(&fleet, &[("top.zy", top), ("slow.zy", slow), ("quick.zy", quick)]).await;
    (fleet, gate)
}

fn log() -> Value {
    json!({"say": {"log": "hi"}})
}

async fn waiting(gate: &Gate, count: usize) {
    eventually("files wait at the gate", async || (gate.waiting() == count).then_some(())).await;
}

async fn decisions(fleet: &Fleet, id: &str) -> Vec<String> {
    let entries = ledger(fleet).await.into_iter();
    entries.filter(|entry| entry.event_id == id).map(|entry| entry.decision).collect()
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-3")]
async fn r1_an_event_that_never_finds_room_does_not_vanish() {
    let (mut fleet, gate) = slow_fleet(log()).await;
    fleet.reacting.queue = 1;
    let master = ready(&fleet, "m1").await;
    let _clock = clock();
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    waiting(&gate, 1).await;
    send(&fleet.link, "web-2", &event("e2", "x", json!({}))).await;
    // It would have been handed back five times by now.
    sleep(Duration::from_secs(300)).await;
    let backpressure = "zester_reactor_events_dropped_total{reason=\"backpressure\"}";
    assert_eq!(master.metric(backpressure), 3, "the delivery before the last is kept");
    gate.open();
    all_done(&fleet).await;
    // The ledger is written beside the work, and not in its order.
    for id in ["e1", "e2"] {
        decided(&fleet, id, "logged").await;
        assert_eq!(decisions(&fleet, id).await, ["logged"], "{id}");
    }
}

#[tokio::test(start_paused = true)]
#[rule("R-11")]
async fn r11_an_event_that_is_worked_on_for_long_is_given_to_nobody_else() {
    let (mut fleet, gate) = slow_fleet(log()).await;
    fleet.reacting.ack_wait = Duration::from_secs(10);
    let _masters = [ready(&fleet, "m1").await, ready(&fleet, "m2").await];
    let _clock = clock();
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    waiting(&gate, 1).await;
    sleep(Duration::from_secs(100)).await;
    assert_eq!(gate.waiting(), 1, "no other master got it");
    gate.open();
    all_done(&fleet).await;
    decided(&fleet, "e1", "logged").await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(decisions(&fleet, "e1").await, ["logged"], "nor did the same");
}

#[tokio::test(start_paused = true)]
#[rule("R-11", "R-16")]
async fn r11_a_file_that_hangs_is_given_up_and_others_go_on() {
    let (mut fleet, gate) = slow_fleet(log()).await;
    fleet.reacting.render_timeout = Duration::from_secs(30);
    let top = json!([{"*/x": ["reactor.slow", "reactor.quick"]}, {"*/y": ["reactor.quick"]}]);
    let files = [("top.zy", top), ("slow.zy", json!({"wait": log()})), ("quick.zy", log())];
    publish(&fleet, &files).await;
    let master = ready(&fleet, "m1").await;
    let _clock = clock();
    let begun = Instant::now();
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    waiting(&gate, 1).await;
    send(&fleet.link, "web-2", &event("e2", "y", json!({}))).await;
    decided(&fleet, "e2", "logged").await;
    assert!(decisions(&fleet, "e1").await.is_empty(), "it hangs");
    let given_up = decided(&fleet, "e1", "render_error").await;
    assert!(begun.elapsed() >= Duration::from_secs(30));
    assert_eq!(given_up.rule, "reactor.slow");
    assert!(given_up.reason.contains("longer than 30s"), "{}", given_up.reason);
    assert_eq!(decided(&fleet, "e1", "logged").await.rule, "reactor.quick");
    all_done(&fleet).await;
    let errors = "zester_reactor_reactions_total{rule=\"reactor.slow\",result=\"render_error\"}";
    assert_eq!(master.metric(errors), 1);
}

#[tokio::test(start_paused = true)]
#[rule("R-11", "R-16")]
async fn r11_no_more_files_render_at_once_than_there_are_workers() {
    let (mut fleet, gate) = slow_fleet(log()).await;
    fleet.reacting.workers = 2;
    let master = ready(&fleet, "m1").await;
    let _clock = clock();
    let sent = 6;
    for number in 0..sent {
        send(&fleet.link, &format!("web-{number}"), &event(&format!("e{number}"), "x", json!({}))).await;
    }
    waiting(&gate, 2).await;
    eventually("the lag is seen", async || (master.metric("zester_reactor_lag") == sent).then_some(())).await;
    assert_eq!(gate.waiting(), 2);
    gate.open();
    for number in 0..sent {
        decided(&fleet, &format!("e{number}"), "logged").await;
    }
    eventually("nothing waits", async || (master.metric("zester_reactor_lag") == 0).then_some(())).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-25")]
async fn r25_events_of_one_source_reach_the_peel_in_the_order_of_the_stream() {
    let (fleet, gate) = slow_fleet(ping()).await;
    let _master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    let _clock = clock();
    let ids: Vec<String> = (0..20).map(|number| format!("e{number}")).collect();
    for id in &ids {
        send(&web.link, "web-1", &event(id, "x", json!({}))).await;
    }
    waiting(&gate, 1).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(gate.waiting(), 1, "all others wait for the first");
    gate.open();
    for id in &ids {
        let request = web.serve(true).await;
        assert_eq!(request.jid, reaction_jid(id, "reactor.slow", "ping"), "{id}");
    }
}

#[tokio::test(start_paused = true)]
#[rule("R-16", "R-22")]
async fn r22_what_was_decided_while_the_ledger_had_no_leader_is_written_later() {
    let mut fleet = Fleet::new().await;
    fleet.reacting = crate::reactor::reacting(Guards { source_rate_limit: 0, ..Guards::default() });
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.a"]}])), ("a.zy", log())]).await;
    let master = ready(&fleet, "m1").await;
    let lose =
        |leg: zester_bus::memory::Leg<'_>| leg.from == "m1" && leg.subject.starts_with("zester.ledger.");
    fleet.net.set_faults(crate::fleet::Losing::new(4, lose));
    for name in ["e1", "e2", "e3"] {
        send(&fleet.link, "web-1", &event(name, "x", json!({}))).await;
    }
    for name in ["e1", "e2", "e3"] {
        decided(&fleet, name, "logged").await;
        assert_eq!(decisions(&fleet, name).await, ["logged"]);
    }
    assert_eq!(master.metric("zester_reactor_ledger_lost_total"), 0);
    // What cannot be written for long is given up, and counted.
    fleet.net.set_faults(crate::fleet::Losing::new(usize::MAX, lose));
    send(&fleet.link, "web-1", &event("e4", "x", json!({}))).await;
    eventually("it is counted", async || {
        (master.metric("zester_reactor_ledger_lost_total") == 1).then_some(())
    })
    .await;
}
