//! A few hundred simulations break no rule, and each safeguard is missed when it is gone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;
use zester_rule::rule;
use zester_sim::reactions::{EventPlan, Sender};
use zester_sim::script::{Action, Script, Who};
use zester_sim::{Mutation, Report, Tally, run, simulate};

/// Seeds of one test run; the long count is `make soak`'s.
fn seeds(few: u64, many: u64) -> u64 {
    if std::env::var_os("ZESTER_SOAK").is_some() { many } else { few }
}

#[track_caller]
fn hold(seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let report = simulate(seed, Mutation::None);
        assert!(report.violations.is_empty(), "seed {seed}: {}", report.verdict());
        tally.add(report.tally);
    }
    tally
}

#[test]
#[rule("J-20")]
fn j20_whatever_happens_to_a_fleet_the_rules_hold() {
    let tally = hold(0..seeds(300, 2_000));
    // A simulation in which nothing happens would break no rule either.
    for status in ["complete", "failed", "partial", "timeout", "canceled"] {
        assert!(tally.statuses.get(status).is_some_and(|count| *count >= 3), "{status}: {tally:?}");
    }
    assert!(tally.adoptions >= 10 && tally.executions >= 300, "{tally:?}");
    assert!(tally.reactions >= 100, "{tally:?}");
    let faults = [
        "storm",
        "late write",
        "stale read",
        "watch late",
        "watch ended",
        "overflow",
        "no leader",
        "full store",
        "full disk",
        "store made again",
        "peel disk",
        "disk failure",
        "clock jump",
        "crash at a call",
        "silence",
        "freeze",
        "new files at a master",
        "new tree in place",
        "spoiled content",
        "new rules",
    ];
    for fault in faults {
        assert!(tally.faults.get(fault).is_some_and(|count| *count >= 3), "{fault}: {tally:?}");
    }
}

#[test]
#[rule("J-20")]
fn j20_a_seed_repeats_itself() {
    for seed in 0..20 {
        let (first, again) = (simulate(seed, Mutation::None), simulate(seed, Mutation::None));
        assert_eq!(first.story, again.story, "seed {seed}");
        assert_eq!(first.tally, again.tally, "seed {seed}");
    }
}

/// A request that the bus brought twice: refused while the server had no room, and claimed by its second copy, when there was room
/// again and its client had exited with 1.
#[test]
#[rule("J-28")]
fn j28_a_copy_of_a_request_that_was_refused_is_refused_alike() {
    hold(4321..4322);
}

/// Seeds within which the lack of any safeguard shows.
const SEEDS_MAX: u64 = 5_000;

/// Scripts for what hardly any seed leads to.
fn written_for(mutation: Mutation) -> Vec<Script> {
    let seconds = Duration::from_secs;
    let event = || EventPlan::new(Sender::Peel(0), "work", "e");
    match mutation {
        // Whichever of the two owns the job dies for good in the middle of it.
        Mutation::NoTakeover => (0..2)
            .map(|master| {
                Script::quiet(2, 1, seconds(40))
                    .job(seconds(6), &[0], seconds(90))
                    .then(seconds(12), Action::Crash(Who::Master(master)))
            })
            .collect(),
        // What a reaction needs is away, and whoever has its event dies, on every delivery but the sixth.
        Mutation::CountDeliveries => {
            let away = Script::quiet(1, 1, seconds(1))
                .then(seconds(5), Action::LoseLeader("KV_jobs"))
                .event(seconds(6), event());
            let dies = |script: Script, at: u64| {
                let (crash, start) = (Action::Crash(Who::Master(0)), Action::Start(Who::Master(0)));
                script.then(seconds(at), crash).then(seconds(at + 5), start)
            };
            // Handed back after 6, 16 and 26 seconds, and kept from then on, by one master after the other.
            let dead = [50, 120, 190].into_iter().fold(away, dies);
            vec![dead.then(seconds(230), Action::GainLeader("KV_jobs"))]
        }
        // The same, and for a while its master is away too.
        Mutation::AckBeforeEffect | Mutation::AckFailures => vec![
            Script::quiet(1, 1, seconds(1))
                .then(seconds(5), Action::LoseLeader("KV_jobs"))
                .event(seconds(6), event())
                .then(seconds(20), Action::Crash(Who::Master(0)))
                .then(seconds(25), Action::Start(Who::Master(0)))
                .then(seconds(30), Action::GainLeader("KV_jobs")),
        ],
        // The master dies at one moment or another of a reaction, perhaps between its effect and its end.
        Mutation::RandomReaction | Mutation::RandomReactionRuns => (1..60)
            .map(|moment| {
                let at = seconds(6) + Duration::from_millis(moment);
                Script::quiet(1, 1, seconds(1))
                    .event(seconds(6), event())
                    .then(at, Action::Crash(Who::Master(0)))
                    .then(seconds(8), Action::Start(Who::Master(0)))
            })
            .collect(),
        Mutation::BelieveDuplicate => {
            let forged = EventPlan { forged: true, ..EventPlan::new(Sender::Peel(0), "chain", "e") };
            vec![Script::quiet(1, 1, seconds(1)).event(seconds(6), forged)]
        }
        // A peel that works on loses its server for a minute.
        Mutation::NoPatience => vec![
            Script::quiet(1, 1, seconds(90))
                .job(seconds(6), &[0], seconds(180))
                .then(seconds(15), Action::Cut(Who::Peel(0)))
                .then(seconds(75), Action::Heal(Who::Peel(0))),
        ],
        _ => Vec::new(),
    }
}

/// A script or a seed under which the very invariant that belongs to a safeguard does not hold without it.
#[track_caller]
fn is_missed(mutation: Mutation) {
    let invariant = mutation.missed_by().unwrap();
    let is_missed = |simulated: &dyn Fn(Mutation) -> Report| {
        let report = simulated(mutation);
        let missed =
            report.violations.iter().chain(&report.open).any(|violation| violation.invariant == invariant);
        missed && {
            let sound = simulated(Mutation::None);
            sound.violations.is_empty() && sound.open.is_empty()
        }
    };
    if written_for(mutation).iter().any(|script| is_missed(&|mutation| run(script, 0, mutation)))
        || (0..SEEDS_MAX).any(|seed| is_missed(&|mutation| simulate(seed, mutation)))
    {
        return;
    }
    panic!("nobody missed {}: {}", mutation.name(), invariant.text());
}

macro_rules! missed {
    ($($(#[$stated:meta])* fn $test:ident() { $mutation:ident })*) => {
        $($(#[$stated])*
        fn $test() {
            is_missed(Mutation::$mutation);
        })*

        #[test]
        fn every_mutation_has_its_test() {
            let tested = [$(Mutation::$mutation),*];
            assert_eq!(tested.len(), Mutation::ALL.len());
            assert!(Mutation::ALL.iter().all(|mutation| tested.contains(mutation)));
        }
    };
}

missed! {
    #[test]
    #[rule("D-3")]
    fn d3_content_that_nobody_checks_is_noticed() { NoHashCheck }
    #[test]
    #[rule("D-4")]
    fn d4_a_swap_in_place_is_noticed() { SwapInPlace }
    #[test]
    #[rule("D-2", "D-14")]
    fn d2_two_masters_that_both_publish_are_noticed() { NoLeaseFence }
    #[test]
    #[rule("D-3")]
    fn d3_a_peel_that_never_looks_is_noticed() { DeafToRevisions }
    #[test]
    #[rule("R-10")]
    fn r10_an_event_that_is_acknowledged_first_is_lost() { AckBeforeEffect }
    #[test]
    #[rule("R-10")]
    fn r10_an_event_whose_failure_is_acknowledged_is_lost() { AckFailures }
    #[test]
    #[rule("R-1")]
    fn r1_an_event_that_is_given_a_few_times_and_no_more_is_lost() { CountDeliveries }
    #[test]
    #[rule("R-8")]
    fn r8_a_job_id_with_a_random_part_is_noticed() { RandomReaction }
    #[test]
    #[rule("R-10")]
    fn r10_a_reaction_that_runs_twice_is_noticed() { RandomReactionRuns }
    #[test]
    #[rule("R-8")]
    fn r8_events_of_two_senders_with_one_id_are_two() { NoOrigin }
    #[test]
    #[rule("R-9")]
    fn r9_a_sent_event_with_a_random_id_is_noticed() { RandomSentId }
    #[test]
    #[rule("R-9")]
    fn r9_a_duplicate_of_somebody_else_that_is_believed_is_noticed() { BelieveDuplicate }
    #[test]
    #[rule("R-3")]
    fn r3_an_event_that_lies_about_its_tag_is_noticed() { NoSpoofGate }
    #[test]
    #[rule("R-10")]
    fn r10_events_that_are_never_acknowledged_are_noticed() { DropAcks }
    #[test]
    #[rule("J-7")]
    fn j7_without_the_dedup_write_a_restart_forgets_what_ran() { DropDedupWrite }
    #[test]
    #[rule("J-10")]
    fn j10_without_compare_and_set_a_superseded_owner_writes() { WriteWithoutCompare }
    #[test]
    #[rule("J-6")]
    fn j6_without_the_resend_on_adoption_a_target_never_gets_its_work() { AdoptWithoutResend }
    #[test]
    #[rule("J-9")]
    fn j9_without_the_write_of_a_return_it_is_lost() { DropReturnWrite }
    #[test]
    #[rule("J-9")]
    fn j9_a_late_return_that_is_not_marked_is_noticed() { UnmarkedLateReturn }
    #[test]
    #[rule("J-10")]
    fn j10_an_active_key_that_stays_is_noticed() { KeepActiveKey }
    #[test]
    #[rule("J-19")]
    fn j19_a_missing_finalized_event_is_noticed() { NoFinalizedEvent }
    #[test]
    #[rule("J-19")]
    fn j19_a_doubled_finalized_event_is_noticed() { EachFinalizedEvent }
    #[test]
    #[rule("J-11")]
    fn j11_without_the_cancel_command_work_goes_on() { DropCancelCommand }
    #[test]
    #[rule("J-11")]
    fn j11_a_cancel_that_is_not_durable_makes_the_reply_untrue() { CancelNotStored }
    #[test]
    #[rule("J-13")]
    fn j13_without_a_heartbeat_a_live_owner_loses_its_job() { NoHeartbeat }
    #[test]
    #[rule("J-5")]
    fn j5_a_wrong_count_is_noticed() { WrongCount }
    #[test]
    #[rule("J-5")]
    fn j5_a_wrong_status_is_noticed() { WrongStatus }
    #[test]
    #[rule("J-17")]
    fn j17_a_wrong_reason_is_noticed() { WrongReason }
    #[test]
    #[rule("J-7")]
    fn j7_a_new_dispatch_epoch_for_running_work_is_noticed() { NewDispatchEpoch }
    #[test]
    #[rule("J-5")]
    fn j5_a_budget_that_is_too_long_is_noticed() { LongBudget }
    #[test]
    #[rule("J-22")]
    fn j22_a_return_that_was_only_sent_is_missed() { DeliverBlindly }
    #[test]
    #[rule("J-2")]
    fn j2_work_that_is_sent_before_the_record_runs_is_noticed() { SendBeforeRunning }
    #[test]
    #[rule("J-7")]
    fn j7_a_start_that_remembers_nothing_runs_twice() { ForgetAtStart }
    #[test]
    #[rule("J-7")]
    fn j7_work_that_begins_before_it_is_on_disk_is_noticed() { WriteEntryLate }
    #[test]
    #[rule("J-5")]
    fn j5_an_end_that_is_not_written_is_noticed() { NoTerminalWrite }
    #[test]
    #[rule("J-5")]
    fn j5_an_end_that_is_written_late_is_noticed() { LateTerminalWrite }
    #[test]
    #[rule("J-1")]
    fn j1_a_second_end_is_noticed() { SecondEnd }
    #[test]
    #[rule("J-13")]
    fn j13_a_job_that_nobody_takes_over_is_noticed() { NoTakeover }
    #[test]
    #[rule("J-28")]
    fn j28_a_client_that_takes_silence_for_a_no_is_noticed() { SilenceIsNobody }
    #[test]
    #[rule("J-9")]
    fn j9_a_master_that_hears_no_returns_is_noticed() { DeafToReturns }
    #[test]
    #[rule("J-11")]
    fn j11_work_that_follows_its_cancel_is_noticed() { WorkAfterCancel }
    #[test]
    #[rule("J-22")]
    fn j22_returns_that_never_leave_are_noticed() { ReturnsStay }
    #[test]
    #[rule("J-8")]
    fn j8_a_peel_that_was_there_and_is_called_unreachable_is_noticed() { AllUnreachable }
    #[test]
    #[rule("J-5", "J-6")]
    fn j6_a_peel_that_is_given_up_before_it_can_be_back_is_missed() { NoPatience }
    #[test]
    #[rule("J-11")]
    fn j11_a_cancel_before_the_deadline_of_a_job_that_nobody_killed_is_noticed() { CancelTheMissing }
}
