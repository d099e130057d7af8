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
    scratch.write("empty/notes.txt", "nothing of Salt's\n");
    let empty = scratch.zester(&["migrate", "empty"]);
    assert_eq!(empty.code, Some(1), "nobody takes a mistyped path for a tree that is ready");
    assert!(empty.stderr.contains("empty holds no state file"), "{}", empty.stderr);
}

/// A file for each row that a file can be seen to meet, and the place.
const DIFFERING: [(&str, &str, &str); 19] = [
    (
        "clean_filled",
        "a:\n  file.directory:\n    - name: /a\n    - clean: True\n    - require: [b]\nb:\n  file.recurse:\n    - name: /a\n    - source: salt://x\n",
        "2:3",
    ),
    (
        "context_keys",
        "a:\n  file.managed:\n    - name: /a\n    - contents: ''\n    - template: jinja\n    - port: 80\n",
        "6:7",
    ),
    ("failhard", "a:\n  test.nop:\n    - failhard: True\n", "3:7"),
    ("id_twice", "a:\n  test.nop: []\n  test.ping: []\nb:\n  test.nop:\n    - require: [a]\n", "6:17"),
    ("jinja_random", "a{{ [1] | random }}:\n  test.nop: []\n", "1:11"),
    ("listen", "a:\n  test.nop:\n    - listen_in: [b]\nb:\n  test.nop:\n    - require: [a]\n", "3:7"),
    ("names_ids", "a:\n  test.nop:\n    - names: [x]\n", "3:7"),
    ("names_same", "a:\n  test.nop:\n    - names: [x]\nb:\n  test.nop:\n    - names: [x]\n", "6:15"),
    ("onchanges_failed", "a:\n  test.nop: []\nb:\n  test.nop:\n    - onchanges: [a]\n", "5:7"),
    ("onfail_skipped", "a:\n  test.nop: []\nb:\n  test.nop:\n    - onfail: [a]\n", "5:7"),
    ("order", "a:\n  test.nop:\n    - order: 3\n", "3:7"),
    (
        "parameter_twice",
        "a:\n  file.touch:\n    - name: /a\n    - makedirs: true\n    - makedirs: true\n",
        "5:7",
    ),
    ("prereq", "a:\n  test.nop: []\nb:\n  test.nop:\n    - prereq: [a]\n", "5:7"),
    ("reload_grains", "a:\n  test.nop:\n    - reload_grains: true\n", "3:7"),
    ("reload_pillar", "a:\n  test.nop:\n    - reload_pillar: true\n", "3:7"),
    ("retry_attempts", "a:\n  test.nop:\n    - retry: {attempts: 2}\n", "3:7"),
    ("sequential", "a:\n  test.nop: []\nb:\n  test.nop:\n    - require: [a]\nc:\n  test.nop: []\n", "7:3"),
    ("stray_parameter", "a:\n  file.managed:\n    - name: /x\n    - contents: a\n    - foo: bar\n", "5:7"),
    ("unless_list", "a:\n  test.nop:\n    - unless: ['false', 'true']\n", "3:7"),
];

/// Rows that no file shows: what lies on the machine decides.
const UNSEEN: [&str; 2] = ["follow_links", "gpg"];

/// A row that another test shows: it is about reactor files.
const ELSEWHERE: [&str; 1] = ["reactor"];

/// Rows that `migrate` does not tell: nothing says which calls of `module.run` are functions before they are bound, and a `watch`
/// of `test.*` is for trying things out.
const UNTOLD: [&str; 2] = ["module_run", "watch_test"];

#[test]
#[rule("S-56")]
fn s56_every_construct_that_means_something_else_is_told_at_its_place() {
    use zester_compile::differences::{DIFFERENCES, Effect};
    let scratch = Scratch::new();
    for (row, text, _) in DIFFERING {
        scratch.write(&format!("t/{row}.sls"), text);
    }
    scratch.write("t/test_guards.sls", "a:\n  test.nop:\n    - onlyif: 'true'\n");
    scratch.write(
        "t/watch_creates.sls",
        "a:\n  test.nop: []\nb:\n  cmd.run:\n    - name: 'true'\n    - creates: /x\n    - watch: [a]\n",
    );
    scratch.write("t/top.sls", "base:\n  '*': []\ndev:\n  '*': [order]\n");
    let said = scratch.zester(&["migrate", "t", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let places: Vec<(String, String)> = report["files"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|file| file["findings"].as_array().unwrap())
        .map(|found| {
            (found["reason"].as_str().unwrap().to_string(), found["place"].as_str().unwrap().to_string())
        })
        .collect();
    let more = [
        ("environments", "top", "3:1"),
        ("test_guards", "test_guards", "3:7"),
        ("watch_creates", "watch_creates", "6:7"),
    ];
    let wanted = DIFFERING.iter().map(|(row, _, at)| (*row, *row, *at)).chain(more);
    for (row, file, at) in wanted.clone() {
        let place = (row.to_string(), format!("t/{file}.sls:{at}"));
        assert!(places.contains(&place), "{place:?} is not among {places:#?}");
    }
    let shown: Vec<&str> =
        wanted.map(|(row, _, _)| row).chain(UNSEEN).chain(ELSEWHERE).chain(UNTOLD).collect();
    // What a master is configured with is shown by a test of its own.
    let is_of_states = |id: &str| !id.starts_with("master_");
    for row in DIFFERENCES.iter().filter(|row| row.effect == Effect::Differs && is_of_states(row.id)) {
        assert!(shown.contains(&row.id), "nothing shows that migrate finds {}", row.id);
    }
}

#[test]
#[rule("S-56")]
fn s56_a_file_is_judged_within_the_files_that_include_it_and_told_once() {
    let scratch = Scratch::new();
    scratch.write("t/part.sls", "b:\n  test.nop:\n    - require:\n      - test: a\n    - order: 1\n");
    scratch.write("t/one.sls", "include: [part]\na:\n  test.nop: []\n");
    scratch.write("t/two.sls", "include: [part]\na:\n  test.nop: []\n");
    let said = scratch.zester(&["migrate", "t"]);
    assert_eq!(said.code, Some(0), "{}", said.stdout);
    assert!(said.stdout.contains("one.sls: ready\n"), "what it includes is told there: {}", said.stdout);
    assert_eq!(said.stdout.matches("part.sls:5:7").count(), 1, "{}", said.stdout);
    assert!(said.stdout.contains("     1  `order`\n"), "{}", said.stdout);
    let linted = scratch.zester(&["lint", "t"]);
    assert_eq!(linted.code, Some(0), "{}", linted.stderr);
}

#[test]
#[rule("S-49")]
fn s49_what_is_forgiven_is_told_by_lint_and_by_a_run() {
    let scratch = Scratch::new();
    let text = "a:\n  test.nop: []\n  test.ping: []\nb:\n  test.nop:\n    - require: [a]\n";
    scratch.write("t/c.sls", text);
    for command in [["lint", "t/c.sls"], ["check", "t/c.sls"], ["apply", "t/c.sls"]] {
        let said = scratch.zester(&command);
        assert_eq!(said.code, Some(0), "{command:?} {}", said.stderr);
        let told = format!("{}{}", said.stdout, said.stderr);
        assert!(told.contains("`a` means 2 states here: all of them"), "{command:?}: {told}");
    }
}

#[test]
#[rule("S-56")]
fn s56_what_is_no_state_is_looked_at_as_what_it_is() {
    let scratch = tree();
    scratch.write("tree/salt/reactor/start.sls", "a:\n  local.test.ping:\n    - tgt: {{ data['id'] }}\n");
    scratch.write("tree/salt/events/named.sls", "a:\n  local.test.ping:\n    - tgt: {{ data['id'] }}\n");
    scratch.write("tree/salt/orch/deploy.sls", "a:\n  salt.state:\n    - tgt: '*'\n    - sls: web\n");
    scratch.write("tree/salt/_grains/own.py", "def x():\n    return {}\n");
    scratch.write(
        "tree/etc/salt/master",
        "nodegroups: {}\nreactor:\n  - 'salt/x': [salt://events/named.sls]\nfile_roots:\n  base: [/salt]\n",
    );
    let said = scratch.zester(&["migrate", "tree", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let told = |path: &str| {
        let file = report["files"].as_array().unwrap().iter().find(|file| file["path"] == path);
        let file = file.unwrap_or_else(|| panic!("{path} is not told: {report}"));
        let reasons: Vec<&str> =
            file["findings"].as_array().unwrap().iter().filter_map(|it| it["reason"].as_str()).collect();
        format!(
            "{} {} {}",
            file["role"].as_str().unwrap(),
            file["verdict"].as_str().unwrap(),
            reasons.join(" ")
        )
    };
    assert_eq!(told("reactor/start.sls"), "reactor ready with a difference reactor");
    assert_eq!(told("events/named.sls"), "reactor ready with a difference reactor");
    assert_eq!(told("orch/deploy.sls"), "orchestrate needs a hand orchestrate");
    assert_eq!(told("_grains/own.py"), "python needs a hand custom_grains");
    assert_eq!(
        told("master"),
        "configuration ready with a difference master_nodegroups master_reactor master_roots"
    );
}
