//! Rules of the runner that need real states.

use crate::scratch::Scratch;
use serde_json::Value as Json;
use zester_rule::rule;

#[test]
#[rule("S-30")]
fn s30_check_and_apply_agree() {
    // Later states need what earlier ones create; a dry run must see it.
    let scratch = Scratch::with(
        r#"
dir:
  file.directory: [{path: "@T@/d"}]
file:
  file.managed: [{path: "@T@/d/f"}, {content: x}, {require: [{file.directory: dir}]}]
made:
  cmd.run: [{command: "touch @T@/never"}, {creates: "@T@/d/f"}, {require: [{file: file}]}]
inside:
  cmd.run: [{command: "true"}, {cwd: "@T@/d"}, {require: [{file: file}]}]
link:
  file.symlink: [{path: "@T@/l"}, {target: "@T@/d/f"}]
gone:
  file.absent: [{path: "@T@/d/f"}, {require: [{file: file}, {cmd: made}, {cmd: inside}]}]
lost:
  file.managed: [{path: "@T@/nowhere/x"}, {content: x}]
"#,
    );
    let facts = |result: &Json| -> Vec<(String, bool, bool, bool)> {
        let states = result["states"].as_object().unwrap();
        let fact = |(name, state): (&String, &Json)| {
            (name.clone(), state["changed"] == true, state["error"] != "", state["skipped"] == true)
        };
        states.iter().map(fact).collect()
    };
    let dry = scratch.json(&["check", "c"]);
    let wet = scratch.json(&["apply", "c"]);
    assert_eq!(facts(&dry), facts(&wet));
    assert_eq!(wet["states"]["file.managed:lost"]["changed"], false);
    assert!(!scratch.path("never").exists());
}

#[test]
#[rule("S-33")]
fn s33_a_state_that_fails_does_not_stop_the_others() {
    let scratch =
        Scratch::with("bad:\n  test.fail_without_changes: []\ngood:\n  test.succeed_with_changes: []\n");
    let result = scratch.json(&["apply", "c"]);
    assert_eq!((result["failed"].as_u64(), result["changed"].as_u64()), (Some(1), Some(1)));
}

#[test]
#[rule("S-28")]
fn s28_concurrency_bounds_how_many_run_at_once() {
    let text: String = (0..6)
        .map(|n| format!("s{n}:\n  cmd.run: [{{command: \"mkdir @T@/only || touch @T@/clash; sleep 0.05; rmdir @T@/only\"}}]\n"))
        .collect();
    let scratch = Scratch::with(&text);
    assert_eq!(scratch.json(&["apply", "c", "--concurrency", "1"])["changed"], 6);
    assert!(!scratch.path("clash").exists());
}

#[test]
#[rule("S-41")]
fn s41_check_cmd_judges_a_change_and_unknown_attributes_are_not_ignored() {
    let scratch =
        Scratch::with("f:\n  file.managed: [{path: \"@T@/f\"}, {content: x}, {check_cmd: \"false\"}]\n");
    let result = scratch.json(&["apply", "c"]);
    assert!(result["states"]["file.managed:f"]["error"].as_str().unwrap().contains("check_cmd"), "{result}");
    scratch.write("states/c.zy", "f:\n  test.nop: [{fire_event: true}]\n");
    let refused = scratch.zester(&["apply", "c"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("fire_event"), "{}", refused.stderr);
}

#[test]
#[rule("S-4")]
fn s4_a_path_makes_its_own_directory_the_states_dir() {
    let scratch = Scratch::new();
    scratch.write("elsewhere/one.zy", "include: [two]\na:\n  test.nop: []\n");
    scratch.write("elsewhere/two.zy", "b:\n  test.nop: []\n");
    let result = scratch.json(&["apply", "elsewhere/one.zy"]);
    assert_eq!(result["states"].as_object().unwrap().len(), 2, "{result}");
    let outside = scratch.zester(&["apply", "elsewhere/one.zy", "--states", "@T@/states"]);
    assert!(outside.stderr.contains("outside the states directory"), "{}", outside.stderr);
}

#[test]
#[rule("S-4")]
fn s4_nothing_inside_a_file_leaves_the_states_dir() {
    let scratch = Scratch::new();
    scratch.write("secret", "secret");
    std::os::unix::fs::symlink(scratch.path("secret"), scratch.path("states/link")).unwrap();
    for (text, code) in [
        ("include: ['../secret']\n", 1),
        ("{% import_text '../secret' as x %}\na:\n  test.nop: []\n", 1),
        ("a:\n  file.managed: [{path: \"@T@/x\"}, {source: 'salt://../secret'}]\n", 2),
        ("a:\n  file.managed: [{path: \"@T@/x\"}, {source: 'salt://link'}]\n", 2),
    ] {
        scratch.write("states/c.zy", text);
        let done = scratch.zester(&["apply", "c"]);
        assert!(done.code == Some(code) || done.code == Some(1), "{text}: {:?} {}", done.code, done.stdout);
        assert!(!scratch.path("x").exists(), "{text}");
    }
}

#[test]
#[rule("S-8")]
fn s8_the_highstate_is_what_top_gives_this_machine() {
    let scratch = Scratch::with("c:\n  test.nop: []\n");
    scratch.write("states/web.zy", "web:\n  test.nop: []\n");
    scratch.write("states/db.zy", "db:\n  test.nop: []\n");
    scratch.write(
        "states/top.zy",
        "base:\n  '*':\n    - c\n  'web-*':\n    - web\n  'G@os:NoSuch or db-*':\n    - db\n",
    );
    let names = |id: &str| -> Vec<String> {
        scratch.json(&["apply", "--id", id])["states"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names("web-1"), ["test.nop:c", "test.nop:web"]);
    assert_eq!(names("db-1"), ["test.nop:c", "test.nop:db"]);
}

#[test]
#[rule("S-27", "S-34")]
fn s27_s34_modes_and_counts_are_in_the_result() {
    let scratch = Scratch::with("a:\n  test.fail_with_changes: []\nb:\n  test.succeed_with_changes: []\n");
    let dry = scratch.json(&["check", "c"]);
    assert_eq!(
        (dry["mode"].as_str(), dry["test"].as_bool(), dry["changed"].as_u64()),
        (Some("check"), Some(true), Some(2))
    );
    let wet = scratch.json(&["apply", "c"]);
    assert_eq!(
        wet["states"]["test.fail_with_changes:a"]["changed"], false,
        "a state with an error has not changed"
    );
    assert_eq!(
        (wet["success"].as_bool(), wet["changed"].as_u64(), wet["failed"].as_u64()),
        (Some(false), Some(1), Some(1))
    );
}

#[test]
#[rule("S-29")]
fn s29_a_dry_run_follows_conditions_with_would_change_for_changed() {
    let scratch = Scratch::with(
        "a:\n  test.succeed_with_changes: []\nb:\n  cmd.run: [{command: \"touch @T@/b\"}, {creates: /}, {watch: [{test.succeed_with_changes: a}]}]\nc:\n  test.nop: []\nd:\n  test.succeed_with_changes: [{onchanges: [{test.nop: c}]}]\n",
    );
    let dry = scratch.json(&["check", "c"]);
    assert_eq!(dry["states"]["cmd.run:b"]["diff"], "Would have executed via subscribe");
    assert_eq!(dry["states"]["cmd.run:b"]["details"]["forced"], "watch");
    assert_eq!(dry["states"]["test.succeed_with_changes:d"]["skip_reason"], "onchanges_not_met");
    assert!(!scratch.path("b").exists());
}

#[test]
#[rule("S-24")]
fn s24_the_same_name_twice_is_reported_with_both_places() {
    let scratch = Scratch::with("include: [other]\nx:\n  test.nop: []\n");
    scratch.write("states/other.zy", "y:\n  test.nop: []\nx:\n  test.nop: []\n");
    let document = scratch.json(&["apply", "c"]);
    let message = document["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("dag: duplicate state \"test.nop:x\""), "{message}");
    let places = [message.contains("states/other.zy:4:3"), message.contains("states/c.zy:3:3")];
    let at = format!(
        "{}:{}:{}",
        document["error"]["file"].as_str().unwrap(),
        document["error"]["line"],
        document["error"]["column"]
    );
    assert!(
        places.contains(&true) && (at == "states/c.zy:3:3" || at == "states/other.zy:4:3"),
        "{message} at {at}"
    );
}

#[test]
#[rule("X-4")]
fn x4_details_are_typed() {
    let scratch = Scratch::with("x:\n  cmd.run: [{command: \"echo out; echo err >&2; exit 3\"}]\n");
    let details = scratch.json(&["apply", "c"])["states"]["cmd.run:x"]["details"].clone();
    assert_eq!(
        (details["exit_code"].as_i64(), details["stdout"].as_str(), details["stderr"].as_str()),
        (Some(3), Some("out\n"), Some("err\n"))
    );
    assert_eq!(details["timed_out"], false);
    assert!(
        details["command"].is_string() && details["pid"].is_u64() && details["signal"].is_null(),
        "{details}"
    );
}

/// Whoever starts a program there in a group from outside gives it a group without a number.
#[test]
#[rule("C-15")]
fn c15_a_pid_namespace_of_its_own_is_a_place_like_any_other() {
    let can = std::process::Command::new("unshare").args(["--pid", "--fork", "true"]).output();
    if !can.is_ok_and(|done| done.status.success()) {
        zester_testkit::skip!("no pid namespace can be made here");
    }
    let scratch = Scratch::with("x:\n  cmd.run: [{command: \"echo out\"}]\n");
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork", env!("CARGO_BIN_EXE_zester"), "apply", "c"]);
    command.current_dir(scratch.root()).env("ZESTER_DATA_DIR", scratch.path("data"));
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("1 changed"), "the command ran");
}
