//! `startup_states`: what a peel does before anybody asks.

use crate::daemon::{Daemon, PATIENCE};
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
        peel.said().contains("states engine unavailable at boot").then_some(())
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
