//! A peel that watches a real service, under init scripts made for the test.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use serde_json::{Value as Json, json};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use zester_bus::nats::{Options, connect};
use zester_bus::storage::EVENTS;
use zester_link::Link;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};
use zester_wire::{Event, Subject, subject};

pub const SCRIPT: &str = r#"#!/bin/sh
pid_file="$(dirname "$0")/worker.pid"
alive() { [ -f "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null; }
case "$1" in
  start) alive || { setsid sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >"$pid_file"; } ;;
  stop) alive && kill "$(cat "$pid_file")"; rm -f "$pid_file" ;;
  status) alive && exit 0; exit 3 ;;
  *) echo "Usage: $0 {start|stop|status}"; exit 2 ;;
esac
"#;

/// The process of the service, as its script wrote it down.
pub fn worker_of(scripts: &std::path::Path) -> Option<nix::unistd::Pid> {
    let pid = std::fs::read_to_string(scripts.join("worker.pid")).ok()?;
    Some(nix::unistd::Pid::from_raw(pid.trim().parse().ok()?))
}

/// All events of peels that the server has kept.
fn events(url: &str) -> Vec<(String, Event)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bus = connect(Options::new(vec![url.to_string()], "operator")).await.unwrap();
        let link = Link::new(Arc::new(bus));
        let mut found = Vec::new();
        let each = link.each_message(EVENTS, subject::EVENTS, |record| {
            let subject = Subject::parse(&record.subject).unwrap();
            let event = link.open_addressed::<Event>(&subject, &record.payload).unwrap().message;
            found.push((record.subject.clone(), event));
        });
        each.await.unwrap();
        found.retain(|(subject, _): &(String, Event)| subject.starts_with("zester.event.p1."));
        found
    })
}

fn answer(fleet: &Fleet, words: &[&str]) -> Json {
    let all: Vec<&str> = ["p1"].into_iter().chain(words.iter().copied()).collect();
    fleet.json(&all)["peels"]["p1"].clone()
}

#[test]
#[rule("R-17", "R-18")]
fn r17_a_service_that_dies_is_one_event_and_one_that_is_started_again_is_the_next() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    let scripts = fleet.path("init.d");
    std::fs::create_dir(&scripts).unwrap();
    std::fs::write(scripts.join("worker"), SCRIPT).unwrap();
    std::fs::set_permissions(scripts.join("worker"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = fleet.path("settings.yaml");
    std::fs::write(&settings, "beacons:\n  service:\n    - services: [worker]\n    - interval: 1\n").unwrap();
    fleet.start_master("m1");
    let (provider, settings) =
        (format!("service_provider={}", scripts.display()), settings.display().to_string());
    let more = ["--settings", &settings, "--set", &provider];
    let peel = fleet.daemon("peel", "p1", &fleet.urls, &more);
    fleet.peels.insert("p1".into(), peel);
    fleet.wait_online(1);

    let started = answer(&fleet, &["service.start", "worker"]);
    assert_eq!(started["return"], json!(true), "{started:#}");
    assert_eq!(answer(&fleet, &["service.status", "worker"])["return"], json!(true));
    // Whether it was started before or after the first look, what was told of that is over.
    let before = wait_for("the beacon to see it", PATIENCE, || {
        let listed = answer(&fleet, &["beacons.list"])["return"]["beacons"][0].clone();
        let told = events(&server.url()).len();
        (listed["sample"]["worker"] == json!(true) && listed["events"] == json!(told)).then_some(told)
    });
    nix::sys::signal::kill(worker_of(&scripts).unwrap(), nix::sys::signal::Signal::SIGKILL).unwrap();
    let told = wait_for("the event", PATIENCE, || {
        Some(events(&server.url())).filter(|events| events.len() > before)
    });
    let (subject, event) = told.last().unwrap();
    assert_eq!((subject.as_str(), told.len()), ("zester.event.p1.beacon.service", before + 1));
    assert_eq!(json!(event.data), json!({"service": "worker", "running": false, "previous": true}));

    // A state brings it back, and tells so by itself.
    let text = "worker:\n  service.running: []\nback:\n  event.send:\n    - tag: worker/back\n    \
                - onchanges: [{service: worker}]\n";
    std::fs::write(fleet.path("states").join("heal.zy"), text).unwrap();
    let applied = answer(&fleet, &["state.apply", "heal"]);
    assert_eq!(applied["status"], json!("success"), "{applied:#}");
    let told = wait_for("both events", PATIENCE, || {
        Some(events(&server.url())).filter(|events| events.len() >= before + 3)
    });
    let mut tags: Vec<&str> = told[before + 1..].iter().map(|(_, event)| event.tag.as_str()).collect();
    tags.sort_unstable();
    assert_eq!(tags, ["beacon/p1/service", "worker/back"]);
    let again = answer(&fleet, &["state.apply", "heal"]);
    assert_eq!(again["return"]["changed"], json!(0), "{again:#}");
    assert_eq!(answer(&fleet, &["service.stop", "worker"])["return"], json!(true));
}
