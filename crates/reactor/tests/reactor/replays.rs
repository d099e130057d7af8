//! Events of the past, with the time of the stream as the clock.

use super::double::{NOW, delivered, event, read, rules};
use serde_json::{Value, json};
use std::time::Duration;
use zester_reactor::replay::{Replay, Replayed};
use zester_reactor::{Decision, Delivered, DropReason, Guards};
use zester_rule::rule;

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
