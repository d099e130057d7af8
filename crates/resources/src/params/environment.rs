//! Variables for a command.

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// A list of `KEY=value`, a map, or a list of one-key maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub Vec<(String, String)>);

fn checked<E: Error>(key: String, value: String) -> Result<(String, String), E> {
    if key.is_empty() || key.contains('=') || key.contains('\0') || value.contains('\0') {
        return Err(E::custom(format!("`{key}` cannot name a variable; write `KEY=value`")));
    }
    Ok((key, value))
}

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = Environment;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of `KEY=value` or a map of variables")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Environment, A::Error> {
        let mut variables = Vec::new();
        while let Some((key, value)) = map.next_entry()? {
            variables.push(checked(key, value)?);
        }
        Ok(Environment(variables))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Environment, A::Error> {
        let mut variables = Vec::new();
        while let Some(Item(mut found)) = list.next_element()? {
            variables.append(&mut found);
        }
        Ok(Environment(variables))
    }
}

struct Item(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Item, D::Error> {
        deserializer.deserialize_any(One)
    }
}

struct One;

impl<'de> Visitor<'de> for One {
    type Value = Item;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a text like `KEY=value`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Item, E> {
        match text.split_once('=') {
            Some((key, value)) => Ok(Item(vec![checked(key.to_string(), value.to_string())?])),
            None => Err(E::custom(format!("`{text}` has no `=`; write `KEY=value`"))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
        Whole.visit_map(map).map(|environment| Item(environment.0))
    }
}

impl<'de> Deserialize<'de> for Environment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Environment, D::Error> {
        deserializer.deserialize_any(Whole)
    }
}

impl schemars::JsonSchema for Environment {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Environment".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["array", "object"], "x-takes": "list of `KEY=value` or map" })
    }
}
