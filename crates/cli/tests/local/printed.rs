//! What people read: true, of a length that can be read, and nothing in it that steers their terminal.

use crate::scratch::Scratch;

#[test]
fn control_characters_of_ids_and_files_never_reach_the_terminal() {
    let scratch = Scratch::with(
        r#"
"a\e[2Jb\nc":
  file.managed: [{path: "@T@/f"}, {content: "x\e[2J\ty"}]
"#,
    );
    for words in [&["check", "c"][..], &["graph", "c"], &["apply", "c"], &["status"], &["revert", "c"]] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        assert!(done.stdout.contains(r"file.managed:a\x1b[2Jb\nc"), "{words:?}: {:?}", done.stdout);
        assert!(!done.stdout.contains('\x1b'), "{words:?}: {:?}", done.stdout);
    }
    let done = scratch.zester(&["apply", "c"]);
    assert!(done.stdout.contains("     +x\\x1b[2J\ty\n"), "{:?}", done.stdout);
    let name = "file.managed:a\x1b[2Jb\nc";
    assert_eq!(scratch.json(&["check", "c"])["states"][name]["name"], name, "a document keeps what is");
}

#[test]
fn an_undo_is_offered_only_where_the_run_left_one() {
    let scratch = Scratch::with(
        r#"
d:
  file.directory: [{path: "@T@/d"}, {check_cmd: "test -e @T@/ok"}]
"#,
    );
    let first = scratch.zester(&["apply", "c"]);
    assert!(first.code == Some(2) && first.stdout.contains("undo: zester revert --run"), "{}", first.stdout);
    scratch.write("ok", "");
    let second = scratch.zester(&["apply", "c"]);
    assert!(second.code == Some(0) && second.stdout.contains("1 changed"), "{}", second.stdout);
    assert!(!second.stdout.contains("undo:"), "{}", second.stdout);
}

#[test]
fn a_directory_is_no_reference_and_an_empty_tree_is_not_fine() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("empty")).unwrap();
    for directory in ["states/", "./states", "./", "/"] {
        for command in ["check", "apply"] {
            let done = scratch.zester(&[command, directory]);
            let said = done.stderr.contains("is a directory and no reference");
            assert!(done.code == Some(1) && said, "{command} {directory}: {}{}", done.stdout, done.stderr);
        }
    }
    let done = scratch.zester(&["check", ""]);
    assert!(done.code == Some(1) && done.stderr.contains("an empty word is no reference"), "{}", done.stderr);
    let done = scratch.zester(&["lint", "empty"]);
    assert!(done.code == Some(1) && done.stderr.contains("there is no state file below"), "{}", done.stderr);
    scratch.write("states/top.zy", "elsewhere: [web]\n");
    let done = scratch.zester(&["check", "--id", "here"]);
    assert!(done.code == Some(0) && done.stdout.contains("top.zy gives here no states"), "{}", done.stdout);
}

#[test]
fn status_names_a_state_that_is_not_in_place_on_one_line() {
    let scratch = Scratch::with("\"a\\nb\":\n  cmd.run: [{command: \"true\"}, {check_cmd: \"false\"}]\n");
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(2));
    let status = scratch.zester(&["status"]).stdout;
    assert!(status.contains("did not pass\n  cmd.run:a\\nb\n"), "{status}");
}

#[test]
fn status_names_a_few_of_what_one_run_did_and_every_run_of_the_journal() {
    let states: String = (0..13)
        .map(|at| format!("f{at}:\n  file.managed: [{{path: \"@T@/f{at}\"}}, {{content: x}}]\n"))
        .collect();
    let scratch = Scratch::with(&states);
    // Where its line should go is no file.
    std::fs::create_dir_all(scratch.path("data/history")).unwrap();
    let told = scratch.zester(&["apply", "c"]);
    assert!(told.stderr.contains("could not be added to the history"), "{}", told.stderr);
    std::fs::remove_dir(scratch.path("data/history")).unwrap();
    let status = scratch.zester(&["status"]).stdout;
    assert!(status.contains("  apply c  result not recorded\n      run "), "{status}");
    assert!(status.ends_with("      … and 3 more\n"), "{status}");
    let json = scratch.json(&["status"]);
    assert_eq!(json["revertible"].as_array().map(Vec::len), Some(13));
    assert_eq!(json["unlisted_runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(json["unlisted_runs"][0]["command"], "apply c");
    assert!(json["unlisted_runs"][0]["started_at"].as_u64().is_some_and(|at| at > 0), "{json}");
}
