//! S-10 and C-7: what templates can do, and that their mistakes point at the user's line.

use crate::fixture::*;
use serde_json::json;
use zester_compile::render;
use zester_model::diagnostic::Kind;
use zester_rule::rule;

/// Renders a text in the usual surroundings, with files beside it.
fn rendered_with(list: &[(&str, &str)], text: &str) -> Result<String, String> {
    let none = serde_json::Map::new();
    let rendered = with_inputs(&files(list), |inputs| render(inputs, "dir/t.jinja", text, &none));
    rendered.map_err(|(sources, diagnostics)| {
        let diagnostic = &diagnostics[0];
        let place = diagnostic.span.map(|span| sources.place(span)).unwrap_or_default();
        let hint = diagnostic.hint.as_ref().map(|hint| format!(" [{hint}]")).unwrap_or_default();
        format!("{place}: {}{hint}", diagnostic.message)
    })
}

fn rendered(text: &str) -> Result<String, String> {
    rendered_with(&[], text)
}

#[track_caller]
fn gives(text: &str, expected: &str) {
    assert_eq!(rendered(text).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn fails(text: &str, expected: &str) {
    assert_eq!(rendered(text).as_ref().map_err(String::as_str), Err(expected), "{text}");
}

#[test]
#[rule("S-10")]
fn s10_facts_and_settings_under_all_their_names() {
    gives("{{ facts.os }} {{ grains['os'] }} {{ grains.get('nope', 'd') }}", "Debian Debian d");
    gives(
        "{{ settings.app.port }} {{ pillar['app']['name'] }} {{ pillar.get('nope', 'dflt') }}",
        "8080 shop dflt",
    );
    gives("{{ pillar.get('app:port') }} {{ salt['pillar.get']('app:port', 1) }}", "8080 8080");
    gives(
        "{{ salt.pillar.get('app:nope', 'x') }}|{{ salt['grains.get']('nested:deep:x') }}|{{ salt['config.get']('os') }}",
        "x|7|Debian",
    );
    gives("{{ salt['pillar.get']('nope') }}|{{ salt['grains.get']('roles:1') }}", "|db");
    gives("{% for k, v in pillar.app.items() %}{{ k }}={{ v }};{% endfor %}", "port=8080;name=shop;");
    gives("{{ 'os' in grains }} {{ grains|length }} {{ opts.id }} {{ id }}", "True 5 web-01 web-01");
    gives(
        "{{ salt['pillar.get']('app', {'name': 'x', 'y': 1}, merge=True)|json }}",
        r#"{"name": "shop", "port": 8080, "y": 1}"#,
    );
}

#[test]
#[rule("S-10")]
fn s10_filter_by_chooses_by_a_fact() {
    let map =
        "{'Debian': {'pkg': 'apache2', 'n': 1}, 'RedHat': {'pkg': 'httpd'}, 'default': {'pkg': 'd', 'z': 3}}";
    gives(&format!("{{{{ salt['grains.filter_by']({map}).pkg }}}}"), "apache2");
    gives(
        &format!("{{{{ grains.filter_by({map}, merge={{'n': 2}})|json }}}}"),
        r#"{"n": 2, "pkg": "apache2"}"#,
    );
    gives(&format!("{{{{ salt.grains.filter_by({map}, grain='nope').pkg }}}}"), "d");
    gives(
        &format!("{{{{ salt.grains.filter_by({map}, base='default')|json }}}}"),
        r#"{"n": 1, "pkg": "apache2", "z": 3}"#,
    );
}

#[test]
#[rule("S-10")]
fn s10_functions_are_asked_of_the_caller() {
    gives("{{ salt['test.echo']('hi') }} {{ salt.test.echo([1, {'a': 2}])[1].a }}", "hi 2");
    gives("{% set f = salt['test.kwargs'] %}{{ f(a=1, b=[2])|json }}", r#"{"a": 1, "b": [2]}"#);
    fails("x\n{{ salt['cmd.run']('id') }}", "states/dir/t.jinja:2:8: cmd.run: commands are not allowed here");
    fails(
        "{{ salt['cmd.rum']('id') }}",
        "states/dir/t.jinja:1:8: unknown function `cmd.rum` [did you mean `cmd.run`?]",
    );
    fails(
        "{{ salt.test.ehco('id') }}",
        "states/dir/t.jinja:1:13: unknown function `test.ehco` [did you mean `test.echo`?]",
    );
}

#[test]
#[rule("S-10")]
fn s10_lists_and_maps_change_in_place_as_in_python() {
    gives(
        "{% set xs = [] %}{% for n in [3, 1, 2] %}{% do xs.append(n * 2) %}{% endfor %}{{ xs|join(',') }}",
        "6,2,4",
    );
    gives(
        "{% set d = {} %}{% do d.update({'a': [1]}) %}{% do d.a.append(2) %}{% do d.update(b=3) %}{{ d|json }}",
        r#"{"a": [1, 2], "b": 3}"#,
    );
    gives(
        "{% set d = {} %}{% do d.setdefault('k', []).append(1) %}{% do d.setdefault('k', []).append(2) %}{{ d }}",
        "{'k': [1, 2]}",
    );
    gives(
        "{% set a = [1] %}{% set b = a %}{% do b.append(2) %}{{ a }} {{ a == [1, 2] }} {{ 2 in a }}",
        "[1, 2] True True",
    );
    gives(
        "{% set l = [1, 2, 3] %}{{ l.pop() }}{{ l.pop(0) }}{% do l.insert(0, 9) %}{% do l.extend([7, 8]) %}{% do l.remove(2) %}{{ l }}",
        "31[9, 7, 8]",
    );
    gives(
        "{% set l = [3, 1, 2] %}{% do l.sort() %}{{ l }}{% do l.reverse() %}{{ l }}{{ l.index(1) }}",
        "[1, 2, 3][3, 2, 1]2",
    );
    gives("{% set d = {'a': 1, 'b': 2} %}{{ d.pop('a') }}{{ d.pop('x', 7) }}{{ d }}", "17{'b': 2}");
    gives(
        "{% set ns = namespace(items=[], n=0) %}{% for i in range(3) %}{% do ns.items.append(i) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.items }}{{ ns.n }}",
        "[0, 1, 2]3",
    );
    gives("{% set x = pillar.list %}{% do x.append(3) %}{{ x }}{{ pillar.list }}", "[1, 2, 3][1, 2]");
    gives("{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set t = (1, 'x') %}{{ t }}", "12(1, 'x')");
    gives(
        "{% set x = [1] + [2] %}{% do x.append(3) %}{{ x }}{% set y = x|map('string')|list %}{{ y }}",
        "[1, 2, 3]['1', '2', '3']",
    );
    gives(
        "{% set l = [[1], {'a': 2}] %}{{ l is sequence }}{{ l[1] is mapping }}{{ l[0][0] }}{{ l[-1].a }}{{ l|length }}",
        "TrueTrue122",
    );
    fails(
        "{% do pillar.list.append(1) %}",
        "states/dir/t.jinja:1:18: `append` works on a list or map that the template made with `set`",
    );
}

#[test]
#[rule("S-10")]
fn s10_python_text_methods_and_salt_filters() {
    gives(
        "{{ 'a,b'.split(',') }} {{ '%s-%02d'|format('x', 5) }} {{ '{}-{:02d}'.format('x', 5) }}",
        "['a', 'b'] x-05 x-05",
    );
    gives(
        "{{ 'x'.ljust(3) }}| {{ '7'.zfill(3) }} {{ 'a-b-c'.rsplit('-', 1) }} {{ ','.join(['a', 'b']) }}",
        "x  | 007 ['a-b', 'c'] a,b",
    );
    gives("{{ {'a': [1, 'x: y'], 'b': none, 'c': true}|yaml }}", "{a: [1, 'x: y'], b: null, c: true}");
    gives("{{ {'a': [1, {'b': 2}], 'c': {}}|yaml(False) }}", "a:\n- 1\n- b: 2\nc: {}");
    gives("{{ 'it''s'|yaml_squote }} {{ 'a\"b'|yaml_dquote }} {{ 5|yaml_encode }}", "'its' \"a\\\"b\" 5");
    gives(
        "{{ 'a b'|quote }} {{ 'ab'|quote }} {{ 'yes'|to_bool }} {{ 'foobar'|regex_replace('o+(b)', '0\\\\1') }}",
        "'a b' ab True f0bar",
    );
    gives(
        "{{ 'web-01'|regex_match('(\\\\w+)-(\\\\d+)') }} {{ 'x'|regex_search('y') }}",
        "('web', '01') None",
    );
    gives(
        "{{ 'hello'|b64encode }} {{ 'aGVsbG8='|b64decode }} {{ '/a/b.c'|basename }} {{ '/a/b.c'|dirname }}",
        "aGVsbG8= hello b.c /a",
    );
    gives(
        "{{ [1, 2]|union([2, 3]) }} {{ [1, 2]|intersect([2, 3]) }} {{ [1, 2]|difference([2]) }} {{ [1, 1]|unique }}",
        "[1, 2, 3] [2] [1] [1]",
    );
    gives(
        "{{ '10.0.0.1'|is_ip }} {{ [1]|is_list }} {{ {'a': {'b': 1}}|traverse('a:b') }} {{ [1, 3]|avg }}",
        "True True 1 2.0",
    );
    gives("{{ 'a: [1, 2]'|load_yaml }} {{ '{\"a\": 1}'|load_json }}", "{'a': [1, 2]} {'a': 1}");
    gives("{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a\nb'|indent(2, true) }}", "a\n  b\n\n  c|  a\n  b");
    gives(
        "{{ [{'n': 'a'}, {'n': 'b'}]|join(',', attribute='n') }} {{ 'aXa'|replace('X', '--') }}",
        "a,b a--a",
    );
    gives("{{ ['<', \"'\"]|tojson }}", "[\"\\u003c\", \"\\u0027\"]");
}

#[test]
#[rule("S-10")]
fn s10_includes_imports_and_salt_statements() {
    let tree = [
        (
            "dir/map.jinja",
            "{% set os = grains.os %}{% macro hi(x) %}hi {{ x }}{% endmacro %}{% set l = [1] %}",
        ),
        ("inc.txt", "[{{ who }}]"),
        ("data.yaml", "a: [1, 2]\nb: yes\n"),
        ("data.json", "{\"j\": 1}"),
    ];
    let gives = |text: &str, expected: &str| {
        assert_eq!(rendered_with(&tree, text).as_deref(), Ok(expected), "{text}")
    };
    gives(
        "{% from 'dir/map.jinja' import os, hi as hello with context %}{{ os }} {{ hello('x') }}",
        "Debian hi x",
    );
    gives("{% import './map.jinja' as map %}{{ map.os }} {{ map.hi(1) }}{{ map.l }}", "Debian hi 1[1]");
    gives(
        "{% set who = 'me' %}{% include 'inc.txt' %}{% set c %}{% include 'inc.txt' %}{% endset %}{{ c|length }}",
        "[me]4",
    );
    gives("{% import_yaml 'data.yaml' as d %}{% do d.a.append(3) %}{{ d.a }}{{ d.b }}", "[1, 2, 3]True");
    gives("{%- import_json \"salt://data.json\" as d with context -%} {{ d.j }}", "1");
    gives("{% set who = 'me' %}{% import_text 'inc.txt' as t %}{{ t }}", "[me]");
    gives("{% load_yaml as d %}\nx: {{ 1 + 1 }}\ny: [a]\n{% endload %}{{ d.x }}{{ d.y }}", "2['a']");
    gives("{% load_json as d %}{\"x\": [1]}{% endload %}{{ d.x }}", "[1]");
    gives(
        "{% raw %}{{ x }}{% endraw %}{# gone #}{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 3 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "{{ x }}013",
    );
    let fails = |text: &str, expected: &str| {
        assert_eq!(rendered_with(&tree, text).as_ref().map_err(String::as_str), Err(expected), "{text}");
    };
    fails(
        "a\n {% include 'nope' %}",
        "states/dir/t.jinja:2:5: there is no file `nope` in the states directory",
    );
    fails("{% import_yaml 'nope.yaml' as x %}", "states/dir/t.jinja:1:4: `nope.yaml` does not exist");
    fails(
        "{% include '../../etc/passwd' %}",
        "states/dir/t.jinja:1:4: `dir/../../etc/passwd` leaves the states directory",
    );
    fails("{% include '/etc/passwd' %}", "states/dir/t.jinja:1:4: `/etc/passwd` leaves the states directory");
}

#[test]
#[rule("S-10")]
fn s10_blocks_are_neither_trimmed_nor_stripped() {
    gives("a\n  {% if true %}\n  b\n  {% endif %}\nc\n", "a\n  \n  b\n  \nc\n");
    gives("a  {%- if true -%}  b  {%- endif -%}  c", "abc");
    gives("a  {{- 'x' -}}  b {#- c -#} d", "axbd");
    gives("{{ [1,2][0] }}{{{'a': 1}.a}}{{-5}}{{ -5 }}", "115-5");
}

#[test]
#[rule("S-10")]
fn s10_conditions_mean_what_they_say() {
    for (condition, holds) in [
        ("true", true),
        ("1 == 2 or true", true),
        ("not true", false),
        ("(1 == 1)", true),
        ("((1)) in ([1])", true),
        ("3 is divisibleby 3", true),
        ("1 is defined and nope is not defined", true),
        ("'web' in grains.roles and grains.os == 'RedHat'", false),
        ("grains['os'] in ['Debian', 'Ubuntu']", true),
        ("grains.get('x')", false),
        ("1 < 2 < 3", true),
        ("[] or {}", false),
    ] {
        let expected = if holds { "yes" } else { "no" };
        gives(&format!("{{% if {condition} %}}yes{{% else %}}no{{% endif %}}"), expected);
        gives(
            &format!("{{%- if false -%}} x {{%- elif {condition} -%}} yes {{%- else -%}} no {{%- endif -%}}"),
            expected,
        );
    }
}

#[test]
#[rule("S-10")]
fn s10_an_undefined_name_points_at_itself_and_suggests() {
    fails("x\n  {{ nobody_knows }}", "states/dir/t.jinja:2:6: `nobody_knows` is undefined");
    fails(
        "{% set colour = 1 %}{{ color }}",
        "states/dir/t.jinja:1:24: `color` is undefined [did you mean `colour`?]",
    );
    fails("{{ grain.os }}", "states/dir/t.jinja:1:4: `grain` is undefined [did you mean `grains`?]");
    fails("é {{ grains.oss }}", "states/dir/t.jinja:1:6: `grains.oss` is undefined [did you mean `os`?]");
    fails(
        "{{ pillar.app.nope }}",
        "states/dir/t.jinja:1:4: `pillar.app.nope` is undefined [give it a default: `pillar.get('app:nope', …)`]",
    );
    fails(
        "{% if grains.zzz %}{% endif %}",
        "states/dir/t.jinja:1:7: `grains.zzz` is undefined [give it a default: `grains.get('zzz', …)`]",
    );
    fails("{{ 'a' ~ nope ~ 'b' }}", "states/dir/t.jinja:1:4: `'a' ~ nope` is undefined");
    gives("{{ grains.nope|default('d') }}{{ nope|default('e') }}{{ nope is defined }}", "deFalse");
}

#[test]
#[rule("S-10")]
fn s10_percent_formats_texts_and_divides_numbers() {
    gives("{{ '%s' % 5 }} {{ '%s/%s' % ('a', 'b') }} {{ '%02d' % 3 }}", "5 a/b 03");
    gives("{{ 7 % 3 }} {{ -7 % 3 }} {{ 7.5 % 2 }} {{ (1 + 6) % (1 + 2) * 2 }}", "1 2 1.5 2");
    gives("{% set n = 4 %}{% if n % 2 == 0 and '%d' % n == '4' %}even{% endif %}", "even");
    fails("{{ 7 % 0 }}", "states/dir/t.jinja:1:4: there is no remainder of 7 and 0");
}

#[test]
#[rule("S-10")]
fn s10_maps_merge_as_in_formulas() {
    gives(
        "{% set a = {'x': {'p': 1}} %}{{ salt['slsutil.merge'](a, {'x': {'q': 2}})|json }} {{ a|json }}",
        r#"{"x": {"p": 1, "q": 2}} {"x": {"p": 1}}"#,
    );
    gives(
        "{% set a = {'l': [1]} %}{% do salt['slsutil.update'](a, {'l': [2]}, merge_lists=True) %}{{ a|json }}",
        r#"{"l": [1, 2]}"#,
    );
    gives("{% set a = {} %}{% do salt['defaults.merge'](a, {'y': 1}) %}{{ a.y }}", "1");
    gives("{{ salt['grains.equals']('os', 'Debian') }} {{ salt['grains.has_value']('nope') }}", "True False");
    gives("{{ salt['pillar.keys']('app')|join(',') }}", "port,name");
}

#[test]
#[rule("S-10")]
fn s10_filters_of_formulas() {
    gives("{{ 'a'|md5 }}", "0cc175b9c0f1b6a831c399e269772661");
    gives("{{ ('a'|sha256)[:8] }} {{ ('a'|sha512)[:8] }}", "ca978112 1f40fc92");
    gives("{{ [[1, [2]], 3]|flatten }} {{ [[1, [2]], 3]|flatten(1) }}", "[1, 2, 3] [1, [2], 3]");
    gives("{{ 'x'|sequence }} {{ ['x']|sequence }}", "['x'] ['x']");
    gives("{{ 'CamelCase'|to_snake_case }} {{ 'snake_case'|to_camelcase }}", "camel_case snakeCase");
    gives("{{ '/etc'|path_join('app', 'x.conf') }} {{ '10K'|human_to_bytes }}", "/etc/app/x.conf 10240");
    gives("{{ 'a b'|contains_whitespace }} {{ 'ff'|is_hex }} {{ 'one two'|wordcount }}", "True True 2");
    gives("{% set l = [] %}{% do l.append(1) %}{{ [l, l]|flatten }}", "[1, 1]");
}

#[test]
#[rule("C-7")]
fn c7_the_caret_stands_under_the_name_that_is_undefined() {
    for text in [
        "{% if grains.nope == 'x' %}{% endif %}",
        "{% if 'x' == grains.nope %}{% endif %}",
        "{% if true and grains[\"nope\"] == 'x' %}{% endif %}",
        "{{ grains.nope|upper }}",
        "{{ grains['nope']['deep']['deeper'] }}",
        "{% for x in grains['nope']['deep'] %}{% endfor %}",
    ] {
        let column = text.find("grains").unwrap() + 1;
        let found = rendered(text).unwrap_err();
        assert!(found.starts_with(&format!("states/dir/t.jinja:1:{column}: `grains")), "{text}: {found}");
    }
    fails(
        "{{ salt['grains.get']('nope').x }}",
        "states/dir/t.jinja:1:4: `salt['grains.get']('nope').x` is undefined",
    );
    fails("{{ [1, 2][7] }}", "states/dir/t.jinja:1:4: `[1, 2][7]` is undefined");
}

#[test]
#[rule("S-10")]
fn s10_what_is_not_closed_or_not_opened_is_named() {
    fails("a\n{{ x", "states/dir/t.jinja:2:1: `{{` is never closed [add `}}` behind it]");
    fails("a {# x", "states/dir/t.jinja:1:3: `{#` is never closed [add `#}` behind it]");
    fails(
        "{% endif %}",
        "states/dir/t.jinja:1:4: `{% endif %}` has no `{% if %}` above it [remove it, or add what it closes]",
    );
    fails(
        "{% elif x %}",
        "states/dir/t.jinja:1:4: `{% elif %}` has no `{% if %}` above it [remove it, or add what it closes]",
    );
}

#[test]
#[rule("S-10")]
fn s10_a_method_of_nothing_names_the_nothing() {
    fails("{{ nobody.get('x') }}", "states/dir/t.jinja:1:4: `nobody` is undefined");
    fails(
        "{{ pillar.nobody.get('x') }}",
        "states/dir/t.jinja:1:4: `pillar.nobody` is undefined [give it a default: `pillar.get('nobody', …)`]",
    );
}

#[test]
#[rule("S-10")]
fn s10_syntax_errors_point_at_the_tag() {
    fails("a\n{% if true %}\nb\n", "states/dir/t.jinja:2:1: `{% if %}` is never closed [add `{% endif %}`]");
    fails(
        "{% for x in [1] %}\n  {% if x %}\n{% endif %}",
        "states/dir/t.jinja:1:1: `{% for %}` is never closed [add `{% endfor %}`]",
    );
    fails("x\n {% fi x %}", "states/dir/t.jinja:2:5: unknown statement `fi` [did you mean `if`?]");
    fails(
        "{{ [1] % 5 }}",
        "states/dir/t.jinja:1:4: `%` takes two numbers, or a text and its values, not sequence and number",
    );
    fails("{{ 5|uper }}", "states/dir/t.jinja:1:6: unknown filter `uper` [did you mean `upper`?]");
    fails(
        "{{ ['x'] | map('uper') | list }}",
        "states/dir/t.jinja:1:12: unknown filter `uper` [did you mean `upper`?]",
    );
    fails("{{ ['x'] | select('nosuch') | list }}", "states/dir/t.jinja:1:12: unknown test `nosuch`");
    fails(
        "{{ [{'a': 1}] | rejectattr('a', 'nosuch') | list }}",
        "states/dir/t.jinja:1:17: unknown test `nosuch`",
    );
    fails("{{ 1 is nosuch }}", "states/dir/t.jinja:1:9: unknown test `nosuch`");
    fails("{{ raise('no ' ~ 'way') }}", "states/dir/t.jinja:1:4: no way");
    fails("{{ 1 + }}", "states/dir/t.jinja:1:8: template syntax: unexpected end of variable block");
    fails(
        "{% set x = [1] %}{{ x.nope() }}",
        "states/dir/t.jinja:1:22: unknown method: sequence has no method named nope",
    );
}

#[test]
#[rule("C-7")]
fn c7_a_mistake_inside_a_macro_points_into_its_file() {
    let tree = [
        ("c.zy", "{% from 'm.jinja' import state %}\n{{ state('x') }}\n"),
        ("m.jinja", "{% macro state(id) %}\n{{ id }}:\n  test.nop: [{{ missing }}]\n{% endmacro %}\n"),
    ];
    assert_eq!(texts(&asked(&tree, "c")), ["states/m.jinja:3:17: `missing` is undefined"]);
}

#[test]
#[rule("C-7")]
fn c7_positions_are_of_the_source_whatever_the_template_did() {
    let text = "{% set who = 'blog' %}\n{# a comment\n over lines #}\n{% for n in range(2) %}\nsite{{ n }}:\n  file.managed:\n    - path: /srv/{{ n }}\n    - contnet: {{ who }}\n{% endfor %}\n";
    let found = texts(&one(text));
    assert_eq!(
        found,
        ["states/c.zy:8:7: unknown parameter `contnet` of file.managed [did you mean `content`?]"]
    );
    let stripped = "{%- for n in [1] -%}\nx{{ n }}:\n  {%- if true %}\n  file.manged: []\n  {%- endif %}\n{% endfor %}\n";
    assert_eq!(
        texts(&one(stripped)),
        ["states/c.zy:4:3: unknown function `manged` of file [did you mean `file.managed`?]"]
    );
    let from_tag = "{{ 'x:\n  file.manged: []\n' }}";
    assert_eq!(
        texts(&one(from_tag)),
        ["states/c.zy:1:1: unknown function `manged` of file [did you mean `file.managed`?]"]
    );
    let wide = "{% set a = 'ü' %}\nx:\n  test.nop: {ü{{ a }}ü: 1, zz: 2}\n";
    assert!(
        texts(&one(wide))[1].starts_with("states/c.zy:3:28: unknown parameter `zz`"),
        "{:?}",
        texts(&one(wide))
    );
}

#[test]
#[rule("C-7")]
fn c7_included_templates_keep_their_own_positions() {
    let tree = [
        ("c.zy", "a:\n  test.nop: []\n{% include 'part.jinja' %}\nz:\n  file.manged: []\n"),
        ("part.jinja", "# {{ grains.os }}\nb:\n  file.mnaged: []\n"),
    ];
    assert_eq!(
        texts(&asked(&tree, "c")),
        [
            "states/part.jinja:3:3: unknown function `mnaged` of file [did you mean `file.managed`?]",
            "states/c.zy:5:3: unknown function `manged` of file [did you mean `file.managed`?]"
        ]
    );
}

#[test]
#[rule("C-7")]
fn c7_yaml_errors_in_rendered_text_point_at_the_source() {
    assert_eq!(
        diagnostic("{% set x = 1 %}\na:\n  test.nop: []\na:\n  test.nop: []\n"),
        "states/c.zy:4:1: duplicate key `a` [rename it, or join the two] {states/c.zy:2:1 first defined here}"
    );
    assert!(diagnostic("{% if true %}\na: b: c\n{% endif %}\n").starts_with("states/c.zy:2:5: not YAML"));
}

#[test]
#[rule("S-10")]
fn s10_marks_never_show_whatever_the_data_holds() {
    let compiled = one("x:\n  cmd.run:\n    - command: \"{{ pillar.icon }}{{ 1 }}\"\n    - stdin: {{ 2 }}\n");
    assert_eq!(param(&compiled, "cmd.run:x", "command"), json!("\u{100000}\u{108000}1"));
    let own = one("x:\n  cmd.run:\n    - command: \"\u{100000}\u{108000}{{ 1 }}\"\n");
    assert_eq!(param(&own, "cmd.run:x", "command"), json!("\u{100000}\u{108000}1"));
    gives(
        "{% set x %}a{{ 1 }}b{% endset %}{{ x|length }}{% macro m() %}q{{ 2 }}{% endmacro %}{{ m()|length }}{% filter upper %}a{{ 'b' }}{% endfilter %}",
        "32AB",
    );
    gives("{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}abc{% endcall %}", "abc");
}

#[test]
#[rule("S-10")]
fn s10_a_template_knows_its_file() {
    let tree = [(
        "web/init.zy",
        "x:\n  cmd.run:\n    - command: '{{ sls }} {{ slspath }} {{ tpldir }} {{ tplfile }} {{ tplpath }}'\n",
    )];
    let compiled = asked(&tree, "web");
    assert_eq!(param(&compiled, "cmd.run:x", "command"), json!("web web web web/init.zy states/web/init.zy"));
}

#[test]
#[rule("S-10")]
fn s10_context_lies_over_the_usual_variables_and_settings_files_keep_positions() {
    let context = json!({"port": 81, "list": [1]});
    let rendered =
        |text| with_inputs(&files(&[]), |inputs| render(inputs, "x", text, context.as_object().unwrap()));
    assert!(rendered("{{ port }}{% do list %}").is_err());
    let text = rendered("{{ port }}{{ list[0] }}\n");
    assert_eq!(text.map_err(|(_, diagnostics)| diagnostics), Ok("811\n".into()));
}

/// What goes wrong when `c.zy` is compiled with another file beside it.
fn with_file(source: &str, path: &str, text: &str) -> Vec<String> {
    texts(&asked(&[("c.zy", source), (path, text)], "c"))
}

#[test]
#[rule("C-7")]
fn c7_a_mistake_in_an_included_file_is_shown_there() {
    let include =
        |text: &str| with_file("a:\n  test.nop: []\n{% include 'inc.jinja' %}\n", "inc.jinja", text);
    for (text, expected) in [
        ("\nx: {{ nope }}\n", "states/inc.jinja:2:7: `nope` is undefined"),
        ("\nx: {{ 1 | nofilter }}\n", "states/inc.jinja:2:11: unknown filter `nofilter`"),
        ("\n{% if x %}", "states/inc.jinja:2:1: `{% if %}` is never closed [add `{% endif %}`]"),
        ("\n{% include 'gone' %}", "states/inc.jinja:2:4: there is no file `gone` in the states directory"),
        ("\n{% include 'locked.zy' %}", "states/inc.jinja:2:4: cannot read `locked.zy`: permission denied"),
        ("\nx:\n  test.nop: [{bad: 1}]", "states/inc.jinja:3:15: unknown parameter `bad` of test.nop"),
        ("\nx:\n  test.nop: [1\n", "states/inc.jinja:3:13: a `[` is never closed [it opens here]"),
    ] {
        assert_eq!(include(text), [expected], "{text:?}");
    }
    let macros = "\n{% macro page(number) %}\nx: {{ numbr }}\n{% endmacro %}\n";
    for source in [
        "{% from 'm.jinja' import page %}\nx: {{ page(1) }}",
        "{% import 'm.jinja' as m %}\nx: {{ m.page(1) }}",
    ] {
        let found = with_file(source, "m.jinja", macros);
        assert_eq!(found, ["states/m.jinja:3:7: `numbr` is undefined [did you mean `number`?]"]);
    }
}

#[test]
#[rule("C-7")]
fn c7_a_mistake_in_imported_data_is_shown_there() {
    assert_eq!(
        with_file("\n{% import_yaml 'm.yaml' as m %}\nx: {{ m.a }}\n", "m.yaml", "a: 1\nb: [1\n"),
        ["states/m.yaml:2:4: a `[` is never closed [it opens here] {states/c.zy:2:4 imported here}"]
    );
    assert_eq!(
        with_file("{% import_yaml 'm.yaml' as m %}\n", "m.yaml", "a: 1\na: 2\n"),
        [
            "states/m.yaml:2:1: duplicate key `a` [rename it, or join the two] {states/m.yaml:1:1 first defined here} {states/c.zy:1:4 imported here}"
        ]
    );
    assert_eq!(
        with_file("{% import_json 'm.json' as m %}\n", "m.json", "{\"a\": 1,\n \"b\": ]}\n"),
        ["states/m.json:2:7: not JSON: expected value {states/c.zy:1:4 imported here}"]
    );
}

#[test]
#[rule("S-10")]
fn s10_an_undefined_variable_suggests_the_nearest_name() {
    for (source, expected) in [
        ("{% set port = 2 %}\na: {{ prt }}\n", "2:7: `prt` is undefined [did you mean `port`?]"),
        ("{% set port = 2 %}\na: {{ prt + 1 }}\n", "2:7: `prt` is undefined [did you mean `port`?]"),
        ("{% set port = 2 %}\na: {{ prt() }}\n", "2:7: `prt` is undefined [did you mean `port`?]"),
        ("{% set c = {'port': 1} %}\na: {{ c.prt }}\n", "2:7: `c.prt` is undefined [did you mean `port`?]"),
        ("{% set c = pillar.app %}\na: {{ c.prt }}\n", "2:7: `c.prt` is undefined [did you mean `port`?]"),
        ("\na: {{ pillar.app.prt }}\n", "2:7: `pillar.app.prt` is undefined [did you mean `port`?]"),
        ("\na: {{ slss }}\n", "2:7: `slss` is undefined [did you mean `sls`?]"),
        ("\na: {{ zzzzzz }}\n", "2:7: `zzzzzz` is undefined"),
    ] {
        assert_eq!(texts(&one(source)), [format!("states/c.zy:{expected}")], "{source}");
    }
    let data = "port: 1\n";
    assert_eq!(
        with_file("{% import_yaml 'm.yaml' as m %}\nx: {{ m.prt }}\n", "m.yaml", data),
        ["states/c.zy:2:7: `m.prt` is undefined [did you mean `port`?]"]
    );
    assert_eq!(
        with_file("{% set port = 1 %}{% include 'i' %}\n", "i", "a: {{ prt }}\n"),
        ["states/i:1:7: `prt` is undefined [did you mean `port`?]"]
    );
    let macros = "{% macro page() %}{% endmacro %}\n";
    assert_eq!(
        with_file("{% from 'm' import pag %}\nx: {{ pag() }}\n", "m", macros),
        ["states/c.zy:2:7: `pag` is undefined [did you mean `page`?]"]
    );
    let found = with_file("{% import 'm' as m %}\nx: {{ m.pag() }}\n", "m", macros);
    assert!(found[0].ends_with("[did you mean `page`?]"), "{found:?}");
}

#[test]
#[rule("D-12")]
fn d12_what_only_the_machine_itself_can_answer_is_no_mistake_of_the_file() {
    let (through, macros) = (
        "{% import 'm.jinja' as m %}\n{{ m.it() }}\n",
        "{% macro it() %}{{ salt['file.read']('/x') }}{% endmacro %}",
    );
    for (source, kind) in [
        ("{{ salt['file.read']('/x') }}\n", Kind::Elsewhere),
        (through, Kind::Elsewhere),
        ("{% include 'i.jinja' %}\n", Kind::Elsewhere),
        ("{{ salt['cmd.run']('ask it there') }}\n", Kind::Template),
    ] {
        let tree = [("c.zy", source), ("m.jinja", macros), ("i.jinja", "{{ salt['file.read']('/x') }}\n")];
        let found = asked(&tree, "c").diagnostics;
        assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [kind], "{source}: {found:?}");
    }
}
