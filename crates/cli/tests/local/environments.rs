//! Environments of the top file, and the functions that show what would run.

use crate::scratch::Scratch;
use serde_json::json;
use zester_rule::rule;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("states/top.zy", "base:\n  '*': [base]\nprod:\n  '*': [prod]\n");
    scratch.write("states/base.zy", "'@T@/base':\n  file.managed:\n    - content: base\n");
    scratch.write("states/prod.zy", "'@T@/prod':\n  file.managed:\n    - content: {{ saltenv }}\n");
    scratch
}

#[test]
#[rule("S-8", "C-8")]
fn s8_an_environment_is_chosen_by_flag_word_or_configuration() {
    let scratch = scratch();
    scratch.write("c.yaml", "env: prod\n");
    let (base, prod) = (scratch.fill("file.managed:@T@/base"), scratch.fill("file.managed:@T@/prod"));
    for (words, name) in [
        (&["check"][..], &base),
        (&["check", "--env", "prod"], &prod),
        (&["check", "saltenv=prod"], &prod),
        (&["apply", "--test", "--env=prod", "saltenv=prod"], &prod),
        (&["call", "state.highstate", "--test", "saltenv=prod"], &prod),
        (&["call", "state.apply", "test=True", "--env", "prod"], &prod),
        (&["check", "--config", "@T@/c.yaml"], &prod),
        (&["check", "--config", "@T@/c.yaml", "--env", "base"], &base),
        (&["check", "--set", "env=prod"], &prod),
    ] {
        let result = scratch.json(words);
        let names: Vec<&String> = result["states"].as_object().unwrap().keys().collect();
        assert_eq!(names, [name], "{words:?}");
    }
    assert!(!scratch.path("base").exists() && !scratch.path("prod").exists());
    let graph = scratch.json(&["graph", "--env", "prod"]);
    assert_eq!(graph["levels"], json!([[prod]]));
    assert_eq!(scratch.json(&["apply", "--env", "prod"])["changed"], 1);
    assert_eq!(scratch.read("prod").as_deref(), Some("prod"));
    let status = scratch.zester(&["status"]);
    assert!(status.stdout.contains("highstate in prod"), "{}", status.stdout);
}

#[test]
#[rule("S-8", "C-7")]
fn s8_an_environment_that_does_not_exist_is_told_with_those_that_do() {
    let scratch = scratch();
    for words in [
        &["apply", "--env", "prdo"][..],
        &["apply", "base", "--env", "prdo"],
        &["call", "state.show_top", "saltenv=prdo"],
    ] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(1), "{words:?}");
        for wanted in ["there is no environment `prdo`", "states/top.zy:1:1", "it has `base`, `prod`"] {
            assert!(done.stderr.contains(wanted), "{words:?}: {}", done.stderr);
        }
    }
    let twice = scratch.zester(&["apply", "--env", "prod", "saltenv=base"]);
    assert_eq!(twice.code, Some(1));
    assert!(twice.stderr.contains("the environment is given twice"), "{}", twice.stderr);
    assert!(!scratch.path("base").exists() && !scratch.path("prod").exists());
}

#[test]
#[rule("C-12", "S-45")]
fn c12_what_would_run_is_shown_and_runs_nothing() {
    let scratch = scratch();
    assert_eq!(scratch.json(&["call", "state.show_top"]), json!({"base": ["base"], "prod": ["prod"]}));
    assert_eq!(scratch.json(&["call", "state.show_top", "--env", "prod"]), json!({"prod": ["prod"]}));
    let text = scratch.zester(&["call", "state.show_top"]).stdout;
    assert_eq!(text, "base:\n  - base\nprod:\n  - prod\n");
    let name = scratch.fill("file.managed:@T@/prod");
    for words in [
        &["call", "state.show_sls", "prod", "saltenv=prod"][..],
        &["call", "state.show_highstate", "--env", "prod"],
        &["call", "state.show_highstate", "--env", "prod", "--test"],
    ] {
        let shown = scratch.json(words);
        assert_eq!(shown[&name]["params"]["content"], "prod", "{words:?}: {shown}");
        assert_eq!(shown[&name]["place"], "states/prod.zy:2:3", "{words:?}");
    }
    assert!(!scratch.path("prod").exists() && !scratch.path("data").exists());
    let missing = scratch.zester(&["call", "state.show_sls"]);
    assert!(
        missing.code == Some(1) && missing.stderr.contains("the references are missing"),
        "{}",
        missing.stderr
    );
}

#[test]
#[rule("C-12")]
fn c12_one_id_and_one_state_run_alone() {
    let scratch = Scratch::with(
        "a:\n  file.managed: [{path: '@T@/a'}, {content: x}]\n\
         b:\n  file.managed: [{path: '@T@/b'}, {content: x}, {require: [{file: a}]}]\n\
         d:\n  file.managed: [{path: '@T@/d'}, {content: x}]\n",
    );
    let there = || ["a", "b", "d"].map(|name| scratch.path(name).exists());
    assert_eq!(scratch.json(&["call", "state.sls_id", "b", "c", "--test"])["changed"], 2);
    assert_eq!(there(), [false; 3]);
    assert_eq!(scratch.json(&["call", "state.sls_id", "b", "c"])["changed"], 2);
    assert_eq!(there(), [true, true, false]);
    let wrong = scratch.zester(&["call", "state.sls_id", "bb", "c"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("no state has the id `bb`"), "{}", wrong.stderr);
    let words = ["call", "state.single", "file.managed", "name=@T@/s", "content=1.10"];
    assert_eq!(scratch.json(&[&words[..], &["test=True"]].concat())["changed"], 1);
    assert!(!scratch.path("s").exists());
    assert_eq!(scratch.json(&words)["changed"], 1);
    assert_eq!(scratch.read("s").as_deref(), Some("1.10"));
}
