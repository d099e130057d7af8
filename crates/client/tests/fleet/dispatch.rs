//! Asking masters.

use crate::world::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::memory::{Fate, Faults, Leg};
use zester_client::{Error, limits};
use zester_rule::rule;
use zester_wire::*;

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_a_dispatch_is_asked_again_with_the_same_jid_until_a_master_grants_it() {
    let mut world = world().await;
    let request = world.request("test.ping");
    let (client, jid) = (world.client.clone(), request.jid.clone());
    let mut asking = tokio::task::JoinSet::new();
    asking.spawn(async move { client.dispatch(request).await.map(|dispatched| dispatched.targets) });
    // Nobody there at first, then one that does not answer, then one that must be asked again.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked: Arc<Mutex<Vec<Jid>>> = Arc::default();
    let seen = asked.clone();
    world
        .serve("zester.dispatch", move |_, question: DispatchRequest| {
            let mut seen = seen.lock().unwrap();
            seen.push(question.jid.clone());
            let turn = seen.len();
            async move {
                let refusal = Refusal::new(RefusalKind::ClaimPending, "claim pending");
                match turn {
                    1 => None,
                    2 => Some(DispatchReply {
                        v: 1,
                        jid: None,
                        targets: Vec::new(),
                        error: Some(refusal),
                        offline: None,
                    }),
                    _ => Some(granted(&question.jid, &["web-1"])),
                }
            }
        })
        .await;
    let targets = asking.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(targets, [peel("web-1")]);
    assert_eq!(*asked.lock().unwrap(), [jid.clone(), jid.clone(), jid]);
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_is_told_at_once() {
    let mut world = world().await;
    world
        .serve("zester.dispatch", |_, _: DispatchRequest| async {
            let refusal = Refusal::new(RefusalKind::NoTargets, "no peel matches `nothing`");
            Some(DispatchReply { v: 1, jid: None, targets: Vec::new(), error: Some(refusal), offline: None })
        })
        .await;
    let began = Instant::now();
    let refused = world.client.dispatch(world.request("test.ping")).await.err().unwrap();
    assert!(matches!(refused, Error::Refused(refusal) if refusal.kind == RefusalKind::NoTargets));
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_every_question_says_how_long_its_client_still_waits() {
    let mut world = world().await;
    let waits: Arc<Mutex<Vec<Duration>>> = Arc::default();
    let seen = waits.clone();
    world
        .serve("zester.dispatch", move |_, question: DispatchRequest| {
            seen.lock().unwrap().push(question.wait.unwrap());
            async { None::<DispatchReply> }
        })
        .await;
    let began = Instant::now();
    let jid = world.request("test.ping").jid;
    let request = DispatchRequest { jid: jid.clone(), ..world.request("test.ping") };
    let error = world.client.dispatch(request).await.err().unwrap();
    // They were asked and said nothing: one may have it. That is what is said, and how to find out.
    assert!(matches!(&error, Error::InDoubt { .. }), "{error}");
    assert!(error.to_string().contains(&format!("`zester job show {jid}`")), "{error}");
    assert!(error.to_string().starts_with("no master answered"), "{error}");
    assert!(began.elapsed() >= limits::PATIENCE);
    let waits = waits.lock().unwrap().clone();
    assert_eq!(waits[0], limits::PATIENCE);
    assert!(waits.len() > 1 && waits.is_sorted_by(|a, b| a > b), "{waits:?}");
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_a_job_whose_answer_was_lost_is_found_by_its_record() {
    let mut world = world().await;
    world.serve("zester.dispatch", |_, _: DispatchRequest| async { None::<DispatchReply> }).await;
    let request = world.request("test.ping");
    let job = job(world.client.link(), &request.jid, &["web-1"], JobStatus::Running);
    world.client.link().put(&Key::Job(job.jid.clone()), &job).await.unwrap();
    let dispatched = world.client.dispatch(request).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(dispatched.targets, [peel("web-1")]);
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_what_every_master_refused_or_nobody_heard_did_not_run() {
    let mut world = world().await;
    let nobody = world.client.dispatch(world.request("test.ping")).await.err().unwrap();
    assert!(matches!(&nobody, Error::NoMaster { .. }), "{nobody}");
    world
        .serve("zester.dispatch", |_, _: DispatchRequest| async {
            let refusal = Refusal::new(RefusalKind::CannotWrite, "jobs is 97 % full");
            Some(DispatchReply { v: 1, jid: None, targets: Vec::new(), error: Some(refusal), offline: None })
        })
        .await;
    let began = Instant::now();
    let refused = world.client.dispatch(world.request("test.ping")).await.err().unwrap();
    assert!(
        matches!(&refused, Error::Refused(refusal) if refusal.message == "jobs is 97 % full"),
        "{refused}"
    );
    assert!(began.elapsed() < Duration::from_secs(1), "it is told at once");
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_what_cannot_be_sent_is_told_at_once_and_did_not_run() {
    let mut world = world().await;
    world.serve("zester.dispatch", |_, _: DispatchRequest| async { None::<DispatchReply> }).await;
    world.net.set_max_payload(65_536);
    let request = DispatchRequest { state_id: "x".repeat(100_000), ..world.request("test.echo") };
    let began = Instant::now();
    let error = world.client.dispatch(request).await.err().unwrap();
    let Error::Bus(cause) = &error else { panic!("{error}") };
    assert_eq!(cause.bus_kind(), Some(zester_bus::Kind::TooLarge), "{error}");
    assert!(began.elapsed() < Duration::from_secs(1), "asking again changes nothing");
}

/// One that did not answer may have it, whatever the next one says.
#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_a_refusal_after_silence_leaves_it_in_doubt() {
    let mut world = world().await;
    let turn: Arc<Mutex<u32>> = Arc::default();
    world
        .serve("zester.dispatch", move |_, _: DispatchRequest| {
            let mut turn = turn.lock().unwrap();
            *turn += 1;
            let silent = *turn == 1;
            async move {
                let refusal = Refusal::new(RefusalKind::NoTargets, "no peel matches");
                (!silent).then_some(DispatchReply {
                    v: 1,
                    jid: None,
                    targets: Vec::new(),
                    error: Some(refusal),
                    offline: None,
                })
            }
        })
        .await;
    let error = world.client.dispatch(world.request("test.ping")).await.err().unwrap();
    assert!(matches!(&error, Error::InDoubt { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn without_a_master_the_patience_ends_and_says_so() {
    let world = world().await;
    let began = Instant::now();
    let error = world.client.resolve("*").await.unwrap_err();
    assert!(matches!(&error, Error::NoMaster { .. }), "{error}");
    assert!(began.elapsed() <= limits::PATIENCE);
    assert!(error.to_string().contains("none is connected"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_expression_is_resolved_by_a_master() {
    let mut world = world().await;
    world
        .serve("zester.target.resolve", |_, asked: ResolveRequest| async move {
            assert_eq!(asked.target_expr, "web*");
            Some(ResolveReply {
                v: 1,
                peels: vec![peel("web-1"), peel("web-2")],
                too_many: false,
                explained: None,
                error: None,
            })
        })
        .await;
    assert_eq!(world.client.resolve("web*").await.unwrap(), [peel("web-1"), peel("web-2")]);
}

#[tokio::test(start_paused = true)]
#[rule("J-27")]
async fn j27_more_names_than_one_answer_holds_are_read_page_by_page() {
    let mut world = world().await;
    world
        .serve("zester.target.resolve", |_, _: ResolveRequest| async move {
            Some(ResolveReply { v: 1, peels: Vec::new(), too_many: true, explained: None, error: None })
        })
        .await;
    world
        .serve("zester.peel.list", |_, asked: PeelsRequest| async move {
            let name = if asked.after.is_none() { "web-1" } else { "web-2" };
            let status = PeelStatus {
                peel: peel(name),
                online: true,
                last_seen: UnixMillis(1),
                version: String::new(),
                os: String::new(),
                busy: 0,
                outbox: 0,
            };
            Some(PeelsReply { v: 1, peels: vec![status], more: asked.after.is_none(), error: None })
        })
        .await;
    assert_eq!(world.client.resolve("web*").await.unwrap(), [peel("web-1"), peel("web-2")]);
}

fn claim_pending() -> Option<DispatchReply> {
    let error = Some(Refusal::new(RefusalKind::ClaimPending, "claim pending"));
    Some(DispatchReply { v: 1, jid: None, targets: Vec::new(), error, offline: None })
}

/// A master that says so has begun with it, and whoever adopts its claim runs it.
#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_a_claim_that_is_pending_to_the_end_leaves_it_in_doubt() {
    let mut world = world().await;
    world.serve("zester.dispatch", |_, _: DispatchRequest| async { claim_pending() }).await;
    let error = world.client.dispatch(world.request("test.ping")).await.err().unwrap();
    assert!(matches!(&error, Error::InDoubt { .. }), "{error}");
}

/// Replicas are so far behind that they do not know the job.
struct Behind;

impl Faults for Behind {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn lag(&mut self, _: &str, _: &str) -> Duration {
        limits::PATIENCE * 2
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_whether_a_job_in_doubt_stands_is_asked_of_the_leader() {
    let mut world = world().await;
    world.serve("zester.dispatch", |_, _: DispatchRequest| async { claim_pending() }).await;
    let request = world.request("test.ping");
    let job = job(world.client.link(), &request.jid, &["web-1"], JobStatus::Running);
    world.net.set_faults(Behind);
    let other = world.other.clone();
    let late = Instant::now() + limits::PATIENCE - limits::ANSWER_WAIT;
    world.tasks.spawn(async move {
        tokio::time::sleep_until(late).await;
        other.put(&Key::Job(job.jid.clone()), &job).await.unwrap();
    });
    let dispatched = world.client.dispatch(request).await;
    assert!(dispatched.is_ok(), "{:?}", dispatched.err());
}

/// A master may claim it until the last moment that it was given.
#[tokio::test(start_paused = true)]
#[rule("J-28")]
async fn j28_what_is_claimed_in_the_last_moment_is_found() {
    let mut world = world().await;
    world.serve("zester.dispatch", |_, _: DispatchRequest| async { claim_pending() }).await;
    let request = world.request("test.ping");
    let job = job(world.client.link(), &request.jid, &["web-1"], JobStatus::Running);
    let other = world.other.clone();
    let last = Instant::now() + limits::PATIENCE - Duration::from_millis(1);
    world.tasks.spawn(async move {
        tokio::time::sleep_until(last).await;
        other.put(&Key::Job(job.jid.clone()), &job).await.unwrap();
    });
    let dispatched = world.client.dispatch(request).await;
    assert!(dispatched.is_ok(), "{:?}", dispatched.err());
}
