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
    // Wrong in every way that is left at each gate: the first that is wrong is told.
    let mut gates = Gates::new(Guards { source_rate_limit: 60, source_burst: 1, ..Guards::default() });
    let old = UnixMillis(NOW.0 - 7_200_000);
    let mut judge = |event: Event| {
        let delivered = Delivered { stored: old, ..delivered(SUBJECT, 1) };
        gates.judge(&delivered, read(event), NOW).unwrap_err().reason
    };
    assert_eq!(judge(Event { depth: 9, ..event("e", "x", json!({})) }), DropReason::Spoof);
    assert_eq!(judge(Event { depth: 9, ..sound() }), DropReason::Depth);
    assert_eq!(judge(sound()), DropReason::Stale, "the first has a token");
    assert_eq!(judge(sound()), DropReason::Ratelimit, "the second has none, and is stale too");
}

#[test]
#[rule("R-3")]
fn r3_what_comes_again_and_what_masters_say_is_not_limited() {
    let guards = Guards { source_rate_limit: 60, source_burst: 1, ..Guards::default() };
    let mut gates = Gates::new(guards);
    assert!(gates.judge(&delivered(SUBJECT, 1), read(sound()), NOW).is_ok());
    assert!(gates.judge(&delivered(SUBJECT, 2), read(sound()), NOW).is_err());
    let again = Delivered { deliveries: 2, ..delivered(SUBJECT, 1) };
    assert!(gates.judge(&again, read(sound()), NOW).is_ok());
    for sequence in 0..100 {
        let of_master = delivered("zester.event._master.deploy.done", sequence);
        assert!(gates.judge(&of_master, read(sound()), NOW).is_ok());
    }
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
