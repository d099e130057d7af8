//! Text, JSON, YAML; stdout and stderr; exit codes; configuration.

use crate::scratch::Scratch;
use std::path::Path;
use zester_rule::rule;

const STATES: &str = "a:\n  test.succeed_with_changes: []\nb:\n  test.nop: []\n";

#[test]
#[rule("C-1")]
fn c1_json_and_yaml_are_one_document_on_stdout_alone() {
    let scratch = Scratch::with(STATES);
    let json = scratch.json(&["apply", "c"]);
    let yaml = scratch.zester(&["apply", "c", "--format", "yaml"]).stdout;
    assert_eq!(json["changed"], 1);
    assert!(yaml.contains("mode: apply\n") && yaml.contains("test.succeed_with_changes:a:"), "{yaml}");
}

#[test]
#[rule("C-1")]
fn c1_without_a_terminal_there_is_no_colour_and_no_progress() {
    let scratch = Scratch::with(STATES);
    let mut command = scratch.command(&["apply", "c"]);
    let output = command.env_remove("NO_COLOR").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\u{1b}') && output.stderr.is_empty(), "{text}");
}

#[test]
#[rule("C-2")]
fn c2_the_result_has_every_key() {
    let scratch = Scratch::with(STATES);
    let result = scratch.json(&["apply", "c"]);
    let keys: Vec<&str> = result.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = [
        "mode",
        "test",
        "success",
        "canceled",
        "changed",
        "failed",
        "skipped",
        "unknown",
        "total_duration_ms",
        "run_id",
        "states",
    ];
    assert_eq!(keys, wanted);
    let state = &result["states"]["test.nop:b"];
    let keys: Vec<&str> = state.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        ["name", "changed", "diff", "duration_ms", "details", "error", "skipped", "skip_reason", "level"]
    );
}

#[test]
#[rule("C-3")]
fn c3_exit_codes() {
    let scratch = Scratch::with(STATES);
    scratch.write("states/fails.zy", "x:\n  test.fail_without_changes: []\n");
    scratch.write("states/broken.zy", "x: [\n");
    for (words, code) in [
        (&["apply", "c"][..], 0),
        (&["apply", "fails"], 2),
        (&["check", "fails"], 2),
        (&["apply", "broken"], 1),
        (&["apply", "missing"], 1),
        (&["apply", "c", "--no-such-flag"], 1),
        (&["no-such-command"], 1),
        (&["--help"], 0),
        (&["version"], 0),
        (&["apply", "c", "--states", "@T@/nowhere"], 1),
        (&["apply", "c", "--format", "svg"], 1),
        (&["call", "state.graph", "c", "--format", "svg"], 0),
    ] {
        assert_eq!(scratch.zester(words).code, Some(code), "{words:?}");
    }
}

#[test]
#[rule("C-3")]
fn c3_compile_errors_are_a_document_with_all_of_them() {
    let scratch = Scratch::with("x:\n  file.manged: []\ny:\n  cmd.run: [{comand: x}]\n");
    let document = scratch.json(&["apply", "c"]);
    assert_eq!(document["errors"].as_array().unwrap().len(), 2, "{document}");
    assert_eq!(document["error"], document["errors"][0]);
    let first = &document["error"];
    assert_eq!((first["line"].as_u64(), first["column"].as_u64()), (Some(2), Some(3)));
    assert!(first["file"].as_str().unwrap().ends_with("states/c.zy"));
    assert!(first["message"].as_str().unwrap().contains(first["hint"].as_str().unwrap()));
    assert_eq!(scratch.json(&["lint"])["errors"], document["errors"], "lint prints the same document");
}

#[test]
#[rule("C-4")]
fn c4_a_run_for_people_names_what_changed_why_something_was_skipped_and_repeats_failures() {
    let scratch = Scratch::with(
        "conf:\n  file.managed: [{path: \"@T@/conf\"}, {content: \"new\\n\"}]\nbad:\n  cmd.run: [{command: \"echo sorry >&2; exit 7\"}]\nafter:\n  test.nop: [{require: [cmd: bad]}]\nrebuild:\n  test.nop: [{onchanges: [test.nop: same]}]\nsame:\n  test.nop: []\n",
    );
    scratch.write("conf", "old\n");
    let done = scratch.zester(&["apply", "c"]);
    for wanted in [
        "5 states, 2 levels",
        "✓ file.managed:conf",
        "-old\n     +new",
        "✗ cmd.run:bad",
        "exit code 7 not in [0]",
        "sorry",
        "skipped: needs cmd.run:bad, which did not succeed",
        "skipped: onchanges not met (test.nop:same did not change)",
        "1 changed  1 unchanged  1 failed  2 skipped",
        "undo: zester revert --run",
        "failed: cmd.run:bad  states/c.zy:4",
    ] {
        assert!(done.stdout.contains(wanted), "{wanted:?} is missing from\n{}", done.stdout);
    }
    let dry = scratch.zester(&["check", "c"]);
    assert!(dry.stdout.contains("nothing was changed"), "{}", dry.stdout);
}

#[test]
#[rule("C-5")]
fn c5_test_is_check() {
    let scratch = Scratch::with(STATES);
    for words in [
        &["apply", "c", "--test"][..],
        &["apply", "c", "test=True"],
        &["apply", "c", "test=on"],
        &["check", "c"],
    ] {
        assert_eq!(scratch.json(words)["mode"], "check", "{words:?}");
    }
    assert_eq!(scratch.json(&["apply", "c", "test=no"])["mode"], "apply");
}

#[test]
#[rule("C-8")]
fn c8_flag_beats_environment_beats_file() {
    let scratch = Scratch::with("x:\n  test.nop: [{order: 1}]\n{{ grains.id }}:\n  test.nop: []\n");
    scratch.write("config.yaml", "id: from-file\n");
    let ids = |words: &[&str], environment: Option<&str>| {
        let mut command = scratch.command(&["graph", "c", "--format", "json", "--config", "@T@/config.yaml"]);
        command.args(words);
        if let Some(id) = environment {
            command.env("ZESTER_ID", id);
        }
        let done: crate::scratch::Done = command.output().unwrap().into();
        done.json()["levels"][0][0].as_str().unwrap().to_string()
    };
    assert_eq!(ids(&[], None), "test.nop:from-file");
    assert_eq!(ids(&["--set", "id=from-set"], None), "test.nop:from-set");
    assert_eq!(ids(&[], Some("from-env")), "test.nop:from-env");
    assert_eq!(ids(&["--id", "from-flag"], Some("from-env")), "test.nop:from-flag");
    scratch.write("config.yaml", "idd: x\n");
    let wrong = scratch.zester(&["graph", "c", "--config", "@T@/config.yaml"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("idd") && wrong.stderr.contains("config.yaml"), "{}", wrong.stderr);
}

#[test]
#[rule("C-9")]
fn c9_states_and_data_have_defaults() {
    let scratch = Scratch::with(STATES);
    let mut command = scratch.command(&["apply", "c", "--format", "json"]);
    command.env_remove("ZESTER_DATA_DIR");
    command.env("XDG_STATE_HOME", scratch.path("state"));
    let root = command.output().unwrap();
    assert!(root.status.success(), "./states is the default");
    let home = Path::new("/var/lib/zester").exists() || scratch.path("state/zester").exists();
    assert!(home, "history is kept somewhere");
    let empty = Scratch::new();
    std::fs::remove_dir(empty.path("states")).unwrap();
    if !Path::new("/srv/zester/states").exists() {
        let none = empty.zester(&["apply", "c"]);
        assert!(none.stderr.contains("--states DIR"), "{}", none.stderr);
    }
}

#[test]
fn help_schema_doc_completions_and_man_pages_are_there() {
    let scratch = Scratch::new();
    let schema = scratch.json(&["schema"]);
    assert!(schema.to_string().contains("file.managed"));
    assert!(scratch.zester(&["doc"]).stdout.contains("file.managed"));
    let page = scratch.zester(&["doc", "file.managed"]).stdout;
    assert!(page.contains("content") && page.contains("makedirs"), "{page}");
    assert!(scratch.zester(&["doc", "requisites"]).stdout.contains("onchanges"));
    let wrong = scratch.zester(&["doc", "file.manged"]);
    assert!(wrong.stderr.contains("file.managed"), "{}", wrong.stderr);
    for shell in ["bash", "zsh", "fish"] {
        assert!(scratch.zester(&["completions", shell]).stdout.contains("zester"));
    }
    assert_eq!(scratch.zester(&["man", "@T@/man"]).code, Some(0));
    for page in ["zester.1", "zester-apply.1"] {
        assert!(scratch.path("man").join(page).exists(), "{page}");
    }
}

#[test]
fn a_mistyped_flag_is_what_is_told_and_the_usage_shows_no_environment() {
    let scratch = Scratch::new();
    let done = scratch.zester(&["--formt", "json", "apply"]);
    assert!(done.stderr.contains("'--formt'") && done.stderr.contains("'--format'"), "{}", done.stderr);
    let done = scratch.zester(&["call"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("Usage: zester call [OPTIONS] <MOD.FN> [ID|k=v]...\n"), "{}", done.stderr);
}

#[test]
#[rule("C-4")]
fn c4_a_dry_run_says_why_something_would_be_skipped() {
    let scratch = Scratch::with(
        "bad:\n  test.fail_without_changes: []\nafter:\n  test.nop: [{require: [test: bad]}]\nsame:\n  test.nop: []\nthen:\n  test.nop: [{onchanges: [test: same]}]\n",
    );
    let done = scratch.zester(&["check", "c"]);
    for wanted in ["test.fail_without_changes:bad, which would not succeed", "test.nop:same would not change"]
    {
        assert!(done.stdout.contains(wanted), "{}", done.stdout);
    }
    assert!(done.stdout.contains("nothing was changed"), "{}", done.stdout);
}
