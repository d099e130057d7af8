//! Packages as a state lists them: names, names with versions, names with files to install them from.

use super::version::VersionSpec;
use crate::params::pairs::{self, Pair};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A package, and the version it is to have, if that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// The file that it is installed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<String>,
}

impl Wanted {
    pub(crate) fn any(name: impl Into<String>) -> Wanted {
        Wanted { name: name.into(), ..Wanted::default() }
    }

    pub(crate) fn exactly(name: impl Into<String>, version: impl Into<String>) -> Wanted {
        Wanted { name: name.into(), version: Some(version.into()), source: None }
    }

    /// What it says of versions; judged before, so that what cannot be read says nothing.
    pub(crate) fn spec(&self) -> Option<VersionSpec> {
        self.version.as_deref().and_then(|version| VersionSpec::parse(version).ok())
    }
}

/// Records of earlier releases hold plain names where nothing but a name counted.
impl<'de> Deserialize<'de> for Wanted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Wanted, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Recorded {
            Name(String),
            Whole {
                name: String,
                version: Option<String>,
                #[serde(default)]
                source: Option<String>,
            },
        }
        Ok(match Recorded::deserialize(deserializer)? {
            Recorded::Name(name) => Wanted::any(name),
            Recorded::Whole { name, version, source } => Wanted { name, version, source },
        })
    }
}

/// A list of names and of `name: version`, or a map of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedList(pub(crate) Vec<Wanted>);

impl Pair<'_> for Wanted {
    const WHOLE: &'static str = "a list of package names";
    const ONE: &'static str = "the name of a package, or `name: version`";
    type Value = Option<String>;

    fn of_text<E: Error>(name: &str) -> Result<Wanted, E> {
        Ok(Wanted::any(name))
    }

    fn of_entry<E: Error>(name: String, version: Option<String>) -> Result<Wanted, E> {
        Ok(Wanted { name, version, source: None })
    }
}

impl<'de> Deserialize<'de> for WantedList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WantedList, D::Error> {
        pairs::read(deserializer).map(WantedList)
    }
}

impl schemars::JsonSchema for WantedList {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Packages".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["array", "object"], "x-takes": "list of names or of `name: version`" })
    }
}

/// A list of `name: file`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceList(pub(crate) Vec<Wanted>);

struct Sourced(Wanted);

impl Pair<'_> for Sourced {
    const WHOLE: &'static str = "a list of `name: file`";
    const ONE: &'static str = "`name: file`";
    type Value = String;

    fn of_text<E: Error>(name: &str) -> Result<Sourced, E> {
        Err(E::custom(format!("`{name}` has no file; write `name: /path/of/the/file`")))
    }

    fn of_entry<E: Error>(name: String, source: String) -> Result<Sourced, E> {
        Ok(Sourced(Wanted { name, version: None, source: Some(source) }))
    }
}

impl<'de> Deserialize<'de> for SourceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SourceList, D::Error> {
        let read: Vec<Sourced> = pairs::read(deserializer)?;
        Ok(SourceList(read.into_iter().map(|sourced| sourced.0).collect()))
    }
}

impl schemars::JsonSchema for SourceList {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PackageFiles".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["array", "object"], "x-takes": "list of `name: file`" })
    }
}
