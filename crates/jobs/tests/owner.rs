//! The owner's machine by tables: each test shows one rule.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::*;
use std::collections::BTreeSet;
use std::time::Duration;
use zester_jobs::{
    CancelEffect, Command, End, Event, Failed, History, Note, Owner, Stage, Timing, Written, messages,
};
use zester_rule::rule;
use zester_wire::*;

#[test]
#[rule("J-2")]
fn j2_the_order_of_a_dispatch() {
    let watched = Watched::dispatched(2, 60, &[]);
    let order = ["create", "mark", "announce", "running", "accept", "status", "exec"];
    assert_eq!(names(&watched.log), order);
    let Command::CreateRecord(job) = &watched.log[0] else { panic!() };
    assert_eq!(job.status, JobStatus::Claimed);
}

#[test]
#[rule("J-2")]
fn j2_nothing_is_published_before_the_record_says_running() {
    let mut owner = Owner::dispatch(job(1, 60), master("m1"), Timing::default());
    owner.step(Event::Begin { absent: Default::default() }, at(0)).unwrap();
    owner.step(Event::Record(Written::Done { revision: 1 }), at(1)).unwrap();
    owner.step(Event::Marked(Ok(())), at(2)).unwrap();
    let running = owner.step(Event::Announced(Ok(())), at(4)).unwrap();
    assert_eq!(names(&running), ["running"]);
    // The answer is lost, the write is not: the next try finds it and goes on.
    assert!(owner.step(Event::Record(Written::Failed), at(5)).unwrap().is_empty());
    assert_eq!(owner.next_wake(), Some(at(1005)));
    assert_eq!(names(&owner.step(Event::Tick, at(1005)).unwrap()), ["running"]);
    let found = Some((Box::new(owner.job().clone()), 2));
    let out = owner.step(Event::Record(Written::Conflict { found }), at(1006)).unwrap();
    assert_eq!(names(&out), ["accept", "status", "exec"]);
}

#[test]
#[rule("J-2")]
fn j2_a_claim_that_may_have_been_written_is_not_left_behind() {
    let mut owner = Owner::dispatch(job(1, 60), master("m1"), Timing::default());
    let out = owner.step(Event::Begin { absent: BTreeSet::new() }, at(0)).unwrap();
    let Command::CreateRecord(written) = &out[0] else { panic!("{out:?}") };
    // Nobody knows whether it was, and the time is over when the bus is back.
    owner.step(Event::Record(Written::Failed), at(5_000)).unwrap();
    assert_eq!(names(&owner.step(Event::Tick, at(70_000)).unwrap()), ["mark"]);
    let out = owner.step(Event::Marked(Ok(())), at(70_000)).unwrap();
    assert!(matches!(&out[..], [Command::CreateRecord(job)] if job.status == JobStatus::Failed));
    let found = Some((written.clone(), 7));
    let out = owner.step(Event::Record(Written::Conflict { found }), at(70_000)).unwrap();
    assert!(
        matches!(&out[..], [Command::WriteRecord { job, revision: 7 }] if job.status == JobStatus::Failed)
    );
}

#[test]
#[rule("J-3")]
fn j3_a_jid_that_is_taken_is_handed_to_the_intake() {
    let mut owner = Owner::dispatch(job(1, 60), master("m1"), Timing::default());
    owner.step(Event::Begin { absent: Default::default() }, at(0)).unwrap();
    let other = Job { owner: master("m2"), ..job(1, 60) };
    let out =
        owner.step(Event::Record(Written::Conflict { found: Some((Box::new(other), 9)) }), at(1)).unwrap();
    assert!(matches!(&out[0], Command::Existing { revision: 9, .. }));
    assert_eq!(owner.stage(), Stage::Lost);
}

#[test]
#[rule("J-3")]
fn j3_our_own_claim_is_resumed_with_fresh_time() {
    let claimed =
        Job { owner: master("m1"), status: JobStatus::Claimed, epoch: 1, dispatch_epoch: 1, ..job(1, 60) };
    let mut watched = Watched::new(Owner::resume(claimed, 4, UnixMillis(0), Timing::default()));
    watched.now = at(100_000);
    let out = watched.begin(&[]);
    assert_eq!(names(&out), ["replay", "mark", "announce", "running", "accept", "status", "exec"]);
    assert!(matches!(&out[3], Command::WriteRecord { revision: 4, .. }));
    assert_eq!(watched.owner.job().deadline, at(160_000));
}

#[test]
#[rule("J-4")]
fn j4_the_deadline_is_the_masters_now_plus_timeout() {
    let watched = Watched::dispatched(1, 30, &[]);
    let job = watched.owner.job();
    assert_eq!((job.created, job.deadline), (at(0), at(30_000)));
    assert_eq!((job.epoch, job.dispatch_epoch, job.owner.clone()), (1, 1, master("m1")));
    let none = Watched::dispatched(1, 0, &[]);
    assert_eq!(none.owner.job().deadline, at(60_000));
    assert_eq!(none.owner.next_wake(), Some(at(5_000)));
}

#[test]
#[rule("J-5")]
fn j5_all_returned_and_ok_is_complete() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.ack(1);
    assert_eq!(names(&watched.ret(1, true)), ["persist"]);
    let out = watched.ret(2, true);
    assert_eq!(names(&out), ["persist", "complete", "status", "emit", "purge", "stop"]);
    watched.ended(JobStatus::Complete);
    assert_eq!(watched.owner.job().return_count, 2);
    assert!(watched.owner.job().missing.is_empty());
}

#[test]
#[rule("J-5")]
fn j5_all_returned_and_some_failed_is_failed() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.ret(1, true);
    watched.ret(2, false);
    watched.ended(JobStatus::Failed);
    assert_eq!((watched.owner.job().return_count, watched.owner.job().success_count), (2, 1));
}

#[test]
#[rule("J-5")]
fn j5_some_returned_is_partial() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.ret(1, true);
    watched.ack(2);
    assert_eq!(watched.owner.next_wake(), Some(at(5_000)));
    watched.tick(59_999);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.tick(60_000);
    watched.ended(JobStatus::Partial);
}

#[test]
#[rule("J-5")]
fn j5_none_returned_is_timeout() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.tick(60_000);
    watched.ended(JobStatus::Timeout);
}

#[test]
#[rule("J-5")]
fn j5_a_return_cut_off_by_the_deadline_is_stored_and_not_counted() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.ret(1, true);
    let out = watched.send(Event::Return(Box::new(ret_of(2, 1, Cause::Deadline))));
    assert_eq!(names(&out)[0], "persist");
    watched.ended(JobStatus::Partial);
    assert_eq!(watched.owner.job().missing[&peel(2)], Missing::Running);
}

#[test]
#[rule("J-5")]
fn j5_the_request_carries_what_is_left_of_the_time() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    let out = watched.tick(5_000);
    let budget = Duration::from_secs(55);
    assert_eq!(out, [Command::SendExec { peels: vec![peel(1)], budget }]);
    let request = messages::exec_request(watched.owner.job(), budget);
    assert_eq!((request.budget, request.dispatch_epoch), (budget, 1));
}

#[test]
#[rule("J-6")]
fn j6_silent_targets_are_asked_once_more_after_the_ack_window() {
    let mut watched = Watched::dispatched(3, 60, &[]);
    watched.ack(1);
    watched.ret(2, true);
    assert!(sent_to(&watched.tick(4_999)).is_empty());
    assert_eq!(sent_to(&watched.tick(5_000)), [peel(3)]);
    assert!(sent_to(&watched.tick(30_000)).is_empty());
}

#[test]
#[rule("J-6")]
fn j6_a_peel_that_connects_gets_what_it_missed_until_the_deadline() {
    let mut watched = Watched::dispatched(3, 60, &[]);
    watched.ack(1);
    watched.tick(5_000);
    watched.now = at(50_000);
    assert_eq!(sent_to(&watched.send(Event::Connected { peel: peel(2) })), [peel(2)]);
    assert!(watched.send(Event::Connected { peel: peel(1) }).is_empty());
    assert!(watched.send(Event::Connected { peel: peel(9) }).is_empty());
    // What it was sent may be lost as well: whoever is silent after the window is asked once more.
    assert!(sent_to(&watched.tick(54_999)).is_empty());
    assert_eq!(sent_to(&watched.tick(55_000)), [peel(2), peel(3)]);
    assert!(sent_to(&watched.tick(59_999)).is_empty());
    watched.now = at(60_000);
    assert!(sent_to(&watched.send(Event::Connected { peel: peel(2) })).is_empty());
}

#[test]
#[rule("J-8")]
fn j8_a_target_without_a_heartbeat_is_given_up_after_the_grace() {
    let mut watched = Watched::dispatched(2, 60, &[2]);
    watched.ret(1, true);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.tick(5_000);
    assert_eq!(watched.owner.next_wake(), Some(at(10_000)));
    watched.tick(10_000);
    watched.ended(JobStatus::Partial);
    assert_eq!(watched.owner.job().missing[&peel(2)], Missing::Unreachable);
}

#[test]
#[rule("J-8")]
fn j8_none_but_the_unreachable_is_timeout_at_once() {
    let mut watched = Watched::dispatched(2, 600, &[1, 2]);
    watched.tick(10_000);
    watched.ended(JobStatus::Timeout);
}

#[test]
#[rule("J-8")]
fn j8_an_ack_or_a_return_overrides_unreachable() {
    let mut watched = Watched::dispatched(3, 60, &[2, 3]);
    watched.tick(10_000);
    watched.ack(2);
    watched.ret(3, true);
    watched.tick(20_000);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.ret(1, true);
    watched.ret(2, true);
    watched.ended(JobStatus::Complete);
}

#[test]
#[rule("J-6", "J-8")]
fn j8_a_target_that_came_back_is_awaited_like_any_other() {
    let mut watched = Watched::dispatched(1, 60, &[1]);
    watched.now = at(3_000);
    assert_eq!(sent_to(&watched.send(Event::Connected { peel: peel(1) })), [peel(1)]);
    watched.tick(30_000);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.now = at(31_000);
    watched.ret(1, true);
    watched.ended(JobStatus::Complete);
}

#[test]
#[rule("J-8", "J-17")]
fn j8_a_target_that_stops_under_the_job_is_unreachable_soon_after() {
    let mut watched = Watched::dispatched(2, 600, &[]);
    watched.ack(1);
    watched.ack(2);
    watched.ret(1, true);
    watched.now = at(40_000);
    watched.send(Event::Gone { peel: peel(2), stopped: true });
    watched.tick(49_999);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.tick(50_000);
    watched.ended(JobStatus::Partial);
    assert_eq!(watched.record.as_ref().unwrap().missing[&peel(2)], Missing::Unreachable);
}

/// The time that a peel needs which lost its server, and no more: one that was killed does not hold a long job up.
#[test]
#[rule("J-6", "J-8", "J-17")]
fn j6_a_target_whose_heartbeat_ends_without_a_word_has_the_time_to_come_back() {
    let timing = Timing::default();
    assert_eq!(timing.lost_patience(), Duration::from_secs(70), "notice, spread, heartbeat");
    for acked in [true, false] {
        let mut watched = Watched::dispatched(1, 600, &[]);
        if acked {
            watched.ack(1);
        }
        watched.now = at(30_000);
        watched.send(Event::Gone { peel: peel(1), stopped: false });
        watched.tick(99_999);
        assert_eq!(watched.owner.stage(), Stage::Watching);
        watched.tick(100_000);
        watched.ended(JobStatus::Timeout);
        assert_eq!(watched.record.as_ref().unwrap().missing[&peel(1)], Missing::Unreachable);
    }
}

/// What a last look brings to light, or what happens during it, is no reason to end.
#[test]
#[rule("J-8")]
fn j8_an_ack_that_only_the_stream_kept_overrides_unreachable() {
    let mut watched = Watched::dispatched(1, 600, &[1]);
    let acked = || History { acks: vec![peel(1)], ..History::default() };
    watched.history = vec![acked(), acked()];
    watched.tick(10_000);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    // It says that the peel had the work, not that it is there; and the same ack again says nothing.
    watched.tick(79_999);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.tick(80_000);
    watched.ended(JobStatus::Timeout);
    assert!(watched.history.is_empty());
}

/// A job of one peel that is not there, at its last look.
fn checking() -> Owner {
    let mut owner = Watched::dispatched(1, 60, &[1]).owner;
    assert_eq!(names(&owner.step(Event::Tick, at(10_000)).unwrap()), ["replay"]);
    assert_eq!(owner.stage(), Stage::Checking);
    owner
}

#[test]
#[rule("J-6", "J-8")]
fn j6_a_target_that_comes_back_during_the_last_look_gets_its_work() {
    let signs = [
        Event::Connected { peel: peel(1) },
        Event::Ack { peel: peel(1), dispatch_epoch: 1 },
        Event::Hearing(true),
    ];
    for sign in signs {
        let is_ack = matches!(sign, Event::Ack { .. });
        let mut owner = checking();
        owner.step(sign, at(10_500)).unwrap();
        let out = owner.step(Event::Replayed(Ok(History::default())), at(11_000)).unwrap();
        assert_eq!(owner.stage(), Stage::Watching);
        assert_eq!(sent_to(&out), if is_ack { vec![] } else { vec![peel(1)] });
    }
    // But not after the deadline, and not where it is to stop.
    let mut owner = checking();
    owner.step(Event::Connected { peel: peel(1) }, at(10_500)).unwrap();
    owner.step(Event::Replayed(Ok(History::default())), at(60_000)).unwrap();
    assert!(matches!(owner.stage(), Stage::Finalizing(_)));
    let mut owner = checking();
    owner.step(Event::Connected { peel: peel(1) }, at(10_500)).unwrap();
    owner.step(Event::Cancel { by: "alice".into() }, at(10_500)).unwrap();
    owner.step(Event::Replayed(Ok(History::default())), at(11_000)).unwrap();
    assert!(matches!(owner.stage(), Stage::Finalizing(End::Ran { cut_short: true })));
}

#[test]
#[rule("J-12")]
fn j12_a_job_that_goes_on_after_its_last_look_is_left_to_the_next_master() {
    let mut owner = checking();
    owner.step(Event::Detach, at(10_500)).unwrap();
    owner.step(Event::Connected { peel: peel(1) }, at(10_500)).unwrap();
    let out = owner.step(Event::Replayed(Ok(History::default())), at(11_000)).unwrap();
    assert_eq!(owner.stage(), Stage::Detached);
    assert!(sent_to(&out).is_empty());
}

#[test]
#[rule("J-8")]
fn j8_a_master_that_hears_nobody_gives_nobody_up() {
    let mut watched = Watched::dispatched(2, 600, &[1]);
    watched.ack(2);
    watched.now = at(30_000);
    watched.send(Event::Gone { peel: peel(2), stopped: false });
    watched.now = at(35_000);
    watched.send(Event::Hearing(false));
    watched.tick(300_000);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    // From here on both are waited for anew: the first as one that was not there, the second as one that was lost.
    watched.send(Event::Hearing(true));
    watched.tick(369_999);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.tick(370_000);
    watched.ended(JobStatus::Timeout);
}

#[test]
#[rule("J-8", "J-17")]
fn j17_a_target_that_is_offline_at_the_deadline_was_not_running() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    watched.ack(1);
    watched.now = at(55_000);
    watched.send(Event::Gone { peel: peel(1), stopped: false });
    watched.tick(60_000);
    watched.ended(JobStatus::Timeout);
    assert_eq!(watched.record.as_ref().unwrap().missing[&peel(1)], Missing::Unreachable);
}

#[test]
#[rule("J-8")]
fn j8_a_heartbeat_that_resumes_in_time_changes_nothing() {
    let mut watched = Watched::dispatched(1, 600, &[]);
    watched.ack(1);
    watched.now = at(40_000);
    watched.send(Event::Gone { peel: peel(1), stopped: false });
    watched.now = at(45_000);
    assert!(watched.send(Event::Connected { peel: peel(1) }).is_empty());
    watched.tick(300_000);
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.ret(1, true);
    watched.ended(JobStatus::Complete);
}

#[test]
#[rule("J-6", "J-8")]
fn j6_asking_again_does_not_prolong_how_long_the_absent_are_awaited() {
    let mut watched = Watched::dispatched(1, 60, &[1]);
    watched.now = at(9_000);
    assert_eq!(sent_to(&watched.send(Event::AskAgain)), [peel(1)]);
    watched.tick(10_000);
    watched.ended(JobStatus::Timeout);
}

#[test]
#[rule("J-8")]
fn j8_a_target_with_a_heartbeat_is_awaited_to_the_deadline() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    watched.tick(59_000);
    assert_eq!(watched.owner.stage(), Stage::Watching);
}

#[test]
#[rule("J-9")]
fn j9_every_return_is_on_disk_before_the_terminal_status() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.slow_disk = true;
    watched.ret(1, true);
    assert_eq!(names(&watched.ret(2, true)), ["persist"]);
    assert_eq!(watched.owner.stage(), Stage::Flushing(End::Ran { cut_short: false }));
    let failed = Event::PersistFailed { ret: Box::new(watched.unpersisted.remove(0)) };
    let again = watched.send(failed);
    assert!(matches!(&again[0], Command::Persist { pause, .. } if *pause == Duration::from_secs(1)));
    assert!(watched.send(Event::Persisted { peel: peel(2) }).is_empty());
    let out = watched.send(Event::Persisted { peel: peel(1) });
    assert_eq!(names(&out), ["complete", "status", "emit", "purge", "stop"]);
}

#[test]
#[rule("J-9")]
fn j9_a_return_counts_only_for_a_target_and_this_dispatch() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    let note = |out: Vec<Command>| match out.as_slice() {
        [Command::Note(note)] => note.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(note(watched.ret(7, true)), Note::NotATarget(peel(7)));
    let stale = note(watched.send(Event::Return(Box::new(ret(1, 9, true)))));
    assert_eq!(stale, Note::OtherEpoch { peel: peel(1), dispatch_epoch: 9 });
    assert_eq!(watched.owner.stage(), Stage::Watching);
}

/// A machine that looks at all targets for each return would be felt here.
#[test]
#[rule("J-9")]
fn j9_ten_thousand_returns_are_taken_one_by_one() {
    let absent: Vec<usize> = (5_001..=10_000).collect();
    let mut owner = Owner::dispatch(job(10_000, 60), master("m1"), Timing::default());
    let mut answer = |event| owner.step(event, at(1)).unwrap();
    answer(Event::Begin { absent: absent.iter().copied().map(peel).collect() });
    answer(Event::Record(Written::Done { revision: 1 }));
    answer(Event::Marked(Ok(())));
    answer(Event::Announced(Ok(())));
    answer(Event::Record(Written::Done { revision: 2 }));
    let mut last = Vec::new();
    for number in 1..=10_000 {
        answer(Event::Return(Box::new(ret(number, 1, true))));
        last = answer(Event::Persisted { peel: peel(number) });
    }
    assert_eq!(names(&last), ["complete"]);
    assert_eq!(owner.job().success_count, 10_000);
}

#[test]
#[rule("J-9")]
fn j9_a_job_that_ends_without_all_returns_looks_into_the_stream_once_more() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.ret(1, true);
    // The stream kept a return that never reached this master.
    watched.history = vec![History { returns: vec![ret(2, 1, true)], ..History::default() }];
    let out = names(&watched.tick(60_000));
    assert_eq!(out[..2], ["replay", "persist"], "{out:?}");
    watched.ended(JobStatus::Complete);
    assert!(watched.record.as_ref().unwrap().missing.is_empty());
}

#[test]
#[rule("J-9")]
fn j9_a_job_whose_last_look_fails_looks_again() {
    let owner = Owner::dispatch(job(1, 60), master("m1"), Timing::default());
    let mut watched = Watched::new(owner);
    watched.begin(&[]);
    let mut owner = watched.owner;
    assert_eq!(owner.step(Event::Tick, at(60_000)).unwrap(), [Command::Replay]);
    assert!(owner.step(Event::Replayed(Err(Failed)), at(60_000)).unwrap().is_empty());
    assert_eq!(owner.next_wake(), Some(at(61_000)));
    assert_eq!(owner.step(Event::Tick, at(61_000)).unwrap(), [Command::Replay]);
    let out = owner.step(Event::Replayed(Ok(History::default())), at(61_000)).unwrap();
    assert!(matches!(&out[..], [Command::WriteRecord { job, .. }] if job.status == JobStatus::Timeout));
}

/// The first try may have got through, or may yet: another end would be written over it, or of returns that it does not count.
#[test]
#[rule("J-9", "J-5")]
fn j9_an_end_is_tried_again_as_it_was_and_what_came_meanwhile_is_late() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.ret(1, true);
    let owner = &mut watched.owner;
    owner.step(Event::Tick, at(60_000)).unwrap();
    let first = owner.step(Event::Replayed(Ok(History::default())), at(60_000)).unwrap();
    assert!(matches!(&first[..], [Command::WriteRecord { job, .. }] if job.status == JobStatus::Partial));
    let out = owner.step(Event::Return(Box::new(ret(2, 1, true))), at(61_000)).unwrap();
    assert!(matches!(&out[..], [Command::Persist { ret, .. }] if ret.late), "{out:?}");
    owner.step(Event::Record(Written::Failed), at(65_000)).unwrap();
    assert_eq!(owner.step(Event::Tick, at(66_000)).unwrap(), first);
    let Command::WriteRecord { job, .. } = &first[0] else { panic!("{first:?}") };
    let found = Some((job.clone(), 9));
    let out = owner.step(Event::Record(Written::Conflict { found }), at(66_001)).unwrap();
    assert_eq!(names(&out), ["status", "emit"]);
}

#[test]
#[rule("J-9")]
fn j9_a_late_return_is_stored_as_late_and_changes_nothing() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.ret(1, true);
    watched.tick(60_000);
    let out = watched.ret(2, true);
    assert!(matches!(&out[..], [Command::Persist { ret, .. }] if ret.late));
    watched.ended(JobStatus::Partial);
    assert_eq!(names(&watched.ret(2, false)), ["note"]);
    let over = watched.record.clone().unwrap();
    assert!(messages::late_return(&over, ret(2, 1, true)).unwrap().late);
    assert_eq!(messages::late_return(&over, ret(7, 1, true)), None);
}

#[test]
#[rule("J-10")]
fn j10_a_superseded_owner_writes_nothing() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    let record = watched.owner.job().clone();
    let taken = Job { owner: master("m2"), epoch: 2, ..record };
    let mut owner = watched.owner.clone();
    let out = owner.step(Event::Return(Box::new(ret(1, 1, true))), at(5)).unwrap();
    assert_eq!(names(&out), ["persist"]);
    assert_eq!(names(&owner.step(Event::Persisted { peel: peel(1) }, at(6)).unwrap()), ["complete"]);
    let found = Some((Box::new(taken), 8));
    let out = owner.step(Event::Record(Written::Conflict { found }), at(7)).unwrap();
    assert_eq!(names(&out), ["note", "stop"]);
    assert!(owner.step(Event::Return(Box::new(ret(1, 1, true))), at(8)).unwrap().is_empty());
    // The same when it learns of it by other ways.
    assert_eq!(names(&watched.send(Event::Superseded)), ["note", "stop"]);
    assert!(watched.tick(60_000).is_empty());
}

#[test]
#[rule("J-11")]
fn j11_cancel_finalizes_with_the_returns_so_far() {
    let mut watched = Watched::dispatched(3, 60, &[]);
    watched.ret(1, true);
    let out = watched.cancel();
    assert_eq!(
        names(&out),
        ["taken", "send cancel", "replay", "canceled", "status", "emit", "purge", "stop"]
    );
    assert!(matches!(&out[1], Command::SendCancel { peels } if *peels == [peel(2), peel(3)]));
    watched.ended(JobStatus::Canceled);
    assert_eq!(
        (watched.owner.job().return_count, watched.owner.job().reason.as_str()),
        (1, "canceled by alice")
    );
    // A peel that was away hears of it when it is back.
    let out = watched.send(Event::Connected { peel: peel(3) });
    assert_eq!(out, [Command::SendCancel { peels: vec![peel(3)] }]);
}

#[test]
#[rule("J-11")]
fn j11_cancelling_a_finished_job_says_so_and_changes_nothing() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    watched.ret(1, true);
    assert_eq!(watched.cancel(), [Command::CancelTaken(CancelEffect::Over)]);
    watched.ended(JobStatus::Complete);
}

#[test]
#[rule("J-11")]
fn j11_a_cancel_during_the_dispatch_sends_nothing() {
    let mut owner = Owner::dispatch(job(1, 60), master("m1"), Timing::default());
    owner.step(Event::Begin { absent: Default::default() }, at(0)).unwrap();
    let out = owner.step(Event::Cancel { by: "alice".into() }, at(1)).unwrap();
    assert_eq!(out, [Command::CancelTaken(CancelEffect::Stopping { peels: 1 })]);
    let out = owner.step(Event::Record(Written::Done { revision: 1 }), at(2)).unwrap();
    assert_eq!(names(&out), ["mark"]);
    assert_eq!(names(&owner.step(Event::Marked(Ok(())), at(3)).unwrap()), ["canceled"]);
}

#[test]
#[rule("J-12")]
fn j12_a_stop_detaches_after_the_flush_and_leaves_the_job_running() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.slow_disk = true;
    watched.ret(1, true);
    assert!(watched.send(Event::Detach).is_empty());
    assert_eq!(names(&watched.send(Event::Persisted { peel: peel(1) })), ["stop"]);
    assert_eq!(watched.owner.stage(), Stage::Detached);
    assert_eq!(watched.record.as_ref().unwrap().status, JobStatus::Running);
    assert_eq!(watched.record.unwrap().epoch, 1);
}

#[test]
#[rule("J-12")]
fn j12_a_detached_job_whose_targets_all_returned_is_finalized() {
    let mut watched = Watched::dispatched(2, 60, &[]);
    watched.slow_disk = true;
    watched.ret(1, true);
    watched.send(Event::Detach);
    watched.ret(2, true);
    watched.send(Event::Persisted { peel: peel(1) });
    watched.send(Event::Persisted { peel: peel(2) });
    watched.ended(JobStatus::Complete);
}

#[test]
#[rule("J-11", "J-23")]
fn j11_a_name_of_any_length_does_not_keep_a_canceled_job_from_ending() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    watched.send(Event::Cancel { by: "é".repeat(1_000_000) });
    watched.ended(JobStatus::Canceled);
    assert!(watched.record.unwrap().reason.len() < 1_000);
}

#[test]
#[rule("J-17")]
fn j17_missing_peels_are_named_with_the_reason() {
    let mut watched = Watched::dispatched(6, 60, &[4]);
    watched.ret(1, true);
    watched.ack(2);
    watched.send(Event::Return(Box::new(ret_of(5, 1, Cause::Interrupted))));
    watched.send(Event::Return(Box::new(ret_of(6, 1, Cause::Deadline))));
    watched.tick(10_000);
    watched.tick(60_000);
    let missing = watched.owner.job().missing.clone();
    let expected = [
        (peel(2), Missing::Running),
        (peel(3), Missing::NeverAcked),
        (peel(4), Missing::Unreachable),
        (peel(5), Missing::Interrupted),
        (peel(6), Missing::Running),
    ];
    assert_eq!(missing, expected.into_iter().collect());
}

#[test]
#[rule("J-19")]
fn j19_a_failed_emit_is_tried_again_before_the_active_key_goes() {
    let mut owner = Watched::dispatched(1, 60, &[]).owner;
    owner.step(Event::Return(Box::new(ret(1, 1, true))), at(1)).unwrap();
    owner.step(Event::Persisted { peel: peel(1) }, at(2)).unwrap();
    owner.step(Event::Record(Written::Done { revision: 9 }), at(3)).unwrap();
    assert!(owner.step(Event::Emitted(Err(Failed)), at(4)).unwrap().is_empty());
    assert_eq!(names(&owner.step(Event::Tick, at(1_004)).unwrap()), ["emit"]);
    assert_eq!(names(&owner.step(Event::Emitted(Ok(())), at(1_005)).unwrap()), ["purge"]);
}

#[test]
#[rule("J-20")]
fn j20_what_is_not_listed_is_refused_and_changes_nothing() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    for event in [
        Event::Begin { absent: Default::default() },
        Event::Record(Written::Done { revision: 1 }),
        Event::Marked(Ok(())),
        Event::Announced(Ok(())),
        Event::Loaded(Ok(vec![])),
        Event::Replayed(Ok(History::default())),
        Event::Persisted { peel: peel(1) },
        Event::Emitted(Ok(())),
        Event::Purged(Ok(())),
    ] {
        let name = event.name();
        let illegal = watched.owner.step(event, at(1)).unwrap_err();
        assert_eq!((illegal.state, illegal.event), ("watching", name));
    }
    assert_eq!(watched.owner.stage(), Stage::Watching);
    watched.ret(1, true);
    watched.ended(JobStatus::Complete);
}

/// Whoever is sent the work gets no more than the whole time, though the deadline is further away by now.
#[test]
#[rule("J-5")]
fn j5_a_clock_that_is_set_back_gives_nobody_more_than_the_whole_time() {
    let mut watched = Watched::dispatched(1, 60, &[]);
    watched.now = UnixMillis(T0 - 45 * 60 * 1_000);
    let out = watched.send(Event::AskAgain);
    assert!(
        matches!(&out[..], [Command::SendExec { budget, .. }] if *budget == Duration::from_secs(60)),
        "{out:?}"
    );
}
