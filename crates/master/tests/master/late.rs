//! Returns that come when nobody watches their job, and messages that come when nobody hears them.

use crate::fleet::{Fleet, Losing, Peel, eventually, peel};
use std::time::Duration;
use zester_bus::memory::{Fate, Faults, Leg};
use zester_rule::rule;
use zester_wire::*;

const MANY: usize = 600;

/// So many jobs that ended without a return.
async fn ended(fleet: &Fleet, web: &mut Peel, count: usize) -> Vec<ExecRequest> {
    let mut requests = Vec::new();
    for _ in 0..count {
        let request = DispatchRequest { timeout: Duration::from_secs(30), ..fleet.request("web-1") };
        fleet.ask(&request).await.jid.unwrap();
        let exec = web.exec().await;
        web.ack(&exec).await;
        requests.push(exec);
    }
    for exec in &requests {
        assert_eq!(fleet.over(&exec.jid).await.status, JobStatus::Timeout);
    }
    requests
}

async fn all_stored(fleet: &Fleet, requests: &[ExecRequest]) {
    for exec in requests {
        let stored = fleet.stored_eventually(&exec.jid, "web-1").await;
        assert!(stored.late && stored.success);
        assert_eq!(fleet.record(&exec.jid).await.unwrap().status, JobStatus::Timeout);
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_late_returns_of_many_jobs_at_once_are_all_stored() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let requests = ended(&fleet, &mut web, MANY).await;
    for exec in &requests {
        web.ret(exec, true).await;
    }
    all_stored(&fleet, &requests).await;
    eventually("all are counted", async || {
        (master.metric("zester_returns_late_total") == MANY as u64).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_a_late_return_that_came_while_no_master_was_there_is_stored_by_the_next() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let mut requests = ended(&fleet, &mut web, 2).await;
    master.stop().await;
    web.ret(&requests[0], true).await;
    // The next one dies before it has done anything about the second.
    let second = fleet.master("m2").await;
    web.ret(&requests[1], true).await;
    drop(second);
    let _third = fleet.master("m3").await;
    all_stored(&fleet, &requests).await;
    requests.clear();
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_a_late_return_that_cannot_be_stored_now_is_stored_later() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let requests = ended(&fleet, &mut web, 2).await;
    fleet.net.set_led("KV_job-returns", false);
    for exec in &requests {
        web.ret(exec, true).await;
    }
    // It is taken from the stream and tried, again and again.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fleet.stored(&requests[0].jid, "web-1").await, None);
    fleet.net.set_led("KV_job-returns", true);
    all_stored(&fleet, &requests).await;
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_a_return_told_again_after_its_job_is_complete_is_no_late_one() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    let exec = web.serve(true).await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
    // Nothing could be stored now, and nothing needs to be.
    struct Unwritable;
    impl Faults for Unwritable {
        fn fate(&mut self, leg: Leg<'_>) -> Fate {
            let lost = leg.from == "m1" && leg.subject.starts_with("$KV.job-returns.");
            if lost { Vec::new() } else { vec![Duration::ZERO] }
        }
    }
    fleet.net.set_faults(Unwritable);
    web.ret(&exec, true).await;
    eventually("it is let go", async || (master.metric("zester_returns_stray_total") > 0).then_some(()))
        .await;
    assert!(!fleet.stored(&jid, "web-1").await.unwrap().late);
    assert_eq!(master.metric("zester_returns_late_total"), 0);
}

/// Loses one message on its way to the master; the subscription says so.
struct OneDropped(bool);

impl Faults for OneDropped {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn overflows(&mut self, leg: Leg<'_>) -> bool {
        let this = leg.to == "m1" && leg.subject.contains(".return.");
        this && std::mem::take(&mut self.0)
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_one_dropped_message_is_read_again_once_for_all_jobs() {
    const JOBS: usize = 100;
    let fleet = Fleet::new().await;
    // What others did long ago is not read again.
    let old = Subject::JobAck { jid: fleet.link.new_jid(), peel: peel("web-1") }.to_string();
    for _ in 0..zester_bus::limits::PAGE_MESSAGES_MAX * 4 {
        fleet.link.bus().publish(&old, "an old ack".into()).await.unwrap();
    }
    let stream = zester_bus::storage::job_events();
    eventually("it is all there", async || {
        let kept = fleet.link.bus().usage(&stream).await.unwrap().messages;
        (kept == zester_bus::limits::PAGE_MESSAGES_MAX as u64 * 4).then_some(())
    })
    .await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let mut requests = Vec::new();
    for _ in 0..JOBS {
        let request = DispatchRequest { timeout: Duration::from_secs(3600), ..fleet.request("*") };
        fleet.ask(&request).await;
        let exec = web.exec().await;
        web.ack(&exec).await;
        requests.push(exec);
    }
    fleet.net.set_faults(OneDropped(true));
    for exec in &requests {
        web.ret(exec, true).await;
    }
    for exec in &requests {
        let job = fleet.over(&exec.jid).await;
        assert_eq!((job.status, job.return_count), (JobStatus::Complete, 1));
    }
    assert_eq!(master.metric("zester_catch_ups_total"), 1, "once, not once for each job");
    assert!(master.metric("zester_catch_up_pages_total") <= 3);
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_what_belongs_to_the_job_of_another_is_not_opened() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    fleet.net.set_faults(Losing::new(0, |_| false));
    let jid = fleet.link.new_jid();
    let bus = fleet.link.bus();
    for subject in [
        Subject::JobReturn { jid: jid.clone(), peel: peel("web-1") },
        Subject::JobAck { jid: jid.clone(), peel: peel("web-1") },
        Subject::JobCancel { jid: jid.clone() },
    ] {
        bus.publish_stored(&subject.to_string(), "not an envelope".into(), None).await.unwrap();
    }
    eventually("it is let go", async || (master.metric("zester_returns_stray_total") > 0).then_some(()))
        .await;
    assert_eq!(master.link.dropped().total(), 0);
}

/// Whatever is read from replicas is this far behind.
struct Behind;

impl Faults for Behind {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn lag(&mut self, client: &str, _: &str) -> Duration {
        if client == "m2" { Duration::from_secs(10) } else { Duration::ZERO }
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_a_late_return_is_not_let_go_because_a_replica_does_not_know_its_job_yet() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let second = fleet.master("m2").await;
    fleet.net.set_faults(Behind);
    let request = DispatchRequest { timeout: Duration::from_millis(500), ..fleet.request("web-1") };
    fleet
        .link
        .request::<_, DispatchReply>(&Subject::Dispatch, &request, Duration::from_secs(5))
        .await
        .unwrap();
    let exec = web.exec().await;
    eventually("the job is over", async || fleet.record(&exec.jid).await?.status.is_terminal().then_some(()))
        .await;
    // Only the one that reads what is behind is left.
    drop(first);
    web.ret(&exec, true).await;
    assert!(fleet.stored_eventually(&exec.jid, "web-1").await.late);
    assert_eq!(second.metric("zester_returns_stray_total"), 0);
}
