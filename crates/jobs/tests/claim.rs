//! A job begins while its client waits, or never (J-28), and a store that takes nothing is told of at once (J-23).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::*;
use zester_jobs::{Command, Event, Failed, Owner, Stage, Timing, Written};
use zester_rule::rule;
use zester_wire::*;

const WAIT_MS: u64 = 15_000;

fn waited_for() -> Owner {
    let job = Job { claim_until: at(WAIT_MS), ..job(2, 600) };
    let mut owner = Owner::dispatch(job, master("m1"), Timing::default());
    let out = owner.step(Event::Begin { absent: Default::default() }, at(0)).unwrap();
    assert_eq!(names(&out), ["create"]);
    owner
}

fn refused(kind: RefusalKind) -> Event {
    Event::Record(Written::Refused(Refusal::new(kind, "jobs is full")))
}

fn claimed() -> Box<Job> {
    let job = waited_for().job().clone();
    assert_eq!(job.status, JobStatus::Claimed);
    Box::new(job)
}

#[track_caller]
fn ends_as_never_run(out: &[Command], revision: u64) {
    let [Command::WriteRecord { job, revision: found }] = out else { panic!("{out:?}") };
    assert_eq!((job.status, *found), (JobStatus::Failed, revision));
    assert!(job.reason.starts_with("it never ran"), "{}", job.reason);
}

/// Everything that could reach a peel.
fn sends(out: &[Command]) -> bool {
    out.iter().any(|command| matches!(command, Command::SendExec { .. } | Command::PublishDispatch))
}

#[test]
#[rule("J-28", "J-23")]
fn j28_a_store_that_refuses_the_claim_is_told_of_at_once() {
    let mut owner = waited_for();
    let out = owner.step(refused(RefusalKind::CannotWrite), at(10)).unwrap();
    assert_eq!(names(&out), ["refuse", "stop"]);
    assert!(matches!(&out[0], Command::Refuse(refusal) if refusal.message == "jobs is full"));
    assert_eq!((owner.stage(), owner.next_wake()), (Stage::Lost, None));
}

#[test]
#[rule("J-28")]
fn j28_a_request_that_is_older_than_its_client_waits_is_dropped() {
    let job = Job { claim_until: at(WAIT_MS), ..job(2, 600) };
    let mut owner = Owner::dispatch(job, master("m1"), Timing::default());
    let out = owner.step(Event::Begin { absent: Default::default() }, at(WAIT_MS)).unwrap();
    assert_eq!(names(&out), ["refuse", "stop"]);
}

#[test]
#[rule("J-28")]
fn j28_a_claim_that_is_written_too_late_never_runs() {
    let mut owner = waited_for();
    let out = owner.step(Event::Record(Written::Done { revision: 3 }), at(WAIT_MS)).unwrap();
    assert_eq!(names(&out), ["mark"]);
    let out = owner.step(Event::Marked(Ok(())), at(WAIT_MS)).unwrap();
    ends_as_never_run(&out, 3);
    let out = owner.step(Event::Record(Written::Done { revision: 4 }), at(WAIT_MS + 1)).unwrap();
    assert_eq!(names(&out), ["refuse", "status", "emit"]);
    assert!(matches!(&out[0], Command::Refuse(refusal) if refusal.kind == RefusalKind::NeverRan));
}

#[test]
#[rule("J-28")]
fn j28_a_job_that_is_recorded_as_running_too_late_is_not_sent() {
    let mut owner = waited_for();
    owner.step(Event::Record(Written::Done { revision: 1 }), at(1)).unwrap();
    owner.step(Event::Marked(Ok(())), at(2)).unwrap();
    assert_eq!(names(&owner.step(Event::Announced(Ok(())), at(3)).unwrap()), ["running"]);
    let out = owner.step(Event::Record(Written::Done { revision: 2 }), at(WAIT_MS)).unwrap();
    assert!(!sends(&out), "{out:?}");
    ends_as_never_run(&out, 2);
}

/// The answer was lost, and the write comes when nobody waits any more: whichever is second finds the other.
#[test]
#[rule("J-28")]
fn j28_a_claim_in_doubt_is_replaced_by_its_end() {
    let mut owner = waited_for();
    owner.step(Event::Record(Written::Failed), at(5_000)).unwrap();
    assert_eq!(names(&owner.step(Event::Tick, at(6_000)).unwrap()), ["create"]);
    // What is refused now says nothing of the first try.
    assert!(owner.step(refused(RefusalKind::CannotWrite), at(6_001)).unwrap().is_empty());
    assert_eq!(names(&owner.step(Event::Tick, at(WAIT_MS)).unwrap()), ["mark"]);
    let out = owner.step(Event::Marked(Ok(())), at(WAIT_MS)).unwrap();
    let [Command::CreateRecord(end)] = &out[..] else { panic!("{out:?}") };
    assert_eq!((end.status, owner.stage()), (JobStatus::Failed, Stage::Withdrawing { marked: true }));
    let mut other = owner.clone();
    // Nothing had been written: from here on a late claim meets a record that is over.
    let out = owner.step(Event::Record(Written::Done { revision: 8 }), at(WAIT_MS + 5)).unwrap();
    assert_eq!(names(&out), ["refuse", "status", "emit"]);
    // It had been.
    let found = Some((claimed(), 7));
    let out = other.step(Event::Record(Written::Conflict { found }), at(WAIT_MS + 5)).unwrap();
    ends_as_never_run(&out, 7);
    assert!(!sends(&out));
}

#[test]
#[rule("J-28")]
fn j28_a_claim_that_cannot_go_on_ends_when_its_client_has_gone() {
    // Each step of a dispatch fails for as long as the client waits.
    type Answer = fn() -> Event;
    let steps: [(Answer, Answer); 3] = [
        (|| Event::Marked(Ok(())), || Event::Marked(Err(Failed))),
        (|| Event::Announced(Ok(())), || Event::Announced(Err(Failed))),
        (|| Event::Record(Written::Done { revision: 2 }), || Event::Record(Written::Failed)),
    ];
    for failing in 0..steps.len() {
        let mut owner = waited_for();
        owner.step(Event::Record(Written::Done { revision: 1 }), at(1)).unwrap();
        for (done, _) in &steps[..failing] {
            owner.step(done(), at(2)).unwrap();
        }
        let mut now = 3;
        let mut out = owner.step(steps[failing].1(), at(now)).unwrap();
        while out.is_empty() || now < WAIT_MS {
            now += 1_000;
            out = owner.step(Event::Tick, at(now)).unwrap();
            if now >= WAIT_MS && out == [Command::MarkActive] {
                out = owner.step(Event::Marked(Ok(())), at(now)).unwrap();
            }
            assert!(!sends(&out) || failing == 1, "{failing}: {out:?}");
            if now < WAIT_MS {
                owner.step(steps[failing].1(), at(now)).unwrap();
            }
        }
        ends_as_never_run(&out, 1);
    }
}

#[test]
#[rule("J-28")]
fn j28_whoever_finds_a_claim_whose_client_has_gone_ends_it() {
    let adopt = |now: u64| {
        let owner = Owner::adopt(*claimed(), 5, master("m2"), Timing::default()).unwrap();
        let mut watched = Watched::new(owner);
        watched.now = at(now);
        watched.begin(&[]);
        watched
    };
    let late = adopt(WAIT_MS);
    late.ended(JobStatus::Failed);
    assert!(!sends(&late.log), "{:?}", late.log);
    // While the client waits it is dispatched afresh (J-13).
    assert_eq!(adopt(WAIT_MS - 1_000).owner.stage(), Stage::Watching);
}

#[test]
#[rule("J-23")]
fn j23_an_end_that_is_refused_is_written_when_there_is_room() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    let owner = &mut watched.owner;
    owner.step(Event::Return(Box::new(ret(1, 1, true))), at(5)).unwrap();
    let out = owner.step(Event::Persisted { peel: peel(1) }, at(6)).unwrap();
    assert_eq!(names(&out), ["complete"]);
    assert!(owner.step(refused(RefusalKind::CannotWrite), at(7)).unwrap().is_empty());
    assert_eq!(names(&owner.step(Event::Tick, at(1_007)).unwrap()), ["complete"]);
    let out = owner.step(Event::Record(Written::Done { revision: 9 }), at(1_008)).unwrap();
    assert_eq!(names(&out), ["status", "emit"]);
}

#[test]
#[rule("J-28")]
fn j28_a_job_that_runs_outlives_the_wait_of_its_client() {
    let mut watched = Watched::new(Owner::dispatch(
        Job { claim_until: at(WAIT_MS), ..job(1, 600) },
        master("m1"),
        Timing::default(),
    ));
    watched.begin(&[]);
    watched.tick(WAIT_MS + 60_000);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.ret(1, true);
    watched.ended(JobStatus::Complete);
}

/// Whoever dies after an end was written is followed by one who reports it: so the mark by which jobs are found comes first.
#[test]
#[rule("J-19")]
fn j19_an_end_is_marked_before_it_is_written_however_early_it_comes() {
    let mut canceled = waited_for();
    canceled.step(Event::Cancel { by: "alice".into() }, at(1)).unwrap();
    let out = canceled.step(Event::Record(Written::Done { revision: 1 }), at(2)).unwrap();
    assert_eq!(names(&out), ["mark"]);
    // A mark that cannot be made is tried again, and nothing is sent meanwhile.
    assert!(canceled.step(Event::Marked(Err(Failed)), at(3)).unwrap().is_empty());
    assert_eq!(names(&canceled.step(Event::Tick, at(1_003)).unwrap()), ["mark"]);
    assert_eq!(names(&canceled.step(Event::Marked(Ok(())), at(1_004)).unwrap()), ["canceled"]);
    // A claim in doubt: the mark is made anew before each try, for a mark without a record does not stay.
    let mut owner = waited_for();
    owner.step(Event::Record(Written::Failed), at(5_000)).unwrap();
    for round in 0..2 {
        let now = WAIT_MS + round * 5_000;
        assert_eq!(names(&owner.step(Event::Tick, at(now)).unwrap()), ["mark"]);
        assert_eq!(names(&owner.step(Event::Marked(Ok(())), at(now)).unwrap()), ["create"]);
        assert!(owner.step(Event::Record(Written::Failed), at(now)).unwrap().is_empty());
    }
}

/// Nothing is recorded then, and the client may have asked another master before.
#[test]
#[rule("J-28")]
fn j28_a_request_that_came_too_late_does_not_say_that_the_job_never_ran() {
    let job = Job { claim_until: at(WAIT_MS), ..job(2, 600) };
    let mut owner = Owner::dispatch(job, master("m1"), Timing::default());
    let out = owner.step(Event::Begin { absent: Default::default() }, at(WAIT_MS)).unwrap();
    assert!(matches!(&out[0], Command::Refuse(refusal) if refusal.kind == RefusalKind::Unavailable));
}

fn reaction() -> Owner {
    let jid = Jid::parse("rxn-0123456789abcdef0123456789abcdef").unwrap();
    let mut owner = Owner::dispatch(Job { jid, ..job(2, 60) }, master("m1"), Timing::default());
    let out = owner.step(Event::Begin { absent: Default::default() }, at(0)).unwrap();
    assert_eq!(names(&out), ["create"]);
    owner
}

/// Nobody can ask for it under another id: what is not sent yet is sent when it can be, with all its time before it.
#[test]
#[rule("R-10", "R-8")]
fn r10_a_reaction_whose_claim_is_in_doubt_past_its_time_is_done_once_it_can_be() {
    let mut owner = reaction();
    owner.step(Event::Record(Written::Failed), at(5_000)).unwrap();
    // Its minute has passed, and the claim may stand.
    assert_eq!(names(&owner.step(Event::Tick, at(300_000)).unwrap()), ["create"]);
    let found = Some((Box::new(owner.job().clone()), 7));
    let out = owner.step(Event::Record(Written::Conflict { found }), at(300_001)).unwrap();
    assert_eq!(names(&out), ["mark"]);
    assert_eq!(names(&owner.step(Event::Marked(Ok(())), at(300_002)).unwrap()), ["announce"]);
    assert_eq!(names(&owner.step(Event::Announced(Ok(())), at(300_003)).unwrap()), ["running"]);
    assert_eq!(owner.job().deadline, at(360_003));
    // The answer to that took longer than its time: once more, before anybody is asked.
    let out = owner.step(Event::Record(Written::Done { revision: 8 }), at(400_000)).unwrap();
    assert_eq!((names(&out), owner.job().deadline), (vec!["running"], at(460_000)));
    let out = owner.step(Event::Record(Written::Done { revision: 9 }), at(400_001)).unwrap();
    assert!(out.contains(&Command::Accept) && sends(&out), "{out:?}");
}

#[test]
#[rule("R-10", "R-8")]
fn r10_a_reaction_that_a_dead_master_left_claimed_is_done_past_its_time() {
    let mut left = reaction();
    left.step(Event::Record(Written::Done { revision: 3 }), at(1)).unwrap();
    let mut owner = Owner::adopt(left.job().clone(), 3, master("m2"), Timing::default()).unwrap();
    let out = owner.step(Event::Begin { absent: Default::default() }, at(200_000)).unwrap();
    assert!(matches!(&out[..], [Command::WriteRecord { .. }]), "{out:?}");
    let out = owner.step(Event::Record(Written::Done { revision: 4 }), at(200_001)).unwrap();
    assert_eq!(names(&out), ["replay"]);
    let out = owner.step(Event::Replayed(Ok(Default::default())), at(200_002)).unwrap();
    assert_eq!(names(&out), ["mark"]);
    owner.step(Event::Marked(Ok(())), at(200_003)).unwrap();
    owner.step(Event::Announced(Ok(())), at(200_004)).unwrap();
    let out = owner.step(Event::Record(Written::Done { revision: 5 }), at(200_005)).unwrap();
    assert!(out.contains(&Command::Accept) && sends(&out), "{out:?}");
}

/// An event that is an hour old is not reacted to either.
#[test]
#[rule("R-10", "R-1")]
fn r10_a_reaction_that_could_not_be_claimed_for_an_hour_is_told_as_never_run() {
    let hour = 3_600_000;
    let mut owner = reaction();
    owner.step(Event::Record(Written::Failed), at(5_000)).unwrap();
    assert_eq!(names(&owner.step(Event::Tick, at(hour)).unwrap()), ["mark"]);
    owner.step(Event::Marked(Ok(())), at(hour)).unwrap();
    let out = owner.step(Event::Record(Written::Done { revision: 1 }), at(hour)).unwrap();
    assert!(matches!(&out[0], Command::Refuse(refusal) if refusal.kind == RefusalKind::NeverRan), "{out:?}");
    assert!(zester_jobs::never_ran(owner.job()));
    // One that was claimed and could not be sent is no other.
    let mut owner = reaction();
    owner.step(Event::Record(Written::Done { revision: 1 }), at(1)).unwrap();
    owner.step(Event::Marked(Err(Failed)), at(2)).unwrap();
    assert_eq!(names(&owner.step(Event::Tick, at(hour)).unwrap()), ["replay"]);
    let out = owner.step(Event::Replayed(Ok(Default::default())), at(hour)).unwrap();
    assert_eq!(names(&out), ["mark"]);
    let out = owner.step(Event::Marked(Ok(())), at(hour)).unwrap();
    ends_as_never_run(&out, 1);
}

#[test]
#[rule("R-10", "J-13")]
fn r10_a_reaction_that_is_given_up_before_it_went_out_says_that_it_never_ran() {
    let left = Job { reclaim_count: 3, ..reaction().job().clone() };
    let mut owner = Owner::adopt(left, 3, master("m2"), Timing::default()).unwrap();
    let out = owner.step(Event::Begin { absent: Default::default() }, at(1)).unwrap();
    ends_as_never_run(&out, 3);
    let out = owner.step(Event::Record(Written::Done { revision: 4 }), at(2)).unwrap();
    assert!(matches!(&out[0], Command::Refuse(refusal) if refusal.kind == RefusalKind::NeverRan), "{out:?}");
}
