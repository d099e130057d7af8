//! What may be written, and where what is wrong is pointed at.

use super::world::{entries, minutes, told, try_read};
use serde_json::json;
use zester_rule::rule;
use zester_schedule::{When, limits::ENTRIES_MAX};
use zester_wire::UnixMillis;

#[test]
#[rule("D-10")]
fn d10_salts_words_are_read() {
    let all = "
highstate:
  function: state.apply
  args: [web, db]
  kwargs: {test: true}
  minutes: 30
  hours: 1
  splay: {start: 10, end: 20s}
  maxrunning: 2
  run_on_start: true
  after: 2026-11-20T08:00:00Z
  until: '2026-12-01'
  catch_up: true
  return_job: false
  enabled: false
  timeout: 2m
";
    let read = entries(all);
    let [entry] = read.as_slice() else { panic!("{read:?}") };
    assert_eq!((entry.name.as_str(), entry.function.as_str()), ("highstate", "state.apply"));
    assert_eq!(
        (&entry.args, entry.kwargs.get("test")),
        (&vec![json!("web"), json!("db")], Some(&json!(true)))
    );
    assert_eq!(entry.when, When::Every(minutes(90)));
    assert_eq!((entry.splay.from.as_secs(), entry.splay.to.as_secs()), (10, 20));
    assert_eq!((entry.maxrunning, entry.timeout), (2, minutes(2)));
    assert!(entry.run_on_start && entry.catch_up && !entry.return_job && !entry.enabled);
    assert_eq!(entry.after, Some(UnixMillis(1_795_161_600_000)));
    assert_eq!(entry.until, Some(UnixMillis(1_796_083_200_000)));
}

#[test]
#[rule("D-10")]
fn d10_what_is_not_said_has_a_default() {
    let read = entries("ping: {function: test.ping, interval: 90}");
    assert_eq!(read[0].when, When::Every(std::time::Duration::from_secs(90)));
    assert!(read[0].enabled && read[0].return_job && !read[0].catch_up && !read[0].run_on_start);
    assert_eq!((read[0].maxrunning, read[0].splay.to.as_secs()), (1, 0));
    assert!(entries("").is_empty());
    assert!(!entries("enabled: false\nping: {function: test.ping, interval: 90}")[0].enabled);
}

#[test]
#[rule("D-10")]
fn d10_what_is_wrong_is_pointed_at() {
    for (text, wanted) in [
        (
            "a:\n  function: test.ping\n  intervall: 5m\n  cron: '* * * * *'",
            "s.yaml:3:3: unknown key `intervall`; did you mean `interval`?",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  cron: '* * * * *'",
            "s.yaml:4:9: `interval` and `cron` both say when; keep one of them",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  seconds: 3",
            "s.yaml:4:3: `interval` and `seconds` both say how often",
        ),
        (
            "a:\n  function: test.ping\n  cron: '61 * * * *'",
            "s.yaml:3:9: `61 * * * *` is not a cron expression: ",
        ),
        (
            "a:\n  function: test.ping\n  cron: '0 0 31 2 *'",
            "s.yaml:3:9: `0 0 31 2 *` is not a cron expression: there is no such day",
        ),
        (
            "a:\n  function: test.ping\n  cron: '0 4 * * *'\n  timezone: Europe/Berln",
            "s.yaml:4:13: there is no time zone `Europe/Berln`",
        ),
        ("a:\n  function: test.ping\n  interval: soon", "s.yaml:3:13: `soon` is not a duration"),
        ("a:\n  function: test.ping\n  interval: 10ms", "s.yaml:3:13: the shortest interval is one second"),
        ("a:\n  function: test.ping", "it says nowhere when to run"),
        ("a:\n  interval: 5m", "its `function` is missing"),
        (
            "a:\n  function: no.such\n  interval: 5m",
            "s.yaml:2:13: there is no function `no.such`; did you mean `test.ping`?",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  splay: 5m",
            "s.yaml:4:10: the splay is as long as the interval",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  maxrunning: 0",
            "s.yaml:4:15: expected a number from 1 to 64, found the number 0",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  catch_up: maybe",
            "s.yaml:4:13: expected true or false, found the text `maybe`",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  after: tomorrow",
            "s.yaml:4:10: `tomorrow` is not a moment; write `2026-11-20T08:00:00`",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  after: 2027-01-01\n  until: 2026-01-01",
            "s.yaml:5:10: `until` is not later than `after`",
        ),
        (
            "a:\n  function: test.ping\n  when: 5pm",
            "s.yaml:3:3: unknown key `when`; write the time as `cron`",
        ),
        ("a: test.ping", "s.yaml:1:4: expected a map, found the text `test.ping`"),
        ("- a", "s.yaml:1:1: expected a map of entries by name, found a list"),
        (
            "a:\n  function: test.ping\n  seconds: many",
            "s.yaml:3:12: expected a number of seconds, found the text `many`",
        ),
        (
            "a:\n  function: test.ping\n  interval: 5m\n  args: web",
            "s.yaml:4:9: expected a list, found the text `web`",
        ),
    ] {
        let told = told(text);
        assert!(told.iter().any(|one| one.contains(wanted)), "{text:?}: {told:?}");
    }
}

#[test]
#[rule("D-10")]
fn d10_a_schedule_has_so_many_entries_and_no_more() {
    let text = |count: usize| -> String {
        (0..count).map(|number| format!("e{number}: {{function: test.ping, interval: 1h}}\n")).collect()
    };
    assert_eq!(entries(&text(ENTRIES_MAX)).len(), ENTRIES_MAX);
    let problems = try_read(&text(ENTRIES_MAX + 1)).unwrap_err();
    assert!(problems[0].message.contains("may have 256 entries"), "{problems:?}");
}

#[test]
#[rule("D-10")]
fn d10_every_problem_is_told_with_the_keys_that_lead_to_it() {
    let problems = try_read("a: {function: test.ping, interval: 0}\nb: {function: test.ping}").unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert_eq!(
        (&problems[0].path, &problems[1].path),
        (&vec!["a".into(), "interval".into()], &vec!["b".into()])
    );
}
