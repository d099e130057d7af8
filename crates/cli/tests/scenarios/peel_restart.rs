//! A peel goes in the middle of a job.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

#[test]
#[rule("J-22")]
fn j22_a_peel_killed_in_the_middle_of_a_job_returns_interrupted_and_leaves_no_process() {
    let server = Server::start();
    let mut fleet = Fleet::start(&server.url(), 1, 2);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 2);
    fleet.peels.get_mut("p1").unwrap().kill();
    // A shell that is about to start its next command is two for a moment.
    wait_for("the command of a killed peel to go on until the peel is back", PATIENCE, || {
        (fleet.waiting_at("gate") == 2).then_some(())
    });
    fleet.start_peel("p1");
    // At once, not at the deadline: the other still works.
    let returned = wait_for("the return of the interrupted one", PATIENCE, || {
        let job = fleet.job(&jid);
        job["returns"].get("p1").cloned()
    });
    assert_eq!(returned["error"], "interrupted: the peel restarted", "{returned:#}");
    assert_eq!(fleet.job(&jid)["status"], "running");
    wait_for("the end of what was left running", PATIENCE, || (fleet.waiting_at("gate") == 1).then_some(()));
    fleet.open("gate");
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "failed", "{job:#}");
    assert_eq!(job["returns"]["p2"]["success"], true, "{job:#}");
    assert_eq!(fleet.begun("gate"), 2, "somebody executed twice");
}
