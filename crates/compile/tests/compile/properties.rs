//! What must hold for any text.

use crate::fixture::{files, one, with_inputs};
use proptest::prelude::*;
use zester_compile::requisite::parse_target;
use zester_compile::{parse_yaml, render};
use zester_model::source::FileId;
use zester_rule::rule;

fn rendered(text: &str) -> Option<String> {
    with_inputs(&files(&[]), |inputs| render(inputs, "t", text, &serde_json::Map::new()).ok())
}

/// Text that is dense in what the composer and the template pass look at.
fn dense() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("{{"),
        Just("}}"),
        Just("{%"),
        Just("%}"),
        Just("{#"),
        Just("#}"),
        Just("-"),
        Just("+"),
        Just(" "),
        Just("\n"),
        Just("  "),
        Just("a:"),
        Just("- "),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just("'"),
        Just("\""),
        Just("&x"),
        Just("*x"),
        Just("<<: "),
        Just("set x = "),
        Just("for i in [1,2]"),
        Just("endfor"),
        Just("if true"),
        Just("endif"),
        Just("raw"),
        Just("endraw"),
        Just("ü"),
        Just("\u{100001}"),
        Just("|"),
        Just(">"),
        Just("~"),
        Just("1"),
        Just("\t"),
        Just("#"),
        Just("import_yaml 'x' as y"),
        Just("load_yaml as z"),
        Just("endload"),
        Just("macro m()"),
        Just("endmacro"),
        Just("test.nop"),
        Just(": "),
        Just("!!str"),
        Just("?"),
    ];
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// Well-formed templates with whitespace control everywhere.
fn template() -> impl Strategy<Value = String> {
    let blank = prop_oneof![Just(""), Just(" "), Just("\n"), Just(" \n  ")];
    let sign = || prop_oneof![Just(""), Just("-")];
    let leaf = prop_oneof![
        "[a-zü:]{0,4}".prop_map(String::from),
        (sign(), sign()).prop_map(|(a, b)| format!("{{{{{a} 'v' {b}}}}}")),
        (sign(), sign()).prop_map(|(a, b)| format!("{{#{a} c {b}#}}")),
        (sign(), sign()).prop_map(|(a, b)| format!("{{%{a} set q = [1, 'x' ~ 2] {b}%}}")),
        (sign(), sign(), "[a-z \n]{0,4}")
            .prop_map(|(a, b, c)| format!("{{%{a} raw {b}%}}{c}{{%{b} endraw {a}%}}")),
        blank.prop_map(String::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let body = proptest::collection::vec(inner, 0..4).prop_map(|parts| parts.concat());
        let signs = || (prop_oneof![Just(""), Just("-")], prop_oneof![Just(""), Just("-")]);
        prop_oneof![
            (signs(), body.clone())
                .prop_map(|((a, b), body)| format!("{{%{a} if true {b}%}}{body}{{%{b} endif {a}%}}")),
            (signs(), body.clone()).prop_map(|((a, b), body)| format!(
                "{{%{a} for i in [1, 2] {b}%}}{body}{{%{a} endfor {b}%}}"
            )),
            (signs(), body.clone()).prop_map(|((a, b), body)| format!(
                "{{%{a} filter upper {b}%}}{body}{{%{b} endfilter {a}%}}"
            )),
            (signs(), body).prop_map(|((a, b), body)| format!(
                "{{%{a} set w {b}%}}{body}{{%{b} endset {a}%}}{{{{{a} w {b}}}}}"
            )),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    #[rule("S-9")]
    fn s9_the_composer_never_panics(text in dense(), other in ".{0,60}") {
        for text in [&text, &other] {
            if let Err(diagnostics) = parse_yaml(FileId(0), text) {
                prop_assert!(diagnostics.iter().all(|diagnostic| diagnostic.span.is_some()));
            }
        }
    }

    #[test]
    #[rule("S-10")]
    fn s10_a_compile_never_panics(text in dense()) {
        let compiled = one(&text);
        // Also a program with problems holds together: later stages look at it for theirs.
        let count = compiled.program.states.len();
        for state in &compiled.program.states {
            prop_assert!(state.edges.iter().all(|edge| edge.target < count));
            prop_assert!(!state.broken || !compiled.diagnostics.is_empty());
        }
    }

    #[test]
    #[rule("S-10")]
    fn s10_marks_leave_the_output_as_it_would_be_without(text in template()) {
        let plain = minijinja::Environment::new();
        let mut plain = plain;
        let syntax = minijinja::syntax::SyntaxConfig::builder().keep_trailing_newline(true).build().unwrap();
        plain.set_syntax(syntax);
        plain.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        let expected = plain.render_str(&text, ()).ok();
        prop_assert_eq!(rendered(&text), expected);
    }

    #[test]
    #[rule("S-11")]
    fn s11_any_text_is_a_target(text in ".{0,40}") {
        let target = parse_target(&text);
        prop_assert_eq!(target.whole, Some(text));
    }
}
