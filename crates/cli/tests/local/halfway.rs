//! What fails or is killed half-way has changed something, and whoever watches it is told (S-43, S-59).

use crate::scratch::{Scratch, wait_for};
use serde_json::json;
use std::os::unix::net::UnixListener;
use zester_rule::rule;

const RELOAD: &str = r#"
reload:
  cmd.run:
    - command: echo reloaded >> @T@/log
    - refresh_only: true
    - watch: [{file: d}]
"#;

/// A directory whose name is too long for the disk, which shows only after the directory above it was made.
fn too_long(more: &str) -> Scratch {
    let name = "x".repeat(300);
    Scratch::with(&format!(
        "d:\n  file.directory:\n    - path: @T@/new/{name}\n    - makedirs: true\n{more}{RELOAD}"
    ))
}

#[test]
#[rule("S-43")]
fn s43_a_file_kind_that_fails_half_way_is_touched_and_its_watcher_stays_pending() {
    let scratch = too_long("");
    let result = scratch.json(&["apply", "c"]);
    let state = &result["states"]["file.directory:d"];
    assert!(state["error"].as_str().unwrap().contains("too long"), "{state}");
    assert!(scratch.path("new").is_dir());
    assert_eq!(state["details"]["touched"], true, "{state}");
    let status = scratch.json(&["status"]);
    assert_eq!(status["pending_refreshes"], json!({"cmd.run:reload": ["file.directory:d"]}));
    // Nothing is touched any more, and the refresh stays pending.
    let again = scratch.json(&["apply", "c"]);
    assert_eq!(again["states"]["file.directory:d"]["details"].get("touched"), None, "{again}");
    assert_eq!(scratch.json(&["status"])["pending_refreshes"], status["pending_refreshes"]);
}

#[test]
#[rule("S-43")]
fn s43_what_failed_half_way_is_not_in_place_before_its_check_cmd_has_passed() {
    let scratch = too_long("    - check_cmd: \"true\"\n");
    assert_eq!(scratch.json(&["apply", "c"])["failed"], 1);
    assert_eq!(scratch.json(&["status"])["unconfirmed"], json!(["file.directory:d"]));
}

/// Files that wait for each other, and somebody who watches the last, which a revert removes first.
fn chain(files: usize) -> Scratch {
    let mut states = String::new();
    for n in 0..files {
        states += &format!("f{n}:\n  file.managed:\n    - path: @T@/f{n}\n    - content: x\n");
        if n > 0 {
            states += &format!("    - require: [{{file: f{}}}]\n", n - 1);
        }
    }
    let slow = "echo began >> @T@/log; n=0; until test -e @T@/open || test $((n += 1)) -gt 1500; do sleep 0.02; done; echo ended >> @T@/log";
    let watch = files - 1;
    states += &format!(
        "reload:\n  cmd.run:\n    - command: {slow}\n    - refresh_only: true\n    - watch: [{{file: f{watch}}}]\n"
    );
    Scratch::with(&states)
}

#[test]
#[rule("S-59")]
fn s59_a_revert_that_is_killed_half_way_leaves_the_refresh_pending() {
    const FILES: usize = 30;
    let scratch = chain(FILES);
    scratch.write("open", "");
    assert_eq!(scratch.json(&["apply", "c"])["failed"], 0);
    std::fs::remove_file(scratch.path("open")).unwrap();
    let last = format!("f{}", FILES - 1);
    // Should it get as far as the refresh before the kill, it waits there.
    let mut revert = scratch.spawn(&["revert", "c"]);
    wait_for("the first file to be gone", || !scratch.path(&last).exists());
    revert.kill().unwrap();
    revert.wait().unwrap();
    let status = scratch.json(&["status"]);
    let pending = json!({"cmd.run:reload": [format!("file.managed:{last}")]});
    assert_eq!(status["pending_refreshes"], pending, "{status}");
    scratch.write("open", "");
    std::fs::remove_file(scratch.path("log")).unwrap();
    let next = scratch.json(&["revert", "c"]);
    assert_eq!(next["failed"], 0, "{next}");
    assert!(!scratch.path("f0").exists());
}

#[test]
#[rule("S-59")]
fn s59_a_revert_runs_actions_and_does_not_put_back_what_it_took_away() {
    let scratch = Scratch::with(
        r#"
conf:
  file.managed: [{path: "@T@/conf"}, {content: x}]
copy:
  file.managed: [{path: "@T@/copy"}, {content: y}, {watch: [{file: conf}]}]
reload:
  cmd.run: [{command: "echo reloaded >> @T@/log"}, {refresh_only: true}, {watch: [{file: conf}]}]
"#,
    );
    assert_eq!(scratch.json(&["apply", "c"])["changed"], 3);
    let reverted = scratch.json(&["revert", "c"]);
    assert_eq!(reverted["failed"], 0, "{reverted}");
    assert!(!scratch.path("conf").exists());
    assert!(!scratch.path("copy").exists(), "{reverted}");
    assert_eq!(scratch.read("log").unwrap().lines().count(), 2);
}

#[test]
#[rule("S-59")]
fn s59_a_revert_that_fails_half_way_leaves_the_refresh_pending() {
    let scratch = Scratch::with(&format!("d:\n  file.absent:\n    - path: @T@/tree\n{RELOAD}"));
    scratch.write("tree/file", "back again");
    drop(UnixListener::bind(scratch.path("tree/run.sock")).unwrap());
    assert_eq!(scratch.json(&["apply", "c"])["changed"], 2);
    let reverted = scratch.json(&["revert", "c"]);
    assert_eq!(reverted["failed"], 1, "{reverted}");
    assert_eq!(scratch.read("tree/file").as_deref(), Some("back again"));
    assert_eq!(scratch.read("log").unwrap().lines().count(), 1, "what it needs has failed");
    let status = scratch.json(&["status"]);
    assert_eq!(status["pending_refreshes"], json!({"cmd.run:reload": ["file.absent:d"]}));
}

#[test]
#[rule("S-43")]
fn s43_a_mounted_file_that_has_no_room_for_the_new_content_keeps_the_old_one() {
    let large = "y".repeat(100_000);
    let scratch =
        Scratch::with(&format!("f:\n  file.managed: [{{path: \"@T@/d/f\"}}, {{content: {large}}}]\n"));
    scratch.write("d/f", "");
    scratch.write("m/keep", "");
    let old = "x".repeat(8_000);
    scratch.write("old", &old);
    // A file of a small file system, mounted over one of a large one: it cannot be replaced, only rewritten.
    let mount = scratch
        .fill("mount -t tmpfs -o size=16k none @T@/m && cp @T@/old @T@/m/f && mount --bind @T@/m/f @T@/d/f");
    let tried = std::process::Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        zester_testkit::skip!("nothing can be mounted here");
    }
    let zester = scratch.command(&["--format", "json"]);
    let both = format!(
        "{mount}; \"$@\" apply c > @T@/applied; cat @T@/d/f > @T@/after; \"$@\" revert > @T@/reverted"
    );
    let mut shell = std::process::Command::new("unshare");
    shell
        .args(["-m", "sh", "-c", &scratch.fill(&both), "sh"])
        .arg(zester.get_program())
        .args(zester.get_args());
    shell
        .current_dir(scratch.root())
        .envs(zester.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.output().unwrap();
    let result =
        |name: &str| -> serde_json::Value { serde_json::from_str(&scratch.read(name).unwrap()).unwrap() };
    let applied = result("applied");
    let state = &applied["states"]["file.managed:f"];
    assert!(state["error"].as_str().unwrap().contains("no space left"), "{state}");
    assert_eq!(state["details"].get("touched"), None, "{state}");
    assert_eq!(scratch.read("after").as_deref(), Some(old.as_str()), "it is as it was");
    assert!(!scratch.read("reverted").unwrap().contains("changed since"));
}
