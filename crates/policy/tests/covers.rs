//! An operator's own request behind what a master asks: word for word, and for this very peel.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Map, Value, json};
use std::time::Duration;
use zester_policy::covers;
use zester_rule::rule;
use zester_wire::{DispatchRequest, ExecRequest, Jid, PeelId, TargetDigest, TargetTree, VERSION};

fn jid(last: char) -> Jid {
    Jid::parse(&format!("2hPx2Kd8VnR7YmWqTz4PLsCfNj{last}")).unwrap()
}

fn peel(name: &str) -> PeelId {
    PeelId::parse(name).unwrap()
}

fn signed() -> DispatchRequest {
    DispatchRequest {
        v: VERSION,
        jid: jid('A'),
        function: "cmd.run".into(),
        args: Map::new(),
        state_id: "id".into(),
        targets: Vec::new(),
        target_expr: "web*".into(),
        timeout: Duration::from_secs(60),
        user: "ann".into(),
        metadata: Map::new(),
        positionals: vec![json!("x")],
        test: false,
        wait: None,
        target_digest: None,
    }
}

fn asked() -> ExecRequest {
    ExecRequest {
        v: VERSION,
        jid: jid('A'),
        function: "cmd.run".into(),
        args: Map::new(),
        state_id: "id".into(),
        dispatch_epoch: 1,
        budget: Duration::from_secs(60),
        user: "ann".into(),
        rdepth: 0,
        positionals: vec![json!("x")],
        test: false,
        direct: false,
        request: Vec::new(),
        proof: None,
    }
}

fn told(signed: &DispatchRequest, asked: &ExecRequest, me: &str) -> String {
    let facts = json!({"os": "Debian"});
    covers(signed, asked, &peel(me), &facts).map_or_else(|uncovered| uncovered.0, |()| "covered".into())
}

#[test]
#[rule("I-8")]
fn i8_a_master_cannot_change_a_word_of_what_an_operator_signed() {
    assert_eq!(told(&signed(), &asked(), "web-01"), "covered");
    let args: Map<String, Value> = Map::from_iter([("runas".to_string(), json!("root"))]);
    for other in [
        ExecRequest { function: "cmd.script".into(), ..asked() },
        ExecRequest { state_id: "rm -rf /".into(), ..asked() },
        ExecRequest { args, ..asked() },
        ExecRequest { positionals: Vec::new(), ..asked() },
        ExecRequest { test: true, ..asked() },
    ] {
        assert_eq!(told(&signed(), &other, "web-01"), "its operator signed other words");
    }
    // A dry run must not become an apply either.
    assert_eq!(
        told(&DispatchRequest { test: true, ..signed() }, &asked(), "web-01"),
        "its operator signed other words"
    );
    let other = ExecRequest { jid: jid('B'), ..asked() };
    assert_eq!(told(&signed(), &other, "web-01"), "what its operator signed is another job");
    let longer = ExecRequest { budget: Duration::from_secs(61), ..asked() };
    assert!(told(&signed(), &longer, "web-01").contains("more time"));
}

#[test]
#[rule("I-8", "J-24")]
fn j24_what_an_operator_signed_must_mean_this_peel() {
    let expression = |text: &str| DispatchRequest { target_expr: text.into(), ..signed() };
    for (text, me, covered) in [
        ("web*", "web-01", true),
        ("web*", "db-01", false),
        ("G@os:Debian", "db-01", true),
        ("G@os:Alpine", "db-01", false),
        ("I@role:web", "web-01", false),
        ("web* and (", "web-01", false),
        ("", "web-01", false),
    ] {
        assert_eq!(told(&expression(text), &asked(), me) == "covered", covered, "{text} {me}");
    }
    let names = ["web-01", "web-02", "db-01"].map(peel);
    let tree = TargetTree::new(&names);
    let listed =
        DispatchRequest { target_expr: String::new(), target_digest: Some(tree.digest()), ..signed() };
    for name in ["web-01", "db-01"] {
        let proven = ExecRequest { proof: tree.proof(&peel(name)), ..asked() };
        assert_eq!(told(&listed, &proven, name), "covered");
        assert!(told(&listed, &proven, "web-09").contains("does not name this peel"), "the proof of another");
    }
    assert!(told(&listed, &asked(), "web-01").contains("nothing proves"));
    let long = DispatchRequest { target_digest: Some(TargetDigest::of_expression("web*")), ..expression("") };
    assert!(told(&long, &asked(), "web-01").contains("too long to travel along"));
}
