//! One fixed scenario, and a crash before and after every single call that any node makes in it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;
use zester_rule::rule;
use zester_sim::crash::{CrashPoint, Edge};
use zester_sim::script::{Action, Script};
use zester_sim::{Mutation, run};

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
