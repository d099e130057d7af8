//! S-48: settings go through the loader of states.

use crate::fixture::*;
use serde_json::{Value as Json, json};
use zester_compile::{
    CallError, Functions, Inputs, PythonCall, PythonFile, SettingsAsk, SettingsFiles, settings,
};
use zester_model::merge::Merge;
use zester_rule::rule;

/// The settings of a tree, or its problems as text.
fn read(list: &[(&str, &str)], which: &SettingsFiles) -> Result<Json, Vec<String>> {
    let ask = SettingsAsk { files: which.clone(), over: Vec::new(), merge: Merge::Smart };
    let read = with_inputs(&files(list), |inputs| {
        settings(&Inputs { tree_name: "settings", settings: &json!({}), ..*inputs }, &ask)
    });
    read.map(|settings| settings.root.to_json()).map_err(|(sources, diagnostics)| {
        diagnostics.iter().map(|diagnostic| text_in(&sources, diagnostic)).collect()
    })
}

fn assigned(list: &[(&str, &str)]) -> Result<Json, Vec<String>> {
    read(list, &SettingsFiles::Assigned)
}

fn these(list: &[(&str, &str)], names: &[&str]) -> Result<Json, Vec<String>> {
    read(list, &SettingsFiles::These(names.iter().map(|name| name.to_string()).collect()))
}

#[test]
#[rule("S-48")]
fn s48_a_top_file_of_either_name_assigns_by_target() {
    for top in ["top.zy", "top.sls"] {
        let tree = [
            (top, "base:\n  'web*':\n    - web\n  'G@os:Debian': [debian.init]\n  'db*': [secret]\n"),
            ("web.sls", "role: web\n"),
            ("debian/init.zy", "os: {{ grains.os }}\n"),
            ("secret.sls", "password: hidden\n"),
        ];
        let debian = tree.map(|(path, text)| (path, text.replace("debian.init", "debian")));
        let debian: Vec<(&str, &str)> = debian.iter().map(|(path, text)| (*path, text.as_str())).collect();
        assert_eq!(assigned(&debian), Ok(json!({"role": "web", "os": "Debian"})));
    }
}

#[test]
#[rule("S-48")]
fn s48_a_setting_without_a_name_is_an_error() {
    let told = these(&[("a.zy", "x: 1\n~: 2\n")], &["a.zy"]).unwrap_err();
    assert_eq!(told, ["settings/a.zy:2:1: a setting needs a name, not nothing"]);
}

#[test]
#[rule("S-47")]
fn s47_the_first_line_counts_behind_a_mark_of_the_encoding() {
    let tree = [("a.zy", "\u{feff}#!yaml\nx: '{{ plain }}'\n")];
    assert_eq!(these(&tree, &["a.zy"]), Ok(json!({"x": "{{ plain }}"})));
}

#[test]
#[rule("S-48")]
fn s48_include_is_followed_and_is_no_setting() {
    let tree = [
        ("top.zy", "'*': [app]\n"),
        ("app/init.zy", "include:\n  - .port\n  - common\nname: shop\nlog: {level: info}\n"),
        ("app/port.sls", "port: 80\nlog: {level: debug, to: syslog}\n"),
        ("common.zy", "port: 8080\n"),
    ];
    let merged = json!({"port": 8080, "log": {"level": "info", "to": "syslog"}, "name": "shop"});
    assert_eq!(assigned(&tree), Ok(merged));
    let both = [("a.zy", "include: [b]\nx: 1\n"), ("b.zy", "include: [a]\nx: 2\ny: 2\n")];
    assert_eq!(these(&both, &["a.zy", "b.zy"]), Ok(json!({"x": 1, "y": 2})));
    assert_eq!(these(&[("list.json", "{\"a\": [1, 2]}")], &["list.json"]), Ok(json!({"a": [1, 2]})));
}

#[test]
#[rule("S-48")]
fn s48_ciphertext_is_never_a_value() {
    let tree = [("a.zy", "#!yaml|gpg\npassword: |\n  -----BEGIN PGP MESSAGE-----\n")];
    // It stays sealed, with its place, for whoever opens settings.
    let read = these(&tree, &["a.zy"]).unwrap();
    let sealed = read["password"].as_str().unwrap();
    assert!(sealed.starts_with(zester_model::secret::SEALED), "{sealed}");
    assert!(sealed.contains("# settings/a.zy:3:3\n-----BEGIN"), "{sealed}");
    assert_eq!(these(&[("a.zy", "#!yaml\na: '{{ b }}'\n")], &["a.zy"]), Ok(json!({"a": "{{ b }}"})));
}

#[test]
#[rule("S-48")]
fn s48_every_error_of_every_file_has_its_place() {
    let tree = [
        ("top.zy", "'*': [a, b, gone]\n'I@role:web': [a]\n"),
        ("a.zy", "x: {{ nope }}\n"),
        ("b.zy", "include: [../../etc/x.zy]\nlist: [1\n"),
        ("c.zy", "- 1\n"),
    ];
    let found = assigned(&tree).unwrap_err();
    let starts = [
        "settings/top.zy:2:1: settings cannot be assigned by settings",
        "settings/a.zy:1:7: `nope` is undefined",
        "settings/b.zy:2:7: a `[` is never closed",
        "settings/top.zy:1:13: there is no file for `gone`",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (text, start) in found.iter().zip(starts) {
        assert!(text.starts_with(start), "{found:#?}");
    }
    assert_eq!(
        these(&tree, &["c.zy"]).unwrap_err(),
        ["settings/c.zy:1:1: settings must be a map of names to values, not a list"]
    );
}

#[test]
#[rule("D-6")]
fn d6_a_secret_is_a_leaf_that_stays_sealed_and_knows_its_place() {
    let sealed = "db:\n  password: !secret |\n    zester-secret 1\n    to a b c\n";
    let more = "db:\n  user: web\n";
    let settings = these(&[("a.zy", sealed), ("b.zy", more)], &["a.zy", "b.zy"]).unwrap();
    let text = settings["db"]["password"].as_str().unwrap();
    let text = text.strip_prefix(zester_model::secret::SEALED).unwrap();
    let (place, rest) = text.split_once('\n').unwrap();
    assert!(place.starts_with("# ") && place.ends_with("a.zy:2:13"), "{place}");
    assert_eq!(rest, "zester-secret 1\nto a b c\n");
    assert_eq!(settings["db"]["user"], "web");
    let full = these(&[("a.zy", "p: !<!secret> |\n  zester-secret 1\n")], &["a.zy"]).unwrap();
    assert!(full["p"].as_str().unwrap().starts_with(zester_model::secret::SEALED), "{full}");
    let found = these(&[("a.zy", "x: !secret [1]\n")], &["a.zy"]).unwrap_err();
    assert!(found[0].contains("`!secret` marks a sealed text, not a list or a map"), "{found:?}");
}

#[test]
#[rule("D-6")]
fn d6_settings_with_a_secret_may_be_assigned_by_id_only() {
    let sealed = ("db.zy", "p: !secret x\n");
    let through = ("more.zy", "include: [db]\n");
    for top in ["'*': [db]", "'E@.*': [more]", "'L@web-1,web-2 or web*': [db]"] {
        assert!(assigned(&[sealed, through, ("top.zy", top)]).is_ok(), "{top}");
    }
    for top in ["'G@os:*': [db]", "'* and G@os:*': [more]", "'not G@os:none': [db]"] {
        let found = assigned(&[sealed, through, ("top.zy", top)]).unwrap_err();
        assert!(
            found[0].contains("`db.zy` holds a secret, so it may be assigned by id only"),
            "{top}: {found:?}"
        );
        assert!(found[0].contains("top.zy:1:1"), "{found:?}");
    }
}

#[test]
#[rule("D-6")]
fn d6_nor_may_the_template_that_assigns_them_ask_for_facts() {
    let sealed = ("db.zy", "p: !secret x\n");
    let through = ("more.zy", "{% if grains.os is defined %}\ninclude: [db]\n{% endif %}\n");
    let plain = ("web.zy", "x: 1\n");
    let cases = [
        ("{% if facts.os != 'none' %}\n'*': [db]\n{% endif %}\n", "top.zy:2:7"),
        ("'*':\n{% if grains['os'] == 'Debian' or true %}\n  - db\n{% endif %}\n", "top.zy:3:5"),
        ("{% if salt['grains.get']('os') != 'none' %}\n'w*': [db]\n{% endif %}\n", "top.zy:2:8"),
        ("'{{ 'w*' if facts.get('os') else '*' }}': [db]\n", "top.zy:1:"),
        ("'web*':\n  - web\n{% if facts.os == 'none' %}\n'db*':\n{% endif %}\n  - db\n", "top.zy:6:5"),
        ("{% for name in grains if name == 'os' %}\n'*': [db]\n{% endfor %}\n", "top.zy:2:7"),
        ("{% if facts|length > 1 %}\n'*': [db]\n{% endif %}\n", "top.zy:2:7"),
        ("{% if grains %}\n'*': [db]\n{% endif %}\n", "top.zy:2:7"),
        ("{% if 'Debian' in grains|tojson %}\n'*': [db]\n{% endif %}\n", "top.zy:2:7"),
        ("{% if 'Debian' in '' ~ facts %}\n'*': [db]\n{% endif %}\n", "top.zy:2:7"),
        ("{% if grains.items()|list %}\n'*': [db]\n{% endif %}\n", "top.zy:2:7"),
        ("'*': [more]\n", "more.zy:2:11"),
    ];
    for (top, place) in cases {
        let found = assigned(&[sealed, through, plain, ("top.zy", top)]).unwrap_err();
        assert!(
            found[0].contains("`db.zy` holds a secret, and this line depends on facts"),
            "{top}: {found:?}"
        );
        assert!(found[0].contains(place), "{top}: {found:?}");
        // Ids stand in no settings file but the top file.
        let hint = if place.starts_with("top") { "write the line outside" } else { "assign `db` in top.zy" };
        assert!(found[0].contains(hint), "{top}: {found:?}");
    }
    for top in [
        "{% if id == opts.id and grains.get('id') != salt['grains.get']('id', 'x') and facts.id is not defined %}\n'*': [db]\n{% endif %}\n",
        "{% for file in ['db'] %}\n'*': [{{ file }}]\n{% endfor %}\n",
        "{% if facts.os is defined %}\n'*': [web]\n{% endif %}\n'web*':\n  - db\n",
    ] {
        let read = assigned(&[sealed, through, plain, ("top.zy", top)]);
        assert!(read.is_ok(), "{top}: {read:?}");
    }
}

#[test]
#[rule("D-6")]
fn d6_a_block_ends_where_the_engine_ends_it() {
    let sealed = ("db.zy", "p: !secret x\n");
    let asks = "{% if facts.os != 'none' %}\n";
    let cases = [
        "{% load_yaml as x %}\na: 1\n{% endload %}\n'*': [db]\n{% endif %}\n",
        "{% load_json as x %}\n{}\n{%- endload %}\n'*': [db]\n{% endif %}\n",
        "{% raw %}# {% endif %}{% endraw %}\n'*': [db]\n{% endif %}\n",
        "# {{ '{% endif %}' }}\n'*': [db]\n{% endif %}\n",
        "{% set x | indent(width=2) %}a{% endset %}\n'*': [db]\n{% endif %}\n",
    ];
    for inside in cases {
        let top = format!("{asks}{inside}");
        let found = assigned(&[sealed, ("top.zy", &top)]).unwrap_err();
        assert!(found[0].contains("this line depends on facts"), "{top}: {found:?}");
    }
    let key = "{% if facts.os != 'none' %}\ninclude:\n{% else %}\nother:\n{% endif %}\n  - db\n";
    let found = assigned(&[sealed, ("more.zy", key), ("top.zy", "'*': [more]\n")]).unwrap_err();
    assert!(found[0].contains("this line depends on facts"), "{found:?}");
    for before in [
        "{% load_yaml as x %}\na: 1\n{% endload %}\n",
        "{% set x %}a{% endset %}{# {% if %} #}\n",
        "# {% raw %}{% if %}{% endraw %}\n",
    ] {
        let outside =
            format!("{{% if facts.os is defined %}}\n'*': [web]\n{{% endif %}}\n{before}'web*':\n  - db\n");
        let read = assigned(&[sealed, ("web.zy", "x: 1\n"), ("top.zy", &outside)]);
        assert!(read.is_ok(), "{outside}: {read:?}");
    }
}

/// Every way to ask for a fact, by the function that answers. Those without a fact's name are called as they stand.
const ASKING: &[&str] = &[
    "config.get('os')",
    "config.get('id', 'x', 'os')",
    "config.items()",
    "config.option('os')",
    "config.option('id')",
    "facts.filter_by({'Debian': 'x'}, 'os')",
    "facts.get('os')",
    "facts.get('id:x')",
    "facts.get('')",
    "grains.equals('id', 'web-01')",
    "grains.equals('os', 'Debian')",
    "grains.fetch('os')",
    "grains.filter_by({'id': 'x', 'Debian': 'y'}, 'os')",
    "grains.get('os')",
    "grains.get('id', delimiter='d')",
    "grains.get('id', {}, true)",
    "grains.has_value('id')",
    "grains.item('id', 'os')",
    "grains.item('os')",
    "grains.items()",
    "grains.items('id')",
    "grains.keys('id')",
    "grains.ls('id')",
    "match.filter_by({'*': 'x'})",
    "match.filter_by({'*': 'x'}, 'id')",
    "test.echo('id')",
];

#[test]
#[rule("D-6")]
fn d6_no_function_asks_for_a_fact_unseen() {
    let sealed = ("db.zy", "p: !secret x\n");
    for call in ASKING {
        let (name, args) = call.split_once('(').unwrap();
        let (module, function) = name.split_once('.').unwrap();
        for asked in [format!("salt['{name}']({args}"), format!("salt.{module}.{function}({args}")] {
            let top = format!("{{% set x = {asked} %}}\n{{% if x is defined %}}\n'*': [db]\n{{% endif %}}\n");
            let found = assigned(&[sealed, ("top.zy", &top)]).expect_err(&top);
            assert!(found[0].contains("this line depends on facts"), "{top}: {found:?}");
        }
    }
    for method in ["get('os')", "get('id', delimiter='d')", "filter_by({'*': 'x'}, 'id')"] {
        let top = format!("{{% if grains.{method} is defined %}}\n'*': [db]\n{{% endif %}}\n");
        let found = assigned(&[sealed, ("top.zy", &top)]).expect_err(&top);
        assert!(!found.is_empty(), "{top}: {found:?}");
    }
    // A function of theirs that is added has its line above.
    for name in zester_compile::salt_function_names() {
        let of_facts =
            ["config.", "facts.", "grains.", "match."].iter().any(|module| name.starts_with(module));
        assert!(!of_facts || ASKING.iter().any(|call| call.starts_with(&format!("{name}("))), "{name}");
    }
}

/// A machine that runs programs.
struct Programs;

impl Functions for Programs {
    fn call(&self, _: &str, _: Vec<Json>, _: serde_json::Map<String, Json>) -> Result<Json, CallError> {
        Err("nothing is called here".to_string().into())
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn python(&self, program: &PythonFile<'_>, _: PythonCall<'_>) -> Result<Json, CallError> {
        match program.facts["os"] == "Debian" {
            true => Ok(json!({"*": ["db"]})),
            false => Ok(json!({})),
        }
    }
}

#[test]
#[rule("D-6")]
fn d6_nor_may_a_program_assign_them() {
    let ask = SettingsAsk { files: SettingsFiles::Assigned, over: Vec::new(), merge: Merge::Smart };
    let tree = |db: &str| files(&[("top.sls", "#!py\ndef run(): return {'*': ['db']}\n"), ("db.zy", db)]);
    let read = |tree: &Files| {
        with_inputs(tree, |inputs| {
            let inputs =
                Inputs { tree_name: "settings", settings: &json!({}), functions: &Programs, ..*inputs };
            settings(&inputs, &ask).map(|settings| settings.root.to_json()).map_err(|(sources, found)| {
                found.iter().map(|problem| text_in(&sources, problem)).collect::<Vec<_>>()
            })
        })
    };
    assert_eq!(read(&tree("p: 1\n")), Ok(json!({"p": 1})));
    let found = read(&tree("p: !secret x\n")).unwrap_err();
    assert!(found[0].contains("`db.zy` holds a secret, and this line depends on facts"), "{found:?}");
    assert!(found[0].contains("top.sls:1:1"), "{found:?}");
}
