//! The way of one event: what is asked for, in which order, and what becomes of the event.

use super::double::{NOW, event, passed, rules};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use zester_reactor::limits::{DELIVERIES_MAX, TRIES_IN_PLACE};
use zester_reactor::{
    Command, Decided, Decision, EventContext, Executed, GuardState, Guards, Input, Passed, Reaction, RuleSet,
    Settled, dispatch_request, sent_event,
};
use zester_rule::rule;
use zester_wire::{Event, Origin, UnixMillis};

pub fn ping() -> Value {
    json!({"target": "*", "function": "test.ping"})
}

/// Two rules: `a` with two blocks that dispatch, `b` with one that sends an event.
fn two() -> Arc<RuleSet> {
    rules(&[
        ("top.zy", json!([{"*": ["reactor.a", "reactor.b"]}])),
        ("a.zy", json!({"one": {"dispatch.module": ping()}, "two": {"dispatch.module": ping()}})),
        ("b.zy", json!({"tell": {"event.send": {"tag": "next"}}})),
    ])
}

pub fn one(file: Value) -> Arc<RuleSet> {
    rules(&[("top.zy", json!([{"*": ["reactor.a"]}])), ("a.zy", file)])
}

pub struct World {
    guards: Guards,
    pub state: GuardState,
    pub now: UnixMillis,
}

impl World {
    pub fn new(guards: Guards) -> World {
        World { state: GuardState::new(&guards), guards, now: NOW }
    }

    pub fn reaction(&self, set: &Arc<RuleSet>, passed: &Arc<Passed>) -> Reaction {
        Reaction::new(passed.clone(), set.clone(), set.matching(&passed.key), &self.guards)
    }

    /// Drives a reaction until it settles. `execute` is told rule and block.
    pub fn pass(
        &mut self,
        reaction: &mut Reaction,
        mut execute: impl FnMut(&str, &str) -> Executed,
    ) -> (Vec<Decided>, Settled, Vec<Arc<str>>) {
        let (mut notes, mut opened, mut next) = (Vec::new(), Vec::new(), Some(Input::Begin));
        let mut settled = None;
        while let Some(input) = next.take() {
            for command in reaction.step(input, &mut self.state, self.now) {
                match command {
                    Command::Render { rule } => {
                        let context = EventContext::new(reaction.passed(), Value::Null);
                        next =
                            Some(Input::Rendered(reaction.rules().template(rule).unwrap().render(&context)));
                    }
                    Command::Execute { rule, block } => {
                        let rule = reaction.rules().rule(rule).unwrap().reference.to_string();
                        next = Some(Input::Executed(execute(&rule, &block.id)));
                    }
                    Command::Note(decided) => notes.push(decided),
                    Command::BreakerOpened { rule } => opened.push(rule),
                    Command::Settle(end) => settled = Some(end),
                }
            }
        }
        (notes, settled.unwrap(), opened)
    }
}

pub fn done(rule: &str, block: &str) -> Executed {
    Executed::Done(Box::new(Decided::new(rule, block, Decision::Dispatched, "")))
}

fn words(notes: &[Decided]) -> Vec<(String, String, &'static str)> {
    notes.iter().map(|one| (one.rule.clone(), one.block.clone(), one.decision.as_str())).collect()
}

fn told(rule: &str, block: &str, word: &'static str) -> (String, String, &'static str) {
    (rule.into(), block.into(), word)
}

#[test]
#[rule("R-10")]
fn r10_rules_and_blocks_run_in_order_and_then_the_event_is_done() {
    let mut world = World::new(Guards::default());
    let set = two();
    let mut reaction = world.reaction(&set, &passed(event("e1", "x", json!({})), 1));
    let (notes, settled, _) = world.pass(&mut reaction, done);
    let expected = [
        told("reactor.a", "one", "dispatched"),
        told("reactor.a", "two", "dispatched"),
        told("reactor.b", "tell", "dispatched"),
    ];
    assert_eq!(words(&notes), expected);
    assert_eq!(settled, Settled::Done);
}

#[test]
#[rule("R-10")]
fn r10_what_fails_for_the_moment_comes_again_in_ten_seconds_and_holds_up_no_other_rule() {
    let mut world = World::new(Guards { default_throttle: Duration::from_secs(60), ..Guards::default() });
    let (set, event) = (two(), passed(event("e1", "x", json!({})), 1));
    let mut reaction = world.reaction(&set, &event);
    let fail_two = |rule: &str, block: &str| match block {
        "two" => Executed::Transient("the store is away".into()),
        _ => done(rule, block),
    };
    let (notes, settled, _) = world.pass(&mut reaction, fail_two);
    let expected = [told("reactor.a", "one", "dispatched"), told("reactor.b", "tell", "dispatched")];
    assert_eq!(words(&notes), expected, "the other rule was not held up");
    assert_eq!(settled, Settled::Again(Duration::from_secs(10)));
    assert_eq!(reaction.failures().count(), 1);
    // It comes again, here: no rule is throttled by its own event.
    let again = Arc::new(Passed { deliveries: 2, ..(*event).clone() });
    let mut reaction = world.reaction(&set, &again);
    let (notes, settled, _) = world.pass(&mut reaction, done);
    assert_eq!(notes.len(), 3);
    assert!(notes.iter().all(|one| one.decision == Decision::Dispatched), "{notes:?}");
    assert_eq!(settled, Settled::Done);
}

#[test]
#[rule("R-1")]
fn r1_one_that_must_not_be_given_again_is_tried_in_place_and_reacts_once() {
    let mut world = World::new(Guards::default());
    let (set, last) = (one(json!({"b": {"dispatch.module": ping()}})), event("e1", "x", json!({})));
    for deliveries in [4, 5] {
        let of = Arc::new(Passed { deliveries, ..(*passed(last.clone(), 1)).clone() });
        let mut reaction = world.reaction(&set, &of);
        let mut tries = 0;
        let mut fail_20 = |rule: &str, block: &str| {
            tries += 1;
            if tries <= 20 { Executed::Transient("away".into()) } else { done(rule, block) }
        };
        let mut dispatched = 0;
        loop {
            let (notes, settled, _) = world.pass(&mut reaction, &mut fail_20);
            dispatched += notes.len();
            match settled {
                Settled::InPlace(pause) => assert_eq!(pause, Duration::from_secs(10)),
                Settled::Done => break,
                Settled::Again(_) => panic!("it would be given once too often"),
            }
        }
        assert_eq!((dispatched, tries), (1, 21));
    }
}

#[test]
#[rule("R-1")]
fn r1_one_that_can_never_succeed_ends_as_exhausted() {
    let mut world = World::new(Guards::default());
    let set = two();
    let of = Arc::new(Passed { deliveries: 5, ..(*passed(event("e1", "x", json!({})), 1)).clone() });
    let mut reaction = world.reaction(&set, &of);
    let mut passes = 0;
    let notes = loop {
        passes += 1;
        let fail_a = |rule: &str, block: &str| match rule {
            "reactor.a" => Executed::Transient("away".into()),
            _ => done(rule, block),
        };
        match world.pass(&mut reaction, fail_a) {
            (notes, Settled::Done, _) => break notes,
            (_, settled, _) => assert_eq!(settled, Settled::InPlace(Duration::from_secs(10))),
        }
    };
    assert_eq!(passes, TRIES_IN_PLACE);
    assert_eq!(words(&notes), [told("reactor.a", "one", "exhausted")]);
    assert!(notes[0].reason.contains("away"), "{}", notes[0].reason);
}

/// Each master that took it died: it comes again all the same, until it is certain that it is the event that kills them.
#[test]
#[rule("R-1")]
fn r1_no_number_of_dead_masters_loses_an_event_but_one_that_kills_them_all_is_told() {
    let set = two();
    for (deliveries, words_of_a) in
        [(6, "dispatched"), (DELIVERIES_MAX, "dispatched"), (DELIVERIES_MAX + 1, "exhausted")]
    {
        let mut world = World::new(Guards::default());
        let of = Arc::new(Passed { deliveries, ..(*passed(event("e1", "x", json!({})), 1)).clone() });
        let (mut reaction, mut executed) = (world.reaction(&set, &of), 0);
        let (notes, settled, _) = world.pass(&mut reaction, |rule, block| {
            executed += 1;
            done(rule, block)
        });
        assert_eq!(settled, Settled::Done, "{deliveries}");
        assert_eq!(notes.first().map(|note| note.decision.as_str()), Some(words_of_a), "{deliveries}");
        assert_eq!(executed == 0, words_of_a == "exhausted", "{deliveries}");
    }
}

/// It was handed back again and again before anything was tried: that kills nobody.
#[test]
#[rule("R-1", "R-10")]
fn r1_an_event_that_only_waited_is_tried_however_often_it_was_given() {
    let set = two();
    let mut world = World::new(Guards::default());
    let many =
        Passed { deliveries: 10 * DELIVERIES_MAX, ..(*passed(event("e1", "x", json!({})), 1)).clone() };
    let mut reaction = world.reaction(&set, &Arc::new(many.clone()));
    let (notes, ..) = world.pass(&mut reaction, done);
    assert!(notes.iter().all(|note| note.decision.as_str() == "exhausted"));
    let mut reaction = world.reaction(&set, &Arc::new(many.having_waited()));
    let (notes, settled, _) = world.pass(&mut reaction, done);
    assert_eq!(settled, Settled::Done);
    assert!(notes.iter().all(|note| note.decision.as_str() == "dispatched"), "{:?}", words(&notes));
}

#[test]
#[rule("R-5", "R-16")]
fn r5_a_file_that_does_not_render_or_validate_does_nothing() {
    let mut world = World::new(Guards::default());
    for (file, word) in [
        (json!("broken"), "render_error"),
        (json!({"good": {"log": "x"}, "bad": {"log": {"level": "x"}}}), "validate_error"),
        (json!(null), "nothing"),
        (json!({}), "nothing"),
    ] {
        let set = one(file);
        let mut reaction = world.reaction(&set, &passed(event("e1", "x", json!({})), 1));
        let (notes, settled, _) = world.pass(&mut reaction, |_, _| panic!("nothing may be executed"));
        assert_eq!(words(&notes), [told("reactor.a", "", word)]);
        assert_eq!(settled, Settled::Done);
    }
}

#[test]
#[rule("R-12")]
fn r12_the_throttle_holds_one_source_and_is_told_as_such() {
    let mut world = World::new(Guards::default());
    let set = rules(&[
        ("top.zy", json!([{"*": {"react": ["reactor.a"], "throttle": "30s"}}])),
        ("a.zy", json!({"b": {"log": "x"}})),
    ]);
    let fire = |world: &mut World, sequence| {
        let mut reaction = world.reaction(&set, &passed(event("e", "x", json!({})), sequence));
        world.pass(&mut reaction, done).0[0].decision
    };
    assert_eq!(fire(&mut world, 1), Decision::Dispatched);
    world.now = world.now.plus(Duration::from_secs(29));
    assert_eq!(fire(&mut world, 2), Decision::Throttled);
    world.now = world.now.plus(Duration::from_secs(1));
    assert_eq!(fire(&mut world, 3), Decision::Dispatched);
}

#[test]
#[rule("R-12")]
fn r12_a_loop_that_no_depth_sees_ends_in_the_breaker_and_duplicates_do_not_count() {
    let mut world = World::new(Guards::default());
    let set = one(json!({"b": {"log": "x"}}));
    let fire = |world: &mut World, sequence, decision| {
        let mut reaction = world.reaction(&set, &passed(event("e", "x", json!({})), sequence));
        let execute =
            |rule: &str, block: &str| Executed::Done(Box::new(Decided::new(rule, block, decision, "")));
        let (notes, _, opened) = world.pass(&mut reaction, execute);
        (notes[0].decision, opened.len())
    };
    for sequence in 0..200 {
        assert_eq!(fire(&mut world, sequence, Decision::Duplicate), (Decision::Duplicate, 0));
    }
    for sequence in 0..60 {
        assert_eq!(fire(&mut world, sequence, Decision::Dispatched), (Decision::Dispatched, 0));
    }
    assert_eq!(fire(&mut world, 60, Decision::Error), (Decision::Error, 1), "the 61st opens it");
    assert_eq!(fire(&mut world, 61, Decision::Dispatched), (Decision::BreakerOpen, 0));
    world.now = world.now.plus(Duration::from_secs(300));
    assert_eq!(fire(&mut world, 62, Decision::Dispatched).0, Decision::Dispatched);
}

#[test]
#[rule("R-9", "R-12")]
fn r12_a_loop_through_event_send_ends_at_the_depth_cap() {
    let set = one(json!({"tell": {"event.send": {"tag": "again", "data": {"n": 1}}}}));
    let mut world = World::new(Guards::default());
    let mut next = event("e1", "again", json!({}));
    for depth in 0..3 {
        assert_eq!(next.depth, depth);
        let of = passed(next.clone(), u64::from(depth));
        let mut reaction = world.reaction(&set, &of);
        let (notes, settled, _) = world.pass(&mut reaction, done);
        assert_eq!(settled, Settled::Done);
        match depth {
            2 => {
                assert_eq!(notes[0].decision, Decision::Refused);
                assert!(notes[0].reason.contains("3 deep, of at most 3"), "{}", notes[0].reason);
            }
            _ => assert_eq!(notes[0].decision, Decision::Dispatched),
        }
        let tag = zester_wire::Tag::parse("again").unwrap();
        let sent = sent_event(&tag, &next.data, &of, "reactor.a", "tell", NOW).unwrap();
        assert_eq!(sent.0.to_string(), "zester.event._master.reaction.again");
        assert_eq!(sent.1.origin, "reaction:reactor.a");
        next = Event { tag: next.tag, ..sent.1 };
    }
}

#[test]
#[rule("R-9")]
fn r9_without_chaining_no_event_is_sent() {
    let mut world = World::new(Guards { chaining: false, ..Guards::default() });
    let set = one(json!({"tell": {"event.send": {"tag": "next"}}}));
    let mut reaction = world.reaction(&set, &passed(event("e1", "x", json!({})), 1));
    let (notes, _, _) = world.pass(&mut reaction, |_, _| panic!("nothing may be executed"));
    assert_eq!(notes[0].decision, Decision::Refused);
    assert!(notes[0].reason.contains("chaining"));
}

#[test]
#[rule("R-7")]
fn r7_enrollment_answers_to_masters_alone() {
    let mut world = World::new(Guards::default());
    let set = one(json!({"in": {"enroll.approve": {"id": "x", "require_peel": "web-*"}}}));
    let of_peel = passed(event("e1", "x", json!({})), 1);
    let of_master = Arc::new(Passed { origin: Origin::Master, ..(*of_peel).clone() });
    let of_admin = Arc::new(Passed { origin: Origin::Admin, ..(*of_peel).clone() });
    for of in [of_peel, of_admin] {
        let mut reaction = world.reaction(&set, &of);
        let (notes, _, _) = world.pass(&mut reaction, |_, _| panic!("nothing may be executed"));
        assert_eq!(notes[0].decision, Decision::Refused);
        assert!(notes[0].reason.contains("only to events of `_master`"), "{}", notes[0].reason);
    }
    let mut reaction = world.reaction(&set, &of_master);
    reaction.step(Input::Begin, &mut world.state, NOW);
    let rendered = set.template(0).unwrap().render(&EventContext::new(&of_master, Value::Null));
    let commands = reaction.step(Input::Rendered(rendered), &mut world.state, NOW);
    assert!(matches!(commands.as_slice(), [Command::Execute { .. }]), "{commands:?}");
}

#[test]
#[rule("R-8")]
fn r8_a_job_says_what_caused_it() {
    let set = one(json!({"b": {"dispatch.module": {
        "target": "{{ data.host }}", "function": "cmd.run", "args": {"command": "{{ data.what }}"},
    }}}));
    let of = passed(Event { depth: 1, ..event("e1", "x", json!({"host": "web-1", "what": "true"})) }, 7);
    let mut world = World::new(Guards::default());
    let mut reaction = world.reaction(&set, &of);
    let context = EventContext::new(&of, Value::Null);
    let rendered = set.template(0).unwrap().render(&context);
    reaction.step(Input::Begin, &mut world.state, NOW);
    let commands = reaction.step(Input::Rendered(rendered), &mut world.state, NOW);
    let [Command::Execute { block, .. }] = commands.as_slice() else { panic!("{commands:?}") };
    let zester_reactor::Action::Dispatch(dispatch) = &block.action else { panic!() };
    let request = dispatch_request(dispatch, &of, "reactor.a", &block.id).unwrap();
    assert!(request.jid.as_str().starts_with("rxn-"));
    assert_eq!((request.user.as_str(), request.target_expr.as_str()), ("reactor:reactor.a", "web-1"));
    let metadata = json!({
        "source": "reactor", "rule": "reactor.a", "block": "b", "event_id": "e1", "event_tag": "x",
        "event_origin": "web-1", "reactor_depth": 2,
    });
    assert_eq!(Value::Object(request.metadata), metadata);
    assert_eq!(context.event["peel"], "web-1");
}

#[test]
#[rule("R-1", "R-16")]
fn r16_every_result_has_its_label() {
    let labels: std::collections::BTreeSet<&str> =
        Decision::ALL.into_iter().filter_map(Decision::label).collect();
    let expected = [
        "aborted",
        "breaker_open",
        "dispatched",
        "duplicate",
        "error",
        "exhausted",
        "no_targets",
        "refused",
        "render_error",
        "throttled",
        "validate_error",
    ];
    assert_eq!(labels.into_iter().collect::<Vec<_>>(), expected);
}
