//! Where a machine remembers, and what happens when it cannot.

use crate::scratch::Scratch;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use zester_rule::rule;

const STATES: &str = "x:\n  file.managed: [{path: \"@T@/x\"}, {content: x}]\n";

#[test]
#[rule("C-14")]
fn c14_a_data_dir_that_others_can_write_to_is_refused_and_nothing_runs() {
    let scratch = Scratch::with(STATES);
    std::fs::create_dir(scratch.path("data")).unwrap();
    std::fs::set_permissions(scratch.path("data"), std::fs::Permissions::from_mode(0o777)).unwrap();
    for words in [&["apply", "c"][..], &["check", "c"], &["revert"], &["status"]] {
        let refused = scratch.zester(words);
        assert_eq!(refused.code, Some(1), "{words:?}");
        assert!(refused.stderr.contains("others can write to"), "{}", refused.stderr);
    }
    assert!(!scratch.path("x").exists());
}

#[test]
#[rule("C-14")]
fn c14_without_home_an_unprivileged_caller_is_told_what_to_give() {
    let scratch = Scratch::with(STATES);
    // Whoever it runs as must be able to start the binary and read the states.
    let program = scratch.path("zester");
    std::fs::copy(env!("CARGO_BIN_EXE_zester"), &program).unwrap();
    std::fs::set_permissions(scratch.root(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = std::process::Command::new(&program);
    command.args(["status"]).current_dir(scratch.root());
    for name in ["HOME", "XDG_STATE_HOME", "ZESTER_DATA_DIR"] {
        command.env_remove(name);
    }
    if nix::unistd::geteuid().is_root() {
        command.uid(65_534).gid(65_534);
    }
    let refused = command.output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{words}");
    assert!(words.contains("HOME is not set") && words.contains("--data-dir"), "{words}");
}

#[test]
#[rule("C-14")]
fn c14_a_home_that_cannot_be_used_is_told_with_what_to_give_and_before_all_else() {
    let scratch = Scratch::with(STATES);
    // Not even root can make a directory there.
    let home = "/proc/self/fdinfo";
    for words in [&["apply", "c"][..], &["call", "test.nop"]] {
        let refused = scratch
            .command(words)
            .env("ZESTER_DATA_DIR", format!("{home}/.local/state/zester"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("the data directory {home}/.local/state/zester")), "{said}");
        assert!(said.contains("--data-dir"), "{said}");
        assert_eq!(String::from_utf8_lossy(&refused.stdout), "");
    }
}

#[test]
#[rule("S-39", "C-13")]
fn s39_a_run_whose_end_cannot_be_written_down_is_told_all_the_same() {
    let scratch = Scratch::with(
        "x:\n  file.managed: [{path: \"@T@/x\"}, {content: x}]\nbreak:\n  cmd.run: [{command: \"mv @T@/data/journal @T@/gone\"}, {require: [{file: x}]}]\n",
    );
    let done = scratch.zester(&["apply", "c", "--format", "json"]);
    let result = done.json();
    assert_eq!((done.code, result["changed"].as_u64()), (Some(2), Some(2)), "{result}");
    assert!(result["error"].as_str().unwrap().contains("could not be written down"), "{result}");
    assert_eq!(scratch.json(&["status"])["runs"][0]["changed"], 2, "it is in the history");
    // What was written before is still there.
    std::fs::rename(scratch.path("gone"), scratch.path("data/journal")).unwrap();
    let run = result["run_id"].as_str().unwrap();
    assert_eq!(scratch.json(&["revert", "--run", run])["changed"], 1);
}
