//! The parameters of a kind, and types that several kinds share. Each says in its error what to write instead.

pub(crate) mod absolute;
pub(crate) mod environment;
pub(crate) mod key_values;
pub(crate) mod mode;
pub(crate) mod pairs;
pub(crate) mod path_pattern;
pub(crate) mod sections;
pub(crate) mod template;
pub(crate) mod time;

pub use absolute::Absolute;
pub use environment::Environment;
pub use key_values::KeyValues;
pub use mode::{FileMode, Mode};
pub use path_pattern::PathPattern;
pub use sections::Sections;
pub use template::Template;
pub use time::Time;
pub use zester_params::params;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// What a user can say about a kind. `#[params(…)]` implements it, from the fields of a struct.
pub trait Params: DeserializeOwned + JsonSchema + Send + Sync + 'static {
    /// `file.managed`
    const KIND: &'static str;
    /// The parameter that defaults to the state id.
    const PRIMARY: &'static str;
    /// Parameters that say what to manage instead of the primary one.
    const INSTEAD_OF_PRIMARY: &'static [&'static str];
    /// The manual page, Markdown: first line is the summary, then prose and an example in a `yaml` block.
    const DOC: &'static str;
    /// Other names of parameters: what users of the field write for them.
    const ALIASES: &'static [(&'static str, &'static [&'static str])];
    /// Parameters that take a list, where a single value stands for a list of one.
    const LISTS: &'static [&'static str];
    /// Parameters that take a text, where a list stands for its lines.
    const LINES: &'static [&'static str];
    /// Parameters that may hold a secret: the kind reveals it where it belongs, and shows it nowhere. In any other one
    /// it is a compile error.
    const SECRETS: &'static [&'static str];

    /// Told, once all were read, of each other name ([`Params::ALIASES`]) that a parameter was written by. For everybody
    /// else these names are one parameter.
    fn spelled(&mut self, word: &str);
}

/// A parameter that has the right type and the wrong value; becomes a compile error at that parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Invalid {
    pub parameter: &'static str,
    pub message: String,
    pub hint: Option<String>,
}

impl Invalid {
    pub fn new(parameter: &'static str, message: impl Into<String>) -> Invalid {
        Invalid { parameter, message: message.into(), hint: None }
    }
}

/// What is wrong with a source that tries to leave the states directory (S-4). Paths of this machine may go anywhere.
pub(crate) fn outside_states(source: &str) -> Option<String> {
    let below = ["salt://", "zester://"].iter().find_map(|scheme| source.strip_prefix(scheme));
    let rest = match below {
        Some(rest) => rest,
        None if source.starts_with('/') || source.contains("://") => return None,
        None => source,
    };
    if rest.split('/').any(|part| part == "..") || below.is_some() && rest.starts_with('/') {
        return Some(format!("`{source}` leaves the states directory; name a file below it, without `..`"));
    }
    let environment = rest.split_once("?saltenv=").map(|(path, _)| path)?;
    Some(format!("`{source}` names an environment, and there is only one; write `salt://{environment}`"))
}

/// A type that is read from one text.
macro_rules! from_text {
    ($type:ident, $takes:literal, $parse:expr) => {
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                let parse: fn(&str) -> Result<$type, String> = $parse;
                parse(&text).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": ["string", "number"], "x-takes": $takes })
            }
        }
    };
}
pub(crate) use from_text;
