//! The fixtures keep what they promise.
#![allow(clippy::unwrap_used)]

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;
use zester_testkit::{Cluster, Server, wait_for};

fn answers(url: &str) -> bool {
    TcpStream::connect(url.trim_start_matches("nats://")).is_ok()
}

#[test]
fn a_killed_server_is_gone_and_a_restarted_one_answers_on_the_same_port() {
    let mut server = Server::start();
    let url = server.url();
    assert!(answers(&url));
    server.kill();
    assert!(!answers(&url));
    server.restart();
    assert_eq!(server.url(), url);
    assert!(answers(&url));
    server.stop();
    assert!(!answers(&url));
}

#[test]
fn a_panic_in_a_test_leaves_no_server() {
    let server = Server::start();
    let url = server.url();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _server = server;
        panic!("a test fails here");
    }));
    assert!(ended.is_err());
    assert!(!answers(&url));
}

/// Runs itself as a child that starts a server and is then killed: no destructor runs there.
#[test]
fn a_killed_test_process_leaves_no_server() {
    if let Ok(note) = std::env::var("ZESTER_TESTKIT_NOTE") {
        let server = Server::start();
        std::fs::write(&note, server.url()).unwrap();
        loop {
            std::thread::park();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let note = dir.path().join("note");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_test_process_leaves_no_server"])
        .env("ZESTER_TESTKIT_NOTE", &note)
        // What a killed process leaves goes with our own directory.
        .env("TMPDIR", dir.path())
        .spawn()
        .unwrap();
    let url = wait_for("the child's server", Duration::from_secs(30), || {
        std::fs::read_to_string(&note).ok().filter(|url| answers(url))
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the end of the child's server", Duration::from_secs(30), || (!answers(&url)).then_some(()));
}

#[test]
fn a_cluster_chooses_another_leader_when_the_first_is_killed() {
    let mut cluster = Cluster::start(3);
    let first = cluster.wait_for_leader();
    cluster.kill(first);
    let second = cluster.wait_for_leader();
    assert_ne!(second, first);
    cluster.restart(first);
    cluster.wait_for_leader();
}
