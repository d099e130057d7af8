//! What strangers may send: garbage, halves, too much, newer releases. Nothing panics and every error says where.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod examples;

use examples::{Visit, each};
use proptest::prelude::*;
use serde_json::json;
use zester_rule::rule;
use zester_wire::limits::MESSAGE_BYTES_MAX;
use zester_wire::*;

fn pack(value: serde_json::Value) -> Vec<u8> {
    rmp_serde::to_vec_named(&value).unwrap()
}

#[test]
fn an_error_names_the_message_and_the_field() {
    let bytes = pack(
        json!({"v": 1, "jid": examples::JID, "function": "x.y", "owner": "m1.b", "targets": ["ok", "no.good"]}),
    );
    let error = decode::<Job>(&bytes).unwrap_err();
    assert_eq!((error.kind, error.message), (DecodeKind::Malformed, "job record"));
    assert!(error.to_string().contains("not a peel id"), "{error}");
    let bytes = pack(json!({"jid": examples::JID, "peel": "web-01", "dispatch_epoch": "one"}));
    let error = decode::<Ack>(&bytes).unwrap_err();
    assert_eq!(error.field, "dispatch_epoch");
    assert!(error.to_string().starts_with("not a readable ack: field dispatch_epoch: "), "{error}");
    let bytes = pack(json!({"jid": examples::JID, "peel": "web-01"}));
    assert!(decode::<Ack>(&bytes).unwrap_err().to_string().contains("dispatch_epoch"));
}

#[test]
fn an_error_repeats_little_and_nothing_that_moves_a_cursor() {
    let long = format!("\u{1b}[2J{}", "x".repeat(5000));
    let bytes = pack(json!({"jid": examples::JID, "peel": "web-01", "dispatch_epoch": long}));
    let text = decode::<Ack>(&bytes).unwrap_err().to_string();
    assert!(text.len() < 400 && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn trailing_bytes_and_oversize_are_refused() {
    let mut bytes = encode(&examples::returned()).unwrap();
    bytes.push(0xc0);
    assert_eq!(decode::<Return>(&bytes).unwrap_err().kind, DecodeKind::Trailing);
    let large = vec![0xc0; MESSAGE_BYTES_MAX + 1];
    assert_eq!(decode::<Return>(&large).unwrap_err().kind, DecodeKind::TooLarge);
    let mut wide = examples::returned();
    wide.answer = json!("x".repeat(MESSAGE_BYTES_MAX));
    assert!(encode(&wide).is_err());
}

#[test]
fn nesting_is_bounded_also_in_what_is_ignored() {
    let mut deep = vec![0x91; 200_000];
    deep.push(0xc0);
    let mut bytes = vec![0x81, 0xa1, b'z'];
    bytes.extend(&deep);
    assert!(decode::<Ack>(&bytes).is_err());
    assert!(decode::<Job>(&bytes).is_err());
    assert!(decode::<PeelCommand>(&bytes).is_err());
    assert!(decode::<Return>(&deep).is_err());
}

#[test]
fn a_length_that_lies_costs_nothing() {
    for header in
        [[0xdd, 0xff, 0xff, 0xff, 0xff], [0xdf, 0xff, 0xff, 0xff, 0xff], [0xc6, 0xff, 0xff, 0xff, 0xff]]
    {
        assert!(decode::<Envelope>(&header).is_err());
        assert!(decode::<Job>(&header).is_err());
    }
}

#[test]
fn a_newer_writer_is_read() {
    let bytes = pack(
        json!({"v": 9, "jid": examples::JID, "peel": "web-01", "dispatch_epoch": 1, "colour": {"a": [1]}}),
    );
    assert_eq!(decode::<Ack>(&bytes).unwrap().v, 9);
    let bytes = pack(json!({"t": "freeze", "jid": 7, "for": [1, 2]}));
    assert_eq!(decode::<PeelCommand>(&bytes).unwrap(), PeelCommand::Unknown);
    let bytes = pack(json!({"verb": "bake", "id": "x"}));
    assert_eq!(decode::<AdminRequest>(&bytes).unwrap(), AdminRequest::Unknown);
    let bytes = pack(json!({"jid": examples::JID, "event": {"type": "paused", "by": "bob"}}));
    assert_eq!(decode::<JobEvent>(&bytes).unwrap().event, JobEventKind::Unknown);
    let bytes = pack(json!({"jid": examples::JID, "function": "a.b", "owner": "m1.b", "status": "paused"}));
    assert_eq!(decode::<Job>(&bytes).unwrap().status, JobStatus::Unknown);
    let bytes = pack(
        json!({"jid": examples::JID, "peel": "a", "dispatch_epoch": 1, "success": true, "cause": "bored"}),
    );
    assert_eq!(decode::<Return>(&bytes).unwrap().cause, Cause::Unknown);
}

#[test]
fn a_dispatch_request_may_be_a_whole_job_record() {
    let job = examples::job();
    let request: DispatchRequest = decode(&encode(&job).unwrap()).unwrap();
    assert_eq!(request, examples::dispatch_request());
    assert!(request.is_intent_of(&job));
}

#[test]
#[rule("J-3")]
fn j3_an_intent_is_the_same_only_if_all_of_it_is() {
    let (job, request) = (examples::job(), examples::dispatch_request());
    let by_expression = DispatchRequest { targets: Vec::new(), ..request.clone() };
    assert!(by_expression.is_intent_of(&job));
    for other in [
        DispatchRequest { function: "test.ping".into(), ..request.clone() },
        DispatchRequest { state_id: "db".into(), ..request.clone() },
        DispatchRequest { args: Default::default(), ..request.clone() },
        DispatchRequest { targets: vec![examples::peel()], ..request.clone() },
        DispatchRequest { target_expr: "*".into(), ..request.clone() },
        DispatchRequest { test: false, ..request.clone() },
        DispatchRequest { user: "bob".into(), ..request.clone() },
    ] {
        assert!(!other.is_intent_of(&job), "{other:?}");
    }
}

#[test]
#[rule("J-4")]
fn j4_no_timeout_is_60_seconds_and_a_zero_deadline_is_created_plus_timeout() {
    let mut job = examples::job();
    job.timeout = std::time::Duration::ZERO;
    job.deadline = UnixMillis(0);
    assert_eq!(job.deadline(), UnixMillis(job.created.0 + 60_000));
    job.timeout = std::time::Duration::from_secs(5);
    assert_eq!(job.deadline(), UnixMillis(job.created.0 + 5_000));
    job.deadline = UnixMillis(7);
    assert_eq!(job.deadline(), UnixMillis(7));
}

#[test]
#[rule("J-16")]
fn j16_a_large_result_is_cut_per_field_with_a_marker() {
    let mut big = examples::returned();
    big.truncated = false;
    big.answer = json!({"states": {"a": {"diff": "ä".repeat(300_000), "name": "a"}, "b": {"diff": "small"}}});
    let fits = big.clone().fit(100_000);
    assert!(fits.truncated && encode(&fits).unwrap().len() <= 100_000);
    assert_eq!(fits.answer["states"]["b"]["diff"], "small");
    assert_eq!(fits.answer["states"]["a"]["name"], "a");
    let diff = fits.answer["states"]["a"]["diff"].as_str().unwrap();
    assert!(diff.starts_with("ää") && diff.ends_with("bytes more]"), "{}", &diff[diff.len() - 60..]);
    // Too many small fields: the answer says what is gone.
    big.answer = json!((0..50_000).collect::<Vec<u32>>());
    let fits = big.clone().fit(10_000);
    assert!(fits.truncated && encode(&fits).unwrap().len() <= 10_000);
    assert!(fits.answer.as_str().unwrap().starts_with("[truncated"));
    let small = examples::returned();
    assert_eq!(small.clone().fit(10_000), small);
}

/// Every prefix of every type is refused.
struct Halves;

impl Visit for Halves {
    fn one<T: Message + PartialEq + std::fmt::Debug>(&mut self, name: &str, example: T) {
        let bytes = encode(&example).unwrap();
        for end in 0..bytes.len() {
            assert!(decode::<T>(&bytes[..end]).is_err(), "{name} of {end} bytes");
        }
    }
}

#[test]
fn half_a_message_is_none() {
    each(&mut Halves);
}

/// Every type meets the same hostile bytes.
struct Hostile<'a>(&'a [u8], usize);

impl Visit for Hostile<'_> {
    fn one<T: Message + PartialEq + std::fmt::Debug>(&mut self, _: &str, example: T) {
        if let Err(error) = decode::<T>(self.0) {
            assert!(error.to_string().contains(T::NAME));
        }
        let mut spoiled = encode(&example).unwrap();
        for (index, byte) in self.0.iter().take(4).enumerate() {
            let at = (self.1 + index * 31) % spoiled.len();
            spoiled[at] = *byte;
        }
        let _ = decode::<T>(&spoiled);
    }
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), at: usize) {
        each(&mut Hostile(&bytes, at % 10_000));
    }
}
