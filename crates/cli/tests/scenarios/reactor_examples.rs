//! The examples of `examples/reactor`, each from what happens on a machine to what was done about it.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use crate::self_heal::{event_id, examples, tells};
use crate::stores::SmallDisk;
use serde_json::Value as Json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

/// A master with the rules of the examples.
fn with_rules(server: &Server) -> Fleet {
    let mut fleet = Fleet::new(&server.url());
    let rules = examples().join("reactor").display().to_string();
    fleet.start_master_with("m1", &["--reactor", &rules]);
    fleet
}

/// What was decided, once it tells all of this.
fn history(fleet: &Fleet, wanted: &[&str]) -> Json {
    wait_for("the decision to be written", PATIENCE, || {
        Some(fleet.json(&["reactor", "history", "--since", "1h"])).filter(|found| tells(found, wanted))
    })
}

/// The id of the first event with this key that something was decided about.
fn event_of(history: &Json, key: &str) -> String {
    let decided = history["decisions"].as_array().into_iter().flatten();
    let id = decided.into_iter().find(|entry| entry["key"] == key).and_then(event_id);
    id.unwrap_or_else(|| panic!("no {key}: {history:#}"))
}

fn decisions(fleet: &Fleet, rule: &str, result: &str) -> usize {
    let words = ["reactor", "history", "--since", "1h", "--rule", rule, "--result", result];
    fleet.json(&words)["decisions"].as_array().map_or(0, Vec::len)
}

fn put_program(directory: &Path, name: &str, text: &str) {
    let file = directory.join(name);
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[rule("R-5", "R-10", "R-21")]
fn r10_a_disk_that_fills_up_is_cleaned_up_by_a_rule() {
    let Some(disk) = SmallDisk::new() else { zester_testkit::skip!("only root can mount a small disk") };
    let server = Server::start();
    let mut fleet = with_rules(&server);
    // What the package manager of this machine keeps is not ours to remove.
    let (programs, archive) = (fleet.path("programs"), disk.path().join("archive"));
    std::fs::create_dir(&programs).unwrap();
    put_program(
        &programs,
        "apt-get",
        &format!("#!/bin/sh\n[ \"$1\" = clean ] && rm -f {}\n", archive.display()),
    );
    put_program(&programs, "journalctl", "#!/bin/sh\nexit 1\n");
    let settings = fleet.path("settings.yaml");
    let beacon = format!("beacons:\n  disk: {{mounts: {{{}: 60%}}, interval: 1s}}\n", disk.path().display());
    std::fs::write(&settings, beacon).unwrap();
    let more = ["--settings", settings.to_str().unwrap()];
    let peel = fleet.daemon_with_programs("peel", "p1", &programs, &more);
    fleet.peels.insert("p1".into(), peel);
    fleet.wait_online(1);
    std::fs::write(&archive, vec![0; 20 << 20]).unwrap();
    wait_for("the room to be made", PATIENCE, || (!archive.exists()).then_some(()));
    let found = history(&fleet, &["reactor.clean", "make room", "dispatched", "say so", "logged"]);
    let id = event_of(&found, "p1/beacon/p1/disk");
    wait_for("the whole tree", PATIENCE, || {
        let tree = fleet.json(&["reactor", "show", &id]);
        tells(&tree, &["beacon/p1/disk", "reactor.clean", "rxn-", "complete"]).then_some(())
    });
    // That there is room again is an event too, and nothing to clean up for.
    wait_for("the news that there is room", PATIENCE, || {
        (decisions(&fleet, "reactor.clean", "nothing") == 1).then_some(())
    });
    assert_eq!(decisions(&fleet, "reactor.clean", "dispatched"), 1);
}

/// Makes a certificate that is good for so many days, and its key, in one file.
fn certificate_command(file: &Path, days: u32) -> String {
    let file = file.display();
    format!(
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=web -days {days} -keyout {file}.new -out {file}.pem && mv {file}.pem {file}"
    )
}

#[test]
#[rule("R-5", "R-10", "R-21")]
fn r10_a_certificate_with_few_days_left_is_renewed_by_a_rule_and_a_state() {
    if Command::new("openssl").arg("version").output().is_err() {
        zester_testkit::skip!("there is no openssl")
    }
    let server = Server::start();
    let mut fleet = with_rules(&server);
    let file = fleet.path("web");
    let made = Command::new("sh").args(["-c", &certificate_command(&file, 5)]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let before = std::fs::read(&file).unwrap();
    let renewed = certificate_command(&file, 365);
    let state = format!("renewed:\n  cmd.run:\n    - name: {renewed}\n");
    std::fs::write(fleet.path("states").join("certificates.zy"), state).unwrap();
    let settings = fleet.path("settings.yaml");
    let beacon =
        format!("beacons:\n  certificate: {{files: [{}], days: 21, interval: 1s}}\n", file.display());
    std::fs::write(&settings, beacon).unwrap();
    let peel = fleet.daemon("peel", "p1", &fleet.urls, &["--settings", settings.to_str().unwrap()]);
    fleet.peels.insert("p1".into(), peel);
    fleet.wait_online(1);
    wait_for("another certificate", PATIENCE, || {
        std::fs::read(&file).ok().filter(|now| *now != before && !now.is_empty())
    });
    history(&fleet, &["reactor.renew", "renew", "dispatched"]);
    wait_for("the news that it is new", PATIENCE, || {
        (decisions(&fleet, "reactor.renew", "nothing") == 1).then_some(())
    });
    assert_eq!(decisions(&fleet, "reactor.renew", "dispatched"), 1);
}

#[test]
#[rule("R-9", "R-10", "R-22", "J-19")]
fn r10_a_deployment_goes_from_one_machine_to_the_others_and_tells_when_one_is_missing() {
    let server = Server::start();
    let mut fleet = with_rules(&server);
    for name in ["peel-1", "peel-2", "peel-3"] {
        fleet.start_peel(name);
    }
    fleet.wait_online(3);
    let sent = fleet.zester(&["event", "send", "deploy/start", "version=1.10"]);
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let found = history(&fleet, &["reactor.deploy.canary", "reactor.deploy.rest", "dispatched"]);
    // From what the operator sent to the returns of the last: one tree.
    let start = event_of(&found, "_admin/deploy/start");
    wait_for("the whole tree", PATIENCE, || {
        let tree = fleet.json(&["reactor", "show", &start]);
        let wanted = ["peel-1/deploy/begun", "reactor.deploy.rest", "peel-3", "complete"];
        tells(&tree, &wanted).then_some(())
    });
    // The end of a job that no rule asked for is none of the deployment's.
    let pinged = fleet.zester(&["*", "test.ping"]);
    assert!(pinged.status.success());
    wait_for("the report to have looked at it", PATIENCE, || {
        (decisions(&fleet, "reactor.deploy.report", "nothing") >= 3).then_some(())
    });
    assert_eq!(decisions(&fleet, "reactor.deploy.report", "render_error"), 0);
    assert!(!fleet.masters["m1"].said().contains("ended as"), "nothing went wrong");
    // The next one misses a machine, and that is told.
    fleet.peels.get_mut("peel-3").unwrap().kill();
    let sent = fleet.zester(&["event", "send", "deploy/start", "version=1.11"]);
    assert!(sent.status.success());
    wait_for("the line about what is missing", PATIENCE, || {
        fleet.masters["m1"].said().contains("ended as partial: 2 of 3").then_some(())
    });
}
