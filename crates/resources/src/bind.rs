//! From the parameters of a state, as written, to a resource with types.

use crate::params::{Invalid, Params};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor, value::StrDeserializer};
use std::cell::Cell;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::{Mismatch, Node, Scalar, ScalarType, Value};
use zester_model::program::Param;
use zester_model::secret::holds_placeholder;
use zester_model::source::Span;

/// Reads a resource, or says everything that is wrong with its parameters.
pub(crate) fn read<P: Params>(
    params: &[Param],
    at: Span,
    validate: fn(&P) -> Vec<Invalid>,
) -> Result<P, Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    let mut params = prepared::<P>(params, &mut diagnostics);
    let secret = |param: &&Param| !P::SECRETS.contains(&param.name.as_str());
    let misused = params.iter().filter(secret).filter_map(|param| Some((param, holds_secret(&param.value)?)));
    diagnostics.extend(misused.map(|(param, at)| no_secret::<P>(param, at)).collect::<Vec<_>>());
    let mut dropped: Vec<String> = Vec::new();
    loop {
        let source = AsMap { params: &params, current: Cell::new(None) };
        let mismatch = match P::deserialize(&source) {
            Ok(mut read) => {
                for param in params.iter().filter(|param| *param.word != *param.name) {
                    read.spelled(&param.word);
                }
                diagnostics.extend(invalid_values(P::KIND, validate(&read), &params, at));
                return if diagnostics.is_empty() { Ok(read) } else { Err(diagnostics) };
            }
            Err(mismatch) => mismatch,
        };
        // The parameter it stumbled over is reported and left out, so that the next one gets its turn.
        match source.current.get() {
            Some(index) => {
                let param = params.remove(index);
                diagnostics.push(at_parameter::<P>(&param, mismatch));
                dropped.push(param.name);
            }
            None => {
                if !dropped.iter().any(|name| mismatch.message.contains(&format!("`{name}`"))) {
                    diagnostics.push(
                        Diagnostic::new(Kind::State, format!("{}: {}", P::KIND, mismatch.message)).at(at),
                    );
                }
                return Err(diagnostics);
            }
        }
    }
}

/// Where a secret stands in a value, if one does.
fn holds_secret(node: &Node) -> Option<Span> {
    match &node.value {
        Value::Scalar(scalar) => holds_placeholder(&scalar.text).then_some(node.span),
        Value::List(items) => items.iter().find_map(holds_secret),
        Value::Map(entries) => {
            entries.iter().find_map(|(key, value)| holds_secret(key).or_else(|| holds_secret(value)))
        }
    }
}

fn no_secret<P: Params>(param: &Param, at: Span) -> Diagnostic {
    let message = format!("`{}` of {} cannot hold a secret", param.name, P::KIND);
    let diagnostic = Diagnostic::new(Kind::State, message).at(at);
    match P::SECRETS {
        _ if param.name == "command" || param.name == "args" => diagnostic.hint(
            "every user of the machine can read a command: give it in `env` and write \"$NAME\", or in `stdin`",
        ),
        [] => diagnostic.hint("a secret goes into the content of a file, or the `env` or `stdin` of a command"),
        names => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            diagnostic.hint(format!("of this kind {} can", names.join(", ")))
        }
    }
}

fn at_parameter<P: Params>(param: &Param, mismatch: Mismatch) -> Diagnostic {
    let message = format!("`{}` of {}: {}", param.name, P::KIND, mismatch.message);
    Diagnostic::new(Kind::State, message)
        .at(mismatch.span.unwrap_or(param.value.span))
        .maybe_hint(mismatch.hint)
}

fn invalid_values(kind: &str, invalid: Vec<Invalid>, params: &[Param], at: Span) -> Vec<Diagnostic> {
    let diagnostic = |invalid: Invalid| {
        let Mismatch { message, hint, .. } = Mismatch::with_advice(&invalid.message);
        let param = params.iter().find(|param| param.name == invalid.parameter);
        // Of a list, the item that the message quotes is meant.
        let quoted = |item: &&Node| item.as_text().is_some_and(|text| message.contains(&format!("`{text}`")));
        let item = param.and_then(|param| param.value.as_list()?.iter().find(quoted));
        let span = item.map(|item| item.span).or(param.map(|param| param.value.span)).unwrap_or(at);
        Diagnostic::new(Kind::State, format!("`{}` of {kind}: {message}", invalid.parameter))
            .at(span)
            .maybe_hint(hint)
            .maybe_hint(invalid.hint)
    };
    invalid.into_iter().map(diagnostic).collect()
}

/// Under their own names, without those that say nothing, lists and texts in their usual form.
fn prepared<P: Params>(params: &[Param], diagnostics: &mut Vec<Diagnostic>) -> Vec<Param> {
    let mut found: Vec<Param> = Vec::new();
    for param in params.iter().filter(|param| !param.value.is_null()) {
        let mut param = param.clone();
        let alias = P::ALIASES.iter().find(|(_, aliases)| aliases.contains(&param.name.as_str()));
        if let Some((name, _)) = alias {
            param.name = (*name).to_string();
        } else if param.name == "name" {
            param.name = P::PRIMARY.to_string();
        }
        if let Some(first) = found.iter().find(|other| other.name == param.name) {
            let message = format!("`{}` of {} is given twice", param.name, P::KIND);
            diagnostics
                .push(Diagnostic::new(Kind::State, message).at(param.key).label(first.key, "first here"));
            continue;
        }
        if P::LISTS.contains(&param.name.as_str()) && param.value.as_list().is_none() {
            param.value = Node::list(param.value.span, vec![param.value.clone()]);
        }
        if P::LINES.contains(&param.name.as_str())
            && let Some(joined) = joined(&param.value)
        {
            param.value = joined;
        }
        found.push(param);
    }
    found
}

/// A list of texts as one text, each a line; `None` for what is no such list.
fn joined(node: &Node) -> Option<Node> {
    let lines: Option<Vec<&str>> = node.as_list()?.iter().map(Node::as_text).collect();
    let text: String = lines?.iter().flat_map(|line| [line, "\n"]).collect();
    let value = Value::Scalar(Scalar { text: text.into(), scalar_type: ScalarType::Text });
    Some(Node { span: node.span, value })
}

/// The parameters as one map, which remembers where the reader was when it stumbled.
struct AsMap<'a> {
    params: &'a [Param],
    current: Cell<Option<usize>>,
}

impl<'de> Deserializer<'de> for &'de AsMap<'_> {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        visitor.visit_map(Access { source: self, next: 0 })
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

struct Access<'de, 'a> {
    source: &'de AsMap<'a>,
    next: usize,
}

impl<'de> MapAccess<'de> for Access<'de, '_> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        let Some(param) = self.source.params.get(self.next) else {
            self.source.current.set(None);
            return Ok(None);
        };
        self.source.current.set(Some(self.next));
        seed.deserialize(StrDeserializer::new(&param.name))
            .map(Some)
            .map_err(|mismatch: Mismatch| mismatch.or_at(param.key))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        let Some(param) = self.source.params.get(self.next) else {
            return Err(Mismatch::new("a value was asked for before its key"));
        };
        self.next += 1;
        seed.deserialize(&param.value).map_err(|mismatch| mismatch.or_at(param.value.span))
    }
}
