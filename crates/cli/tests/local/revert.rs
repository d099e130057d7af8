//! Undoing what apply did here (S-31).

use crate::scratch::Scratch;
use zester_rule::rule;

const STATES: &str = "conf:\n  file.managed: [{path: \"@T@/conf\"}, {content: \"{{ settings.v }}\"}]\n";

fn apply(scratch: &Scratch, version: &str) -> String {
    scratch.write("settings.yaml", &format!("v: {version}\n"));
    let result = scratch.json(&["apply", "c", "--settings", "@T@/settings.yaml"]);
    assert_eq!(result["changed"], 1, "{result}");
    result["run_id"].as_str().unwrap().to_string()
}

fn revert(scratch: &Scratch, words: &[&str]) -> serde_json::Value {
    let mut all = vec!["revert"];
    all.extend(words);
    all.extend(["--settings", "@T@/settings.yaml"]);
    scratch.json(&all)
}

#[test]
#[rule("S-31")]
fn s31_each_revert_goes_one_step_back() {
    let scratch = Scratch::with(STATES);
    for version in ["one", "two", "three"] {
        apply(&scratch, version);
    }
    for left in [Some("two"), Some("one"), None] {
        assert_eq!(revert(&scratch, &["c"])["changed"], 1);
        assert_eq!(scratch.read("conf").as_deref(), left);
    }
    let nothing = revert(&scratch, &["c"]);
    assert_eq!(nothing["changed"], 0);
    assert_eq!(nothing["states"]["file.managed:conf"]["diff"], "nothing to revert");
}

#[test]
#[rule("S-31")]
fn s31_what_somebody_changed_since_is_not_overwritten_unless_forced() {
    let scratch = Scratch::with(STATES);
    scratch.write("conf", "original");
    apply(&scratch, "ours");
    scratch.write("conf", "theirs");
    let refused = revert(&scratch, &["c"]);
    assert_eq!(refused["failed"], 1);
    let error = refused["states"]["file.managed:conf"]["error"].as_str().unwrap().to_string();
    assert!(error.contains("conf") && error.contains("--force"), "{error}");
    assert_eq!(scratch.read("conf").as_deref(), Some("theirs"));
    assert_eq!(revert(&scratch, &["c", "--force"])["changed"], 1);
    assert_eq!(scratch.read("conf").as_deref(), Some("original"));
}

#[test]
#[rule("S-31")]
fn s31_a_run_can_be_undone_when_its_state_files_are_gone() {
    let scratch = Scratch::with(STATES);
    scratch.write("conf", "original");
    let run = apply(&scratch, "ours");
    std::fs::remove_file(scratch.path("states/c.zy")).unwrap();
    let undone = scratch.json(&["revert", "--run", &run[..12]]);
    assert_eq!((undone["changed"].as_u64(), undone["mode"].as_str()), (Some(1), Some("revert")));
    assert_eq!(scratch.read("conf").as_deref(), Some("original"));
    let again = scratch.zester(&["revert", "--run", &run]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("nothing to revert"), "{}", again.stderr);
}

#[test]
#[rule("S-31")]
fn s31_if_a_revert_fails_what_it_depends_on_is_left_alone() {
    let scratch = Scratch::with(
        "base:\n  file.managed: [{path: \"@T@/base\"}, {content: new}]\nmiddle:\n  file.managed: [{path: \"@T@/middle\"}, {content: new}, {require: [{file: base}]}]\ntop:\n  file.managed: [{path: \"@T@/top\"}, {content: new}, {require: [{file: middle}]}]\n",
    );
    scratch.json(&["apply", "c"]);
    scratch.write("middle", "theirs");
    let result = scratch.json(&["revert", "c"]);
    assert_eq!(result["states"]["file.managed:top"]["changed"], true);
    assert_ne!(result["states"]["file.managed:middle"]["error"], "");
    assert_eq!(result["states"]["file.managed:base"]["skip_reason"], "require_failed");
    assert_eq!(scratch.read("base").as_deref(), Some("new"));
}

#[test]
#[rule("S-31")]
fn s31_directories_made_on_the_way_go_if_they_are_empty() {
    let scratch =
        Scratch::with("f:\n  file.managed: [{path: \"@T@/a/b/f\"}, {content: x}, {makedirs: true}]\n");
    scratch.json(&["apply", "c"]);
    scratch.write("a/mine", "kept");
    assert_eq!(scratch.json(&["revert", "c"])["changed"], 1);
    assert!(!scratch.path("a/b").exists() && scratch.path("a/mine").exists());
}

#[test]
#[rule("S-31")]
fn s31_commands_have_nothing_to_revert() {
    let scratch = Scratch::with("x:\n  cmd.run: [{command: \"touch @T@/x\"}]\n");
    scratch.json(&["apply", "c"]);
    let result = scratch.json(&["revert", "c"]);
    assert_eq!((result["changed"].as_u64(), result["failed"].as_u64()), (Some(0), Some(0)));
    assert!(scratch.path("x").exists());
}
