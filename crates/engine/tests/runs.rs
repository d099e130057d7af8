//! Whole runs: modes, guards, gates, retries, failhard, cancellation, pending refreshes, concurrency.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may"
)]

mod world;

use std::time::Duration;
use world::{ERR, FAILED, HURT, INTERRUPTED, NO, Rng, Script, World, YES, ids, play, skipped, spec};
use zester_engine::{Command, Edge, Event, Force, NodeId, NodeSpec, Outcome};
use zester_model::outcome::{Mode, SkipReason};
use zester_model::program::Retry;
use zester_model::requisite::EdgeKind;
use zester_rule::rule;

fn retry(attempts: u32) -> Option<Retry> {
    Some(Retry { attempts, interval: Duration::from_secs(10) })
}

fn with(name: &str, change: impl FnOnce(&mut NodeSpec)) -> NodeSpec {
    let mut made = spec(name);
    change(&mut made);
    made
}

fn requiring(name: &str, target: usize) -> NodeSpec {
    with(name, |spec| spec.edges = vec![(target, EdgeKind::Require)])
}

/// Which targets the gates asked.
fn probed(world: &World) -> Vec<NodeId> {
    let targets = world.trace.commands.iter().filter_map(|command| match command {
        Command::Probe { target, .. } => Some(*target),
        _ => None,
    });
    targets.collect()
}

fn one(spec: NodeSpec, script: Script, mode: Mode) -> World {
    play(vec![(spec, script)], mode)
}

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

#[test]
#[rule("S-27")]
fn s27_apply_checks_and_applies_only_what_would_change() {
    let world = one(spec("a"), Script::new(YES, YES), Mode::Apply);
    let expected = [
        Command::Level(0),
        Command::Check { node: A, forced: None },
        Command::Apply { node: A, forced: None },
        Command::Done { node: A, outcome: Outcome::Changed },
        Command::Finish,
    ];
    assert_eq!(world.trace.commands, expected);
    assert_eq!(one(spec("a"), Script::new(NO, YES), Mode::Apply).outcome(0), Outcome::Unchanged);
    assert_eq!(one(spec("a"), Script::new(YES, NO), Mode::Apply).outcome(0), Outcome::Unchanged);
    assert_eq!(one(spec("a"), Script::new(YES, ERR), Mode::Apply).outcome(0), FAILED);
}

#[test]
#[rule("S-27")]
fn s27_check_never_applies() {
    let world = one(spec("a"), Script::new(YES, ERR), Mode::Check);
    assert_eq!(world.outcome(0), Outcome::Changed);
    assert!(!world.trace.commands.iter().any(|command| matches!(command, Command::Apply { .. })));
}

#[test]
#[rule("S-27")]
fn s27_no_states_finish_at_once() {
    assert_eq!(play(Vec::new(), Mode::Apply).trace.commands, [Command::Finish]);
}

#[test]
#[rule("S-16")]
fn s16_an_unmet_guard_ends_a_state_before_its_check_in_apply_and_check() {
    for mode in [Mode::Apply, Mode::Check] {
        let mut script = Script::new(YES, YES);
        script.guard = vec![NO];
        let world = one(with("a", |spec| spec.guarded = true), script, mode);
        assert_eq!((world.outcome(0), world.trace.forced(A)), (Outcome::GuardUnmet, None));
    }
}

#[test]
#[rule("S-16")]
fn s16_a_guard_that_cannot_be_run_fails_the_state_and_is_asked_again_on_retry() {
    let guarded = with("a", |spec| {
        spec.guarded = true;
        spec.retry = retry(1);
    });
    let mut script = Script::new(YES, YES);
    script.guard = vec![ERR, YES];
    let world = one(guarded.clone(), script.clone(), Mode::Apply);
    assert_eq!((world.outcome(0), world.run.attempts(A)), (Outcome::Changed, 2));
    assert_eq!(one(guarded, script, Mode::Check).outcome(0), FAILED);
}

#[test]
#[rule("S-15")]
fn s15_the_gate_asks_one_target_after_the_other_until_one_would_change() {
    let gated = with("a", |spec| spec.prereq = vec![1, 2, 3]);
    let target = |(name, probe)| (requiring(name, 0), Script { probe, ..Script::new(NO, YES) });
    let mut nodes = vec![(gated, Script::new(YES, YES))];
    nodes.extend([("b", false), ("c", true), ("d", true)].map(target));
    let world = play(nodes.clone(), Mode::Check);
    assert_eq!(probed(&world), ids(&[1, 2]));
    assert_eq!(world.outcome(0), Outcome::Changed);
    nodes.iter_mut().for_each(|(_, script)| script.probe = false);
    let world = play(nodes, Mode::Apply);
    assert_eq!(probed(&world), ids(&[1, 2, 3]));
    assert_eq!(world.outcome(0), skipped(SkipReason::PrereqNotMet));
    assert_eq!(world.outcome(1), Outcome::Unchanged, "an unmet gate does not block its target");
}

#[test]
#[rule("S-15")]
fn s15_a_target_that_cannot_run_opens_no_gate_and_is_not_asked() {
    // 0 decides; 1 is before 2, which also has a requisite on 0.
    for (kind, check, opens) in [
        (EdgeKind::Require, ERR, false),
        (EdgeKind::Require, YES, true),
        (EdgeKind::RequireAny, ERR, false),
        (EdgeKind::Onchanges, NO, false),
        (EdgeKind::Onchanges, YES, true),
        (EdgeKind::Onfail, YES, false),
        (EdgeKind::OnfailAll, ERR, true),
        (EdgeKind::Order, ERR, true),
    ] {
        let target = with("target", |spec| spec.edges = vec![(0, kind), (1, EdgeKind::Require)]);
        let nodes = vec![
            (spec("decides"), Script::new(check, YES)),
            (with("before", |spec| spec.prereq = vec![2]), Script::new(YES, YES)),
            (target, Script { probe: true, ..Script::new(YES, YES) }),
        ];
        let world = play(nodes, Mode::Apply);
        let expected = if opens { Outcome::Changed } else { skipped(SkipReason::PrereqNotMet) };
        assert_eq!(world.outcome(1), expected, "{kind} on a target that checks {check:?}");
        assert_eq!(probed(&world).len(), usize::from(opens));
    }
}

#[test]
#[rule("S-15")]
fn s15_the_gate_waits_for_what_its_target_waits_for_where_that_is_no_cycle() {
    // 3 is the target: it requires 1, which requires 0, and 4, which itself waits for the gated 2.
    let target = with("target", |spec| {
        spec.edges = vec![(1, EdgeKind::Require), (2, EdgeKind::Require), (4, EdgeKind::Require)];
    });
    let nodes = vec![
        (spec("a"), Script::new(YES, YES)),
        (requiring("b", 0), Script::new(YES, YES)),
        (with("before", |spec| spec.prereq = vec![3]), Script::new(YES, YES)),
        (target, Script { probe: true, ..Script::new(YES, YES) }),
        (requiring("after", 2), Script::new(YES, YES)),
    ];
    let world = play(nodes, Mode::Apply);
    let graph = world.run.graph();
    assert_eq!(graph.needs(NodeId(2)), [Edge { node: B, kind: EdgeKind::Order }]);
    assert_eq!([0, 1, 2, 4, 3].map(|node| graph.level_of(NodeId(node))), [0, 1, 2, 3, 4]);
    assert_eq!(world.outcome(2), Outcome::Changed);
}

#[test]
#[rule("S-15")]
fn s15_a_chain_of_prereqs_is_asked_from_its_end() {
    // 0 before 1 before 2.
    let chain = |last: bool, middle: bool| {
        vec![
            (with("a", |spec| spec.prereq = vec![1]), Script::new(YES, YES)),
            (
                with("b", |spec| (spec.prereq, spec.edges) = (vec![2], vec![(0, EdgeKind::Require)])),
                Script { probe: middle, ..Script::new(YES, YES) },
            ),
            (requiring("c", 1), Script { probe: last, ..Script::new(YES, YES) }),
        ]
    };
    let shut = skipped(SkipReason::PrereqNotMet);
    let world = play(chain(false, true), Mode::Apply);
    assert_eq!((world.outcome(0), world.outcome(1)), (shut, shut));
    assert_eq!(probed(&world), ids(&[2, 2]), "nobody but the end needs to be asked");
    let world = play(chain(true, true), Mode::Apply);
    assert_eq!((world.outcome(0), world.outcome(1)), (Outcome::Changed, Outcome::Changed));
    let asked = world.trace.commands.iter().find_map(|command| match command {
        Command::Probe { target: B, forced, .. } => Some(forced.clone()),
        _ => None,
    });
    assert_eq!(asked, Some(Some(Force::Prereq { target: NodeId(2) })), "asked as it will be run");
    let world = play(chain(true, false), Mode::Apply);
    assert_eq!((world.outcome(0), world.outcome(1)), (shut, Outcome::Changed));
}

#[test]
#[rule("S-18")]
fn s18_only_the_last_try_counts_and_guards_are_asked_once() {
    let flaky = with("a", |spec| {
        spec.retry = retry(4);
        spec.guarded = true;
    });
    let mut script = Script::new(YES, ERR);
    script.apply = vec![ERR, ERR, YES];
    let world = one(flaky, script, Mode::Apply);
    assert_eq!((world.outcome(0), world.run.attempts(A)), (Outcome::Changed, 3));
    let count = |test: fn(&Command) -> bool| world.trace.commands.iter().filter(|c| test(c)).count();
    assert_eq!(count(|command| matches!(command, Command::Guard(_))), 1);
    assert_eq!(count(|command| matches!(command, Command::Check { .. })), 3);
    let wait = Command::Wait { node: A, attempt: 2, interval: Duration::from_secs(10) };
    assert!(world.trace.commands.contains(&wait));
}

#[test]
#[rule("S-18")]
fn s18_n_more_tries_and_then_it_has_failed_but_none_in_check() {
    let hopeless = with("a", |spec| spec.retry = retry(2));
    let world = one(hopeless.clone(), Script::new(ERR, YES), Mode::Apply);
    assert_eq!((world.outcome(0), world.run.attempts(A)), (FAILED, 3));
    let world = one(hopeless.clone(), Script::new(ERR, YES), Mode::Check);
    assert_eq!((world.outcome(0), world.run.attempts(A)), (FAILED, 1));
    let mut script = Script::new(YES, YES);
    script.revert = vec![ERR, YES];
    let world = one(hopeless, script, Mode::Revert);
    assert_eq!((world.outcome(0), world.run.attempts(A)), (Outcome::Changed, 2));
}

#[test]
#[rule("S-19")]
fn s19_failhard_lets_its_level_finish_and_skips_later_ones() {
    let nodes = vec![
        (with("boom", |spec| spec.failhard = true), Script::new(ERR, YES)),
        (spec("same"), Script::new(YES, YES)),
        (requiring("next", 1), Script::new(YES, YES)),
        (requiring("third", 2), Script::new(YES, YES)),
    ];
    let (specs, scripts) = nodes.into_iter().unzip();
    // One at a time: "same" has not even begun when "boom" fails.
    let mut world = World::new(specs, scripts, Mode::Apply, 1);
    world.play(&mut Rng::new(1));
    let abort = skipped(SkipReason::FailhardAbort);
    assert_eq!(world.outcomes(), [FAILED, Outcome::Changed, abort, abort]);
    assert_eq!(world.trace.because(NodeId(3)), ids(&[0]));
}

#[test]
#[rule("S-19")]
fn s19_of_two_failhard_failures_the_same_is_named_whoever_ends_first() {
    for order in [[0, 1], [1, 0]] {
        let hard = |name| with(name, |spec| spec.failhard = true);
        let specs = vec![hard("a"), hard("b"), requiring("later", 0)];
        let mut world = World::new(specs, vec![Script::new(ERR, YES); 3], Mode::Check, 5);
        world.send(Event::Start);
        for node in order {
            world.send(Event::Checked { node: NodeId(node), result: ERR });
        }
        assert_eq!(world.trace.because(NodeId(2)), ids(&[0]));
    }
}

#[test]
#[rule("S-31")]
fn s31_revert_goes_backwards_and_keeps_what_a_failed_one_stands_on() {
    // 0 <- 1 <- 2 by require and onfail; 3 -> 2 only by order; 4 alone.
    let nodes = vec![
        (spec("a"), Script::new(YES, YES)),
        (requiring("b", 0), Script::new(YES, YES)),
        (with("c", |spec| spec.edges = vec![(1, EdgeKind::Onfail), (3, EdgeKind::Order)]), {
            let mut script = Script::new(YES, YES);
            script.revert = vec![ERR];
            script
        }),
        (with("d", |spec| spec.guarded = true), Script::new(YES, YES)),
        (spec("e"), Script::new(YES, YES)),
    ];
    let world = play(nodes, Mode::Revert);
    let kept = skipped(SkipReason::RequireFailed);
    assert_eq!(world.outcomes(), [kept, kept, FAILED, Outcome::Changed, Outcome::Changed]);
    assert_eq!((world.trace.because(A), world.trace.because(B)), (ids(&[1]), ids(&[2])));
    let levels = world.trace.commands.iter().filter_map(|command| match command {
        Command::Level(level) => Some(*level),
        _ => None,
    });
    assert_eq!(levels.collect::<Vec<_>>(), [2, 1, 0]);
}

/// Three in flight at different steps, one waiting, one not begun, one later; then the run is canceled.
fn canceled_world() -> World {
    let nodes = vec![
        (spec("a_applying"), Script::new(YES, YES)),
        (spec("b_checking"), Script::new(YES, YES)),
        (with("c_guarding", |spec| spec.guarded = true), Script::new(YES, YES)),
        (with("d_waiting", |spec| spec.retry = retry(5)), Script::new(ERR, YES)),
        (with("e_probing", |spec| spec.prereq = vec![6]), Script::new(YES, YES)),
        (spec("f_not_begun"), Script::new(YES, YES)),
        (requiring("g_later", 4), Script::new(YES, YES)),
    ];
    let (specs, scripts) = nodes.into_iter().unzip();
    let mut world = World::new(specs, scripts, Mode::Apply, 5);
    world.send(Event::Start);
    world.send(Event::Checked { node: NodeId(0), result: YES });
    world.send(Event::Checked { node: NodeId(3), result: ERR });
    world.send(Event::Cancel);
    world
}

#[test]
#[rule("S-32")]
fn s32_cancel_ends_waits_at_once_skips_the_rest_and_awaits_what_runs() {
    let mut world = canceled_world();
    assert_eq!(world.outcome(3), INTERRUPTED);
    assert_eq!(world.outcome(5), skipped(SkipReason::Canceled));
    assert!(!world.run.is_finished());
    assert_eq!(world.run.step(Event::Waited { node: NodeId(3) }), Ok(vec![]), "a timer that rang too late");
    assert_eq!(world.run.step(Event::Cancel), Ok(vec![]), "told twice");
    world.send(Event::Applied { node: NodeId(0), result: YES });
    world.send(Event::Checked { node: NodeId(1), result: YES });
    world.send(Event::Guarded { node: NodeId(2), result: YES });
    assert!(!world.run.is_finished());
    world.send(Event::Probed { node: NodeId(4), target: NodeId(6), would_change: true });
    assert!(world.run.is_finished() && world.run.is_canceled());
    let (canceled, interrupted) = (skipped(SkipReason::Canceled), INTERRUPTED);
    assert_eq!(
        world.outcomes(),
        [Outcome::Changed, interrupted, interrupted, interrupted, canceled, canceled, canceled]
    );
}

#[test]
#[rule("S-32")]
fn s32_what_runs_and_fails_after_cancel_is_not_tried_again() {
    let nodes = vec![(with("a", |spec| spec.retry = retry(5)), Script::new(YES, ERR))];
    let (specs, scripts) = nodes.into_iter().unzip();
    let mut world = World::new(specs, scripts, Mode::Apply, 5);
    world.send(Event::Start);
    world.send(Event::Cancel);
    world.send(Event::Checked { node: A, result: ERR });
    assert_eq!((world.outcome(0), world.run.is_finished()), (FAILED, true));
}

#[test]
#[rule("S-32")]
fn s32_a_run_canceled_before_it_starts_skips_everything() {
    let mut world = World::new(vec![spec("a")], vec![Script::new(YES, YES)], Mode::Apply, 5);
    world.send(Event::Cancel);
    world.send(Event::Start);
    assert_eq!((world.outcome(0), world.run.is_finished()), (skipped(SkipReason::Canceled), true));
}

#[test]
#[rule("S-39")]
fn s39_who_watches_a_change_and_did_not_get_to_run_has_a_pending_refresh() {
    // 0 changed, 1 failed; the watchers differ in what else they wait for.
    let watching = |name: &str, more: &[(usize, EdgeKind)]| {
        with(name, |spec| {
            spec.edges = vec![(0, EdgeKind::Watch)];
            spec.edges.extend(more);
        })
    };
    let mut unmet = Script::new(YES, YES);
    unmet.guard = vec![NO];
    let nodes = vec![
        (spec("a"), Script::new(YES, YES)),
        (spec("b"), Script::new(ERR, YES)),
        (watching("blocked", &[(1, EdgeKind::Require)]), Script::new(YES, YES)),
        (watching("failing", &[]), Script::new(YES, ERR)),
        (watching("fine", &[]), Script::new(YES, YES)),
        (with("guarded", |spec| (spec.guarded, spec.edges) = (true, vec![(0, EdgeKind::Watch)])), unmet),
        (watching("unwanted", &[(0, EdgeKind::Onfail)]), Script::new(YES, YES)),
        (
            with("old_refresh", |spec| {
                (spec.refresh_pending, spec.edges) = (true, vec![(1, EdgeKind::Require)])
            }),
            Script::new(YES, YES),
        ),
        (with("old_refresh_given", |spec| spec.refresh_pending = true), Script::new(YES, YES)),
    ];
    let world = play(nodes.clone(), Mode::Apply);
    assert_eq!(world.run.pending_refreshes(), ids(&[2, 3, 7]));
    let watchers: Vec<NodeId> = world.run.graph().watchers(A).collect();
    assert_eq!(watchers, ids(&[2, 3, 4, 5, 6]));
    for mode in [Mode::Check, Mode::Revert] {
        let pending = play(nodes.clone(), mode).run.pending_refreshes();
        assert_eq!(pending.len(), 2, "{mode:?} neither adds nor clears pending refreshes");
    }
}

#[test]
#[rule("S-39")]
fn s39_the_refresh_of_a_canceled_watcher_stays_pending() {
    let nodes = vec![
        (spec("a"), Script::new(YES, YES)),
        (with("w", |spec| spec.edges = vec![(0, EdgeKind::WatchAny)]), Script::new(YES, YES)),
    ];
    let (specs, scripts) = nodes.into_iter().unzip();
    let mut world = World::new(specs, scripts, Mode::Apply, 5);
    world.send(Event::Start);
    world.send(Event::Checked { node: A, result: YES });
    assert!(world.run.pending_refreshes().is_empty());
    world.send(Event::Cancel);
    world.send(Event::Applied { node: A, result: YES });
    assert!(world.run.is_finished());
    assert_eq!(world.run.pending_refreshes(), ids(&[1]));
}

#[test]
#[rule("S-43")]
fn s43_who_watches_a_failure_that_touched_something_has_a_pending_refresh() {
    let watcher = || with("w", |spec| spec.edges = vec![(0, EdgeKind::Watch)]);
    for (reply, pending) in [(HURT, ids(&[1])), (ERR, vec![])] {
        let nodes = vec![(spec("a"), Script::new(YES, reply)), (watcher(), Script::new(YES, YES))];
        let world = play(nodes, Mode::Apply);
        let blocked = skipped(SkipReason::RequireFailed);
        assert_eq!((world.outcome(0).failed(), world.outcome(1)), (true, blocked));
        assert_eq!(world.run.pending_refreshes(), pending);
    }
}

#[test]
#[rule("S-43")]
fn s43_a_watcher_that_may_run_all_the_same_is_forced_by_it() {
    let either = with("w", |spec| spec.edges = vec![(0, EdgeKind::WatchAny), (1, EdgeKind::WatchAny)]);
    let nodes = vec![
        (spec("a"), Script::new(YES, HURT)),
        (spec("b"), Script::new(NO, YES)),
        (either, Script::new(YES, YES)),
    ];
    let world = play(nodes, Mode::Apply);
    assert_eq!(world.trace.forced(NodeId(2)), Some(Some(Force::Watch { changed: vec![A] })));
}

#[test]
#[rule("S-43")]
fn s43_a_try_that_finds_done_what_a_failed_one_did_is_a_change() {
    let retried = || with("a", |spec| spec.retry = retry(3));
    let mut script = Script::new(YES, HURT);
    script.check = vec![YES, NO];
    assert_eq!(one(retried(), script.clone(), Mode::Apply).outcome(0), Outcome::Changed);
    script.apply = vec![ERR];
    assert_eq!(one(retried(), script.clone(), Mode::Apply).outcome(0), Outcome::Unchanged);
    script.check = vec![YES, ERR];
    script.apply = vec![HURT, ERR];
    assert_eq!(one(retried(), script, Mode::Apply).outcome(0), Outcome::Failed { touched: true });
}

#[test]
#[rule("S-43")]
fn s43_a_wait_that_is_canceled_remembers_what_its_tries_touched() {
    let specs = vec![
        with("a", |spec| spec.retry = retry(3)),
        with("w", |spec| spec.edges = vec![(0, EdgeKind::Watch)]),
    ];
    let mut world = World::new(specs, vec![Script::new(YES, HURT); 2], Mode::Apply, 5);
    world.send(Event::Start);
    world.send(Event::Checked { node: A, result: YES });
    world.send(Event::Applied { node: A, result: HURT });
    world.send(Event::Cancel);
    assert_eq!(world.outcome(0), Outcome::Interrupted { touched: true });
    assert_eq!(world.run.pending_refreshes(), ids(&[1]));
}

#[test]
#[rule("S-35")]
fn s35_an_event_that_does_not_fit_is_an_error_that_says_both_and_changes_nothing() {
    let gated = with("a", |spec| spec.prereq = vec![1]);
    let specs = vec![gated, requiring("b", 0)];
    let mut world = World::new(specs, vec![Script::new(YES, YES); 2], Mode::Apply, 5);
    let early = world.run.step(Event::Checked { node: A, result: YES }).unwrap_err();
    assert_eq!(early.to_string(), "event checked while state #0 is pending");
    world.send(Event::Start);
    let before = format!("{:?}", world.run);
    let refused = [
        (Event::Start, "event start while the run is running"),
        (Event::Applied { node: A, result: YES }, "event applied while state #0 is probing"),
        (Event::Probed { node: A, target: A, would_change: true }, "event probed while state #0 is probing"),
        (Event::Reverted { node: B, result: YES }, "event reverted while state #1 is pending"),
        (Event::Waited { node: NodeId(9) }, "event waited while state #9 is unknown"),
    ];
    for (event, expected) in refused {
        assert_eq!(world.run.step(event).unwrap_err().to_string(), expected);
    }
    assert_eq!(format!("{:?}", world.run), before);
}

#[test]
#[rule("S-28")]
fn s28_a_wide_level_is_launched_in_order_and_bounded() {
    let count = 20_000;
    let specs: Vec<NodeSpec> = (0..count).map(|node| spec(&format!("s{node:06}"))).collect();
    let mut world = World::new(specs, vec![Script::new(YES, YES); count], Mode::Apply, 64);
    world.play(&mut Rng::new(7));
    assert_eq!(world.trace.in_flight_max, 64);
    let launched = world.trace.commands.iter().filter_map(|command| match command {
        Command::Check { node, .. } => Some(node.0),
        _ => None,
    });
    assert!(launched.eq(0..count as u32));
}
