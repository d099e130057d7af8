//! Settings of this machine: where they come from, and those of one run.

use crate::scratch::Scratch;
use serde_json::json;
use zester_rule::rule;

fn place() -> Scratch {
    let scratch =
        Scratch::with("'@T@/out':\n  file.managed:\n    - content: {{ settings.n.w }} {{ pillar.role }}\n");
    scratch.write("settings/10-base.zy", "role: none\nn:\n  w: 4\n  l: [1]\n");
    scratch.write("settings/20-web.zy", "role: web\nn: {l: [2]}\n");
    scratch
}

#[test]
#[rule("D-6", "C-12")]
fn d6_settings_for_one_run_lie_over_the_files_in_every_way_to_give_them() {
    let scratch = place();
    for (words, wanted) in [
        (&["apply", "c"][..], "4 web"),
        (&["apply", "c", "--setting", "n:w=1.5", "--setting", "role='007'"], "1.5 007"),
        (&["apply", "c", "pillar={n: {w: 8}}"], "8 web"),
        (&["call", "state.apply", "c", "settings={role: db}"], "4 db"),
        (&["call", "state.apply", "c", "pillar={role: db}", "--setting", "n:w=9"], "9 db"),
    ] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.stderr);
        assert_eq!(std::fs::read_to_string(scratch.path("out")).unwrap(), wanted, "{words:?}");
    }
    let done = scratch.zester(&["check", "c", "--setting", "n:w=1"]);
    assert!(done.stdout.contains("+1 web"), "{}", done.stdout);
    assert!(scratch.zester(&["status"]).stdout.contains("--setting n:w=9"), "the record says what was given");
    assert_eq!(scratch.json(&["call", "settings.get", "n:w", "--setting", "n:w=7"]), 7);
}

#[test]
#[rule("C-12")]
fn c12_a_setting_that_is_none_is_a_usage_error_that_points_at_it() {
    let scratch = place();
    for (words, why) in [
        (&["apply", "c", "--setting", "n:w"][..], "`n:w` has no value; write KEY=VALUE"),
        (&["apply", "c", "--setting", "=1"], "`` is no key"),
        (&["apply", "c", "pillar=web"], "pillar=web is no map"),
        (&["apply", "c", "piller={a: 1}"], "is no reference"),
        (&["apply", "c", "--settings-merge", "deep"], "one of smart, recurse, aggregate, overwrite"),
    ] {
        let done = scratch.zester(words);
        assert!(done.code == Some(1) && done.stderr.contains(why), "{words:?}: {}", done.stderr);
    }
    assert!(!scratch.path("out").exists());
}

#[test]
#[rule("D-6", "C-1")]
fn d6_each_setting_is_shown_with_its_file_and_line() {
    let scratch = place();
    let done = scratch.zester(&["settings", "show", "--setting", "n:w=7"]);
    assert_eq!(
        done.stdout,
        "role  web  settings/20-web.zy:1\n\
         n:w   7    --setting n:w=7\n\
         n:l   [2]  settings/20-web.zy:2\n",
        "{}",
        done.stderr
    );
    let document = scratch.json(&["settings", "show", "--local", "n:l", "--settings-merge", "aggregate"]);
    let wanted = json!({"settings": [1, 2], "values": [
        {"key": "n:l:0", "value": 1, "from": "settings/10-base.zy", "line": 4},
        {"key": "n:l:1", "value": 2, "from": "settings/20-web.zy", "line": 2},
    ]});
    assert_eq!(document, wanted);
    let none = scratch.zester(&["settings", "show", "--local", "rol"]);
    assert!(none.code == Some(1) && none.stderr.contains("there is no setting `rol`"), "{}", none.stderr);
    scratch.write("settings/30-bad.zy", "x: {{ nope }}\n");
    let wrong = scratch.zester(&["settings", "show"]);
    assert!(wrong.code == Some(1) && wrong.stderr.contains("settings/30-bad.zy:1:7"), "{}", wrong.stderr);
}

#[test]
fn lint_points_at_a_map_that_something_else_replaces() {
    let scratch = place();
    scratch.write("settings/20-web.zy", "role: web\nn: 5\n");
    scratch.write("states/c.zy", "x:\n  test.nop: []\n");
    let done = scratch.zester(&["lint"]);
    let said = format!("{}{}", done.stdout, done.stderr);
    assert!(
        said.contains("the setting `n`: the number 5 replaces a map") && said.contains("20-web.zy:2:4"),
        "{said}"
    );
}
