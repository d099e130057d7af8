//! The small functions around the machines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::{Watched, at, jid, job, master, peel, ret, ret_of};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zester_jobs::intake::{Verdict, judge, may_cancel};
use zester_jobs::limits::PRUNE_MIN_AGE;
use zester_jobs::scan::Scan;
use zester_jobs::{Timing, messages, prune, retry};
use zester_rule::rule;
use zester_wire::*;

fn request_of(job: &Job) -> DispatchRequest {
    decode(&encode(job).unwrap()).unwrap()
}

#[test]
#[rule("J-3")]
fn j3_the_same_jid_again_by_this_table() {
    let (me, other) = (master("m1"), master("m2"));
    let retryable =
        |verdict: &Verdict| matches!(verdict, Verdict::Refuse(refusal) if refusal.kind.is_retryable());
    for (status, owner, dead, expected) in [
        (JobStatus::Claimed, &me, false, "resume"),
        (JobStatus::Claimed, &other, false, "pending"),
        (JobStatus::Claimed, &other, true, "adopt"),
        (JobStatus::Running, &me, false, "same"),
        (JobStatus::Running, &other, false, "same"),
        (JobStatus::Running, &other, true, "adopt"),
        (JobStatus::Complete, &other, true, "same"),
        (JobStatus::Canceled, &other, false, "same"),
        (JobStatus::Unknown, &other, true, "same"),
    ] {
        let existing = Job { status, owner: owner.clone(), ..job(2, 60) };
        let verdict = judge(&existing, &request_of(&existing), &me, dead);
        let found = match &verdict {
            Verdict::Resume => "resume",
            Verdict::Adopt => "adopt",
            Verdict::Same => "same",
            Verdict::Refuse(_) if retryable(&verdict) => "pending",
            Verdict::Refuse(_) => "conflict",
        };
        assert_eq!(found, expected, "{status:?} {owner} {dead}");
        let changed = DispatchRequest { state_id: "other".into(), ..request_of(&existing) };
        let verdict = judge(&existing, &changed, &me, dead);
        assert!(matches!(verdict, Verdict::Refuse(refusal) if refusal.kind == RefusalKind::Conflict));
    }
}

#[test]
#[rule("J-11")]
fn j11_only_a_job_that_is_not_over_can_be_canceled() {
    for status in [JobStatus::Claimed, JobStatus::Running] {
        assert!(may_cancel(&Job { status, ..job(1, 60) }).is_ok());
    }
    let refusal = may_cancel(&Job { status: JobStatus::Partial, ..job(1, 60) }).unwrap_err();
    assert_eq!(
        (refusal.kind, refusal.message.as_str()),
        (RefusalKind::AlreadyOver, "the job is over: partial")
    );
}

#[test]
#[rule("J-13")]
fn j13_an_owner_missing_in_two_scans_running_is_dead() {
    let (me, dead, alive) = (master("m1"), master("m2"), master("m3"));
    let other = Jid::new(UnixMillis(fleet::T0), [3; 16]);
    let active = vec![(jid(), dead.clone()), (other, alive.clone())];
    let beats = BTreeSet::from([me.clone(), alive.clone()]);
    let timing = Timing::default();
    let mut scan = Scan::default();
    assert!(scan.observe(&me, &active, &beats, &timing).is_empty());
    assert_eq!(scan.observe(&me, &active, &beats, &timing), [jid()]);
    assert!(scan.is_dead(&dead, &timing) && !scan.is_dead(&alive, &timing));
    // It was only slow: one heartbeat and the count begins anew.
    let mut scan = Scan::default();
    scan.observe(&me, &active, &beats, &timing);
    scan.observe(&me, &active, &BTreeSet::from([alive, dead]), &timing);
    assert!(scan.observe(&me, &active, &beats, &timing).is_empty());
}

#[test]
#[rule("J-13")]
fn j13_a_job_of_a_live_owner_that_nobody_works_on_is_an_orphan_after_two_looks() {
    let me = master("m1");
    let beats = BTreeSet::from([me.clone()]);
    let timing = Timing::default();
    let (mine, other) = ((jid(), me.clone()), (Jid::new(UnixMillis(fleet::T0), [3; 16]), me.clone()));
    let mut scan = Scan::default();
    assert!(
        scan.observe(&me, std::slice::from_ref(&mine), &beats, &timing).is_empty(),
        "it may just be starting"
    );
    assert_eq!(scan.observe(&me, &[mine.clone(), other], &beats, &timing), [jid()]);
    assert!(!scan.is_dead(&me, &timing), "its other jobs are well");
    // It had a task in between, or a look in between failed.
    let mut scan = Scan::default();
    scan.observe(&me, std::slice::from_ref(&mine), &beats, &timing);
    scan.observe(&me, &[], &beats, &timing);
    assert!(scan.observe(&me, std::slice::from_ref(&mine), &beats, &timing).is_empty());
    scan.skip();
    assert!(scan.observe(&me, &[mine], &beats, &timing).is_empty());
}

#[test]
#[rule("J-13")]
fn j13_by_default_a_job_is_taken_over_within_twelve_seconds() {
    let timing = Timing::default();
    // The key lives on for what was left of it, and then has to be missed by two looks.
    let longest = timing.master_ttl + timing.orphan_scan * timing.orphan_misses;
    assert!(longest <= Duration::from_secs(12), "{longest:?}");
    assert!(timing.master_heartbeat * 3 <= timing.master_ttl, "one lost beat is no death");
}

#[test]
#[rule("J-14")]
fn j14_a_restarted_master_reclaims_its_own_jobs_by_the_same_path() {
    let (before, now) = (MasterId::new("m1", "boot1").unwrap(), MasterId::new("m1", "boot2").unwrap());
    let beats = BTreeSet::from([now.clone()]);
    let mut scan = Scan::default();
    for expected in [vec![], vec![jid()]] {
        assert_eq!(scan.observe(&now, &[(jid(), before.clone())], &beats, &Timing::default()), expected);
    }
}

#[test]
#[rule("J-18")]
fn j18_a_retry_asks_all_the_missing_or_the_failed() {
    let job = job(4, 60);
    let returns = BTreeMap::from([
        (peel(1), ret(1, 1, true)),
        (peel(2), ret(2, 1, false)),
        (peel(3), ret_of(3, 1, Cause::Deadline)),
    ]);
    assert_eq!(retry::targets(&job, &returns, RetryPart::All), job.targets);
    assert_eq!(retry::targets(&job, &returns, RetryPart::Missing), [peel(3), peel(4)]);
    assert_eq!(retry::targets(&job, &returns, RetryPart::Failed), [peel(2)]);
    assert!(retry::targets(&job, &returns, RetryPart::Unknown).is_empty());
}

#[test]
#[rule("J-18")]
fn j18_who_did_not_return_in_time_is_missing_unless_it_succeeded_after_all() {
    let late = |ret: Return| Return { late: true, ..ret };
    let names = |numbers: &[usize]| numbers.iter().map(|number| peel(*number)).collect::<Vec<_>>();
    let missing = names(&[2, 3, 4, 5]).into_iter().map(|peel| (peel, Missing::Running)).collect();
    let job = Job { status: JobStatus::Partial, return_count: 1, missing, ..job(5, 60) };
    let returns = BTreeMap::from([
        (peel(1), ret(1, 1, false)),
        // Stopped by the master at the end of the job.
        (peel(2), late(ret_of(2, 1, Cause::Canceled))),
        (peel(3), late(ret(3, 1, false))),
        (peel(4), late(ret(4, 1, true))),
        // Not marked yet; the record decides.
        (peel(5), ret_of(5, 1, Cause::Canceled)),
    ]);
    assert_eq!(retry::targets(&job, &returns, RetryPart::Missing), names(&[2, 3, 5]));
    assert_eq!(retry::targets(&job, &returns, RetryPart::Failed), names(&[1]));
    let without = retry::targets(&job, &BTreeMap::new(), RetryPart::Missing);
    assert_eq!(without, names(&[2, 3, 4, 5]), "the first has returned, though nobody knows what");
    let counted: BTreeMap<_, _> = returns.into_iter().filter(|(peel, _)| *peel == self::peel(1)).collect();
    let missing = retry::targets(&job, &counted, RetryPart::Missing).len() as u64;
    assert_eq!(job.return_count + missing, job.target_count());
}

/// The store of returns drops the oldest when it is full, and records live longer.
#[test]
#[rule("J-18")]
fn j18_who_has_returned_is_not_asked_again_because_its_return_is_not_kept_any_more() {
    let job = Job { status: JobStatus::Complete, return_count: 2, success_count: 2, ..job(2, 60) };
    let none = BTreeMap::new();
    assert!(retry::targets(&job, &none, RetryPart::Missing).is_empty());
    assert!(retry::targets(&job, &none, RetryPart::Failed).is_empty());
    assert_eq!(retry::targets(&job, &none, RetryPart::All), job.targets);
    assert_eq!(retry::forgotten(&job, &none), 2);
    // An interrupted one has returned and is named as missing.
    let missing = BTreeMap::from([(peel(1), Missing::Interrupted), (peel(3), Missing::Unreachable)]);
    let job = Job { status: JobStatus::Partial, return_count: 2, missing, ..self::job(3, 60) };
    assert_eq!(retry::targets(&job, &none, RetryPart::Missing), [peel(1), peel(3)]);
    assert_eq!(retry::forgotten(&job, &none), 1);
    // A record that does not account for all is no proof of anything.
    let job = Job { status: JobStatus::Complete, return_count: 1, ..self::job(2, 60) };
    assert_eq!(retry::targets(&job, &none, RetryPart::Missing), job.targets);
}

#[test]
#[rule("J-18")]
fn j18_only_a_job_that_is_over_can_be_retried() {
    for status in [JobStatus::Pending, JobStatus::Claimed, JobStatus::Running, JobStatus::Unknown] {
        let refusal = retry::may_retry(&Job { status, ..job(1, 60) }).unwrap_err();
        assert!(!refusal.kind.is_retryable(), "{refusal}");
        assert!(refusal.hint.contains("wait"), "{}", refusal.hint);
    }
    for status in [JobStatus::Complete, JobStatus::Partial, JobStatus::Timeout, JobStatus::Canceled] {
        assert_eq!(retry::may_retry(&Job { status, ..job(1, 60) }), Ok(()));
    }
}

#[test]
#[rule("J-23")]
fn j23_room_is_made_in_time_and_only_by_jobs_that_have_been_over_for_a_while() {
    for (bytes, excess) in [(0, 0), (799, 0), (800, 100), (950, 250), (1_000, 300)] {
        assert_eq!(prune::excess(bytes, 1_000), excess, "{bytes} of 1,000");
    }
    let ended = UnixMillis(fleet::T0);
    let of = |status| Job { status, updated: ended, ..job(1, 60) };
    let (soon, later) = (ended.plus(PRUNE_MIN_AGE - Duration::from_millis(1)), ended.plus(PRUNE_MIN_AGE));
    for status in [JobStatus::Complete, JobStatus::Failed, JobStatus::Timeout, JobStatus::Canceled] {
        assert!(!prune::may_go(&of(status), false, soon), "somebody may still look at it");
        assert!(prune::may_go(&of(status), false, later), "{status:?}");
    }
    for status in [JobStatus::Pending, JobStatus::Claimed, JobStatus::Running, JobStatus::Unknown] {
        assert!(!prune::may_go(&of(status), false, later), "{status:?}");
    }
}

#[test]
#[rule("J-19", "J-23")]
fn j19_a_job_that_was_not_reported_yet_makes_no_room() {
    let ended = Job { status: JobStatus::Complete, updated: fleet::at(0), ..job(1, 60) };
    let running = Job { status: JobStatus::Running, ..ended.clone() };
    let old = fleet::at(3_600_000);
    assert!(prune::may_go(&ended, false, old));
    assert!(!prune::may_go(&ended, true, old), "its owner died before it told anybody");
    assert!(!prune::may_go(&ended, false, fleet::at(1_000)), "somebody may still read it");
    assert!(!prune::may_go(&running, false, old));
}

#[test]
#[rule("J-19")]
fn j19_a_finalized_job_is_told_with_status_counts_and_depth() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    watched.ret(1, true);
    let mut record = watched.record.clone().unwrap();
    record.metadata.insert("reactor_depth".into(), 2.into());
    let (subject, event) = messages::finalized_event(&record, at(9)).unwrap();
    assert_eq!(subject.to_string(), format!("zester.event._master.job.{}.finalized", jid()));
    assert_eq!((event.depth, event.data["status"].as_str()), (2, Some("complete")));
    assert_eq!(event.data["return_count"], 1);
}

#[test]
#[rule("J-19")]
fn j19_a_job_is_told_as_dispatched_while_it_runs_and_is_young() {
    let record = Watched::dispatched(1, 60, &[]).record.unwrap();
    let told = |job: &Job, seconds: u64| {
        let now = UnixMillis(job.created.0 + seconds * 1_000);
        messages::dispatched_event(job, now).unwrap().map(|(subject, event)| (subject.to_string(), event.id))
    };
    let wanted =
        (format!("zester.event._master.job.{}.dispatched", jid()), format!("job-{}-dispatched", jid()));
    for (status, seconds, is_told) in [
        (JobStatus::Claimed, 0, false),
        (JobStatus::Running, 0, true),
        (JobStatus::Running, 59, true),
        (JobStatus::Running, 60, false),
        (JobStatus::Complete, 0, false),
    ] {
        let job = Job { status, ..record.clone() };
        assert_eq!(told(&job, seconds), is_told.then(|| wanted.clone()), "{status:?} {seconds}");
    }
}
