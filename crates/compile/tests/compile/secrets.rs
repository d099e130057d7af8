//! D-15: a template sees a placeholder for a secret, and what it computed with that would be rubbish.

use crate::fixture::*;
use serde_json::json;
use zester_compile::{Ask, Inputs, compile};
use zester_model::secret::{CLOSE, OPEN};
use zester_rule::rule;

fn placeholder() -> String {
    format!("{OPEN}zQ12{CLOSE}")
}

fn compiled(template: &str) -> zester_compile::Compiled {
    let tree = files(&[("c.zy", template)]);
    let settings = json!({"pw": placeholder(), "plain": "x", "list": ["x"], "db": {"pw": placeholder()}});
    with_inputs(&tree, |inputs| {
        compile(&Inputs { settings: &settings, ..*inputs }, &Ask::References(vec!["c".into()]))
    })
}

#[test]
#[rule("D-15")]
fn d15_whatever_computes_with_a_secret_is_an_error_that_says_what_to_do() {
    let operations = [
        "settings.pw|urlencode",
        "settings.pw|length",
        "(settings.pw)|count",
        "('u:' ~ settings.pw)|upper",
        "settings.pw | lower",
        "settings.db.pw|default('x')|title",
        "settings['pw']|first",
        "pillar.get('pw')|quote",
        "settings.pw|to_num",
        "settings.pw == 'x'",
        "'x' == settings.pw",
        "'x' in settings.pw",
        "settings.pw in ['x']",
        "settings.pw not in settings.list",
        "(settings.pw ~ '') != 'x'",
        "1 < 2 and settings.pw != 'x'",
        "settings.pw is eq 'x'",
        "(settings.pw) is startingwith 'x'",
        "settings.pw is not eq('x')",
        "settings.pw.upper()",
        "settings.pw.startswith('x')",
        "'x'.startswith(settings.pw)",
        "[settings.pw]|map('upper')",
        "['x', settings.pw]|map('length')|list",
        "settings.db.values()|map('urlencode')",
        "[[settings.pw]]|map('map', 'upper')",
        "[settings.pw]|select('eq', 'x')",
        "[settings.pw]|reject('startingwith', 'x')|list",
        "[settings.db]|selectattr('pw', 'eq', 'x')",
        "[{'db': settings.db}]|rejectattr('db.pw', 'in', ['x'])",
    ];
    all_refused(&operations);
}

fn all_refused(operations: &[&str]) {
    let mut accepted = Vec::new();
    for operation in operations {
        let templates = [
            format!("a:\n  test.nop:\n    - x: {{{{ {operation} }}}}\n"),
            format!("{{% if {operation} %}}\na: {{test.nop: []}}\n{{% endif %}}\n"),
            format!("{{% set x = {operation} %}}\na: {{test.nop: []}}\n"),
        ];
        for template in templates {
            let found = texts(&compiled(&template));
            let line = if template.starts_with("a:") { 3 } else { 1 };
            let told = |text: &String| {
                text.contains("of a secret: a template can only insert it as a whole")
                    && text.starts_with(&format!("states/c.zy:{line}:"))
            };
            if found.len() != 1 || !found.iter().all(told) {
                accepted.push((template, found));
            }
        }
    }
    assert_eq!(accepted, [], "{accepted:#?}");
}

#[test]
#[rule("D-15")]
fn d15_a_list_or_a_map_that_holds_one_and_an_argument_are_no_way_around() {
    all_refused(&[
        "settings.db|upper",
        "settings.db|urlencode",
        "settings.db|md5",
        "[settings.db]|map('upper')",
        "[settings.db]|map('title')|list",
        "[settings.db]|map('urlencode')",
        "[[settings.pw]]|map('upper')",
        "[[settings.pw]]|map('first')|map('upper')",
        "{'a': {'b': [settings.db]}}|sha256",
        "[[settings.pw]]|select('eq', [['x']])",
        "[[settings.pw]]|select('eq', ['x'])|list",
        "['x']|select('eq', settings.pw)",
        "['x']|reject('in', [settings.pw])",
        "[{'a': 'x'}]|selectattr('a', '==', settings.pw)",
        "['x']|map('replace', settings.pw, 'y')",
        "'x'|replace(settings.pw, 'y')",
        "'x'.replace(settings.pw, 'y')",
        "'x'.startswith((settings.pw, 'y'))",
        "'x'|regex_match(settings.pw)",
        "'x' is eq settings.pw",
        "'x' is ne(settings.pw)",
        "'x' is startingwith settings.pw",
        "'x' is match settings.pw",
        "['x'] is eq [settings.pw]",
        "['x'] == [settings.pw]",
        "[settings.pw] == settings.list",
        "settings.db == {'pw': 'x'}",
        "settings.db != settings.list",
        "'x' in [settings.pw]",
        "['x'] in [[settings.pw]]",
        "settings.list in [[settings.pw]]",
        "'x' is in [settings.pw]",
        "[settings.pw, 'x']|sort",
        "[settings.db]|sort(attribute='pw')",
        "[{'a': 1, 'pw': settings.pw}]|sort(attribute='a, pw')",
        "[settings.pw, 'x']|min",
        "[settings.pw, 'x']|max",
        "[settings.db]|max(attribute='pw')",
        "[settings.pw, 'x']|unique",
        "[settings.db]|groupby('pw')",
        "[settings.db]|groupby(attribute='pw')",
        "settings.db|dictsort(by='value')",
        "['x']|difference([settings.pw])",
        "[settings.pw]|intersect(['x'])",
        "['x']|union([settings.pw])",
        "['x']|compare_lists([settings.pw])",
        "[settings.pw]|random",
        "['x'].index(settings.pw)",
        "['x', settings.pw].count('x')",
        "[settings.pw, 'x'].sort()",
    ]);
}

#[test]
#[rule("D-15")]
fn d15_nor_does_a_filter_around_a_block_compute_with_one() {
    for block in [
        "{% filter upper %}u:{{ settings.pw }}{% endfilter %}",
        "{% filter trim | upper %}{{ settings.pw }}{% endfilter %}",
        "{% set x | upper %}{{ settings.pw }}{% endset %}{{ x }}",
    ] {
        let found =
            texts(&compiled(&format!("a:\n  file.managed:\n    - path: /a\n    - content: {block}\n")));
        assert_eq!(found.len(), 1, "{block}: {found:?}");
        assert!(found[0].contains("`upper` of a secret"), "{block}: {found:?}");
    }
    for block in [
        "{% filter trim %}{{ settings.pw }}{% endfilter %}",
        "{% filter upper %}{{ settings.plain }}{% endfilter %}",
    ] {
        let compiled = compiled(&format!("a:\n  file.managed:\n    - path: /a\n    - content: {block}\n"));
        assert_eq!(texts(&compiled), Vec::<String>::new(), "{block}");
    }
}

#[test]
#[rule("D-15")]
fn d15_a_secret_is_inserted_as_a_whole_and_other_values_are_what_they_were() {
    for tag in [
        "{{ settings.pw }}",
        "{{ 'u:' ~ settings.pw }}",
        "{{ settings.pw|default('x') }}",
        "{{ settings.pw|tojson }}",
        "{{ settings.pw|yaml_dquote }}",
        "{{ ['u', settings.pw]|join(':') }}",
        "{{ '%s'|format(settings.pw) }}",
        "{{ settings.pw|string|trim }}",
        "{{ [settings.pw]|map('string')|first }}",
        "{{ [settings.db]|map(attribute='pw')|join(',') }}",
        "{{ [settings.pw, none]|select('string')|join(',') }}",
        "{{ [settings.db]|selectattr('pw', 'defined')|map(attribute='pw')|join }}",
        "{{ (settings.db|dictsort|first)[1] }}",
        "{{ (settings.db.items()|list|last|last) }}",
        "{{ settings|traverse('db:pw') }}",
        "{{ ([{'n': 2, 'pw': settings.pw}]|sort(attribute='n')|first).pw }}",
        "{{ ([{'n': 2, 'pw': settings.pw}]|max(attribute='n')).pw }}",
        "{{ ([{'n': 2, 'pw': settings.pw}]|groupby('n')|first)[1][0].pw }}",
        "{{ ([{'n': 'x', 'pw': settings.pw}]|selectattr('n', 'eq', 'x')|first).pw }}",
        "{{ ([settings.db]|rejectattr('user', 'defined')|first).pw }}",
        "{{ ({'a': 1}|combine(settings.db)).pw }}",
        "{{ [[settings.pw]]|flatten|first }}",
        "{{ 'x'|replace('x', settings.pw) }}",
        "{{ 'x'.replace('x', settings.pw) }}",
        "{% if settings.db|length == 1 and 'pw' in settings.db and 'pw' is in settings.db %}{{ settings.pw }}{% endif %}",
        "{% if settings.db != {} and settings.db != none and [settings.db] != [] and settings.db is ne none %}{{ settings.pw }}{% endif %}",
        "{% if 'x' not in [settings.db] and settings.db not in ['', none] and settings.db is mapping %}{{ settings.pw }}{% endif %}",
        "{% set all = [] %}{% do all.append(settings.pw) %}{{ all|first }}",
        "{% for key, value in settings.db.items() %}{{ value if key == 'pw' }}{% endfor %}",
        "{% if ['x']|map('upper')|first == 'X' and ['x']|select('eq', 'x')|list %}{{ settings.pw }}{% endif %}",
        "{% if settings.pw is defined and settings.pw is string and settings.pw %}{{ settings.pw }}{% endif %}",
        "{% if settings.plain == 'x' and 'x' in settings.list and settings.plain|upper == 'X' %}{{ settings.pw }}{% endif %}",
        "{% if settings.plain is eq 'x' and (settings.plain|length) >= 1 and not settings.plain in ['y'] %}{{ settings.pw }}{% endif %}",
    ] {
        let compiled = compiled(&format!("a:\n  file.managed:\n    - path: /a\n    - content: {tag}\n"));
        assert_eq!(texts(&compiled), Vec::<String>::new(), "{tag}");
        let params = format!("{:?}", compiled.program.states[0].params);
        assert!(params.contains("zQ12"), "{tag}: {params}");
    }
}
