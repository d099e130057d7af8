//! Types of parameters that several kinds share. Each says in its error what to write instead.

pub(crate) mod absolute;
pub(crate) mod environment;
pub(crate) mod mode;
pub(crate) mod pairs;
pub(crate) mod time;

pub use absolute::Absolute;
pub use environment::Environment;
pub use mode::Mode;
pub use time::Time;

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
