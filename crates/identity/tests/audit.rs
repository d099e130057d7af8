//! The chain of the audit log: whatever is done to what was stored is found, and where.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use zester_identity::audit::{BreakKind, Chain, Decided, STARTED, STOPPED, Verifier};
use zester_rule::rule;
use zester_wire::{AuditEntry, AuditHead, MasterId, UnixMillis, encode};

/// What the stream holds: the place of each record, and its signed bytes.
type Stored = Vec<(u64, AuditEntry)>;

fn master(boot: &str) -> MasterId {
    MasterId::new("m1", boot).unwrap()
}

/// Writes so many entries; what a writer does, but without a stream.
fn written(chain: &mut Chain, acts: &[&'static str], into: &mut Stored) {
    for act in acts {
        let decided = Decided { act, who: "operator bob".into(), ..Decided::default() };
        let entry = chain.next(&decided, UnixMillis(1), 0);
        chain.wrote(&encode(&entry).unwrap());
        let sequence = into.len() as u64 + 1;
        into.push((sequence, entry));
    }
}

/// Two starts of one master, and another master beside them.
fn log() -> (Stored, AuditHead) {
    let mut stored = Vec::new();
    let mut first = Chain::new(master("one"), None);
    let mut other = Chain::new(MasterId::new("m2", "x").unwrap(), None);
    written(&mut first, &[STARTED, "dispatch", "kill"], &mut stored);
    written(&mut other, &[STARTED, "publish"], &mut stored);
    written(&mut first, &["forget", STOPPED], &mut stored);
    let mut second = Chain::new(master("two"), Some(first.head()));
    written(&mut second, &[STARTED, "dispatch"], &mut stored);
    written(&mut other, &["reaction"], &mut stored);
    (stored, second.head())
}

fn verified(stored: &Stored) -> Verifier {
    let mut verifier = Verifier::default();
    for (sequence, entry) in stored {
        verifier.take(*sequence, Ok((entry, &encode(entry).unwrap())));
    }
    verifier
}

#[test]
#[rule("I-6")]
fn i6_a_log_that_nobody_touched_is_whole() {
    let (stored, head) = log();
    let mut verifier = verified(&stored);
    verifier.head(&head);
    assert_eq!((verifier.breaks.as_slice(), verifier.entries, verifier.chains()), (&[][..], 10, 3));
    // The two that did not stop in order: one lives.
    assert_eq!(verifier.unended(&[master("two")]), [("m2.x".to_string(), 3)]);
    // One that was stored twice, because its writer did not hear of it, is no break.
    let mut twice = stored.clone();
    twice.push((11, twice[9].1.clone()));
    assert!(verified(&twice).breaks.is_empty());
    // Old ones make room, from the oldest on.
    for gone in 1..stored.len() {
        let younger = stored[gone..].to_vec();
        let found = verified(&younger).breaks;
        assert!(found.is_empty(), "{gone}: {found:?}");
    }
}

#[test]
#[rule("I-6")]
fn i6_every_entry_that_is_removed_edited_or_moved_is_found() {
    let (stored, head) = log();
    for at in 1..stored.len() {
        // Removed by the server's own means, which leave a gap in its numbers; and by means that leave none.
        let mut removed = stored.clone();
        removed.remove(at);
        let mut found = verified(&removed);
        found.head(&head);
        let is_last_of_other = at == stored.len() - 1;
        assert!(!found.breaks.is_empty() || is_last_of_other, "removed {at}");
        let renumbered: Stored =
            removed.into_iter().enumerate().map(|(place, (_, entry))| (place as u64 + 1, entry)).collect();
        let mut found = verified(&renumbered);
        found.head(&head);
        // The beginning of a chain looks as if it had made room, to who believes the numbers of the server.
        let is_first = stored[at].1.seq == 1;
        let is_known = is_last_of_other || is_first;
        assert!(!found.breaks.is_empty() || is_known, "removed {at} without a trace");
    }
    for at in 0..stored.len() {
        // Whoever has the key of a master could sign it again: the chain tells.
        let mut edited = stored.clone();
        edited[at].1.who = "operator eve".into();
        let mut found = verified(&edited);
        found.head(&head);
        let is_last_of_other = at == stored.len() - 1;
        assert!(!found.breaks.is_empty() || is_last_of_other, "edited {at}");
    }
    for (one, two) in [(1, 2), (2, 5), (4, 9)] {
        let mut moved = stored.clone();
        let (first, second) = (moved[one].1.clone(), moved[two].1.clone());
        (moved[one].1, moved[two].1) = (second, first);
        let found = verified(&moved).breaks;
        assert!(
            found
                .iter()
                .any(|one| matches!(one.what, BreakKind::Reordered { .. } | BreakKind::Missing { .. })),
            "{one} {two}: {found:?}"
        );
    }
}

#[test]
#[rule("I-6")]
fn i6_what_is_cut_off_at_the_end_is_missed_by_who_follows_or_lives() {
    let (stored, head) = log();
    let without = |gone: &[usize]| -> Stored {
        let kept = stored.iter().enumerate().filter(|(at, _)| !gone.contains(at));
        kept.enumerate().map(|(place, (_, (_, entry)))| (place as u64 + 1, entry.clone())).collect()
    };
    // The end of the first start.
    let found = verified(&without(&[5, 6])).breaks;
    let cut = BreakKind::Cut { chain: "m1.one".into(), seq: 5 };
    assert_eq!(found.iter().map(|one| &one.what).collect::<Vec<_>>(), [&cut]);
    // The end of the second, which lives.
    let mut found = verified(&without(&[8]));
    found.head(&head);
    let behind = BreakKind::Behind { chain: "m1.two".into(), seq: 1, wrote: 2 };
    assert_eq!(found.breaks.iter().map(|one| &one.what).collect::<Vec<_>>(), [&behind]);
    assert!(found.breaks[0].to_string().contains("m1.two ends at entry 1, and its master has written 2"));
    // What the master had no room for it says itself; what does not count is told.
    let lost = Chain::new(master("three"), None).next(&Decided::default(), UnixMillis(1), 7);
    let mut found = Verifier::default();
    found.take(1, Ok((&lost, &encode(&lost).unwrap())));
    found.take(2, Err("its signature does not hold for this subject".into()));
    let told: Vec<String> = found.breaks.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "record 1: 7 entries of m1.three before it were never written: there was no room",
            "record 2: it does not count: its signature does not hold for this subject",
        ]
    );
}

proptest! {
    #[test]
    #[rule("I-6")]
    fn i6_any_change_inside_a_chain_is_found(at in 0usize..7, word in "[a-z]{1,8}", field in 0usize..4) {
        let mut stored = Vec::new();
        let mut chain = Chain::new(master("one"), None);
        written(&mut chain, &[STARTED, "a", "b", "c", "d", "e", "f", STOPPED], &mut stored);
        let entry = &mut stored[at].1;
        let before = entry.clone();
        match field {
            0 => entry.who = word,
            1 => entry.about = word,
            2 => entry.refused = word,
            _ => entry.ts = UnixMillis(word.len() as u64 + 1),
        }
        prop_assume!(*entry != before);
        prop_assert!(!verified(&stored).breaks.is_empty());
    }
}
