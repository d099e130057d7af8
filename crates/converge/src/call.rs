//! One function as a run of its own: `zester call file.managed /etc/motd content=hello`.

use crate::error::Error;
use crate::functions::FUNCTIONS;
use crate::inputs::{Inputs, Request, yaml};
use crate::machine::Machine;
use crate::plan::Plan;
use serde_json::{Map, Value as Json};
use std::fmt::Write;
use tokio_util::sync::CancellationToken;
use zester_compile::{Ask, Tree};
use zester_model::suggest::did_you_mean;

/// What the one file is called in messages.
const SHOWN: &str = "command line";

/// `ID k=v k=v`, as the user typed them.
pub struct Words {
    positional: Vec<String>,
    named: Vec<(String, String)>,
}

impl Words {
    pub fn parse(words: &[String]) -> Words {
        let mut parsed = Words { positional: Vec::new(), named: Vec::new() };
        for word in words {
            match word.split_once('=').filter(|(key, _)| is_key(key)) {
                Some((key, value)) => parsed.named.push((key.into(), value.into())),
                None => parsed.positional.push(word.clone()),
            }
        }
        parsed
    }

    /// Values that were read already. The first bare word is taken as it is.
    pub fn of_values(word: Option<&str>, more: &[Json], named: &Map<String, Json>) -> Words {
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let positional = word.map(str::to_string).into_iter().chain(more.iter().map(text)).collect();
        let named = named.iter().map(|(key, value)| (key.clone(), written(value))).collect();
        Words { positional, named }
    }

    pub fn positional_json(&self) -> Vec<Json> {
        self.positional.iter().map(|word| value_of(word)).collect()
    }

    pub fn named_json(&self) -> Map<String, Json> {
        self.named.iter().map(|(key, value)| (key.clone(), value_of(value))).collect()
    }
}

/// Only a plain word before the `=` names a parameter: `a=b` does, `/x?y=z` does not.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// A value as text that reads back as what it was: JSON, but for numbers that YAML takes for text.
fn written(value: &Json) -> String {
    match value {
        Json::Array(items) => format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", ")),
        Json::Object(fields) => {
            let field =
                |(key, value): (&String, &Json)| format!("{}: {}", Json::String(key.clone()), written(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        Json::Number(number) => match number.to_string() {
            text if text.contains('.') => text,
            text => text.replacen('e', ".0e", 1),
        },
        plain => plain.to_string(),
    }
}

/// A YAML scalar or flow collection; what is neither is the text itself (C-12).
pub fn value_of(text: &str) -> Json {
    match parse_value(text) {
        Some(value) => value,
        None => Json::String(text.into()),
    }
}

fn parse_value(text: &str) -> Option<Json> {
    // One line only: a block collection or a comment is not what somebody typed as a value.
    if text.contains('\n') || text.trim().is_empty() {
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

/// A plan of one state, written down as a small state file so that every rule and every message is the same.
pub fn plan(
    kind: &str,
    words: &Words,
    request: &Request,
    machine: &Machine,
    cancel: &CancellationToken,
) -> Result<Plan, Error> {
    if let Some(extra) = words.positional.get(1) {
        return Err(Error::other(format!(
            "{kind} takes one bare word, its primary parameter; `{extra}` is a second one"
        )));
    }
    let text = source(kind, words)?;
    let inputs = surroundings(request, machine, cancel)?;
    let tree = OneFile { text };
    let mut compiled = inputs.with(machine, cancel, |lent| {
        let lent = zester_compile::Inputs { tree: &tree, tree_name: "", ..*lent };
        zester_compile::compile(&lent, &Ask::References(vec![format!("{SHOWN}.zy")]))
    });
    compiled.sources.rename(&format!("{SHOWN}.zy"), SHOWN);
    Plan::from_compiled(inputs, compiled, kind.to_string())
}

/// Facts, settings and the states dir, which need not exist for one function.
pub fn surroundings(
    request: &Request,
    machine: &Machine,
    cancel: &CancellationToken,
) -> Result<Inputs, Error> {
    let here = Request { references: Vec::new(), ..request.clone() };
    match &here.states {
        Some(_) => Inputs::gather(&here, machine, cancel),
        None => Inputs::gather_anywhere(&here, machine, cancel),
    }
}

fn source(kind: &str, words: &Words) -> Result<String, Error> {
    let fail = |_| Error::other("the call could not be written down");
    let id = words.positional.first().cloned().unwrap_or_else(|| kind.to_string());
    let quoted = |text: &str| Json::String(text.into()).to_string();
    // The user's words are not a template.
    let mut text = format!("{{% raw %}}{}:\n  {kind}:\n", quoted(&id));
    for (key, value) in &words.named {
        let value = match parse_value(value) {
            Some(Json::String(read)) => quoted(&read),
            Some(_) => value.clone(),
            None => quoted(value),
        };
        writeln!(text, "    - {}: {value}", quoted(key)).map_err(fail)?;
    }
    if words.named.is_empty() {
        text.push_str("    []\n");
    }
    text.push_str("{% endraw %}");
    Ok(text)
}

struct OneFile {
    text: String,
}

impl Tree for OneFile {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        Ok((path == format!("{SHOWN}.zy")).then(|| self.text.clone()))
    }
}

/// The sentence for a function that does not exist.
pub fn unknown(name: &str) -> String {
    let known = zester_resources::catalog().names().chain(FUNCTIONS.iter().map(|function| function.name));
    let hint = did_you_mean(name, known).unwrap_or("`zester doc` lists what there is".into());
    format!("there is no function `{name}`; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

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
            assert_eq!(value_of(text), value, "{text:?}");
        }
    }

    #[test]
    #[rule("C-12")]
    fn c12_values_that_were_read_already_stay_what_they_are() {
        let values = json!({
            "text": "yes", "number": "5", "lines": "a\n\tb: c # d", "quote": "it's \"so\" {{ x }}", "mode": "0644",
            "list": ["a", 1, true, null], "map": {"a: b": {"c": [1.5]}}, "none": null, "flag": false, "big": 1e20, "small": [1e-9, -3],
            "empty": {"list": [], "map": {}, "text": ""},
        });
        let Json::Object(map) = &values else { panic!() };
        let words = Words::of_values(Some("/x"), &[], map);
        assert_eq!(Json::Object(words.named_json()), values);
        assert_eq!(words.positional, ["/x"]);
    }

    #[test]
    #[rule("C-12")]
    fn c12_the_bare_word_is_the_primary_parameter_and_may_hold_an_equals_sign() {
        let words = Words::parse(&["/etc/x?a=b".into(), "mode=0644".into()]);
        assert_eq!(words.positional, ["/etc/x?a=b"]);
        assert_eq!(words.named, [("mode".to_string(), "0644".to_string())]);
    }
}
