//! Events that the stream dropped while no master was there: a real server goes on with what is left, and the next master says so.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use crate::stores::{free_port, wait_readyz};
use zester_bus::nats::{Options, connect};
use zester_bus::storage::{EVENTS, reactor, table};
use zester_bus::{Bus, Store};
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

/// Events that the stream keeps, and that come while nobody is there.
const KEPT: u64 = 5;
const SENT: u64 = 20;

#[test]
#[rule("R-1", "R-16", "R-22")]
fn r1_events_that_a_real_server_dropped_unread_are_told_by_the_master_that_comes_back() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let bus = runtime.block_on(connect(Options::new(vec![server.url()], "operator"))).unwrap();
    let events = table().into_iter().find(|store| store.name == EVENTS).unwrap();
    runtime.block_on(bus.ensure(&Store { max_messages: Some(KEPT), ..events }, 1)).unwrap();
    let mut fleet = Fleet::new(&server.url());
    let rules = fleet.path("reactor");
    std::fs::create_dir(&rules).unwrap();
    std::fs::write(rules.join("top.zy"), "reactor:\n  - '_admin/x': [reactor.say]\n").unwrap();
    std::fs::write(rules.join("say.zy"), "say: {log: {message: seen}}\n").unwrap();
    let (rules, health) = (rules.display().to_string(), format!("127.0.0.1:{}", free_port()));
    let port = health.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap();
    let words = ["--reactor", &rules, "--health", &health];
    fleet.start_master_with("m1", &words);
    wait_readyz(port, &["reactor: up"]);
    wait_for("all events are done with", PATIENCE, || {
        let pending = runtime.block_on(bus.pending(&reactor())).ok()?;
        (pending.total() == 0).then_some(())
    });
    fleet.masters.get_mut("m1").unwrap().kill();
    for _ in 0..SENT {
        assert!(fleet.zester(&["event", "send", "x"]).status.success());
    }
    fleet.start_master_with("m1", &words);
    wait_readyz(port, &["reactor: degraded", "events left the stream before any master took them"]);
    let told = wait_for("the ledger knows", PATIENCE, || {
        let found = fleet.json(&["reactor", "history", "--result", "unread"]);
        found["decisions"].as_array().filter(|found| !found.is_empty()).cloned()
    });
    let lost: u64 = told.iter().map(|entry| 1 + entry["unwritten"].as_u64().unwrap()).sum();
    assert!((SENT - KEPT..=SENT).contains(&lost), "{told:?}");
    let shown = fleet.zester(&["reactor", "history", "--result", "unread"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("dropped: unread  it left the stream before any master took it"), "{shown}");
    let _closed = runtime.block_on(bus.close());
}
