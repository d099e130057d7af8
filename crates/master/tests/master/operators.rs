//! What operators ask: cancel, retry, resolve; and what strangers send.

use crate::fleet::{Fleet, LONG, eventually, peel};
use serde_json::json;
use std::time::Duration;
use zester_bus::{Delivery, Listen};
use zester_rule::rule;
use zester_wire::*;

async fn long_job(fleet: &Fleet) -> Jid {
    let request = DispatchRequest { timeout: Duration::from_secs(3600), ..fleet.request("*") };
    fleet.ask(&request).await.jid.unwrap()
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_the_owner_cancels() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    let jid = long_job(&fleet).await;
    db.serve(true).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    fleet.stored_eventually(&jid, "db-1").await;
    let mut heard = fleet.link.bus().subscribe(subject::ALL_CANCELS, Listen::alone(8)).await.unwrap();
    let reply = fleet.kill(&jid).await;
    assert_eq!((reply.message.as_str(), reply.error), ("told 1 peel to stop", None));
    let PeelCommand::Cancel(cancel) = web.command().await else { panic!("not a cancel") };
    assert_eq!((cancel.jid, cancel.dispatch_epoch), (jid.clone(), 1));
    let Some(Delivery::Message(message)) = heard.next().await else { panic!("nothing was heard") };
    let event = fleet.link.open::<JobEvent>(&message.subject, &message.payload).unwrap().message;
    assert_eq!(event.event, JobEventKind::Canceled { data: "cancelled by user".into(), by: "ann".into() });
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Canceled, 1));
    assert_eq!(job.reason, "canceled by ann");
    // What the peel has is kept.
    let ret = Return { canceled: true, cause: Cause::Canceled, ..web.returning(&exec, false) };
    web.send(&ret).await;
    let stored = fleet.stored_eventually(&jid, "web-1").await;
    assert!(stored.canceled && stored.late);

    let reply = fleet.kill(&jid).await;
    let refusal = reply.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::AlreadyOver);
    assert_eq!(refusal.message, "the job is over: canceled; nothing was changed");
    assert_eq!(fleet.record(&jid).await.unwrap(), job);
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_any_master_cancels_the_job_of_another() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    let _second = fleet.master("m2").await;
    // The owner hears no requests, only the event.
    fleet.net.set_faults(crate::fleet::Losing::new(usize::MAX, |leg| {
        leg.to == "m1" && leg.subject.starts_with("zester.admin.")
    }));
    let mut told = None;
    for _ in 0..4 {
        let request = AdminRequest::Kill { jid: jid.clone(), user: "bob".into(), reason: String::new() };
        let subject = Subject::Admin { verb: Token::parse("kill").unwrap() };
        let asked = fleet.link.request::<_, AdminReply>(&subject, &request, Duration::from_secs(1)).await;
        if let Ok(reply) = asked {
            told.get_or_insert(reply);
        }
    }
    assert_eq!(told.unwrap().message, "told 1 peel to stop");
    assert!(matches!(web.command().await, PeelCommand::Cancel(_)));
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, &job.owner, job.epoch), (JobStatus::Canceled, &first.id, 1));
    assert_eq!(job.reason, "canceled by bob");
}

#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_there_may_be_no_such_job() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let reply = fleet.kill(&fleet.link.new_jid()).await;
    assert_eq!(reply.error.unwrap().kind, RefusalKind::NoSuchJob);
}

async fn retry(fleet: &Fleet, jid: &Jid, part: RetryPart) -> AdminReply {
    let (jid, new_jid) = (jid.clone(), fleet.link.new_jid());
    let (user, wait, timeout) = ("ann".into(), None, None);
    fleet.admin(&AdminRequest::Retry { jid, new_jid, part, user, wait, timeout }).await
}

#[tokio::test(start_paused = true)]
#[rule("J-18")]
async fn j18_a_job_that_is_not_over_is_not_retried() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    let exec = web.exec().await;
    web.ack(&exec).await;
    let refusal = retry(&fleet, &jid, RetryPart::Missing).await.error.unwrap();
    assert_eq!(refusal.message, format!("job {jid} is still running"));
    assert!(!refusal.kind.is_retryable() && refusal.hint.contains("wait"), "{}", refusal.hint);
    assert!(web.hears_nothing(Duration::from_secs(3)).await, "nothing is done twice");
    web.ret(&exec, true).await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
#[rule("J-18")]
async fn j18_who_was_stopped_at_the_end_of_its_job_is_missing_and_may_take_longer_the_next_time() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = DispatchRequest { timeout: Duration::from_secs(5), ..fleet.request("*") };
    let jid = fleet.ask(&request).await.jid.unwrap();
    let exec = web.exec().await;
    web.ack(&exec).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, job.return_count, job.missing.len()), (JobStatus::Timeout, 0, 1));
    // It heard the cancel of the end, and returns what it has.
    web.send(&Return { canceled: true, cause: Cause::Canceled, ..web.returning(&exec, false) }).await;
    assert!(fleet.stored_eventually(&jid, "web-1").await.late);
    let again = AdminRequest::Retry {
        jid: jid.clone(),
        new_jid: fleet.link.new_jid(),
        part: RetryPart::Missing,
        user: "ann".into(),
        wait: None,
        timeout: Some(Duration::from_secs(90)),
    };
    let reply = fleet.admin(&again).await;
    assert_eq!((reply.message.as_str(), &reply.error), ("asked 1 peel again", &None));
    let new = fleet.record(&reply.jid.unwrap()).await.unwrap();
    assert_eq!((new.timeout, new.targets), (Duration::from_secs(90), vec![peel("web-1")]));
    let refusal = retry(&fleet, &jid, RetryPart::Failed).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::NoTargets);
}

#[tokio::test(start_paused = true)]
#[rule("J-17", "J-18")]
async fn j17_a_name_that_no_peel_has_stays_in_the_record_and_is_asked_once_there_is_one() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = DispatchRequest { targets: vec![peel("web-1")], ..fleet.request("L@web-1,ghost") };
    let jid = fleet.ask(&request).await.jid.unwrap();
    web.serve(true).await;
    let job = fleet.over(&jid).await;
    assert_eq!((job.status, &job.targets), (JobStatus::Complete, &vec![peel("web-1")]));
    assert_eq!((&job.unknown_peels, job.missing.len()), (&vec![peel("ghost")], 0));
    let refusal = retry(&fleet, &jid, RetryPart::Missing).await.error.unwrap();
    assert_eq!(refusal.message, "nothing is missing but names that no peel has: ghost");
    let mut ghost = fleet.peel("ghost").await;
    fleet.known("*", 2).await;
    let again = retry(&fleet, &jid, RetryPart::Missing).await.jid.unwrap();
    assert_eq!(ghost.serve(true).await.jid, again);
    let job = fleet.over(&again).await;
    assert_eq!((&job.targets, job.unknown_peels.len()), (&vec![peel("ghost")], 0));
}

#[tokio::test(start_paused = true)]
#[rule("J-18")]
async fn j18_a_part_is_asked_again_as_a_new_job() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    let mut db = fleet.peel("db-1").await;
    let mut mail = fleet.peel("mail-1").await;
    fleet.known("*", 3).await;
    let mut request = DispatchRequest { state_id: "web".into(), test: true, ..fleet.request("*") };
    request.args.insert("a".into(), json!(1));
    let jid = fleet.ask(&request).await.jid.unwrap();
    web.serve(true).await;
    db.serve(false).await;
    let unanswered = mail.exec().await;
    mail.ack(&unanswered).await;
    fleet.over(&jid).await;

    let reply = retry(&fleet, &jid, RetryPart::Failed).await;
    assert_eq!((reply.message.as_str(), &reply.error), ("asked 1 peel again", &None));
    let exec = db.serve(true).await;
    assert_eq!(Some(exec.jid), reply.jid);
    assert_eq!((exec.state_id.as_str(), exec.test, &exec.args["a"]), ("web", true, &json!(1)));
    let job = fleet.over(&reply.jid.unwrap()).await;
    assert_eq!((job.status, &job.targets), (JobStatus::Complete, &vec![peel("db-1")]));
    assert_eq!(job.metadata["retry_of"], jid.as_str());

    let again = retry(&fleet, &jid, RetryPart::Missing).await.jid.unwrap();
    assert_eq!(mail.serve(true).await.jid, again);
    let job = fleet.over(&again).await;
    assert_eq!(job.targets, [peel("mail-1")]);

    let refusal = retry(&fleet, &again, RetryPart::Failed).await.error.unwrap();
    assert_eq!((refusal.kind, refusal.message.as_str()), (RefusalKind::NoTargets, "no peel has failed"));
    let refusal = retry(&fleet, &fleet.link.new_jid(), RetryPart::All).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::NoSuchJob);
}

#[tokio::test(start_paused = true)]
async fn verbs_that_are_not_built_are_refused_by_name() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let bake = Subject::Admin { verb: Token::parse("bake").unwrap() };
    let reply: AdminReply = fleet.link.request(&bake, &AdminRequest::Unknown, LONG).await.unwrap();
    let refusal = reply.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::Invalid);
    assert_eq!(
        refusal.message,
        "this master cannot bake yet; known are kill, retry, publish, forget, enroll, reactor_rules and breaker_close"
    );
}

#[tokio::test(start_paused = true)]
#[rule("D-8")]
async fn d8_expressions_are_resolved_and_mistakes_pointed_at() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let _web = fleet.peel("web-1").await;
    let db = fleet.peel("db-1").await;
    fleet.known("*", 2).await;
    db.publish_facts(json!({"os": "Alpine"})).await;
    fleet.known("G@os:alpine", 1).await;
    assert_eq!(fleet.resolve("G@os:deb*").await.unwrap().peels, [peel("web-1")]);
    assert_eq!(fleet.resolve("not web*").await.unwrap().peels, [peel("db-1")]);
    assert_eq!(fleet.resolve("L@web-1,nobody").await.unwrap().peels, [peel("web-1")]);
    let refusal = fleet.resolve("web-1 X@b").await.unwrap().error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::BadTarget);
    assert!(refusal.message.contains("\n  web-1 X@b\n        ^"), "{}", refusal.message);

    let refusal = fleet.ask(&fleet.request("mail*")).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::NoTargets);
    assert_eq!(refusal.message, "no peel matches `mail*`");
    assert_eq!(refusal.hint, "2 peels are known, `zester peel list` shows them");
    let refusal = fleet.ask(&fleet.request("(web")).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::BadTarget);
    let twice = DispatchRequest { targets: vec![peel("a"), peel("a")], ..fleet.request("") };
    assert_eq!(fleet.ask(&twice).await.error.unwrap().kind, RefusalKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn garbage_on_every_subject_is_counted_and_changes_nothing() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    let subjects = [
        "zester.dispatch".to_string(),
        "zester.admin.kill".to_string(),
        "zester.target.resolve".to_string(),
        format!("zester.job.{jid}.ack.web-1"),
        format!("zester.job.{jid}.return.web-1"),
        format!("zester.job.{jid}.cancel"),
        "zester.job.nonsense.return.web-1".to_string(),
    ];
    let before = master.link.dropped().total();
    for subject in &subjects {
        fleet.link.bus().publish(subject, "garbage".into()).await.unwrap();
    }
    fleet.link.bus().publish("zester.heartbeat.web-1", "garbage".into()).await.unwrap();
    fleet.link.bus().put("facts", "web-1", "garbage".into()).await.unwrap();
    eventually("all are counted", async || (master.link.dropped().total() == before + 9).then_some(())).await;
    // A return in the name of another.
    let exec = web.exec().await;
    let subject = Subject::JobReturn { jid: jid.clone(), peel: peel("web-1") };
    let forged = Return { peel: peel("db-1"), ..web.returning(&exec, false) };
    fleet.link.publish(&subject, &forged).await.unwrap();
    web.ack(&exec).await;
    web.ret(&exec, true).await;
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
}

/// Its last return is being written: nothing is left to stop.
#[tokio::test(start_paused = true)]
#[rule("J-11")]
async fn j11_a_kill_of_a_job_that_is_ending_says_so_and_changes_nothing() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = long_job(&fleet).await;
    fleet.net.set_led("KV_job-returns", false);
    web.serve(true).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let reply = fleet.kill(&jid).await;
    assert_eq!(reply.error, None);
    assert_eq!(reply.message, "the job is ending already; nobody waits for more returns");
    fleet.net.set_led("KV_job-returns", true);
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
}
