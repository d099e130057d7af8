//! Roles of operators: read from what the user wrote, judged by tables, and never wider than their lines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use zester_model::source::Sources;
use zester_policy::{Call, Rights, Wanted, read_roles};
use zester_rule::rule;
use zester_wire::{OperatorRole, RoleEffect, RoleRule, Token};

const ROLES: &str = "deployers:
  - allow: [state.apply, 'state.show_*', test.ping]
    targets: 'web*'
  - allow: ['state.*']
    test_only: true
  - deny: [state.apply]
    targets: web-01
  - verbs: [kill, publish]
  - verbs: [forget]
    targets: 'web*'
debian:
  - allow: [pkg.installed]
    targets: 'G@os:Debian'
    direct: true
  - allow: [state.highstate]
    environments: [staging]
";

fn read(text: &str) -> Result<Vec<OperatorRole>, Vec<String>> {
    let mut sources = Sources::default();
    let file = sources.add("roles.yaml", text);
    let read = zester_compile::parse_yaml(file, text).and_then(|node| read_roles(&node, &sources));
    read.map_err(|problems| {
        let told = problems.iter().map(|one| {
            let place = one.span.map_or_else(String::new, |span| sources.place(span));
            format!("{place}: {}", one.report(&sources).message)
        });
        told.collect()
    })
}

/// `bob` has both roles, `eve` has none.
fn rights() -> Rights {
    let mut roles = read(ROLES).unwrap();
    roles.iter_mut().for_each(|role| role.members = vec![Token::parse("bob").unwrap()]);
    Rights::new(&roles)
}

struct Asked<'a> {
    function: &'a str,
    peel: &'a str,
    named: Value,
    test: bool,
    direct: bool,
}

fn ask<'a>(function: &'a str, peel: &'a str) -> Asked<'a> {
    Asked { function, peel, named: json!({}), test: false, direct: false }
}

fn judged(rights: &Rights, who: &str, asked: &Asked<'_>) -> (bool, String) {
    let named = asked.named.as_object().cloned().unwrap_or_default();
    let call =
        Call { function: asked.function, state_id: "", positionals: &[], args: &named, test: asked.test };
    let facts = json!({"os": if asked.peel.starts_with("deb") { "Debian" } else { "Alpine" }});
    let wanted = Wanted::Call { call, direct: asked.direct };
    let verdict = rights.judge(who, &wanted, Some((asked.peel, &facts)));
    (verdict.allowed, verdict.by.map_or_else(String::new, |(_, line)| line))
}

#[test]
#[rule("I-14")]
fn i14_what_no_line_allows_is_refused_and_a_line_that_denies_wins() {
    let rights = rights();
    let staging = json!({"saltenv": "staging"});
    for (asked, allowed, line) in [
        (ask("state.apply", "web-02"), true, "roles.yaml:2:5"),
        (ask("state.apply", "web-01"), false, "roles.yaml:6:5"),
        (ask("state.apply", "db-01"), false, ""),
        (Asked { test: true, ..ask("state.apply", "db-01") }, true, "roles.yaml:4:5"),
        (Asked { test: true, ..ask("state.apply", "web-01") }, false, "roles.yaml:6:5"),
        (Asked { test: true, named: json!({"test": false}), ..ask("state.apply", "db-01") }, false, ""),
        (ask("cmd.run", "web-02"), false, ""),
        (Asked { test: true, ..ask("cmd.run", "web-02") }, false, ""),
        // Past the masters is a right of its own.
        (Asked { direct: true, ..ask("state.apply", "web-02") }, false, ""),
        (Asked { direct: true, ..ask("pkg.installed", "deb-1") }, true, "roles.yaml:12:5"),
        (ask("pkg.installed", "alp-1"), false, ""),
        // An environment must be named, or the machine would choose it.
        (Asked { named: staging, ..ask("state.highstate", "db-01") }, true, "roles.yaml:15:5"),
        (ask("state.highstate", "db-01"), false, ""),
        (Asked { named: json!({"saltenv": "prod"}), ..ask("state.highstate", "db-01") }, false, ""),
        // What carries another function needs both.
        (Asked { test: true, named: json!({"fun": "cmd.run"}), ..ask("state.single", "db-01") }, false, ""),
    ] {
        let found = judged(&rights, "bob", &asked);
        assert_eq!(found, (allowed, line.to_string()), "{} on {}", asked.function, asked.peel);
    }
    assert_eq!(judged(&rights, "eve", &ask("test.ping", "web-02")), (false, String::new()));
}

fn rights_of(text: &str) -> Rights {
    let mut roles = read(text).unwrap();
    roles.iter_mut().for_each(|role| role.members = vec![Token::parse("bob").unwrap()]);
    Rights::new(&roles)
}

#[test]
#[rule("I-14")]
fn i14_what_is_denied_cannot_be_had_by_another_name() {
    let rights = rights_of(
        "all:\n  - allow: ['*']\n  - deny: [user.present, state.sls, 'grains.*', state.highstate]\n",
    );
    let may = |function| judged(&rights, "bob", &ask(function, "web-1")).0;
    for denied in
        ["user.present", "user.add", "user.chshell", "state.apply", "facts.items", "state.highstate"]
    {
        assert!(!may(denied), "{denied}");
    }
    let carried = Asked { named: json!({"fun": "user.add"}), ..ask("state.single", "web-1") };
    assert!(!judged(&rights, "bob", &carried).0, "carried by another");
    assert!(may("user.absent") && may("user.delete") && may("state.show_sls"));
    // An allowed function brings its other names no rights.
    let few = rights_of("few:\n  - allow: [user.add]\n");
    assert!(judged(&few, "bob", &ask("user.add", "web-1")).0);
    assert!(!judged(&few, "bob", &ask("user.present", "web-1")).0);
}

#[test]
#[rule("I-14")]
fn i14_who_may_only_try_runs_no_command_by_a_guard() {
    let rights = rights_of("tries:\n  - allow: ['*']\n    test_only: true\n");
    let may =
        |function, named| judged(&rights, "bob", &Asked { test: true, named, ..ask(function, "web-1") }).0;
    assert!(may("pkg.installed", json!({"name": "vim"})));
    for word in ["onlyif", "unless", "check_cmd", "template"] {
        assert!(!may("pkg.installed", json!({"name": "vim", word: "id"})), "{word}");
        assert!(!may("state.single", json!({"fun": "pkg.installed", word: "id"})), "{word}");
        assert!(!may("pkg.installed", json!({"names": [{"vim": {word: "id"}}]})), "{word} of one name");
    }
    assert!(!may("cp.get_template", json!({})));
    assert!(may("state.apply", json!({"mods": "web"})));
}

#[test]
#[rule("I-14")]
fn i14_verbs_are_rights_and_what_is_about_no_peel_is_about_all() {
    let (rights, facts) = (rights(), Value::Object(Map::new()));
    let may = |who: &str, verb: &str, peel: Option<&str>| {
        rights.judge(who, &Wanted::Verb(verb), peel.map(|peel| (peel, &facts))).allowed
    };
    assert!(
        may("bob", "kill", Some("db-01"))
            && may("bob", "publish", None)
            && may("bob", "forget", Some("web-1"))
    );
    assert!(
        !may("bob", "forget", Some("db-01")) && !may("bob", "forget", None) && !may("bob", "event", None)
    );
    assert!(!may("eve", "kill", None));
}

#[test]
#[rule("I-14")]
fn i14_a_line_of_a_later_release_denies() {
    let rule = RoleRule {
        effect: RoleEffect::Allow,
        functions: vec!["*".into()],
        verbs: Vec::new(),
        targets: String::new(),
        environments: Vec::new(),
        test_only: false,
        direct: false,
        line: "roles.yaml:1:1".into(),
    };
    let of = |rules: Vec<RoleRule>| {
        let (name, members) = (Token::parse("r").unwrap(), vec![Token::parse("bob").unwrap()]);
        judged(&Rights::new(&[OperatorRole { name, members, rules }]), "bob", &ask("test.ping", "web-02")).0
    };
    assert!(of(vec![rule.clone()]));
    let unknown = RoleRule { effect: RoleEffect::Unknown, functions: Vec::new(), ..rule.clone() };
    assert!(!of(vec![rule.clone(), unknown]));
    let unread = RoleRule { effect: RoleEffect::Deny, functions: vec!["{new}".into()], ..rule.clone() };
    assert!(!of(vec![rule.clone(), unread]));
    let elsewhere = RoleRule { targets: "X@new".into(), ..rule.clone() };
    assert!(!of(vec![elsewhere.clone()]), "a target that cannot be read allows nobody");
    assert!(!of(vec![rule, RoleRule { effect: RoleEffect::Deny, ..elsewhere }]), "and denies everybody");
}

#[test]
#[rule("I-14")]
fn i14_what_is_wrong_with_roles_is_told_at_its_place() {
    for (text, told) in [
        ("[]", "roles.yaml:1:1: expected a map of roles"),
        ("admin: []", "roles.yaml:1:1: `admin` may do everything"),
        ("a b: []", "roles.yaml:1:1: the name of a role"),
        ("r:\n  - alow: [x.y]", "roles.yaml:2:5: unknown key `alow`; did you mean `allow`?"),
        ("r:\n  - targets: web*", "roles.yaml:2:5: the line allows nothing"),
        ("r:\n  - {allow: [a.b], deny: [c.d]}", "roles.yaml:2:5: a line either allows or denies"),
        ("r:\n  - {allow: [a.b], targets: 'I@x:y'}", "roles.yaml:2:29: settings do not bound a role"),
        ("r:\n  - {allow: [a.b], targets: 'G@'}", "is not a target"),
        ("r:\n  - {verbs: [watch]}", "retry, publish, forget, event, enroll, breaker_close"),
        ("r:\n  - {verbs: [kil]}", "roles.yaml:2:14: `kil` is not a verb of a role; did you mean `kill`?"),
        ("r:\n  - {deny: [a.b], direct: true}", "takes neither"),
        ("r: x", "roles.yaml:1:4: expected the lines of a role"),
    ] {
        let found = read(text).unwrap_err();
        assert!(found.iter().any(|one| one.contains(told)), "{text}: {found:?}");
    }
}

/// Files of earlier releases name it.
#[test]
#[rule("I-14")]
fn i14_the_audit_log_is_read_without_a_verb() {
    let roles = read("r:\n  - {verbs: [kill, audit]}").unwrap();
    assert_eq!(roles[0].rules[0].verbs, ["kill"]);
    let roles = read("r:\n  - {verbs: [audit]}").unwrap();
    assert!(roles[0].rules.is_empty(), "{roles:?}");
}

fn line() -> impl Strategy<Value = RoleRule> {
    let functions = prop::sample::subsequence(vec!["state.apply", "test.*", "cmd.run", "*"], 0..3);
    let targets = prop::sample::select(vec!["", "web*", "web-01", "not web*"]);
    (any::<bool>(), functions, targets, any::<bool>(), any::<bool>()).prop_map(
        |(denies, functions, targets, test_only, direct)| RoleRule {
            effect: if denies { RoleEffect::Deny } else { RoleEffect::Allow },
            functions: functions.into_iter().map(String::from).collect(),
            verbs: Vec::new(),
            targets: targets.into(),
            environments: Vec::new(),
            test_only: test_only && !denies,
            direct: direct && !denies,
            line: String::new(),
        },
    )
}

proptest! {
    #[test]
    #[rule("I-14")]
    fn i14_another_line_that_denies_never_allows_more_and_order_says_nothing(
        lines in prop::collection::vec(line(), 0..5),
        more in line(),
        function in prop::sample::select(vec!["state.apply", "test.ping", "cmd.run"]),
        peel in prop::sample::select(vec!["web-01", "web-02", "db-01"]),
        test in any::<bool>(),
        direct in any::<bool>(),
    ) {
        let of = |rules: Vec<RoleRule>| {
            let (name, members) = (Token::parse("r").unwrap(), vec![Token::parse("bob").unwrap()]);
            let rights = Rights::new(&[OperatorRole { name, members, rules }]);
            judged(&rights, "bob", &Asked { test, direct, ..ask(function, peel) }).0
        };
        let before = of(lines.clone());
        let mut with_denial = lines.clone();
        with_denial.push(RoleRule { effect: RoleEffect::Deny, test_only: false, direct: false, ..more });
        prop_assert!(before || !of(with_denial.clone()));
        with_denial.reverse();
        let mut straight = with_denial.clone();
        straight.reverse();
        prop_assert_eq!(of(with_denial), of(straight));
        prop_assert!(!lines.is_empty() || !before, "nothing is allowed by nobody");
    }
}
