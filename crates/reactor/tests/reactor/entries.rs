//! What the ledger keeps of a decision or a drop: all of it, in bounded texts.

use super::double::{NOW, event, passed};
use serde_json::json;
use zester_reactor::limits::{EVENT_ID_BYTES_MAX, REASON_BYTES_MAX};
use zester_reactor::{Cause, Decided, Decision, Delivered, Gates, Guards, Payload};
use zester_rule::rule;
use zester_wire::{Event, LedgerEntry};

/// One byte, and then letters of two: no limit falls between two of them.
fn long() -> String {
    format!("x{}", "é".repeat(2_000))
}

#[test]
#[rule("R-22")]
fn r22_an_entry_says_all_of_a_decision() {
    let of = passed(Event { depth: 2, ..event("e1", "deploy/done", json!({})) }, 7);
    let cause = Cause { origin: &of.origin, event_id: "e1", rule: "reactor.a", block: "b" };
    let (jid, event_sent) = (cause.jid().ok(), cause.event());
    let decided = Decided {
        jid: jid.clone(),
        event_sent: event_sent.clone(),
        ..Decided::new("reactor.a", "b", Decision::Dispatched, "to 3 peels")
    };
    let expected = LedgerEntry {
        v: 1,
        at: NOW,
        origin: "web-1".into(),
        tag: "deploy/done".into(),
        event_id: "e1".into(),
        sequence: 7,
        depth: 2,
        rule: "reactor.a".into(),
        block: "b".into(),
        decision: "dispatched".into(),
        reason: "to 3 peels".into(),
        jid,
        event_sent,
        master: "m1".into(),
        unwritten: 0,
    };
    assert_eq!(decided.entry(&of, "m1", NOW), expected);
}

#[test]
#[rule("R-22")]
fn r22_an_entry_says_all_of_a_drop() {
    let mut gates = Gates::new(Guards::default());
    let mut dropped = |subject: &str, payload| {
        let delivered = Delivered { subject, sequence: 9, stored: NOW, deliveries: 1 };
        gates.judge(&delivered, |_| payload, NOW).unwrap_err().entry("m1", NOW, 4)
    };
    let base = LedgerEntry {
        v: 1,
        at: NOW,
        sequence: 9,
        master: "m1".into(),
        unwritten: 4,
        ..LedgerEntry::default()
    };
    let deep = Event { depth: 8, ..event("e1", "x", json!({})) };
    let expected = LedgerEntry {
        origin: "web-1".into(),
        tag: "x".into(),
        event_id: "e1".into(),
        depth: 8,
        decision: "depth".into(),
        reason: "depth 8 of at most 3".into(),
        ..base.clone()
    };
    assert_eq!(dropped("zester.event.web-1.send.x", Payload::Read { event: deep, signed: NOW }), expected);
    let expected = LedgerEntry {
        origin: "_admin".into(),
        tag: "x".into(),
        decision: "decode".into(),
        reason: "garbage".into(),
        ..base.clone()
    };
    assert_eq!(dropped("zester.event._admin.send.x", Payload::Unreadable("garbage".into())), expected);
    // A subject that names nobody.
    let nobody = dropped("zester.event._other.send.x", Payload::Unreadable(String::new()));
    assert_eq!((nobody.origin.as_str(), nobody.tag.as_str()), (zester_wire::ledger::NO_ORIGIN, ""));
    assert_eq!(nobody.decision, "malformed");
}

#[test]
#[rule("R-22")]
fn r22_no_stranger_makes_an_entry_long() {
    let of = passed(event("e1", "x", json!({})), 1);
    let entry = Decided::new("reactor.a", "b", Decision::RenderError, long()).entry(&of, "m1", NOW);
    // Cut before the letter that the limit would split.
    assert_eq!(entry.reason, long()[..REASON_BYTES_MAX - 1]);
    let mut gates = Gates::new(Guards::default());
    let mut dropped = |payload| {
        let delivered =
            Delivered { subject: "zester.event.web-1.send.x", sequence: 9, stored: NOW, deliveries: 1 };
        gates.judge(&delivered, |_| payload, NOW).unwrap_err().entry("m1", NOW, 0)
    };
    assert_eq!(dropped(Payload::Forged(long())).reason, long()[..REASON_BYTES_MAX - 1]);
    let deep = Event { depth: 8, ..event(&long(), "x", json!({})) };
    let entry = dropped(Payload::Read { event: deep, signed: NOW });
    assert_eq!(entry.event_id, long()[..EVENT_ID_BYTES_MAX - 1]);
}
