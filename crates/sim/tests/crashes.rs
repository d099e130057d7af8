//! One fixed scenario, and a crash before and after every single call that any node makes in it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;
use zester_rule::rule;
use zester_sim::crash::{CrashPoint, Edge};
use zester_sim::reactions::{EventPlan, Sender};
use zester_sim::script::{Action, Script};
use zester_sim::{Invariant, Mutation, run};

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Two masters, two peels; a job that ends by itself, and one that is canceled.
fn scenario() -> Script {
    Script::quiet(2, 2, seconds(4))
        .job(seconds(6), &[0, 1], seconds(60))
        .job(seconds(14), &[1], seconds(60))
        .then(seconds(16), Action::Cancel(1))
}

/// Calls beyond this one are of a fleet that only shows that it is alive.
fn calls_of_interest() -> Vec<(String, u64)> {
    let report = run(&scenario().until(seconds(22)), 0, Mutation::None);
    assert!(report.violations.is_empty(), "{}", report.verdict());
    report.calls.into_iter().collect()
}

#[test]
#[rule("J-20")]
#[rule("J-7")]
fn j20_a_crash_before_or_after_any_call_of_any_node_breaks_no_rule() {
    let mut points = Vec::new();
    for (node, calls) in calls_of_interest() {
        for call in 1..=calls {
            for edge in [Edge::Before, Edge::After] {
                points.push(CrashPoint { node: node.clone(), call, edge });
            }
        }
    }
    assert!(points.len() > 300, "{}", points.len());
    let mut broken = Vec::new();
    for point in points {
        let report = run(&scenario().crash_at(point.clone()), 0, Mutation::None);
        assert_eq!(report.crashes, std::slice::from_ref(&point), "the scenario does not get there");
        broken.extend(report.violations.into_iter().map(|violation| format!("{point:?}: {violation}")));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// One event whose rule sends another and starts a job; both events have a job of their own.
fn reaction(masters: usize) -> Script {
    Script::quiet(masters, 1, seconds(1)).event(seconds(6), EventPlan::new(Sender::Peel(0), "chain", "e"))
}

/// The first master is gone for a moment, or for so long that the stream has forgotten the ids of what it sent.
#[test]
#[rule("R-10")]
#[rule("R-9")]
fn r10_a_crash_of_a_reactor_before_or_after_any_call_neither_loses_nor_doubles_an_effect() {
    for (masters, away, window) in [(1, 3, 120), (1, 90, 30), (2, 90, 30)] {
        let scenario = || reaction(masters).forgetting_ids(seconds(window)).staying_away(seconds(away));
        let calls = |until: f64| {
            let report = run(&scenario().until(Duration::from_secs_f64(until)), 0, Mutation::None);
            assert!(report.violations.is_empty(), "{}", report.verdict());
            assert_eq!(report.tally.reactions, 2);
            report.calls
        };
        let (before, after) = (calls(5.9), calls(8.0));
        let mut broken = Vec::new();
        let mut points = 0;
        for (node, last) in after.iter().filter(|(node, _)| node.starts_with('m')) {
            for call in before.get(node).copied().unwrap_or(0) + 1..=*last {
                for edge in [Edge::Before, Edge::After] {
                    let point = CrashPoint { node: node.clone(), call, edge };
                    let report = run(&scenario().crash_at(point.clone()), 0, Mutation::None);
                    points += 1;
                    // An end that is told again after so long is told twice, with one id.
                    let told_again = |invariant| invariant == Invariant::OneFinalizedEvent && away > window;
                    let found = report.violations.iter().filter(|one| !told_again(one.invariant));
                    broken.extend(found.map(|violation| format!("{point:?}: {violation}")));
                }
            }
        }
        assert!(points > 50, "{points}");
        assert!(broken.is_empty(), "{masters} {away}: {}", broken.join("\n"));
    }
}
