//! Random templates of Salt's subset, through our engine and through Python's own Jinja: the same text, or both refuse.
//!
//! `ZESTER_PYTHON` names the Python whose jinja2 is asked (default `python3`), `ZESTER_SOAK_TEMPLATES` how many templates
//! (default 2,000; the soak takes 100,000). Without jinja2 the test is skipped by name.

// A test that cannot go on says why by failing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

use serde_json::{Map, Value as Json, json};
use std::io::Write;
use std::process::{Command, Stdio};
use zester_compile::{CallError, Functions, Inputs, Tree, render};
use zester_model::catalog::Catalog;
use zester_rule::rule;
use zester_testkit::skip;

struct Nothing;

impl Tree for Nothing {
    fn read(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }
}

impl Functions for Nothing {
    fn call(&self, name: &str, _: Vec<Json>, _: Map<String, Json>) -> Result<Json, CallError> {
        Err(format!("no {name}").into())
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % count
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}

/// An expression of Salt's subset.
fn expression(dice: &mut Dice, depth: usize) -> String {
    let leaf = [
        "1", "2", "0", "'a'", "'b c'", "true", "false", "none", "x", "words", "data", "n", "name", "1.5",
        "[]", "''",
    ];
    if depth == 0 || dice.below(4) == 0 {
        return dice.of(&leaf).to_string();
    }
    let one = expression(dice, depth - 1);
    let other = expression(dice, depth - 1);
    match dice.below(16) {
        0 => format!("({one} ~ {other})"),
        1 => format!("({one} == {other})"),
        2 => format!("({one} and {other})"),
        3 => format!("({one} or {other})"),
        4 => format!("(not {one})"),
        5 => format!("({one} if {other} else n)"),
        6 => format!("[{one}, {other}]"),
        7 => format!("{{'k': {one}, 'z': {other}}}"),
        8 => format!("({one} | default({other}))"),
        9 => format!(
            "({one} | string | {})",
            dice.of(&["upper", "lower", "length", "trim", "title", "capitalize"])
        ),
        10 => format!(
            "(words | {})",
            dice.of(&["first", "last", "length", "join('-')", "sort", "list", "reverse | list"])
        ),
        11 => format!("data.get('{}', {one})", dice.of(&["a", "b", "zz"])),
        12 => format!("({one} is {})", dice.of(&["string", "mapping", "none", "defined", "number"])),
        13 => format!("({one} in words)"),
        14 => format!("(n {} {})", dice.of(&["+", "-", "*", "//", "%"]), dice.of(&["1", "2", "3"])),
        _ => format!(
            "(name {} )",
            dice.of(&["| replace('o', '0')", "| indent(2)", "[1:]", ".split('o')", ".upper()"])
        ),
    }
}

/// A template: text, tags, loops, conditions, assignments, with blanks stripped here and there.
fn template(dice: &mut Dice, depth: usize) -> String {
    let mut out = String::new();
    for _ in 0..=dice.below(3) {
        let (open, close) = (dice.of(&["{%", "{%-"]), dice.of(&["%}", "-%}"]));
        let one = expression(dice, 2);
        let inner = if depth > 0 { template(dice, depth - 1) } else { "t ".to_string() };
        out.push_str(&match dice.below(7) {
            0 => dice.of(&["text\n", " a: b\n", "\n\n", "x "]).to_string(),
            1 | 2 => format!("{{{{ {one} }}}}"),
            3 => format!("{open} if {one} {close}{inner}{open} else {close}no{open} endif {close}"),
            4 => format!("{open} for w in words {close}{inner}{{{{ loop.index }}}}{{{{ w }}}}{open} endfor {close}"),
            5 => format!("{open} set v = {one} {close}{{{{ v }}}}"),
            _ => format!("{open} macro m(a, b=2) {close}{{{{ a }}}}{{{{ b }}}}{open} endmacro {close}{{{{ m(1) }}}}{{# c #}}"),
        });
    }
    out
}

const JUDGE: &str = "
import sys, json, jinja2
env = jinja2.Environment(undefined=jinja2.StrictUndefined, extensions=['jinja2.ext.do', 'jinja2.ext.loopcontrols'])
asked = json.load(sys.stdin)
out = []
for text in asked['templates']:
    try:
        rendered = env.from_string(text).render(asked['context'])
        out.append(rendered + ('\\n' if text.endswith('\\n') else ''))
    except Exception as error:
        out.append(None)
json.dump(out, sys.stdout)
";

#[test]
#[rule("S-49")]
fn s49_templates_give_what_jinja_gives() {
    let python = std::env::var("ZESTER_PYTHON").unwrap_or_else(|_| "python3".into());
    let there = Command::new(&python).args(["-c", "import jinja2"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        skip!("Python's jinja2 is not installed");
    }
    let count =
        std::env::var("ZESTER_SOAK_TEMPLATES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000);
    let context = json!({
        "x": "ex", "n": 7, "name": "foo bar", "words": ["b", "a", "c"], "data": {"a": 1, "b": {"c": [1, 2]}}
    });
    let mut dice = Dice(20_26);
    let templates: Vec<String> = (0..count).map(|_| template(&mut dice, 2)).collect();
    let mut child = Command::new(&python)
        .args(["-c", JUDGE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = json!({ "templates": templates, "context": context }).to_string();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(asked.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let wanted: Vec<Option<String>> = serde_json::from_slice(&output.stdout).unwrap();
    let (catalog, nothing) = (Catalog::default(), json!({}));
    let inputs = Inputs {
        tree: &Nothing,
        tree_name: "states",
        catalog: &catalog,
        facts: &nothing,
        settings: &nothing,
        functions: &Nothing,
        id: "here",
        ordered: false,
        environment: zester_compile::BASE,
    };
    let context = context.as_object().unwrap();
    let mut differ = Vec::new();
    for (text, wanted) in templates.iter().zip(wanted) {
        let found = render(&inputs, "t.sls", text, context).ok();
        if found != wanted {
            differ.push(format!("{text:?}\n  jinja  {wanted:?}\n  zester {found:?}"));
        }
    }
    assert!(
        differ.is_empty(),
        "{} of {count} differ:\n{}",
        differ.len(),
        differ[..differ.len().min(15)].join("\n")
    );
}
