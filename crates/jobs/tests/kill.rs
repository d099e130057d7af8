//! What a cancel meets at each stage of a job, and what is said of it (J-11).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::*;
use zester_jobs::{CancelEffect, Command, Event, Failed, History, Owner, Stage, Timing, Written};
use zester_rule::rule;
use zester_wire::JobStatus;

fn effect(out: &[Command]) -> CancelEffect {
    let taken = |command: &Command| match command {
        Command::CancelTaken(effect) => Some(*effect),
        _ => None,
    };
    let all: Vec<CancelEffect> = out.iter().filter_map(taken).collect();
    let [one] = all[..] else { panic!("{out:?}") };
    one
}

fn cancel() -> Event {
    Event::Cancel { by: "alice".into() }
}

#[test]
#[rule("J-11")]
fn j11_a_kill_of_a_running_job_says_how_many_are_told() {
    let mut watched = Watched::dispatched(3, 60, &[]);
    watched.ret(1, true);
    assert_eq!(effect(&watched.cancel()), CancelEffect::Stopping { peels: 2 });
    watched.ended(JobStatus::Canceled);
    assert_eq!(effect(&watched.cancel()), CancelEffect::Over);
}

#[test]
#[rule("J-11")]
fn j11_a_kill_while_the_job_ends_is_not_ignored() {
    // The deadline has passed, and the stream is read once more.
    let mut owner = Watched::dispatched(2, 60, &[]).owner;
    assert_eq!(owner.step(Event::Tick, at(60_000)).unwrap(), [Command::Replay]);
    assert_eq!(owner.stage(), Stage::Checking);
    let out = owner.step(cancel(), at(60_001)).unwrap();
    assert_eq!(effect(&out), CancelEffect::Stopping { peels: 2 });
    assert!(matches!(&out[1], Command::SendCancel { peels } if peels.len() == 2), "{out:?}");
    let out = owner.step(Event::Replayed(Ok(History::default())), at(60_002)).unwrap();
    assert_eq!(names(&out), ["canceled"]);
    // Some returns are being written, and others will not come.
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.slow_disk = true;
    watched.ret(1, true);
    watched.tick(60_000);
    assert!(matches!(watched.owner.stage(), Stage::Flushing(_)));
    assert_eq!(effect(&watched.cancel()), CancelEffect::Stopping { peels: 1 });
    watched.send(Event::Persisted { peel: peel(1) });
    watched.ended(JobStatus::Canceled);
    // Every return is being written.
    let mut watched = Watched::dispatched(1, 60, &[]);
    watched.slow_disk = true;
    watched.ret(1, true);
    assert!(matches!(watched.owner.stage(), Stage::Flushing(_)));
    assert_eq!(watched.cancel(), [Command::CancelTaken(CancelEffect::Ending)]);
    // The status is decided and cannot be written: the record still says that it runs.
    let mut owner = watched.owner;
    owner.step(Event::Persisted { peel: peel(1) }, at(1)).unwrap();
    owner.step(Event::Record(Written::Failed), at(2)).unwrap();
    assert!(matches!(owner.stage(), Stage::Finalizing(_)));
    assert_eq!(owner.step(cancel(), at(3)).unwrap(), [Command::CancelTaken(CancelEffect::Ending)]);
}

/// The event of a kill comes by the bus too, before or after the master that was asked hands it over.
#[test]
#[rule("J-11")]
fn j11_a_kill_that_is_heard_twice_says_the_same_twice() {
    let mut owner = Watched::dispatched(2, 60, &[]).owner;
    let first = owner.step(cancel(), at(1)).unwrap();
    assert_eq!(effect(&first), CancelEffect::Stopping { peels: 2 });
    assert_eq!(owner.stage(), Stage::Checking);
    assert_eq!(effect(&owner.step(cancel(), at(2)).unwrap()), CancelEffect::Stopping { peels: 2 });
    let out = owner.step(Event::Replayed(Ok(History::default())), at(3)).unwrap();
    assert_eq!(names(&out), ["canceled"]);
    assert_eq!(effect(&owner.step(cancel(), at(4)).unwrap()), CancelEffect::Stopping { peels: 2 });
}

/// The kill was answered by another master while this one could not hear of it, and its time was over when it was back.
#[test]
#[rule("J-11")]
fn j11_a_job_that_was_killed_before_it_was_sent_is_canceled_although_its_time_is_over() {
    let mut owner = Owner::dispatch(job(1, 60), master("m1"), Timing::default());
    owner.step(Event::Begin { absent: Default::default() }, at(0)).unwrap();
    owner.step(Event::Record(Written::Done { revision: 1 }), at(1)).unwrap();
    owner.step(Event::Marked(Err(Failed)), at(2)).unwrap();
    assert_eq!(names(&owner.step(Event::Tick, at(60_000)).unwrap()), ["replay"]);
    let mut other = owner.clone();
    let killed = History { canceled: Some("alice".into()), ..History::default() };
    assert_eq!(names(&owner.step(Event::Replayed(Ok(killed)), at(60_001)).unwrap()), ["mark"]);
    assert_eq!(names(&owner.step(Event::Marked(Ok(())), at(60_002)).unwrap()), ["canceled"]);
    // Nobody did.
    other.step(Event::Replayed(Ok(History::default())), at(60_001)).unwrap();
    assert_eq!(names(&other.step(Event::Marked(Ok(())), at(60_002)).unwrap()), ["timeout"]);
}
