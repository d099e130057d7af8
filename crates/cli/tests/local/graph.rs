//! `zester graph` in its formats.

use crate::scratch::Scratch;
use serde_json::json;
use zester_rule::rule;

const STATES: &str = "conf:\n  file.managed: [{path: \"@T@/conf\"}, {content: x}]\nrestart:\n  cmd.run:\n    - command: echo \"<&>\"\n    - watch: [{file: conf}]\nlast:\n  test.nop: [{onfail: [cmd: restart]}]\n";

#[test]
#[rule("S-21")]
fn s21_json_shows_levels_and_each_edges_kind() {
    let graph = Scratch::with(STATES).json(&["graph", "c"]);
    assert_eq!(graph["levels"], json!([["file.managed:conf"], ["cmd.run:restart"], ["test.nop:last"]]));
    let wanted = json!([
        {"from": "file.managed:conf", "to": "cmd.run:restart", "kind": "watch"},
        {"from": "cmd.run:restart", "to": "test.nop:last", "kind": "onfail"},
    ]);
    assert_eq!(graph["edges"], wanted);
}

#[test]
#[rule("S-40")]
fn s40_ordered_files_have_order_edges() {
    let scratch = Scratch::with("#!ordered\nz:\n  test.nop: []\na:\n  test.nop: []\n");
    let graph = scratch.json(&["graph", "c"]);
    assert_eq!(graph["levels"], json!([["test.nop:z"], ["test.nop:a"]]));
    assert_eq!(graph["edges"][0]["kind"], "order");
    scratch.write("states/c.zy", "z:\n  test.nop: []\na:\n  test.nop: []\n");
    assert_eq!(scratch.json(&["graph", "c"])["levels"].as_array().unwrap().len(), 1);
    assert_eq!(scratch.json(&["graph", "c", "--ordered"])["levels"].as_array().unwrap().len(), 2);
}

#[test]
fn text_and_dot_name_every_state() {
    let scratch = Scratch::with(STATES);
    for format in ["text", "dot"] {
        let shown = scratch.zester(&["graph", "c", "--format", format]).stdout;
        for name in ["file.managed:conf", "cmd.run:restart", "test.nop:last", "watch", "onfail"] {
            assert!(shown.contains(name), "{format}: {name} is missing from\n{shown}");
        }
    }
}

#[test]
#[rule("S-10")]
fn s10_graph_does_not_run_commands_from_templates() {
    let scratch = Scratch::with("{% set x = salt['cmd.run']('touch @T@/ran') %}\na:\n  test.nop: []\n");
    for verb in ["graph", "lint"] {
        assert_eq!(scratch.zester(&[verb, "states/c.zy"]).code, Some(1), "{verb}");
    }
    assert!(!scratch.path("ran").exists());
    assert_eq!(scratch.zester(&["check", "c"]).code, Some(0));
    assert!(scratch.path("ran").exists());
}
