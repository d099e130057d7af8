//! Rules come, change and break while events come.

use crate::fleet::{Fleet, eventually};
use crate::reactor::{
    all_done, clock, decided, event, fleet_with, gated, ledger, ping, publish, reacting, ready, send,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use zester_bus::storage::reactor;
use zester_health::State;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::{LintRequest, Linter, Publishing, Reacting, Source};
use zester_reactor::Guards;
use zester_rule::rule;
use zester_wire::*;

fn log() -> Value {
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
    in_use(&fleet, revision).await;
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
#[rule("R-13", "R-16")]
async fn r13_a_look_that_failed_for_a_while_is_forgotten_and_rules_that_do_not_load_are_not() {
    let fleet = fleet_with(log()).await;
    let master = ready(&fleet, "m1").await;
    let degraded = async |words: &str| {
        eventually(words, async || match master.health.state("reactor") {
            Some(State::Degraded(why)) if why.contains(words) => Some(()),
            _ => None,
        })
        .await;
    };
    let key = Key::Revision(Published::Reactor);
    let torn = async || {
        let good = fleet.link.get_latest::<Revision>(&key).await.unwrap().unwrap().value;
        let root = ContentHash::of(b"nothing");
        fleet.link.put(&key, &Revision { v: 1, revision: 99, root }).await.unwrap();
        degraded("not whole").await;
        fleet.link.put(&key, &good).await.unwrap();
    };
    torn().await;
    eventually("all is well again", async || {
        (master.health.state("reactor") == Some(State::Up)).then_some(())
    })
    .await;
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.gone"]}])), ("a.zy", log())]).await;
    degraded("there is no file gone.zy").await;
    torn().await;
    degraded("there is no file gone.zy").await;
}

#[tokio::test(start_paused = true)]
#[rule("R-13")]
async fn r13_an_event_keeps_the_rules_that_it_matched() {
    let mut fleet = Fleet::new().await;
    let (reacting, gate) = gated(Guards::default());
    fleet.reacting = reacting;
    let says = |word: &str| json!({"say": {"log": word}});
    let top = json!([{"*/x": ["reactor.slow", "reactor.a"]}]);
    let files =
        [("top.zy", top.clone()), ("slow.zy", json!({"wait": says("old")})), ("a.zy", says("old too"))];
    publish(&fleet, &files).await;
    let _master = ready(&fleet, "m1").await;
    let _clock = clock();
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    eventually("its first rule renders", async || (gate.waiting() == 1).then_some(())).await;
    // The same files in the same places say something else by the time that it gets to its second rule.
    let files = [("top.zy", top), ("slow.zy", says("new")), ("a.zy", says("new"))];
    let revision = publish(&fleet, &files).await;
    in_use(&fleet, revision).await;
    gate.open();
    all_done(&fleet).await;
    let said = async |id: &str| {
        let entries = ledger(&fleet).await.into_iter().filter(|entry| entry.event_id == id);
        let said: Vec<(String, String)> = entries.map(|entry| (entry.rule, entry.reason)).collect();
        (said.len() == 2).then_some(said)
    };
    let of_both = |slow: &str, a: &str| [("reactor.slow", slow), ("reactor.a", a)].map(owned);
    let old = eventually("it said something", async || said("e1").await).await;
    assert_eq!(old, of_both("old", "old too"));
    send(&fleet.link, "web-1", &event("e2", "x", json!({}))).await;
    let new = eventually("the next said something", async || said("e2").await).await;
    assert_eq!(new, of_both("new", "new"));
}

fn owned((rule, reason): (&str, &str)) -> (String, String) {
    (rule.into(), reason.into())
}

async fn in_use(fleet: &Fleet, revision: u64) {
    eventually("the new rules are in use", async || {
        let list = fleet.admin(&AdminRequest::ReactorRules).await.reactor.unwrap();
        (list.revision == revision).then_some(())
    })
    .await;
}

/// Finds a problem in rules that hold a draft.
struct NoDrafts;

impl Linter for NoDrafts {
    fn lint(&self, request: LintRequest) -> BoxFuture<'_, Problems> {
        let errors = u64::from(request.tree.directory.join("draft.zy").exists());
        Box::pin(std::future::ready(Problems { errors, ..Problems::default() }))
    }
}

/// Whoever brings the rules does not have to react by them, and until they are there no event is taken.
#[tokio::test(start_paused = true)]
#[rule("R-13")]
async fn r13_a_master_that_does_not_react_publishes_rules_and_events_wait_for_them() {
    let mut fleet = Fleet::new().await;
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, value: Value| {
        std::fs::write(directory.path().join(name), value.to_string()).unwrap();
    };
    write("top.zy", json!([{"*/x": ["reactor.a"]}]));
    write("a.zy", log());
    write("draft.zy", json!({}));
    let sources = vec![Source::directory(Published::Reactor, directory.path().to_path_buf())];
    let publishing = Publishing { sources, linter: Arc::new(NoDrafts), ..Publishing::default() };
    let link = Link::new(Arc::new(fleet.net.connect("m1")));
    let off = fleet.start_publishing("m1", link, Timing::default(), publishing);
    eventually("its rules are refused", async || match off.health.state("rules") {
        Some(State::Degraded(_)) => Some(()),
        _ => None,
    })
    .await;
    fleet.reacting = reacting(Guards::default());
    let on = fleet.master("m2").await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let pending = fleet.link.bus().pending(&reactor()).await.unwrap();
    assert!(pending.waiting >= 1 && pending.unacked == 0, "{pending:?}");
    assert_eq!(on.metric("zester_reactor_events_total{origin_type=\"peel\"}"), 0);
    assert!(matches!(on.health.state("reactor"), Some(State::Degraded(why)) if why.contains("no rules")));
    std::fs::remove_file(directory.path().join("draft.zy")).unwrap();
    let entry = decided(&fleet, "e1", "logged").await;
    assert_eq!(entry.master, on.id.as_str());
    assert_eq!(on.health.state("reactor"), Some(State::Up));
    assert_eq!(off.health.state("reactor"), None);
    all_done(&fleet).await;
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
