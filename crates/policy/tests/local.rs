//! The policy of a machine, by tables.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Map, Value, json};
use zester_model::source::Sources;
use zester_policy::{Asker, Call, Judged, LocalPolicy, read_local};
use zester_rule::rule;
use zester_wire::UnixMillis;

/// 2026-03-28, a Saturday, 12:00 UTC.
const NOON: UnixMillis = UnixMillis(1_774_699_200_000);

fn read(text: &str) -> Result<LocalPolicy, Vec<String>> {
    let mut sources = Sources::default();
    let file = sources.add("policy.yaml", text);
    let read = zester_compile::parse_yaml(file, text).and_then(|node| read_local(&node, &sources, "UTC"));
    read.map_err(|problems| {
        let told = problems.iter().map(|one| {
            let place = one.span.map_or_else(String::new, |span| sources.place(span));
            format!("{place}: {}", one.report(&sources).message)
        });
        told.collect()
    })
}

fn policy(text: &str) -> LocalPolicy {
    read(text).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn master<'a>(operator: Result<&'a str, &str>) -> Asker<'a> {
    Asker::Master { name: "m1", key: "UM1", operator: operator.map_err(str::to_string) }
}

/// What a policy makes of a call: nothing, or the refusal.
fn judged(policy: &LocalPolicy, asker: &Asker<'_>, words: &str, test: bool) -> Option<String> {
    let mut words = words.split(' ');
    let function = words.next().unwrap();
    let (mut bare, mut named) = (Vec::new(), Map::new());
    for word in words {
        match word.split_once('=') {
            Some((key, value)) => drop(named.insert(key.to_string(), json!(value))),
            None => bare.push(Value::from(word)),
        }
    }
    let call = Call { function, state_id: "", positionals: &bare, args: &named, test };
    let kind = (function == "user.add").then_some("user.present");
    match policy.judge(asker, &call, kind, NOON) {
        Judged::Allowed(_) => None,
        Judged::Refused(refused) => Some(refused.to_string()),
    }
}

#[test]
#[rule("I-8")]
fn i8_functions_are_allowed_and_denied_by_pattern_and_the_line_is_named() {
    let policy = policy(
        "functions:\n  allow: ['state.*', test.ping, 'user.*']\n  deny:\n    - state.revert\n    - user.present\n",
    );
    let told = |words: &str| judged(&policy, &master(Ok("ann")), words, false);
    for allowed in ["state.apply web", "test.ping"] {
        assert_eq!(told(allowed), None, "{allowed}");
    }
    for (words, why, at) in [
        ("cmd.run id", "cmd.run is not among the functions that it allows", "policy.yaml:2:3"),
        ("state.revert", "state.revert is denied by `state.revert`", "policy.yaml:4:7"),
        // By another name it is the same, and what carries another function is both.
        ("user.add bob", "user.present is denied by `user.present`", "policy.yaml:5:7"),
        ("state.single cmd.run id", "cmd.run is not among", "policy.yaml:2:3"),
        ("facts.items", "facts.items is not among", "policy.yaml:2:3"),
    ] {
        let refused = told(words).unwrap_or_else(|| panic!("{words} is allowed"));
        let begin = format!("refused by the policy of this machine: {why}");
        assert!(refused.starts_with(&begin) && refused.ends_with(&format!("({at})")), "{words}: {refused}");
    }
}

#[test]
#[rule("I-8")]
fn i8_a_read_only_machine_looks_and_changes_nothing() {
    let policy = policy("read_only: true\n");
    let told = |words: &str, test| judged(&policy, &master(Ok("ann")), words, test);
    for (words, test) in [("test.ping", false), ("state.apply web", true), ("state.show_sls web", false)] {
        assert_eq!(told(words, test), None, "{words}");
    }
    for (words, test) in [
        ("state.apply web", false),
        ("cmd.run id", false),
        ("pkg.installed vim", true),
        ("schedule.run x", false),
        ("state.apply test=true", false),
    ] {
        assert!(told(words, test).is_some_and(|why| why.contains("it is read-only")), "{words}");
    }
    assert!(judged(&policy_of("read_only: false\n"), &master(Ok("ann")), "cmd.run id", false).is_none());
}

fn policy_of(text: &str) -> LocalPolicy {
    policy(text)
}

#[test]
#[rule("I-8")]
fn i8_commands_come_from_published_states_only() {
    let policy = policy("commands: published\n");
    let told = |words: &str| judged(&policy, &master(Ok("ann")), words, false);
    assert_eq!(told("state.apply web"), None);
    for words in
        ["cmd.run id", "state.single cmd.run id", "pkg.installed vim onlyif=id", "state.apply web pillar=x"]
    {
        assert!(told(words).is_some_and(|why| why.contains("published states only")), "{words}");
    }
}

#[test]
#[rule("I-8")]
fn i8_changes_wait_for_a_window() {
    let closed = policy(
        "maintenance:\n  - {cron: '0 22 * * *', for: 4h}\n  - {cron: '0 2 * * sun', for: 1h, timezone: Asia/Tokyo}\n",
    );
    let ann = master(Ok("ann"));
    let told = judged(&closed, &ann, "state.apply web", false).unwrap();
    assert!(
        told.contains("no maintenance window is open; the next begins 2026-03-28 17:00:00 UTC"),
        "{told}"
    );
    assert_eq!(judged(&closed, &ann, "state.apply web", true), None, "a dry run may always look");
    let open = policy("maintenance: [{cron: '0 11 * * sat', for: 90m}]\n");
    assert_eq!(judged(&open, &ann, "state.apply web", false), None);
}

#[test]
#[rule("I-8")]
fn i8_a_machine_that_requires_operators_does_nothing_on_the_word_of_a_master() {
    let any = policy("operators: required\n");
    let named = policy("operators: [ann, bob]\n");
    let alone = master(Err("its master brought no request of one along"));
    for policy in [&any, &named] {
        for asker in
            [&alone, &Asker::Published, &Asker::Unproven { direct: false }, &Asker::Unproven { direct: true }]
        {
            let told = judged(policy, asker, "state.apply web", true);
            assert!(told.is_some_and(|why| why.contains("an operator must ask for it")), "{asker:?}");
            assert_eq!(judged(policy, asker, "test.ping", false), None, "what is harmless is answered");
        }
        assert_eq!(judged(policy, &master(Ok("ann")), "cmd.run id", false), None);
        assert_eq!(judged(policy, &Asker::Direct { operator: "bob" }, "cmd.run id", false), None);
    }
    let told = judged(&named, &master(Ok("eve")), "cmd.run id", false).unwrap();
    assert!(told.contains("eve is none of the operators"), "{told}");
}

#[test]
#[rule("I-8")]
fn i8_masters_are_pinned_by_name_or_key_and_direct_calls_can_be_refused() {
    for pin in ["m1", "UM1"] {
        assert_eq!(
            judged(&policy(&format!("masters: [{pin}]\n")), &master(Ok("ann")), "cmd.run id", false),
            None
        );
    }
    let other = policy("masters: [m2]\ndirect: false\n");
    let told = judged(&other, &master(Ok("ann")), "test.ping", false).unwrap();
    assert!(told.contains("master m1 is none of those") && told.ends_with("(policy.yaml:1:1)"), "{told}");
    assert!(judged(&other, &Asker::Unproven { direct: false }, "test.ping", false).is_some());
    let told = judged(&other, &Asker::Direct { operator: "ann" }, "test.ping", false).unwrap();
    assert!(told.contains("no calls past the masters") && told.ends_with("(policy.yaml:2:1)"), "{told}");
}

#[test]
#[rule("I-8")]
fn i8_what_is_wrong_with_a_policy_is_told_at_its_place_and_all_of_it() {
    let problems = |text: &str| read(text).map(|_| ()).unwrap_err();
    assert_eq!(
        problems("readonly: true\nfunctions: {alow: [a.b]}\nread_only: maybe\n"),
        [
            "policy.yaml:1:1: unknown key `readonly`; did you mean `read_only`?",
            "policy.yaml:2:13: unknown key `alow`; did you mean `allow`?",
            "policy.yaml:3:12: expected true or false, found the text `maybe`; write `true` or `false`",
        ]
        .map(String::from)
        .to_vec()
    );
    for (text, part) in [
        ("", "expected a policy"),
        ("[]", "expected a policy"),
        ("functions: {allow: []}", "the list is empty"),
        ("functions: {allow: ['state.{a,b}']}", "is not a pattern"),
        ("maintenance: [{cron: '0 25 * * *', for: 1h}]", "is not a cron expression"),
        ("maintenance: [{cron: '0 2 * * *'}]", "a window needs"),
        ("maintenance: [{cron: '0 2 * * *', for: 1h, timezone: Mars}]", "there is no time zone `Mars`"),
        ("maintenance: [{cron: '0 2 * * *', for: 90d}]", "a window lasts up to 31 days"),
        ("maintenance: []", "the list is empty"),
        ("operators: wanted", "is no word for operators"),
        ("operators: []", "the list is empty"),
        ("commands: never", "is no word for commands"),
        ("masters: [{a: b}]", "expected a text"),
    ] {
        let told = problems(text);
        assert!(told.iter().any(|one| one.contains(part)), "{text}: {told:?}");
    }
}
