//! S-1 to S-9, S-16 to S-20, S-38, S-40: files, ids, parameters, attributes.

use crate::fixture::*;
use serde_json::json;
use std::time::Duration;
use zester_compile::{Ask, lint};
use zester_rule::rule;

#[test]
#[rule("S-1")]
fn s1_all_parameter_forms_declare_the_same_state() {
    let compiled = one(
        "a:\n  test.nop: []\nb:\n  test.nop:\nc:\n  test.configurable_test_state:\n    changes: true\n    result: true\nd:\n  test.configurable_test_state:\n    - changes: true\n    - result: true\n",
    );
    let expected =
        ["test.nop:a", "test.nop:b", "test.configurable_test_state:c", "test.configurable_test_state:d"];
    assert_eq!(names(&compiled), expected);
    assert_eq!(param(&compiled, expected[2], "changes"), json!(true));
    assert_eq!(param(&compiled, expected[3], "result"), json!(true));
}

#[test]
#[rule("S-1")]
fn s1_the_old_forms_of_salt_work() {
    let compiled = one("nginx:\n  pkg:\n    - installed\n    - version: 1.10\nredis: pkg.installed\n");
    assert_eq!(names(&compiled), ["pkg.installed:nginx", "pkg.installed:redis"]);
    let version = &state(&compiled, "pkg.installed:nginx").params[0].value;
    assert_eq!(version.as_text(), Some("1.10"));
}

#[test]
#[rule("S-1")]
fn s1_what_holds_no_state_is_refused() {
    assert_eq!(
        diagnostic("x: 5\n"),
        "states/c.zy:1:1: `x` holds no state, but the number 5 [write `module.function:` below it, as in `file.managed:`]"
    );
    assert_eq!(
        diagnostic("file.managed:\n  - path: /x\n"),
        "states/c.zy:1:1: `file.managed` holds no state, but a list [a state needs an id above `file.managed`]"
    );
    assert_eq!(
        diagnostic("just a text\n"),
        "states/c.zy:1:1: a state file holds states, not the text `just a text` [write `id:`, and below it `module.function:`]"
    );
    assert_eq!(names(&one("")), Vec::<String>::new());
    assert_eq!(names(&one("# nothing\n")), Vec::<String>::new());
}

#[test]
#[rule("S-2")]
fn s2_the_primary_parameter_defaults_to_the_id_and_name_is_its_alias() {
    let compiled = one(
        "/one:\n  file.managed:\n    - content: x\ntwo:\n  file.managed:\n    - name: /two\nthree:\n  file.managed:\n    - path: /three\n",
    );
    assert_eq!(param(&compiled, "file.managed:/one", "path"), json!("/one"));
    assert_eq!(param(&compiled, "file.managed:two", "path"), json!("/two"));
    assert_eq!(param(&compiled, "file.managed:three", "path"), json!("/three"));
}

#[test]
#[rule("S-3")]
fn s3_an_unknown_module_suggests_the_nearest() {
    assert_eq!(
        diagnostic("ok:\n  test.nop: []\nbad:\n  file.manged:\n    - path: /x\n"),
        "states/c.zy:4:3: unknown function `manged` of file [did you mean `file.managed`?]"
    );
    assert!(diagnostic("x:\n  pkg: []\n").contains("[name a function: pkg.installed, pkg.latest, "));
}

#[test]
#[rule("S-3")]
fn s3_an_unknown_parameter_suggests_the_nearest() {
    let compiled = one("x:\n  file.managed:\n    - path: /x\n    - contnet: hello\n");
    assert_eq!(
        texts(&compiled),
        ["states/c.zy:4:7: unknown parameter `contnet` of file.managed [did you mean `content`?]"]
    );
    assert_eq!(compiled.diagnostics[0].notes[..], ["`zester doc file.managed` lists the parameters"]);
    assert!(diagnostic("x:\n  test.nop:\n    - requier: []\n").ends_with("[did you mean `require`?]"));
}

#[test]
#[rule("S-3")]
fn s3_a_missing_or_repeated_parameter_is_an_error() {
    assert_eq!(diagnostic("/x:\n  file.symlink: []\n"), "states/c.zy:2:3: file.symlink needs `target`");
    assert_eq!(
        diagnostic("x:\n  cmd.run:\n    - env: {A: b}\n    - environment: {C: d}\n"),
        "states/c.zy:4:7: `environment` is given twice {states/c.zy:3:7 first given here}"
    );
    assert_eq!(
        diagnostic("x:\n  file.managed:\n    - path: /a\n    - name: /b\n"),
        "states/c.zy:4:7: `path` (`name`) is given twice {states/c.zy:3:7 first given here}"
    );
}

#[test]
#[rule("S-3")]
fn s3_what_is_misspelt_is_not_also_missing() {
    let compiled = one("/x:\n  file.symlink:\n    - tarrget: /y\n");
    assert_eq!(
        texts(&compiled),
        ["states/c.zy:3:7: unknown parameter `tarrget` of file.symlink [did you mean `target`?]"]
    );
    assert!(compiled.program.states[0].broken);
}

#[test]
#[rule("S-3")]
fn s3_all_problems_of_all_files_are_collected() {
    let compiled = asked(
        &[
            ("a.zy", "include: [b, missing]\nx:\n  file.manged: []\n"),
            ("b.zy", "y:\n  file.managed:\n    - pth: /x\n    - mdoe: 5\n"),
        ],
        "a",
    );
    let found = texts(&compiled);
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].contains("states/a.zy:1:14: there is no file for `missing`"), "{found:#?}");
}

#[test]
#[rule("S-3")]
fn s3_a_loose_item_says_what_is_missing() {
    assert_eq!(
        diagnostic("x:\n  file.managed:\n    - path:/x\n"),
        "states/c.zy:3:7: expected `name: value`, found the text `path:/x` [put a blank behind the colon]"
    );
}

#[test]
#[rule("S-4")]
fn s4_dotted_references_find_init_and_sibling_files() {
    let tree = [
        ("web/init.zy", "include:\n  - .config\n  - common.base\nweb:\n  test.nop: []\n"),
        ("web/config.zy", "conf:\n  test.nop: []\n"),
        ("common/base.zy", "base:\n  test.nop: []\n"),
        ("top/deep/x.zy", "include: [..other, salt://web/config.zy]\nx:\n  test.nop: []\n"),
        ("top/other/init.zy", "other:\n  test.nop: []\n"),
        ("m.yaml", "- exec:\n    - one: {}\n"),
        ("old/init.sls", "old:\n  test.nop: []\n"),
    ];
    assert_eq!(names(&asked(&tree, "web")), ["test.nop:conf", "test.nop:base", "test.nop:web"]);
    assert_eq!(names(&asked(&tree, "web.config")), ["test.nop:conf"]);
    assert_eq!(names(&asked(&tree, "web/config.zy")), ["test.nop:conf"]);
    assert_eq!(names(&asked(&tree, "web/config")), ["test.nop:conf"]);
    assert_eq!(names(&asked(&tree, "top.deep.x")), ["test.nop:other", "test.nop:conf", "test.nop:x"]);
    assert_eq!(names(&asked(&tree, "m.yaml")), ["exec.run:one"]);
    assert_eq!(names(&asked(&tree, "old")), ["test.nop:old"]);
    assert_eq!(&*state(&asked(&tree, "web"), "test.nop:conf").sls, "web.config");
}

#[test]
#[rule("S-4")]
fn s4_what_is_ambiguous_missing_or_outside_is_an_error() {
    let text = |tree: &[(&str, &str)], reference: &str| texts(&asked(tree, reference)).join("\n");
    let two = [("web.zy", ""), ("web/init.zy", "")];
    assert_eq!(text(&two, "web"), "`web` is ambiguous: `web.zy` and `web/init.zy` exist [keep one of them]");
    let old = [("web.zy", ""), ("web.sls", "")];
    assert_eq!(text(&old, "web"), "`web` is ambiguous: `web.zy` and `web.sls` exist [keep one of them]");
    assert_eq!(
        text(&[("web.zy", "")], "wbe"),
        "there is no file for `wbe`: looked for `wbe.zy` and `wbe/init.zy`, and the same with `.sls` [did you mean `web`?]"
    );
    assert!(text(&[], "").starts_with("an empty word is no reference"));
    for include in ["../x.zy", "/etc/x.zy", "salt://../x.zy", "...x", "a/../../x.zy"] {
        let source = format!("include:\n  - {include}\n");
        assert_eq!(
            text(&[("c.zy", source.as_str())], "c"),
            format!(
                "states/c.zy:2:5: `{include}` leaves the states directory [name a file below it, as in `web.config` or `web/config.zy`]"
            )
        );
    }
    assert_eq!(text(&[], "locked"), "cannot read `locked.zy`: permission denied");
}

#[test]
#[rule("S-5")]
fn s5_files_that_include_each_other_are_loaded_once_each() {
    let tree = [
        ("a.zy", "include: [b]\nin_a:\n  test.nop: []\n"),
        ("b.zy", "include: [c]\nin_b:\n  test.nop:\n    - require: [in_a]\n"),
        ("c.zy", "include: [a, .c]\nin_c:\n  test.nop: []\n"),
    ];
    let compiled = asked(&tree, "a");
    assert_eq!(names(&compiled), ["test.nop:in_c", "test.nop:in_b", "test.nop:in_a"]);
    assert_eq!(edges(&compiled, "test.nop:in_b"), ["require test.nop:in_a"]);
    assert_eq!(names(&asked(&tree, "c")), ["test.nop:in_b", "test.nop:in_a", "test.nop:in_c"]);
}

#[test]
#[rule("S-5")]
fn s5_a_file_is_loaded_once_however_often_it_is_included() {
    let tree = [
        ("a.zy", "include: [b, c, b]\n"),
        ("b.zy", "include: [d]\n"),
        ("c.zy", "include: [d, .b]\n"),
        ("d.zy", "x:\n  test.nop: []\n"),
    ];
    assert_eq!(names(&asked(&tree, "a")), ["test.nop:x"]);
}

#[test]
#[rule("S-5")]
fn s5_a_long_chain_of_includes_needs_no_stack() {
    let list: Vec<(String, String)> =
        (0..5_000).map(|n| (format!("f{n}.zy"), format!("include: [f{}]\n", n + 1))).collect();
    let mut tree: Vec<(&str, &str)> = list.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    tree.push(("f5000.zy", "x:\n  test.nop: []\n"));
    assert_eq!(names(&asked(&tree, "f0")), ["test.nop:x"]);
}

#[test]
#[rule("S-5")]
fn s5_extend_appends_requisites_and_replaces_the_rest() {
    let tree = [
        (
            "base.zy",
            "first:\n  test.nop: []\napp:\n  cmd.run:\n    - command: base\n    - cwd: /x\n    - require:\n      - test.nop:first\n",
        ),
        (
            "c.zy",
            "include: [base]\nextend:\n  app:\n    cmd.run:\n      - command: extended\n      - require:\n        - test.nop:mine\nmine:\n  test.nop: []\n",
        ),
    ];
    let compiled = asked(&tree, "c");
    assert_eq!(edges(&compiled, "cmd.run:app"), ["require test.nop:first", "require test.nop:mine"]);
    assert_eq!(param(&compiled, "cmd.run:app", "command"), json!("extended"));
    assert_eq!(param(&compiled, "cmd.run:app", "cwd"), json!("/x"));
}

#[test]
#[rule("S-5")]
fn s5_extend_replaces_a_parameter_by_whichever_of_its_names() {
    let tree = [
        (
            "base.zy",
            "app:\n  file.managed:\n    - path: /x\n    - content: base\n    - user: me\n    - mode: '0644'\n",
        ),
        (
            "c.zy",
            "include: [base]\nextend:\n  app:\n    file.managed:\n      - contents: extended\n      - owner: you\n      - name: /y\n",
        ),
        ("twice.zy", "include: [base]\nextend:\n  app:\n    file.managed: [{contents: a}, {content: b}]\n"),
    ];
    let compiled = asked(&tree, "c");
    assert_eq!(param(&compiled, "file.managed:app", "content"), json!("extended"));
    assert_eq!(param(&compiled, "file.managed:app", "user"), json!("you"));
    assert_eq!(param(&compiled, "file.managed:app", "path"), json!("/y"));
    let word = |name: &str| {
        let params = &state(&compiled, "file.managed:app").params;
        params.iter().find(|param| param.name == name).map(|param| param.word.to_string())
    };
    assert_eq!((word("content").as_deref(), word("mode").as_deref()), (Some("contents"), Some("mode")));
    assert_eq!(
        texts(&asked(&tree, "twice")),
        ["states/twice.zy:4:36: `content` is given twice {states/twice.zy:4:21 first given here}"]
    );
}

#[test]
#[rule("S-7")]
fn s7_names_and_use_take_any_name_of_a_parameter() {
    let compiled = one(
        "dirs:\n  file.managed:\n    - names:\n      - /a\n      - /b: [{contents: special}, {owner: you}]\n    - content: plain\n    - user: me\n/c:\n  file.managed:\n    - text: own\n    - use: [file: /b]\n",
    );
    assert_eq!(param(&compiled, "file.managed:/a", "content"), json!("plain"));
    assert_eq!(param(&compiled, "file.managed:/b", "content"), json!("special"));
    assert_eq!(param(&compiled, "file.managed:/b", "user"), json!("you"));
    assert_eq!(param(&compiled, "file.managed:/c", "content"), json!("own"));
    assert_eq!(param(&compiled, "file.managed:/c", "user"), json!("you"));
}

#[test]
#[rule("S-5")]
fn s5_extending_an_unknown_state_is_an_error() {
    assert_eq!(
        diagnostic("extend:\n  nobod:\n    test.nop: []\nnobody:\n  test.nop: []\n"),
        "states/c.zy:3:5: extend of unknown state \"test.nop:nobod\" [did you mean `nobody`?]"
    );
}

#[test]
#[rule("S-6")]
fn s6_the_same_name_twice_is_an_error_with_both_places() {
    let tree = [("a.zy", "include: [b]\nx:\n  test.nop: []\n"), ("b.zy", "x:\n  test.nop: []\n")];
    assert_eq!(
        texts(&asked(&tree, "a")),
        [
            "states/a.zy:3:3: dag: duplicate state \"test.nop:x\" [give one of them another id, or change the first with `extend`] {states/b.zy:2:3 first declared here}"
        ]
    );
    assert_eq!(
        diagnostic("x:\n  cmd.run: []\nx:\n  cmd.run: []\n"),
        "states/c.zy:3:1: duplicate key `x` [rename it, or join the two] {states/c.zy:1:1 first defined here}"
    );
    let several = one("x:\n  cmd.run: []\n  test.nop: []\n");
    assert_eq!(names(&several), ["cmd.run:x", "test.nop:x"]);
}

#[test]
#[rule("S-7")]
fn s7_names_makes_a_state_of_each_name() {
    let compiled = one(
        "dirs:\n  file.managed:\n    - names:\n      - /a\n      - /b:\n        - content: special\n    - content: plain\nafter:\n  test.nop:\n    - require:\n      - file: /b\n      - file: dirs\n",
    );
    assert_eq!(param(&compiled, "file.managed:/a", "content"), json!("plain"));
    assert_eq!(param(&compiled, "file.managed:/b", "content"), json!("special"));
    assert_eq!(param(&compiled, "file.managed:/b", "path"), json!("/b"));
    assert_eq!(edges(&compiled, "test.nop:after"), ["require file.managed:/b", "require file.managed:/a"]);
    assert_eq!(
        diagnostic("x:\n  pkg.installed:\n    - name: a\n    - names: [b]\n"),
        "states/c.zy:3:7: `name` and `names` cannot stand together {states/c.zy:4:7 `names` is here}"
    );
    assert_eq!(
        diagnostic("x:\n  pkg.installed:\n    - names: [b, b: {version: 1}]\n"),
        "states/c.zy:3:18: dag: duplicate state \"pkg.installed:b\" [give one of them another id, or change the first with `extend`] {states/c.zy:3:15 first declared here}"
    );
}

#[test]
#[rule("S-9")]
fn s9_yaml_habits_of_salt_files_work() {
    let compiled = one(
        "base: &base\n  test.nop: []\none:\n  file.managed:\n    - mode: 0640\n    - makedirs: yes\nthree:\n  <<: *base\n",
    );
    let one = state(&compiled, "file.managed:one");
    assert_eq!(one.params[0].value.as_text(), Some("0640"));
    assert_eq!(param(&compiled, "file.managed:one", "makedirs"), json!(true));
    state(&compiled, "test.nop:three");
    assert_eq!(
        diagnostic("x:\n\ttest.nop: []\n"),
        "states/c.zy:2:1: a tab cannot indent YAML [replace it by spaces]"
    );
    assert_eq!(
        diagnostic("x:\n  cmd.run:\n    - name: \"echo\ny:\n  test.nop: []\n"),
        "states/c.zy:3:13: a quote is never closed [it opens here]"
    );
    assert_eq!(diagnostic("x:\n  test.nop: [\n"), "states/c.zy:2:13: a `[` is never closed [it opens here]");
    assert_eq!(diagnostic("x: !foo\n  test.nop: []\n"), "states/c.zy:1:4: unknown tag `!foo` [remove it]");
    assert_eq!(
        diagnostic("x:\n  test.nop: [*nope]\n").split(" [").next(),
        Some("states/c.zy:2:14: not YAML: while parsing node, found unknown anchor")
    );
    assert!(diagnostic("a: 1\n---\nb: 2\n").starts_with("states/c.zy:2:1: a second document begins here"));
}

#[test]
#[rule("S-9")]
fn s9_aliases_are_bounded() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let items = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{items}]\n"));
    }
    assert!(diagnostic(&bomb).contains("aliases counted as often as used"));
    assert!(diagnostic("x: &a [*a]\n").contains("an alias stands inside what it names"));
    assert!(diagnostic(&"[".repeat(100_000)).contains("nested more than 128 levels deep"));
    let deep: String = (0..4_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(diagnostic(&deep).contains("nested more than 128 levels deep"));
}

#[test]
#[rule("S-16")]
fn s16_guards_take_a_command_or_a_list() {
    let compiled =
        one("x:\n  test.nop:\n    - onlyif: test -f /x\n    - unless: [a, 'b c']\n    - check_cmd: true\n");
    let attributes = &state(&compiled, "test.nop:x").attributes;
    assert_eq!(attributes.onlyif, ["test -f /x"]);
    assert_eq!(attributes.unless, ["a", "b c"]);
    assert_eq!(attributes.check_cmd, ["true"]);
    assert!(diagnostic("x:\n  test.nop:\n    - check_cmd: [{fun: test.echo}]\n").contains("not a map"));
    assert!(
        diagnostic("x:\n  test.nop:\n    - onlyif: [{name: x}]\n")
            .contains("not a map [write the command, or `fun:")
    );
    assert!(diagnostic("x:\n  test.nop:\n    - onlyif:\n").starts_with("states/c.zy:3:"));
}

#[test]
#[rule("S-17")]
fn s17_order_is_a_number_first_or_last() {
    let order = |value: &str| {
        state(&one(&format!("x:\n  test.nop: [{{order: {value}}}]\n")), "test.nop:x").attributes.order
    };
    assert_eq!((order("first"), order("last"), order("-5")), (-1_000_000, 1_000_000, -5));
    assert_eq!(
        diagnostic("x:\n  test.nop:\n    - order: soon\n"),
        "states/c.zy:3:14: `order` takes a number, not the text `soon` [write a number, `first` or `last`]"
    );
}

#[test]
#[rule("S-18")]
fn s18_retry_is_a_number_or_a_map() {
    let retry = |value: &str| {
        let compiled = one(&format!("x:\n  test.nop: [{{retry: {value}}}]\n"));
        let retry = state(&compiled, "test.nop:x").attributes.retry.unwrap();
        (retry.attempts, retry.interval)
    };
    assert_eq!(retry("3"), (3, Duration::from_secs(10)));
    assert_eq!(retry("{attempts: 4, interval: 0.05}"), (4, Duration::from_millis(50)));
    assert_eq!(retry("{attempts: 4, interval: 2m}"), (4, Duration::from_secs(120)));
    assert_eq!(retry("[{attempts: 4}, {interval: 1}]"), (4, Duration::from_secs(1)));
    for (value, why) in [
        (
            "[3]",
            "a list for `retry` holds `key: value`, not the number 3 [write `retry: 3`, or `- attempts: 3` in the list]",
        ),
        ("[attempts, 5]", "a list for `retry` holds `key: value`, not the text `attempts`"),
        ("{attempts: 4, until: false}", "`until` of `retry` is true, not `false`"),
        ("{attempts: 4, intervall: 3}", "unknown key `intervall` of `retry` [did you mean `interval`?]"),
        ("{splay: x}", "`splay` of `retry`: `x` is not a duration"),
        ("{attempts: 4, interval: soon}", "`soon` is not a duration"),
        ("-1", "the tries of `retry`"),
        ("5000", "the tries of `retry`"),
    ] {
        let found = diagnostic(&format!("x:\n  test.nop: [{{retry: {value}}}]\n"));
        assert!(found.contains(why), "{value}: {found}");
    }
}

#[test]
#[rule("S-47", "S-18")]
fn s47_retry_reads_what_salt_files_say() {
    let attributes = |value: &str| {
        let compiled = one(&format!("x:\n  test.nop: [{{retry: {value}}}]\n"));
        state(&compiled, "test.nop:x").attributes.clone()
    };
    let tries = |value: &str| attributes(value).retry.map(|retry| (retry.attempts, retry.interval.as_secs()));
    assert_eq!(tries("true"), Some((2, 10)));
    assert_eq!(tries("false"), None);
    assert_eq!(tries("{interval: 5}"), Some((2, 5)));
    assert_eq!(tries("{attempts: 4, interval: 2, until: True, splay: 7}"), Some((4, 2)));
    assert_eq!(tries("[{attempts: 4}, {interval: 2}]"), Some((4, 2)));
    assert_eq!(attributes("{splay: 7}").retry_splay, Duration::from_secs(7));
}

#[test]
#[rule("S-47", "S-16")]
fn s47_a_guard_may_ask_a_function() {
    let compiled = one(
        "x:\n  test.nop:\n    - onlyif:\n      - test -f /x\n      - fun: test.echo\n        args: [a, 1]\n        get_return: b\n    - unless: {fun: test.kwargs, key: value}\n",
    );
    let attributes = &state(&compiled, "test.nop:x").attributes;
    assert_eq!(attributes.onlyif, ["test -f /x"]);
    let asks: Vec<_> = attributes
        .asks
        .iter()
        .map(|ask| json!([ask.function, ask.args, ask.named, ask.part, ask.wanted]))
        .collect();
    assert_eq!(
        asks,
        [
            json!(["test.echo", ["a", 1], {}, "b", true]),
            json!(["test.kwargs", [], {"key": "value"}, null, false])
        ]
    );
    assert_eq!(
        diagnostic("x:\n  test.nop:\n    - onlyif:\n      - fun: test.ech\n"),
        "states/c.zy:4:14: unknown function `test.ech` [did you mean `test.echo`?]"
    );
}

#[test]
#[rule("S-3")]
fn s3_a_kind_of_salt_that_there_is_not_yet_says_what_does_the_same() {
    for kind in ["mysql_user.present", "docker_container.running", "selinux.boolean"] {
        let found = diagnostic(&format!("x:\n  {kind}: []\n"));
        let expected = format!("unknown module `{kind}` [there is no {kind} yet: use a `");
        assert!(found.contains(&expected), "{found}");
    }
    let found = diagnostic("x:\n  file.tidied: []\n");
    let expected = "unknown function `tidied` of file [there is no file.tidied yet: ";
    assert!(found.contains(expected), "{found}");
    // What there is needs no advice, and a slip of the pen in it gets a suggestion.
    assert!(diagnostic("x:\n  service.runing: []\n").contains("did you mean `service.running`?"));
    assert!(diagnostic("x:\n  file.frobnicate: []\n").ends_with("unknown function `frobnicate` of file"));
}

#[test]
#[rule("S-6")]
fn s6_a_duplicate_key_hides_nothing_else_that_is_wrong() {
    let text = "web:\n  cmd.run:\n    - comand: one\nother:\n  file.manged: []\nweb:\n  cmd.run: []\n  test.nop: [{bad: 1}]\nx:\n  file.managed:\n    path: /x\n    path: /y\n    - \n";
    let text = text.replace("    - \n", "    require: [nope, {test: web}]\n");
    let found = texts(&one(&text));
    let expected = [
        "states/c.zy:12:5: duplicate key `path`",
        "states/c.zy:6:1: duplicate key `web`",
        "states/c.zy:5:3: unknown function `manged` of file",
        "states/c.zy:3:7: unknown parameter `comand` of cmd.run",
        "states/c.zy:8:15: unknown parameter `bad` of test.nop",
        "states/c.zy:13:15: dag: state \"file.managed:x\" requires unknown state \"nope\"",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (text, start) in found.iter().zip(expected) {
        assert!(text.starts_with(start), "{found:#?}");
    }
}

#[test]
#[rule("S-19")]
fn s19_failhard_is_true_or_false() {
    assert!(state(&one("x:\n  test.nop: [{failhard: yes}]\n"), "test.nop:x").attributes.failhard);
    assert!(diagnostic("x:\n  test.nop: [{failhard: 5}]\n").contains("`failhard`: expected true or false"));
}

#[test]
#[rule("S-20")]
fn s20_module_run_hands_both_forms_on() {
    let compiled = one(
        "classic:\n  module.run:\n    - name: cmd.run\n    - command: x\ndotted:\n  module.run:\n    - file.managed:\n        path: /two\n",
    );
    assert_eq!(param(&compiled, "module.run:classic", "name"), json!("cmd.run"));
    assert_eq!(param(&compiled, "module.run:classic", "command"), json!("x"));
    assert_eq!(param(&compiled, "module.run:dotted", "file.managed"), json!({"path": "/two"}));
    assert_eq!(state(&compiled, "module.run:dotted").params.len(), 1);
}

#[test]
#[rule("S-38")]
fn s38_manifests_are_ordered_and_ensure_decides_the_kind() {
    let compiled = one(
        "- file:\n    - /etc/x:\n        ensure: present\n        content: a\n    - /gone: {ensure: absent}\n- file: {/dir: {ensure: directory}}\n- package:\n    - nginx: {ensure: removed}\n    - vim\n    - git: {ensure: '2.1'}\n- exec:\n    - run it:\n- cmd.run:\n    - also: {}\n",
    );
    assert_eq!(
        names(&compiled),
        [
            "file.managed:/etc/x",
            "file.absent:/gone",
            "file.directory:/dir",
            "pkg.removed:nginx",
            "pkg.installed:vim",
            "pkg.installed:git",
            "exec.run:run it",
            "cmd.run:also"
        ]
    );
    assert_eq!(edges(&compiled, "file.managed:/etc/x"), Vec::<String>::new());
    assert_eq!(edges(&compiled, "file.absent:/gone"), ["order file.managed:/etc/x"]);
    assert_eq!(edges(&compiled, "cmd.run:also"), ["order exec.run:run it"]);
    assert_eq!(param(&compiled, "pkg.installed:git", "version"), json!("2.1"));
    assert!(
        diagnostic("- file: {/x: {ensure: maybe}}\n")
            .contains("`ensure` of file is one of present, absent, directory")
    );
    let stopped = one("- service: {nginx: {ensure: stopped}}\n");
    assert_eq!(names(&stopped), ["service.dead:nginx"], "{:?}", texts(&stopped));
    assert_eq!(
        diagnostic("- widget: {x: {}}\n"),
        "states/c.zy:1:3: unknown type `widget` [the types are exec, file, package, service, and any `module.function`]"
    );
    assert_eq!(
        diagnostic("- fiel:\n    - /x:\n"),
        "states/c.zy:1:3: unknown type `fiel` [did you mean `file`?]"
    );
    assert!(diagnostic("- 5\n").contains("an ordered manifest lists `- type:` entries, not the number 5"));
}

#[test]
#[rule("S-40")]
fn s40_ordered_files_run_top_to_bottom_unless_a_requisite_says_otherwise() {
    let text = "#!ordered\na:\n  test.nop: []\nb:\n  test.nop: []\n  cmd.run: []\n";
    let compiled = one(text);
    assert_eq!(edges(&compiled, "test.nop:b"), ["order test.nop:a"]);
    assert_eq!(edges(&compiled, "cmd.run:b"), ["order test.nop:b"]);
    let back = one(
        "#!ordered\na:\n  test.nop:\n    - require: [test.nop:b]\nb:\n  test.nop: []\nc:\n  test.nop: []\n",
    );
    assert_eq!(edges(&back, "test.nop:a"), ["require test.nop:b"]);
    assert_eq!(edges(&back, "test.nop:b"), Vec::<String>::new());
    assert_eq!(edges(&back, "test.nop:c"), ["order test.nop:a"]);
    let flag = run(&files(&[("c.zy", &text[10..])]), &Ask::References(vec!["c".into()]), true);
    assert_eq!(edges(&flag, "test.nop:b"), ["order test.nop:a"]);
    assert!(diagnostic("#!mako\n").contains("unknown renderer `mako`"));
}

#[test]
#[rule("S-40")]
fn s40_first_and_last_hold_in_ordered_files_too() {
    let text = "a:\n  test.nop: []\nz:\n  test.nop: [{order: last}]\nb:\n  test.nop: []\nf:\n  test.nop: [{order: first}, {require: [g]}]\ng:\n  test.nop: []\n";
    let flag = run(&files(&[("c.zy", text)]), &Ask::References(vec!["c".into()]), true);
    for compiled in [flag, one(&format!("#!ordered\n{text}"))] {
        assert_eq!(edges(&compiled, "test.nop:g"), Vec::<String>::new());
        assert_eq!(edges(&compiled, "test.nop:f"), ["require test.nop:g"]);
        assert_eq!(edges(&compiled, "test.nop:a"), ["order test.nop:f"]);
        assert_eq!(edges(&compiled, "test.nop:b"), ["order test.nop:a"]);
        assert_eq!(edges(&compiled, "test.nop:z"), ["order test.nop:b"]);
    }
    // What waits for a last one is not held up by another last one.
    let two = one(
        "#!ordered\nl:\n  test.nop: [{order: last}]\nm:\n  test.nop: [{order: last}]\nx:\n  test.nop: [{require: [m]}]\n",
    );
    assert_eq!(edges(&two, "test.nop:x"), ["require test.nop:m"]);
    assert_eq!(edges(&two, "test.nop:l"), ["order test.nop:x"]);
}

#[test]
#[rule("S-40")]
fn s40_order_edges_stay_inside_their_file() {
    let tree = [
        ("a.zy", "#!ordered\ninclude: [b]\nx:\n  test.nop: []\n"),
        ("b.zy", "y:\n  test.nop: []\nz:\n  test.nop: []\n"),
    ];
    let compiled = asked(&tree, "a");
    assert_eq!(edges(&compiled, "test.nop:x"), Vec::<String>::new());
    assert_eq!(edges(&compiled, "test.nop:z"), Vec::<String>::new());
}

#[test]
#[rule("S-40")]
fn s40_lint_points_out_what_nothing_orders() {
    let advice = |text: &str| {
        let compiled = one(text);
        assert_eq!(texts(&compiled), Vec::<String>::new());
        lint(&compiled).iter().map(|diagnostic| self::text(&compiled, diagnostic)).collect::<Vec<_>>()
    };
    let loose = advice("/x:\n  pkg.installed: []\n  file.touch: []\n");
    assert_eq!(loose.len(), 1);
    assert!(loose[0].starts_with("states/c.zy:3:3: nothing orders pkg.installed:/x and file.touch:/x"));
    let bound = "/x:\n  pkg.installed: []\n  file.touch:\n    - require: [pkg: /x]\n";
    assert_eq!(advice(bound), Vec::<String>::new());
    assert_eq!(advice("x:\n  cmd.run:\n    - stdin: 0123\n").len(), 1);
    assert_eq!(advice("x:\n  file.managed:\n    - mode: 0644\n").len(), 0);
    assert_eq!(advice("x:\n  cmd.run:\n    - stdin: 22:22\n").len(), 1);
    assert_eq!(advice("x:\n  cmd.run:\n    - stdin: '22:22'\n").len(), 0);
    assert_eq!(advice("yes:\n  test.nop: []\n").len(), 1);
    assert_eq!(advice("'yes':\n  test.nop: []\n").len(), 0);
}
