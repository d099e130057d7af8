//! A value with its place: what the YAML composer yields and what parameters are read from.
//!
//! Any `Deserialize` type can be read from a [`Node`]; a mismatch comes back with the span of the innermost node that
//! did not fit, so that a wrong type points at the value and not at the file.

use crate::secret;
use crate::source::Span;
use crate::suggest::did_you_mean;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::sync::Arc;

/// Keys that are all named where somebody wrote another; of more, only those that look like it.
const KEYS_LISTED: usize = 8;

/// What a plain scalar means by YAML's (1.1, as Salt reads it) rules. Quoted scalars are always text.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum ScalarType {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text,
    /// What `!secret` marks: the text of a sealed value, which only some peels can open.
    Sealed,
}

/// A scalar with the letters that stand in the file: `0644` stays `0644`, `1.10` stays `1.10`.
#[derive(Clone, Debug, PartialEq)]
pub struct Scalar {
    pub text: Arc<str>,
    pub scalar_type: ScalarType,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Scalar(Scalar),
    /// Shared, so that an alias costs nothing.
    List(Arc<Vec<Node>>),
    Map(Arc<Vec<(Node, Node)>>),
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub span: Span,
    pub value: Value,
}

impl Node {
    pub fn text(span: Span, text: impl Into<Arc<str>>) -> Node {
        Node { span, value: Value::Scalar(Scalar { text: text.into(), scalar_type: ScalarType::Text }) }
    }

    pub fn null(span: Span) -> Node {
        Node { span, value: Value::Scalar(Scalar { text: "".into(), scalar_type: ScalarType::Null }) }
    }

    pub fn list(span: Span, items: Vec<Node>) -> Node {
        Node { span, value: Value::List(Arc::new(items)) }
    }

    pub fn map(span: Span, entries: Vec<(Node, Node)>) -> Node {
        Node { span, value: Value::Map(Arc::new(entries)) }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(scalar) if scalar.scalar_type == ScalarType::Null)
    }

    /// The letters of a scalar that is not null.
    pub fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) if scalar.scalar_type != ScalarType::Null => Some(&scalar.text),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&[(Node, Node)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// What it is, in words for a message: "a list", "the number 5".
    pub fn describe(&self) -> String {
        match &self.value {
            Value::List(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
            Value::Scalar(scalar) => match scalar.scalar_type {
                ScalarType::Null => "nothing".into(),
                ScalarType::Bool(_) => format!("`{}`", scalar.text),
                ScalarType::Int(_) | ScalarType::Float(_) => format!("the number {}", scalar.text),
                ScalarType::Text => {
                    format!("the text `{}`", secret::without_placeholders(&scalar.text))
                }
                ScalarType::Sealed => "a secret".into(),
            },
        }
    }

    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::List(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(entries) => Json::Object(
                entries
                    .iter()
                    .map(|(key, value)| (key.as_text().unwrap_or_default().to_string(), value.to_json()))
                    .collect(),
            ),
            Value::Scalar(scalar) => match scalar.scalar_type {
                ScalarType::Null => Json::Null,
                ScalarType::Bool(value) => value.into(),
                ScalarType::Int(value) => value.into(),
                ScalarType::Float(value) => value.into(),
                ScalarType::Text => Json::String(scalar.text.to_string()),
                ScalarType::Sealed => Json::String(format!("{}{}", secret::SEALED, scalar.text)),
            },
        }
    }

    /// A node that stands for a JSON value, all of it at one place.
    pub fn from_json(span: Span, json: &serde_json::Value) -> Node {
        use serde_json::Value as Json;
        let scalar = |text: String, scalar_type| Value::Scalar(Scalar { text: text.into(), scalar_type });
        let value = match json {
            Json::Null => return Node::null(span),
            Json::Bool(value) => scalar(value.to_string(), ScalarType::Bool(*value)),
            Json::Number(number) => {
                let scalar_type = number.as_i64().map(ScalarType::Int);
                scalar(
                    number.to_string(),
                    scalar_type.unwrap_or(ScalarType::Float(number.as_f64().unwrap_or(f64::NAN))),
                )
            }
            Json::String(text) => match text.strip_prefix(secret::SEALED) {
                Some(sealed) => scalar(sealed.to_string(), ScalarType::Sealed),
                None => scalar(text.clone(), ScalarType::Text),
            },
            Json::Array(items) => {
                Value::List(Arc::new(items.iter().map(|item| Node::from_json(span, item)).collect()))
            }
            Json::Object(map) => Value::Map(Arc::new(
                map.iter()
                    .map(|(key, item)| (Node::text(span, key.as_str()), Node::from_json(span, item)))
                    .collect(),
            )),
        };
        Node { span, value }
    }

    /// Reads any deserializable type out of this node.
    pub fn read<'de, T: de::Deserialize<'de>>(&'de self) -> Result<T, Mismatch> {
        T::deserialize(self)
    }
}

/// Why a node could not be read as the type that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The innermost node that did not fit.
    pub span: Option<Span>,
    pub message: String,
    pub hint: Option<String>,
}

impl Mismatch {
    pub fn new(message: impl Into<String>) -> Mismatch {
        Mismatch { span: None, message: message.into(), hint: None }
    }

    /// Gives the place, unless an inner node already did.
    pub fn or_at(mut self, span: Span) -> Mismatch {
        self.span = self.span.or(Some(span));
        self
    }

    fn expected(what: &dyn fmt::Display, node: &Node, hint: &str) -> Mismatch {
        let mismatch = Mismatch::new(format!("expected {what}, found {}", node.describe())).or_at(node.span);
        Mismatch { hint: Some(hint.to_string()), ..mismatch }
    }

    /// A sentence whose last part, behind `; `, says what to write instead: that part becomes the hint.
    pub fn with_advice(sentence: &str) -> Mismatch {
        // A `; ` between backquotes is the user's own.
        let parts = sentence.rsplit_once("; ").filter(|(message, _)| message.matches('`').count() % 2 == 0);
        match parts {
            Some((message, hint)) => Mismatch { hint: Some(hint.to_string()), ..Mismatch::new(message) },
            None => Mismatch::new(sentence),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Mismatch {}

impl de::Error for Mismatch {
    fn custom<T: fmt::Display>(message: T) -> Mismatch {
        Mismatch::with_advice(&message.to_string())
    }

    fn invalid_type(found: de::Unexpected<'_>, expected: &dyn de::Expected) -> Mismatch {
        let found = match found {
            de::Unexpected::Bool(value) => format!("the truth value `{value}`"),
            de::Unexpected::Signed(_) | de::Unexpected::Unsigned(_) | de::Unexpected::Float(_) => {
                "a number".to_string()
            }
            de::Unexpected::Str(text) => format!("the text `{}`", secret::without_placeholders(text)),
            de::Unexpected::Unit | de::Unexpected::Option => "nothing".to_string(),
            de::Unexpected::Seq => "a list".to_string(),
            de::Unexpected::Map => "a map".to_string(),
            other => other.to_string(),
        };
        Mismatch::new(format!("expected {expected}, found {found}"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Mismatch {
        let known = || {
            let names: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
            (names.len() <= KEYS_LISTED).then(|| format!("the keys are {}", names.join(", ")))
        };
        let hint = did_you_mean(field, expected.iter().copied()).or_else(known);
        Mismatch { span: None, message: format!("unknown key `{field}`"), hint }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Mismatch {
        let choices: Vec<String> = expected.iter().map(|name| format!("`{name}`")).collect();
        Mismatch::new(format!("`{variant}` is not one of {}", choices.join(", ")))
    }

    fn missing_field(field: &'static str) -> Mismatch {
        Mismatch::new(format!("`{field}` is missing"))
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Mismatch;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let read = match &self.value {
            Value::Scalar(scalar) => match scalar.scalar_type {
                ScalarType::Null => visitor.visit_unit(),
                ScalarType::Bool(value) => visitor.visit_bool(value),
                ScalarType::Int(value) => visitor.visit_i64(value),
                ScalarType::Float(value) => visitor.visit_f64(value),
                ScalarType::Text | ScalarType::Sealed => visitor.visit_borrowed_str(&scalar.text),
            },
            Value::List(items) => visitor.visit_seq(Items { rest: items.iter() }),
            Value::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), value: None }),
        };
        read.map_err(|mismatch| mismatch.or_at(self.span))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let value = match &self.value {
            Value::Scalar(Scalar { scalar_type: ScalarType::Bool(value), .. }) => Some(*value),
            Value::Scalar(Scalar { text, scalar_type: ScalarType::Text }) => {
                match text.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "on" => Some(true),
                    "false" | "no" | "off" => Some(false),
                    _ => None,
                }
            }
            _ => None,
        };
        match value {
            Some(value) => visitor.visit_bool(value).map_err(|mismatch: Mismatch| mismatch.or_at(self.span)),
            None => Err(Mismatch::expected(&"true or false", self, "write `true` or `false`")),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let value = match &self.value {
            Value::Scalar(Scalar { scalar_type: ScalarType::Int(value), .. }) => Some(*value),
            Value::Scalar(Scalar { text, scalar_type: ScalarType::Text }) => text.trim().parse().ok(),
            _ => None,
        };
        match value {
            Some(value) => visitor.visit_i64(value).map_err(|mismatch: Mismatch| mismatch.or_at(self.span)),
            None => Err(Mismatch::expected(&"a whole number", self, "write digits, such as `3`")),
        }
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let value = match &self.value {
            Value::Scalar(Scalar { scalar_type: ScalarType::Int(value), .. }) => Some(*value as f64),
            Value::Scalar(Scalar { scalar_type: ScalarType::Float(value), .. }) => Some(*value),
            _ => None,
        };
        match value {
            Some(value) => visitor.visit_f64(value).map_err(|mismatch: Mismatch| mismatch.or_at(self.span)),
            None => Err(Mismatch::expected(&"a number", self, "write digits, such as `0.5`")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match self.as_text() {
            Some(text) => {
                visitor.visit_borrowed_str(text).map_err(|mismatch: Mismatch| mismatch.or_at(self.span))
            }
            None => Err(Mismatch::expected(&"a text", self, text_hint(self))),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        visitor.visit_newtype_struct(self).map_err(|mismatch| mismatch.or_at(self.span))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        match &self.value {
            Value::List(items) => visitor
                .visit_seq(Items { rest: items.iter() })
                .map_err(|mismatch: Mismatch| mismatch.or_at(self.span)),
            _ => Err(Mismatch::expected(&"a list", self, "write `[…]`, or each item on a line with `- `")),
        }
    }

    /// A map, or Salt's list of one-key maps.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        let read = match &self.value {
            Value::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), value: None }),
            Value::List(items)
                if items.iter().all(|item| item.as_map().is_some_and(|map| map.len() == 1)) =>
            {
                visitor.visit_map(Entries {
                    rest: items.iter().flat_map(|item| item.as_map().unwrap_or(&[])),
                    value: None,
                })
            }
            _ => Err(Mismatch::expected(&"a map", self, "write `key: value` below it, or `{key: value}`")),
        };
        read.map_err(|mismatch| mismatch.or_at(self.span))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mismatch> {
        match self.as_text() {
            Some(text) => visitor
                .visit_enum(IntoDeserializer::<Mismatch>::into_deserializer(text))
                .map_err(|mismatch: Mismatch| mismatch.or_at(self.span)),
            None => Err(Mismatch::expected(&"a word", self, text_hint(self))),
        }
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_i64(visitor)
    }
    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_i64(visitor)
    }
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_i64(visitor)
    }
    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_i64(visitor)
    }
    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_i64(visitor)
    }
    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_i64(visitor)
    }
    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_i64(visitor)
    }
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mismatch> {
        self.deserialize_f64(visitor)
    }

    serde::forward_to_deserialize_any! {
        char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// What to do about something that is no text.
fn text_hint(node: &Node) -> &'static str {
    match &node.value {
        Value::Scalar(_) => "write a text, in quotes if need be",
        Value::List(_) | Value::Map(_) => "quotes around it make it a text",
    }
}

struct Items<'de> {
    rest: std::slice::Iter<'de, Node>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Mismatch;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mismatch> {
        let Some(node) = self.rest.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|mismatch| mismatch.or_at(node.span))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Entries<'de, I: Iterator<Item = &'de (Node, Node)>> {
    rest: I,
    value: Option<&'de Node>,
}

impl<'de, I: Iterator<Item = &'de (Node, Node)>> MapAccess<'de> for Entries<'de, I> {
    type Error = Mismatch;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mismatch> {
        let Some((key, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        let text = StrDeserializer::<Mismatch>::new(key.as_text().unwrap_or_default());
        seed.deserialize(text).map(Some).map_err(|mismatch| mismatch.or_at(key.span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mismatch> {
        match self.value.take() {
            Some(value) => seed.deserialize(value).map_err(|mismatch| mismatch.or_at(value.span)),
            None => Err(Mismatch::new("a value was asked for before its key")),
        }
    }
}
