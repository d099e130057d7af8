//! Scripts that were written by hand: what a fleet promises, to the second.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;
use zester_rule::rule;
use zester_sim::script::{Action, FaultKind, Script, Who};
use zester_sim::{Mutation, Outcome, run, simulate_with};
use zester_wire::{Cause, JobStatus, Missing};

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

/// Simulations that broke a rule once, before there were long freezes.
#[track_caller]
fn holds(seeds: &[u64]) {
    let kinds: Vec<FaultKind> =
        FaultKind::ALL.into_iter().filter(|kind| *kind != FaultKind::Freezes).collect();
    for seed in seeds {
        let report = simulate_with(*seed, Mutation::None, &kinds);
        assert!(report.verdict().is_empty(), "seed {seed}: {}\n{}", report.verdict(), report.story);
    }
}

/// The owner had decided the end, stored a return as late, and died before the end was written; the adopter counts the return.
#[test]
#[rule("J-5", "J-9", "J-17")]
fn j9_a_return_that_an_adopter_counts_does_not_stand_as_late() {
    holds(&[136, 947, 1019]);
}

/// The job ended before it was marked active, and its owner died before it emitted the event.
#[test]
#[rule("J-19")]
fn j19_a_job_that_ended_before_it_began_has_its_event_although_its_owner_died() {
    holds(&[322, 688]);
}

/// A server that is behind knew nothing of the job, and that was remembered as if there were none.
#[test]
#[rule("J-9")]
fn j9_a_late_return_is_not_let_go_because_a_server_is_behind() {
    holds(&[194, 740]);
}

/// A master that was cut off does not know that another has ended its job, and stores what it hears.
#[test]
#[rule("J-9")]
fn j9_what_a_superseded_owner_stores_after_the_end_is_marked_late() {
    holds(&[255, 1933]);
}

/// The work was sent twice, and dropped twice by a peel that could not keep up.
#[test]
#[rule("J-6")]
fn j6_a_peel_that_dropped_commands_gets_its_work() {
    holds(&[955, 1041]);
}

/// The clock of the master that died was ahead by three quarters of an hour.
#[test]
#[rule("J-5")]
fn j5_work_that_is_sent_again_by_an_adopter_has_no_more_than_the_whole_time() {
    holds(&[3009]);
}

/// The owner was cut off while the job was killed, and its time was over when it was back.
#[test]
#[rule("J-11")]
fn j11_a_kill_that_was_answered_holds_although_the_owner_could_not_hear_it() {
    holds(&[293, 4179]);
}
