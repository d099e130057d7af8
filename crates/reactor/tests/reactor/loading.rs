//! `top.zy` and its files.

use super::double::{Double, files, node, rules};
use serde_json::{Value, json};
use std::time::Duration;
use zester_reactor::RuleSet;
use zester_reactor::rules as top;
use zester_rule::rule;

fn log() -> Value {
    json!({"say": {"log": "hi"}})
}

#[test]
#[rule("R-4")]
fn r4_both_forms_and_a_bare_list_are_read_in_order() {
    let entries = json!([
        {"web-*/deploy/*": ["reactor.deploy", "reactor.web.restart"]},
        {"*/beacon/*": {"react": ["reactor.heal"], "throttle": "30s"}},
        {"_admin/*": {"react": "reactor.heal"}},
    ]);
    for top in [entries.clone(), json!({"reactor": entries})] {
        let read = top::read(&node(&top)).unwrap();
        let told: Vec<_> =
            read.iter().map(|rule| (rule.glob.as_str(), &*rule.reference, rule.path.as_str())).collect();
        assert_eq!(
            told,
            [
                ("web-*/deploy/*", "reactor.deploy", "deploy.zy"),
                ("web-*/deploy/*", "reactor.web.restart", "web/restart.zy"),
                ("*/beacon/*", "reactor.heal", "heal.zy"),
                ("_admin/*", "reactor.heal", "heal.zy"),
            ]
        );
        assert_eq!(read[2].throttle, Some(Duration::from_secs(30)));
        assert_eq!(read[3].throttle, None);
    }
}

#[test]
#[rule("R-4")]
fn r4_what_is_wrong_is_told_with_a_way_out() {
    for (top, words) in [
        (json!("x"), "expected `reactor:` with a list"),
        (json!({"reactr": []}), "did you mean `reactor`?"),
        (json!({"reactor": "x"}), "expected a list of rules"),
        (json!([5]), "expected `GLOB: [references]`"),
        (json!([{"a[": ["reactor.x"]}]), "is not a glob"),
        (json!([{"{a,b}/*": ["reactor.x"]}]), "braces"),
        (json!([{"deploy": ["reactor.x"]}]), "matches no event"),
        (json!([{"*": ["salt://reactor/web/x.sls"]}]), "write `reactor.web.x`"),
        (json!([{"*": ["web"]}]), "write `reactor.web`"),
        (json!([{"*": ["reactor.a/../b"]}]), "letters, digits"),
        (json!([{"*": ["reactor."]}]), "letters, digits"),
        (json!([{"*": {"reactt": ["reactor.x"]}}]), "did you mean `react`?"),
        (json!([{"*": {"throttle": "1s"}}]), "`react` is missing"),
        (json!([{"*": {"react": ["reactor.x"], "throttle": "soon"}}]), "is not a duration"),
        (json!([{"*": [["reactor.x"]]}]), "expected a reference"),
    ] {
        let told = top::read(&node(&top)).unwrap_err();
        let sentence = format!("{}; {}", told[0].message, told[0].hint.clone().unwrap_or_default());
        assert!(sentence.contains(words), "{top}: {sentence}");
        assert!(told[0].span.is_some());
    }
}

#[test]
#[rule("R-4")]
fn r4_a_missing_file_fails_the_whole_load() {
    let of = files(&[("top.zy", json!([{"*/a": ["reactor.web.restrat"]}])), ("web/restart.zy", log())]);
    let told = RuleSet::load(1, &of, &Double).err().unwrap();
    assert_eq!(told, ["top.zy:1: there is no file web/restrat.zy; did you mean web/restart.zy?"]);
}

#[test]
#[rule("R-4", "R-13")]
fn r13_no_files_are_no_rules_and_files_without_top_are_a_mistake() {
    assert!(RuleSet::load(7, &files(&[]), &Double).unwrap().rules().is_empty());
    let told = RuleSet::load(7, &files(&[("a.zy", log())]), &Double).err().unwrap();
    assert!(told[0].starts_with("top.zy is missing"), "{told:?}");
}

#[test]
#[rule("R-4")]
fn r4_all_matching_entries_fire_in_file_order() {
    let set = rules(&[
        (
            "top.zy",
            json!([{"*/z": ["reactor.z", "reactor.a"]}, {"web*": ["reactor.a"]}, {"db/*": ["reactor.z"]}]),
        ),
        ("a.zy", log()),
        ("z.zy", log()),
    ]);
    assert_eq!(set.matching("web-1/z"), [0, 1, 2]);
    assert_eq!(set.matching("db/z"), [0, 1, 3]);
    assert!(set.matching("db/y") == [3]);
}

#[test]
#[rule("R-7")]
fn r7_the_loader_tells_of_dangerous_enrollment() {
    let open = "{\"a\": {\n \"enroll.approve\": {\"id\": \"x\", \"require_peel\": \"*\"}}}";
    let mut of = files(&[("top.zy", json!([{"*": ["reactor.let_in"]}]))]);
    of.insert("let_in.zy".into(), open.into());
    let set = RuleSet::load(1, &of, &Double).unwrap();
    assert_eq!(set.warnings.len(), 3, "{:?}", set.warnings);
    of.insert("let_in.zy".into(), "{\"a\": {\n \"enroll.approve\": {\"id\": \"x\"}}}".into());
    let told = RuleSet::load(1, &of, &Double).err().unwrap();
    assert!(told[0].contains("needs `require_peel`"), "{told:?}");
}
