//! The peel's machine by tables: each test shows one rule.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::{T0, job, peel, ret};
use std::time::Duration;
use zester_jobs::dedup::{Decision, Dispatch, DispatchState, Entry, Ledger, Refused};
use zester_jobs::peel::{
    BUSY, BUSY_OUTBOX, Command, DEADLINE, Event, INTERRUPTED, Moment, Note, ONCE, Terms,
};
use zester_jobs::{Failed, Peel, Timing, messages};
use zester_rule::rule;
use zester_wire::*;

fn jid(number: u8) -> Jid {
    Jid::new(UnixMillis(T0), [number; 16])
}

fn dispatch(number: u8) -> Dispatch {
    Dispatch { jid: jid(number), epoch: 1 }
}

fn now(millis: u64) -> Moment {
    Moment { wall: UnixMillis(T0 + millis), run: Duration::from_millis(1_000_000 + millis) }
}

fn request(number: u8, function: &str) -> ExecRequest {
    let job = Job { jid: jid(number), function: function.into(), dispatch_epoch: 1, ..job(1, 60) };
    messages::exec_request(&job, Duration::from_secs(60))
}

fn exec(number: u8) -> Event {
    Event::Exec {
        request: Box::new(request(number, "state.apply")),
        signed: UnixMillis(T0),
        terms: Terms::default(),
    }
}

fn stored(number: u8) -> Event {
    Event::Stored { dispatch: dispatch(number), result: Ok(()) }
}

fn finished(number: u8, success: bool) -> Event {
    Event::Finished { dispatch: dispatch(number), ret: Box::new(ret(1, 0, success)) }
}

fn working() -> Peel {
    let mut peel = Peel::new(peel(1), Timing::default());
    peel.step(Event::Start { entries: Vec::new() }, now(0)).unwrap();
    peel.step(Event::Connected, now(0)).unwrap();
    peel
}

/// A peel on which this one runs.
fn running(number: u8) -> Peel {
    let mut peel = working();
    peel.step(exec(number), now(0)).unwrap();
    peel.step(stored(number), now(0)).unwrap();
    peel
}

fn names(commands: &[Command]) -> Vec<&'static str> {
    commands
        .iter()
        .map(|command| match command {
            Command::KillLeftovers { .. } => "kill",
            Command::StoreEntry(_) => "store entry",
            Command::SendAck { .. } => "ack",
            Command::Execute { .. } => "execute",
            Command::Abort { .. } => "abort",
            Command::StoreReturn { .. } => "store return",
            Command::SendReturn { .. } => "send return",
            Command::SendUnstored { .. } => "send unstored",
            Command::Reply { .. } => "reply",
            Command::ScheduleEnded { .. } => "schedule ended",
            Command::Forget { .. } => "forget",
            Command::Note(_) => "note",
        })
        .collect()
}

#[track_caller]
fn returns(command: &Command) -> &Return {
    match command {
        Command::StoreReturn { ret, .. } | Command::SendUnstored { ret } | Command::Reply { ret } => ret,
        other => panic!("{other:?}"),
    }
}

#[test]
#[rule("J-6", "J-7")]
fn j6_j7_on_disk_then_acked_then_executed() {
    let mut peel = working();
    assert_eq!(names(&peel.step(exec(1), now(0)).unwrap()), ["store entry"]);
    // A copy before it is on disk is no reason to say that it is.
    assert!(peel.step(exec(1), now(1)).unwrap().is_empty());
    assert_eq!(names(&peel.step(stored(1), now(2)).unwrap()), ["ack", "execute"]);
    assert_eq!(names(&peel.step(exec(1), now(3)).unwrap()), ["ack"]);
}

#[test]
#[rule("J-7")]
fn j7_one_that_has_returned_answers_with_its_return() {
    let mut peel = running(1);
    assert_eq!(names(&peel.step(finished(1, true), now(5)).unwrap()), ["store return"]);
    assert!(peel.step(exec(1), now(6)).unwrap().is_empty());
    let out = peel.step(Event::ReturnStored { dispatch: dispatch(1) }, now(7)).unwrap();
    assert_eq!(names(&out), ["send return"]);
    peel.step(Event::Delivered { dispatch: dispatch(1) }, now(8)).unwrap();
    assert_eq!(names(&peel.step(exec(1), now(9)).unwrap()), ["send return"]);
    assert_eq!(peel.undelivered(), 0);
}

#[test]
#[rule("J-7")]
fn j7_what_cannot_be_written_is_not_executed() {
    let mut peel = working();
    peel.step(exec(1), now(0)).unwrap();
    let failed = Event::Stored { dispatch: dispatch(1), result: Err(Failed) };
    let out = peel.step(failed, now(1)).unwrap();
    assert_eq!(names(&out), ["send unstored"]);
    assert_eq!(returns(&out[0]).cause, Cause::Refused);
    // The disk has room again: a copy of the request gets the same answer.
    let again = peel.step(exec(1), now(2)).unwrap();
    assert_eq!(returns(&again[0]).error, returns(&out[0]).error);
    assert_eq!((names(&again), returns(&again[0]).cause), (vec!["send unstored"], Cause::Refused));
    assert_eq!(peel.busy(), 0);
}

#[test]
#[rule("J-7", "J-15")]
fn j7_a_refusal_is_remembered_whatever_its_reason() {
    let refused_at = |peel: &mut Peel, millis| {
        let out = peel.step(exec(9), now(millis)).unwrap();
        assert_eq!(names(&out), ["send unstored"]);
        (returns(&out[0]).cause, returns(&out[0]).error.clone())
    };
    // Out of time by a clock that is set right later.
    let mut peel = working();
    let first = refused_at(&mut peel, 60_001);
    assert_eq!((first.0, refused_at(&mut peel, 5)), (Cause::Expired, first));
    // No room for a return, and then there is.
    let waiting = |number: u64| Entry {
        dispatch: Dispatch { jid: jid(200), epoch: number },
        state: DispatchState::Returned { delivered: false },
        keep_until: UnixMillis(T0 + 100_000),
        direct: false,
        schedule: None,
    };
    let mut peel = Peel::new(fleet::peel(1), Timing::default());
    peel.step(Event::Start { entries: (0..4_096).map(waiting).collect() }, now(0)).unwrap();
    let first = refused_at(&mut peel, 1);
    assert_eq!(first, (Cause::Busy, BUSY_OUTBOX.into()));
    for number in 0..100 {
        peel.step(Event::Delivered { dispatch: waiting(number).dispatch }, now(2)).unwrap();
    }
    assert_eq!(refused_at(&mut peel, 3), first);
    assert_eq!(names(&peel.step(exec(10), now(3)).unwrap()), ["store entry"]);
}

#[test]
#[rule("J-11")]
fn j11_a_peel_names_the_jobs_it_works_on() {
    let mut peel = running(1);
    peel.step(exec(2), now(0)).unwrap();
    let direct = ExecRequest { direct: true, ..request(3, "state.apply") };
    peel.step(
        Event::Exec { request: Box::new(direct), signed: UnixMillis(T0), terms: Terms::default() },
        now(0),
    )
    .unwrap();
    assert_eq!(peel.executions().cloned().collect::<Vec<_>>(), [dispatch(1), dispatch(2)]);
    peel.step(finished(1, true), now(1)).unwrap();
    assert_eq!(peel.executions().cloned().collect::<Vec<_>>(), [dispatch(2)]);
}

#[test]
#[rule("J-7")]
fn j7_a_lower_epoch_is_refused_and_noted() {
    let mut peel = working();
    let later = ExecRequest { dispatch_epoch: 4, ..request(1, "state.apply") };
    peel.step(
        Event::Exec { request: Box::new(later), signed: UnixMillis(T0), terms: Terms::default() },
        now(0),
    )
    .unwrap();
    let out = peel.step(exec(1), now(1)).unwrap();
    assert_eq!(out, [Command::Note(Note::LowerEpoch(dispatch(1)))]);
}

#[test]
#[rule("J-7")]
fn j7_a_request_out_of_time_is_refused_and_says_why() {
    let mut peel = working();
    let out = peel.step(exec(1), now(60_001)).unwrap();
    assert_eq!(names(&out), ["send unstored"]);
    assert_eq!(returns(&out[0]).cause, Cause::Expired);
    assert!(returns(&out[0]).error.contains("clock"));
    assert_eq!(names(&working().step(exec(1), now(60_000)).unwrap()), ["store entry"]);
}

#[test]
#[rule("J-7")]
fn j7_a_dispatch_is_remembered_longer_than_its_request_is_valid() {
    let mut peel = running(1);
    peel.step(finished(1, true), now(5)).unwrap();
    peel.step(Event::ReturnStored { dispatch: dispatch(1) }, now(5)).unwrap();
    peel.step(Event::Delivered { dispatch: dispatch(1) }, now(6)).unwrap();
    assert!(peel.step(Event::Tick, now(3_659_000)).unwrap().is_empty());
    assert_eq!(names(&peel.step(Event::Tick, now(3_661_000)).unwrap()), ["forget"]);
    // By then a copy is out of time anyway.
    assert_eq!(names(&peel.step(exec(1), now(3_662_000)).unwrap()), ["send unstored"]);
}

#[test]
#[rule("J-5")]
fn j5_an_execution_is_aborted_when_its_budget_and_half_a_second_are_over() {
    let mut peel = running(1);
    peel.step(Event::Disconnected, now(10)).unwrap();
    assert_eq!(peel.next_wake(), Some(now(60_500).run));
    assert!(peel.step(Event::Tick, now(60_499)).unwrap().is_empty());
    let out = peel.step(Event::Tick, now(60_500)).unwrap();
    assert_eq!(out, [Command::Abort { dispatch: dispatch(1), cause: Cause::Deadline }]);
    assert!(peel.step(Event::Tick, now(61_000)).unwrap().is_empty());
    let out = peel.step(finished(1, false), now(62_000)).unwrap();
    let ret = returns(&out[0]);
    assert!(ret.canceled && ret.cause == Cause::Deadline && !ret.counts());
    assert_eq!((ret.jid.clone(), ret.dispatch_epoch), (jid(1), 1));
}

#[test]
#[rule("J-5")]
fn j5_what_ended_well_in_spite_of_the_abort_ended_well() {
    let mut peel = running(1);
    peel.step(Event::Tick, now(60_500)).unwrap();
    let out = peel.step(finished(1, true), now(60_600)).unwrap();
    assert!(returns(&out[0]).success && returns(&out[0]).cause == Cause::Finished);
}

#[test]
#[rule("J-5")]
fn j5_time_spent_waiting_counts() {
    let mut peel = running(1);
    peel.step(exec(2), now(0)).unwrap();
    assert_eq!(names(&peel.step(stored(2), now(0)).unwrap()), ["ack"]);
    let out = peel.step(Event::Tick, now(60_500)).unwrap();
    assert_eq!(names(&out), ["abort", "store return"]);
    assert_eq!((returns(&out[1]).cause, returns(&out[1]).error.as_str()), (Cause::Deadline, DEADLINE));
}

#[test]
#[rule("J-11")]
fn j11_a_cancel_aborts_what_runs_and_drops_what_waits() {
    let mut peel = running(1);
    peel.step(exec(2), now(0)).unwrap();
    peel.step(stored(2), now(0)).unwrap();
    let cancel = |number| Event::Cancel { jid: jid(number), dispatch_epoch: 1 };
    let out = peel.step(cancel(1), now(5)).unwrap();
    assert_eq!(out, [Command::Abort { dispatch: dispatch(1), cause: Cause::Canceled }]);
    let out = peel.step(cancel(2), now(6)).unwrap();
    assert_eq!(names(&out), ["store return"]);
    assert!(returns(&out[0]).canceled);
    assert!(peel.step(cancel(1), now(7)).unwrap().is_empty());
    let out = peel.step(finished(1, false), now(8)).unwrap();
    assert!(returns(&out[0]).canceled && returns(&out[0]).cause == Cause::Canceled);
}

#[test]
#[rule("J-11")]
fn j11_a_cancel_that_overtakes_its_request_keeps_it_from_starting() {
    let mut peel = working();
    let out = peel.step(Event::Cancel { jid: jid(1), dispatch_epoch: 1 }, now(0)).unwrap();
    let [Command::StoreEntry(entry)] = out.as_slice() else { panic!("{out:?}") };
    assert_eq!(entry.state, DispatchState::Canceled);
    let out = peel.step(exec(1), now(1)).unwrap();
    assert!(returns(&out[0]).canceled);
    // Also after a restart.
    let mut again = Peel::new(fleet::peel(1), Timing::default());
    again.step(Event::Start { entries: vec![entry.clone()] }, now(2)).unwrap();
    assert!(returns(&again.step(exec(1), now(3)).unwrap()[0]).canceled);
}

#[test]
#[rule("J-11")]
fn j11_a_cancel_while_it_is_being_written_keeps_it_from_starting() {
    let mut peel = working();
    peel.step(exec(1), now(0)).unwrap();
    let out = peel.step(Event::Cancel { jid: jid(1), dispatch_epoch: 1 }, now(1)).unwrap();
    assert_eq!(names(&out), ["store return"]);
    assert!(peel.step(stored(1), now(2)).unwrap().is_empty());
}

#[test]
#[rule("J-15")]
fn j15_a_full_queue_is_said_at_once_and_remembered() {
    let mut peel = running(0);
    for number in 1..=64 {
        peel.step(exec(number), now(0)).unwrap();
    }
    let out = peel.step(exec(65), now(0)).unwrap();
    assert_eq!(names(&out), ["store return"]);
    assert_eq!((returns(&out[0]).error.as_str(), returns(&out[0]).cause), (BUSY, Cause::Busy));
    peel.step(Event::ReturnStored { dispatch: dispatch(65) }, now(1)).unwrap();
    // There is room again: a copy of the request is answered, not executed.
    peel.step(finished(0, true), now(2)).unwrap();
    assert_eq!(names(&peel.step(exec(65), now(3)).unwrap()), ["send return"]);
}

#[test]
#[rule("J-15")]
fn j15_a_ping_answers_during_a_long_highstate() {
    let mut peel = running(1);
    let ping = Event::Exec {
        request: Box::new(request(2, "test.ping")),
        signed: UnixMillis(T0),
        terms: Terms::default(),
    };
    peel.step(ping, now(1)).unwrap();
    assert_eq!(names(&peel.step(stored(2), now(2)).unwrap()), ["ack", "execute"]);
    assert_eq!(names(&peel.step(finished(2, true), now(3)).unwrap()), ["store return"]);
}

#[test]
#[rule("J-15")]
fn j15_the_next_starts_when_the_one_before_has_ended() {
    let mut peel = running(1);
    peel.step(exec(2), now(0)).unwrap();
    peel.step(stored(2), now(0)).unwrap();
    assert_eq!(names(&peel.step(finished(1, true), now(1)).unwrap()), ["store return", "execute"]);
}

#[test]
#[rule("J-21")]
fn j21_a_direct_request_is_answered_once_and_by_a_reply() {
    let mut peel = working();
    let direct = || {
        let request = ExecRequest { direct: true, ..request(1, "state.apply") };
        Event::Exec { request: Box::new(request), signed: UnixMillis(T0), terms: Terms::default() }
    };
    peel.step(direct(), now(0)).unwrap();
    assert_eq!(names(&peel.step(stored(1), now(0)).unwrap()), ["execute"]);
    assert_eq!(returns(&peel.step(direct(), now(1)).unwrap()[0]).cause, Cause::Refused);
    assert_eq!(names(&peel.step(finished(1, true), now(2)).unwrap()), ["reply", "store entry"]);
    let old = ExecRequest { direct: true, budget: Duration::from_secs(600), ..request(2, "state.apply") };
    let old = Event::Exec { request: Box::new(old), signed: UnixMillis(T0), terms: Terms::default() };
    assert_eq!(returns(&peel.step(old, now(60_001)).unwrap()[0]).cause, Cause::Expired);
}

#[test]
#[rule("J-22")]
fn j22_a_return_waits_in_the_outbox_until_a_master_has_it() {
    let mut peel = running(1);
    peel.step(Event::Disconnected, now(1)).unwrap();
    peel.step(finished(1, true), now(2)).unwrap();
    assert!(peel.step(Event::ReturnStored { dispatch: dispatch(1) }, now(3)).unwrap().is_empty());
    assert_eq!((peel.undelivered(), peel.next_wake()), (1, None));
    assert_eq!(names(&peel.step(Event::Connected, now(100)).unwrap()), ["send return"]);
    assert!(peel.step(Event::Tick, now(5_099)).unwrap().is_empty());
    assert_eq!(names(&peel.step(Event::Tick, now(5_100)).unwrap()), ["send return"]);
    assert_eq!(peel.next_wake(), Some(now(15_100).run));
    peel.step(Event::Delivered { dispatch: dispatch(1) }, now(5_200)).unwrap();
    assert_eq!((peel.undelivered(), peel.next_wake()), (0, None));
}

#[test]
#[rule("J-22")]
fn j22_a_disk_that_fails_keeps_no_return_from_the_master() {
    let mut peel = running(1);
    let out = peel.step(finished(1, true), now(2)).unwrap();
    let ret = Box::new(returns(&out[0]).clone());
    let out = peel.step(Event::ReturnStoreFailed { ret }, now(3)).unwrap();
    assert_eq!(names(&out), ["send unstored", "store return"]);
    peel.step(Event::Delivered { dispatch: dispatch(1) }, now(4)).unwrap();
    assert!(peel.step(Event::ReturnStored { dispatch: dispatch(1) }, now(5)).unwrap().is_empty());
    assert_eq!(peel.undelivered(), 0);
}

#[test]
#[rule("J-22")]
fn j22_after_a_restart_the_accepted_are_interrupted_once_their_processes_are_gone() {
    let entry = |number, state| Entry {
        dispatch: dispatch(number),
        state,
        keep_until: UnixMillis(T0 + 100_000),
        direct: false,
        schedule: None,
    };
    let entries =
        vec![entry(1, DispatchState::Accepted), entry(2, DispatchState::Returned { delivered: false })];
    let mut peel = Peel::new(fleet::peel(1), Timing::default());
    let out = peel.step(Event::Start { entries }, now(0)).unwrap();
    assert_eq!(out, [Command::KillLeftovers { dispatches: vec![dispatch(1)] }]);
    // What comes meanwhile is taken, and starts when the old is gone.
    peel.step(exec(3), now(1)).unwrap();
    assert_eq!(names(&peel.step(stored(3), now(2)).unwrap()), ["ack"]);
    assert_eq!(names(&peel.step(Event::Connected, now(3)).unwrap()), ["send return"]);
    let out = peel.step(Event::LeftoversGone, now(4)).unwrap();
    assert_eq!(names(&out), ["store return", "execute"]);
    assert_eq!((returns(&out[0]).error.as_str(), returns(&out[0]).cause), (INTERRUPTED, Cause::Interrupted));
    assert!(returns(&out[0]).counts());
}

#[test]
#[rule("J-20")]
fn j20_what_is_not_listed_is_refused_and_changes_nothing() {
    let mut peel = Peel::new(peel(1), Timing::default());
    assert_eq!(peel.step(exec(1), now(0)).unwrap_err().state, "not started");
    let mut peel = running(1);
    for event in [
        Event::Start { entries: Vec::new() },
        Event::LeftoversGone,
        stored(1),
        finished(2, true),
        Event::ReturnStored { dispatch: dispatch(1) },
        Event::Delivered { dispatch: dispatch(1) },
    ] {
        assert!(peel.step(event.clone(), now(1)).is_err(), "{event:?}");
    }
    assert_eq!(peel.busy(), 1);
}

#[test]
#[rule("J-7")]
fn j7_the_ledger_decides_by_this_table() {
    let timing = Timing::default();
    let entry = |epoch, state| Entry {
        dispatch: Dispatch { jid: jid(1), epoch },
        state,
        keep_until: UnixMillis(T0),
        direct: false,
        schedule: None,
    };
    let returned = DispatchState::Returned { delivered: true };
    for (known, asked, late, decision) in [
        (vec![], 1, false, Decision::Accept),
        (vec![], 1, true, Decision::Refuse(Refused::Expired)),
        (vec![entry(1, DispatchState::Accepted)], 1, false, Decision::AckAgain),
        (vec![entry(1, DispatchState::Accepted)], 1, true, Decision::AckAgain),
        (vec![entry(1, returned)], 1, true, Decision::ReturnAgain),
        (vec![entry(2, returned)], 1, false, Decision::Refuse(Refused::LowerEpoch)),
        (vec![entry(1, returned)], 2, false, Decision::Accept),
        (vec![entry(1, returned), entry(2, DispatchState::Accepted)], 2, false, Decision::AckAgain),
        (
            vec![entry(1, returned), entry(2, DispatchState::Accepted)],
            1,
            false,
            Decision::Refuse(Refused::LowerEpoch),
        ),
        (vec![entry(1, DispatchState::Canceled)], 2, false, Decision::Canceled),
    ] {
        let request = ExecRequest { dispatch_epoch: asked, ..request(1, "state.apply") };
        let wall = UnixMillis(if late { T0 + 60_001 } else { T0 });
        let ledger = Ledger::new(known.clone());
        assert_eq!(ledger.decide(&request, UnixMillis(T0), wall, &timing), decision, "{known:?} {asked}");
    }
}

#[test]
#[rule("J-22")]
fn j22_a_clock_that_is_set_right_after_the_start_drops_no_return() {
    let at = |wall: u64, run_s: u64| Moment { wall: UnixMillis(wall), run: Duration::from_secs(run_s) };
    let entries = vec![Entry {
        dispatch: dispatch(1),
        state: DispatchState::Returned { delivered: false },
        keep_until: UnixMillis(T0 + 60_000),
        direct: false,
        schedule: None,
    }];
    let mut peel = Peel::new(peel(1), Timing::default());
    // A machine without a clock of its own begins in 1970, and hears the time later.
    peel.step(Event::Start { entries }, at(1_000, 1)).unwrap();
    let commands = peel.step(Event::Tick, at(T0, 60)).unwrap();
    assert!(!commands.iter().any(|command| matches!(command, Command::Note(_))), "{commands:?}");
    assert_eq!(peel.undelivered(), 1);
    let kept = Timing::default().outbox_keep.as_secs();
    let commands = peel.step(Event::Tick, at(T0, 62 + kept)).unwrap();
    assert!(commands.contains(&Command::Note(Note::Undelivered(dispatch(1)))), "{commands:?}");
}

#[test]
#[rule("J-11")]
fn j11_cancels_of_jobs_that_never_came_do_not_fill_more_than_the_ledger() {
    let entry = |number: u64| Entry {
        dispatch: Dispatch { jid: jid(1), epoch: number },
        state: DispatchState::Returned { delivered: true },
        keep_until: UnixMillis(T0 + 60_000),
        direct: false,
        schedule: None,
    };
    let mut peel = Peel::new(peel(1), Timing::default());
    let full = (0..zester_jobs::limits::LEDGER_MAX as u64).map(entry).collect();
    peel.step(Event::Start { entries: full }, now(0)).unwrap();
    let commands = peel.step(Event::Cancel { jid: jid(2), dispatch_epoch: 1 }, now(0)).unwrap();
    assert_eq!(commands, []);
    // Its request starts nothing all the same.
    let commands = peel.step(exec(2), now(1)).unwrap();
    assert_eq!(names(&commands), ["send unstored"]);
}

fn scheduled(number: u8, name: &str) -> Event {
    let request = Box::new(self::request(number, "state.apply"));
    let schedule = ScheduledRun { name: name.into(), function: "state.apply".into(), due: UnixMillis(T0) };
    Event::Scheduled { request, schedule }
}

#[test]
#[rule("D-10")]
fn d10_a_scheduled_run_is_written_down_queued_and_told_without_an_ack() {
    let mut peel = working();
    let first = peel.step(scheduled(30, "a"), now(0)).unwrap();
    let Some(Command::StoreEntry(entry)) = first.first() else { panic!("{first:?}") };
    assert_eq!(entry.schedule.as_ref().map(|run| run.name.as_str()), Some("a"));
    let dispatch = entry.dispatch.clone();
    let begun = peel.step(Event::Stored { dispatch: dispatch.clone(), result: Ok(()) }, now(1)).unwrap();
    assert!(matches!(begun.as_slice(), [Command::Execute { .. }]), "{begun:?}");
    assert_eq!(peel.executions().count(), 0, "no master knows of it");
    // The next waits, as a job would.
    peel.step(scheduled(31, "b"), now(2)).unwrap();
    let second = Dispatch { jid: jid(31), epoch: 1 };
    assert!(peel.step(Event::Stored { dispatch: second, result: Ok(()) }, now(3)).unwrap().is_empty());
    let ret = Box::new(ret(1, 1, true));
    let ended = peel.step(Event::Finished { dispatch: dispatch.clone(), ret }, now(4)).unwrap();
    let [Command::ScheduleEnded { ret }, Command::StoreReturn { ret: stored, .. }, Command::Execute { .. }] =
        ended.as_slice()
    else {
        panic!("{ended:?}")
    };
    assert_eq!(ret, stored);
    assert!(matches!(ret.subject(), Subject::JobSchedule { .. }));
}

#[test]
#[rule("D-10")]
fn d10_after_a_crash_a_scheduled_run_is_told_as_interrupted() {
    let schedule = ScheduledRun { name: "a".into(), function: "state.apply".into(), due: UnixMillis(T0) };
    let entry = |number, direct| Entry {
        dispatch: dispatch(number),
        state: DispatchState::Accepted,
        keep_until: UnixMillis(T0),
        direct,
        schedule: Some(schedule.clone()),
    };
    let mut peel = Peel::new(peel(1), Timing::default());
    peel.step(Event::Start { entries: vec![entry(30, false), entry(31, true)] }, now(0)).unwrap();
    let told = peel.step(Event::LeftoversGone, now(1)).unwrap();
    let ended = told.iter().filter(|one| matches!(one, Command::ScheduleEnded { .. })).count();
    let stored = told.iter().filter(|one| matches!(one, Command::StoreReturn { .. })).count();
    assert_eq!((ended, stored), (2, 1), "{told:?}");
}

#[test]
#[rule("D-10")]
fn d10_results_that_wait_for_a_server_give_way_the_oldest_first() {
    let schedule = ScheduledRun { name: "a".into(), function: "state.apply".into(), due: UnixMillis(T0) };
    let waiting = |epoch: u64| Entry {
        dispatch: Dispatch { jid: jid(30), epoch },
        state: DispatchState::Returned { delivered: false },
        keep_until: UnixMillis(T0),
        direct: false,
        schedule: Some(schedule.clone()),
    };
    let mut peel = Peel::new(peel(1), Timing::default());
    let entries = (1..=zester_jobs::limits::SCHEDULED_OUTBOX_MAX as u64).map(waiting).collect();
    peel.step(Event::Start { entries }, now(0)).unwrap();
    let dispatch = Dispatch { jid: jid(31), epoch: 1 };
    peel.step(scheduled(31, "b"), now(1)).unwrap();
    peel.step(Event::Stored { dispatch: dispatch.clone(), result: Ok(()) }, now(2)).unwrap();
    let ret = Box::new(ret(1, 1, true));
    peel.step(Event::Finished { dispatch: dispatch.clone(), ret }, now(3)).unwrap();
    let told = peel.step(Event::ReturnStored { dispatch }, now(4)).unwrap();
    let dropped: Vec<&Dispatch> = told
        .iter()
        .filter_map(|one| match one {
            Command::Note(Note::Dropped(dispatch)) => Some(dispatch),
            _ => None,
        })
        .collect();
    assert_eq!(dropped, [&Dispatch { jid: jid(30), epoch: 1 }], "the oldest, and no other: {told:?}");
    assert_eq!(peel.undelivered(), zester_jobs::limits::SCHEDULED_OUTBOX_MAX);
}

#[test]
#[rule("I-8")]
fn i8_what_a_policy_refuses_is_not_run_and_every_copy_hears_the_same() {
    let refused = |why: &str| Event::Exec {
        request: Box::new(request(1, "cmd.run")),
        signed: UnixMillis(T0),
        terms: Terms { refused: Some(why.into()), once_until: None },
    };
    let mut peel = working();
    for why in ["refused by the policy", "for another reason"] {
        let commands = peel.step(refused(why), now(0)).unwrap();
        let [Command::SendUnstored { ret }] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!((ret.cause, ret.error.as_str()), (Cause::Refused, "refused by the policy"));
    }
    // What was taken on before goes on, and a copy of it is acked, whatever the policy says meanwhile.
    let mut peel = running(1);
    let copy = Event::Exec {
        request: Box::new(request(1, "state.apply")),
        signed: UnixMillis(T0),
        terms: Terms { refused: Some("the window has closed".into()), once_until: None },
    };
    assert_eq!(names(&peel.step(copy, now(0)).unwrap()), ["ack"]);
}

#[test]
#[rule("I-8", "J-7")]
fn i8_what_an_operator_signed_counts_once_whatever_epoch_a_master_gives_it() {
    let until = UnixMillis(T0 + 48 * 3_600_000);
    let asked = |epoch: u64| Event::Exec {
        request: Box::new(ExecRequest { dispatch_epoch: epoch, ..request(1, "cmd.run") }),
        signed: UnixMillis(T0),
        terms: Terms { refused: None, once_until: Some(until) },
    };
    let mut peel = working();
    let commands = peel.step(asked(1), now(0)).unwrap();
    let [Command::StoreEntry(entry)] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!(entry.keep_until, until, "for as long as the operator's word could be brought again");
    peel.step(stored(1), now(0)).unwrap();
    peel.step(finished(1, true), now(0)).unwrap();
    let commands = peel.step(asked(2), now(1)).unwrap();
    let [Command::SendUnstored { ret }] = commands.as_slice() else { panic!("{commands:?}") };
    assert_eq!((ret.cause, ret.error.as_str()), (Cause::Refused, ONCE));
}
