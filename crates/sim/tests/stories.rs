//! Scripts that were written by hand: what a fleet promises, to the second.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;
use zester_bus::storage::JOB_EVENTS;
use zester_rule::rule;
use zester_sim::script::{Action, Disturbance, Script, Who};
use zester_sim::{Mutation, Outcome, run};
use zester_wire::{Cause, JobStatus, Missing};

/// The stream under the bucket of records.
const RECORDS: &str = "KV_jobs";

/// How the jobs of a script ended, when nothing was wrong with it.
#[track_caller]
fn play(script: &Script) -> Vec<Outcome> {
    let report = run(script, 0, Mutation::None);
    assert!(report.violations.is_empty(), "{}\n{}", report.story, report.verdict());
    report.outcomes
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
#[rule("J-6")]
fn j6_a_peel_that_is_away_for_20_of_60_seconds_gets_the_job_and_returns() {
    let script = Script::quiet(2, 2, seconds(3))
        .then(seconds(9), Action::Cut(Who::Peel(1)))
        .job(seconds(10), &[0, 1], seconds(60))
        .then(seconds(30), Action::Heal(Who::Peel(1)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Complete, "{:?}", outcome.job);
    let (_, last) = outcome.returns.last().unwrap();
    assert!((seconds(33)..seconds(36)).contains(last), "{last:?}");
}

#[test]
#[rule("J-22")]
fn j22_a_peel_that_restarts_in_the_middle_of_a_job_returns_interrupted_at_once() {
    let script = Script::quiet(1, 1, seconds(40))
        .job(seconds(10), &[0], seconds(60))
        .then(seconds(20), Action::Crash(Who::Peel(0)))
        .then(seconds(25), Action::Start(Who::Peel(0)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Failed, "{:?}", outcome.job);
    let (ret, at) = &outcome.returns[0];
    assert_eq!((ret.cause, ret.error.as_str()), (Cause::Interrupted, "interrupted: the peel restarted"));
    assert!(*at < seconds(26), "{at:?}");
}

#[test]
#[rule("J-5")]
fn j5_a_peel_without_a_bus_ends_its_work_by_its_own_clock() {
    let script = Script::quiet(1, 1, seconds(500))
        .job(seconds(10), &[0], seconds(20))
        .then(seconds(15), Action::Cut(Who::Peel(0)))
        .then(seconds(50), Action::Heal(Who::Peel(0)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Timeout, "{:?}", outcome.job);
    let (ret, at) = &outcome.returns[0];
    assert_eq!(ret.cause, Cause::Deadline);
    assert!((20_000..22_000).contains(&ret.duration_ms) && *at >= seconds(50), "{at:?} {ret:?}");
}

#[test]
#[rule("J-13")]
fn j13_the_job_of_a_master_that_dies_is_finished_by_another_in_what_time_is_left() {
    let script = Script::quiet(2, 2, seconds(100))
        .job(seconds(10), &[0, 1], seconds(150))
        .then(seconds(12), Action::Crash(Who::Master(0)))
        .then(seconds(12), Action::Crash(Who::Master(1)))
        .then(seconds(20), Action::Start(Who::Master(1)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Complete, "{:?}", outcome.job);
    assert_eq!(outcome.job.reclaim_count, 1);
}

/// Its line is half open: it takes itself for connected for most of that time, and hears nobody.
#[test]
#[rule("J-5", "J-8")]
fn j8_a_master_that_hears_nobody_for_50_seconds_ends_no_job() {
    let script = Script::quiet(1, 2, seconds(100))
        .job(seconds(10), &[0, 1], seconds(180))
        .then(seconds(18), Action::Silence { who: Who::Master(0), keeps_unsent: true })
        .then(seconds(68), Action::Heal(Who::Master(0)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Complete, "{:?}", outcome.job);
}

#[test]
#[rule("J-5", "J-8", "J-11")]
fn j8_a_server_that_stands_still_for_50_seconds_ends_no_job() {
    let script = Script::quiet(2, 2, seconds(100))
        .job(seconds(10), &[0, 1], seconds(180))
        .then(seconds(18), Action::Freeze)
        .then(seconds(68), Action::Thaw)
        .then(seconds(70), Action::Heal(Who::Peel(0)))
        .then(seconds(97), Action::Heal(Who::Peel(1)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Complete, "{:?}", outcome.job);
}

#[test]
#[rule("J-6")]
fn j6_a_peel_that_works_on_and_is_away_for_65_seconds_is_awaited() {
    let script = Script::quiet(1, 1, seconds(90))
        .job(seconds(10), &[0], seconds(180))
        .then(seconds(15), Action::Cut(Who::Peel(0)))
        .then(seconds(80), Action::Heal(Who::Peel(0)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Complete, "{:?}", outcome.job);
}

#[test]
#[rule("J-8", "J-17")]
fn j17_a_peel_that_is_gone_for_good_holds_up_no_long_job() {
    let script = Script::quiet(1, 2, seconds(5))
        .job(seconds(10), &[0, 1], seconds(600))
        .then(seconds(12), Action::Crash(Who::Peel(0)))
        .then(seconds(200), Action::Start(Who::Peel(0)));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Partial, "{:?}", outcome.job);
    assert_eq!(outcome.job.missing.values().collect::<Vec<_>>(), [&Missing::Unreachable]);
    let (ret, at) = outcome.returns.last().unwrap();
    assert!(ret.cause == Cause::Interrupted && *at >= seconds(200), "{at:?} {ret:?}");
}

/// The owner had decided the end, stored a return as late, and died before the end was written; the next counts the return.
#[test]
#[rule("J-5", "J-9", "J-17")]
fn j9_a_return_that_an_adopter_counts_does_not_stand_as_late() {
    let script = Script::quiet(1, 1, seconds(15))
        .job(seconds(10), &[0], seconds(20))
        .then(seconds(15), Action::Cut(Who::Peel(0)))
        .then(seconds(28), Action::LoseLeader(RECORDS))
        // The end was decided at 30 and cannot be written; what the peel has done meanwhile comes now.
        .then(seconds(40), Action::Heal(Who::Peel(0)))
        .then(seconds(50), Action::Crash(Who::Master(0)))
        .then(seconds(52), Action::GainLeader(RECORDS))
        .then(seconds(55), Action::Start(Who::Master(0)));
    let outcome = play(&script).remove(0);
    assert_eq!(
        (outcome.job.status, outcome.job.reclaim_count),
        (JobStatus::Complete, 1),
        "{:?}",
        outcome.job
    );
    let [(_, at)] = &outcome.returns[..] else { panic!("{:?}", outcome.returns) };
    assert!((seconds(40)..seconds(50)).contains(at), "it came when the end was decided: {at:?}");
    let [stored] = &outcome.stored[..] else { panic!("{:?}", outcome.stored) };
    assert!(!stored.late && stored.cause == Cause::Finished, "{stored:?}");
}

/// The owner was cut off while the job was killed, and its time was over when it was back.
#[test]
#[rule("J-11")]
fn j11_a_kill_that_was_answered_holds_although_the_owner_could_not_hear_it() {
    let script = Script::quiet(2, 1, seconds(3))
        .then(seconds(1), Action::Stop(Who::Master(1)))
        .then(seconds(9), Action::LoseLeader(JOB_EVENTS))
        // It is claimed and cannot be announced.
        .job(seconds(10), &[0], seconds(8))
        .then(seconds(12), Action::Cut(Who::Master(0)))
        .then(seconds(13), Action::GainLeader(JOB_EVENTS))
        .then(seconds(13), Action::Start(Who::Master(1)))
        .then(seconds(15), Action::Cancel(0))
        // Before the other master can take it for dead.
        .then(Duration::from_millis(18_500), Action::Heal(Who::Master(0)));
    let outcome = play(&script).remove(0);
    assert_eq!((outcome.job.status, outcome.job.epoch), (JobStatus::Canceled, 1), "{:?}", outcome.job);
    assert!(outcome.job.owner.to_string().starts_with("m0"), "{:?}", outcome.job);
}

/// All clocks are set back by three quarters of an hour, and a peel that was away comes back.
#[test]
#[rule("J-5")]
fn j5_work_that_is_sent_when_the_clock_was_set_back_has_no_more_than_the_whole_time() {
    const BACK_MS: i64 = -45 * 60 * 1_000;
    let script = Script::quiet(1, 1, seconds(500))
        .then(seconds(9), Action::Cut(Who::Peel(0)))
        .job(seconds(10), &[0], seconds(40))
        .then(seconds(12), Action::JumpClock(Who::Master(0), BACK_MS))
        .then(seconds(12), Action::JumpClock(Who::Peel(0), BACK_MS))
        .then(seconds(14), Action::Heal(Who::Peel(0)));
    let outcome = play(&script).remove(0);
    let [(ret, _)] = &outcome.returns[..] else { panic!("{:?}", outcome.returns) };
    assert_eq!(ret.cause, Cause::Deadline);
    assert!(ret.duration_ms < 42_000, "{ret:?}");
}

/// The work was sent, sent again, and dropped each time by a peel that could not keep up.
#[test]
#[rule("J-6")]
fn j6_a_peel_that_dropped_commands_gets_its_work() {
    let begun = seconds(10) + Duration::from_millis(12);
    let script = Script::quiet(1, 1, seconds(3))
        .job(seconds(10), &[0], seconds(60))
        .then(begun, Action::Disturb(Disturbance::SlowSubscribers(1_000)))
        .then(seconds(22), Action::Calm("slow subscribers"));
    let outcome = play(&script).remove(0);
    assert_eq!(outcome.job.status, JobStatus::Complete, "{:?}", outcome.job);
    let [(_, at)] = &outcome.returns[..] else { panic!("{:?}", outcome.returns) };
    assert!(*at > seconds(22), "nothing was dropped: {at:?}");
}
