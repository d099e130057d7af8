//! An owner goes, and somebody finishes its jobs.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use std::time::{Duration, Instant};
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

#[test]
#[rule("J-13")]
fn j13_another_master_finishes_the_job_of_one_that_was_killed() {
    let server = Server::start();
    let mut fleet = Fleet::start(&server.url(), 2, 3);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 3);
    let owner = fleet.owner(&jid);
    assert_eq!(fleet.job(&jid)["status"], "running");
    fleet.masters.get_mut(&owner).unwrap().kill();
    // The answers come while nobody owns the job.
    fleet.open("gate");
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "complete", "{job:#}");
    assert_eq!(job["returns"].as_object().unwrap().len(), 3, "{job:#}");
    assert!(job["reclaim_count"].as_u64() >= Some(1), "{job:#}");
    assert_ne!(fleet.owner(&jid), owner);
    assert_eq!(fleet.begun("gate"), 3, "somebody executed twice");
}

#[test]
#[rule("J-13")]
fn j13_work_that_goes_on_is_waited_for_by_the_adopter() {
    let server = Server::start();
    let mut fleet = Fleet::start(&server.url(), 2, 2);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 2);
    let owner = fleet.owner(&jid);
    assert_eq!(fleet.job(&jid)["status"], "running");
    fleet.masters.get_mut(&owner).unwrap().kill();
    wait_for("the adoption", PATIENCE, || (fleet.owner(&jid) != owner).then_some(()));
    assert_eq!(fleet.job(&jid)["status"], "running");
    fleet.open("gate");
    let job = fleet.wait_over(&jid);
    assert_eq!((&job["status"], fleet.begun("gate")), (&"complete".into(), 2), "{job:#}");
}

#[test]
#[rule("J-12", "J-14")]
fn j12_j14_a_stopped_master_detaches_and_adopts_its_jobs_when_it_is_back() {
    let server = Server::start();
    let mut fleet = Fleet::start(&server.url(), 1, 2);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 2);
    let ended = fleet.masters.get_mut("m1").unwrap().stop();
    assert!(ended.success(), "{ended}: {}", fleet.masters["m1"].said());
    let job = fleet.job(&jid);
    assert_eq!((&job["status"], &job["epoch"]), (&"running".into(), &1.into()), "{job:#}");
    fleet.open("gate");
    fleet.start_master("m1");
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "complete", "{job:#}");
    assert_eq!(job["returns"].as_object().unwrap().len(), 2, "{job:#}");
    assert_eq!(fleet.begun("gate"), 2, "somebody executed twice");
}

/// From the kill of its owner to the end of a job that had all its returns by then.
fn take_over(rounds: usize) {
    let server = Server::start();
    let mut fleet = Fleet::with_default_timing(&server.url()).started(2, 3);
    for round in 0..rounds {
        let gate = format!("gate-{round}");
        let jid = fleet.dispatch_gated("*", &gate);
        fleet.wait_begun(&gate, 3);
        let owner = fleet.owner(&jid);
        let job = fleet.job(&jid);
        assert_eq!((&job["status"], &job["reclaim_count"]), (&"running".into(), &0.into()), "{job:#}");
        fleet.masters.get_mut(&owner).unwrap().kill();
        let killed = Instant::now();
        fleet.open(&gate);
        let job = fleet.wait_over(&jid);
        let took = killed.elapsed();
        assert!(took <= Duration::from_secs(15), "round {round}: {took:?}\n{job:#}");
        assert_eq!((&job["status"], &job["reclaim_count"]), (&"complete".into(), &1.into()), "{job:#}");
        assert_eq!(job["returns"].as_object().unwrap().len(), 3, "{job:#}");
        assert_ne!(fleet.owner(&jid), owner);
        assert_eq!(fleet.begun(&gate), 3, "somebody executed twice");
        eprintln!("round {round}: taken over and ended {took:?} after the kill");
        // Both are there again before the next round; the log is that of all its starts.
        const BEGUN: &str = "whoever reaches the bus can give orders";
        let starts = fleet.masters[&owner].said().matches(BEGUN).count();
        assert!(starts > 0, "{}", fleet.masters[&owner].said());
        fleet.start_master(&owner);
        wait_for("two masters", PATIENCE, || {
            (fleet.masters[&owner].said().matches(BEGUN).count() > starts).then_some(())
        });
        fleet.wait_online(3);
    }
}

#[test]
#[rule("J-13")]
fn j13_by_default_a_job_ends_within_15_s_of_the_kill_of_its_owner() {
    take_over(if std::env::var_os("ZESTER_SOAK").is_some() { 10 } else { 1 });
}
