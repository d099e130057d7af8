//! Puts the values of tags into the scalars of a reaction.
//!
//! When this is asked, the parser has settled what the scalar is; a value becomes a part of its text, or, where it is
//! all of a plain scalar, the value itself with its type. Blocks, actions and their fields stand in the file: no value
//! can be one.

use super::compose::{Built, compose_with};
use crate::position::Positions;
use crate::template::fills::{self, Fill, Part};
use serde_json::Value as Json;
use std::sync::Arc;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::node::{Node, Scalar, ScalarType, Value};
use zester_model::source::{FileId, Span};

/// Levels of a reaction that only its file can write: its blocks, a block, the fields of an action.
const STRUCTURE_LEVELS: usize = 3;
/// The level at which the fields of an action stand.
pub const FIELDS_LEVEL: usize = 2;
/// The fields of an action that say which peels are meant.
pub const TARGETS: [&str; 2] = ["target", "tgt"];
/// Longer letters of a key are not repeated in a message.
const SHOWN_LETTERS_MAX: usize = 60;

/// What is put into scalars.
#[derive(Copy, Clone)]
pub struct Filling<'f> {
    pub fills: &'f [Fill],
    /// `<<` merges; not in what a filter wrote down, where it is a key like any other.
    pub merges: bool,
}

/// Where a node stands.
#[derive(Copy, Clone, Debug)]
pub struct Place {
    /// Lists and maps around it.
    pub level: usize,
    pub key: bool,
    /// It is an item of a list.
    pub item: bool,
    /// It says which peels are meant.
    pub target: bool,
}

impl Place {
    /// Only the file can write what stands here. The fields of an action may be the items of a list.
    pub fn is_structure(self) -> bool {
        self.level < STRUCTURE_LEVELS || self.level == STRUCTURE_LEVELS && self.item
    }
}

impl Filling<'_> {
    pub const NOTHING: Filling<'static> = Filling { fills: &[], merges: true };

    /// Whether a value belongs into this scalar.
    pub fn holds(&self, text: &str) -> bool {
        !self.fills.is_empty() && fills::may_hold(text)
    }

    /// The scalar with its values. `plain`: it has neither quotes nor a tag.
    pub fn fill(&self, at: Span, text: &str, plain: bool, place: Place) -> Result<Built, Diagnostic> {
        let parts = fills::parts(text);
        let mut wild = false;
        for part in &parts {
            if let Part::Filled(index) = part {
                wild |= self.get(*index, at)?.is_wild();
            }
        }
        if wild && place.target {
            return Err(no_target(at));
        }
        if let ([Part::Filled(index)], true, false) = (parts.as_slice(), plain, place.key) {
            let fill = self.get(*index, at)?;
            return Ok(Built { wild, ..built(at, fill, place)? });
        }
        let mut filled = String::new();
        for part in &parts {
            let text = match part {
                Part::Written(text) => text,
                Part::Filled(index) => {
                    let fill = self.get(*index, at)?;
                    if let (true, Fill::Typed { value: Json::Array(_) | Json::Object(_), .. }) =
                        (place.key, fill)
                    {
                        let message = "a key is a text, and this yields a list or a map";
                        return Err(Diagnostic::new(Kind::Yaml, message).at(at));
                    }
                    fill.text()
                }
            };
            if filled.len() + text.len() > limits::RENDER_VALUE_BYTES_MAX {
                let mib = limits::RENDER_VALUE_BYTES_MAX / 1024 / 1024;
                return Err(Diagnostic::new(Kind::Yaml, format!("a value is larger than {mib} MiB")).at(at));
            }
            filled.push_str(text);
        }
        if place.level < 2 && !place.key {
            return Err(no_block(at));
        }
        Ok(Built { node: Node::text(at, filled), weight: 1, depth: 0, filled: place.key, wild })
    }

    fn get(&self, index: usize, at: Span) -> Result<&Fill, Diagnostic> {
        let unknown = || Diagnostic::new(Kind::Yaml, "a private character that is reserved").at(at);
        self.fills.get(index).ok_or_else(unknown)
    }
}

/// A value that is all of a plain scalar.
fn built(at: Span, fill: &Fill, place: Place) -> Result<Built, Diagnostic> {
    let (node, weight, depth) = match fill {
        Fill::Text(text) => (Node::text(at, text.as_str()), 1, 0),
        Fill::Typed { value, .. } => from_json(at, value),
        Fill::Encoded(text) => match serde_json::from_str::<Json>(text) {
            Ok(value) => from_json(at, &value),
            Err(_) => encoded(at, text)?,
        },
    };
    let collection = depth > 0;
    let empty = node.is_null() || node.as_text() == Some("");
    if place.level < 2 && !collection {
        return match empty {
            true => Ok(Built { node: Node::null(at), weight, depth, filled: false, wild: false }),
            false => Err(no_block(at)),
        };
    }
    if collection && place.is_structure() {
        return Err(no_structure(at));
    }
    if place.level + depth > limits::YAML_DEPTH_MAX {
        let message = format!("nested more than {} levels deep", limits::YAML_DEPTH_MAX);
        return Err(Diagnostic::new(Kind::Yaml, message).at(at));
    }
    Ok(Built { node, weight, depth, filled: collection, wild: false })
}

/// Reads what a filter wrote down as YAML.
fn encoded(at: Span, text: &str) -> Result<(Node, usize, usize), Diagnostic> {
    if let Some(inner) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        // `yaml_squote`: its line breaks are line breaks, which YAML would fold.
        return Ok((Node::text(at, inner.replace("''", "'")), 1, 0));
    }
    let filling = Filling { fills: &[], merges: false };
    let composed = compose_with(text, &mut Positions::plain(FileId(0), text), filling);
    match composed.root {
        Some(node) if composed.diagnostics.is_empty() && composed.sealed.is_empty() => Ok(moved(at, &node)),
        _ => {
            let why =
                composed.diagnostics.first().map_or("it holds `!secret`", |found| found.message.as_str());
            Err(Diagnostic::new(Kind::Yaml, format!("what this yields cannot be read: {why}")).at(at))
        }
    }
}

/// A node, all of it at one place, with its weight and depth.
fn moved(at: Span, node: &Node) -> (Node, usize, usize) {
    let join = |(weight, depth): (usize, usize), (_, more, below): &(Node, usize, usize)| {
        (weight + more, depth.max(below + 1))
    };
    match &node.value {
        Value::Scalar(scalar) => (Node { span: at, value: Value::Scalar(scalar.clone()) }, 1, 0),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(|item| moved(at, item)).collect();
            let (weight, depth) = items.iter().fold((1, 1), join);
            (Node::list(at, items.into_iter().map(|(node, ..)| node).collect()), weight, depth)
        }
        Value::Map(entries) => {
            let values: Vec<_> = entries.iter().map(|(_, value)| moved(at, value)).collect();
            let (weight, depth) = values.iter().fold((1 + entries.len(), 1), join);
            let keys = entries.iter().map(|(key, _)| moved(at, key).0);
            (Node::map(at, keys.zip(values.into_iter().map(|(node, ..)| node)).collect()), weight, depth)
        }
    }
}

/// A node for a value of an event. A text is a text, whatever it begins with.
fn from_json(at: Span, value: &Json) -> (Node, usize, usize) {
    let scalar = |text: &str, scalar_type| Node {
        span: at,
        value: Value::Scalar(Scalar { text: Arc::from(text), scalar_type }),
    };
    let node = match value {
        Json::Null => Node::null(at),
        Json::Bool(value) => scalar(&value.to_string(), ScalarType::Bool(*value)),
        Json::Number(number) => {
            let float = || ScalarType::Float(number.as_f64().unwrap_or(f64::NAN));
            scalar(&number.to_string(), number.as_i64().map_or_else(float, ScalarType::Int))
        }
        Json::String(text) => Node::text(at, text.as_str()),
        Json::Array(items) => {
            let items = items.iter().map(|item| from_json(at, item).0).collect();
            return moved(at, &Node::list(at, items));
        }
        Json::Object(map) => {
            let entries =
                map.iter().map(|(key, value)| (Node::text(at, key.as_str()), from_json(at, value).0));
            return moved(at, &Node::map(at, entries.collect()));
        }
    };
    (node, 1, 0)
}

/// A value where a block has to be written.
fn no_block(at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, "what `{{ }}` yields is one value, not a block")
        .at(at)
        .hint("write the block in the file, or `{% include %}` one")
}

/// A list or map where only the file can write.
pub fn no_structure(at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, "an event cannot write blocks, actions or their fields")
        .at(at)
        .hint("write the keys here, each with its own `{{ }}`")
}

/// A value that could mean other peels than the file does: a pattern, an operator, a list.
pub fn no_target(at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, "an event may name one peel here, and this has letters that mean more")
        .at(at)
        .hint("write patterns and operators in the file, outside of `{{ }}`; names have letters, digits, `.`, `_` and `-`")
}

/// A map of an event under `<<`.
pub fn no_merge(at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, "what `{{ }}` yields cannot be merged with `<<`")
        .at(at)
        .hint("write the keys here, each with its own `{{ }}`")
}

/// Problems in words that the user wrote, and short: a value of an event may be long.
pub fn without_placeholders(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    for found in &mut diagnostics {
        let told = fills::shown(&found.message);
        found.message = match told.char_indices().nth(2 * SHOWN_LETTERS_MAX) {
            Some((end, _)) => format!("{}…", told.get(..end).unwrap_or_default()),
            None => told,
        };
    }
    diagnostics
}
