//! Rendered files to validated actions.

use super::double::{data, node};
use serde_json::{Value, json};
use std::time::Duration;
use zester_reactor::actions::{Dispatch, EnrollVerb, LogLevel, read};
use zester_reactor::{Action, Block};
use zester_rule::rule;

fn one(action: Value) -> Action {
    let blocks = read(&node(&json!({"b": action}))).unwrap();
    let [Block { id, action }] = <[Block; 1]>::try_from(blocks).unwrap();
    assert_eq!(id, "b");
    action
}

fn dispatch(action: Value) -> Dispatch {
    match one(action) {
        Action::Dispatch(dispatch) => dispatch,
        other => panic!("{other:?}"),
    }
}

fn told(rendered: &Value) -> String {
    let problems = read(&node(rendered)).unwrap_err();
    let sentence = |one: &zester_model::diagnostic::Diagnostic| {
        format!("{}; {}", one.message, one.hint.clone().unwrap_or_default())
    };
    problems.iter().map(sentence).collect::<Vec<_>>().join("\n")
}

#[test]
#[rule("R-6")]
fn r6_every_action_is_read() {
    let module = dispatch(json!({"dispatch.module": {
        "target": "web*", "function": "cmd.run", "args": {"cwd": "/"}, "state_id": "true", "timeout": "5s", "max_targets": 3,
    }}));
    assert_eq!((module.target.as_str(), module.function.as_str()), ("web*", "cmd.run"));
    assert_eq!((module.state_id.as_str(), module.max_targets), ("true", Some(3)));
    assert_eq!((module.timeout, module.args), (Duration::from_secs(5), data(json!({"cwd": "/"}))));
    let listed =
        dispatch(json!({"dispatch.module": {"target": "a", "function": "test.echo", "args": ["x", 2]}}));
    assert_eq!((listed.state_id.as_str(), listed.positionals), ("x", vec![json!(2)]));
    let states = dispatch(json!({"dispatch.state": {"target": "a", "sls": ["web", "db"], "test": true}}));
    assert_eq!(
        (states.function.as_str(), states.state_id.as_str(), states.test),
        ("state.apply", "web", true)
    );
    assert_eq!(states.positionals, [json!("db")]);
    let high = dispatch(json!({"dispatch.state": {"target": "a", "highstate": true}}));
    assert_eq!((high.function.as_str(), high.state_id.as_str()), ("state.highstate", ""));
    let salt = dispatch(json!({"local.service.restart": [
        {"tgt": ["a", "b"]}, {"tgt_type": "list"}, {"arg": ["nginx"]}, {"kwarg": {"x": 1}}, {"timeout": 9},
    ]}));
    assert_eq!((salt.target.as_str(), salt.function.as_str()), ("L@a,b", "service.restart"));
    assert_eq!((salt.state_id.as_str(), salt.timeout), ("nginx", Duration::from_secs(9)));
    let sent = one(json!({"event.send": {"tag": "deploy/next", "data": {"n": 1}}}));
    assert!(matches!(sent, Action::Send { tag, .. } if tag.as_str() == "deploy/next"));
    let logged = one(json!({"log": {"message": "hi\nthere", "level": "warning"}}));
    assert_eq!(logged, Action::Log { level: LogLevel::Warning, message: "hi there".into() });
    assert_eq!(one(json!({"log": "hi"})), Action::Log { level: LogLevel::Info, message: "hi".into() });
    for (word, verb) in
        [("approve", EnrollVerb::Approve), ("reject", EnrollVerb::Reject), ("revoke", EnrollVerb::Revoke)]
    {
        let key = format!("enroll.{word}");
        let read = one(json!({key: {"id": "enr-1", "require_peel": "web-*", "reason": "known"}}));
        assert!(matches!(read, Action::Enroll(enroll) if enroll.verb == verb && enroll.id == "enr-1"));
    }
}

#[test]
#[rule("R-5")]
fn r5_nothing_is_fine() {
    assert_eq!(read(&node(&Value::Null)), Ok(vec![]));
    assert_eq!(read(&node(&json!({}))), Ok(vec![]));
}

#[test]
#[rule("R-5", "R-6")]
fn r6_what_is_wrong_is_refused_with_a_way_out() {
    let module = |over: Value| {
        let mut base = data(json!({"target": "a", "function": "test.ping"}));
        base.extend(data(over));
        json!({"b": {"dispatch.module": base}})
    };
    for (rendered, words) in [
        (json!(["x"]), "expected blocks"),
        (json!({"b": {}}), "exactly one action, `b` has none"),
        (json!({"b": {"log": "x", "event.send": {"tag": "y"}}}), "give each a block of its own"),
        (json!({"b": {"dispatch.modul": {}}}), "did you mean `dispatch.module`?"),
        (json!({"b": {"runner.state.orch": {}}}), "`runner` is Salt's"),
        (json!({"b": {"dispatch.module": {"function": "test.ping"}}}), "`target` is missing"),
        (json!({"b": {"dispatch.module": {"target": "a"}}}), "`function` is missing"),
        (module(json!({"functoin": "x"})), "did you mean `function`?"),
        (module(json!({"zzz": "x"})), "the keys are `target`"),
        (module(json!({"function": "cmd.run; rm"})), "is no function"),
        (module(json!({"function": "cmd"})), "is no function"),
        (module(json!({"function": "Cmd.Run"})), "is no function"),
        (module(json!({"function": "a.b.c"})), "is no function"),
        (module(json!({"target": "web["})), "no target"),
        (module(json!({"target": "a or b"})), "target_type: compound"),
        (module(json!({"target_type": "nodegroup"})), "only Salt has"),
        (module(json!({"args": "x"})), "a map of parameters or a list"),
        (module(json!({"max_targets": "many"})), "a number of peels"),
        (module(json!({"timeout": "soon"})), "is not a duration"),
        (json!({"b": {"dispatch.state": {"target": "a"}}}), "`sls` is missing"),
        (
            json!({"b": {"dispatch.state": {"target": "a", "sls": "x", "highstate": true}}}),
            "write one of them",
        ),
        (json!({"b": {"local.cmd.run": {"tgt": "a", "arg": ["x", "y"]}}}), "`arg` is one value"),
        (json!({"b": {"local.cmd.run": [{"tgt": "a"}, {"tgt": "b"}]}}), "given twice"),
        (json!({"b": {"enroll.approve": {"id": "x"}}}), "`require_peel` is missing"),
        (json!({"b": {"enroll.approve": {"id": "x", "require_peel": "a["}}}), "is not a glob"),
        (json!({"b": {"event.send": {"tag": "a b"}}}), "not a event tag"),
        (json!({"b": {"event.send": {"tag": "x", "data": [1]}}}), "`data` is a map"),
        (json!({"b": {"log": {"message": "x", "level": "loud"}}}), "is no level"),
    ] {
        let told = told(&rendered);
        assert!(told.contains(words), "{rendered}: {told}");
    }
}

#[test]
#[rule("R-5")]
fn r5_one_bad_block_takes_the_whole_file() {
    let told = told(&json!({"good": {"log": "x"}, "bad": {"nothing": 1}}));
    assert!(told.contains("`nothing` is no action"), "{told}");
}
