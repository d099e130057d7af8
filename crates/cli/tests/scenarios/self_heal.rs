//! The worked path: a beacon sees that a service stopped, a rule answers, the service runs again, and all of it is one tree.

use crate::beacons::{SCRIPT, worker_of};
use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use serde_json::Value as Json;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/reactor")
}

/// Whether this document has, anywhere inside, all of these texts.
pub fn tells(document: &Json, texts: &[&str]) -> bool {
    let text = document.to_string();
    texts.iter().all(|wanted| text.contains(wanted))
}

#[test]
#[rule("R-5", "R-10", "R-17", "R-22")]
fn r10_a_service_that_dies_is_started_again_by_a_rule_and_that_is_one_tree() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    let scripts = fleet.path("init.d");
    std::fs::create_dir(&scripts).unwrap();
    std::fs::write(scripts.join("worker"), SCRIPT).unwrap();
    std::fs::set_permissions(scripts.join("worker"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = fleet.path("settings.yaml");
    std::fs::write(&settings, "beacons:\n  service: {services: [worker], interval: 1s}\n").unwrap();
    let rules = examples().join("reactor").display().to_string();
    fleet.start_master_with("m1", &["--reactor", &rules]);
    let provider = format!("service_provider={}", scripts.display());
    let more = ["--settings", settings.to_str().unwrap(), "--set", &provider];
    let peel = fleet.daemon("peel", "p1", &fleet.urls, &more);
    fleet.peels.insert("p1".into(), peel);
    fleet.wait_online(1);
    let answer = |words: &[&str]| {
        let all: Vec<&str> = ["p1"].into_iter().chain(words.iter().copied()).collect();
        fleet.json(&all)["peels"]["p1"]["return"].clone()
    };
    assert_eq!(answer(&["service.start", "worker"]), true);
    wait_for("the beacon to see that it runs", PATIENCE, || {
        (answer(&["beacons.list"])["beacons"][0]["sample"]["worker"] == true).then_some(())
    });
    let before = worker_of(&scripts).unwrap();
    nix::sys::signal::kill(before, nix::sys::signal::Signal::SIGKILL).unwrap();
    let healed = wait_for("the service to run again", PATIENCE, || {
        worker_of(&scripts).filter(|pid| *pid != before && nix::sys::signal::kill(*pid, None).is_ok())
    });
    assert_ne!(healed, before);

    // Event, decision, job and return are one tree.
    let words = ["reactor", "history", "--since", "1h", "--result", "dispatched"];
    let history = wait_for("the decision to be written", PATIENCE, || {
        Some(fleet.json(&words)).filter(|found| tells(found, &["reactor.heal", "start worker"]))
    });
    let id = event_id(&history).unwrap_or_else(|| panic!("{history:#}"));
    wait_for("the whole tree", PATIENCE, || {
        let tree = fleet.json(&["reactor", "show", &id]);
        tells(&tree, &["beacon/p1/service", "reactor.heal", "rxn-", "complete", "p1", "finalized"])
            .then_some(())
    });
    assert_eq!(answer(&["service.stop", "worker"]), true);
}

/// The first that stands anywhere inside.
pub fn event_id(document: &Json) -> Option<String> {
    match document {
        Json::Object(map) => match map.get("event_id").and_then(Json::as_str) {
            Some(id) => Some(id.to_string()),
            None => map.values().find_map(event_id),
        },
        Json::Array(items) => items.iter().find_map(event_id),
        _ => None,
    }
}

#[test]
#[rule("R-4", "R-6")]
fn r4_the_rules_of_the_examples_are_good_and_say_what_they_would_do() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    let rules = examples().join("reactor").display().to_string();
    let lint = fleet.zester(&["lint", &rules]);
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    fleet.start_master_with("m1", &["--reactor", &rules]);
    fleet.start_peel("peel-1");
    fleet.wait_online(1);
    let table: [(&str, &[&str], &[&str]); 5] = [
        ("peel-1/beacon/peel-1/service", &["service=nginx", "running=false"], &["service.start", "nginx"]),
        (
            "peel-1/beacon/peel-1/disk",
            &["over=true", "mount=/", "used_percent=93"],
            &["cmd.run", "93 % full"],
        ),
        ("peel-1/beacon/peel-1/certificate", &["expiring=true"], &["state.apply", "certificates"]),
        ("_admin/deploy/start", &["version=1.10"], &["event.send", "1.10"]),
        ("peel-1/deploy/begun", &["version=1.10"], &["test.echo", "deploying 1.10"]),
    ];
    for (key, data, wanted) in table {
        let data = data.iter().flat_map(|word| ["--data", word]);
        let words: Vec<&str> = ["reactor", "test", key].into_iter().chain(data).collect();
        wait_for("the rules to answer", PATIENCE, || {
            let tested = fleet.json(&words);
            tells(&tested, wanted).then_some(())
        });
    }
}
