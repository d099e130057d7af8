//! What a dry run cannot know, it says (S-44).

use crate::scratch::Scratch;
use zester_rule::rule;

/// A command stands for whatever nobody can foresee: it makes a directory, a file and a program.
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
    // The command would run again, as its `creates` was never made; only what is not there depends on it.
    assert_eq!((check["unknown"].as_u64(), check["failed"].as_u64()), (Some(1), Some(0)), "{check}");
    assert_eq!(check["states"]["file.managed:conf"]["changed"], false);
    assert_eq!(check["states"]["file.absent:gone"]["details"]["unknown"], true);
    scratch.write("app/done", "");
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["unknown"].as_u64(), check["failed"].as_u64()), (Some(0), Some(0)), "{check}");
    scratch.write("states/c.zy", "a:\n  test.succeed_with_changes: []\nb:\n  file.managed:\n    - path: @T@/no/file\n    - require: [{test: a}]\n");
    let check = scratch.json(&["check", "c"]);
    assert_eq!((check["failed"].as_u64(), check["unknown"].as_u64()), (Some(1), Some(0)), "{check}");
}
