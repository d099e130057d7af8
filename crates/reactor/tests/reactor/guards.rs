//! Throttle and breaker over whole reactions: what counts, what does not, and a clock that is set back.

use super::double::{NOW, event, passed, rules};
use super::reactions::{World, done, one, ping};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use zester_reactor::limits::TRIES_IN_PLACE;
use zester_reactor::{Decided, Decision, Executed, Guards, Passed, RuleSet, Settled};
use zester_rule::rule;

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn resting(rest: Duration) -> World {
    World::new(Guards { default_throttle: rest, ..Guards::default() })
}

fn away(_: &str, _: &str) -> Executed {
    Executed::Transient("the store is away".into())
}

/// One event of `web-1`, and what the first note says of it.
fn fire(world: &mut World, set: &Arc<RuleSet>, sequence: u64) -> Decision {
    let mut reaction = world.reaction(set, &passed(event("e", "x", json!({})), sequence));
    world.pass(&mut reaction, done).0[0].decision
}

fn fires(world: &World) -> usize {
    world.state.breakers.fires("reactor.a", world.now)
}

#[test]
#[rule("R-10", "R-12")]
fn r10_a_failure_for_the_moment_starts_no_rest_and_counts_for_no_breaker() {
    let mut world = resting(seconds(60));
    let set = one(json!({"one": {"dispatch.module": ping()}, "two": {"dispatch.module": ping()}}));
    let first = passed(event("e1", "x", json!({})), 1);
    let mut reaction = world.reaction(&set, &first);
    // One block is done, the other fails: the rule has not completed.
    let fail_two =
        |rule: &str, block: &str| if block == "two" { away(rule, block) } else { done(rule, block) };
    let (_, settled, _) = world.pass(&mut reaction, fail_two);
    assert_eq!(settled, Settled::Again(seconds(10)));
    assert_eq!(fires(&world), 0, "nothing has completed");
    assert_eq!(fire(&mut world, &set, 2), Decision::Dispatched, "another event of that source still fires");
    assert_eq!(fires(&world), 1);
    assert_eq!(fire(&mut world, &set, 3), Decision::Throttled, "and that one starts the rest");
}

#[test]
#[rule("R-1", "R-12")]
fn r12_what_is_given_up_counts_once() {
    let mut world = resting(seconds(60));
    let set = one(json!({"b": {"dispatch.module": ping()}}));
    let last = Passed { deliveries: 5, ..(*passed(event("e1", "x", json!({})), 1)).clone() };
    let mut reaction = world.reaction(&set, &Arc::new(last));
    for _ in 1..TRIES_IN_PLACE {
        assert_eq!(world.pass(&mut reaction, away).1, Settled::InPlace(seconds(10)));
        assert_eq!(fires(&world), 0);
    }
    assert_eq!(world.pass(&mut reaction, away).1, Settled::Done);
    assert_eq!(fires(&world), 1, "it failed for good");
    assert_eq!(fire(&mut world, &set, 2), Decision::Throttled);
}

#[test]
#[rule("R-12")]
fn r12_the_default_throttle_is_of_rules_that_say_nothing() {
    let file = || json!({"b": {"log": "x"}});
    let said = |throttle: Value| {
        rules(&[("top.zy", json!([{"*": {"react": ["reactor.a"], "throttle": throttle}}])), ("a.zy", file())])
    };
    for (set, rest) in [(one(file()), 60), (said(json!("5s")), 5), (said(json!(0)), 0)] {
        let mut world = resting(seconds(60));
        assert_eq!(fire(&mut world, &set, 1), Decision::Dispatched);
        if rest > 0 {
            world.now = NOW.plus(seconds(rest) - Duration::from_millis(1));
            assert_eq!(fire(&mut world, &set, 2), Decision::Throttled, "{rest}");
        }
        world.now = NOW.plus(seconds(rest));
        assert_eq!(fire(&mut world, &set, 3), Decision::Dispatched, "{rest}");
    }
}

#[test]
#[rule("R-12")]
fn r12_one_block_done_anew_is_a_fire_and_blocks_found_done_are_none() {
    let set = one(json!({"one": {"dispatch.module": ping()}, "two": {"dispatch.module": ping()}}));
    for (first, second, counted) in [
        (Decision::Duplicate, Decision::Dispatched, 1),
        (Decision::Dispatched, Decision::Duplicate, 1),
        (Decision::Duplicate, Decision::Duplicate, 0),
        (Decision::Dispatched, Decision::Dispatched, 1),
        (Decision::NoTargets, Decision::Error, 1),
    ] {
        let mut world = World::new(Guards::default());
        let mut reaction = world.reaction(&set, &passed(event("e", "x", json!({})), 1));
        world.pass(&mut reaction, |rule, block| {
            let decision = if block == "one" { first } else { second };
            Executed::Done(Box::new(Decided::new(rule, block, decision, "")))
        });
        assert_eq!(fires(&world), counted, "{first:?} {second:?}");
    }
}

#[test]
#[rule("R-5", "R-12")]
fn r12_a_file_that_renders_to_nothing_uses_up_no_guard() {
    let mut world = resting(seconds(60));
    let (nothing, something) = (one(json!({})), one(json!({"b": {"log": "x"}})));
    assert_eq!(fire(&mut world, &nothing, 1), Decision::Nothing);
    assert_eq!(fires(&world), 0);
    assert_eq!(fire(&mut world, &something, 2), Decision::Dispatched, "the rule did not rest");
    assert_eq!(fires(&world), 1);
    // A file that does not render is a fire that failed for good.
    let mut world = resting(seconds(60));
    assert_eq!(fire(&mut world, &one(json!("broken")), 1), Decision::RenderError);
    assert_eq!((fires(&world), fire(&mut world, &something, 2)), (1, Decision::Throttled));
}

#[test]
#[rule("R-12")]
fn r12_what_a_guard_held_back_uses_up_no_guard() {
    let mut world = resting(seconds(30));
    let set = one(json!({"b": {"log": "x"}}));
    assert_eq!(fire(&mut world, &set, 1), Decision::Dispatched);
    for second in 1..30 {
        world.now = NOW.plus(seconds(second));
        assert_eq!(fire(&mut world, &set, second + 1), Decision::Throttled);
    }
    assert_eq!(fires(&world), 1);
    world.now = NOW.plus(seconds(30));
    assert_eq!(fire(&mut world, &set, 40), Decision::Dispatched, "the rest is counted from the fire");
}
