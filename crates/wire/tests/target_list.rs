//! A request that names its targets, signed without them (J-24).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod examples;

use zester_rule::rule;
use zester_wire::*;

fn names(count: usize) -> Vec<PeelId> {
    (0..count).map(|at| PeelId::parse(&format!("web-{at:05}")).unwrap()).collect()
}

fn sealed(request: &DispatchRequest) -> Envelope {
    let id = MessageId::parse("x").unwrap();
    Envelope::seal("zester.dispatch", id, UnixMillis(1), request, &Unsigned).unwrap()
}

#[test]
#[rule("J-24")]
fn j24_what_is_signed_names_a_digest_and_the_names_travel_beside_it() {
    let request = DispatchRequest { targets: names(4_000), ..examples::dispatch_request() };
    let envelope = sealed(&request);
    assert!(envelope.payload.len() < 1_000, "{}", envelope.payload.len());
    let read: DispatchRequest = envelope.open().unwrap();
    assert_eq!((&read.targets, &read.target_expr), (&request.targets, &request.target_expr));
    assert!(read.may_be_passed_on());
    let passed_on = envelope.passed_on();
    assert_eq!(passed_on.payload, sealed(&request).payload);
    let at_a_peel: DispatchRequest = passed_on.open().unwrap();
    assert_eq!(at_a_peel.targets, []);
    let digest = at_a_peel.target_digest.unwrap();
    let proof = TargetTree::new(&request.targets).proof(&request.targets[17]).unwrap();
    assert!(digest.names(&request.targets[17], &proof));
}

#[test]
#[rule("J-24")]
fn j24_names_that_were_not_signed_are_refused() {
    let mut envelope = sealed(&DispatchRequest { targets: names(3), ..examples::dispatch_request() });
    envelope.beside = sealed(&DispatchRequest { targets: names(4), ..examples::dispatch_request() }).beside;
    assert!(envelope.open::<DispatchRequest>().is_err());
}

#[test]
#[rule("J-24")]
fn j24_a_long_expression_travels_beside_too_and_a_short_one_within() {
    let long = DispatchRequest {
        targets: Vec::new(),
        target_expr: "web-* or ".repeat(500) + "db-*",
        ..examples::dispatch_request()
    };
    let envelope = sealed(&long);
    assert!(envelope.payload.len() < 1_000);
    assert_eq!(envelope.open::<DispatchRequest>().unwrap().target_expr, long.target_expr);
    assert!(long.recorded_expr().len() < 600);
    let short = DispatchRequest { target_expr: "web-*".into(), ..long };
    assert_eq!(sealed(&short).beside, Vec::<u8>::new());
}

#[test]
#[rule("J-24")]
fn j24_the_names_of_an_older_client_are_not_passed_on() {
    let old = encode(&DispatchRequest { targets: names(3), ..examples::dispatch_request() }).unwrap();
    let read: DispatchRequest = decode(&old).unwrap();
    assert_eq!(read.targets, names(3));
    assert!(!read.may_be_passed_on());
}
