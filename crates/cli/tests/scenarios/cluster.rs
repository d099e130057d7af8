//! A cluster of three servers loses the one that matters in the middle of many jobs.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use serde_json::Value as Json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use zester_rule::rule;
use zester_testkit::{Cluster, wait_for};

const PEELS: usize = 3;
/// Clients that ask at the same time.
const CLIENTS: usize = 4;

/// Every job appends one line a peel to a file of its own. How long an election takes is for the servers to say: a job that is
/// refused because nobody leads has not run and never will (J-28), and is asked for again.
fn ask(fleet: &Fleet, number: usize) -> Json {
    let lines = fleet.path(&format!("job-{number}"));
    let command = format!("name=echo done >> {}", lines.display());
    wait_for("a job that is taken", PATIENCE, || {
        let answer = fleet.json(&["not p4", "cmd.run", &command, "--timeout", "60s"]);
        let refused =
            answer["error"]["message"].as_str().is_some_and(|why| why.contains("has had no leader since"));
        (!refused).then_some(answer)
    })
}

/// Says that the server was killed, also where the test ends before that: the clients wait for it.
struct Killed<'a>(&'a AtomicBool);

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The leader of a stream is killed while one job runs and at least so many come and go: each client asks once more after it.
fn loses_the_leader_of(stream: &str, jobs: usize) {
    let mut cluster = Cluster::start(3);
    // One more works all the time: whoever does takes nothing else on.
    let fleet = Fleet::with_default_timing(&cluster.urls().join(",")).started(2, PEELS + 1);
    let long = fleet.dispatch_gated("p4", "gate");
    fleet.wait_begun("gate", 1);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let killed = AtomicBool::new(false);
    let ended = || done.lock().unwrap().len();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let after = killed.load(Ordering::SeqCst);
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let answer = ask(&fleet, number);
                    done.lock().unwrap().push((number, answer));
                    if after && number + 1 >= jobs {
                        return;
                    }
                }
            });
        }
        let kill = Killed(&killed);
        wait_for("a third of the jobs", PATIENCE, || (ended() >= jobs / 3).then_some(()));
        assert_eq!(fleet.job(&long)["status"], "running");
        let victim = cluster.wait_for_leader_of(stream);
        cluster.kill(victim);
        drop(kill);
        let before = ended();
        let next = cluster.wait_for_leader_of(stream);
        assert_ne!(next, victim);
        eprintln!("{stream}: node-{victim} was killed after {before} jobs, node-{next} leads");
    });
    let done = done.into_inner().unwrap();
    assert!(done.len() >= jobs, "{} of {jobs}", done.len());
    for (number, answer) in &done {
        assert_eq!(answer["status"], "complete", "job {number}: {answer:#}");
        let lines = std::fs::read_to_string(fleet.path(&format!("job-{number}"))).unwrap();
        assert_eq!(lines.lines().count(), PEELS, "job {number} was executed twice, or not at all");
    }
    fleet.open("gate");
    let job = fleet.wait_over(&long);
    assert_eq!((&job["status"], fleet.begun("gate")), (&"complete".into(), 1), "{job:#}");
}

#[test]
#[rule("J-13", "J-28")]
fn j13_a_cluster_that_loses_the_leader_of_the_records_loses_no_job_and_doubles_none() {
    loses_the_leader_of("KV_jobs", 200);
}

#[test]
#[rule("J-13")]
fn j13_nor_when_it_loses_the_leader_of_the_job_events() {
    loses_the_leader_of("job-events", 40);
}
