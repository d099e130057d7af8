//! Events become actions, exactly once: masters on a memory bus.

use crate::fleet::{Fleet, Losing, Master, eventually};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zester_bus::storage::{REACTOR_LEDGER, reactor};
use zester_link::Link;
use zester_master::Reacting;
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_model::source::{FileId, Span};
use zester_publish::{About, Directory, Fence, Publisher};
use zester_reactor::{Cause, EventContext, Guards, ReactionTemplate, RuleCompiler};
use zester_rule::rule;
use zester_wire::*;

/// A compiler whose files are JSON; `{{ data.KEY }}` and `{{ event.peel }}` are replaced after parsing. A file that is the text
/// `wait` renders when it is told to.
#[derive(Default)]
pub struct Double {
    pub gate: Arc<Gate>,
}

/// Where rendering waits.
#[derive(Default)]
pub struct Gate {
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        let _open = self.changed.wait_while(state, |state| !state.1).unwrap();
    }

    pub fn waiting(&self) -> usize {
        self.state.lock().unwrap().0
    }

    pub fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// The gate as a test holds it: one that fails leaves nobody behind who waits for ever.
pub struct Gatekeeper(Arc<Gate>);

impl Deref for Gatekeeper {
    type Target = Gate;

    fn deref(&self) -> &Gate {
        &self.0
    }
}

impl Drop for Gatekeeper {
    fn drop(&mut self) {
        self.0.open();
    }
}

struct Template {
    value: Value,
    gate: Arc<Gate>,
}

fn node(value: &Value) -> Node {
    Node::from_json(Span::new(FileId(0), 1, 1, 1), value)
}

fn parse(path: &str, text: &str) -> Result<Value, Vec<String>> {
    serde_json::from_str(text).map_err(|error| vec![format!("{path}: {error}")])
}

impl RuleCompiler for Double {
    fn yaml(&self, path: &str, text: &str) -> Result<Node, Vec<String>> {
        Ok(node(&parse(path, text)?))
    }

    fn template(
        &self,
        path: &str,
        text: &str,
        _: &BTreeMap<String, String>,
    ) -> Result<Arc<dyn ReactionTemplate>, Vec<String>> {
        Ok(Arc::new(Template { value: parse(path, text)?, gate: self.gate.clone() }))
    }

    fn explain(&self, path: &str, _: &str, diagnostics: &[Diagnostic]) -> Vec<String> {
        diagnostics.iter().map(|one| format!("{path}: {}", one.message)).collect()
    }
}

impl ReactionTemplate for Template {
    fn render(&self, context: &EventContext) -> Result<Node, Vec<String>> {
        let value = match &self.value {
            Value::String(word) if word == "broken" => return Err(vec!["it does not render".into()]),
            Value::String(word) if word == "panic" => panic!("a template that breaks"),
            Value::Object(map) if map.contains_key("wait") => {
                self.gate.pass();
                &map["wait"]
            }
            other => other,
        };
        Ok(node(&replaced(value, &context.event)))
    }
}

fn replaced(value: &Value, event: &Value) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix("{{ ").and_then(|rest| rest.strip_suffix(" }}")) {
            Some(path) => path.split('.').skip(1).fold(event, |value, key| &value[key]).clone(),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| replaced(item, event)).collect(),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, item)| (key.clone(), replaced(item, event))).collect())
        }
        other => other.clone(),
    }
}

struct Always;

impl Fence for Always {
    fn holds(&self) -> bool {
        true
    }
}

pub fn reacting(guards: Guards) -> Reacting {
    Reacting { compiler: Some(Arc::new(Double::default())), guards, ..Reacting::default() }
}

/// Rules whose files may wait at a gate, and the gate. Time goes on while they do: see [`clock`].
pub fn gated(guards: Guards) -> (Reacting, Gatekeeper) {
    let double = Double::default();
    let gate = Gatekeeper(double.gate.clone());
    let reacting = Reacting {
        compiler: Some(Arc::new(double)),
        render_timeout: Duration::from_secs(36_000),
        reload_debounce: Duration::ZERO,
        reload_jitter: Duration::ZERO,
        ..reacting(guards)
    };
    (reacting, gate)
}

/// Paused time stands still while a file renders. This makes it go on, as fast as the threads that render get their turns, until
/// it is dropped.
pub fn clock() -> JoinSet<()> {
    let mut clock = JoinSet::new();
    clock.spawn(async {
        loop {
            tokio::time::advance(Duration::from_millis(50)).await;
            tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
        }
    });
    clock
}

/// A rule that pings the peel which sent the event.
pub fn ping() -> Value {
    json!({"ping": {"dispatch.module": {"target": "{{ event.peel }}", "function": "test.ping"}}})
}

pub async fn publish(fleet: &Fleet, files: &[(&str, Value)]) -> u64 {
    let root = tempfile::tempdir().unwrap();
    for (path, value) in files {
        std::fs::write(root.path().join(path), value.to_string()).unwrap();
    }
    let directory = Directory::read(root.path()).unwrap();
    let publisher = Publisher { link: &fleet.link, published: Published::Reactor, fence: &Always };
    let about = About {
        master: MasterId::parse("test.boot").unwrap(),
        user: String::new(),
        source: String::new(),
        commit: String::new(),
        allow_empty: true,
        uploaded: true,
    };
    publisher.publish(&directory.tree.clone(), &directory, &about).await.unwrap();
    publisher.manifest().await.unwrap().unwrap().revision
}

/// A fleet with one peel `web-1`, and rules for `*/x` in `a.zy`.
pub async fn fleet_with(rule: Value) -> Fleet {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards { source_rate_limit: 0, ..Guards::default() });
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.a"]}])), ("a.zy", rule)]).await;
    fleet
}

pub async fn ready(fleet: &Fleet, name: &str) -> Master {
    let master = fleet.master(name).await;
    eventually("the rules are loaded", async || {
        (master.metric("zester_reactor_rules_loaded") > 0).then_some(())
    })
    .await;
    master
}

pub fn event(id: &str, tag: &str, data: Value) -> Event {
    let data: Map<String, Value> = data.as_object().cloned().unwrap();
    let tag = Tag::parse(tag).unwrap();
    Event { id: id.into(), tag, data, ts: UnixMillis(1), v: 1, origin: String::new(), depth: 0 }
}

/// Under the identity of a peel.
pub async fn send(link: &Link, peel: &str, event: &Event) {
    let subject = EventSubject::Send { peel: PeelId::parse(peel).unwrap(), tag: event.tag.clone() };
    let id = link.new_message_id().unwrap();
    link.publish_stored(&Subject::Event(subject), &id, event).await.unwrap();
}

pub async fn ledger(fleet: &Fleet) -> Vec<LedgerEntry> {
    let mut entries = Vec::new();
    let mut from = Some(0);
    while let Some(next) = from {
        let page = fleet.link.bus().replay(REACTOR_LEDGER, "zester.ledger.>", next).await.unwrap();
        for record in page.items {
            let entry: LedgerEntry = fleet.link.open(&record.subject, &record.payload).unwrap().message;
            assert_eq!(entry.subject().unwrap().to_string(), record.subject);
            entries.push(entry);
        }
        from = page.next;
    }
    entries
}

/// Waits until the ledger says so of an event.
pub async fn decided(fleet: &Fleet, id: &str, word: &str) -> LedgerEntry {
    eventually(&format!("{id} is {word}"), async || {
        ledger(fleet).await.into_iter().find(|entry| entry.event_id == id && entry.decision == word)
    })
    .await
}

/// Loses what the master says of the next event. Before that it takes the event, and asks for more.
pub fn lose_ack() -> Losing {
    let mut said = 0;
    Losing::new(1, move |leg| {
        said += usize::from(leg.from == "m1" && leg.subject == "events");
        said == 3
    })
}

pub async fn all_done(fleet: &Fleet) {
    eventually("all events are done with", async || {
        let pending = fleet.link.bus().pending(&reactor()).await.ok()?;
        (pending.total() == 0).then_some(())
    })
    .await;
}

pub fn reaction_jid(id: &str, rule: &str, block: &str) -> Jid {
    let origin = Origin::Peel(PeelId::parse("web-1").unwrap());
    Cause { origin: &origin, event_id: id, rule, block }.jid().unwrap()
}

#[tokio::test(start_paused = true)]
#[rule("R-8", "R-10", "R-16", "R-22")]
async fn r10_an_event_becomes_a_job_that_says_why() {
    let fleet = fleet_with(ping()).await;
    let master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    send(&web.link, "web-1", &event("e1", "x", json!({}))).await;
    let request = web.serve(true).await;
    assert_eq!((request.user.as_str(), request.rdepth), ("reactor:reactor.a", 1));
    let entry = decided(&fleet, "e1", "dispatched").await;
    assert_eq!(entry.jid, Some(request.jid.clone()));
    assert_eq!((entry.rule.as_str(), entry.block.as_str()), ("reactor.a", "ping"));
    assert_eq!((entry.origin.as_str(), entry.master.as_str()), ("web-1", master.id.as_str()));
    let job = fleet.over(&request.jid).await;
    assert_eq!(job.jid, reaction_jid("e1", "reactor.a", "ping"));
    assert_eq!(job.metadata.get("event_id"), Some(&json!("e1")));
    assert_eq!(job.target_expr, "web-1");
    all_done(&fleet).await;
    assert_eq!(master.metric("zester_reactor_events_total{origin_type=\"peel\"}"), 1);
    let dispatched = "zester_reactor_reactions_total{rule=\"reactor.a\",result=\"dispatched\"}";
    assert_eq!(master.metric(dispatched), 1);
    // Its dispatch and its end are events of `_master`, which no rule matches.
    eventually("the events of the job are unmatched", async || {
        (master.metric("zester_reactor_events_unmatched_total") == 2).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
#[rule("R-10")]
async fn r10_a_lost_ack_brings_the_event_again_and_it_is_a_duplicate() {
    let fleet = fleet_with(ping()).await;
    let _master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    fleet.net.set_faults(lose_ack());
    send(&web.link, "web-1", &event("e1", "x", json!({}))).await;
    web.serve(true).await;
    let entry = decided(&fleet, "e1", "duplicate").await;
    assert!(entry.jid.is_some());
    all_done(&fleet).await;
    assert!(web.hears_nothing(Duration::from_secs(30)).await);
}

#[tokio::test(start_paused = true)]
#[rule("R-10", "R-25")]
async fn r10_masters_that_crash_in_the_middle_lose_nothing_and_double_nothing() {
    let mut fleet = fleet_with(ping()).await;
    fleet.reacting.guards.storm_rate = 0;
    let mut web = fleet.peel("web-1").await;
    web.record_seen().await;
    let mut masters = vec![ready(&fleet, "m1").await, ready(&fleet, "m2").await];
    fleet.known("web-1", 1).await;
    // Some of what masters say of events is lost: they took them, did what they say, and nobody knows.
    let mut said = 0;
    fleet.net.set_faults(Losing::new(30, move |leg| {
        let of_master = leg.from.starts_with(['m', 'n']) && leg.subject == "events";
        said += usize::from(of_master);
        of_master && said % 3 == 0
    }));
    let serving = tokio::spawn(async move {
        let (mut asked, mut quiet) = (Vec::new(), 0);
        // Until long after it would have been asked again.
        while quiet < 60 {
            web.beat().await;
            let Ok(request) = tokio::time::timeout(Duration::from_secs(5), web.exec()).await else {
                quiet += 1;
                continue;
            };
            quiet = 0;
            web.ack(&request).await;
            web.ret(&request, true).await;
            asked.push((request.jid, request.dispatch_epoch));
        }
        asked
    });
    let total = 40;
    for number in 0..total {
        send(&fleet.link, "web-1", &event(&format!("e{number}"), "x", json!({}))).await;
        if number % 10 == 9 {
            // Dropped: a crash, wherever it stands.
            drop(masters.remove(0));
            masters.push(ready(&fleet, &format!("n{number}")).await);
        }
    }
    let asked = serving.await.unwrap();
    all_done(&fleet).await;
    asked_once(&asked, total);
    let decisions: Vec<String> = ledger(&fleet).await.into_iter().map(|entry| entry.decision).collect();
    assert!(decisions.iter().any(|word| word == "duplicate"), "nothing disturbed them: {decisions:?}");
}

/// Each of so many events became one job, and a peel was asked once for each by each owner of it: the same owner asks again only
/// whoever does not answer, and a job that got a new owner is still the same job.
pub fn asked_once(asked: &[(Jid, u64)], total: usize) {
    let distinct: BTreeSet<&(Jid, u64)> = asked.iter().collect();
    assert_eq!(distinct.len(), asked.len(), "somebody was asked twice: {asked:?}");
    let jids: BTreeSet<Jid> = asked.iter().map(|(jid, _)| jid.clone()).collect();
    let wanted: BTreeSet<Jid> =
        (0..total).map(|number| reaction_jid(&format!("e{number}"), "reactor.a", "ping")).collect();
    assert_eq!(jids, wanted);
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-9")]
async fn r1_an_effect_that_fails_20_times_happens_once() {
    let fleet = fleet_with(json!({"tell": {"event.send": {"tag": "next"}}})).await;
    let _master = ready(&fleet, "m1").await;
    let sent = "zester.event._master.reaction.next";
    fleet.net.set_faults(Losing::new(20, move |leg| leg.from == "m1" && leg.subject == sent));
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    let entry = decided(&fleet, "e1", "sent").await;
    all_done(&fleet).await;
    let page = fleet.link.bus().replay("events", sent, 0).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let derived: Event = fleet.link.open(&page.items[0].subject, &page.items[0].payload).unwrap().message;
    assert_eq!((derived.id.as_str(), derived.depth), (entry.event_sent.as_str(), 1));
    assert_eq!(derived.origin, "reaction:reactor.a");
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-22")]
async fn r1_what_can_never_succeed_is_exhausted_and_not_forgotten() {
    let fleet = fleet_with(json!({"tell": {"event.send": {"tag": "next"}}})).await;
    let master = ready(&fleet, "m1").await;
    let sent = "zester.event._master.reaction.next";
    fleet.net.set_faults(Losing::new(usize::MAX, move |leg| leg.from == "m1" && leg.subject == sent));
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    // For ten minutes and more it is tried.
    let tried = Instant::now();
    let entry = loop {
        assert!(tried.elapsed() < Duration::from_secs(3_600), "it is never given up");
        let found = ledger(&fleet).await.into_iter().find(|entry| entry.decision == "exhausted");
        match found {
            Some(found) => break found,
            None => tokio::time::sleep(Duration::from_secs(10)).await,
        }
    };
    assert!(tried.elapsed() > Duration::from_secs(600));
    assert_eq!((entry.event_id.as_str(), entry.block.as_str()), ("e1", "tell"));
    let exhausted = "zester_reactor_reactions_total{rule=\"reactor.a\",result=\"exhausted\"}";
    assert_eq!(master.metric(exhausted), 1);
    all_done(&fleet).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-9")]
async fn r9_an_id_that_a_peel_took_first_does_not_suppress_the_event() {
    let fleet = fleet_with(json!({"tell": {"event.send": {"tag": "next"}}})).await;
    let _master = ready(&fleet, "m1").await;
    let origin = Origin::Peel(PeelId::parse("web-1").unwrap());
    let id = Cause { origin: &origin, event_id: "e1", rule: "reactor.a", block: "tell" }.event();
    let squatter = event(&id, "squat", json!({}));
    let subject = EventSubject::Send { peel: PeelId::parse("web-1").unwrap(), tag: squatter.tag.clone() };
    let message_id = MessageId::parse(&id).unwrap();
    fleet.link.publish_stored(&Subject::Event(subject), &message_id, &squatter).await.unwrap();
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    decided(&fleet, "e1", "sent").await;
    let page = fleet.link.bus().replay("events", "zester.event._master.reaction.next", 0).await.unwrap();
    assert_eq!(page.items.len(), 1);
}

/// The server forgets after two minutes which ids it has had; a rule may be tried for longer.
#[tokio::test(start_paused = true)]
#[rule("R-9", "R-10")]
async fn r10_what_was_sent_is_not_sent_again_when_another_block_is_tried_for_minutes() {
    for squatted in [false, true] {
        let fleet = fleet_with(
            json!({"tell": {"event.send": {"tag": "next"}}, "then": {"event.send": {"tag": "other"}}}),
        )
        .await;
        let _master = ready(&fleet, "m1").await;
        if squatted {
            let origin = Origin::Peel(PeelId::parse("web-1").unwrap());
            let id = Cause { origin: &origin, event_id: "e1", rule: "reactor.a", block: "tell" }.event();
            let subject = EventSubject::Send {
                peel: PeelId::parse("web-1").unwrap(),
                tag: Tag::parse("squat").unwrap(),
            };
            let squatter = event(&id, "squat", json!({}));
            let message_id = MessageId::parse(&id).unwrap();
            fleet.link.publish_stored(&Subject::Event(subject), &message_id, &squatter).await.unwrap();
        }
        let (begun, other) = (Instant::now(), "zester.event._master.reaction.other");
        let lost = move |leg: zester_bus::memory::Leg<'_>| {
            leg.from == "m1" && leg.subject == other && begun.elapsed() < Duration::from_secs(200)
        };
        fleet.net.set_faults(Losing::new(usize::MAX, lost));
        send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        all_done(&fleet).await;
        assert_eq!(fleet.link.bus().replay("events", other, 0).await.unwrap().items.len(), 1);
        let page = fleet.link.bus().replay("events", "zester.event._master.reaction.next", 0).await.unwrap();
        assert_eq!(page.items.len(), 1, "squatted: {squatted}");
    }
}

#[tokio::test(start_paused = true)]
#[rule("R-3", "R-11")]
async fn r3_what_finds_no_room_comes_again_and_a_panic_is_one_rules_failure() {
    let double = Double::default();
    let gate = double.gate.clone();
    let mut fleet = Fleet::new().await;
    fleet.reacting = Reacting {
        compiler: Some(Arc::new(double)),
        queue: 1,
        ..reacting(Guards { source_rate_limit: 0, ..Guards::default() })
    };
    let top = json!([{"*/x": ["reactor.a"]}, {"*/y": ["reactor.b", "reactor.c"]}]);
    let (slow, log) = (json!({"wait": {"say": {"log": "hi"}}}), json!({"say": {"log": "hi"}}));
    publish(&fleet, &[("top.zy", top), ("a.zy", slow), ("b.zy", json!("panic")), ("c.zy", log)]).await;
    let master = ready(&fleet, "m1").await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    while gate.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    send(&fleet.link, "web-2", &event("e2", "x", json!({}))).await;
    let backpressure = "zester_reactor_events_dropped_total{reason=\"backpressure\"}";
    while master.metric(backpressure) == 0 {
        tokio::task::yield_now().await;
    }
    gate.open();
    decided(&fleet, "e1", "logged").await;
    decided(&fleet, "e2", "logged").await;
    send(&fleet.link, "web-1", &event("e3", "y", json!({}))).await;
    let broken = decided(&fleet, "e3", "render_error").await;
    assert_eq!(broken.rule, "reactor.b");
    assert_eq!(decided(&fleet, "e3", "logged").await.rule, "reactor.c");
    all_done(&fleet).await;
}

/// A backlog that meets a master which has just begun is not done with because its peel is a moment late.
#[tokio::test(start_paused = true)]
#[rule("R-15")]
async fn r15_an_event_waits_for_a_peel_that_had_no_time_to_show_itself() {
    let fleet = fleet_with(ping()).await;
    let _master = ready(&fleet, "m1").await;
    let sender = Link::new(Arc::new(fleet.net.connect("sender")));
    send(&sender, "web-1", &event("e1", "x", json!({}))).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut web = fleet.peel("web-1").await;
    let request = web.serve(true).await;
    assert_eq!(request.jid, reaction_jid("e1", "reactor.a", "ping"));
    // Whoever never comes is missed once the master would have heard of him.
    send(&sender, "ghost", &event("e2", "x", json!({}))).await;
    decided(&fleet, "e2", "no_targets").await;
}
