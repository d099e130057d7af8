//! Time zones, summer time, and clocks that are set.

use super::world::{HOUR, MINUTE, NOON, SECOND, World, missed, runs};
use zester_rule::rule;

/// 2026-03-29 00:00 in Berlin, the day that has 23 hours.
const SPRING: u64 = 1_774_738_800_000;
/// 2026-10-25 00:00 in Berlin, the day that has 25.
const AUTUMN: u64 = 1_792_879_200_000;
const DAY: u64 = 24 * HOUR;

fn berlin(cron: &str, from: u64, to: u64) -> Vec<u64> {
    let text = format!("a: {{function: test.ping, cron: '{cron}', timezone: Europe/Berlin}}");
    let (mut world, _) = World::starting(&text, Default::default(), from);
    world.runs_until(to)
}

#[test]
#[rule("D-10")]
fn d10_cron_has_seconds_and_a_time_zone() {
    let mut world = World::new("a: {function: test.ping, cron: '30 0 14 * * *', timezone: Europe/Berlin}");
    assert_eq!(world.runs_until(NOON + DAY), [NOON + HOUR + 30 * SECOND]);
    let mut world = World::new("a: {function: test.ping, cron: '*/15 * * * * *'}");
    assert_eq!(world.runs_until(NOON + MINUTE).len(), 4);
    let mut world = World::new("a: {function: test.ping, cron: '0 9 * * mon-fri'}");
    assert_eq!(world.runs_until(NOON + 7 * DAY).len(), 5);
    let mut world = World::new("a: {function: test.ping, cron: '@daily'}");
    assert_eq!(world.runs_until(NOON + 3 * DAY).len(), 3);
}

#[test]
#[rule("D-10")]
fn d10_a_daily_run_runs_once_on_the_days_that_the_clock_changes() {
    // Half past two does not exist in spring, and exists twice in autumn.
    // It runs when the clock has jumped over it, and the first time of two.
    assert_eq!(berlin("30 2 * * *", SPRING, SPRING + 23 * HOUR - 1), [SPRING + 2 * HOUR]);
    assert_eq!(berlin("30 2 * * *", AUTUMN, AUTUMN + 25 * HOUR - 1), [AUTUMN + 2 * HOUR + 30 * MINUTE]);
    // By the clock on the wall the others are a day apart.
    let half_past = 2 * HOUR + 30 * MINUTE;
    let days = [
        SPRING - 2 * DAY + half_past,
        SPRING - DAY + half_past,
        SPRING + 2 * HOUR,
        SPRING + 23 * HOUR + half_past,
        SPRING + 23 * HOUR + DAY + half_past,
    ];
    assert_eq!(berlin("30 2 * * *", SPRING - 2 * DAY, SPRING + 3 * DAY), days);
}

#[test]
#[rule("D-10")]
fn d10_an_hourly_run_runs_once_in_every_hour_that_there_is() {
    for (from, hours) in [(SPRING, 23), (AUTUMN, 25)] {
        let began = berlin("0 * * * *", from - 1, from + hours * HOUR - 1);
        assert_eq!((began.len() as u64, began[0]), (hours, from));
        assert!(began.windows(2).all(|pair| pair[1] - pair[0] == HOUR), "{began:?}");
    }
}

#[test]
#[rule("D-10")]
fn d10_a_clock_that_is_set_forward_misses_what_lies_between() {
    let mut world = World::new("a: {function: test.ping, cron: '0 * * * *'}");
    let commands = world.at(NOON + 5 * HOUR + 30 * MINUTE);
    assert_eq!((runs(&commands), missed(&commands)), (0, 5));
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 6 * HOUR);
}

#[test]
#[rule("D-10")]
fn d10_a_clock_that_was_years_ahead_does_not_put_the_schedule_to_sleep() {
    for text in ["a: {function: test.ping, interval: 1h}", "a: {function: test.ping, cron: '0 * * * *'}"] {
        // Known while it runs …
        let mut world = World::new(text);
        world.at(NOON + 4 * 365 * DAY);
        assert_eq!(runs(&world.at(NOON)), 0);
        assert!(world.schedule.next_wake().unwrap().0 <= NOON + HOUR, "{text}");
        // … and after a restart.
        let mut world = World::new(text);
        world.at(NOON + 4 * 365 * DAY);
        let (world, _) = World::starting(text, world.schedule.memory().clone(), NOON);
        assert!(world.schedule.next_wake().unwrap().0 <= NOON + HOUR, "{text}");
    }
}

#[test]
#[rule("D-10")]
fn d10_a_clock_that_is_set_back_is_noticed_by_a_reload_too() {
    // Nobody asked for the time since: the reload is the first that sees the other clock.
    let text = "a: {function: test.ping, interval: 1h}";
    let mut world = World::new(text);
    world.at(NOON + 40 * MINUTE);
    world.now.0 = NOON + 10 * MINUTE;
    world.replaced(text);
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 30 * MINUTE, "it keeps its distance");
    let text = "a: {function: test.ping, cron: '0 * * * *'}";
    let mut world = World::new(text);
    world.at(NOON + 4 * 365 * DAY);
    world.now.0 = NOON;
    world.replaced(text);
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + HOUR);
}

#[test]
#[rule("D-10")]
fn d10_a_clock_that_is_set_back_a_little_runs_nothing_twice() {
    let mut world = World::new("a: {function: test.ping, cron: '0 13 * * *'}");
    assert_eq!(world.runs_until(NOON + HOUR).len(), 1);
    world.at(NOON + HOUR - 20 * SECOND);
    assert_eq!(world.runs_until(NOON + 2 * HOUR).len(), 0);
    // An interval keeps its distance.
    let mut world = World::new("a: {function: test.ping, interval: 1h}");
    world.at(NOON + 40 * MINUTE);
    world.at(NOON + 10 * MINUTE);
    assert_eq!(world.schedule.next_wake().unwrap().0, NOON + 30 * MINUTE);
}

#[test]
#[rule("D-10")]
fn d10_an_absence_of_years_is_counted_up_to_a_bound() {
    let text = "a: {function: test.ping, cron: '* * * * * *'}";
    let memory = World::new(text).schedule.memory().clone();
    let (mut world, commands) = World::starting(text, memory, NOON + 365 * DAY + 500);
    assert!(missed(&commands) <= 1_000 && missed(&commands) >= 999, "{commands:?}");
    assert!(world.schedule.next_wake().unwrap().0 <= NOON + 365 * DAY + 2 * SECOND);
    assert!(world.at(NOON + 365 * DAY + 600).is_empty());
}
