//! The index of peels against matching each by hand (D-8).

use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::advance;
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
    PeelHeartbeat::new(peel(name), Token::parse("boot").unwrap(), connects, UnixMillis(1))
}

fn index() -> Index {
    Index::new(TTL, Arc::new(NoSettings))
}

/// The role of a peel is what its name begins with. Counts how often it was asked.
#[derive(Default)]
struct Roles(AtomicUsize);

impl SettingsOf for Roles {
    fn settings(&self, peel: &PeelId, _: &Value) -> Result<Value, String> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(json!({"role": peel.as_str().split('-').next()}))
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
        for (name, (mem, os)) in &fleet {
            let data = json!({"mem": mem, "os": os});
            let settings = Roles::default().settings(&peel(name), &data).unwrap();
            if target.matches(&Subject { id: name, facts: &data, settings: &settings }) {
                by_hand.push(peel(name));
            }
            index.put_facts(facts(name, data));
        }
        by_hand.sort();
        prop_assert_eq!(index.resolve(expression).unwrap().peels, by_hand);
    }
}

fn at(seconds: u64) -> UnixMillis {
    UnixMillis(1_800_000_000_000 + seconds * 1_000)
}

#[tokio::test(start_paused = true)]
#[rule("I-12")]
async fn i12_what_a_peel_once_said_is_told_from_what_it_says_now() {
    let index = index();
    let minute = 60_000;
    let written = |at: u64| FactsRecord { ts: UnixMillis(at * minute), ..facts("web-1", json!({})) };
    let beaten = |at: u64| PeelHeartbeat { ts: UnixMillis(at * minute), ..beat("web-1", 1) };
    assert!(!index.facts_are_older(&written(1)) && !index.heartbeat_is_older(&beaten(1)), "nothing is known");
    index.put_facts(written(100));
    index.put_heartbeat(beaten(100), at(0));
    // A clock that was set right is no forgery; an hour is.
    for (minutes, older) in [(101, false), (100, false), (96, false), (94, true), (40, true)] {
        assert_eq!(index.facts_are_older(&written(minutes)), older, "{minutes}");
        assert_eq!(index.heartbeat_is_older(&beaten(minutes)), older, "{minutes}");
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-8")]
async fn j8_a_peel_is_online_as_long_as_its_heartbeat_lasts() {
    let index = index();
    index.put_heartbeat(beat("web-1", 1), at(0));
    assert!(index.is_online(&peel("web-1")));
    assert_eq!(index.absent(&[peel("web-1"), peel("db-1")]), BTreeSet::from([peel("db-1")]));
    assert!(index.presence().expire().0.is_empty());
    advance(TTL + Duration::from_millis(1)).await;
    assert!(!index.is_online(&peel("web-1")));
    // Told once, and when it comes back it came.
    assert_eq!(index.presence().expire().0, [peel("web-1")]);
    assert!(index.presence().expire().0.is_empty());
    assert!(index.put_heartbeat(beat("web-1", 1), at(31)).came);
    assert!(index.is_online(&peel("web-1")));
}

/// In a large fleet peels beat seldom, and say so; whoever asks one soon knows whether it is there.
#[tokio::test(start_paused = true)]
#[rule("J-8", "J-17", "J-26")]
async fn j26_a_peel_that_beats_seldom_is_online_for_longer_and_missed_soon_when_it_is_asked() {
    let index = index();
    let seldom = |name| PeelHeartbeat { next: Some(Duration::from_secs(100)), ..beat(name, 1) };
    index.put_heartbeat(seldom("web-1"), at(0));
    index.put_heartbeat(seldom("web-2"), at(0));
    advance(Duration::from_secs(90)).await;
    assert!(index.presence().expire().0.is_empty(), "nobody is late");
    // Who only looks asks nobody; then both are asked, and one of them answers.
    let both = [peel("web-1"), peel("web-2")];
    assert!(index.absent(&both).is_empty());
    advance(TTL + Duration::from_secs(1)).await;
    assert!(index.presence().expire().0.is_empty(), "nobody was asked");
    index.presence().expect_answers(&both);
    index.put_heartbeat(beat("web-1", 1), at(90));
    advance(TTL - Duration::from_secs(1)).await;
    assert!(index.presence().expire().0.is_empty());
    index.put_heartbeat(seldom("web-1"), at(119));
    advance(Duration::from_secs(1)).await;
    assert_eq!(index.presence().expire().0, [peel("web-2")]);
    // Nobody asks the other, which is gone after three that did not come.
    advance(Duration::from_secs(298)).await;
    assert!(index.presence().expire().0.is_empty());
    advance(Duration::from_secs(2)).await;
    assert_eq!(index.presence().expire().0, [peel("web-1")]);
    // What a stranger promises is bounded.
    let never = PeelHeartbeat { next: Some(Duration::MAX), ..beat("web-3", 1) };
    index.put_heartbeat(never, at(500));
    advance(Duration::from_secs(301)).await;
    assert_eq!(index.presence().expire().0, [peel("web-3")]);
}

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_only_a_new_connection_is_an_announcement() {
    let index = index();
    assert!(index.put_heartbeat(beat("web-1", 1), at(0)).came);
    assert!(!index.put_heartbeat(beat("web-1", 1), at(10)).came);
    assert!(index.put_heartbeat(beat("web-1", 2), at(12)).came);
    assert!(!index.put_heartbeat(beat("web-1", 2), at(20)).came);
}

#[tokio::test(start_paused = true)]
#[rule("J-25")]
async fn j25_a_peel_that_stopped_before_its_facts_is_no_target_any_more() {
    let index = index();
    index.put_heartbeat(beat("web-1", 1), at(0));
    assert_eq!(index.resolve("*").unwrap().peels, [peel("web-1")]);
    let stopped = PeelHeartbeat { stopped: true, ..beat("web-1", 1) };
    assert!(index.put_heartbeat(stopped.clone(), at(1)).went);
    assert_eq!((index.resolve("*").unwrap().peels.len(), index.len()), (0, 0));
    assert!(!index.put_heartbeat(stopped.clone(), at(2)).went);
    // The same for one that just vanished, as soon as that is known.
    index.put_heartbeat(beat("web-2", 1), at(3));
    advance(TTL).await;
    assert!(index.resolve("*").unwrap().peels.is_empty());
    // Last words of an earlier boot that come late end nothing.
    let boot = Token::parse("boot2").unwrap();
    index.put_heartbeat(PeelHeartbeat { boot, ..beat("web-1", 1) }, at(40));
    assert!(!index.put_heartbeat(stopped, at(41)).went);
    assert!(index.is_online(&peel("web-1")));
}

#[tokio::test(start_paused = true)]
#[rule("J-25")]
async fn j25_offline_targets_are_counted_with_the_time_of_the_first() {
    let index = index();
    for (name, seen) in [("web-1", 100), ("web-2", 50), ("web-3", 900)] {
        index.put_facts(facts(name, json!({})));
        index.presence().load(beat(name, 1), at(seen), at(10_000));
    }
    index.put_heartbeat(beat("web-3", 1), at(10_000));
    let offline = index.offline(&["web-1", "web-2", "web-3"].map(peel)).unwrap();
    assert_eq!((offline.count, offline.since), (2, at(50)));
    assert_eq!(offline.some, ["web-1", "web-2"].map(peel));
    assert_eq!(index.offline(&[peel("web-3")]), None);
}

#[tokio::test(start_paused = true)]
#[rule("J-8")]
async fn j8_a_master_that_has_just_begun_takes_the_record_for_a_heartbeat_to_come() {
    let index = index();
    index.presence().load(beat("web-1", 1), at(9_900), at(10_000));
    index.presence().load(beat("web-2", 1), at(100), at(10_000));
    index.presence().load(PeelHeartbeat { stopped: true, ..beat("web-3", 1) }, at(9_990), at(10_000));
    let all = ["web-1", "web-2", "web-3"].map(peel);
    assert_eq!(index.absent(&all), BTreeSet::from([peel("web-2"), peel("web-3")]));
    // Nobody was heard, so nobody is counted; but a list does not say of a peel that was there lately that it is gone.
    assert_eq!(index.online_count(), 0);
    assert!(index.presence().status(&peel("web-1")).online && index.presence().is_unsure(&peel("web-1")));
    assert!(!index.presence().status(&peel("web-2")).online && !index.presence().is_unsure(&peel("web-2")));
    advance(TTL).await;
    assert_eq!(index.presence().expire().0, [peel("web-1")]);
    assert!(!index.presence().status(&peel("web-1")).online);
    assert_eq!(index.absent(&all).len(), 3);
}

#[tokio::test(start_paused = true)]
#[rule("J-8")]
async fn j8_silence_while_the_master_was_away_says_nothing_of_the_peels() {
    let index = index();
    index.put_heartbeat(beat("web-1", 1), at(0));
    advance(TTL - Duration::from_secs(1)).await;
    index.presence().begin_anew();
    advance(TTL - Duration::from_secs(1)).await;
    assert!(index.is_online(&peel("web-1")) && index.presence().expire().0.is_empty());
}

#[tokio::test(start_paused = true)]
async fn two_peels_of_one_id_take_turns_and_one_that_restarts_does_not() {
    let index = index();
    let boot = |name: &str| PeelHeartbeat { boot: Token::parse(name).unwrap(), ..beat("web-1", 1) };
    for (name, shared) in [("a", None), ("b", None), ("b", None), ("a", Some("b")), ("b", Some("a"))] {
        let heard = index.put_heartbeat(boot(name), at(0));
        assert_eq!(heard.shared_with.as_ref().map(Token::as_str), shared, "{name}");
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-7")]
async fn d7_peels_that_were_removed_are_forgotten() {
    let index = index();
    for name in ["web-1", "web-2", "web-3"] {
        index.put_facts(facts(name, json!({"os": "x"})));
    }
    index.put_heartbeat(beat("web-2", 1), at(0));
    let listed = BTreeSet::from([peel("web-1")]);
    index.keep_only(&listed);
    // One is listed, one lives, one is gone. What is known of the one that lives stays until it publishes it again.
    assert_eq!(index.resolve("G@os:x").unwrap().peels, [peel("web-1"), peel("web-2")]);
    assert_eq!(index.online_besides(&listed), [peel("web-2")]);
    index.forget(&peel("web-1"));
    assert_eq!(index.resolve("*").unwrap().peels, [peel("web-2")]);
}

#[tokio::test(start_paused = true)]
#[rule("J-26")]
async fn j26_a_list_of_peels_comes_in_pages() {
    let index = Arc::new(index());
    let names: Vec<PeelId> = (0..25).map(|number| peel(&format!("web-{number:02}"))).collect();
    for name in &names {
        index.put_heartbeat(beat(name.as_str(), 1), at(7));
    }
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let (page, more) = index.page("*", after.as_ref(), 10).await.unwrap();
        assert!(page.len() <= 10 && page.iter().all(|status| status.online && status.last_seen == at(7)));
        after = page.last().map(|status| status.peel.clone());
        listed.extend(page.into_iter().map(|status| status.peel));
        if !more {
            break;
        }
    }
    assert_eq!(listed, names);
}

/// Settings that are rendered when somebody allows it.
struct Slow(std::sync::Mutex<std::sync::mpsc::Receiver<()>>);

impl SettingsOf for Slow {
    fn settings(&self, _: &PeelId, _: &Value) -> Result<Value, String> {
        self.0.lock().unwrap().recv().unwrap();
        Ok(json!({"role": "web"}))
    }
}

/// The settings of `web-1` alone render.
struct Broken;

/// Which settings are published is not known yet.
struct Unlearned;

impl SettingsOf for Unlearned {
    fn settings(&self, _: &PeelId, _: &Value) -> Result<Value, String> {
        Err("not known yet".into())
    }

    fn unknown(&self) -> Option<String> {
        Some("not known yet".into())
    }
}

/// A reaction that found nobody is done with, so "not known yet" must not be read as that.
#[test]
#[rule("R-15")]
fn r15_whom_a_target_by_settings_means_is_unknown_while_the_settings_are() {
    let index = Index::new(TTL, Arc::new(Unlearned));
    for by_settings in ["I@role:web", "not I@role:web", "web-* and I@role:web"] {
        assert_eq!(index.unresolvable(by_settings).as_deref(), Some("not known yet"), "{by_settings}");
    }
    assert_eq!((index.unresolvable("*"), index.unresolvable("G@os:Debian")), (None, None));
    // Settings of one peel that do not render are no reason to wait.
    assert_eq!(Index::new(TTL, Arc::new(Broken)).unresolvable("I@role:web"), None);
}

impl SettingsOf for Broken {
    fn settings(&self, peel: &PeelId, _: &Value) -> Result<Value, String> {
        match peel.as_str() {
            "web-1" => Ok(json!({"role": "db"})),
            _ => Err("a.zy:1:3: there is no fact `role`".into()),
        }
    }
}

#[tokio::test]
#[rule("D-8")]
async fn d8_a_peel_whose_settings_do_not_render_is_meant_by_nothing_that_asks_for_them() {
    let index = Arc::new(Index::new(TTL, Arc::new(Broken)));
    index.put_facts(facts("web-1", json!({})));
    index.put_facts(facts("web-2", json!({})));
    assert_eq!(index.resolve("I@role:db").unwrap().peels, [peel("web-1")]);
    assert_eq!(index.resolve("I@role:x").unwrap().peels, []);
    for expression in ["not I@role:x", "web* and not I@role:x"] {
        assert_eq!(index.resolve(expression).unwrap().peels, [peel("web-1")], "{expression}");
    }
    // What does not hang on the settings is known all the same.
    for expression in ["web-2 or not I@role:x", "E@web-2 or I@role:db", "web-2 or (web-1 and I@role:db)"] {
        assert_eq!(index.resolve(expression).unwrap().peels, [peel("web-1"), peel("web-2")], "{expression}");
    }
    assert_eq!(index.resolve("web*").unwrap().peels, [peel("web-1"), peel("web-2")]);
    // Of whom nobody can say is told.
    let found = index.resolve("not I@role:x").unwrap();
    assert_eq!(found.undecided, [peel("web-2")]);
    let told = "the settings of web-2 do not render, so nobody knows whether it is meant";
    assert_eq!(found.undecided_words().as_deref(), Some(told));
    assert_eq!(index.resolve("web-1 and I@role:db").unwrap().undecided, []);
    let page = index.explain("not I@role:x", None, 10).await.unwrap();
    let said: Vec<bool> = page.peels.iter().map(|one| one.matches).collect();
    assert_eq!(said, [true, false]);
    let found = &page.peels[1].said_no[0].found;
    assert_eq!(found, "its settings do not render: a.zy:1:3: there is no fact `role`");
}

/// On one thread: rendering in the task that asks would never end.
#[tokio::test]
#[rule("D-8")]
async fn d8_rendering_settings_holds_up_no_task() {
    let (allow, allowed) = std::sync::mpsc::channel();
    let index = Arc::new(Index::new(TTL, Arc::new(Slow(std::sync::Mutex::new(allowed)))));
    index.put_facts(facts("web-1", json!({})));
    let (resolved, ()) = tokio::join!(index.resolve_aside("I@role:web"), async {
        tokio::task::yield_now().await;
        allow.send(()).unwrap();
    });
    assert_eq!(resolved.unwrap().peels, [peel("web-1")]);
}

#[tokio::test(start_paused = true)]
#[rule("D-8")]
async fn d8_settings_are_rendered_only_where_they_are_asked_for_and_not_too_often() {
    let roles = Arc::new(Roles::default());
    let index = Index::new(TTL, roles.clone());
    index.put_facts(facts("web-1", json!({})));
    index.put_facts(facts("db-1", json!({})));
    let asked = || roles.0.load(Ordering::Relaxed);
    index.resolve("G@os:x or web*").unwrap();
    assert_eq!(asked(), 0);
    assert_eq!(index.resolve("I@role:db").unwrap().peels, [peel("db-1")]);
    index.resolve("I@role:db").unwrap();
    assert_eq!(asked(), 2);
    index.put_facts(facts("web-1", json!({"a": 1})));
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
    index.put_facts(facts("web-1", json!({})));
    let before = index.snapshot();
    index.put_facts(facts("web-2", json!({})));
    assert_eq!((before.len(), index.len()), (1, 2));
}

#[tokio::test(start_paused = true)]
#[rule("D-8", "J-27")]
async fn d8_every_peel_is_told_with_the_part_that_said_no_page_by_page() {
    let index = Arc::new(Index::new(TTL, Arc::new(Roles::default())));
    index.put_facts(facts("db-1", json!({"os": "Debian"})));
    index.put_facts(facts("web-1", json!({"os": "Arch"})));
    index.put_facts(facts("web-2", json!({"os": "Debian"})));
    index.put_heartbeat(beat("web-2", 1), at(1));
    // It is there, and has no facts yet.
    index.put_heartbeat(beat("web-0", 1), at(1));
    let told = |page: ExplainedPage| -> Vec<String> {
        let line = |it: ExplainedPeel| {
            let online = if it.online { " online" } else { "" };
            let why: Vec<String> = it.said_no.iter().map(|no| format!("{} {}", no.part, no.found)).collect();
            assert_eq!(it.matches, why.is_empty());
            format!("{}{online}: {}", it.peel, why.join("; "))
        };
        page.peels.into_iter().map(line).collect()
    };
    let all = index.explain("web* and G@os:debian", None, 10).await.unwrap();
    assert!(!all.more);
    assert_eq!(
        told(all),
        [
            "db-1: web* ",
            "web-0 online: G@os:debian there is no fact os",
            "web-1: G@os:debian os is Arch",
            "web-2 online: ",
        ]
    );
    let first = index.explain("I@role:web", None, 3).await.unwrap();
    assert!(first.more);
    assert_eq!(told(first), ["db-1: I@role:web role is db", "web-0 online: ", "web-1: "]);
    let second = index.explain("I@role:web", Some(peel("web-1")), 3).await.unwrap();
    assert!(!second.more);
    assert_eq!(told(second), ["web-2 online: "]);
    let refused = index.explain("web* and (", None, 3).await.unwrap_err();
    assert!(refused.message.contains('^'), "{refused}");
}
