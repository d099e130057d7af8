//! The gates, in the order of R-3.

use super::double::{NOW, delivered, event, read};
use serde_json::json;
use std::time::Duration;
use zester_reactor::{Delivered, DropReason, Gates, Guards, Payload, subject_of_key};
use zester_rule::rule;
use zester_wire::{Event, UnixMillis};

const SUBJECT: &str = "zester.event.web-1.send.deploy.done";

fn sound() -> Event {
    event("e1", "deploy/done", json!({}))
}

fn reason(delivered: Delivered<'_>, payload: Payload) -> Option<DropReason> {
    let mut gates = Gates::new(Guards::default());
    gates.judge(&delivered, |_| payload, NOW).err().map(|dropped| dropped.reason)
}

fn signed(event: Event, at: u64) -> Payload {
    Payload::Read { event, signed: UnixMillis(at) }
}

#[test]
#[rule("R-2", "R-3")]
fn r3_each_gate_drops_with_its_reason() {
    let deep = Event { depth: 3, ..sound() };
    let hour = 3_600_000;
    let table: Vec<(&str, Payload, Option<DropReason>)> = vec![
        (SUBJECT, signed(sound(), NOW.0), None),
        ("zester.event.web-1", signed(sound(), NOW.0), Some(DropReason::Malformed)),
        ("zester.event.web-1.send", signed(sound(), NOW.0), Some(DropReason::Malformed)),
        ("zester.event._other.send.deploy.done", signed(sound(), NOW.0), Some(DropReason::Malformed)),
        ("zester.event.web-1.send.deploy..done", signed(sound(), NOW.0), Some(DropReason::Malformed)),
        ("zester.event.web-1.send.deploy.*", signed(sound(), NOW.0), Some(DropReason::Malformed)),
        ("zester.event.web-1.shout.deploy", signed(sound(), NOW.0), Some(DropReason::Malformed)),
        ("zester.dispatch", signed(sound(), NOW.0), Some(DropReason::Malformed)),
        (SUBJECT, signed(Event { id: String::new(), ..sound() }, NOW.0), Some(DropReason::Malformed)),
        (SUBJECT, signed(sound(), NOW.0 + 300_001), Some(DropReason::Malformed)),
        (SUBJECT, signed(sound(), NOW.0 + 300_000), None),
        (SUBJECT, Payload::Unreadable("garbage".into()), Some(DropReason::Decode)),
        (SUBJECT, Payload::Forged("no such key".into()), Some(DropReason::Spoof)),
        (SUBJECT, signed(event("e1", "deploy/other", json!({})), NOW.0), Some(DropReason::Spoof)),
        (SUBJECT, signed(deep, NOW.0), Some(DropReason::Depth)),
        (SUBJECT, signed(Event { depth: 2, ..sound() }, NOW.0), None),
        (SUBJECT, signed(sound(), NOW.0 - hour), None),
        (SUBJECT, signed(sound(), NOW.0 - hour - 1), Some(DropReason::Stale)),
    ];
    for (subject, payload, expected) in table {
        let told = format!("{subject} {payload:?}");
        assert_eq!(reason(delivered(subject, 1), payload), expected, "{told}");
    }
}

#[test]
#[rule("R-3")]
fn r3_the_gates_stand_in_order() {
    // Each is wrong in every way of the gates after the one that must tell, as far as it can be.
    let mut gates = Gates::new(Guards { source_rate_limit: 60, source_burst: 1, ..Guards::default() });
    let ahead = NOW.plus(Duration::from_secs(301)).0;
    let other = Event { depth: 9, ..event("e", "x", json!({})) };
    let nameless = Event { id: String::new(), ..other.clone() };
    let table = [
        ("zester.event.web-1", Payload::Unreadable("garbage".into()), DropReason::Malformed),
        ("zester.event.web-1", Payload::Forged("no such key".into()), DropReason::Malformed),
        ("zester.event.web-1", signed(other.clone(), NOW.0), DropReason::Malformed),
        (SUBJECT, Payload::Unreadable("garbage".into()), DropReason::Decode),
        (SUBJECT, Payload::Forged("no such key".into()), DropReason::Spoof),
        (SUBJECT, signed(nameless, NOW.0), DropReason::Malformed),
        (SUBJECT, signed(other.clone(), ahead), DropReason::Malformed),
        (SUBJECT, signed(other, NOW.0), DropReason::Spoof),
        (SUBJECT, signed(Event { depth: 9, ..sound() }, ahead), DropReason::Malformed),
        (SUBJECT, signed(Event { depth: 9, ..sound() }, NOW.0), DropReason::Depth),
        // None of those before took the only token.
        (SUBJECT, signed(sound(), NOW.0), DropReason::Stale),
        (SUBJECT, signed(sound(), NOW.0), DropReason::Ratelimit),
        (SUBJECT, signed(Event { depth: 9, ..sound() }, NOW.0), DropReason::Depth),
    ];
    for (subject, payload, expected) in table {
        let old = Delivered { stored: UnixMillis(NOW.0 - 7_200_000), ..delivered(subject, 1) };
        let told = format!("{subject} {payload:?}");
        let found = gates.judge(&old, |_| payload, NOW).unwrap_err().reason;
        assert_eq!(found, expected, "{told}");
    }
}

#[test]
#[rule("R-3")]
fn r3_nothing_is_opened_that_came_by_no_subject_of_events() {
    let mut gates = Gates::new(Guards::default());
    for subject in ["zester.event.web-1", "zester.event._other.send.x", "zester.dispatch", ""] {
        let open = |_: &_| panic!("{subject} was opened");
        assert_eq!(gates.judge(&delivered(subject, 1), open, NOW).unwrap_err().reason, DropReason::Malformed);
    }
}

#[test]
#[rule("R-3", "R-12", "I-13")]
fn r3_what_comes_again_and_what_masters_say_is_not_limited() {
    let guards = Guards { source_rate_limit: 60, source_burst: 1, ..Guards::default() };
    let mut gates = Gates::new(guards);
    let mut judge = |delivered: Delivered<'_>, at: UnixMillis| {
        gates.judge(&Delivered { stored: at, ..delivered }, read(sound()), at).is_ok()
    };
    // One that was given to another master before takes no token of its source here.
    let again = Delivered { deliveries: 2, ..delivered(SUBJECT, 1) };
    assert!((0..10).all(|_| judge(again, NOW)));
    assert!(judge(delivered(SUBJECT, 1), NOW), "the token is still there");
    assert!(!judge(delivered(SUBJECT, 2), NOW));
    assert!(judge(again, NOW));
    let later = NOW.plus(Duration::from_secs(1));
    assert!(judge(delivered(SUBJECT, 3), later), "nor does it delay the next");
    for sequence in 0..100 {
        assert!(judge(delivered("zester.event._master.deploy.done", sequence), NOW));
    }
    for source in ["_admin", "web-2", "web-3"] {
        let subject = format!("zester.event.{source}.send.deploy.done");
        assert!(judge(delivered(&subject, 1), NOW), "{source} has a token of its own");
        assert!(!judge(delivered(&subject, 2), NOW), "{source} has but one");
    }
}

/// Nobody was there to react for a while: what was sent at a fair pace is not too much because it is met at once.
#[test]
#[rule("R-3", "R-12")]
fn r12_a_backlog_counts_by_when_it_was_sent_and_not_by_when_it_is_met() {
    let mut gates = Gates::new(Guards::default());
    let met = NOW.plus(Duration::from_secs(120));
    for sequence in 0..200 {
        let stored = NOW.plus(Duration::from_millis(550 * sequence));
        let one = Delivered { stored, ..delivered(SUBJECT, sequence) };
        assert!(gates.judge(&one, read(sound()), met).is_ok(), "{sequence}");
    }
    let mut passed = 0;
    for sequence in 200..300 {
        let one = Delivered { stored: met, ..delivered(SUBJECT, sequence) };
        passed += u32::from(gates.judge(&one, read(sound()), met).is_ok());
    }
    assert!((1..=60).contains(&passed), "a flood is one whenever it is met: {passed}");
}

#[test]
#[rule("R-2", "R-3")]
fn r3_an_id_that_is_long_or_no_text_is_malformed() {
    for id in ["x".repeat(257), "a\nb".to_string(), "\u{1b}[2J".to_string()] {
        let found = reason(delivered(SUBJECT, 1), signed(Event { id, ..sound() }, NOW.0));
        assert_eq!(found, Some(DropReason::Malformed));
    }
    assert_eq!(reason(delivered(SUBJECT, 1), signed(Event { id: "x".repeat(256), ..sound() }, NOW.0)), None);
}

#[test]
#[rule("R-3", "R-12")]
fn r3_beacons_and_sent_events_of_a_peel_are_one_source() {
    let mut gates = Gates::new(Guards { source_rate_limit: 60, source_burst: 1, ..Guards::default() });
    assert!(gates.judge(&delivered(SUBJECT, 1), read(sound()), NOW).is_ok());
    let beacon = event("e2", "beacon/web-1/service", json!({}));
    let dropped = gates.judge(&delivered("zester.event.web-1.beacon.service", 2), read(beacon), NOW);
    assert_eq!(dropped.unwrap_err().reason, DropReason::Ratelimit);
}

#[test]
#[rule("R-3", "R-12")]
fn r3_age_is_counted_from_the_older_of_stream_and_signature_and_zero_replays_all() {
    let hours = |count: u64| UnixMillis(NOW.0 - count * 3_600_000);
    for (stored, signed_at, stale) in
        [(hours(2), NOW, true), (NOW, hours(2), true), (NOW, NOW, false), (NOW, UnixMillis(0), false)]
    {
        let delivered = Delivered { stored, ..delivered(SUBJECT, 1) };
        let found = reason(delivered, signed(sound(), signed_at.0));
        assert_eq!(found == Some(DropReason::Stale), stale);
    }
    let mut gates = Gates::new(Guards { max_event_age: Duration::ZERO, ..Guards::default() });
    let ancient = Delivered { stored: UnixMillis(1), ..delivered(SUBJECT, 1) };
    assert!(gates.judge(&ancient, read(sound()), NOW).is_ok());
}

#[test]
#[rule("R-12")]
fn r12_a_depth_cap_of_zero_is_off() {
    let mut gates = Gates::new(Guards { max_chain_depth: 0, ..Guards::default() });
    let deep = Event { depth: u32::MAX, ..sound() };
    assert!(gates.judge(&delivered(SUBJECT, 1), read(deep), NOW).is_ok());
}

#[test]
#[rule("R-2")]
fn r2_a_match_key_names_one_subject() {
    for (key, subject) in [
        ("web-1/deploy/done", Some("web-1.send.deploy.done")),
        ("web-1/beacon/web-1/service", Some("web-1.beacon.service")),
        ("web-1/beacon/web-2/service", Some("web-1.send.beacon.web-2.service")),
        ("_master/job/x/finalized", Some("_master.job.x.finalized")),
        ("_admin/hello", Some("_admin.send.hello")),
        ("_other/hello", None),
        ("web-1", None),
        ("web 1/x", None),
    ] {
        let found = subject_of_key(key);
        assert_eq!(found.as_ref().map(ToString::to_string).as_deref(), subject, "{key}");
        if let Some(found) = found {
            assert_eq!(found.match_key(), key);
        }
    }
}
