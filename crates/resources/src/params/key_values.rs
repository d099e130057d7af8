//! Keys and their values, as texts.

use super::pairs::{self, Pair};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A map, or a list of one-key maps; `KEY=value` too. Values are taken as they are written: `yes` stays `yes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValues(pub Vec<(String, String)>);

struct KeyValue(String, String);

impl Pair<'_> for KeyValue {
    const WHOLE: &'static str = "a map of keys and values";
    const ONE: &'static str = "a key and its value";
    type Value = String;

    fn of_text<E: Error>(text: &str) -> Result<KeyValue, E> {
        match text.split_once('=') {
            Some((key, value)) => KeyValue::of_entry(key.trim().to_string(), value.trim().to_string()),
            None => Err(E::custom(format!("`{text}` has no value; write `{text}: value`"))),
        }
    }

    fn of_entry<E: Error>(key: String, value: String) -> Result<KeyValue, E> {
        if key.trim().is_empty() || key.contains('\n') || value.contains('\n') {
            return Err(E::custom(format!("`{key}` and its value have to fit into one line")));
        }
        Ok(KeyValue(key, value))
    }
}

impl<'de> Deserialize<'de> for KeyValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KeyValues, D::Error> {
        let pairs: Vec<KeyValue> = pairs::read(deserializer)?;
        Ok(KeyValues(pairs.into_iter().map(|KeyValue(key, value)| (key, value)).collect()))
    }
}

impl schemars::JsonSchema for KeyValues {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "KeyValues".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["array", "object"], "x-takes": "map of keys and values" })
    }
}
