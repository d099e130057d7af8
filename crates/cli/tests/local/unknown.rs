//! What a dry run cannot know, it says (S-44).

use crate::scratch::Scratch;
use zester_rule::rule;

/// A command stands for whatever nobody can predict: it makes a directory, a file and a program.
const STATES: &str = r#"
install:
  cmd.run:
    - command: mkdir @T@/app && echo x > @T@/app/sample && printf '#!/bin/sh\n' > @T@/app/tool && chmod +x @T@/app/tool && touch @T@/app/junk
    - creates: @T@/app/done
conf:
  file.managed:
    - path: @T@/app/conf
    - content: x
    - require: [{cmd: install}]
copy:
  file.managed:
    - path: @T@/copy
    - source: @T@/app/sample
    - require: [{cmd: install}]
gone:
  file.absent:
    - path: @T@/app/junk
    - require: [{cmd: install}]
guarded:
  test.succeed_with_changes:
    - onlyif: "@T@/app/tool"
    - require: [{cmd: install}]
other:
  test.succeed_with_changes: []
unrelated:
  file.directory:
    - path: @T@/app/plugins
    - require: [{test: other}]
told:
  cmd.run:
    - command: echo told >> @T@/log
    - refresh_only: true
    - watch: [{file: conf}]
"#;

#[test]
#[rule("S-44")]
fn s44_what_a_command_may_bring_is_unknown_and_not_missing() {
    let scratch = Scratch::with(STATES);
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(0), Some(5)), "{check}");
    assert_eq!(check["changed"], 8, "{check}");
    for name in ["file.managed:conf", "file.managed:copy", "file.absent:gone", "file.directory:unrelated"] {
        let state = &check["states"][name];
        assert_eq!(
            (&state["changed"], &state["details"]["unknown"]),
            (&true.into(), &true.into()),
            "{state}"
        );
        assert_eq!(state["diff"], "would change; known only after cmd.run:install has run", "{state}");
    }
    assert_eq!(check["states"]["test.succeed_with_changes:guarded"]["details"]["unknown"], true);
    assert_eq!(
        check["states"]["cmd.run:told"]["details"]["forced"], "watch",
        "dependents treat it as a change"
    );
    let text = scratch.zester(&["check", "c"]).stdout;
    assert!(text.contains("3 would change  5 unknown"), "{text}");
    let apply = scratch.json(&["apply", "c"]);
    assert_eq!((apply["failed"].as_u64(), apply["changed"].as_u64()), (Some(0), Some(8)), "{apply}");
}

#[test]
#[rule("S-44")]
fn s44_what_is_found_is_known_and_what_nobody_brings_fails() {
    let scratch = Scratch::with(STATES);
    assert_eq!(scratch.json(&["apply", "c"])["failed"], 0);
    let check = scratch.json(&["check", "c"]);
    // The command would run again, as its `creates` was never made; only what is not there depends on it, and what a shell
    // will say by then.
    assert_eq!((check["unknown"].as_u64(), check["failed"].as_u64()), (Some(2), Some(0)), "{check}");
    assert_eq!(check["states"]["test.succeed_with_changes:guarded"]["details"]["unknown"], true);
    assert_eq!(check["states"]["file.managed:conf"]["changed"], false);
    assert_eq!(check["states"]["file.absent:gone"]["details"]["unknown"], true);
    scratch.write("app/done", "");
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["unknown"].as_u64(), check["failed"].as_u64()), (Some(0), Some(0)), "{check}");
    scratch.write("states/c.zy", "a:\n  test.succeed_with_changes: []\nb:\n  file.managed:\n    - path: @T@/no/file\n    - require: [{test: a}]\n");
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(1), Some(0)), "{check}");
}

#[test]
#[rule("S-44")]
fn s44_what_runs_beside_a_state_brings_it_nothing() {
    let scratch = Scratch::with(
        "x:\n  cmd.run: [{command: \"true\"}]\nf:\n  file.managed: [{path: \"@T@/no/such/f\"}, {content: x}]\n",
    );
    for words in [&["check", "c", "--concurrency", "1"][..], &["check", "c"]] {
        let check = scratch.json(words);
        assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(1), Some(0)), "{check}");
    }
}

#[test]
#[rule("S-44")]
fn s44_what_is_in_the_way_may_go_only_by_whom_the_state_waits_for() {
    let text = r#"
clear:
  cmd.run: [{command: "rmdir @T@/f"}]
other:
  test.nop: [{require: [{cmd: clear}]}]
f:
  file.managed: [{path: "@T@/f"}, {content: x}, {require: [{WHOM}]}]
"#;
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("f")).unwrap();
    scratch.write("states/c.zy", &text.replace("WHOM", "test: other"));
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(0), Some(1)), "{check}");
    let missing = &check["states"]["file.managed:f"]["details"]["missing"];
    assert!(missing.as_str().unwrap().contains("is a directory, not a file"), "{check}");
    // In a later level, and yet nobody's work.
    let apart = text.replace("{require: [{cmd: clear}]}", "").replace("WHOM", "test: other");
    scratch.write("states/c.zy", &apart);
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(1), Some(0)), "{check}");
}

#[test]
#[rule("S-44")]
fn s44_a_user_and_a_directory_that_may_come_are_unknown() {
    let scratch = Scratch::with(
        r#"
install:
  cmd.run: [{command: "true"}]
conf:
  file.managed: [{path: "@T@/conf"}, {content: x}, {user: no-such-user}, {require: [{cmd: install}]}]
below:
  file.managed: [{path: "@T@/no/such/f"}, {content: x}, {require: [{cmd: install}]}]
"#,
    );
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(0), Some(2)), "{check}");
}

#[test]
#[rule("S-15", "S-44")]
fn s44_what_is_unknown_opens_the_gate_of_a_prereq() {
    let scratch = Scratch::with(
        r#"
install:
  cmd.run: [{command: "true"}]
stop:
  cmd.run: [{command: "true"}, {require: [{cmd: install}]}, {prereq: [{file: conf}]}]
conf:
  file.managed: [{path: "@T@/no/such/conf"}, {content: x}]
"#,
    );
    let check = scratch.json(&["check", "c"]);
    let stop = &check["states"]["cmd.run:stop"];
    assert_eq!((&stop["skipped"], &stop["changed"]), (&false.into(), &true.into()), "{check}");
    assert_eq!(stop["details"]["forced"], "prereq", "{check}");
    assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(0), Some(1)), "{check}");
}

#[test]
#[rule("S-30", "S-58")]
fn s30_what_a_state_reads_is_there_in_a_dry_run_at_every_check() {
    // Declared the wrong way round, and no requisite.
    let scratch = Scratch::with(
        r#"
copy:
  file.managed: [{path: "@T@/copy"}, {source: "@T@/made"}]
script:
  cmd.script: [{source: "@T@/made"}]
done:
  cmd.run: [{command: "touch @T@/never"}, {creates: "@T@/made"}]
inside:
  cmd.run: [{command: "true"}, {cwd: "@T@/dir"}]
made:
  file.managed: [{path: "@T@/made"}, {content: "true\n"}]
dir:
  file.directory: [{path: "@T@/dir"}]
"#,
    );
    let facts = |result: &serde_json::Value| -> Vec<(String, bool, bool, bool)> {
        let states = result["states"].as_object().unwrap().iter();
        let fact = |(name, state): (&String, &serde_json::Value)| {
            let unknown = state["details"]["unknown"] == true;
            (name.clone(), state["changed"] == true, state["error"] != "", unknown)
        };
        states.map(fact).collect()
    };
    let dry = scratch.json(&["check", "c"]);
    for concurrency in ["1", "2", "16"] {
        let again = scratch.json(&["check", "c", "--concurrency", concurrency]);
        assert_eq!(facts(&again), facts(&dry), "{again}");
    }
    assert_eq!(dry["changed"], 5, "{dry}");
    assert_eq!(facts(&scratch.json(&["apply", "c"])), facts(&dry));
    assert!(!scratch.path("never").exists());
}

#[test]
#[rule("S-30", "S-58")]
fn s30_states_of_one_level_do_not_see_what_the_others_would_do() {
    // What a function reads nobody can order: it is asked as an apply would ask it first.
    let scratch = Scratch::with(
        r#"
a made:
  file.managed: [{path: "@T@/made"}, {content: x}]
b beside:
  test.succeed_with_changes: [{onlyif: [{fun: file.file_exists, args: ["@T@/made"]}]}]
c behind:
  test.succeed_with_changes: [{onlyif: [{fun: file.file_exists, args: ["@T@/made"]}]}, {require: [{file: a made}]}]
"#,
    );
    for _ in 0..3 {
        let dry = scratch.json(&["check", "c", "--concurrency", "1"]);
        assert_eq!(dry["states"]["test.succeed_with_changes:b beside"]["changed"], false, "{dry}");
        assert_eq!(dry["states"]["test.succeed_with_changes:c behind"]["changed"], true, "{dry}");
    }
}

#[test]
#[rule("S-30", "S-44")]
fn s44_a_shell_guard_behind_a_change_is_unknown_and_elsewhere_counts_as_it_answers() {
    let scratch = Scratch::with(
        r#"
conf:
  file.managed: [{path: "@T@/conf"}, {content: x}]
missing:
  cmd.run: [{command: "true"}, {onlyif: "test -e @T@/conf"}, {require: [{file: conf}]}]
there:
  cmd.run: [{command: "true"}, {unless: "test -e @T@/conf"}, {require: [{file: conf}]}]
far:
  cmd.run: [{command: "true"}, {onlyif: "test -e @T@/conf"}, {require: [{test: between}]}]
between:
  test.nop: [{require: [{file: conf}]}]
in place:
  file.symlink: [{path: "@T@/link"}, {target: "x"}, {onlyif: "test -e @T@/conf"}, {require: [{file: conf}]}]
no requisite:
  cmd.run: [{command: "true"}, {onlyif: "test -e @T@/conf"}]
"#,
    );
    std::os::unix::fs::symlink("x", scratch.path("link")).unwrap();
    let dry = scratch.json(&["check", "c"]);
    assert_eq!(dry["states"]["file.symlink:in place"]["changed"], false, "{dry}");
    for id in ["missing", "there", "far"] {
        let state = &dry["states"][format!("cmd.run:{id}")];
        assert_eq!(
            (&state["changed"], &state["details"]["unknown"]),
            (&true.into(), &true.into()),
            "{state}"
        );
        assert_eq!(state["diff"], "would change; known only after file.managed:conf has run", "{state}");
    }
    assert_eq!(dry["states"]["cmd.run:no requisite"]["changed"], false, "{dry}");
    // Once nothing before it would change, the answer counts.
    scratch.write("conf", "x");
    std::fs::set_permissions(scratch.path("conf"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    let dry = scratch.json(&["check", "c"]);
    assert_eq!((dry["unknown"].as_u64(), dry["changed"].as_u64()), (Some(0), Some(3)), "{dry}");
    assert_eq!(dry["states"]["cmd.run:there"]["changed"], false, "{dry}");
}
