//! Nothing can be kept: JetStream is off, or the cluster has lost its quorum. Peels can still be asked by name.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use std::process::Output;
use std::time::Instant;
use zester_rule::rule;
use zester_testkit::{Cluster, Server, wait_for};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until the peel answers without a master.
fn wait_direct(fleet: &Fleet, peel: &str) {
    wait_for("a direct answer", PATIENCE, || {
        fleet.zester(&[peel, "test.ping", "--direct"]).status.success().then_some(())
    });
}

#[test]
#[rule("J-21", "J-28")]
fn j21_exact_ids_are_asked_without_jetstream_and_the_rest_says_that_it_is_off() {
    let server = Server::start_without_jetstream();
    let mut fleet = Fleet::new(&server.url());
    fleet.start_master("m1");
    fleet.start_peel("p1");
    fleet.start_peel("p2");
    for peel in ["p1", "p2"] {
        wait_direct(&fleet, peel);
    }
    let both = fleet.json(&["L@p1,p2", "cmd.run", "echo hi", "--direct"]);
    assert_eq!(
        (&both["status"], both["peels"].as_object().unwrap().len()),
        (&"complete".into(), 2),
        "{both}"
    );
    let ghost = fleet.json(&["p1 or ghost", "test.ping", "--direct"]);
    assert_eq!(ghost["peels"]["ghost"]["status"], "unreachable", "{ghost}");

    for (words, wanted) in [
        (&["p1", "test.ping"][..], "JetStream is off"),
        (&["p1", "test.ping", "--async"], "JetStream is off"),
        (&["job", "list"], "JetStream is off"),
        (&["peel", "list"], "JetStream is off"),
        (&["p1", "test.pign"], "JetStream is off"),
        (&["*", "test.ping", "--direct"], "not an exact id needs the facts"),
        (&["*", "test.ping", "--direct"], "JetStream is off"),
    ] {
        let began = Instant::now();
        let refused = fleet.zester(words);
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {text}");
        assert!(text.contains(wanted), "{words:?}: {text}");
        assert!(!text.contains("master run") && !text.contains("is JetStream on"), "{words:?}: {text}");
        assert!(began.elapsed() < zester_client::limits::PATIENCE, "{words:?} is known at once");
    }
}

#[test]
#[rule("J-21")]
fn j21_exact_ids_are_asked_while_the_quorum_is_lost() {
    let mut cluster = Cluster::start(3);
    let fleet = Fleet::start(&cluster.urls().join(","), 1, 1);
    for lost in [1, 2] {
        cluster.kill(lost);
    }
    let left = cluster.url(0);
    // No master takes a job any more: the quorum is gone, and this is known.
    wait_for("the loss of the quorum", PATIENCE, || {
        let asked = fleet.zester(&["p1", "test.ping", "--timeout", "10s", "--nats", &left]);
        (!asked.status.success()).then_some(())
    });
    wait_for("a direct answer", PATIENCE, || {
        let asked = fleet.zester(&["p1", "test.ping", "--direct", "--timeout", "10s", "--nats", &left]);
        asked.status.success().then_some(())
    });
    let listed = fleet.zester(&["L@p1,ghost", "test.ping", "--direct", "--timeout", "10s", "--nats", &left]);
    assert_eq!(listed.status.code(), Some(3), "{}", said(&listed));
    // What is looked up in the stores ends soon, and says what is wrong.
    for words in [&["peel", "list"][..], &["*", "test.ping", "--direct"]] {
        let began = Instant::now();
        let refused = fleet.zester(&[words, &["--nats", &left]].concat());
        let text = said(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words:?}: {text}");
        assert!(began.elapsed() < PATIENCE, "{words:?}");
        assert!(!text.contains("JetStream is off"), "{words:?}: {text}");
    }
    let refused = fleet.zester(&["p1", "test.ping", "--nats", &left]);
    let text = said(&refused);
    assert!(matches!(refused.status.code(), Some(1 | 3)), "{text}");
    assert!(!text.contains("master run") && !text.contains("is JetStream on"), "{text}");
}
