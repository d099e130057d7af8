//! Variables for a command.

use super::pairs::{self, Pair};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A list of `KEY=value`, a map, or a list of one-key maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(pub Vec<(String, String)>);

struct Variable(String, String);

impl Pair<'_> for Variable {
    const WHOLE: &'static str = "a list of `KEY=value` or a map of variables";
    const ONE: &'static str = "a text like `KEY=value`";
    type Value = String;

    fn of_text<E: Error>(text: &str) -> Result<Variable, E> {
        match text.split_once('=') {
            Some((key, value)) => Variable::of_entry(key.to_string(), value.to_string()),
            None => Err(E::custom(format!("`{text}` has no `=`; write `KEY=value`"))),
        }
    }

    fn of_entry<E: Error>(key: String, value: String) -> Result<Variable, E> {
        if key.is_empty() || key.contains('=') || key.contains('\0') || value.contains('\0') {
            return Err(E::custom(format!("`{key}` cannot name a variable; write `KEY=value`")));
        }
        Ok(Variable(key, value))
    }
}

impl<'de> Deserialize<'de> for Environment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Environment, D::Error> {
        let variables: Vec<Variable> = pairs::read(deserializer)?;
        Ok(Environment(variables.into_iter().map(|Variable(key, value)| (key, value)).collect()))
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
