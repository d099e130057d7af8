//! The index of peels against matching each by hand (D-8).

use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, advance};
use zester_master::{Index, NoSettings, SettingsOf};
use zester_model::target::{Subject, Target};
use zester_rule::rule;
use zester_wire::*;

const TTL: Duration = Duration::from_secs(30);

fn peel(name: &str) -> PeelId {
    PeelId::parse(name).unwrap()
}

fn facts(name: &str, facts: Value) -> FactsRecord {
    let Value::Object(facts) = facts else { panic!("facts are an object") };
    FactsRecord { v: 1, peel: peel(name), ts: UnixMillis(1), hash: "x".into(), facts }
}

fn beat(name: &str, connects: u64) -> PeelHeartbeat {
    PeelHeartbeat {
        v: 1,
        peel: peel(name),
        ts: UnixMillis(1),
        boot: Token::parse("boot").unwrap(),
        connects,
        version: String::new(),
        os: String::new(),
        busy: 0,
        outbox: 0,
    }
}

fn index() -> Index {
    Index::new(TTL, Arc::new(NoSettings))
}

/// The role of a peel is what its name begins with. Counts how often it was asked.
#[derive(Default)]
struct Roles(AtomicUsize);

impl SettingsOf for Roles {
    fn settings(&self, peel: &PeelId, _: &Value) -> Value {
        self.0.fetch_add(1, Ordering::Relaxed);
        json!({"role": peel.as_str().split('-').next()})
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    #[rule("D-8")]
    fn d8_the_index_agrees_with_matching_by_hand(
        fleet in prop::collection::btree_map("(web|db|mail)-[0-9]", (0..4_i64, "Debian|Alpine"), 0..20),
        expression in prop::sample::select(vec![
            "*", "web*", "not web*", "E@db-[0-4]", "L@web-1,db-2,ghost", "G@os:debian", "G@mem>=2 and web*",
            "I@role:web", "I@role:db or G@mem:1", "not (G@os:alpine or mail*)", "G@none:x",
        ]),
    ) {
        let index = Index::new(TTL, Arc::new(Roles::default()));
        let mut by_hand = Vec::new();
        let target = Target::parse(expression).unwrap();
        for (revision, (name, (mem, os))) in fleet.iter().enumerate() {
            let data = json!({"mem": mem, "os": os});
            let settings = Roles::default().settings(&peel(name), &data);
            if target.matches(&Subject { id: name, facts: &data, settings: &settings }) {
                by_hand.push(peel(name));
            }
            index.put_facts(facts(name, data), revision as u64 + 1);
        }
        by_hand.sort();
        prop_assert_eq!(index.resolve(expression).unwrap(), by_hand);
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-8")]
async fn j8_a_peel_is_online_as_long_as_its_heartbeat_lasts() {
    let index = index();
    index.put_heartbeat(beat("web-1", 1), 1);
    assert!(index.is_online(&peel("web-1")));
    assert_eq!(index.absent(&[peel("web-1"), peel("db-1")]), BTreeSet::from([peel("db-1")]));
    advance(TTL + Duration::from_millis(1)).await;
    assert!(!index.is_online(&peel("web-1")));
    assert_eq!((index.len(), index.online_count()), (1, 0));
    // A watch that begins anew tells the same once more, which is no sign of life.
    index.put_heartbeat(beat("web-1", 1), 1);
    assert!(!index.is_online(&peel("web-1")));
    index.put_heartbeat(beat("web-1", 1), 2);
    assert!(index.is_online(&peel("web-1")));
}

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_only_a_new_connection_is_an_announcement() {
    let index = index();
    assert!(index.put_heartbeat(beat("web-1", 1), 1));
    assert!(!index.put_heartbeat(beat("web-1", 1), 2));
    assert!(index.put_heartbeat(beat("web-1", 2), 3));
    assert!(!index.put_heartbeat(beat("web-1", 2), 3));
}

#[tokio::test(start_paused = true)]
#[rule("D-7")]
async fn d7_peels_that_were_removed_are_forgotten() {
    let index = index();
    for (revision, name) in ["web-1", "web-2", "web-3"].into_iter().enumerate() {
        index.put_facts(facts(name, json!({"os": "x"})), revision as u64 + 1);
    }
    index.put_heartbeat(beat("web-2", 1), 9);
    index.keep_only(&BTreeSet::from([peel("web-1")]), Instant::now());
    // One is listed, one lives, one is gone.
    assert_eq!(index.resolve("*").unwrap(), [peel("web-1"), peel("web-2")]);
    assert_eq!(index.resolve("G@os:x").unwrap(), [peel("web-1")]);
}

#[tokio::test(start_paused = true)]
#[rule("D-7")]
async fn d7_older_facts_do_not_replace_newer() {
    let index = index();
    index.put_facts(facts("web-1", json!({"os": "new"})), 7);
    index.put_facts(facts("web-1", json!({"os": "old"})), 3);
    assert_eq!(index.resolve("G@os:new").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
#[rule("D-8")]
async fn d8_settings_are_rendered_only_where_they_are_asked_for_and_not_too_often() {
    let roles = Arc::new(Roles::default());
    let index = Index::new(TTL, roles.clone());
    index.put_facts(facts("web-1", json!({})), 1);
    index.put_facts(facts("db-1", json!({})), 2);
    let asked = || roles.0.load(Ordering::Relaxed);
    index.resolve("G@os:x or web*").unwrap();
    assert_eq!(asked(), 0);
    assert_eq!(index.resolve("I@role:db").unwrap(), [peel("db-1")]);
    index.resolve("I@role:db").unwrap();
    assert_eq!(asked(), 2);
    index.put_facts(facts("web-1", json!({"a": 1})), 3);
    index.resolve("I@role:db").unwrap();
    assert_eq!(asked(), 3);
    advance(zester_master::limits::SETTINGS_FRESH).await;
    index.resolve("I@role:db").unwrap();
    assert_eq!(asked(), 5);
}

#[test]
#[rule("D-8")]
fn d8_a_snapshot_is_not_changed_by_what_comes_later() {
    let index = index();
    index.put_facts(facts("web-1", json!({})), 1);
    let before = index.snapshot();
    index.put_facts(facts("web-2", json!({})), 2);
    assert_eq!((before.len(), index.len()), (1, 2));
}
