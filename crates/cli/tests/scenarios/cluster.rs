//! A cluster of three servers loses one in the middle of many jobs.

use crate::fleet::Fleet;
use serde_json::Value as Json;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use zester_rule::rule;
use zester_testkit::Cluster;

const JOBS: usize = 200;
const PEELS: usize = 3;
/// Clients that ask at the same time.
const CLIENTS: usize = 4;

/// Every job appends one line a peel to a file of its own.
fn ask(fleet: &Fleet, number: usize) -> Json {
    let lines = fleet.path(&format!("job-{number}"));
    let command = format!("name=echo done >> {}", lines.display());
    fleet.json(&["*", "cmd.run", &command, "--timeout", "60s"])
}

fn survive(victim: usize, jobs: usize) {
    let mut cluster = Cluster::start(3);
    let fleet = Fleet::start(&cluster.urls().join(","), 2, PEELS);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= jobs {
                        return;
                    }
                    let answer = ask(&fleet, number);
                    done.lock().unwrap().push((number, answer));
                }
            });
        }
        zester_testkit::wait_for("a third of the jobs", crate::daemon::PATIENCE, || {
            (done.lock().unwrap().len() >= jobs / 3).then_some(())
        });
        cluster.kill(victim);
    });
    let done = done.into_inner().unwrap();
    assert_eq!(done.len(), jobs);
    for (number, answer) in &done {
        assert_eq!(answer["status"], "complete", "job {number}: {answer:#}");
        let lines = std::fs::read_to_string(fleet.path(&format!("job-{number}"))).unwrap();
        assert_eq!(lines.lines().count(), PEELS, "job {number} was executed twice, or not at all");
    }
}

#[test]
#[rule("J-13")]
fn j13_a_cluster_that_loses_a_server_loses_no_job_and_doubles_none() {
    survive(0, JOBS);
}

/// Which of them is lost does not matter; the long run tries the others too.
#[test]
#[rule("J-13")]
fn j13_nor_when_it_loses_another() {
    if std::env::var_os("ZESTER_SOAK").is_some() {
        survive(1, JOBS);
        survive(2, JOBS);
    }
}
