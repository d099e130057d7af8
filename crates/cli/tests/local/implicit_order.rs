//! Directories that overlap, shared by many states without a requisite: the same result at every check and every fresh
//! apply (S-58), and contradictions that never reach a run (S-57).

use crate::scratch::Scratch;
use serde_json::Value as Json;
use std::fmt::Write;
use zester_rule::rule;

/// Fresh applies, and checks before each of them.
fn rounds() -> usize {
    if std::env::var_os("ZESTER_SOAK").is_some() { 1_000 } else { 25 }
}

/// Fifty states: directories inside directories, files above, beside and below them, links, removals, owners and modes
/// that differ, parents made on the way by several; not one requisite.
fn overlapping() -> String {
    let mut text = String::new();
    for top in 0..5 {
        let root = format!("@T@/machine/t{top}");
        for (id, body) in [
            (
                "leaf",
                format!("file.managed: [{{path: {root}/a/b/c/leaf}}, {{content: x}}, {{makedirs: true}}]"),
            ),
            (
                "other",
                format!(
                    "file.managed: [{{path: {root}/a/b/c/d/other}}, {{makedirs: true}}, {{dir_mode: '0700'}}]"
                ),
            ),
            (
                "plain",
                format!("file.managed: [{{path: {root}/a/b/plain}}, {{content: y}}, {{mode: '0600'}}]"),
            ),
            ("mid", format!("file.directory: [{{path: {root}/a/b}}, {{mode: '0711'}}, {{makedirs: true}}]")),
            ("low", format!("file.directory: [{{path: {root}/a/low/er}}, {{makedirs: true}}]")),
            ("lower", format!("file.directory: [{{path: {root}/a/low/est}}, {{makedirs: true}}]")),
            ("top", format!("file.directory: [{{path: {root}}}, {{mode: '0750'}}, {{makedirs: true}}]")),
            ("link", format!("file.symlink: [{{path: {root}/a/low/link}}, {{target: er}}]")),
            ("flag", format!("file.touch: [{{path: {root}/made/on/the/way}}, {{makedirs: true}}]")),
            ("gone", format!("file.absent: [{{path: {root}/made/on/nothing}}]")),
        ] {
            writeln!(text, "{id}-{top}: {{{body}}}").unwrap();
        }
    }
    text
}

/// What a run said of each state, without times.
fn essence(document: &Json) -> String {
    let mut document = document.clone();
    let map = document.as_object_mut().unwrap();
    map.remove("run_id");
    map.remove("total_duration_ms");
    for state in map.get_mut("states").unwrap().as_object_mut().unwrap().values_mut() {
        state.as_object_mut().unwrap().remove("duration_ms");
    }
    document.to_string()
}

/// Every path below a directory with its mode, a line each.
fn modes(scratch: &Scratch) -> String {
    let listed = std::process::Command::new("find")
        .args(["machine", "-printf", "%p %m %l\n"])
        .current_dir(scratch.root())
        .output()
        .unwrap();
    let mut lines: Vec<&str> = std::str::from_utf8(&listed.stdout).unwrap().lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

#[test]
#[rule("S-58", "S-30")]
fn s58_a_tree_of_overlapping_directories_gives_one_result_at_every_check_and_every_apply() {
    let scratch = Scratch::with(&overlapping());
    let mut seen: Option<[String; 3]> = None;
    for round in 0..rounds() {
        let check = scratch.json(&["check", "c"]);
        let apply = scratch.json(&["apply", "c"]);
        assert_eq!(apply["failed"], 0, "round {round}: {apply:#}");
        assert_eq!(apply["states"].as_object().unwrap().len(), 50);
        let found = [essence(&check), essence(&apply), modes(&scratch)];
        match &seen {
            None => seen = Some(found),
            Some(first) => assert_eq!(*first, found, "round {round} differs from the first"),
        }
        let again = scratch.json(&["check", "c"]);
        assert_eq!(again["changed"], 0, "round {round}: a second run would change something: {again:#}");
        std::fs::remove_dir_all(scratch.path("machine")).unwrap();
    }
}

#[test]
#[rule("S-57")]
fn s57_states_that_fight_over_a_path_are_refused_before_anything_runs() {
    let scratch = Scratch::with(
        "a: {file.managed: [{path: @T@/motd}, {content: A}]}\nb: {file.managed: [{path: @T@/motd}, {content: B}]}\n",
    );
    for command in [["lint", "states/c.zy"], ["apply", "c"], ["check", "c"]] {
        let done = scratch.zester(&command);
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        let said = format!("{}{}", done.stdout, done.stderr);
        assert!(said.contains("file.managed:a and file.managed:b want different things of"), "{said}");
        assert!(said.contains("states/c.zy:2:"), "{said}");
    }
    assert!(!scratch.path("motd").exists());
    // As Salt reads it: as declared, the later one wins, and a word about it.
    let text = scratch.read("states/c.zy").unwrap();
    std::fs::remove_file(scratch.path("states/c.zy")).unwrap();
    scratch.write("states/c.sls", &text);
    let done = scratch.zester(&["apply", "c"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(scratch.read("motd").as_deref(), Some("B"));
    assert!(done.stderr.contains("the later one wins"), "{}", done.stderr);
}

#[test]
#[rule("S-58")]
fn s58_graph_shows_what_comes_first_by_itself() {
    let scratch =
        Scratch::with("f: {file.managed: [{path: @T@/d/f}]}\nd: {file.directory: [{path: @T@/d}]}\n");
    let graph = scratch.json(&["graph", "c"]);
    assert_eq!(graph["levels"], serde_json::json!([["file.directory:d"], ["file.managed:f"]]));
    assert_eq!(graph["edges"][0]["kind"], "auto");
}

/// Whichever of the two waits for the other: the order is what the user wrote, so both run, and a word about it.
#[test]
#[rule("S-57")]
fn s57_states_that_a_requisite_orders_may_want_different_things() {
    for (first, second) in [(", {require: [{file: b}]}", ""), ("", ", {require: [{file: a}]}")] {
        let scratch = Scratch::with(&format!(
            "a: {{file.managed: [{{path: @T@/motd}}, {{content: A}}{first}]}}\nb: {{file.managed: [{{path: @T@/motd}}, {{content: B}}{second}]}}\n",
        ));
        let done = scratch.zester(&["apply", "c"]);
        assert_eq!(done.code, Some(0), "{first}{second}: {}", done.stderr);
        let lint = scratch.zester(&["lint", "states/c.zy"]);
        let said = format!("{}{}", lint.stdout, lint.stderr);
        assert!(said.contains("a requisite orders them"), "{said}");
        let last = if second.is_empty() { "A" } else { "B" };
        assert_eq!(scratch.read("motd").as_deref(), Some(last), "{first}{second}");
    }
}
