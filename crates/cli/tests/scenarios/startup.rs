//! `startup_states`: what a peel does before anybody asks.

use crate::daemon::{Daemon, PATIENCE};
use std::process::Command;
use zester_rule::rule;
use zester_testkit::wait_for;

#[test]
#[rule("S-37", "D-9")]
fn s37_a_peel_applies_its_startup_states_without_a_bus_as_soon_as_there_are_some() {
    let dir = tempfile::Builder::new().prefix("zester-startup-").tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (states, data) = (path("states"), path("data"));
    // Nobody listens there.
    let words = [
        "peel",
        "run",
        "--id",
        "p1",
        "--nats",
        "nats://127.0.0.1:1",
        "--data-dir",
        &data,
        "--states",
        &states,
    ];
    let startup = ["--startup-states", "sls", "--sls-list", "a,b", "--env", "prod"];
    let mut peel = Daemon::start(&dir.path().join("p1.log"), &[&words[..], &startup].concat());
    wait_for("the peel to say that it has no states", PATIENCE, || {
        peel.said()
            .contains("states engine unavailable at boot; will build when state files appear")
            .then_some(())
    });
    // All files at once.
    let staged = dir.path().join("staged");
    std::fs::create_dir(&staged).unwrap();
    std::fs::write(staged.join("top.zy"), "prod: {}\n").unwrap();
    for name in ["a", "b"] {
        let state = format!(
            "{}/{{{{ saltenv }}}}-{name}:\n  file.managed:\n    - content: x\n",
            dir.path().display()
        );
        std::fs::write(staged.join(format!("{name}.zy")), state).unwrap();
    }
    std::fs::rename(&staged, &states).unwrap();
    wait_for("the states of the start", PATIENCE, || {
        (dir.path().join("prod-a").exists() && dir.path().join("prod-b").exists()).then_some(())
    });
    wait_for("the log to tell of it", PATIENCE, || {
        let said = peel.said();
        (said.contains("startup_states") && said.contains("executed")).then_some(())
    });
    peel.stop();
}

#[test]
#[rule("S-37")]
fn s37_startup_states_that_failed_are_shown_by_status_until_the_next_start() {
    let dir = tempfile::Builder::new().prefix("zester-startup-").tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (states, data) = (path("states"), path("data"));
    std::fs::create_dir(&states).unwrap();
    std::fs::write(dir.path().join("states/a.zy"), "smoke:\n  cmd.run:\n    - name: exit 7\n").unwrap();
    let words = [
        "peel",
        "run",
        "--id",
        "p1",
        "--nats",
        "nats://127.0.0.1:1",
        "--data-dir",
        &data,
        "--states",
        &states,
    ];
    let startup = ["--startup-states", "sls", "--sls-list", "a"];
    let log = dir.path().join("p1.log");
    let status = |format: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zester"));
        command.args(["status", "--data-dir", &data, "--format", format]).env("NO_COLOR", "1");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let failure =
        || serde_json::from_str::<serde_json::Value>(&status("json")).unwrap()["startup_failure"].clone();
    let mut peel = Daemon::start(&log, &[&words[..], &startup].concat());
    let shown =
        wait_for("the failure to be shown", PATIENCE, || Some(failure()).filter(|found| !found.is_null()));
    assert_eq!(shown["function"], "state.sls", "{shown:#}");
    assert!(shown["error"].as_str().unwrap().contains("cmd.run:smoke"), "{shown:#}");
    assert!(shown["ended"].as_u64().is_some() && shown["jid"].as_str().is_some(), "{shown:#}");
    let text = status("text");
    assert!(
        text.starts_with("startup states failed\n  ")
            && text.contains("state.sls: 1 of 1 state failed: cmd.run:smoke"),
        "{text}"
    );
    assert!(text.contains("They run again when the peel of this machine starts again."), "{text}");
    peel.stop();
    // The next start has nothing to complain about.
    std::fs::write(dir.path().join("states/a.zy"), "smoke:\n  test.nop: []\n").unwrap();
    let mut peel = Daemon::start(&log, &[&words[..], &startup].concat());
    wait_for("the failure to be gone", PATIENCE, || failure().is_null().then_some(()));
    peel.stop();
}
