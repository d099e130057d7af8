//! A bucket that somebody removes and makes again while everybody is connected: it counts from one, and what it held is gone.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use crate::stores::{free_port, wait_readyz};
use zester_bus::Store;
use zester_bus::nats::{Nats, Options, connect};
use zester_bus::{Bus, storage};
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

/// Removes and makes buckets.
struct Operator {
    runtime: tokio::runtime::Runtime,
    bus: Nats,
}

impl Operator {
    fn new(url: &str) -> Operator {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let bus = runtime.block_on(connect(Options::new(vec![url.to_string()], "operator"))).unwrap();
        Operator { runtime, bus }
    }

    fn remove(&self, bucket: &str) {
        let subject = format!("$JS.API.STREAM.DELETE.KV_{bucket}");
        let answer = self.runtime.block_on(self.bus.request(&subject, "".into(), PATIENCE)).unwrap();
        let answer = String::from_utf8_lossy(&answer.payload).into_owned();
        assert!(answer.contains(r#""success":true"#), "{answer}");
    }

    fn make(&self, bucket: &str) {
        let table: Vec<Store> = storage::table();
        let store = table.iter().find(|store| store.name == bucket).unwrap();
        self.runtime.block_on(self.bus.ensure(store, 1)).unwrap();
    }

    fn keys(&self, bucket: &str) -> Vec<String> {
        self.runtime.block_on(self.bus.keys(bucket, "*")).unwrap_or_default()
    }
}

fn ping(fleet: &Fleet, target: &str) -> Option<usize> {
    let output = fleet.zester(&[target, "test.ping", "--timeout", "10s", "--format", "json"]);
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    (answer["status"] == "complete").then(|| answer["peels"].as_object().map_or(0, |peels| peels.len()))
}

#[test]
#[rule("J-29", "D-7")]
fn j29_buckets_that_were_made_again_under_a_live_fleet() {
    let server = Server::start();
    let port = free_port();
    let mut fleet = Fleet::new(&server.url());
    fleet.start_master_with_health("m1", port);
    let mut fleet = fleet.started(0, 2);
    let operator = Operator::new(&server.url());
    let published = || (operator.keys("facts") == ["p1", "p2"]).then_some(());
    wait_for("the facts are published", PATIENCE, published);
    operator.remove("facts");
    operator.remove("peel-seen");
    wait_readyz(port, &["index: degraded: facts is gone"]);
    operator.make("facts");
    operator.make("peel-seen");
    wait_readyz(port, &["index: up"]);
    // Those who are there stay there, and publish again what was lost.
    assert_eq!(ping(&fleet, "*"), Some(2));
    wait_for("the facts are published again", PATIENCE, published);
    // The index hears what comes: a peel that it never met is found by its facts.
    fleet.start_peel("p3");
    fleet.wait_online(3);
    wait_for("all are targets by their facts", PATIENCE, || {
        (ping(&fleet, "G@id:p*") == Some(3)).then_some(())
    });
}
