//! Messages that are lost, and a bus that goes away under a job.

use crate::fleet::{Fleet, Losing, eventually, peel};
use std::time::Duration;
use zester_bus::memory::{Fate, Faults, Leg};
use zester_health::State;
use zester_rule::rule;
use zester_wire::*;

async fn long_job(fleet: &Fleet) -> Jid {
    let request = DispatchRequest { timeout: Duration::from_secs(3600), ..fleet.request("*") };
    fleet.ask(&request).await.jid.unwrap()
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_returns_that_came_while_the_master_was_away_are_read_from_the_stream() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.net.cut("m1");
    web.ret(&exec, true).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(matches!(master.health.state("bus"), Some(State::Down(_))));
    fleet.net.heal("m1");
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
    assert_eq!(master.health.state("bus"), Some(State::Up));
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_a_cancel_that_came_while_the_master_was_away_is_honoured() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.net.cut("m1");
    let second = fleet.master("m2").await;
    fleet.kill(&jid).await;
    fleet.net.heal("m1");
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Canceled);
    drop(second);
}

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_what_could_not_be_sent_is_sent_when_the_bus_is_back() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    // The first request to one of them is lost, and then the master is away for longer than the ack window.
    fleet.net.set_faults(Losing::new(1, |leg| leg.to == "db-1" && leg.subject == "zester.cmd.db-1"));
    let jid = long_job(&fleet).await;
    let of_web = web.exec().await;
    web.ack(&of_web).await;
    fleet.net.cut("m1");
    tokio::time::sleep(Duration::from_secs(12)).await;
    fleet.net.heal("m1");
    db.serve(true).await;
    web.ret(&of_web, true).await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_the_server_under_a_job_loses_nothing() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = long_job(&fleet).await;
    web.serve(true).await;
    let exec = db.exec().await;
    db.ack(&exec).await;
    fleet.net.crash();
    tokio::time::sleep(Duration::from_secs(7)).await;
    fleet.net.restart();
    db.ret(&exec, true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Complete, 2));
}

/// Loses all that goes from peels to the master, which the stream keeps all the same.
struct Deaf;

impl Faults for Deaf {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        let lost = leg.to == "m1" && leg.subject.starts_with("zester.job.");
        if lost { Vec::new() } else { vec![Duration::ZERO] }
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_nothing_is_lost_when_only_the_stream_has_it() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    fleet.net.set_faults(Deaf);
    web.serve(true).await;
    fleet.net.set_faults(Losing::new(0, |_| false));
    fleet.net.cut("m1");
    fleet.net.heal("m1");
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
async fn a_master_waits_for_a_bus_that_is_away() {
    let fleet = Fleet::new().await;
    fleet.net.crash();
    let master = fleet.start("m1");
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!master.health.report().0);
    fleet.net.restart();
    eventually("the master is ready", async || master.health.report().0.then_some(())).await;
    master.stop().await;
}

#[tokio::test(start_paused = true)]
#[rule("J-13")]
async fn j13_the_heartbeat_stands_as_long_as_the_master_and_is_written_again_after_a_failure() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let key = Key::Master(master.id.clone());
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(7)).await;
        let found = fleet.link.get::<MasterHeartbeat>(&key).await.unwrap().unwrap();
        assert_eq!((found.value.master, found.value.version.as_str()), (master.id.clone(), "0.0.0"));
    }
    fleet.net.cut("m1");
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(fleet.link.get::<MasterHeartbeat>(&key).await.unwrap().is_none());
    fleet.net.heal("m1");
    eventually("the heartbeat stands again", async || fleet.link.get::<MasterHeartbeat>(&key).await.unwrap())
        .await;
}

#[tokio::test(start_paused = true)]
#[rule("J-5")]
async fn j5_a_fleet_that_answers_in_one_burst_is_complete() {
    const PEELS: usize = 2_000;
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let link = zester_link::Link::new(std::sync::Arc::new(fleet.net.connect("peels")));
    let mut commands =
        link.bus().subscribe("zester.cmd.*", zester_bus::Listen::alone(PEELS * 2)).await.unwrap();
    let targets: Vec<PeelId> = (0..PEELS).map(|number| peel(&format!("p{number:05}"))).collect();
    let request = DispatchRequest { targets, ..fleet.request("") };
    let jid = fleet.ask(&request).await.jid.unwrap();
    for _ in 0..PEELS {
        let Some(zester_bus::Delivery::Message(message)) = commands.next().await else {
            panic!("missed commands")
        };
        let Some(Subject::Command { peel }) = link.subject_of(&message) else { panic!("no command") };
        let ret = Return { success: true, ..Return::refusing(jid.clone(), peel, 1, Cause::Finished, "") };
        let subject = Subject::JobReturn { jid: jid.clone(), peel: ret.peel.clone() };
        link.publish(&subject, &ret).await.unwrap();
    }
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Complete, PEELS as u64));
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_a_late_return_that_came_while_the_master_was_away_is_stored() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Timeout);
    fleet.net.cut("m1");
    web.ret(&exec, true).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    fleet.net.heal("m1");
    assert!(fleet.stored_eventually(&jid, "web-1").await.late);
}
