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

/// A directory, a file two edges below it, and between them a state that changes nothing.
const APART: &str = r#"
dir:
  file.directory: [{path: "@T@/d"}]
between:
  test.nop: [{require: [{file.directory: dir}]}]
below:
  file.managed: [{path: "@T@/elsewhere"}, {content: x}, {require: [{test.nop: between}]}]
"#;

#[test]
#[rule("S-31")]
fn s31_a_revert_of_a_run_goes_through_states_that_changed_nothing() {
    for words in [&["revert", "--run", "RUN"][..], &["revert"][..]] {
        let scratch = Scratch::with(APART);
        let run = scratch.json(&["apply", "c"])["run_id"].as_str().unwrap().to_string();
        std::fs::remove_file(scratch.path("states/c.zy")).unwrap();
        let words: Vec<&str> = words.iter().map(|word| if *word == "RUN" { &run } else { *word }).collect();
        let result = scratch.json(&words);
        assert_eq!(result["changed"], 2, "{result}");
        let level = |name: &str| result["states"][name]["level"].as_u64().unwrap();
        assert!(level("file.managed:below") > level("file.directory:dir"), "{result}");
    }
    // If what stands on it cannot be reverted, neither is the directory, however far below it lies.
    let scratch = Scratch::with(APART);
    let run = scratch.json(&["apply", "c"])["run_id"].as_str().unwrap().to_string();
    scratch.write("elsewhere", "theirs");
    let result = scratch.json(&["revert", "--run", &run]);
    assert_eq!(result["states"]["file.directory:dir"]["skip_reason"], "require_failed", "{result}");
    assert!(scratch.path("d").is_dir());
    // And it can be asked for again.
    std::fs::write(scratch.path("elsewhere"), "x").unwrap();
    assert_eq!(scratch.json(&["revert", "--run", &run])["changed"], 2);
    assert!(!scratch.path("d").exists());
}

#[test]
#[rule("S-31")]
fn s31_a_run_that_nobody_knows_is_said_to_be_unknown() {
    let scratch = Scratch::with(STATES);
    let run = apply(&scratch, "one");
    for words in [
        &["revert", "--run", "nonsense"][..],
        &["revert", "c", "--run", "nonsense", "--settings", "@T@/settings.yaml"][..],
    ] {
        let refused = scratch.zester(words);
        assert_eq!(refused.code, Some(1));
        let words = &refused.stderr;
        assert!(words.contains("there is no run `nonsense` here") && words.contains(&run), "{words}");
    }
    let again = scratch.zester(&["revert", "--run", &run[..8]]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
}

#[test]
#[rule("S-31", "S-43")]
fn s31_status_offers_to_undo_only_what_left_something_to_undo() {
    let scratch = Scratch::with(
        "ok:\n  file.managed: [{path: \"@T@/ok\"}, {content: x}]\nlost:\n  file.managed: [{path: \"@T@/no/dir/x\"}, {content: x}]\nbad:\n  file.symlink: [{path: \"@T@/ok/x\"}, {target: y}]\n",
    );
    scratch.zester(&["apply", "c"]);
    let status = scratch.json(&["status"]);
    let states: Vec<_> = status["revertible"].as_array().unwrap().iter().map(|undo| &undo["state"]).collect();
    assert_eq!(states, ["file.managed:ok"], "{status}");
}

/// A service that was told of the configuration.
const WATCHED: &str = r#"
conf:
  file.managed: [{path: "@T@/conf"}, {content: new}]
restart:
  cmd.run: [{command: "cat @T@/conf >> @T@/log; echo >> @T@/log"}, {refresh_only: true}, {watch: [{file: conf}]}]
after:
  cmd.run: [{command: "echo after >> @T@/log"}, {refresh_only: true}, {watch: [{cmd: restart}]}]
other:
  cmd.run: [{command: "echo other >> @T@/log"}]
"#;

fn watched() -> (Scratch, String) {
    let scratch = Scratch::with(WATCHED);
    scratch.write("conf", "old");
    let result = scratch.json(&["apply", "c"]);
    assert_eq!(result["changed"], 4, "{result}");
    std::fs::remove_file(scratch.path("log")).unwrap();
    (scratch, result["run_id"].as_str().unwrap().to_string())
}

#[test]
#[rule("S-59")]
fn s59_who_watches_what_a_revert_changed_runs_in_it() {
    let (scratch, _) = watched();
    let result = scratch.json(&["revert", "c"]);
    assert_eq!(scratch.read("log").as_deref(), Some("old\nafter\n"), "{result}");
    let restart = &result["states"]["cmd.run:restart"];
    assert_eq!(
        (restart["changed"].as_bool(), restart["details"]["forced_by"][0].as_str()),
        (Some(true), Some("file.managed:conf"))
    );
    assert_eq!(result["states"]["cmd.run:other"]["diff"], "nothing to revert");
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
    // Nothing was reverted: nobody is told.
    scratch.json(&["revert", "c"]);
    assert_eq!(scratch.read("log").as_deref(), Some("old\nafter\n"));
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
}

#[test]
#[rule("S-59", "S-39")]
fn s59_a_refresh_that_fails_in_a_revert_stays_pending() {
    let (scratch, _) = watched();
    let text = WATCHED.replace("echo after >>", "false; test -e @T@/open && echo after >>");
    scratch.write("states/c.zy", &text);
    assert_eq!(scratch.zester(&["revert", "c"]).code, Some(2));
    let pending = scratch.json(&["status"])["pending_refreshes"].clone();
    assert_eq!(pending, serde_json::json!({ "cmd.run:after": ["cmd.run:restart"] }));
    scratch.write("open", "");
    scratch.write(
        "states/after.zy",
        "after:\n  cmd.run: [{command: \"echo given >> @T@/log\"}, {refresh_only: true}]\n",
    );
    scratch.json(&["apply", "after"]);
    assert_eq!(scratch.read("log").as_deref(), Some("old\ngiven\n"));
}

#[test]
#[rule("S-59", "S-39")]
fn s59_the_refresh_of_who_is_no_part_of_a_revert_stays_pending() {
    let (scratch, _) = watched();
    let text = scratch.zester(&["revert", "c"]).stdout;
    assert!(text.contains("1 reverted  2 refreshed  1 unchanged"), "{text}");
    assert!(text.contains("because file.managed:conf was reverted"), "{text}");

    let (scratch, run) = watched();
    let text = scratch.zester(&["revert", "--run", &run]);
    assert!(text.stderr.contains("cmd.run:restart has a pending refresh"), "{}", text.stderr);
    assert_eq!((scratch.read("conf").as_deref(), scratch.read("log")), (Some("old"), None));
    let pending = scratch.json(&["status"])["pending_refreshes"].clone();
    assert_eq!(pending, serde_json::json!({ "cmd.run:restart": ["file.managed:conf"] }));
    scratch.json(&["apply", "c"]);
    assert_eq!(scratch.read("log").as_deref(), Some("other\nnew\nafter\n"));
}

#[test]
#[rule("S-59")]
fn s59_a_revert_that_was_refused_leaves_nothing_pending() {
    let (scratch, run) = watched();
    scratch.write("conf", "theirs");
    assert_eq!(scratch.zester(&["revert", "--run", &run]).code, Some(2));
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
}

/// Both watch what was reverted; one needs the other, which fails.
#[test]
#[rule("S-59", "S-39")]
fn s59_a_refresh_that_was_kept_from_running_in_a_revert_stays_pending() {
    let text = r#"
conf:
  file.managed: [{path: @T@/conf}, {content: new}]
first:
  cmd.run: [{command: "test ! -e @T@/broken"}, {refresh_only: true}, {watch: [{file: conf}]}]
second:
  cmd.run: [{command: "echo second >> @T@/log"}, {refresh_only: true}, {watch: [{file: conf}]}, {require: [{cmd: first}]}]
"#;
    let scratch = Scratch::with(text);
    scratch.write("conf", "old");
    assert_eq!(scratch.json(&["apply", "c"])["changed"], 3);
    std::fs::remove_file(scratch.path("log")).unwrap();
    scratch.write("broken", "");
    let result = scratch.json(&["revert", "c"]);
    assert_eq!(scratch.read("log"), None, "{result}");
    let pending = scratch.json(&["status"])["pending_refreshes"].clone();
    let wanted = serde_json::json!({
        "cmd.run:first": ["file.managed:conf"], "cmd.run:second": ["file.managed:conf"],
    });
    assert_eq!(pending, wanted, "{result}");
}

#[test]
#[rule("S-31")]
fn s31_status_and_revert_tell_of_a_record_that_cannot_be_read() {
    let scratch = Scratch::with("a:\n  file.managed: [{path: @T@/a}, {content: x}]\n");
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(0));
    let journal = std::fs::read_dir(scratch.path("data/journal")).unwrap().map(|entry| entry.unwrap().path());
    let log = journal.into_iter().find(|path| path.extension().is_some_and(|end| end == "log")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(6).position(|six| six == b"intent").unwrap();
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let status = scratch.zester(&["status"]);
    assert!(
        status.stdout.contains("cannot be read") && !status.stdout.contains("  nothing\n"),
        "{}",
        status.stdout
    );
    let told = scratch.json(&["status"])["damaged"][0].as_str().unwrap_or_default().to_string();
    assert!(told.contains("is damaged"), "{told}");
    for (words, code) in [(&["revert", "c"][..], 2), (&["revert"], 1)] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(code), "{words:?}: {} {}", done.stdout, done.stderr);
        assert!(
            format!("{}{}", done.stdout, done.stderr).contains("is damaged"),
            "{words:?}: {}",
            done.stderr
        );
    }
}
