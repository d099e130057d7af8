//! S-11, S-23, S-41 and the table of targets.

use crate::fixture::*;
use serde_json::json;
use zester_rule::rule;

const BASE: &str = "conf:\n  file.managed:\n    - path: /etc/x\nnginx:\n  pkg.installed: []\n  test.nop: []\nflag:\n  file.touch: []\nalone:\n  file.absent: []\n'echo a:b':\n  cmd.run: []\n";

fn waits(requisites: &str) -> Vec<String> {
    edges(&one(&format!("{BASE}x:\n  test.nop:\n{requisites}")), "test.nop:x")
}

fn target(text: &str) -> Vec<String> {
    waits(&format!("    - require:\n      - {text}\n"))
}

#[test]
#[rule("S-11")]
fn s11_every_target_form_finds_its_state() {
    for (text, expected) in [
        ("file.managed:conf", "file.managed:conf"),
        ("file: conf", "file.managed:conf"),
        ("file: /etc/x", "file.managed:conf"),
        ("file.managed: /etc/x", "file.managed:conf"),
        ("file.managed:/etc/x", "file.managed:conf"),
        ("file#conf", "file.managed:conf"),
        ("file#/etc/x", "file.managed:conf"),
        ("file:conf", "file.managed:conf"),
        ("pkg: nginx", "pkg.installed:nginx"),
        ("package#nginx", "pkg.installed:nginx"),
        ("test: nginx", "test.nop:nginx"),
        ("file: flag", "file.touch:flag"),
        ("file.touch: flag", "file.touch:flag"),
        ("alone", "file.absent:alone"),
        ("file: alone", "file.absent:alone"),
        ("'echo a:b'", "cmd.run:echo a:b"),
        ("cmd: 'echo a:b'", "cmd.run:echo a:b"),
        ("'cmd.run:echo a:b'", "cmd.run:echo a:b"),
    ] {
        assert_eq!(target(text), [format!("require {expected}")], "{text}");
    }
}

#[test]
#[rule("S-11")]
fn s11_a_bare_id_of_two_states_is_an_error_that_lists_them() {
    let found = texts(&one(&format!("{BASE}x:\n  test.nop:\n    - require: [nginx]\n")));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].contains(
            "dag: state \"test.nop:x\" requires one of \"pkg.installed:nginx\", \"test.nop:nginx\""
        ),
        "{found:?}"
    );
}

#[test]
#[rule("S-11")]
fn s11_all_relations_and_their_lists() {
    assert_eq!(
        waits(
            "    - require: conf\n    - watch: {file: conf}\n    - onchanges: [conf]\n    - onfail: [alone]\n    - listen: [alone]\n    - subscribe: [file#flag]\n"
        ),
        [
            "require file.managed:conf",
            "watch file.managed:conf",
            "onchanges file.managed:conf",
            "onfail file.absent:alone",
            "watch file.absent:alone",
            "watch file.touch:flag"
        ]
    );
    assert_eq!(waits("    - require: []\n    - watch:\n"), Vec::<String>::new());
    assert_eq!(waits("    - require: [conf, file: conf, conf]\n"), ["require file.managed:conf"]);
}

#[test]
#[rule("S-11")]
fn s11_in_forms_put_the_requisite_onto_the_target() {
    let compiled = one(
        "a:\n  test.nop:\n    - require_in: [cmd.run:r]\n    - watch_in: [cmd.run:w]\n    - onchanges_in: [cmd.run:o]\n    - onfail_in: [cmd.run:f]\n    - listen_in: [cmd.run:l]\n    - prereq_in: [cmd.run:p]\nr:\n  cmd.run: []\nw:\n  cmd.run: []\no:\n  cmd.run: []\nf:\n  cmd.run: []\nl:\n  cmd.run: []\np:\n  cmd.run: []\n",
    );
    for (name, expected) in [
        ("r", "require test.nop:a"),
        ("w", "watch test.nop:a"),
        ("o", "onchanges test.nop:a"),
        ("f", "onfail test.nop:a"),
        ("l", "watch test.nop:a"),
    ] {
        assert_eq!(edges(&compiled, &format!("cmd.run:{name}")), [expected]);
    }
    assert_eq!(prereqs(&compiled, "cmd.run:p"), ["test.nop:a"]);
    assert_eq!(edges(&compiled, "test.nop:a"), ["require cmd.run:p"]);
}

#[test]
#[rule("S-11")]
fn s11_prereq_gives_its_target_a_require() {
    let compiled = one("drain:\n  cmd.run:\n    - prereq: [file: deploy]\ndeploy:\n  file.managed: []\n");
    assert_eq!(prereqs(&compiled, "cmd.run:drain"), ["file.managed:deploy"]);
    assert_eq!(edges(&compiled, "file.managed:deploy"), ["require cmd.run:drain"]);
    assert_eq!(edges(&compiled, "cmd.run:drain"), Vec::<String>::new());
}

#[test]
#[rule("S-11")]
fn s11_sls_means_every_state_of_that_file() {
    let tree = [
        (
            "web/init.zy",
            "include: [.config, .empty]\nx:\n  test.nop:\n    - require: [sls: web.config, sls: .empty]\n    - watch: [sls: .config]\n",
        ),
        ("web/config.zy", "a:\n  test.nop: []\nb:\n  test.nop: []\n"),
        ("web/empty.zy", ""),
        ("self.zy", "a:\n  test.nop: []\nb:\n  test.nop:\n    - require: [sls: self]\n"),
        ("bad.zy", "b:\n  test.nop:\n    - require: [sls: nope]\n"),
    ];
    let compiled = asked(&tree, "web");
    assert_eq!(
        edges(&compiled, "test.nop:x"),
        ["require test.nop:a", "require test.nop:b", "watch test.nop:a", "watch test.nop:b"]
    );
    assert_eq!(edges(&asked(&tree, "self"), "test.nop:b"), ["require test.nop:a"]);
    assert!(texts(&asked(&tree, "bad"))[0].contains("requires unknown state \"sls:nope\""));
}

#[test]
#[rule("S-11")]
fn s11_sls_means_what_that_file_includes_as_well() {
    let tree = [
        ("c.zy", "include: [u]\nx:\n  test.nop:\n    - require: [sls: u]\n"),
        ("u.zy", "include: [v]\n"),
        ("v.zy", "include: [w, c]\ny:\n  test.nop: []\n"),
        ("w.zy", "z:\n  test.nop: []\n"),
        ("lone.zy", "include: [u]\nl:\n  test.nop:\n    - onchanges_in: [sls: v]\n"),
    ];
    // `u` leads back to `c`, which does not wait for itself.
    assert_eq!(edges(&asked(&tree, "c"), "test.nop:x"), ["require test.nop:z", "require test.nop:y"]);
    let inverse = asked(&tree, "lone");
    for name in ["test.nop:x", "test.nop:y", "test.nop:z"] {
        assert!(edges(&inverse, name).contains(&"onchanges test.nop:l".to_string()), "{name}");
    }
}

#[test]
#[rule("S-23")]
fn s23_an_unknown_target_names_both_states_and_suggests_with_a_place() {
    let text = "deploy_config:\n  file.managed: []\nstart_nginx:\n  cmd.run:\n    - require:\n      - file.managed:deploy_confg\n";
    assert_eq!(
        diagnostic(text),
        "states/c.zy:6:9: dag: state \"cmd.run:start_nginx\" requires unknown state \"file.managed:deploy_confg\" [did you mean `file.managed:deploy_config` (states/c.zy:2:3)?] {states/c.zy:2:3 file.managed:deploy_config is declared here}"
    );
    assert!(
        diagnostic(&text.replace("file.managed:deploy_confg", "file: deploy_confg"))
            .contains("requires unknown state \"file.managed:deploy_confg\"")
    );
    assert!(
        diagnostic("x:\n  test.nop:\n    - require: [file.touch: y]\n")
            .contains("unknown state \"file.touch:y\"")
    );
    assert!(
        diagnostic("x:\n  test.nop:\n    - require_in: [widget: y]\n").contains("unknown state \"widget:y\"")
    );
}

#[test]
#[rule("S-23")]
fn s23_a_broken_state_makes_no_further_noise() {
    assert!(
        diagnostic("bad:\n  file.manged: []\nx:\n  test.nop:\n    - require: [file: bad, bad]\n")
            .contains("unknown function `manged` of file")
    );
    assert!(
        diagnostic("include: [gone]\nx:\n  test.nop:\n    - require: [file: there]\n")
            .contains("no file for `gone`")
    );
    assert_eq!(
        diagnostic("x:\n  test.nop:\n    - require:\n      - [a]\n"),
        "states/c.zy:4:9: `require` names states, not a list [write `- module.function:id` or `- module: id`]"
    );
}

#[test]
#[rule("S-3")]
fn s3_an_unknown_kind_makes_one_error_whatever_requires_it() {
    let bad = "bad:\n  file.manged:\n    - path: /etc/x\n    - names: [a, b]\n";
    let uses = "x:\n  test.nop:\n    - require: [bad, file: bad, 'file.managed:bad', file: a, b]\n    - watch_in: [file: bad]\n    - use: [file: bad]\n";
    let by_path =
        "bad:\n  file.manged:\n    - path: /etc/x\nx:\n  test.nop:\n    - require: [file: /etc/x]\n";
    let extended = "bad:\n  file.manged: []\nextend:\n  bad:\n    file.managed:\n      - content: x\n";
    for text in [format!("{bad}{uses}"), by_path.to_string(), extended.to_string()] {
        let found = diagnostic(&text);
        assert!(
            found.contains("unknown function `manged` of file [did you mean `file.managed`?]"),
            "{found}"
        );
    }
    assert!(diagnostic("x: 5\ny:\n  test.nop: [{require: [x]}]\n").contains("`x` holds no state"));
}

#[test]
#[rule("S-41")]
fn s41_any_and_all_forms_are_edges_of_their_own() {
    assert_eq!(
        waits(
            "    - require_any: [conf]\n    - watch_any: [conf]\n    - onchanges_any: [conf]\n    - onfail_any: [conf]\n    - onfail_all: [conf]\n"
        ),
        ["require_any", "watch_any", "onchanges_any", "onfail_any", "onfail_all"]
            .map(|kind| format!("{kind} file.managed:conf"))
    );
}

#[test]
#[rule("S-41")]
fn s41_use_copies_what_is_not_set() {
    let compiled = one(
        "a:\n  file.managed:\n    - path: /a\n    - mode: 0600\n    - user: root\n    - retry: 2\nb:\n  file.managed:\n    - user: me\n    - use: [file: a]\nc:\n  file.managed: []\nd:\n  file.managed:\n    - group: staff\n    - use_in: [file: c]\n",
    );
    assert_eq!(param(&compiled, "file.managed:b", "mode"), json!(600));
    assert_eq!(param(&compiled, "file.managed:b", "user"), json!("me"));
    assert_eq!(param(&compiled, "file.managed:b", "path"), json!("b"));
    assert_eq!(state(&compiled, "file.managed:b").attributes.retry.map(|retry| retry.attempts), Some(2));
    assert_eq!(param(&compiled, "file.managed:c", "group"), json!("staff"));
    assert!(state(&compiled, "file.managed:b").edges.is_empty());
}

#[test]
#[rule("S-41")]
fn s41_what_salt_has_and_we_have_not_is_never_ignored() {
    for key in ["fire_event", "runas_password"] {
        let found = diagnostic(&format!("x:\n  test.nop:\n    - {key}: true\n"));
        assert!(found.starts_with(&format!("states/c.zy:3:7: `{key}` is not supported [")), "{found}");
    }
    // What the hint names is there, and does it.
    assert!(diagnostic("x:\n  test.nop: [{fire_event: true}]\n").contains("an `event.wait` that watches"));
    let instead = one("x:\n  test.nop: []\ny:\n  event.wait:\n    - tag: x/changed\n    - watch: [x]\n");
    assert_eq!(edges(&instead, "event.wait:y"), ["watch test.nop:x"]);
}

#[test]
#[rule("S-26")]
fn s26_one_state_may_wait_for_very_many_and_many_for_one() {
    let mut text = String::from(
        "{% for i in range(20000) %}\ns{{ i }}:\n  test.nop: [{require_in: [test.nop:last]}, {require: [first]}]\n{% endfor %}\n",
    );
    text.push_str("first:\n  file.absent: []\n");
    let tree = [
        ("c.zy", "include: [many]\nlast:\n  test.nop:\n    - require: [sls: many]\n"),
        ("many.zy", text.as_str()),
    ];
    let compiled = asked(&tree, "c");
    assert_eq!(state(&compiled, "test.nop:last").edges.len(), 20_001);
}

#[test]
#[rule("S-23")]
fn s23_a_mistake_in_a_loop_is_reported_once_and_counted() {
    let compiled = one(
        "{% for n in range(50) %}\ns{{ n }}:\n  test.nop:\n    - require:\n      - file: nope\n    - bad: 1\n{% endfor %}\n",
    );
    assert_eq!(
        texts(&compiled),
        [
            "states/c.zy:6:7: unknown parameter `bad` of test.nop",
            "states/c.zy:5:15: dag: state \"test.nop:s0\" requires unknown state \"file.managed:nope\""
        ]
    );
    assert_eq!(compiled.diagnostics[1].notes[..], ["the same for 49 more states from this line"]);
    let two = one("x:\n  test.nop:\n    - a: 1\n    - b: 2\n");
    assert_eq!(texts(&two).len(), 2);
}
