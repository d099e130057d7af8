//! Events as an operator sends and sees them, and the tree of what came of one.

use crate::world::{World, job, peel, put_job, put_return, ret, world};
use serde_json::{Map, Value, json};
use std::time::Duration;
use zester_client::{EventTree, LedgerQuery};
use zester_link::Link;
use zester_rule::rule;
use zester_wire::*;

fn tag(text: &str) -> Tag {
    Tag::parse(text).unwrap()
}

fn event(id: &str, subject: &EventSubject, origin: &str, depth: u32) -> Event {
    let (tag, data) = (subject.tag(), Map::new());
    Event { id: id.into(), tag, data, ts: UnixMillis(1), v: 1, origin: origin.into(), depth }
}

/// Keeps an event as its sender would, and gives its place.
async fn keep(link: &Link, id: &str, subject: EventSubject, origin: &str, depth: u32) -> u64 {
    let event = event(id, &subject, origin, depth);
    let message = MessageId::parse(id).unwrap();
    link.publish_stored(&Subject::Event(subject), &message, &event).await.unwrap().sequence
}

fn from_peel(name: &str, text: &str) -> EventSubject {
    EventSubject::Send { peel: peel(name), tag: tag(text) }
}

async fn decide(link: &Link, entry: &LedgerEntry) {
    let id = link.new_message_id().unwrap();
    link.publish_stored(&entry.subject().unwrap(), &id, entry).await.unwrap();
}

fn entry(event: &str, sequence: u64, rule: &str, decision: &str) -> LedgerEntry {
    LedgerEntry {
        at: UnixMillis(5),
        origin: "web-1".into(),
        tag: "a/b".into(),
        event_id: event.into(),
        sequence,
        rule: rule.into(),
        block: "block".into(),
        decision: decision.into(),
        ..LedgerEntry::default()
    }
}

/// What is shown until nothing more comes.
async fn shown(watch: &mut zester_client::EventWatch) -> Vec<String> {
    let mut ids = Vec::new();
    while let Ok(seen) = tokio::time::timeout(Duration::from_secs(5), watch.next()).await {
        ids.push(seen.unwrap().unwrap().event.id);
    }
    ids
}

#[tokio::test(start_paused = true)]
#[rule("R-1")]
async fn r1_an_operators_event_is_kept_under_admin_with_its_own_id() {
    let world = world().await;
    let mut data = Map::new();
    data.insert("n".into(), json!(5));
    let sent = world.client.send_event(tag("deploy/done"), data).await.unwrap();
    assert_eq!(sent.subject.match_key(), "_admin/deploy/done");
    let record = world.other.bus().at("events", sent.sequence).await.unwrap().unwrap();
    assert_eq!(record.subject, "zester.event._admin.send.deploy.done");
    let opened = world.other.open::<Event>(&record.subject, &record.payload).unwrap().message;
    assert_eq!((&opened.id, opened.depth, &opened.data["n"]), (&sent.event.id, 0, &json!(5)));
}

#[tokio::test(start_paused = true)]
#[rule("C-11", "R-1")]
async fn c11_a_watch_shows_what_was_kept_and_what_comes_each_once() {
    let World { client, other, net, .. } = world().await;
    keep(&other, "old", from_peel("web-1", "a"), "", 0).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    for id in ["one", "two"] {
        keep(&other, id, from_peel("web-1", "a"), "", 0).await;
    }
    let mut all = client.watch_events(Some(Duration::from_secs(60))).await.unwrap();
    let mut live = client.watch_events(None).await.unwrap();
    keep(&other, "three", from_peel("web-2", "b"), "", 0).await;
    assert_eq!(shown(&mut all).await, ["one", "two", "three"]);
    assert_eq!(shown(&mut live).await, ["three"]);
    // What a lost connection kept from us is read from the stream, and nothing twice.
    keep(&other, "four", from_peel("web-2", "b"), "", 0).await;
    net.cut("operator");
    keep(&other, "five", from_peel("web-2", "b"), "", 0).await;
    net.heal("operator");
    keep(&other, "six", from_peel("web-2", "b"), "", 0).await;
    for watch in [&mut all, &mut live] {
        let mut ids = shown(watch).await;
        ids.sort();
        assert_eq!(ids, ["five", "four", "six"]);
    }
    // None of this made the server a consumer.
    let table = zester_bus::storage::table();
    let events = table.iter().find(|store| store.name == "events").unwrap();
    assert_eq!(other.bus().usage(events).await.unwrap().consumers, 0);
}

#[tokio::test(start_paused = true)]
#[rule("R-22")]
async fn r22_the_ledger_is_asked_by_rule_event_source_result_and_time() {
    let World { client, other, .. } = world().await;
    decide(&other, &entry("e0", 1, "reactor.a", "dispatched")).await;
    tokio::time::sleep(Duration::from_secs(7200)).await;
    decide(&other, &entry("e1", 2, "reactor.a", "dispatched")).await;
    decide(&other, &entry("e2", 3, "reactor.b", "throttled")).await;
    let admin = LedgerEntry { origin: "_admin".into(), ..entry("e3", 4, "", "stale") };
    decide(&other, &admin).await;
    let ask = async |since: u64, query: LedgerQuery| {
        let found = client.ledger(Duration::from_secs(since), &query).await.unwrap();
        found.into_iter().map(|entry| entry.event_id).collect::<Vec<_>>()
    };
    let any = LedgerQuery::default;
    assert_eq!(ask(3600, any()).await, ["e1", "e2", "e3"]);
    assert_eq!(ask(86_400, any()).await, ["e0", "e1", "e2", "e3"]);
    assert_eq!(ask(3600, LedgerQuery { rule: "reactor.a".into(), ..any() }).await, ["e1"]);
    assert_eq!(ask(3600, LedgerQuery { result: "stale".into(), ..any() }).await, ["e3"]);
    assert_eq!(ask(3600, LedgerQuery { source: "web-1".into(), ..any() }).await, ["e1", "e2"]);
    assert_eq!(ask(3600, LedgerQuery { event: "e2".into(), ..any() }).await, ["e2"]);
    assert_eq!(client.ledger_of_event("e0").await.unwrap().len(), 1);
}

/// Words of a tree, depth first.
fn words(tree: &EventTree) -> Value {
    let reactions = tree.reactions.iter().map(|one| {
        let job = one.job.as_ref().map(|job| {
            let events: Vec<Value> = job.events.iter().map(words).collect();
            json!([job.job.jid.as_str(), job.returns.len(), events])
        });
        json!([one.entry.rule, one.entry.decision, one.again, job, one.sent.as_ref().map(words)])
    });
    json!([tree.id, tree.event.is_some(), reactions.collect::<Vec<_>>()])
}

fn reaction_job(link: &Link, event: &str, rule: &str) -> Job {
    let jid = Jid::parse(&format!("rxn-{}", &format!("{:0>32}", event.len() * 7 + rule.len()))).unwrap();
    let mut job = job(link, &jid, &["web-1"], JobStatus::Complete);
    for (key, value) in [("event_id", event), ("rule", rule), ("block", "block"), ("event_origin", "web-1")] {
        job.metadata.insert(key.into(), json!(value));
    }
    job
}

#[tokio::test(start_paused = true)]
#[rule("R-22")]
async fn r22_the_tree_of_an_event_is_drawn_from_ledger_events_and_jobs_and_shows_a_loop() {
    let World { client, other, .. } = world().await;
    let first = keep(&other, "root", from_peel("web-1", "a/b"), "", 0).await;
    let job = reaction_job(&other, "root", "reactor.a");
    put_job(&other, &job).await;
    put_return(&other, &ret(&job.jid, "web-1")).await;
    let dispatched =
        LedgerEntry { jid: Some(job.jid.clone()), ..entry("root", first, "reactor.a", "dispatched") };
    decide(&other, &dispatched).await;
    // Told again by a redelivery: that is no second branch.
    decide(&other, &LedgerEntry { decision: "duplicate".into(), ..dispatched.clone() }).await;
    // The work sends an event, whose rule is the same again: a loop.
    let origin = format!("job:{}", job.jid);
    let second = keep(&other, "again", from_peel("web-1", "a/b"), &origin, 1).await;
    let sends = LedgerEntry { event_sent: "derived".into(), ..entry("again", second, "reactor.a", "sent") };
    decide(&other, &sends).await;
    let master = EventSubject::Master { tag: tag("reaction/x") };
    keep(&other, "derived", master, "reaction:reactor.a", 2).await;
    decide(&other, &entry("derived", 0, "reactor.a", "refused")).await;
    let tree = client.reaction_tree("root").await.unwrap().unwrap();
    let derived = json!(["derived", true, [["reactor.a", "refused", true, null, null]]]);
    let again = json!(["again", true, [["reactor.a", "sent", true, null, derived]]]);
    let drawn =
        json!(["root", true, [["reactor.a", "dispatched", false, [job.jid.as_str(), 1, [again]], null]]]);
    assert_eq!(words(&tree), drawn);
    // By the beginning of its id; and one that nobody knows is none.
    assert_eq!(client.reaction_tree("deriv").await.unwrap().unwrap().id, "derived");
    assert!(client.reaction_tree("nosuch").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
#[rule("R-22")]
async fn r22_without_a_ledger_jobs_and_events_alone_give_the_effects() {
    let World { client, other, .. } = world().await;
    keep(&other, "root", from_peel("web-1", "a/b"), "", 0).await;
    let job = reaction_job(&other, "root", "reactor.a");
    put_job(&other, &job).await;
    let finalized = EventSubject::Master { tag: tag(&format!("job/{}/finalized", job.jid)) };
    keep(&other, "end", finalized, "", 1).await;
    let tree = client.reaction_tree("root").await.unwrap().unwrap();
    let end = json!(["end", true, []]);
    let drawn =
        json!(["root", true, [["reactor.a", "dispatched", false, [job.jid.as_str(), 0, [end]], null]]]);
    assert_eq!(words(&tree), drawn);
}
