//! A refresh is never lost (S-39).

use crate::scratch::{Scratch, wait_for};
use zester_rule::rule;

/// The configuration changes, something fails, and the restart depends on both.
const STATES: &str = r#"
conf:
  file.managed:
    - path: @T@/conf
    - content: "v1"
gate:
  cmd.run:
    - command: test -e @T@/open
    - require: [{file: conf}]
restart:
  cmd.run:
    - command: echo restarted >> @T@/log
    - refresh_only: true
    - watch: [{file: conf}]
    - require: [{cmd: gate}]
"#;

fn restarts(scratch: &Scratch) -> usize {
    scratch.read("log").map_or(0, |log| log.lines().count())
}

#[test]
#[rule("S-39")]
fn s39_a_refresh_outlives_a_failure_and_is_given_once() {
    let scratch = Scratch::with(STATES);
    let first = scratch.json(&["apply", "c"]);
    assert_eq!((first["failed"].as_u64(), restarts(&scratch)), (Some(1), 0));
    assert_eq!(first["states"]["cmd.run:restart"]["skip_reason"], "require_failed");
    let status = scratch.json(&["status"]);
    assert_eq!(status["pending_refreshes"]["cmd.run:restart"][0], "file.managed:conf");

    scratch.write("open", "");
    let predicted = scratch.json(&["check", "c"]);
    assert_eq!(predicted["states"]["cmd.run:restart"]["changed"], true, "a dry run shows what is pending");
    assert_eq!(restarts(&scratch), 0);
    let second = scratch.json(&["apply", "c"]);
    assert_eq!(second["states"]["file.managed:conf"]["changed"], false);
    assert_eq!(second["states"]["cmd.run:restart"]["changed"], true);
    assert_eq!(second["states"]["cmd.run:restart"]["details"]["forced"], "pending_refresh");
    assert_eq!(restarts(&scratch), 1);

    let third = scratch.json(&["apply", "c"]);
    assert_eq!(third["states"]["cmd.run:restart"]["changed"], false);
    assert_eq!(restarts(&scratch), 1);
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
}

#[test]
#[rule("S-39")]
fn s39_a_refresh_outlives_kill_nine() {
    let scratch =
        Scratch::with(&STATES.replace("test -e @T@/open", "touch @T@/at-gate; n=0; until test -e @T@/open || test $((n += 1)) -gt 1500; do sleep 0.02; done; test -e @T@/open"));
    let mut child = scratch.spawn(&["apply", "c"]);
    wait_for("the gate", || scratch.path("at-gate").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(scratch.read("conf").as_deref(), Some("v1"));
    assert_eq!(restarts(&scratch), 0);

    scratch.write("open", "");
    let second = scratch.json(&["apply", "c"]);
    assert_eq!(second["states"]["file.managed:conf"]["changed"], false);
    assert_eq!(restarts(&scratch), 1);
    scratch.json(&["apply", "c"]);
    assert_eq!(restarts(&scratch), 1);
}

#[test]
#[rule("S-39")]
fn s39_a_refresh_outlives_failhard_and_cancel() {
    for (attribute, words) in
        [("    - failhard: true\n", &["apply", "c"][..]), ("", &["apply", "c", "--timeout", "3s"][..])]
    {
        let gate = if attribute.is_empty() { "test -e @T@/open || sleep 60" } else { "test -e @T@/open" };
        let text = STATES.replace("test -e @T@/open", gate).replace(
            "    - require: [{file: conf}]\n",
            &format!("{attribute}    - require: [{{file: conf}}]\n"),
        );
        let scratch = Scratch::with(&text);
        assert_eq!(scratch.zester(words).code, Some(2));
        assert_eq!(restarts(&scratch), 0);
        scratch.write("open", "");
        scratch.json(&["apply", "c"]);
        assert_eq!(restarts(&scratch), 1, "{attribute}");
        scratch.json(&["apply", "c"]);
        assert_eq!(restarts(&scratch), 1, "{attribute}");
    }
}

#[test]
#[rule("S-39")]
fn s39_a_failed_refresh_stays_pending() {
    let scratch = Scratch::with(
        "conf:\n  file.managed: [{path: \"@T@/conf\"}, {content: v1}]\nrestart:\n  cmd.run:\n    - command: \"echo x >> @T@/log; test -e @T@/open\"\n    - refresh_only: true\n    - watch: [{file: conf}]\n",
    );
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(2));
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(2));
    scratch.write("open", "");
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(0));
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(0));
    assert_eq!(restarts(&scratch), 3);
}

/// The restart was pending and then got another name, or a condition, or nobody needs it any more.
fn with_pending() -> Scratch {
    let scratch = Scratch::with(STATES);
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(2));
    assert_eq!(scratch.json(&["status"])["pending_refreshes"].as_object().unwrap().len(), 1);
    scratch.write("open", "");
    scratch
}

#[test]
#[rule("S-39")]
fn s39_a_condition_that_is_not_met_clears_the_pending_refresh_on_disk() {
    for condition in ["onchanges: [{test.nop: still}]", "prereq: [{test.nop: still}]"] {
        let scratch = with_pending();
        let text = STATES.replace("    - require: [{cmd: gate}]\n", &format!("    - {condition}\n"));
        scratch.write("states/c.zy", &format!("{text}still:\n  test.nop: []\n"));
        let result = scratch.json(&["apply", "c"]);
        assert_eq!(result["states"]["cmd.run:restart"]["skipped"], true, "{result}");
        assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}), "{condition}");
    }
}

#[test]
#[rule("S-39")]
fn s39_a_watcher_that_was_renamed_takes_the_refresh_over_and_one_that_is_gone_is_still_listed() {
    let scratch = with_pending();
    scratch.write("states/c.zy", &STATES.replace("restart:", "reload:"));
    let predicted = scratch.json(&["check", "c"]);
    assert_eq!(predicted["states"]["cmd.run:reload"]["changed"], true, "{predicted}");
    let told = scratch.zester(&["apply", "c"]);
    assert!(
        told.stderr.contains("cmd.run:restart is gone") && told.stderr.contains("cmd.run:reload"),
        "{}",
        told.stderr
    );
    assert_eq!(restarts(&scratch), 1);
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));

    let scratch = with_pending();
    scratch.write("states/c.zy", "conf:\n  file.managed: [{path: \"@T@/conf\"}, {content: v1}]\n");
    // It may be in another file by now.
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(0));
    let pending = scratch.json(&["status"])["pending_refreshes"].clone();
    assert_eq!(pending, serde_json::json!({ "cmd.run:restart": ["file.managed:conf"] }));
    scratch.write("states/d.zy", &format!("include: [c]\n{}", &STATES[STATES.find("gate:").unwrap()..]));
    assert_eq!(scratch.zester(&["apply", "d"]).code, Some(0));
    assert_eq!(restarts(&scratch), 1);
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
}

#[test]
#[rule("S-39")]
fn s39_a_pending_refresh_can_be_dropped_by_hand() {
    let scratch = with_pending();
    assert!(scratch.zester(&["status"]).stdout.contains("zester status --forget STATE"));
    let wrong = scratch.zester(&["status", "--forget", "cmd.run:restrat"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("did you mean `cmd.run:restart`?"), "{}", wrong.stderr);
    assert_eq!(scratch.zester(&["status", "--forget", "cmd.run:restart"]).code, Some(0));
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
    scratch.json(&["apply", "c"]);
    assert_eq!(restarts(&scratch), 0);
}
