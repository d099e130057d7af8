//! What a master does with the job of another that is gone (J-13), and what that other does when it comes back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::*;
use std::collections::BTreeSet;
use std::time::Duration;
use zester_jobs::{Command, Event, History, Owner, Stage, Timing, Written};
use zester_rule::rule;
use zester_wire::*;

fn orphan(peels: usize, status: JobStatus) -> Job {
    let record = Watched::dispatched(peels, 60, &[]).record.unwrap();
    Job { status, ..record }
}

fn adopted(record: Job, now: u64, prepare: impl FnOnce(&mut Watched)) -> Watched {
    let owner = Owner::adopt(record, 5, master("m2"), Timing::default()).unwrap();
    let mut watched = Watched::new(owner);
    watched.now = at(now);
    prepare(&mut watched);
    watched.begin(&[]);
    watched
}

#[test]
#[rule("J-13")]
fn j13_an_adopter_loads_replays_what_it_could_not_hear_and_asks_the_silent() {
    let watched = adopted(orphan(4, JobStatus::Running), 20_000, |watched| {
        watched.loaded = vec![ret(1, 1, true)];
        watched.history = vec![History {
            acks: vec![peel(2)],
            returns: vec![ret(1, 1, true), ret(3, 1, true)],
            canceled: None,
        }];
    });
    assert_eq!(names(&watched.log), ["running", "load", "replay", "persist", "accept", "exec"]);
    assert_eq!(sent_to(&watched.log), [peel(4)]);
    let job = watched.owner.job();
    assert_eq!(
        (job.epoch, job.dispatch_epoch, job.reclaim_count, job.owner.clone()),
        (2, 1, 1, master("m2"))
    );
    assert_eq!(job.deadline, at(60_000));
    assert!(
        matches!(watched.log.last(), Some(Command::SendExec { budget, .. }) if *budget == Duration::from_secs(40))
    );
}

#[test]
#[rule("J-13")]
fn j13_an_adopted_job_that_is_complete_or_out_of_time_ends_at_once() {
    let watched =
        adopted(orphan(1, JobStatus::Running), 20_000, |watched| watched.loaded = vec![ret(1, 1, true)]);
    watched.ended(JobStatus::Complete);
    let watched =
        adopted(orphan(2, JobStatus::Running), 70_000, |watched| watched.loaded = vec![ret(1, 1, true)]);
    watched.ended(JobStatus::Partial);
    assert!(sent_to(&watched.log).is_empty());
}

#[test]
#[rule("J-13")]
fn j13_an_adopted_job_that_was_canceled_ends_canceled() {
    let canceled = History { canceled: Some("bob".into()), ..History::default() };
    let watched =
        adopted(orphan(1, JobStatus::Running), 20_000, |watched| watched.history = vec![canceled.clone()]);
    watched.ended(JobStatus::Canceled);
    assert!(sent_to(&watched.log).is_empty() && names(&watched.log).contains(&"send cancel"));
    // All had returned before the cancel came: it is what they said.
    let watched = adopted(orphan(1, JobStatus::Running), 20_000, |watched| {
        watched.history = vec![canceled.clone()];
        watched.loaded = vec![ret(1, 1, true)];
    });
    watched.ended(JobStatus::Complete);
    // The cancel is what made it return.
    let watched = adopted(orphan(1, JobStatus::Running), 20_000, |watched| {
        watched.history = vec![canceled];
        watched.loaded = vec![ret_of(1, 1, Cause::Canceled)];
    });
    watched.ended(JobStatus::Canceled);
}

#[test]
#[rule("J-13")]
fn j13_a_claimed_orphan_is_dispatched_afresh_in_what_time_is_left() {
    let watched = adopted(orphan(1, JobStatus::Claimed), 20_000, |_| {});
    let order = ["claimed", "replay", "mark", "announce", "running", "accept", "status", "exec"];
    assert_eq!(names(&watched.log), order);
    assert_eq!((watched.owner.job().epoch, watched.owner.job().dispatch_epoch), (2, 2));
    let late = adopted(orphan(1, JobStatus::Claimed), 70_000, |_| {});
    late.ended(JobStatus::Timeout);
    assert!(sent_to(&late.log).is_empty());
}

#[test]
#[rule("J-11")]
fn j11_a_claim_that_was_canceled_before_it_was_adopted_is_never_sent() {
    let watched = adopted(orphan(2, JobStatus::Claimed), 20_000, |watched| {
        watched.history = vec![History { canceled: Some("alice".into()), ..History::default() }];
    });
    watched.ended(JobStatus::Canceled);
    assert!(sent_to(&watched.log).is_empty());
}

#[test]
#[rule("J-13")]
fn j13_more_than_three_reclaims_fail_the_job_with_the_reason() {
    for (reclaims, given_up) in [(2, false), (3, true)] {
        let record = Job { reclaim_count: reclaims, ..orphan(1, JobStatus::Running) };
        let watched = adopted(record, 20_000, |_| {});
        assert_eq!((watched.owner.stage() == Stage::Done), given_up, "{reclaims}");
        if given_up {
            watched.ended(JobStatus::Failed);
            assert!(watched.owner.job().reason.contains("more than 3 times"));
            assert!(!names(&watched.log).contains(&"load"));
        }
    }
}

/// The pages of old jobs give way when their bucket is full, and this one was old and ran.
#[test]
#[rule("J-13", "J-23")]
fn j13_an_orphan_whose_targets_are_not_kept_any_more_ends() {
    let many: Vec<PeelId> = (1..=300).map(peel).collect();
    for status in [JobStatus::Running, JobStatus::Claimed] {
        let record = Job { target_list: TargetList::of(&many), targets: Vec::new(), ..orphan(1, status) };
        let watched = adopted(record, 20_000, |_| {});
        watched.ended(JobStatus::Failed);
        assert_eq!(watched.owner.job().reason, "given up: the names of its targets are not kept any more");
        assert!(sent_to(&watched.log).is_empty());
    }
}

#[test]
#[rule("J-13")]
fn j13_one_adopter_wins_and_the_other_stops() {
    let record = orphan(1, JobStatus::Running);
    let mut loser = Owner::adopt(record.clone(), 5, master("m3"), Timing::default()).unwrap();
    loser.step(Event::Begin { absent: Default::default() }, at(1)).unwrap();
    let won = Job { owner: master("m2"), epoch: 2, ..record };
    let found = Some((Box::new(won), 6));
    let out = loser.step(Event::Record(Written::Conflict { found }), at(2)).unwrap();
    assert_eq!(names(&out), ["note", "stop"]);
}

#[test]
#[rule("J-13")]
fn j13_a_terminal_record_with_an_active_key_is_only_reported_and_purged() {
    let watched = adopted(orphan(1, JobStatus::Partial), 20_000, |_| {});
    assert_eq!(names(&watched.log), ["emit", "purge", "stop"]);
    let newer = orphan(1, JobStatus::Unknown);
    assert!(Owner::adopt(newer, 5, master("m2"), Timing::default()).is_err());
}

/// Its owner had decided the end, took it for late, and died before the end was written.
#[test]
#[rule("J-9", "J-5")]
fn j9_a_return_that_stands_as_late_while_the_job_runs_is_stored_again_as_in_time() {
    let watched = adopted(orphan(1, JobStatus::Running), 20_000, |watched| {
        watched.loaded = vec![Return { late: true, ..ret(1, 1, true) }];
        watched.history = vec![History { returns: vec![ret(1, 1, true)], ..History::default() }];
    });
    let stored = watched.log.iter().filter_map(|command| match command {
        Command::Persist { ret, .. } => Some(ret.late),
        _ => None,
    });
    assert_eq!(stored.collect::<Vec<_>>(), [false]);
    watched.ended(JobStatus::Complete);
    assert_eq!(watched.owner.job().return_count, 1);
}

/// After a while without a connection an owner asks whose its jobs are, before it goes on with them.
#[test]
#[rule("J-10", "J-13")]
fn j10_an_owner_whose_job_another_has_adopted_sends_and_stores_nothing_more() {
    let owned_by = |name: &str, epoch: u64| Event::OwnedBy { owner: master(name), epoch };
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.send(owned_by("m1", 1));
    assert_eq!(watched.owner.stage(), Stage::Watching);
    assert_eq!(names(&watched.send(owned_by("m2", 2))), ["note", "stop"]);
    assert_eq!(watched.owner.stage(), Stage::Lost);
    assert!(watched.ret(1, true).is_empty());
    assert!(watched.send(Event::AskAgain).is_empty());
    // Who adopts is ahead of the record until its write is there; of two the record decides.
    let mut adopter =
        Owner::adopt(orphan(1, JobStatus::Running), 5, master("m2"), Timing::default()).unwrap();
    adopter.step(Event::Begin { absent: BTreeSet::new() }, at(1)).unwrap();
    adopter.step(owned_by("m1", 1), at(2)).unwrap();
    assert_eq!(adopter.stage(), Stage::Adopting);
    adopter.step(owned_by("m3", 2), at(3)).unwrap();
    assert_eq!(adopter.stage(), Stage::Lost);
    // Whose jid it is says the answer to the claim.
    let mut claimer = Owner::dispatch(job(1, 60), master("m1"), Timing::default());
    claimer.step(Event::Begin { absent: BTreeSet::new() }, at(0)).unwrap();
    claimer.step(owned_by("m2", 9), at(1)).unwrap();
    assert_eq!(claimer.stage(), Stage::Claiming { unsure: false });
}

/// The clock of the master that died was an hour ahead.
#[test]
#[rule("J-5", "J-13")]
fn j13_an_adopter_gives_no_more_than_the_whole_time_whatever_the_clock_of_the_dead_said() {
    let record = Job { deadline: at(3_600_000), ..orphan(1, JobStatus::Running) };
    let mut watched = adopted(record, 20_000, |_| {});
    let budgets = watched.log.iter().filter_map(|command| match command {
        Command::SendExec { budget, .. } => Some(*budget),
        _ => None,
    });
    assert_eq!(budgets.collect::<Vec<_>>(), [Duration::from_secs(60)]);
    watched.tick(80_000);
    watched.ended(JobStatus::Timeout);
}
