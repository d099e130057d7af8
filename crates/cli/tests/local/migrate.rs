//! `zester migrate`: what of a Salt tree works as it is.

use crate::scratch::Scratch;
use zester_rule::rule;

fn tree() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("tree/salt/top.sls", "base:\n  '*': [web]\n");
    scratch.write("tree/salt/web.sls", "a:\n  test.nop: []\n");
    scratch.write(
        "tree/salt/late.sls",
        "b:\n  test.nop:\n    - listen:\n      - test: c\nc:\n  test.ping: []\n",
    );
    scratch
        .write("tree/salt/odd.sls", "d:\n  test.nop: []\ne:\n  nope.present:\n    - x: {{ pillar.port }}\n");
    scratch.write("tree/salt/_modules/own.py", "def x():\n    return 1\n");
    scratch.write("tree/pillar/top.sls", "base:\n  '*': [p]\n");
    scratch.write("tree/pillar/p.sls", "port: 80\n");
    scratch
}

#[test]
#[rule("S-56")]
fn s56_migrate_says_of_every_file_what_becomes_of_it() {
    let scratch = tree();
    let said = scratch.zester(&["migrate", "tree", "--format", "json"]);
    assert_eq!(said.code, Some(1), "a file needs a hand");
    let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let verdict = |path: &str| {
        let files = report["files"].as_array().unwrap();
        files
            .iter()
            .find(|file| file["path"] == path)
            .map(|file| file["verdict"].as_str().unwrap().to_string())
    };
    assert_eq!(verdict("web.sls").as_deref(), Some("ready"));
    assert_eq!(verdict("top.sls").as_deref(), Some("ready"));
    assert_eq!(verdict("late.sls").as_deref(), Some("ready with a difference"));
    assert_eq!(verdict("odd.sls").as_deref(), Some("needs a hand"));
    assert_eq!(verdict("_modules/own.py").as_deref(), Some("needs a hand"));
    assert_eq!(report["reasons"]["unknown_kind"], 1);
    assert_eq!(report["reasons"]["listen"], 1);
    let shown = scratch.zester(&["migrate", "tree"]).stdout;
    assert!(shown.contains("odd.sls:4:3"), "{shown}");
    assert!(shown.contains("late.sls:3:7"), "{shown}");
    let page = scratch.zester(&["migrate", "tree", "--format", "html"]).stdout;
    assert!(page.starts_with("<!doctype html>") && page.contains("needs a hand"), "{page}");
}

#[test]
#[rule("S-56")]
fn s56_a_tree_that_is_ready_ends_with_0_and_what_is_no_tree_is_said() {
    let scratch = Scratch::new();
    scratch.write("t/top.sls", "base:\n  '*': [web]\n");
    scratch.write("t/web.sls", "a:\n  test.nop: []\n");
    assert_eq!(scratch.zester(&["migrate", "t"]).code, Some(0));
    let none = scratch.zester(&["migrate", "nowhere"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stderr.contains("nowhere is no directory"), "{}", none.stderr);
}
