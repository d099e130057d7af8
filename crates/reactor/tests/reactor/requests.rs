//! From what a file says to the whole request that a master gets: no word of it is lost on the way.

use super::double::{data, event, node, passed};
use serde_json::{Value, json};
use std::time::Duration;
use zester_reactor::{Action, Passed, actions, dispatch_request};
use zester_rule::rule;
use zester_wire::{DispatchRequest, Event, Jid, Origin};

/// `dispatch_request` of the only block of a file, whose id is `b`.
fn requested(of: &Passed, action: &Value) -> DispatchRequest {
    let blocks = actions::read(&node(&json!({"b": action}))).unwrap();
    let Action::Dispatch(dispatch) = &blocks[0].action else { panic!("{action}") };
    dispatch_request(dispatch, of, "reactor.a", &blocks[0].id).unwrap()
}

/// A request that only the event decides; the jid is the one that `ids.rs` pins.
fn bare() -> DispatchRequest {
    DispatchRequest {
        v: 1,
        jid: Jid::parse("rxn-32356d6e07280043ba86eeb13d25c4ee").unwrap(),
        function: String::new(),
        args: data(json!({})),
        state_id: String::new(),
        targets: vec![],
        target_expr: String::new(),
        timeout: Duration::ZERO,
        user: "reactor:reactor.a".into(),
        metadata: data(json!({
            "source": "reactor", "rule": "reactor.a", "block": "b", "event_id": "e1", "event_tag": "deploy/done",
            "event_origin": "web-1", "reactor_depth": 2,
        })),
        positionals: vec![],
        test: false,
        wait: None,
        target_digest: None,
    }
}

/// What the request must say of the action; the event says the rest.
fn saying(function: &str, target: &str) -> DispatchRequest {
    DispatchRequest { function: function.into(), target_expr: target.into(), ..bare() }
}

#[test]
#[rule("R-6", "R-8")]
fn r6_every_word_of_an_action_reaches_the_request() {
    let of = passed(Event { depth: 1, ..event("e1", "deploy/done", json!({})) }, 7);
    let seconds = Duration::from_secs;
    let table = [
        (
            json!({"dispatch.module": {"target": "web*", "function": "test.ping"}}),
            saying("test.ping", "web*"),
        ),
        (
            json!({"dispatch.module": {
                "target": "os:Debian", "target_type": "grain", "function": "cmd.run",
                "args": {"cwd": "/", "env": {"A": [1, null]}}, "state_id": "true", "timeout": "5s", "max_targets": 3,
                "test": true,
            }}),
            DispatchRequest {
                args: data(json!({"cwd": "/", "env": {"A": [1, null]}})),
                state_id: "true".into(),
                timeout: seconds(5),
                test: true,
                ..saying("cmd.run", "G@os:Debian")
            },
        ),
        (
            json!({"dispatch.module": {"target": "a", "function": "test.echo", "args": ["x", 2, {"k": "v"}]}}),
            DispatchRequest {
                state_id: "x".into(),
                positionals: vec![json!(2), json!({"k": "v"})],
                ..saying("test.echo", "a")
            },
        ),
        (
            json!({"dispatch.module": {"target": "a", "function": "test.echo", "state_id": "s", "args": ["x", 2]}}),
            DispatchRequest {
                state_id: "s".into(),
                positionals: vec![json!("x"), json!(2)],
                ..saying("test.echo", "a")
            },
        ),
        (
            json!({"dispatch.state": {
                "target": ["a", "b"], "target_type": "list", "sls": ["web", "db"], "args": {"settings": {"k": 1}},
                "timeout": "2m", "max_targets": 2, "test": true,
            }}),
            DispatchRequest {
                args: data(json!({"settings": {"k": 1}})),
                state_id: "web".into(),
                positionals: vec![json!("db")],
                timeout: seconds(120),
                test: true,
                ..saying("state.apply", "L@a,b")
            },
        ),
        (
            json!({"dispatch.state": {"target": "a", "sls": "web"}}),
            DispatchRequest { state_id: "web".into(), ..saying("state.apply", "a") },
        ),
        (
            json!({"dispatch.state": {"target": "a", "highstate": true, "test": true}}),
            DispatchRequest { test: true, ..saying("state.highstate", "a") },
        ),
        (json!({"dispatch.state": {"target": "a", "highstate": true}}), saying("state.highstate", "a")),
        (
            json!({"local.service.restart": [
                {"tgt": "web[0-9]+"}, {"tgt_type": "pcre"}, {"arg": ["nginx"]}, {"kwarg": {"full": true}},
                {"timeout": 9},
            ]}),
            DispatchRequest {
                args: data(json!({"full": true})),
                state_id: "nginx".into(),
                timeout: seconds(9),
                ..saying("service.restart", "E@web[0-9]+")
            },
        ),
        (
            json!({"local.cmd.run": {"tgt": "a", "arg": "uptime"}}),
            DispatchRequest { state_id: "uptime".into(), ..saying("cmd.run", "a") },
        ),
    ];
    for (action, expected) in table {
        assert_eq!(requested(&of, &action), expected, "{action}");
    }
}

#[test]
#[rule("R-8")]
fn r8_each_part_of_the_cause_is_in_the_job() {
    let ping = json!({"dispatch.module": {"target": "a", "function": "test.ping"}});
    let of = passed(event("e1", "deploy/done", json!({})), 7);
    let first = requested(&of, &ping);
    assert_eq!(first.metadata["reactor_depth"], json!(1));
    for other in [
        Passed { origin: Origin::Admin, ..(*of).clone() },
        Passed { event: event("e2", "deploy/done", json!({})), ..(*of).clone() },
    ] {
        let second = requested(&other, &ping);
        assert_ne!(second.jid, first.jid);
        assert_eq!(second.metadata["event_id"], json!(other.event.id));
        assert_eq!(second.metadata["event_origin"], json!(other.origin.to_string()));
    }
    // The same event at another place of the stream is the same event.
    assert_eq!(requested(&Passed { sequence: 8, deliveries: 3, ..(*of).clone() }, &ping), first);
}
