//! A peel that is away when the work goes out, and comes back in time.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use crate::proxy::Proxy;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

#[test]
#[rule("J-6")]
fn j6_a_peel_that_was_away_gets_its_work_when_it_is_back() {
    let server = Server::start();
    let proxy = Proxy::to(&server.url());
    let mut fleet = Fleet::start(&server.url(), 2, 1);
    fleet.start_peel_by("p2", &proxy.url());
    fleet.wait_online(2);
    proxy.cut();
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 1);
    assert_eq!(fleet.job(&jid)["status"], "running");
    // Longer away than a heartbeat lives; the other works on, so that the job does.
    wait_for("the peel to count as away", PATIENCE, || {
        let list = fleet.json(&["peel", "list"]);
        let peels = list["peels"].as_array().unwrap();
        peels.iter().any(|peel| peel["id"] == "p2" && peel["online"] == false).then_some(())
    });
    assert_eq!(fleet.begun("gate"), 1);
    proxy.heal();
    fleet.wait_begun("gate", 2);
    fleet.open("gate");
    let job = fleet.wait_over(&jid);
    assert_eq!(job["status"], "complete", "{job:#}");
    assert_eq!(fleet.begun("gate"), 2);
}

#[test]
#[rule("J-22")]
fn j22_what_ends_while_the_peel_is_away_is_returned_when_it_is_back() {
    let server = Server::start();
    let proxy = Proxy::to(&server.url());
    // By default nobody counts as away so soon.
    let mut fleet = Fleet::with_default_timing(&server.url()).started(1, 1);
    fleet.start_peel_by("p2", &proxy.url());
    fleet.wait_online(2);
    let jid = fleet.dispatch_gated("*", "gate");
    fleet.wait_begun("gate", 2);
    proxy.cut();
    fleet.end("gate");
    wait_for("the return of the one that is there", PATIENCE, || {
        fleet.job(&jid)["returns"].get("p1").is_some().then_some(())
    });
    let job = fleet.job(&jid);
    assert_eq!((&job["status"], job["returns"].get("p2")), (&"running".into(), None), "{job:#}");
    proxy.heal();
    let job = fleet.wait_over(&jid);
    assert_eq!((&job["status"], fleet.begun("gate")), (&"complete".into(), 2), "{job:#}");
}
