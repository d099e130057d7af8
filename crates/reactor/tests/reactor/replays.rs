//! Events of the past, with the time of the stream as the clock.

use super::double::{NOW, delivered, event, read, rules};
use super::reactions::{World, done};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use zester_reactor::replay::{Replay, Replayed};
use zester_reactor::{Decision, Delivered, DropReason, Gates, Guards, Payload, RuleSet};
use zester_rule::rule;
use zester_wire::Event;

const SUBJECT: &str = "zester.event.web-1.send.x";

#[test]
#[rule("R-19", "R-23")]
fn r23_a_replay_decides_as_the_reactor_would_have_then() {
    let set = rules(&[
        ("top.zy", json!([{"*/x": {"react": ["reactor.a"], "throttle": "30s"}}])),
        ("a.zy", json!({"b": {"dispatch.module": {"target": "*", "function": "test.ping"}}})),
    ]);
    let run = || {
        let mut replay = Replay::new(set.clone(), &Guards::default());
        let mut told = Vec::new();
        for second in [0, 10, 40] {
            let stored = NOW.plus(Duration::from_secs(second));
            let delivered = Delivered { stored, deliveries: 4, ..delivered(SUBJECT, second) };
            let event = event(&format!("e{second}"), "x", json!({}));
            let signed = zester_reactor::Payload::Read { event, signed: stored };
            match replay.event(&delivered, |_| signed, |_| Value::Null) {
                Replayed::Decided(_, decided) => told.push((decided[0].decision, decided[0].jid.clone())),
                other => panic!("{other:?}"),
            }
        }
        told
    };
    let told = run();
    let decisions: Vec<Decision> = told.iter().map(|(decision, _)| *decision).collect();
    assert_eq!(decisions, [Decision::Dispatched, Decision::Throttled, Decision::Dispatched]);
    assert_eq!(told, run(), "the same every time, jobs and all");
}

#[test]
#[rule("R-23")]
fn r23_what_was_dropped_or_met_no_rule_is_told_too() {
    let set = rules(&[("top.zy", json!([])), ("a.zy", json!({}))]);
    let mut replay = Replay::new(set, &Guards::default());
    let unmatched = replay.event(&delivered(SUBJECT, 1), read(event("e", "x", json!({}))), |_| Value::Null);
    assert!(matches!(unmatched, Replayed::Unmatched(_)));
    let spoofed = replay.event(&delivered(SUBJECT, 2), read(event("e", "y", json!({}))), |_| Value::Null);
    assert!(matches!(spoofed, Replayed::Dropped(dropped) if dropped.reason == DropReason::Spoof));
}

/// An event of the past: who sent it, when the stream took it, how deep it was.
#[derive(Copy, Clone, Debug)]
struct Past {
    source: &'static str,
    at_millis: u64,
    depth: u32,
}

impl Past {
    fn of(source: &'static str, at_millis: u64) -> Past {
        Past { source, at_millis, depth: 0 }
    }
}

/// What was decided about each event, or why it was dropped.
fn words(past: &[Past], mut judge: impl FnMut(&Delivered<'_>, Payload) -> Vec<&'static str>) -> Vec<String> {
    let mut told = Vec::new();
    for (place, one) in past.iter().enumerate() {
        let stored = NOW.plus(Duration::from_millis(one.at_millis));
        let subject = match one.source {
            "_master" => "zester.event._master.x".to_string(),
            source => format!("zester.event.{source}.send.x"),
        };
        let event = Event { depth: one.depth, ..event(&format!("e{place}"), "x", json!({})) };
        // Whoever reads the stream once more is given each for the n-th time.
        let delivered = Delivered { stored, deliveries: 4, ..delivered(&subject, place as u64) };
        told.push(judge(&delivered, Payload::Read { event, signed: stored }).join(" "));
    }
    told
}

fn replayed(set: &Arc<RuleSet>, guards: &Guards, past: &[Past]) -> Vec<String> {
    let mut replay = Replay::new(set.clone(), guards);
    words(past, |delivered, payload| match replay.event(delivered, |_| payload, |_| Value::Null) {
        Replayed::Dropped(dropped) => vec![dropped.reason.as_str()],
        Replayed::Unmatched(_) => vec!["unmatched"],
        Replayed::Decided(_, decided) => decided.iter().map(|one| one.decision.as_str()).collect(),
    })
}

/// The same on the machines of a master that was given each event once, when it came.
fn lived(set: &Arc<RuleSet>, guards: &Guards, past: &[Past]) -> Vec<String> {
    let (mut gates, mut world) = (Gates::new(guards.clone()), World::new(guards.clone()));
    words(past, |delivered, payload| {
        let first = Delivered { deliveries: 1, ..*delivered };
        world.now = first.stored;
        match gates.judge(&first, |_| payload, first.stored) {
            Err(dropped) => vec![dropped.reason.as_str()],
            Ok(passed) => {
                let mut reaction = world.reaction(set, &Arc::new(passed));
                world.pass(&mut reaction, done).0.iter().map(|one| one.decision.as_str()).collect()
            }
        }
    })
}

fn jobs() -> Arc<RuleSet> {
    rules(&[
        ("top.zy", json!([{"*/x": ["reactor.a"]}])),
        ("a.zy", json!({"b": {"dispatch.module": {"target": "*", "function": "test.ping"}}})),
    ])
}

fn count(told: &[String], word: &str) -> usize {
    told.iter().filter(|one| *one == word).count()
}

#[test]
#[rule("R-3", "R-23")]
fn r23_a_replay_limits_sources_by_the_time_of_the_stream() {
    let guards = Guards { source_rate_limit: 60, source_burst: 2, ..Guards::default() };
    let past = [0, 0, 0, 0, 999, 1_000].map(|at| Past::of("web-1", at));
    let told = replayed(&jobs(), &guards, &past);
    let (yes, no) = ("dispatched", "ratelimit");
    assert_eq!(told, [yes, yes, no, no, no, yes], "however often each was given before");
    let told = replayed(&jobs(), &guards, &[Past::of("_master", 0); 20]);
    assert_eq!(count(&told, yes), 20, "masters are exempt");
    let mut both = [Past::of("web-1", 0), Past::of("web-2", 0)].repeat(2);
    both.push(Past::of("_admin", 0));
    assert_eq!(count(&replayed(&jobs(), &guards, &both), yes), 5, "each source has its own");
}

#[test]
#[rule("R-12", "R-23")]
fn r23_a_replay_opens_breakers_and_closes_them_by_the_time_of_the_stream() {
    let guards = Guards { storm_rate: 3, storm_cooldown: Duration::from_secs(10), ..Guards::default() };
    let at = [0, 0, 0, 59_999, 60_000, 69_998, 69_999, 70_000];
    let told = replayed(&jobs(), &guards, &at.map(|at| Past::of("web-1", at)));
    let (yes, no) = ("dispatched", "breaker_open");
    assert_eq!(told, [yes, yes, yes, yes, no, no, yes, yes]);
}

#[test]
#[rule("R-19", "R-23")]
fn r23_a_replay_and_a_master_that_was_there_decide_alike() {
    let set = rules(&[
        (
            "top.zy",
            json!([
                {"*/x": ["reactor.a"]},
                {"web-1/x": {"react": ["reactor.b"], "throttle": "3s"}},
                {"_admin/x": ["reactor.c"]},
            ]),
        ),
        ("a.zy", json!({"b": {"dispatch.module": {"target": "*", "function": "test.ping"}}})),
        ("b.zy", json!({"b": {"dispatch.module": {"target": "*", "function": "test.ping"}}})),
        ("c.zy", json!({"b": {"enroll.approve": {"id": "x", "require_peel": "web-*"}}})),
    ]);
    let guards = Guards {
        storm_rate: 25,
        storm_cooldown: Duration::from_secs(20),
        source_rate_limit: 30,
        source_burst: 5,
        ..Guards::default()
    };
    let mut at_millis = 0;
    let past: Vec<Past> = (0..600_u64)
        .map(|place| {
            // Bursts and pauses, the same in every run.
            at_millis += [0, 130, 700, 40, 1_100][(place * place % 7 % 5) as usize];
            let source = ["web-1", "_master", "web-2", "web-1", "_admin"][(place % 5) as usize];
            Past { source, at_millis, depth: (place % 11 / 8) as u32 * 2 }
        })
        .collect();
    let told = replayed(&set, &guards, &past);
    assert_eq!(told, lived(&set, &guards, &past));
    for word in ["ratelimit", "throttled", "breaker_open", "refused", "dispatched"] {
        let times = told.iter().filter(|one| one.contains(word)).count();
        assert!(times >= 10, "{word} came {times} times");
    }
}
