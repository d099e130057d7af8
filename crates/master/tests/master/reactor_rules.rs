//! Rules come, change and break while events come.

use crate::fleet::{Fleet, eventually};
use crate::reactor::{
    Double, all_done, decided, event, fleet_with, ledger, ping, publish, reacting, ready, send,
};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::storage::reactor;
use zester_health::State;
use zester_master::Reacting;
use zester_reactor::Guards;
use zester_rule::rule;
use zester_wire::*;

fn log() -> serde_json::Value {
    json!({"say": {"log": "hi"}})
}

#[tokio::test(start_paused = true)]
#[rule("R-13")]
async fn r13_without_rules_events_wait_and_a_publisher_says_that_there_are_none() {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards::default());
    let master = fleet.start("m1");
    eventually("the reader is there", async || fleet.link.bus().pending(&reactor()).await.ok()).await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    eventually("an empty set is in use", async || {
        (master.health.state("reactor") == Some(State::Up)).then_some(())
    })
    .await;
    all_done(&fleet).await;
    assert_eq!(master.metric("zester_reactor_events_unmatched_total"), 1);
    assert_eq!(master.metric("zester_reactor_rules_loaded"), 0);
}

#[tokio::test(start_paused = true)]
#[rule("R-13")]
async fn r13_new_rules_are_loaded_and_broken_ones_leave_the_last_good_in_use() {
    let fleet = fleet_with(log()).await;
    let master = ready(&fleet, "m1").await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    decided(&fleet, "e1", "logged").await;
    let degraded = async |words: &str| {
        eventually("it is told", async || match master.health.state("reactor") {
            Some(State::Degraded(why)) if why.contains(words) => Some(()),
            _ => None,
        })
        .await;
    };
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.gone"]}])), ("a.zy", log())]).await;
    degraded("there is no file gone.zy").await;
    assert_eq!(master.metric("zester_reactor_rule_errors_total"), 1);
    send(&fleet.link, "web-1", &event("e2", "x", json!({}))).await;
    decided(&fleet, "e2", "logged").await;
    let list = fleet.admin(&AdminRequest::ReactorRules).await.reactor.unwrap();
    assert_eq!((list.revision, list.problems.len()), (1, 1));
    let revision = publish(&fleet, &[("top.zy", json!([{"*/y": ["reactor.a"]}])), ("a.zy", log())]).await;
    eventually("the new rules are in use", async || {
        let list = fleet.admin(&AdminRequest::ReactorRules).await.reactor.unwrap();
        (list.revision == revision).then_some(())
    })
    .await;
    assert_eq!(master.health.state("reactor"), Some(State::Up));
    send(&fleet.link, "web-1", &event("e3", "y", json!({}))).await;
    decided(&fleet, "e3", "logged").await;
}

#[tokio::test(start_paused = true)]
#[rule("R-13")]
async fn r13_a_torn_set_leaves_the_last_good_in_use() {
    let fleet = fleet_with(log()).await;
    let master = ready(&fleet, "m1").await;
    // A revision counts whose list nobody wrote.
    let key = Key::Revision(Published::Reactor);
    let root = ContentHash::of(b"nothing");
    fleet.link.put(&key, &Revision { v: 1, revision: 9, root }).await.unwrap();
    eventually("it is told", async || match master.health.state("reactor") {
        Some(State::Degraded(why)) if why.contains("not whole") => Some(()),
        _ => None,
    })
    .await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    decided(&fleet, "e1", "logged").await;
}

#[tokio::test(start_paused = true)]
#[rule("R-13")]
async fn r13_an_event_keeps_the_rules_that_it_matched() {
    let double = Double::default();
    let gate = double.gate.clone();
    let mut fleet = Fleet::new().await;
    fleet.reacting = Reacting { compiler: Some(Arc::new(double)), ..reacting(Guards::default()) };
    let top = json!([{"*/x": ["reactor.slow", "reactor.a"]}]);
    publish(&fleet, &[("top.zy", top), ("slow.zy", json!({"wait": log()})), ("a.zy", log())]).await;
    let _master = ready(&fleet, "m1").await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    while gate.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    gate.open();
    // What it matched next is gone by the time that it gets there, and it has it all the same.
    publish(&fleet, &[("top.zy", json!([{"*/y": ["reactor.b"]}])), ("b.zy", log())]).await;
    decided(&fleet, "e1", "logged").await;
    all_done(&fleet).await;
    let rules: Vec<String> = ledger(&fleet).await.into_iter().map(|entry| entry.rule).collect();
    assert_eq!(rules, ["reactor.slow", "reactor.a"]);
}

#[tokio::test(start_paused = true)]
#[rule("R-14")]
async fn r14_a_test_says_what_would_happen_and_does_nothing() {
    let fleet = fleet_with(ping()).await;
    let _master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    let ask = async |key: &str| {
        let request = ReactorTestRequest { v: 1, key: key.into(), data: Default::default() };
        let reply: Result<ReactorTestReply, _> =
            fleet.link.request(&Subject::ReactorTest, &request, Duration::from_secs(5)).await;
        reply.unwrap()
    };
    let reply = ask("web-1/x").await;
    assert_eq!((reply.error, reply.rules.len(), reply.revision), (None, 1, 1));
    let block = &reply.rules[0].blocks[0];
    assert_eq!((block.action.as_str(), block.targets), ("dispatch.module", Some(1)));
    assert_eq!(block.rendered.get("target"), Some(&json!("web-1")));
    assert!(ask("web-1/other").await.rules.is_empty());
    assert!(ask("nonsense").await.error.unwrap().message.contains("no event key"));
    assert!(web.hears_nothing(Duration::from_secs(10)).await);
    assert!(ledger(&fleet).await.is_empty());
}

#[tokio::test(start_paused = true)]
#[rule("R-12", "R-13")]
async fn r13_a_master_that_does_not_react_passes_questions_on() {
    let mut fleet = fleet_with(log()).await;
    let _master = ready(&fleet, "m1").await;
    fleet.reacting = Reacting::default();
    let off = fleet.master("m2").await;
    assert_eq!(off.health.state("reactor"), None);
    for _ in 0..8 {
        let list = fleet.admin(&AdminRequest::ReactorRules).await;
        assert_eq!(list.reactor.unwrap().rules.len(), 1);
    }
}
