//! reaction files, and that nothing of an event can change what they say.

use crate::fixture::files;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use zester_compile::reaction::ReactionFile;
use zester_model::node::{Node, ScalarType, Value};
use zester_rule::rule;

fn context(data: Json) -> Map<String, Json> {
    let event = json!({"id": "e1", "tag": "a/b", "peel": "web-01", "origin": "web-01", "depth": 0, "ts": 1,
        "data": data});
    let Json::Object(context) =
        json!({"event": event, "tag": "a/b", "data": data, "origin_facts": {"os": "Debian"}})
    else {
        unreachable!()
    };
    context
}

/// Renders with files beside it; a failure is its first place, sentence and hint.
fn with(list: &[(&str, &str)], text: &str, data: Json) -> Result<Node, String> {
    let failure = |(sources, diagnostics): (zester_model::source::Sources, Vec<_>)| {
        let found: &zester_model::diagnostic::Diagnostic = &diagnostics[0];
        let place = found.span.map(|span| sources.place(span)).unwrap_or_default();
        let hint = found.hint.as_ref().map(|hint| format!(" [{hint}]")).unwrap_or_default();
        format!("{place}: {}{hint}", found.message)
    };
    let file = ReactionFile::parse("r.zy", text, &files(list)).map_err(failure)?;
    file.render(&context(data)).map(|(node, _)| node).map_err(failure)
}

fn rendered(text: &str, data: Json) -> Result<Json, String> {
    with(&[], text, data).map(|node| node.to_json())
}

#[track_caller]
fn gives(text: &str, data: Json, expected: Json) {
    assert_eq!(rendered(text, data), Ok(expected), "{text}");
}

#[track_caller]
fn fails(text: &str, data: Json, expected: &str) {
    assert_eq!(rendered(text, data).as_ref().map_err(String::as_str), Err(expected), "{text}");
}

const RESTART: &str = "\
restart {{ data.service }}:
  dispatch.module:
    target: {{ event.peel }}
    function: service.restart
    args:
      name: {{ data.service }}
      why: \"{{ tag }}: {{ data.why }}\"
      note: it stopped because of {{ data.why }}
      {{ data.key }}: [{{ data.service }}, {k: {{ data.why }}}]
    state_id: |
      first {{ data.why }}
      last
{# {{ data.why }} #}
# {{ data.why }}
";

/// The shape of a node: its lists and its keys, with what values stand for left out.
fn shape(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(_) => json!("-"),
        Value::List(items) => Json::Array(items.iter().map(shape).collect()),
        Value::Map(entries) => {
            Json::Array(entries.iter().map(|(_, value)| json!({"value": shape(value)})).collect())
        }
    }
}

/// A text that nothing could take for more.
const HARMLESS: &str = "aQ";

/// What was rendered of the harmless text, had it been another: in keys and values alike.
fn saying(node: &Json, text: &str) -> Json {
    let put = |harmless: &String| harmless.replace(HARMLESS, text);
    match node {
        Json::String(harmless) => Json::String(put(harmless)),
        Json::Array(items) => items.iter().map(|item| saying(item, text)).collect(),
        Json::Object(map) => map.iter().map(|(key, value)| (put(key), saying(value, text))).collect(),
        other => other.clone(),
    }
}

/// What has been used to break out of a text into YAML or Jinja.
const ATTACKS: [&str; 58] = [
    "x\nevil:\n  dispatch.module: {target: '*', function: cmd.run}",
    "x\n  evil: 1",
    "x\r\nevil: 1",
    "x\u{85}evil: 1",
    "x\u{2028}evil: 1",
    "x\u{2029}evil: 1",
    "x\n\nevil:\n  log: 1\n",
    "\n---\nevil: 1",
    "\n...\nevil: 1",
    "--- x",
    "...",
    "'",
    "\"",
    "''",
    "\\",
    "\\\"",
    "\", evil: \"1",
    "', evil: '1",
    "x', y: 'z",
    "x: y",
    "x:",
    ": x",
    "- x",
    "-",
    "? x",
    "?",
    "[a, b]",
    "]",
    "}",
    "{a: b}",
    "}, evil: {",
    "], evil: [",
    ", evil: 1",
    "x, evil: 1",
    "&anchor x",
    "*anchor",
    "!!map x",
    "!secret x",
    "!!python/object/apply:os.system x",
    "%YAML 1.1",
    "x # y",
    "# x",
    "<<",
    "<<: {evil: 1}",
    "|\n  evil",
    ">-",
    "@x",
    "`x",
    "{{ 7 * 7 }}",
    "{% if true %}evil: 1{% endif %}",
    "{# x #}",
    "}} evil: 1 {{",
    "\t",
    "\0",
    "\u{feff}",
    "\u{107ffe}0\u{107fff}",
    "\u{100000}\u{108000}\u{107ffe}1",
    "\u{fffe}\u{ffff}\u{7f}\u{1b}[31m",
];

#[test]
#[rule("R-5")]
fn r5_no_attack_changes_the_structure_or_reaches_another_value() {
    let harmless = with(&[], RESTART, json!({"service": "s", "why": "w", "key": "k"})).unwrap();
    for attack in ATTACKS {
        for field in ["service", "why", "key"] {
            let mut data = json!({"service": "s", "why": "w", "key": "k"});
            data[field] = json!(attack);
            let node = with(&[], RESTART, data.clone()).unwrap_or_else(|why| panic!("{attack:?}: {why}"));
            assert_eq!(shape(&node), shape(&harmless), "{attack:?} as {field}");
            let (service, why, key) = (&data["service"], &data["why"], &data["key"]);
            let text = |value: &Json| value.as_str().unwrap().to_string();
            let mut args = json!({
                "name": service,
                "why": format!("a/b: {}", text(why)),
                "note": format!("it stopped because of {}", text(why)),
            });
            args[text(key)] = json!([service, {"k": why}]);
            let mut expected = json!({});
            expected[format!("restart {}", text(service))] = json!({"dispatch.module": {
                "target": "web-01",
                "function": "service.restart",
                "args": args,
                "state_id": format!("first {}\nlast\n", text(why)),
            }});
            assert_eq!(node.to_json(), expected, "{attack:?} as {field}");
        }
    }
}

/// Names everything that whoever sends an event can choose: its id, keys and values of its data, facts of its peel.
const ALL_IT_SAYS: &str = "\
tell {{ event.id }}:
  event.send:
    tag: x
    data:
      id: {{ event.id }}
      said: \"{{ event.id }} on {{ origin_facts.os }}\"
      plain: it was {{ event.id }} on {{ origin_facts.os }}
      fact {{ origin_facts.os }}: [{{ origin_facts.os }}, {k: {{ event.id }}}]
      facts: {{ origin_facts }}
      whole: {{ data }}
      json: {{ event.data | tojson }}
{% for key, value in data.items() %}
      key {{ key }}: {{ value }}
      {{ key }}: {{ key }}
{% endfor %}
{% for fact in origin_facts %}
      of {{ fact }}: '{{ fact }}'
{% endfor %}
  # {{ event.id }}
";

#[test]
#[rule("R-5")]
fn r5_no_id_fact_or_key_of_data_changes_the_structure() {
    let file = ReactionFile::parse("r.zy", ALL_IT_SAYS, &files(&[])).unwrap();
    let said = |id: &str, key: &str, value: &str, name: &str, fact: &str| {
        let data = json!({key: [value, {key: value}]});
        let event = json!({"id": id, "tag": "a/b", "peel": "web-01", "origin": "web-01", "depth": 0, "ts": 1,
            "data": data});
        let all =
            json!({"event": event, "tag": "a/b", "data": data, "origin_facts": {"os": fact, name: fact}});
        let (node, _) = file.render(all.as_object().unwrap()).map_err(|(_, found)| found).unwrap();
        node.to_json()
    };
    let safe = "v";
    for attack in ATTACKS {
        for place in 0..5 {
            let with = |text: &str| {
                let mut texts = [safe; 5];
                texts[place] = text;
                let [id, key, value, name, fact] = texts;
                said(id, key, value, name, fact)
            };
            assert_eq!(with(attack), saying(&with(HARMLESS), attack), "{attack:?} at {place}");
        }
    }
}

#[test]
#[rule("R-5")]
fn r5_a_scalar_that_is_one_tag_keeps_the_type() {
    let text = "b:\n  log:\n    v: {{ data.v }}\n    q: \"{{ data.v }}\"\n";
    for (value, quoted) in [
        (json!("yes"), "yes"),
        (json!("0x1F"), "0x1F"),
        (json!("null"), "null"),
        (json!("~"), "~"),
        (json!("1.10"), "1.10"),
        (json!(""), ""),
        (json!("  "), "  "),
        (json!(5), "5"),
        (json!(1.5), "1.5"),
        (json!(u64::MAX), "18446744073709551615"),
        (json!(true), "True"),
        (json!(null), "None"),
        (json!([1, "a"]), "[1, 'a']"),
        (json!({"a": {"<<": {"b": 1}}}), "{'a': {'<<': {'b': 1}}}"),
    ] {
        let data = json!({ "v": value });
        let got = rendered(text, data).unwrap();
        assert_eq!(got["b"]["log"]["q"], json!(quoted), "{value}");
        match value.as_u64().filter(|number| *number > i64::MAX as u64) {
            Some(number) => assert_eq!(got["b"]["log"]["v"].as_f64(), Some(number as f64)),
            None => assert_eq!(got["b"]["log"]["v"], value),
        }
    }
    let node = with(&[], text, json!({"v": "!secret AAAA"})).unwrap();
    assert_eq!(node.to_json()["b"]["log"]["v"], json!("!secret AAAA"));
    fn sealed(node: &Node) -> bool {
        match &node.value {
            Value::Scalar(scalar) => scalar.scalar_type == ScalarType::Sealed,
            Value::List(items) => items.iter().any(sealed),
            Value::Map(entries) => entries.iter().any(|(_, value)| sealed(value)),
        }
    }
    assert!(!sealed(&node), "a text of an event is never a sealed value");
}

#[test]
#[rule("R-5")]
fn r5_what_is_built_from_data_stays_one_value() {
    let evil = json!({"x": "a\nevil: 1"});
    let value = json!({"b": {"log": {"m": "[a\nevil: 1]"}}});
    for text in [
        "{% set m %}[{{ data.x }}]{% endset %}b: {log: {m: {{ m }}}}",
        "{% macro m() %}[{{ data.x }}]{% endmacro %}b: {log: {m: {{ m() }}}}",
        "b: {log: {m: {{ '[' ~ data.x ~ ']' }}}}",
        "{% macro f() %}[{{ caller() }}]{% endmacro %}b: {log: {m: {% call f() %}{{ data.x }}{% endcall %}}}",
        "b: {log: {m: {% filter string %}[{{ data.x }}]{% endfilter %}}}",
        "b: {log: {m: {{ '[%s]' % data.x }}}}",
        "b: {log: {m: {{ ['[', data.x, ']'] | join }}}}",
        "{% set n = namespace(v='[' ~ data.x) %}{% set n.v = n.v ~ ']' %}b: {log: {m: {{ n.v }}}}",
        "{% import 'm.jinja' as m %}b: {log: {m: {{ m.f(data.x) }}}}",
        "{% from 'm.jinja' import f %}b: {log: {m: {{ f(data.x) }}}}",
        "{% set m %}{% include 'i.jinja' %}{% endset %}b: {log: {m: {{ m }}}}",
    ] {
        let beside =
            [("m.jinja", "{% macro f(x) %}[{{ x }}]{% endmacro %}\n"), ("i.jinja", "[{{ data.x }}]")];
        let got = with(&beside, text, evil.clone()).map(|node| node.to_json());
        assert_eq!(got, Ok(value.clone()), "{text}");
    }
    // The brackets are the file's own here, and mean a list.
    let listed = "b: {log: {m: {% block z %}[{{ data.x }}]{% endblock %}}}";
    gives(listed, evil, json!({"b": {"log": {"m": ["a\nevil: 1"]}}}));
    // Data opens none that the file closes.
    for x in ["a\nevil: 1", "[a", HARMLESS] {
        let why = "r.zy:1:10: not YAML: mismatched bracket '{' closed by ']'";
        fails("b: {log: {m: {{ data.x | replace('a', '[a') }}]}}", json!({ "x": x }), why);
    }
    // What a template does with a captured text, it does with its letters.
    gives(
        "{% set m %}{{ data.x }}{% endset %}b: {log: {n: {{ m | length }}, u: {{ m | upper }}, s: {{ m[:1] }}}}",
        json!({"x": "a: b"}),
        json!({"b": {"log": {"n": 4, "u": "A: B", "s": "a"}}}),
    );
}

#[test]
#[rule("R-5")]
fn r5_tojson_and_yaml_are_one_value_in_their_place() {
    for attack in ATTACKS {
        for filter in ["tojson", "json", "yaml", "yaml(False)", "yaml_dquote", "yaml_encode", "yaml_squote"] {
            let text = format!("b: {{log: {{m: {{{{ data.x | {filter} }}}}, n: 1}}}}");
            match rendered(&text, json!({ "x": attack })) {
                Ok(got) => {
                    let keys: Vec<&String> = got["b"]["log"].as_object().unwrap().keys().collect();
                    assert_eq!(keys, ["m", "n"], "{attack:?} {filter}");
                    assert_eq!(got["b"]["log"]["m"], json!(attack), "{attack:?} {filter}");
                }
                // Characters that YAML has no way to write in single quotes.
                Err(why) => assert!(why.contains("cannot be read"), "{attack:?} {filter}: {why}"),
            }
            for quoted in
                ["\"{{ V }}\"", "'{{ V }}'", "\n    {{ V }} x", "|\n    {{ V }}", "x {{ V }}", "[{{ V }}, 1]"]
            {
                let inner = quoted.replace("V", &format!("data.x | {filter}"));
                let text = format!("b:\n  log:\n   m: {inner}\n   n: 1\n");
                let safe = rendered(&text, json!({"x": "v"})).unwrap();
                if let Ok(got) = rendered(&text, json!({ "x": attack })) {
                    assert_eq!(got["b"]["log"]["n"], json!(1));
                    let count = |json: &Json| json["b"]["log"].as_object().unwrap().len();
                    assert_eq!(count(&got), count(&safe), "{text}");
                }
            }
        }
    }
    let data = json!({"m": {"a": [1, {"<<": {"z": 1}}], "b": "x: y"}});
    for tag in [
        "data.m",
        "data.m | tojson",
        "data.m | yaml",
        "data.m | yaml(False)",
        "data.m|yaml(False)|indent(8)",
        "data.m | tojson(2)\n | indent(4)",
    ] {
        gives(
            &format!("b:\n  event.send:\n    tag: x\n    data:\n        {{{{ {tag} }}}}\n"),
            data.clone(),
            json!({"b": {"event.send": {"tag": "x", "data": data["m"]}}}),
        );
    }
}

#[test]
#[rule("R-5")]
fn r5_an_event_writes_no_blocks_actions_fields_or_merges() {
    let map = json!({"m": {"evil": {"log": {}}}, "l": [{"target": "*"}], "s": "x\ny: 1"});
    let block =
        "what `{{ }}` yields is one value, not a block [write the block in the file, or `{% include %}` one]";
    let field = "an event cannot write blocks, actions or their fields [write the keys here, each with its own `{{ }}`]";
    let merge =
        "what `{{ }}` yields cannot be merged with `<<` [write the keys here, each with its own `{{ }}`]";
    for (text, place, why) in [
        ("{{ data.m }}", "r.zy:1:1", field),
        ("{{ data.m | tojson }}", "r.zy:1:1", field),
        ("{{ data.s }}", "r.zy:1:1", block),
        ("{{ data.s }}\n{{ data.s }}", "r.zy:1:1", block),
        ("b: {{ data.s }}", "r.zy:1:4", block),
        ("b: {{ data.m }}", "r.zy:1:4", field),
        ("b: x {{ data.s }}", "r.zy:1:4", block),
        ("b:\n  log: {{ data.m }}", "r.zy:2:8", field),
        ("b:\n  log: {{ data.l }}", "r.zy:2:8", field),
        ("b:\n  log:\n    - {{ data.m }}", "r.zy:3:7", field),
        ("b:\n  log:\n    <<: {{ data.m }}", "r.zy:3:9", merge),
        ("b:\n  log:\n    <<: {{ data.l }}", "r.zy:3:9", merge),
        ("b:\n  log:\n    <<: [{{ data.m }}]", "r.zy:3:9", merge),
        ("b:\n  log:\n    args: &a {{ data.m }}\nc: *a", "r.zy:4:4", field),
        ("b:\n  log:\n    args: &a {k: {{ data.m }}}\nc: *a", "r.zy:4:4", field),
        ("b:\n  log:\n    args: &a {k: {{ data.m }}}\n    <<: *a", "r.zy:4:9", merge),
        (
            "b: {log: {a: {? {{ data.m }} : 1}}}",
            "r.zy:1:17",
            "a key is a text, and this yields a list or a map",
        ),
    ] {
        let expected = format!("{place}: {why}");
        assert_eq!(rendered(text, map.clone()), Err(expected), "{text}");
    }
    // A key that comes from an event is its letters.
    let merged = rendered("b: {log: {a: {'{{ data.k }}': {x: 1}}}}", json!({"k": "<<"}));
    assert_eq!(merged, Ok(json!({"b": {"log": {"a": {"<<": {"x": 1}}}}})));
    // A tag that yields nothing is nothing.
    gives("{{ data.n }}", json!({"n": null}), json!(null));
    gives("{{ '' if true }}", json!({}), json!(null));
    gives("{% if data.go %}b: {log: {}}{% endif %}", json!({"go": false}), json!(null));
}

#[test]
#[rule("R-5")]
fn r5_tags_anchors_and_the_like_are_never_made_of_data() {
    for text in [
        "b: {log: {m: !{{ data.x }} y}}",
        "b: {log: {m: &{{ data.x }} y, n: *{{ data.x }}}}",
        "b: {log: {m: *{{ data.x }}}}",
        "b:\n  log:\n    m: |{{ data.x }}\n      y",
        "%{{ data.x }}\n---\nb: {log: {}}\n",
    ] {
        for x in ["!str", "secret", "a", "+", "YAML 1.2"] {
            let got = rendered(text, json!({ "x": x }));
            let plain = rendered(text, json!({ "x": "plain" }));
            assert_eq!(got, plain, "{text} with {x}");
            if let Err(why) = got {
                assert!(!why.contains('\u{107ffe}'), "{why}");
            }
        }
    }
}

#[test]
#[rule("R-5")]
fn r5_keys_that_become_the_same_are_an_error_at_their_place() {
    fails(
        "b:\n  log: {}\n{{ data.x }}:\n  log: {}\n",
        json!({"x": "b"}),
        "r.zy:3:1: duplicate key `b` [rename it, or join the two]",
    );
    let why =
        rendered("b: {log: {a: 1, {{ data.x }}: 2, '{{ data.x }}': 3}}", json!({"x": "k".repeat(5000)}));
    assert!(why.clone().unwrap_err().len() < 700, "{why:?}");
}

#[test]
#[rule("R-5")]
fn r5_loops_conditions_and_includes_are_the_files_own() {
    gives(
        "{% for s in data.services %}\nrestart {{ s }}:\n  log: {message: {{ s }}}\n{% endfor %}\n",
        json!({"services": ["a", "b: c"]}),
        json!({"restart a": {"log": {"message": "a"}}, "restart b: c": {"log": {"message": "b: c"}}}),
    );
    let beside = [
        ("x/b.zy", "b{{ n }}:\n  log: {message: {{ data.x }}}\n"),
        ("map.yaml", "web: [80, 443]\n"),
        ("x/c.zy", "{% include './b.zy' %}"),
    ];
    let text = "{% import_yaml 'map.yaml' as map %}{% set n = map.web[1] %}{% include 'x/c.zy' %}";
    let got = with(&beside, text, json!({"x": "a\nb: c"})).map(|node| node.to_json());
    assert_eq!(got, Ok(json!({"b443": {"log": {"message": "a\nb: c"}}})));
}

#[test]
#[rule("R-5")]
fn r5_a_reaction_reaches_nothing_but_its_event_and_its_directory() {
    let none = json!({});
    fails(
        "b: {log: {m: {{ salt['cmd.run']('id') }}}}",
        none.clone(),
        "r.zy:1:17: a reaction has no `salt` [it calls nothing itself: start a job with `dispatch.module`]",
    );
    fails(
        "b:\n  log: {m: {{ grains.os }}}",
        none.clone(),
        "r.zy:2:15: a reaction has no `grains` [`origin_facts` holds the facts of the peel that sent the event]",
    );
    fails(
        "b:\n  log: {m: {{ pillar.get('x') }}}",
        none.clone(),
        "r.zy:2:15: a reaction has no `pillar` [settings are for peels: let the state that it starts use them]",
    );
    fails("{% include '../x.zy' %}", none.clone(), "r.zy:1:12: `../x.zy` leaves the states directory");
    fails(
        "{% include data.x %}",
        none.clone(),
        "r.zy:1:12: a reaction names its files in quotes: an event must not choose them",
    );
    fails(
        "{% import_yaml data.x as y %}",
        none.clone(),
        "r.zy:1:4: a reaction names its files in quotes: an event must not choose them",
    );
    fails(
        "{% include 'nope.zy' %}",
        none.clone(),
        "r.zy:1:12: there is no file `nope.zy` in the states directory",
    );
    gives("{% include 'nope.zy' ignore missing %}", none.clone(), json!(null));
    gives(
        "b: {log: {m: {{ origin_facts.os }} {{ event.tag }}}}",
        none,
        json!({"b": {"log": {"m": "Debian a/b"}}}),
    );
}

#[test]
#[rule("R-5")]
fn r5_mistakes_point_at_what_the_user_wrote() {
    fails("b:\n  log:\n    m: {{ data.nope }}\n", json!({}), "r.zy:3:11: `data.nope` is undefined");
    fails(
        "b:\n  log: {{ data.x }\n",
        json!({}),
        "r.zy:2:18: template syntax: unexpected `}`, expected end of variable block",
    );
    fails(
        "{% set a = data.x %}b:\n  log: {m: {{ a }}\n",
        json!({"x": "\n\n\n"}),
        "r.zy:2:8: a `{` is never closed [it opens here]",
    );
    fails(
        "b:\n  log:\n    m: {{ data.x }}: y\n   n: 1\n",
        json!({"x": "\n\n\n"}),
        "r.zy:3:20: not YAML: mapping values are not allowed in this context [a value that holds `: ` needs quotes, or the line above is indented differently]",
    );
    fails(
        "b: \u{100000}{{ tag }}",
        json!({}),
        "r.zy:1:4: U+100000 is a private character that is reserved here [remove it]",
    );
    // Spans of values are those of their tags, so that later problems find their way too.
    let node = with(&[], "b:\n  log:\n    args: {{ data.m }}\n", json!({"m": {"a": [1]}})).unwrap();
    let log = &node.as_map().unwrap()[0].1.as_map().unwrap()[0].1;
    let args = &log.as_map().unwrap()[0].1;
    let inner = &args.as_map().unwrap()[0].1;
    for node in [args, inner] {
        assert_eq!((node.span.line, node.span.column, node.span.len), (3, 11, 12));
    }
}

#[test]
#[rule("R-5")]
fn r5_renders_are_bounded() {
    let wide = "{% for a in range(9999) %}{% for b in range(99) %}{{ a }}{% endfor %}{% endfor %}";
    assert!(rendered(wide, json!({})).unwrap_err().contains("prints more than"));
    let large = "b: {log: {m: \"{{ data.x }}{{ data.x }}{{ data.x }}\"}}";
    assert!(rendered(large, json!({"x": "x".repeat(6 << 20)})).unwrap_err().contains("larger than 16 MiB"));
    let mut deep = json!("x");
    for _ in 0..126 {
        deep = json!([deep]);
    }
    let nested = "b: {log: {m: {{ data.x }}}}";
    assert!(rendered(nested, json!({ "x": deep })).unwrap_err().contains("nested more than"));
    let bomb = "{% set n = namespace(a=['x']) %}{% for i in range(40) %}{% set n.a = [n.a, n.a] %}{% endfor %}\
                b: {log: {m: {{ n.a }}}}";
    assert!(rendered(bomb, json!({})).is_err());
    // Another event is rendered as if nothing had been.
    let file = ReactionFile::parse("r.zy", "b: {log: {m: {{ data.x * 1000 }}}}", &files(&[])).unwrap();
    assert!(file.render(&context(json!({"x": "x".repeat(1 << 20)}))).is_err());
    let (node, _) = file.render(&context(json!({"x": 2}))).unwrap();
    assert_eq!(node.to_json()["b"]["log"]["m"], json!(2000));
}

fn hostile() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        proptest::sample::select(ATTACKS.to_vec()).prop_map(String::from),
        ".{0,12}".prop_map(String::from),
        "[\\-:?,\\[\\]{}#&*!|>'\"%@` \n\t\\\\<a0~.]{0,12}".prop_map(String::from),
    ];
    proptest::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
}

/// Every place of a file where a tag can stand, in the styles of YAML.
fn places() -> impl Strategy<Value = String> {
    let place = prop_oneof![
        Just("    a: V\n"),
        Just("    a: V W\n"),
        Just("    a: x V\n"),
        Just("    a: \"V\"\n"),
        Just("    a: 'x V W'\n"),
        Just("    a: |\n      V\n       W\n"),
        Just("    a: >-\n      x\n      V\n"),
        Just("    a: [V, W, 'V']\n"),
        Just("    a: {k: V, V: W}\n"),
        Just("    V: x\n"),
        Just("    \"V W\": x\n"),
        Just("    a: # V\n"),
        Just("    a: x # V\n"),
        Just("    a: V # W\n"),
        Just("    a: V:W\n"),
        Just("    a: V,W\n"),
        Just("    a:\n      - V\n      -  W\n"),
        Just("    a: !!str V\n"),
        Just("    a: &x V\n    b: *x\n"),
        Just("    ? V\n    : W\n"),
        Just("    a: V\n      W\n"),
        Just("    a: -V\n"),
        Just("    a: {{ data.v | tojson }}\n"),
        Just("    a: \"{{ data.v | tojson }}\"\n"),
        Just("    a: x {{ data.v | yaml }}\n"),
        Just("    a: {{ data.w | yaml(False) | indent(6) }}\n"),
        Just("    a: |\n      {{ data.w | yaml(False) | indent(6) }}\n"),
    ];
    place.prop_map(|place| place.replace('V', "{{ data.v }}").replace('W', "{{- data.w }}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[rule("R-5")]
    fn r5_structure_is_the_same_with_any_data(place in places(), v in hostile(), w in hostile()) {
        let text = format!("one {{{{ data.w }}}}:\n  log:\n{place}    z: 1\ntwo:\n  log: {{}}\n");
        let harmless = with(&[], &text, json!({"v": "v", "w": "w"}));
        let hostile = with(&[], &text, json!({"v": v, "w": w}));
        match (harmless, hostile) {
            (Ok(harmless), Ok(hostile)) => prop_assert_eq!(shape(&harmless), shape(&hostile), "{}", text),
            // The same keys twice, or characters that YAML cannot write: refused, which is no other structure.
            (Ok(_), Err(why)) => prop_assert!(
                why.contains("duplicate key") || why.contains("cannot be read"), "{why}\n{text}"),
            (Err(_), Ok(_)) => prop_assert!(false, "only hostile data makes it good: {text}"),
            (Err(_), Err(_)) => {}
        }
    }
}
