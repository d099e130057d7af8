//! What runs when, what is told, and what is remembered.

use super::world::{HOUR, MINUTE, NOON, SECOND, World, entries, missed, runs};
use std::collections::BTreeSet;
use zester_rule::rule;
use zester_schedule::{Command, Event, Memory, NotRun, Schedule};
use zester_wire::UnixMillis;

const EVERY: &str = "a: {function: test.ping, interval: 10m}";

#[test]
#[rule("D-10")]
fn d10_an_interval_runs_every_so_often_and_does_not_drift() {
    let mut world = World::new(EVERY);
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 10 * MINUTE);
    assert_eq!(runs(&world.at(NOON + 10 * MINUTE - 1)), 0);
    // A little late, and the next is due when it would have been.
    assert_eq!(runs(&world.at(NOON + 10 * MINUTE + 900)), 1);
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 20 * MINUTE);
}

#[test]
#[rule("D-10")]
fn d10_what_must_be_remembered_is_saved_before_a_run_begins() {
    let mut world = World::new(EVERY);
    let commands = world.at(NOON + 10 * MINUTE);
    assert!(matches!(commands.as_slice(), [Command::Save, Command::Run(_)]), "{commands:?}");
    assert!(world.at(NOON + 10 * MINUTE + 5).is_empty());
}

#[test]
#[rule("D-10")]
fn d10_a_run_is_put_off_by_its_splay_and_never_to_the_next() {
    let text = "a: {function: test.ping, cron: '0 * * * *', splay: {start: 1m, end: 3m}}";
    // The dice give it all of the way from the start to the end, and no more.
    for (share, put_off) in [(0.0, MINUTE), (0.5, 2 * MINUTE), (1.0, 3 * MINUTE)] {
        let mut world = World::new(text);
        assert_eq!(world.schedule.next_wake().unwrap().0, NOON + HOUR + MINUTE);
        world.dice.share = share;
        assert_eq!(runs(&world.at(NOON + HOUR + MINUTE - 1)), 0);
        assert_eq!(runs(&world.at(NOON + HOUR + MINUTE)), 1);
        assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 2 * HOUR + put_off, "{share}");
    }
    // Longer than the hour between two: it stays before the next.
    let mut world = World::new("a: {function: test.ping, cron: '0 * * * *', splay: 5h}");
    world.dice.share = 1.0;
    world.at(NOON + HOUR);
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 3 * HOUR - 1);
}

#[test]
#[rule("D-10")]
fn d10_no_more_of_one_entry_run_at_once_than_it_allows() {
    let mut world = World::new(EVERY);
    let first = world.at(NOON + 10 * MINUTE);
    let Some(Command::Run(run)) = first.last() else { panic!("{first:?}") };
    let second = world.at(NOON + 20 * MINUTE);
    assert!(second.iter().any(|one| matches!(one, Command::Skipped { running: 1, .. })), "{second:?}");
    assert_eq!(runs(&second), 0);
    world.step(Event::Ended { jid: run.jid.clone(), success: true, error: String::new() });
    assert_eq!(runs(&world.at(NOON + 30 * MINUTE)), 1);
    let mut world = World::new("a: {function: test.ping, interval: 10m, maxrunning: 2}");
    assert_eq!(runs(&world.at(NOON + 10 * MINUTE)) + runs(&world.at(NOON + 20 * MINUTE)), 2);
    assert_eq!(runs(&world.at(NOON + 30 * MINUTE)), 0);
}

#[test]
#[rule("D-10")]
fn d10_run_on_start_runs_at_every_start_and_not_at_a_reload() {
    let text = "a: {function: test.ping, interval: 10m, run_on_start: true}";
    let (mut world, commands) = World::starting(text, Memory::default(), NOON);
    assert_eq!(runs(&commands), 1);
    assert_eq!(runs(&world.replaced(text)), 0);
    let (_, again) = World::starting(text, world.schedule.memory().clone(), NOON + MINUTE);
    assert_eq!(runs(&again), 1);
    let (_, disabled) = World::starting(
        &format!("{}, enabled: false}}", text.trim_end_matches('}')),
        Memory::default(),
        NOON,
    );
    assert_eq!(runs(&disabled), 0);
}

/// Names of entries that come late.
fn late(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
#[rule("D-10")]
fn d10_what_a_slow_source_says_after_the_start_runs_on_start_once() {
    let file = "a: {function: test.ping, interval: 10m, run_on_start: true}";
    let both = format!("{file}\nb: {{function: test.ping, interval: 10m, run_on_start: true}}");
    let three = format!("{both}\nc: {{function: test.ping, interval: 10m, run_on_start: true}}");
    let start =
        |text: &str| Event::Start { entries: entries(text), memory: Memory::default(), awaited: true };
    let mut world = World { schedule: Schedule::default(), ..World::new("{}") };
    assert_eq!(runs(&world.step(start(file))), 1);
    world.now.0 += MINUTE;
    let came = Event::Replaced { entries: entries(&both), awaited: false, late: late(&["a", "b"]) };
    let commands = world.step(came.clone());
    let names: Vec<_> = commands
        .iter()
        .filter_map(|one| match one {
            Command::Run(run) => Some(run.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["b"], "the other has run");
    assert_eq!(runs(&world.step(came)), 0);
    assert_eq!(runs(&world.replaced(&three)), 0, "what is written later is no start");
}

#[test]
#[rule("D-10")]
fn d10_what_is_remembered_waits_for_a_source_that_has_not_spoken() {
    let both = format!("{EVERY}\nb: {{function: test.ping, interval: 1h}}");
    let mut before = World::new(&both);
    before.at(NOON + 10 * MINUTE);
    let memory = before.schedule.memory().clone();
    let due = memory.entries["b"].due;
    let mut world = World { schedule: Schedule::default(), ..World::new("{}") };
    world.now.0 = NOON + 11 * MINUTE;
    let commands = world.step(Event::Start { entries: entries(EVERY), memory, awaited: true });
    assert!(commands.iter().any(|one| matches!(one, Command::Interrupted { .. })), "{commands:?}");
    // A run that ends meanwhile takes nothing with it.
    let commands = world.at(NOON + 20 * MINUTE);
    let Some(Command::Run(run)) = commands.last() else { panic!("{commands:?}") };
    world.step(Event::Ended { jid: run.jid.clone(), success: true, error: String::new() });
    assert_eq!(world.schedule.memory().entries["b"].due, due);
    assert_eq!(world.schedule.rows().len(), 1);
    world.step(Event::Replaced { entries: entries(&both), awaited: false, late: late(&["b"]) });
    assert_eq!(world.schedule.rows()[1].next, due, "its interval does not begin anew");
    world.replaced(EVERY);
    assert_eq!(world.schedule.memory().entries.len(), 1);
}

#[test]
#[rule("D-10")]
fn d10_nothing_runs_before_after_or_after_until() {
    let text =
        "a: {function: test.ping, interval: 10m, after: '2026-11-17T13:00:00', until: '2026-11-17T13:25:00'}";
    let mut world = World::new(text);
    let began = world.runs_until(NOON + 24 * HOUR);
    assert_eq!(began, [NOON + HOUR, NOON + HOUR + 10 * MINUTE, NOON + HOUR + 20 * MINUTE]);
    assert_eq!(world.schedule.rows()[0].next, None);
}

/// What a full disk held back begins when there is room again, unless it is too late for it by then.
#[test]
#[rule("D-10")]
fn d10_a_run_that_had_to_wait_begins_in_time_or_was_missed() {
    let released = |text: &str, meanwhile: Option<&str>, later: u64| {
        let mut world = World::new(text);
        let mut commands = world.at(NOON + 10 * MINUTE);
        let Some(Command::Run(run)) = commands.pop() else { panic!("{commands:?}") };
        if let Some(text) = meanwhile {
            world.replaced(text);
        }
        let commands = world.schedule.release(run, UnixMillis(NOON + 10 * MINUTE + later));
        let running = world.schedule.rows().first().map_or(0, |row| row.running.len());
        (runs(&commands), missed(&commands), running)
    };
    let catches_up = "a: {function: test.ping, interval: 10m, catch_up: true}";
    assert_eq!(released(EVERY, None, MINUTE), (1, 0, 1));
    assert_eq!(released(EVERY, None, MINUTE + 1), (0, 1, 0));
    assert_eq!(released(catches_up, None, HOUR), (1, 0, 1));
    let off = "a: {function: test.ping, interval: 10m, enabled: false}";
    let other = "a: {function: test.fail, interval: 10m}";
    for meanwhile in ["{}", off, other] {
        assert_eq!(released(EVERY, Some(meanwhile), SECOND), (0, 1, 0), "{meanwhile}");
    }
}

#[test]
#[rule("D-10")]
fn d10_missed_runs_are_told_once_and_not_made_up_for() {
    let world = World::new(EVERY);
    let memory = world.schedule.memory().clone();
    // The peel was away for two hours and five minutes.
    let (mut world, commands) = World::starting(EVERY, memory, NOON + 125 * MINUTE);
    assert_eq!((runs(&commands), missed(&commands)), (0, 12));
    let told = Command::Missed {
        name: "a".into(),
        first: UnixMillis(NOON + 10 * MINUTE),
        last: UnixMillis(NOON + 120 * MINUTE),
        count: 12,
        more: false,
        made_up: false,
    };
    // On disk before it is told: a crash behind it does not tell it again.
    assert_eq!(commands, [Command::Save, told]);
    let (_, again) =
        World::starting(EVERY, world.schedule.memory().clone(), NOON + 125 * MINUTE + 30 * SECOND);
    assert_eq!((runs(&again), missed(&again)), (0, 0));
    assert!(world.at(NOON + 126 * MINUTE).is_empty());
    assert_eq!(world.runs_until(NOON + 130 * MINUTE), [NOON + 130 * MINUTE]);
    let row = &world.schedule.rows()[0];
    assert_eq!((row.missed, row.last_missed.unwrap().0), (12, NOON + 120 * MINUTE));
    // Those of the next absence add to them.
    let (world, commands) = World::starting(EVERY, world.schedule.memory().clone(), NOON + 165 * MINUTE);
    assert_eq!((runs(&commands), missed(&commands)), (0, 3));
    let row = &world.schedule.rows()[0];
    assert_eq!((row.missed, row.last_missed.unwrap().0), (15, NOON + 160 * MINUTE));
}

#[test]
#[rule("D-10")]
fn d10_nothing_is_missed_that_would_have_been_after_until() {
    for when in ["interval: 10m", "cron: '*/10 * * * *'"] {
        for (catch_up, made_up) in [(false, 0), (true, 1)] {
            let text = format!(
                "a: {{function: test.ping, {when}, until: '2026-11-17T12:35:00', catch_up: {catch_up}}}"
            );
            let memory = World::new(&text).schedule.memory().clone();
            let (mut world, commands) = World::starting(&text, memory, NOON + 5 * HOUR);
            assert_eq!((runs(&commands), missed(&commands)), (made_up, 3), "{text}");
            let row = &world.schedule.rows()[0];
            assert_eq!((row.missed, row.last_missed.unwrap().0, row.next), (3, NOON + 30 * MINUTE, None));
            assert!(world.runs_until(NOON + 24 * HOUR).is_empty());
        }
    }
}

#[test]
#[rule("D-10")]
fn d10_a_run_that_comes_late_by_itself_is_told_beside_those_before_it() {
    // The machine slept: two were missed, and the third is due just now.
    let mut world = World::new(EVERY);
    let commands = world.at(NOON + 30 * MINUTE + 10 * SECOND);
    let told: Vec<_> = commands
        .iter()
        .filter_map(|one| match one {
            Command::Missed { first, last, count, .. } => Some((first.0, last.0, *count)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(NOON + 10 * MINUTE, NOON + 20 * MINUTE, 2)]);
    assert_eq!((commands.first(), runs(&commands)), (Some(&Command::Save), 1));
}

#[test]
#[rule("D-10")]
fn d10_with_catch_up_one_run_makes_up_for_all() {
    let text = "a: {function: test.ping, interval: 10m, catch_up: true}";
    let memory = World::new(text).schedule.memory().clone();
    let (mut world, commands) = World::starting(text, memory, NOON + 125 * MINUTE);
    assert_eq!((runs(&commands), missed(&commands)), (1, 12));
    assert!(commands.iter().any(|one| matches!(one, Command::Missed { made_up: true, .. })));
    assert_eq!(world.runs_until(NOON + 130 * MINUTE).len(), 0, "the first still runs");
}

#[test]
#[rule("D-10")]
fn d10_a_run_that_is_only_a_little_late_is_not_missed() {
    let memory = World::new(EVERY).schedule.memory().clone();
    let (_, commands) = World::starting(EVERY, memory, NOON + 10 * MINUTE + 59 * SECOND);
    assert_eq!((runs(&commands), missed(&commands)), (1, 0));
}

#[test]
#[rule("D-10")]
fn d10_what_a_crash_cut_short_is_told() {
    let mut world = World::new(EVERY);
    world.at(NOON + 10 * MINUTE);
    let (world, commands) = World::starting(EVERY, world.schedule.memory().clone(), NOON + 11 * MINUTE);
    assert!(commands.iter().any(|one| matches!(one, Command::Interrupted { name, .. } if name == "a")));
    let last = world.schedule.rows()[0].last.clone().unwrap();
    assert!(!last.success && last.error.starts_with("interrupted"), "{last:?}");
}

#[test]
#[rule("D-10")]
fn d10_a_reload_keeps_what_stayed_and_drops_what_went() {
    let mut world = World::new(&format!("{EVERY}\nb: {{function: test.ping, interval: 7m}}"));
    world.now.0 += 5 * MINUTE;
    world.replaced("a: {function: test.echo, args: [x], interval: 10m}");
    let rows = world.schedule.rows();
    assert_eq!((rows.len(), rows[0].next.unwrap().0), (1, NOON + 10 * MINUTE));
    assert_eq!(rows[0].function, "test.echo");
    // Other times begin anew.
    world.replaced("a: {function: test.ping, interval: 3m}");
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 8 * MINUTE);
    world.replaced("{}");
    assert_eq!((world.schedule.next_wake(), world.schedule.memory().entries.len()), (None, 0));
}

#[test]
#[rule("D-10")]
fn d10_a_run_of_an_entry_that_went_still_ends() {
    let mut world = World::new(EVERY);
    let commands = world.at(NOON + 10 * MINUTE);
    let Some(Command::Run(run)) = commands.last() else { panic!("{commands:?}") };
    world.replaced("{}");
    assert_eq!(world.schedule.memory().entries.len(), 1);
    world.step(Event::Ended { jid: run.jid.clone(), success: true, error: String::new() });
    assert!(world.schedule.memory().entries.is_empty());
}

#[test]
#[rule("D-10")]
fn d10_an_entry_can_be_run_by_hand() {
    let mut world = World::new("deploy: {function: test.ping, interval: 10m, enabled: false}");
    let now = world.now;
    let (_, commands) = world.schedule.run_now("deploy", now, &mut world.dice).unwrap();
    assert!(matches!(commands.as_slice(), [Command::Save, Command::Run(_)]), "{commands:?}");
    let busy = world.schedule.run_now("deploy", now, &mut world.dice).unwrap_err();
    assert!(matches!(busy, NotRun::Busy(_)));
    let none = world.schedule.run_now("deplyo", now, &mut world.dice).unwrap_err();
    assert_eq!(none, NotRun::NoSuch("the schedule has no entry `deplyo`; did you mean `deploy`?".into()));
}

#[test]
#[rule("D-10")]
fn d10_the_memory_is_a_document_that_later_versions_may_extend() {
    let mut world = World::new(EVERY);
    world.at(NOON + 10 * MINUTE);
    let mut document = serde_json::to_value(world.schedule.memory()).unwrap();
    document["entries"]["a"]["of_later"] = serde_json::json!(1);
    let memory: Memory = serde_json::from_value(document).unwrap();
    assert_eq!(&memory, world.schedule.memory());
    assert_eq!(serde_json::from_str::<Memory>("{}").unwrap(), Memory::default());
}
