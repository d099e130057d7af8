//! A few hundred lives break no rule, and each safeguard is missed when it is gone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use zester_rule::rule;
use zester_sim::{Mutation, Tally, live};

/// Seeds of one test run; the long count is `make soak`'s.
fn seeds(few: u64, many: u64) -> u64 {
    if std::env::var_os("ZESTER_SOAK").is_some() { many } else { few }
}

#[track_caller]
fn hold(seeds: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        match live(seed, Mutation::None) {
            Ok(one) => tally.add(one),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
    }
    tally
}

#[test]
#[rule("J-20")]
fn j20_whatever_happens_to_a_fleet_the_rules_hold() {
    let tally = hold(0..seeds(300, 2_000));
    // A life in which nothing happens would break no rule either.
    for status in ["complete", "failed", "partial", "timeout", "canceled"] {
        assert!(tally.statuses.get(status).is_some_and(|count| *count >= 3), "{status}: {tally:?}");
    }
    assert!(tally.adoptions >= 10 && tally.executions >= 300, "{tally:?}");
}

#[test]
#[rule("J-20")]
fn j20_a_seed_repeats_itself() {
    for seed in 0..20 {
        assert_eq!(live(seed, Mutation::None).unwrap(), live(seed, Mutation::None).unwrap(), "seed {seed}");
    }
}

/// The first seeds in which the lack is noticed, and by which rule.
#[track_caller]
fn is_missed(mutation: Mutation, rule: &str) {
    for seed in 0..5_000 {
        if let Err(violation) = live(seed, mutation) {
            assert!(violation.rule.starts_with(rule), "seed {seed}: {violation}");
            return;
        }
    }
    panic!("nobody missed {}", mutation.name());
}

#[test]
#[rule("J-7")]
fn j7_without_the_dedup_write_something_runs_twice() {
    is_missed(Mutation::DropDedupWrite, "J-7");
}

#[test]
#[rule("J-10")]
fn j10_without_compare_and_set_a_dead_owner_writes() {
    is_missed(Mutation::FinalizeWithoutCas, "J-");
}

#[test]
#[rule("J-13")]
fn j13_without_the_second_replay_a_return_is_lost() {
    is_missed(Mutation::SkipSecondReplay, "J-9");
}

#[test]
#[rule("J-6")]
fn j6_without_the_resend_on_adoption_a_target_never_gets_its_work() {
    is_missed(Mutation::AdoptWithoutResend, "J-6");
}

#[test]
#[rule("J-13")]
fn j13_with_the_same_owner_id_after_a_restart_nobody_finishes() {
    is_missed(Mutation::SameOwnerId, "J-5");
}
