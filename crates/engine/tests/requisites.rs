//! The requisite table of S-12, S-13 and S-41, written as data: what each kind makes of each end of its targets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may"
)]

mod world;

use world::{ERR, FAILED, NO, Script, World, YES, ids, play, skipped, spec};
use zester_engine::{Force, NodeId, NodeSpec, Outcome};
use zester_model::outcome::{Mode, SkipReason};
use zester_model::requisite::EdgeKind;
use zester_rule::rule;

/// Every way a target can end and still have a dependent that is judged by it. (After a failhard abort or a
/// cancellation nothing is judged any more.)
const ENDS: [Outcome; 8] = [
    Outcome::Unchanged,
    Outcome::Changed,
    Outcome::GuardUnmet,
    FAILED,
    Outcome::Skipped(SkipReason::RequireFailed),
    Outcome::Skipped(SkipReason::OnchangesNotMet),
    Outcome::Skipped(SkipReason::OnfailNotMet),
    Outcome::Skipped(SkipReason::PrereqNotMet),
];

/// Adds a node that ends so, with what it needs for that, and gives its index.
fn add_ending(nodes: &mut Vec<(NodeSpec, Script)>, end: Outcome) -> usize {
    let name = |nodes: &Vec<_>| format!("n{}", nodes.len());
    let mut helper = |check| {
        nodes.push((spec(&name(nodes)), Script::new(check, YES)));
        nodes.len() - 1
    };
    let (mut made, mut script) = (spec("x"), Script::new(YES, YES));
    match end {
        Outcome::Unchanged => script = Script::new(NO, YES),
        Outcome::Changed => {}
        Outcome::GuardUnmet => {
            made.guarded = true;
            script.guard = vec![NO];
        }
        FAILED => script = Script::new(ERR, YES),
        Outcome::Skipped(SkipReason::RequireFailed) => made.edges = vec![(helper(ERR), EdgeKind::Require)],
        Outcome::Skipped(SkipReason::OnchangesNotMet) => made.edges = vec![(helper(NO), EdgeKind::Onchanges)],
        Outcome::Skipped(SkipReason::OnfailNotMet) => made.edges = vec![(helper(NO), EdgeKind::Onfail)],
        Outcome::Skipped(SkipReason::PrereqNotMet) => {
            made.prereq = vec![helper(NO)];
        }
        other => panic!("{other:?} has no dependents"),
    }
    made.name = spec(&name(nodes)).name;
    nodes.push((made, script));
    nodes.len() - 1
}

/// What the dependent does: `run`, `force`, or the short name of a skip reason.
fn observed(world: &World, node: usize) -> &'static str {
    let id = NodeId(node as u32);
    match (world.outcome(node), world.trace.forced(id)) {
        (Outcome::Changed, Some(Some(Force::Watch { .. }))) => "force",
        (Outcome::Changed, Some(None)) => "run",
        (Outcome::Skipped(SkipReason::RequireFailed), None) => "rf",
        (Outcome::Skipped(SkipReason::OnchangesNotMet), None) => "onc",
        (Outcome::Skipped(SkipReason::OnfailNotMet), None) => "onf",
        other => panic!("{other:?}"),
    }
}

fn observe(kind: EdgeKind, ends: &[Outcome], mode: Mode) -> &'static str {
    let mut nodes = Vec::new();
    let mut dependent = spec("zz");
    for end in ends {
        let target = add_ending(&mut nodes, *end);
        dependent.edges.push((target, kind));
    }
    let targets: Vec<usize> = dependent.edges.iter().map(|(target, _)| *target).collect();
    nodes.push((dependent, Script::new(YES, YES)));
    let last = nodes.len() - 1;
    let world = play(nodes, mode);
    for (target, end) in targets.iter().zip(ends) {
        assert_eq!(world.outcome(*target), *end, "the target itself");
    }
    observed(&world, last)
}

#[test]
#[rustfmt::skip]
#[rule("S-13")]
fn s13_every_kind_against_every_end_of_one_target() {
    // columns: unchanged, changed, guard unmet, failed, require_failed, onchanges_not_met, onfail_not_met, prereq_not_met
    let table: [(EdgeKind, [&str; 8]); 10] = [
        (EdgeKind::Require,      ["run", "run",   "run", "rf",  "rf",  "run", "run", "run"]),
        (EdgeKind::Watch,        ["run", "force", "run", "rf",  "rf",  "run", "run", "run"]),
        (EdgeKind::Onchanges,    ["onc", "run",   "onc", "rf",  "rf",  "onc", "onc", "onc"]),
        (EdgeKind::Onfail,       ["onf", "onf",   "onf", "run", "onf", "onf", "onf", "onf"]),
        (EdgeKind::Order,        ["run", "run",   "run", "run", "run", "run", "run", "run"]),
        (EdgeKind::RequireAny,   ["run", "run",   "run", "rf",  "rf",  "run", "run", "run"]),
        (EdgeKind::WatchAny,     ["run", "force", "run", "rf",  "rf",  "run", "run", "run"]),
        (EdgeKind::OnchangesAny, ["onc", "run",   "onc", "rf",  "rf",  "onc", "onc", "onc"]),
        (EdgeKind::OnfailAny,    ["onf", "onf",   "onf", "run", "onf", "onf", "onf", "onf"]),
        (EdgeKind::OnfailAll,    ["onf", "onf",   "onf", "run", "onf", "onf", "onf", "onf"]),
    ];
    for (kind, expected) in table {
        for (end, expected) in ENDS.into_iter().zip(expected) {
            for mode in [Mode::Apply, Mode::Check] {
                assert_eq!(observe(kind, &[end], mode), expected, "{kind} on {end:?} in {mode:?}");
            }
        }
    }
}

#[test]
#[rustfmt::skip]
#[rule("S-41")]
fn s41_every_kind_against_every_pair_of_ends() {
    // u: unchanged, c: changed, f: failed, b: skipped because of a failure (blocks, but has not failed)
    const U: Outcome = Outcome::Unchanged;
    const C: Outcome = Outcome::Changed;
    const F: Outcome = FAILED;
    const B: Outcome = Outcome::Skipped(SkipReason::RequireFailed);
    let pairs = [(U, U), (U, C), (U, F), (U, B), (C, C), (C, F), (C, B), (F, F), (F, B), (B, B)];
    let table: [(EdgeKind, [&str; 10]); 10] = [
        //                         uu     uc       uf     ub     cc       cf       cb       ff     fb     bb
        (EdgeKind::Require,      ["run", "run",   "rf",  "rf",  "run",   "rf",    "rf",    "rf",  "rf",  "rf"]),
        (EdgeKind::Watch,        ["run", "force", "rf",  "rf",  "force", "rf",    "rf",    "rf",  "rf",  "rf"]),
        (EdgeKind::Onchanges,    ["onc", "run",   "rf",  "rf",  "run",   "rf",    "rf",    "rf",  "rf",  "rf"]),
        (EdgeKind::Onfail,       ["onf", "onf",   "run", "onf", "onf",   "run",   "onf",   "run", "run", "onf"]),
        (EdgeKind::Order,        ["run", "run",   "run", "run", "run",   "run",   "run",   "run", "run", "run"]),
        (EdgeKind::RequireAny,   ["run", "run",   "run", "run", "run",   "run",   "run",   "rf",  "rf",  "rf"]),
        (EdgeKind::WatchAny,     ["run", "force", "run", "run", "force", "force", "force", "rf",  "rf",  "rf"]),
        (EdgeKind::OnchangesAny, ["onc", "run",   "onc", "onc", "run",   "run",   "run",   "rf",  "rf",  "rf"]),
        (EdgeKind::OnfailAny,    ["onf", "onf",   "run", "onf", "onf",   "run",   "onf",   "run", "run", "onf"]),
        (EdgeKind::OnfailAll,    ["onf", "onf",   "onf", "onf", "onf",   "onf",   "onf",   "run", "onf", "onf"]),
    ];
    for (kind, expected) in table {
        for ((left, right), expected) in pairs.into_iter().zip(expected) {
            for mode in [Mode::Apply, Mode::Check] {
                assert_eq!(observe(kind, &[left, right], mode), expected, "{kind} on {left:?}, {right:?}");
                assert_eq!(observe(kind, &[right, left], mode), expected, "{kind} on {right:?}, {left:?}");
            }
        }
    }
}

/// The nodes 0 unchanged, 1 changed, 2 failed, and a dependent with these requisites.
fn among_three(edges: &[(usize, EdgeKind)], prereq: Option<bool>) -> World {
    let mut nodes = vec![
        (spec("a"), Script::new(NO, YES)),
        (spec("b"), Script::new(YES, YES)),
        (spec("c"), Script::new(ERR, YES)),
    ];
    let mut dependent = spec("d");
    dependent.edges = edges.to_vec();
    if prereq.is_some() {
        dependent.prereq = vec![4];
    }
    nodes.push((dependent, Script::new(YES, YES)));
    nodes.push((spec("gate"), Script { probe: prereq == Some(true), ..Script::new(NO, YES) }));
    nodes[4].0.edges.push((3, EdgeKind::Order));
    play(nodes, Mode::Apply)
}

#[test]
#[rule("S-12")]
fn s12_the_first_requisite_that_says_skip_gives_the_reason_and_the_targets() {
    use EdgeKind::{Onchanges, OnchangesAny, Onfail, OnfailAll, Require, RequireAny, Watch};
    use SkipReason::{OnchangesNotMet, OnfailNotMet, PrereqNotMet, RequireFailed};
    type Row<'a> = (&'a [(usize, EdgeKind)], Option<bool>, SkipReason, &'a [u32]);
    let rows: [Row<'_>; 9] = [
        (&[(0, Onfail), (0, Onchanges), (2, Require)], Some(false), RequireFailed, &[2]),
        (&[(0, Onfail), (0, Onchanges), (2, Watch)], Some(false), RequireFailed, &[2]),
        (&[(0, Onfail), (0, Onchanges), (2, RequireAny)], None, RequireFailed, &[2]),
        (&[(0, Onchanges), (1, Onchanges), (2, Onchanges)], None, RequireFailed, &[2]),
        (&[(0, Onfail), (0, Onchanges), (1, Require)], Some(false), OnchangesNotMet, &[0]),
        (&[(0, OnchangesAny), (2, OnchangesAny), (1, Onchanges)], None, OnchangesNotMet, &[0, 2]),
        (&[(0, Onfail), (1, Onfail), (1, Onchanges)], Some(false), OnfailNotMet, &[0, 1]),
        (&[(0, OnfailAll), (2, OnfailAll)], None, OnfailNotMet, &[0]),
        (&[(2, Onfail), (1, Onchanges), (0, Require)], Some(false), PrereqNotMet, &[4]),
    ];
    for (edges, prereq, reason, because) in rows {
        let world = among_three(edges, prereq);
        assert_eq!(world.outcome(3), skipped(reason), "{edges:?}");
        assert_eq!(world.trace.because(NodeId(3)), ids(because), "{edges:?}");
    }
}

#[test]
#[rule("S-12")]
fn s12_all_requisites_met_lets_the_state_run() {
    use EdgeKind::{Onchanges, Onfail, Order, Require, RequireAny, Watch};
    let edges =
        [(0, Require), (1, Watch), (1, Onchanges), (2, Onfail), (2, Order), (2, RequireAny), (0, RequireAny)];
    let world = among_three(&edges, Some(true));
    assert_eq!(world.outcome(3), Outcome::Changed);
}

#[test]
#[rule("S-14")]
fn s14_a_watched_change_wins_over_a_pending_refresh_and_that_over_a_prereq() {
    let rows: [(bool, bool, Option<Force>); 4] = [
        (true, true, Some(Force::Watch { changed: ids(&[0]) })),
        (false, true, Some(Force::PendingRefresh)),
        (false, false, Some(Force::Prereq { target: NodeId(2) })),
        (true, false, Some(Force::Watch { changed: ids(&[0]) })),
    ];
    for (watched_changes, refresh_pending, expected) in rows {
        let mut dependent = spec("w");
        dependent.edges = vec![(0, EdgeKind::Watch), (0, EdgeKind::WatchAny)];
        dependent.prereq = vec![2];
        dependent.refresh_pending = refresh_pending;
        let mut gate = spec("gate");
        gate.edges = vec![(1, EdgeKind::Require)];
        let would_change = Script { probe: true, ..Script::new(YES, YES) };
        let check = if watched_changes { YES } else { NO };
        let nodes = vec![
            (spec("a"), Script::new(check, YES)),
            (dependent, Script::new(YES, YES)),
            (gate, would_change),
        ];
        let world = play(nodes, Mode::Apply);
        assert_eq!(world.trace.forced(NodeId(1)), Some(expected));
    }
}
