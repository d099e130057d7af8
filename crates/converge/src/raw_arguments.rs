//! The words behind `MOD.FN`: bare ones, and `k=v`.
//!
//! A value keeps the letters its user wrote until the type of its parameter is known (C-15), on this machine and over the
//! bus: what a person typed travels as a text, and whoever knows the parameter reads it.

use crate::inputs::yaml;
use serde_json::{Map, Value as Json};

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum RawValue {
    /// As it was typed, or a text that came over the bus.
    Letters(String),
    /// A value that somebody has read already: a number, a list.
    Value(Json),
}

/// What the parameter takes that a value is for.
#[derive(Copy, Clone, Debug)]
pub struct ParameterShape {
    pub text: bool,
    /// Lists and maps.
    pub collects: bool,
}

/// `ID k=v k=v`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawArguments {
    pub positional: Vec<RawValue>,
    pub named: Vec<(String, RawValue)>,
}

impl RawArguments {
    pub fn parse(words: &[String]) -> RawArguments {
        let mut parsed = RawArguments::default();
        for word in words {
            match word.split_once('=').filter(|(key, _)| is_key(key)) {
                Some((key, value)) => parsed.named.push((key.into(), RawValue::Letters(value.into()))),
                None => parsed.positional.push(RawValue::Letters(word.clone())),
            }
        }
        parsed
    }

    /// What came over the bus. The first bare word travels apart from the others.
    pub fn of_values(word: Option<&str>, more: &[Json], named: &Map<String, Json>) -> RawArguments {
        let first = word.map(|word| RawValue::Letters(word.into()));
        RawArguments {
            positional: first.into_iter().chain(more.iter().map(RawValue::of_value)).collect(),
            named: named.iter().map(|(key, value)| (key.clone(), RawValue::of_value(value))).collect(),
        }
    }

    /// Takes every value of a name out.
    pub fn take(&mut self, name: &str) -> Vec<RawValue> {
        let (taken, left) = std::mem::take(&mut self.named).into_iter().partition(|(key, _)| key == name);
        self.named = left;
        let taken: Vec<(String, RawValue)> = taken;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// A name that was given more than once, which a map could not carry.
    pub fn twice(&self) -> Option<&str> {
        let mut names = self.named.iter().enumerate();
        let again =
            names.find(|(place, (key, _))| self.named[..*place].iter().any(|(other, _)| other == key));
        again.map(|(_, (key, _))| key.as_str())
    }
}

impl RawValue {
    fn of_value(value: &Json) -> RawValue {
        match value {
            Json::String(text) => RawValue::Letters(text.clone()),
            other => RawValue::Value(other.clone()),
        }
    }

    /// As it travels over the bus.
    pub fn to_wire(&self) -> Json {
        match self {
            RawValue::Letters(text) => Json::String(text.clone()),
            RawValue::Value(value) => value.clone(),
        }
    }

    /// As a person would write it.
    pub fn shown(&self) -> String {
        match self {
            RawValue::Letters(text) => text.clone(),
            RawValue::Value(value) => value.to_string(),
        }
    }

    /// As it stands in a state file. A parameter that takes no lists and maps gets none, however the letters look, and a
    /// text gets every letter: its quotes, and what would be a comment.
    pub fn written(&self, ParameterShape { text, collects }: ParameterShape) -> String {
        let letters = match self {
            RawValue::Letters(letters) => letters,
            RawValue::Value(value) => return written(value),
        };
        match parse_value(letters) {
            Some(Json::Array(_) | Json::Object(_)) if collects => letters.clone(),
            _ if text => quoted(letters),
            Some(Json::String(read)) => quoted(&read),
            Some(Json::Bool(_) | Json::Number(_)) if letters.trim() == letters => letters.clone(),
            Some(_) if collects => letters.clone(),
            _ => quoted(letters),
        }
    }
}

/// Only a plain word before the `=` names a parameter: `a=b` does, `/x?y=z` does not.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// true/yes/1/on, false/no/0/off (C-5); `None` for anything else.
pub fn truth(given: &RawValue) -> Option<bool> {
    match given.shown().to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" | "on" => Some(true),
        "false" | "no" | "0" | "off" => Some(false),
        _ => None,
    }
}

/// The value for whoever takes any: a YAML scalar or flow collection; what is neither is the text itself (C-12).
pub fn given_value(given: &RawValue) -> Json {
    match given {
        RawValue::Letters(letters) => parse_value(letters).unwrap_or_else(|| Json::String(letters.clone())),
        RawValue::Value(value) => value.clone(),
    }
}

/// The same for what travels on as it is, like the data of an event: what would come out with other letters is a text, because
/// nobody will ever know its type (C-15). `1.10` is a version, `007` a number on a badge.
pub fn lettered_value(given: &RawValue) -> Json {
    let read = given_value(given);
    let RawValue::Letters(letters) = given else { return read };
    let shown = match &read {
        Json::Number(_) | Json::Bool(_) => read.to_string(),
        _ => return read,
    };
    if shown == *letters { read } else { Json::String(letters.clone()) }
}

fn parse_value(text: &str) -> Option<Json> {
    // One line only: a block collection or a comment is not what somebody typed as a value.
    if text.contains(['\n', '\r']) || text.trim().is_empty() {
        return None;
    }
    let value = yaml(text).ok()?;
    let flow = text.trim_start().starts_with(['[', '{']);
    let fits = match &value {
        Json::Object(_) | Json::Array(_) => flow,
        Json::Null => matches!(text.trim(), "null" | "~"),
        Json::String(read) => read == text || text.starts_with(['"', '\'']),
        _ => true,
    };
    fits.then_some(value)
}

/// A text that YAML reads back as this very text.
pub fn quoted(text: &str) -> String {
    Json::String(text.into()).to_string()
}

/// A value as text that reads back as what it was: JSON, but for numbers that YAML takes for text.
fn written(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Json::Object(fields) => {
            let field = |(key, value): (&String, &Json)| format!("{}: {}", quoted(key), written(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        Json::Number(number) => match number.to_string() {
            text if text.contains('.') => text,
            text => text.replacen('e', ".0e", 1),
        },
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    fn letters(text: &str) -> RawValue {
        RawValue::Letters(text.into())
    }

    #[test]
    #[rule("C-12")]
    fn c12_values_are_yaml_scalars_or_flow_collections_and_the_rest_is_text() {
        for (text, value) in [
            ("5", json!(5)),
            ("yes", json!(true)),
            ("[a, 1]", json!(["a", 1])),
            ("{a: 1}", json!({"a": 1})),
            ("hello", json!("hello")),
            ("a: b", json!("a: b")),
            ("- x", json!("- x")),
            ("# no comment", json!("# no comment")),
            ("it # stays", json!("it # stays")),
            ("[unclosed", json!("[unclosed")),
            ("'quoted'", json!("quoted")),
            ("", json!("")),
            ("two\nlines", json!("two\nlines")),
            ("null", Json::Null),
            ("0644", json!(644)),
        ] {
            assert_eq!(given_value(&letters(text)), value, "{text:?}");
        }
    }

    #[test]
    #[rule("C-12")]
    fn c12_values_that_were_read_already_stay_what_they_are() {
        let values = json!({
            "list": ["a", "yes", "0644", 1, true, null], "map": {"a: b": {"c": [1.5]}}, "none": null, "flag": false,
            "big": 1e20, "small": [1e-9, -3], "empty": {"list": [], "map": {}, "text": ""},
            "lines": ["a\n\tb: c # d", "it's \"so\" {{ x }}"],
        });
        let Json::Object(map) = &values else { panic!() };
        for (key, given) in RawArguments::of_values(None, &[], map).named {
            assert_eq!(
                yaml(&given.written(ParameterShape { text: false, collects: true })),
                Ok(values[&key].clone()),
                "{key}"
            );
        }
    }

    #[test]
    #[rule("C-15")]
    fn c15_letters_survive_the_bus() {
        for text in ["1.10", "007", "0644", "yes", "0x1F", "[main]", "null", " 5 ", "a\nb", "", "'q'"] {
            let sent = RawArguments::parse(&["/x".into(), format!("content={text}"), text.into()]);
            let named: Map<String, Json> =
                sent.named.iter().map(|(key, value)| (key.clone(), value.to_wire())).collect();
            let more: Vec<Json> = sent.positional[1..].iter().map(RawValue::to_wire).collect();
            assert_eq!(RawArguments::of_values(Some("/x"), &more, &named), sent, "{text:?}");
        }
    }

    #[test]
    #[rule("C-12")]
    fn c12_the_bare_word_is_the_primary_parameter_and_may_hold_an_equals_sign() {
        let words = RawArguments::parse(&["/etc/x?a=b".into(), "mode=0644".into()]);
        assert_eq!(words.positional, [letters("/etc/x?a=b")]);
        assert_eq!(words.named, [("mode".to_string(), letters("0644"))]);
    }

    #[test]
    #[rule("C-5")]
    fn c5_true_and_false_have_four_words_each() {
        for (text, read) in
            [("True", Some(true)), ("ON", Some(true)), ("no", Some(false)), ("0", Some(false))]
        {
            assert_eq!(truth(&letters(text)), read);
        }
        for text in ["Ture", "", "2", "y", "tru"] {
            assert_eq!(truth(&letters(text)), None, "{text}");
        }
        assert_eq!(truth(&RawValue::Value(json!(true))), Some(true));
        assert_eq!(truth(&RawValue::Value(json!(0))), Some(false));
    }
}
