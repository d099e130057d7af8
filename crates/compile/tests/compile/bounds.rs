//! S-10: passing a bound is a compile error, never an abort and never a huge allocation.

use crate::fixture::*;
use std::time::{Duration, Instant};
use zester_rule::rule;

/// The problem of a template, which must come quickly.
fn refused(template: &str) -> String {
    let begun = Instant::now();
    let compiled = one(template);
    let found = texts(&compiled);
    assert_eq!(found.len(), 1, "{template}: {found:?}");
    assert!(begun.elapsed() < Duration::from_secs(120), "{template}: {:?}", begun.elapsed());
    found[0].clone()
}

/// On a slow machine the bound on time comes first.
const TOO_LONG: &str = "rendering takes longer than 10 seconds";

#[test]
#[rule("S-10")]
fn s10_no_value_outgrows_its_bound() {
    let value = "a value grows larger than 16 MiB";
    for template in [
        "{{ 'a' * 100000000 }}",
        "{{ 'a' * 1000000000000 }}",
        "{% set n = 100000000 %}{{ ('a' * n)|length }}",
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s|replace('a', 'aa') %}{% endfor %}",
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s.replace('a', 'aa') %}{% endfor %}",
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s]|join %}{% endfor %}",
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ''.join([ns.s, ns.s]) %}{% endfor %}",
        "{{ 'x'.ljust(999999999) }}",
    ] {
        let found = refused(template);
        assert!(
            found.contains(value) || found.contains("repeated string is too large"),
            "{template}: {found}"
        );
        assert!(found.starts_with("states/c.zy:1:"), "{found}");
    }
}

#[test]
#[rule("S-10")]
fn s10_all_values_together_are_bounded() {
    for keeps in [
        r#"l.append(("a"*16000000) ~ i)"#,
        r#"l.append(s[1:])"#,
        r#"l.append((s)[1:])"#,
        r#"l.append(s|upper)"#,
        r#"l.append(s.lower())"#,
        r#"l.append(w.split(" "))"#,
    ] {
        let sets = r#"{% set l = [] %}{% set s = "a" * 16000000 %}{% set w = "a " * 500000 %}"#;
        let found = refused(&format!("{sets}{{% for i in range(150) %}}{{% do {keeps} %}}{{% endfor %}}"));
        assert!(
            found.contains("builds values of more than 512 MiB") || found.contains(TOO_LONG),
            "{keeps}: {found}"
        );
    }
}

#[test]
#[rule("S-10")]
fn s10_captures_and_output_are_bounded_too() {
    for template in [
        "{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set t %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = t %}{% endfor %}",
        "{% macro m(n) %}{% for i in range(100000) %}{% for j in range(1000) %}some text of a certain length that adds up{% endfor %}{% endfor %}{% endmacro %}{{ m(1) }}",
        "{% for i in range(100000) %}{% for j in range(1000) %}some text of a certain length that adds up{% endfor %}{% endfor %}",
        "{% macro m(x, n) %}{% if n %}{{ m([x, x, x, x, x, x, x, x], n - 1) }}{% else %}{{ x }}{% endif %}{% endmacro %}{{ m('a', 12) }}",
    ] {
        let found = refused(template);
        let bounds = ["MiB", "items", TOO_LONG];
        assert!(bounds.iter().any(|bound| found.contains(bound)), "{template}: {found}");
    }
}

#[test]
#[rule("S-10")]
fn s10_formats_are_bounded() {
    for template in [
        "{{ 'a\nb'|indent(1000000000) }}",
        "{{ '%1000000000d'|format(1) }}",
        "{{ '{:>999999999}'.format('a') }}",
        "{{ '%*d'|format(1000000000, 1) }}",
        "{{ [1]|batch(1000000000, 'x')|list }}",
        "{{ '{:{w}}'.format('a', w=1000000000) }}",
        "{% set s = 'a' * 16000000 %}{{ ('%(a)s' * 100000)|format(a=s) }}",
        "{% set s = 'a' * 16000000 %}{{ ('{0}' * 100000).format(s)|length }}",
        "{% set s = 'a' * 16000000 %}{{ ('%s' * 100000)|format(*([s] * 100000)) }}",
        "{{ ('a' * 16000000)|list|length }}",
        "{{ [1]|tojson(indent=1000000000) }}",
    ] {
        refused(template);
    }
}

#[test]
#[rule("S-10")]
fn s10_steps_are_bounded() {
    let found = refused("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}");
    let bounds = ["the template takes more than 50000000 steps", TOO_LONG];
    assert!(bounds.iter().any(|bound| found.contains(bound)), "{found}");
    let found = refused("{{ range(1000000000000) }}");
    assert!(found.contains("range has too many elements"), "{found}");
}

#[test]
#[rule("S-10")]
fn s10_recursion_is_bounded() {
    let tree = [("c.zy", "{% include 'c.zy' %}")];
    assert!(texts(&asked(&tree, "c"))[0].contains("levels deep"), "{:?}", texts(&asked(&tree, "c")));
    assert!(refused("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").contains("levels deep"));
    assert!(refused(&format!("{{{{ {}1{} }}}}", "(".repeat(5_000), ")".repeat(5_000))).contains("recursion"));
    assert!(refused(&format!("{{{{ {}{} }}}}", "[".repeat(5_000), "]".repeat(5_000))).contains("recursion"));
}

#[test]
#[rule("S-10")]
fn s10_values_cannot_nest_without_end_nor_hold_themselves() {
    assert!(refused("{% set l = [] %}{% do l.append(l) %}").contains("cannot hold itself"));
    assert!(
        refused("{% set l = [] %}{% set m = [l] %}{% do l.append({'m': m}) %}")
            .contains("cannot hold itself")
    );
    for template in [
        "{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = (ns.l,) %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=[]) %}{% for i in range(10000) %}{% set ns.l = {'a': ns.l} %}{% endfor %}{{ ns.l }}",
        "{% set ns = namespace(top=[], bottom=none) %}{% set ns.bottom = ns.top %}{% for i in range(100000) %}{% set b = [] %}{% set c = [[[[[[b]]]]]] %}{% do ns.bottom.append(c) %}{% set ns.bottom = b %}{% endfor %}{{ ns.top|tojson|length }}",
    ] {
        assert!(refused(template).contains("nested too deep"), "{template}");
    }
}

#[test]
#[rule("S-10")]
fn s10_values_that_hold_one_thing_many_times_are_bounded() {
    for tail in ["{{ ns.l }}", "{{ ns.l|tojson|length }}", "{{ (ns.l ~ '')|length }}", "{{ ns.l == ns.m }}"] {
        let template = format!(
            "{{% set ns = namespace(l=['a'], m=['a']) %}}{{% for i in range(60) %}}{{% set ns.l = [ns.l, ns.l] %}}{{% set ns.m = [ns.m, ns.m] %}}{{% endfor %}}{tail}"
        );
        let found = refused(&template);
        let bounds = ["MiB", "items", TOO_LONG];
        assert!(bounds.iter().any(|bound| found.contains(bound)), "{template}: {found}");
    }
}

#[test]
#[rule("S-3")]
fn s3_no_more_problems_are_listed_than_anybody_reads() {
    let text: String = (0..1_000).map(|n| format!("s{n}:\n  file.manged: []\n")).collect();
    let found = texts(&one(&text));
    assert_eq!(found.len(), 101);
    assert_eq!(found[100], "and 900 more problems");
}

#[test]
#[rule("S-10")]
fn s10_time_is_bounded_even_where_steps_are_cheap() {
    // Sixteen million letters compared a hundred thousand times: few steps, many minutes.
    let template = "{% set s = 'a' * 16000000 %}{% set t = 'a' * 16000000 %}{% for i in range(100000) %}{% if (s != t) or (s < t) -%} x {%- elif s > t %}y{% endif %}{% endfor %}";
    assert!(refused(template).contains(TOO_LONG));
}
