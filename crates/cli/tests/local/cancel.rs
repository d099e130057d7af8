//! Ctrl-C, SIGTERM and the deadline: results all the same, the right exit code, no process left.

use crate::scratch::{Done, Scratch, wait_for};
use std::process::Command;
use zester_rule::rule;

const STATES: &str = r#"
quick:
  test.succeed_with_changes: []
slow:
  cmd.run: [{command: "touch @T@/begun; sleep 61.@T@ & sleep 61.@T@; true"}]
never:
  test.succeed_with_changes: [{require: [cmd.run:slow]}]
"#;

fn scratch() -> Scratch {
    // `sleep` takes a fraction; the pid of this test and a counter make it findable.
    let scratch = Scratch::new();
    scratch.write("states/c.zy", &STATES.replace("61.@T@", &format!("61.{}", mark(&scratch))));
    scratch
}

fn mark(scratch: &Scratch) -> String {
    scratch.root().display().to_string().bytes().rev().take(6).map(|b| char::from(b'0' + b % 10)).collect()
}

fn left_over(scratch: &Scratch) -> bool {
    let pattern = format!("sleep 61[.]{}", mark(scratch));
    Command::new("pgrep").args(["-f", &pattern]).output().unwrap().status.success()
}

fn signalled(signal: &str) -> (Scratch, Done) {
    let scratch = scratch();
    let child = scratch.spawn(&["apply", "c", "--format", "json"]);
    wait_for("the slow state", || scratch.path("begun").exists());
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    let done: Done = child.wait_with_output().unwrap().into();
    (scratch, done)
}

#[test]
#[rule("S-32", "C-6")]
fn s32_c6_interrupted_runs_end_cleanly_with_their_results() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let (scratch, done) = signalled(signal);
        assert_eq!(done.code, Some(code), "{}", done.stderr);
        let result = done.json();
        assert_eq!((result["canceled"].as_bool(), result["success"].as_bool()), (Some(true), Some(false)));
        assert_eq!(result["states"]["test.succeed_with_changes:quick"]["changed"], true);
        assert_eq!(result["states"]["cmd.run:slow"]["error"], "canceled");
        assert_eq!(result["states"]["test.succeed_with_changes:never"]["skip_reason"], "canceled");
        assert!(!left_over(&scratch));
    }
}

#[test]
#[rule("C-6")]
fn c6_the_second_ctrl_c_leaves_at_once_and_takes_its_commands_along() {
    let scratch = scratch();
    scratch.write("states/c.zy", &format!(
        "stubborn:\n  cmd.run: [{{command: \"trap '' TERM; touch @T@/begun; while :; do sleep 61.{}; done\"}}]\n",
        mark(&scratch)
    ));
    let mut child = scratch.spawn(&["apply", "c"]);
    wait_for("the state", || scratch.path("begun").exists());
    let mut ended = None;
    wait_for("the end", || {
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(130));
    wait_for("the end of its commands", || !left_over(&scratch));
}

#[test]
#[rule("C-3")]
fn c3_a_deadline_is_exit_code_two() {
    let scratch = scratch();
    let done = scratch.zester(&["apply", "c", "--timeout", "3s", "--format", "json"]);
    assert_eq!((done.code, done.json()["canceled"].as_bool()), (Some(2), Some(true)));
    assert!(!left_over(&scratch));
}

#[test]
#[rule("C-3", "S-32")]
fn c3_a_deadline_says_timeout_and_after_how_long() {
    let scratch = scratch();
    let words = ["apply", "c", "--timeout", "3s"];
    let result = scratch.json(&words);
    assert_eq!((result["timed_out"].as_bool(), result["canceled"].as_bool()), (Some(true), Some(true)));
    assert_eq!(result["error"], "timeout: canceled after 3s");
    let text = scratch.zester(&words);
    assert!(text.stdout.contains("timeout: canceled after 3s"), "{}", text.stdout);
    let status = scratch.json(&["status"]);
    assert_eq!(status["runs"][0]["timed_out"], true, "{status}");
    assert!(!left_over(&scratch));
}

#[test]
#[rule("C-15")]
fn c15_no_time_at_all_is_a_usage_error() {
    let scratch = Scratch::with("x:\n  cmd.run: [{command: \"touch @T@/x\"}]\n");
    for words in [&["apply", "c", "--timeout", "0"][..], &["*", "test.ping", "--timeout", "0s"][..]] {
        let refused = scratch.zester(words);
        assert_eq!(refused.code, Some(1), "{words:?}");
        assert!(refused.stderr.contains("--timeout"), "{}", refused.stderr);
    }
    assert!(!scratch.path("x").exists());
}
