//! Data as YAML that the reader beside this file takes for the same data, and PyYAML too: whatever either could read as
//! something else stands in quotes.
//!
//! Our own, because what serializers for YAML 1.2 leave plain (`yes`, `1e3`, `0o7`) is no text for those who read 1.1.

use super::scalar::scalar_type;
use serde_json::Value as Json;
use zester_model::node::ScalarType;

/// On one line: `{a: [1, "x: y"]}`.
#[cfg(test)]
pub fn flow(value: &Json) -> String {
    let mut out = String::new();
    write_flow(value, &mut out);
    out
}

/// A line for each entry, and a final newline.
pub fn block(value: &Json) -> String {
    let mut out = String::new();
    if nested(value) {
        write_block(value, 0, &mut out);
    } else {
        write_leaf(value, 0, &mut out);
    }
    out
}

/// How far what belongs to an entry stands in.
const STEP: usize = 2;

fn nested(value: &Json) -> bool {
    match value {
        Json::Array(items) => !items.is_empty(),
        Json::Object(map) => !map.is_empty(),
        _ => false,
    }
}

/// The entries of a list or map. The first follows what is on the line already.
fn write_block(value: &Json, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    match value {
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { &pad } else { "" });
                out.push_str("- ");
                match nested(item) {
                    true => write_block(item, indent + STEP, out),
                    false => write_leaf(item, indent, out),
                }
            }
        }
        Json::Object(map) => {
            for (index, (key, item)) in map.iter().enumerate() {
                out.push_str(if index > 0 { &pad } else { "" });
                out.push_str(&text(key, false));
                out.push(':');
                if nested(item) {
                    out.push('\n');
                    out.push_str(&" ".repeat(indent + STEP));
                    write_block(item, indent + STEP, out);
                } else {
                    out.push(' ');
                    write_leaf(item, indent, out);
                }
            }
        }
        leaf => write_leaf(leaf, indent, out),
    }
}

/// What holds nothing further, and the end of its line.
fn write_leaf(value: &Json, indent: usize, out: &mut String) {
    match value {
        Json::String(lines) if is_literal(lines) => {
            let kept = match (lines.ends_with("\n\n") || lines == "\n", lines.ends_with('\n')) {
                (true, _) => "|+",
                (_, true) => "|",
                _ => "|-",
            };
            out.push_str(kept);
            out.push('\n');
            for line in lines.strip_suffix('\n').unwrap_or(lines).split('\n') {
                if !line.is_empty() {
                    out.push_str(&" ".repeat(indent + STEP));
                    out.push_str(line);
                }
                out.push('\n');
            }
        }
        Json::String(plain) => {
            out.push_str(&text(plain, false));
            out.push('\n');
        }
        other => {
            write_flow(other, out);
            out.push('\n');
        }
    }
}

/// Whether lines can stand as they are: nothing that needs an escape, and nothing that hides how far they stand in.
fn is_literal(lines: &str) -> bool {
    let first = lines.split('\n').find(|line| !line.is_empty());
    lines.contains('\n')
        && first.is_some_and(|line| !line.starts_with([' ', '\t']))
        && lines
            .split('\n')
            .all(|line| line.chars().all(is_plain) && !line.starts_with('\t') && !is_blank(line))
}

/// A line of blanks alone, which could not be told from one that is empty.
fn is_blank(line: &str) -> bool {
    !line.is_empty() && line.trim().is_empty()
}

fn write_flow(value: &Json, out: &mut String) {
    match value {
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                write_flow(item, out);
            }
            out.push(']');
        }
        Json::Object(map) => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                out.push_str(&text(key, true));
                out.push_str(": ");
                write_flow(item, out);
            }
            out.push('}');
        }
        Json::String(plain) => out.push_str(&text(plain, true)),
        Json::Number(number) => out.push_str(&digits(&number.to_string())),
        other => out.push_str(&other.to_string()),
    }
}

/// YAML 1.1 wants a dot and a sign: `1e30` would be text.
pub(super) fn digits(number: &str) -> String {
    let Some((mantissa, exponent)) = number.split_once('e') else { return number.to_string() };
    let dot = if mantissa.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with(['-', '+']) { "" } else { "+" };
    format!("{mantissa}{dot}e{sign}{exponent}")
}

fn text(text: &str, in_flow: bool) -> String {
    if stands_plain(text, in_flow) { text.to_string() } else { quoted(text) }
}

/// Whether a text is taken for itself without quotes.
fn stands_plain(text: &str, in_flow: bool) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let alike = |letter: char| letter.is_ascii_digit() || "+-.:_eExXoTtZz ".contains(letter);
    // What PyYAML reads as a time, a date, or a truth value of the older kind.
    let number_like = (first.is_ascii_digit() || "+-.".contains(first)) && text.chars().all(alike);
    let word_like = matches!(text, "y" | "Y" | "n" | "N" | "=" | "<<");
    scalar_type(text) == ScalarType::Text
        && !number_like
        && !word_like
        && !"-?:,[]{}#&*!|>'\"%@` ".contains(first)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !text.contains(" #")
        && text.chars().all(|letter| is_plain(letter) && !(in_flow && ",[]{}".contains(letter)))
        && !(in_flow && text.contains(':'))
}

/// A letter that every reader keeps as it is.
fn is_plain(letter: char) -> bool {
    matches!(letter, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(letter, '\u{2028}' | '\u{2029}')
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            letter if is_plain(letter) => out.push(letter),
            letter => out.push_str(&format!("\\u{:04x}", u32::from(letter))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use zester_model::source::FileId;
    use zester_rule::rule;

    fn read(text: &str) -> Json {
        match crate::parse_yaml(FileId(0), text) {
            Ok(node) => node.to_json(),
            Err(diagnostics) => panic!("{diagnostics:?}:\n{text}"),
        }
    }

    #[test]
    #[rule("C-1")]
    fn c1_a_document_is_a_line_for_each_entry() {
        let value = json!({
            "a": [1, {"b": 2, "c": [true, []]}, [null, {}]],
            "file.managed:x": {"diff": "one\n\n  two\n", "error": "", "mode": "0644", "say": "it is: so"},
        });
        let wanted = "a:\n  - 1\n  - b: 2\n    c:\n      - true\n      - []\n  - - null\n    - {}\n\
                      file.managed:x:\n  diff: |\n    one\n\n      two\n  error: \"\"\n  mode: \"0644\"\n  \
                      say: \"it is: so\"\n";
        assert_eq!(block(&value), wanted);
        assert_eq!(read(wanted), value);
    }

    #[test]
    #[rule("S-10")]
    fn s10_what_another_reader_could_take_for_something_else_is_quoted() {
        for text in [
            "yes",
            "No",
            "on",
            "y",
            "n",
            "null",
            "~",
            "",
            "0644",
            "1:30",
            "2026-11-15",
            "1e3",
            "0x1f",
            "<<",
            "=",
            "- a",
            "a: b",
            "a #b",
            "#a",
            "a:",
            " a",
            "a ",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "'a",
            "[a",
            "{a",
            "---",
            "...",
            "\u{85}",
            "\u{2028}",
            "\u{feff}",
            "a\tb",
            "\r",
            "1_000",
            "10.0.0.1",
        ] {
            assert!(
                quoted(text) == super::text(text, true) && quoted(text) == super::text(text, false),
                "{text:?}"
            );
            assert_eq!(read(&flow(&json!([text]))), json!([text]));
        }
        for text in ["word", "two words", "/etc/x", "a:b", "x=1", "é", "a,b", "don't"] {
            assert_eq!(super::text(text, false), text);
        }
        assert_eq!((flow(&json!(1e30)), flow(&json!(1.5e-7))), ("1.0e+30".into(), "1.5e-7".into()));
    }

    /// Data of every sort, with texts of the awkward kind among them.
    fn data() -> impl Strategy<Value = Json> {
        let text = prop_oneof![".*", "[ \t\n:#a-]{0,8}", "(yes|no|~|=|[0-9eE.+:_-]{1,6})"];
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::from),
            any::<i64>().prop_map(Json::from),
            (-1e300..1e300).prop_map(|number: f64| json!(number)),
            text.clone().prop_map(Json::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|entries| Json::Object(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        #[rule("C-1", "S-10")]
        fn c1_s10_what_is_written_is_read_back(value in data()) {
            prop_assert_eq!(&read(&block(&value)), &value, "{}", block(&value));
            prop_assert_eq!(&read(&flow(&value)), &value, "{}", flow(&value));
        }
    }
}
