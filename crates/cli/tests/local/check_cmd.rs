//! `check_cmd`: what must pass before a state counts as in place (S-43).

use crate::scratch::{Scratch, wait_for};
use zester_rule::rule;

fn lines(scratch: &Scratch, name: &str) -> usize {
    scratch.read(name).map_or(0, |text| text.lines().count())
}

#[test]
#[rule("S-43")]
fn s43_a_managed_file_is_checked_before_it_is_put_in_place() {
    let scratch = Scratch::with(
        r#"
conf:
  file.managed:
    - path: @T@/deep/conf
    - content: "@C@\n"
    - mode: "0640"
    - makedirs: true
    - check_cmd: "@T@/checker --strict"
reload:
  cmd.run:
    - command: echo reloaded >> @T@/log
    - refresh_only: true
    - watch: [{file: conf}]
"#,
    );
    scratch.write(
        "checker",
        "#!/bin/sh\necho \"$1 $(stat -c %a \"$2\") ${2%/*}\" >> @T@/seen\ngrep -q good \"$2\"\n",
    );
    std::process::Command::new("chmod").arg("+x").arg(scratch.path("checker")).status().unwrap();
    let states = scratch.read("states/c.zy").unwrap();
    scratch.write("states/c.zy", &states.replace("@C@", "bad"));
    for _ in 0..2 {
        let result = scratch.json(&["apply", "c"]);
        let conf = &result["states"]["file.managed:conf"];
        assert!(conf["error"].as_str().unwrap().contains("check_cmd"), "{conf}");
        assert_eq!(conf["details"].get("touched"), None, "{conf}");
        assert!(!scratch.path("deep").exists(), "nothing is left of it");
    }
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
    scratch.write("states/c.zy", &states.replace("@C@", "good"));
    assert_eq!(lines(&scratch, "seen"), 2);
    assert_eq!(scratch.json(&["check", "c"])["changed"], 2);
    assert_eq!(lines(&scratch, "seen"), 2, "a dry run writes no file that could be checked");
    let result = scratch.json(&["apply", "c"]);
    assert_eq!((result["failed"].as_u64(), lines(&scratch, "log")), (Some(0), 1), "{result}");
    let seen = scratch.read("seen").unwrap();
    assert!(seen.lines().all(|line| line == scratch.fill("--strict 640 @T@/deep")), "{seen}");
    let names: Vec<_> =
        std::fs::read_dir(scratch.path("deep")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["conf"]);
    scratch.write("states/c.zy", &states.replace("@C@", "bad"));
    assert_eq!(scratch.json(&["apply", "c"])["failed"], 1);
    assert_eq!(scratch.read("deep/conf").as_deref(), Some("good\n"), "the good one stays");
}

/// Checked after the change, and watched.
const AFTER: &str = r#"
tree:
  file.directory:
    - path: @T@/tree
    - check_cmd: "echo asked >> @T@/asked; test -e @T@/fine"
reload:
  cmd.run:
    - command: echo reloaded >> @T@/log
    - refresh_only: true
    - watch: [{file: tree}]
"#;

#[test]
#[rule("S-43")]
fn s43_what_did_not_pass_is_not_in_place_in_the_next_run_and_its_watchers_are_told() {
    let scratch = Scratch::with(AFTER);
    let tree = |words: &[&str]| scratch.json(words)["states"]["file.directory:tree"].clone();
    let first = tree(&["apply", "c"]);
    assert_eq!((&first["changed"], &first["details"]["touched"]), (&false.into(), &true.into()), "{first}");
    assert!(scratch.path("tree").is_dir());
    let status = scratch.json(&["status"]);
    assert_eq!(status["pending_refreshes"]["cmd.run:reload"][0], "file.directory:tree");
    assert_eq!(status["unconfirmed"], serde_json::json!(["file.directory:tree"]));
    let predicted = tree(&["check", "c"]);
    assert_eq!((&predicted["changed"], &predicted["details"]["unconfirmed"]), (&true.into(), &true.into()));
    assert_eq!(lines(&scratch, "asked"), 1, "a dry run asks nothing");
    let again = tree(&["apply", "c"]);
    assert!(again["error"].as_str().unwrap().contains("check_cmd"), "nothing differs, and yet: {again}");
    assert_eq!((lines(&scratch, "asked"), lines(&scratch, "log")), (2, 0));
    scratch.write("fine", "");
    assert_eq!(tree(&["apply", "c"])["changed"], true, "its success is a change");
    assert_eq!((lines(&scratch, "asked"), lines(&scratch, "log")), (3, 1));
    let in_place = scratch.json(&["apply", "c"]);
    assert_eq!((in_place["changed"].as_u64(), lines(&scratch, "asked")), (Some(0), 3), "{in_place}");
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], serde_json::json!({}));
}

#[test]
#[rule("S-43")]
fn s43_a_renamed_state_that_did_not_pass_can_be_dropped_by_hand() {
    let scratch = Scratch::with(AFTER);
    scratch.json(&["apply", "c"]);
    let listed = scratch.zester(&["status"]).stdout;
    assert!(
        listed.contains("  file.directory:tree\n  The next run that holds one of these asks"),
        "{listed}"
    );
    let dropped = scratch.zester(&["status", "--forget", "file.directory:tree"]);
    assert_eq!(dropped.code, Some(0), "{}", dropped.stderr);
    assert_eq!(dropped.stdout, "file.directory:tree is not listed any more as not in place\n");
    assert_eq!(scratch.json(&["status"])["unconfirmed"], serde_json::json!([]));
}

#[test]
#[rule("S-43")]
fn s43_a_second_try_does_not_succeed_because_nothing_differs_any_more() {
    let retry = "    - retry: {attempts: 2, interval: 0}\n    - check_cmd";
    let scratch = Scratch::with(&AFTER.replace("    - check_cmd", retry));
    let result = scratch.json(&["apply", "c"]);
    let tree = &result["states"]["file.directory:tree"];
    assert!(tree["error"].as_str().unwrap().contains("check_cmd"), "{tree}");
    assert_eq!((&tree["details"]["attempts"], lines(&scratch, "asked")), (&3.into(), 3));
    let passes = AFTER.replace("test -e @T@/fine", "test $(wc -l < @T@/asked) -ge 2");
    let scratch = Scratch::with(&passes.replace("    - check_cmd", retry));
    let result = scratch.json(&["apply", "c"]);
    assert_eq!(result["states"]["file.directory:tree"]["changed"], true, "{result}");
    assert_eq!((lines(&scratch, "asked"), lines(&scratch, "log")), (2, 1));
}

#[test]
#[rule("S-43")]
fn s43_a_kill_while_it_is_asked_leaves_it_unconfirmed() {
    let slow =
        "touch @T@/asking; n=0; until test -e @T@/fine || test $((n += 1)) -gt 1500; do sleep 0.02; done";
    let scratch = Scratch::with(&AFTER.replace("test -e @T@/fine", slow));
    let mut child = scratch.spawn(&["apply", "c"]);
    wait_for("the check_cmd", || scratch.path("asking").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.write("fine", "");
    let predicted = scratch.json(&["check", "c"]);
    assert_eq!(predicted["states"]["file.directory:tree"]["details"]["unconfirmed"], true, "{predicted}");
    let result = scratch.json(&["apply", "c"]);
    assert_eq!(result["states"]["file.directory:tree"]["changed"], true, "{result}");
    assert_eq!(lines(&scratch, "log"), 1);
    assert_eq!(scratch.json(&["apply", "c"])["changed"], 0);
}

#[test]
#[rule("S-43")]
fn s43_what_is_checked_has_the_owner_that_the_file_will_have() {
    if !nix::unistd::geteuid().is_root() {
        zester_testkit::skip!("only root can give a file away");
    }
    let scratch = Scratch::with(
        r#"
conf:
  file.managed:
    - path: @T@/conf
    - content: x
    - user: nobody
    - check_cmd: "stat -c %U:%a >> @T@/seen"
    - mode: "0600"
"#,
    );
    let result = scratch.json(&["apply", "c"]);
    assert_eq!(result["failed"], 0, "{result}");
    assert_eq!(scratch.read("seen").as_deref(), Some("nobody:600\n"));
}

#[test]
#[rule("S-31", "S-43")]
fn s43_a_revert_sweeps_what_a_kill_during_the_check_left() {
    let scratch = Scratch::with(
        r#"
conf:
  file.managed:
    - path: @T@/etc/conf
    - content: new
    - check_cmd: "touch @T@/asking; n=0; until test -e @T@/fine || test $((n += 1)) -gt 1500; do sleep 0.02; done; true"
"#,
    );
    scratch.write("etc/conf", "old");
    let names = || {
        let entries = std::fs::read_dir(scratch.path("etc")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut child = scratch.spawn(&["apply", "c"]);
    wait_for("the check_cmd", || scratch.path("asking").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    scratch.write("fine", "");
    assert!(names().iter().any(|name| name.starts_with(".zester-check-")), "{:?}", names());
    let reverted = scratch.json(&["revert", "c"]);
    assert_eq!(reverted["failed"], 0, "{reverted}");
    assert_eq!(names(), ["conf"]);
    assert_eq!(scratch.read("etc/conf").as_deref(), Some("old"));
}
