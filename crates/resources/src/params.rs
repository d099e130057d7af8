//! Types of parameters that several kinds share. Each says in its error what to write instead.

pub(crate) mod absolute;
pub(crate) mod environment;
pub(crate) mod mode;
pub(crate) mod time;

pub use absolute::Absolute;
pub use environment::Environment;
pub use mode::Mode;
pub use time::Time;

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
