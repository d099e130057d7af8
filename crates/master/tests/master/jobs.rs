//! Jobs from the request to the end, with one master.

use crate::fleet::{Fleet, Losing, Peel as FakePeel, eventually, peel};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::{Delivery, Listen};
use zester_jobs::Timing;
use zester_master::limits::{LATE_LOOKS_PER_SECOND, LATE_MISSING_LOOKS};
use zester_rule::rule;
use zester_wire::*;

#[tokio::test(start_paused = true)]
#[rule("J-5")]
async fn j5_all_returned_and_ok_is_complete() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = fleet.dispatch("*").await;
    web.serve(true).await;
    db.serve(true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count, job.success_count), (JobStatus::Complete, 2, 2));
    assert_eq!(job.targets, [peel("db-1"), peel("web-1")]);
    assert_eq!(job.owner, master.id);
    assert!(fleet.stored(&jid, "web-1").await.unwrap().success);
    eventually("the job is counted", async || {
        (master.metric("zester_jobs_finalized_total{status=\"complete\"}") == 1).then_some(())
    })
    .await;
    assert_eq!(master.metric("zester_returns_stored_total"), 2);
}

/// The end of a job under which a peel lives on.
async fn over_while_it_beats(fleet: &Fleet, peel: &mut FakePeel, jid: &Jid) -> Job {
    let beating = async {
        loop {
            peel.beat().await;
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    };
    tokio::select! {
        job = fleet.over(jid) => job,
        () = beating => unreachable!(),
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-8", "J-17")]
async fn j17_a_peel_that_dies_under_a_job_is_unreachable_before_the_deadline() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = begin_long(&fleet, &mut web).await;
    let began = tokio::time::Instant::now();
    // It is never heard again: its heartbeat ends, and it has the time of one that only lost its server.
    let job = fleet.over(&jid).await;
    assert_eq!(job.missing.get(&peel("web-1")), Some(&Missing::Unreachable));
    let took = began.elapsed();
    assert!(took > Duration::from_secs(90) && took < Duration::from_secs(105), "{took:?}");
}

/// A job of ten minutes that a peel has acked.
async fn begin_long(fleet: &Fleet, web: &mut FakePeel) -> Jid {
    let request = DispatchRequest { timeout: Duration::from_secs(600), ..fleet.request("*") };
    let jid = fleet.ask(&request).await.jid.unwrap();
    let request = web.exec().await;
    web.ack(&request).await;
    jid
}

#[tokio::test(start_paused = true)]
#[rule("J-8", "J-17")]
async fn j17_a_peel_that_stops_under_a_job_is_unreachable_at_once() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = begin_long(&fleet, &mut web).await;
    let began = tokio::time::Instant::now();
    web.say_stopped().await;
    let job = fleet.over(&jid).await;
    assert_eq!(job.missing.get(&peel("web-1")), Some(&Missing::Unreachable));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

/// The server stands still for less time than the master needs to notice. It has hardly any patience with whoever is lost, so that
/// nothing but what it knows of itself keeps it from giving somebody up.
#[tokio::test(start_paused = true)]
#[rule("J-5", "J-8")]
async fn j8_a_master_that_hears_nobody_takes_no_peel_for_gone() {
    let fleet = Fleet::new().await;
    let (none, second) = (Duration::ZERO, Duration::from_secs(1));
    let timing = Timing {
        silence_noticed: none,
        reconnect_spread: none,
        peel_heartbeat: second,
        ack_window: second,
        unreachable_grace: none,
        ..Timing::default()
    };
    let _master = fleet.start_on("m1", Arc::new(fleet.net.connect("m1")), timing);
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = begin_long(&fleet, &mut web).await;
    web.beat().await;
    tokio::time::sleep(9 * second).await;
    fleet.net.silence("m1", true);
    tokio::time::sleep(24 * second).await;
    fleet.net.heal("m1");
    for _ in 0..6 {
        tokio::time::sleep(second).await;
        web.beat().await;
        tokio::time::sleep(9 * second).await;
    }
    assert_eq!(fleet.record(&jid).await.unwrap().status, JobStatus::Running);
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_peel_that_names_a_job_that_is_over_gets_its_cancel() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let _other = fleet.master("m2").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    let request = web.exec().await;
    web.ack(&request).await;
    // While it runs, naming it is answered by nobody.
    web.beat_with(&request).await;
    assert!(web.hears_nothing(Duration::from_secs(5)).await);
    fleet.kill(&jid).await;
    fleet.over(&jid).await;
    while !web.hears_nothing(Duration::from_secs(3)).await {}
    web.beat_with(&request).await;
    let PeelCommand::Cancel(cancel) = web.command().await else { panic!("not a cancel") };
    assert_eq!((cancel.jid, cancel.dispatch_epoch), (jid, request.dispatch_epoch));
}

#[tokio::test(start_paused = true)]
#[rule("J-5")]
async fn j5_some_failed_is_failed_and_some_missing_is_partial() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = fleet.dispatch("*").await;
    web.serve(false).await;
    db.serve(true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count, job.success_count), (JobStatus::Failed, 2, 1));

    let jid = fleet.dispatch("*").await;
    web.serve(true).await;
    let request = db.exec().await;
    db.ack(&request).await;
    let job = over_while_it_beats(&fleet, &mut db, &jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Partial, 1));
    assert_eq!(job.missing.get(&peel("db-1")), Some(&Missing::Running));

    let jid = fleet.dispatch("db-1").await;
    let request = db.exec().await;
    assert!(request.budget <= Duration::from_secs(60));
    let job = over_while_it_beats(&fleet, &mut db, &jid).await;
    assert_eq!(job.status, JobStatus::Timeout);
}

#[tokio::test(start_paused = true)]
#[rule("J-2")]
async fn j2_the_order_of_a_dispatch() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let mut all = fleet.link.bus().subscribe(">", Listen::alone(1024)).await.unwrap();
    let jid = fleet.dispatch("*").await;
    let request = web.exec().await;
    assert_eq!((request.jid.clone(), request.dispatch_epoch), (jid.clone(), 1));
    let mut order = Vec::new();
    let last = "zester.cmd.web-1".to_string();
    while !order.contains(&last) {
        if let Some(Delivery::Message(message)) = all.next().await {
            order.push(message.subject);
        }
    }
    let (record, active) = (format!("$KV.jobs.{jid}"), format!("$KV.jobs.active.{jid}"));
    let wanted = [record.clone(), active, format!("zester.job.{jid}.dispatch"), record, last];
    order.retain(|subject| wanted.contains(subject));
    assert_eq!(order, wanted);
    assert_eq!(fleet.record(&jid).await.unwrap().status, JobStatus::Running);
}

#[tokio::test(start_paused = true)]
#[rule("J-4")]
async fn j4_the_deadline_is_the_masters() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = DispatchRequest { timeout: Duration::ZERO, ..fleet.request("*") };
    let before = master.link.now();
    let jid = fleet.ask(&request).await.jid.unwrap();
    let job = fleet.record(&jid).await.unwrap();
    assert_eq!(job.deadline, job.created.plus(Duration::from_secs(60)));
    assert!(job.created >= before);
    let job = fleet.over(&jid).await;
    assert_eq!(job.status, JobStatus::Timeout);
}

#[tokio::test(start_paused = true)]
#[rule("J-6")]
async fn j6_the_silent_are_asked_again_after_the_ack_window_and_when_they_connect() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = fleet.dispatch("*").await;
    let first = web.exec().await;
    let of_db = db.exec().await;
    db.ack(&of_db).await;
    let second = web.exec().await;
    assert_eq!((second.jid, second.dispatch_epoch), (first.jid, first.dispatch_epoch));
    assert!(first.budget - second.budget >= Duration::from_secs(5));
    assert!(web.hears_nothing(Duration::from_secs(10)).await);
    web.reconnect().await;
    let third = web.exec().await;
    assert_eq!(third.jid, jid);
    web.ack(&third).await;
    web.ret(&third, true).await;
    // It acked, so neither the window nor a connect asks it again.
    db.reconnect().await;
    assert!(db.hears_nothing(Duration::from_secs(10)).await);
    db.ret(&of_db, true).await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
#[rule("J-8")]
async fn j8_a_target_without_a_heartbeat_is_not_waited_for() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = DispatchRequest {
        targets: vec![peel("web-1"), peel("ghost")],
        timeout: Duration::from_secs(3600),
        ..fleet.request("")
    };
    let jid = fleet.ask(&request).await.jid.unwrap();
    web.serve(true).await;
    let begun = master.link.now();
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Partial, 1));
    assert_eq!(job.missing.get(&peel("ghost")), Some(&Missing::Unreachable));
    assert!(job.updated.since(begun) < Duration::from_secs(11), "{:?}", job.updated.since(begun));
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_returns_that_cannot_be_written_are_written_later() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    fleet
        .net
        .set_faults(Losing::new(3, |leg| leg.to.is_empty() && leg.subject.starts_with("$KV.job-returns.")));
    web.serve(true).await;
    let job = fleet.over(&jid).await;
    assert_eq!(job.status, JobStatus::Complete);
    assert!(fleet.stored(&jid, "web-1").await.is_some());
}

#[tokio::test(start_paused = true)]
#[rule("J-9")]
async fn j9_a_return_after_the_end_is_stored_as_late() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = fleet.dispatch("web-1").await;
    let request = web.exec().await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Timeout);
    db.ret(&request, true).await;
    web.ret(&request, true).await;
    assert!(fleet.stored_eventually(&jid, "web-1").await.late);
    assert!(fleet.stored(&jid, "db-1").await.is_none());
    assert_eq!(fleet.record(&jid).await.unwrap().status, JobStatus::Timeout);
    eventually("it is counted", async || (master.metric("zester_returns_late_total") == 1).then_some(()))
        .await;
    assert!(db.hears_nothing(Duration::from_secs(1)).await);
}

#[tokio::test(start_paused = true)]
#[rule("J-9", "I-13")]
async fn j9_invented_jobs_cost_a_bounded_number_of_reads_a_second() {
    const INVENTED: u64 = 3_000;
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let web = fleet.peel("web-1").await;
    let reads = Arc::new(Mutex::new(BTreeMap::<u64, u64>::new()));
    let (counter, begun) = (reads.clone(), Instant::now());
    fleet.net.set_faults(Losing::new(usize::MAX, move |leg| {
        if leg.from == "m1" && leg.to.is_empty() && leg.subject == "KV_jobs" {
            *counter.lock().unwrap().entry(begun.elapsed().as_secs()).or_default() += 1;
        }
        false
    }));
    for _ in 0..INVENTED {
        let ret = Return::refusing(web.link.new_jid(), peel("web-1"), 1, Cause::Finished, "");
        let subject = Subject::JobReturn { jid: ret.jid.clone(), peel: ret.peel.clone() };
        web.link.publish(&subject, &ret).await.unwrap();
    }
    eventually("all are counted", async || {
        (master.metric("zester_returns_stray_total") == INVENTED).then_some(())
    })
    .await;
    let reads = reads.lock().unwrap();
    assert!(reads.values().sum::<u64>() <= LATE_MISSING_LOOKS * INVENTED + 100, "{reads:?}");
    assert!(reads.values().all(|count| *count <= 2 * u64::from(LATE_LOOKS_PER_SECOND)), "{reads:?}");
}

#[tokio::test(start_paused = true)]
#[rule("J-19")]
async fn j19_the_end_of_a_job_is_an_event() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let ends = "zester.event._master.job.*.finalized";
    let mut heard = fleet.link.bus().subscribe(ends, Listen::alone(8)).await.unwrap();
    let mut request = fleet.request("*");
    request.metadata.insert("reactor_depth".into(), 2.into());
    let jid = fleet.ask(&request).await.jid.unwrap();
    web.serve(true).await;
    let Some(Delivery::Message(message)) = heard.next().await else { panic!("nothing was heard") };
    assert_eq!(message.subject, format!("zester.event._master.job.{jid}.finalized"));
    let event = fleet.link.open::<Event>(&message.subject, &message.payload).unwrap().message;
    assert_eq!((event.origin.as_str(), event.depth), ("_master", 2));
    assert_eq!(event.data["status"], "complete");
}

#[tokio::test(start_paused = true)]
#[rule("J-1")]
async fn j1_watchers_hear_how_the_job_stands() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let mut heard = fleet.link.bus().subscribe("zester.job.*.status", Listen::alone(8)).await.unwrap();
    fleet.dispatch("*").await;
    web.serve(true).await;
    for wanted in [JobStatus::Running, JobStatus::Complete] {
        let Some(Delivery::Message(message)) = heard.next().await else { panic!("nothing was heard") };
        let event = fleet.link.open::<JobEvent>(&message.subject, &message.payload).unwrap().message;
        assert!(matches!(event.event, JobEventKind::Status { status, .. } if status == wanted), "{event:?}");
    }
}
