//! The bus goes in the middle of a job.

use crate::fleet::Fleet;
use zester_rule::rule;
use zester_testkit::Server;

#[test]
#[rule("J-9")]
fn j9_a_server_killed_in_the_middle_of_a_job_costs_nothing() {
    let mut server = Server::start();
    let fleet = Fleet::with_default_timing(&server.url()).started(2, 3);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 3);
    assert_eq!(fleet.job(&jid)["status"], "running");
    server.kill();
    // The work ends while there is no bus: the answers wait on the peels' disks.
    fleet.end("gate");
    server.restart();
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "complete", "{job:#}");
    assert_eq!(job["returns"].as_object().unwrap().len(), 3, "{job:#}");
    assert_eq!(fleet.begun("gate"), 3, "somebody executed twice");
    // And the fleet still works.
    fleet.wait_online(3);
}
