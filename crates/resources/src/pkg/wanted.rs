//! Packages as a state lists them: names, or names with versions.

use crate::params::pairs::{self, Pair};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// A package, and the version it is to have, if that matters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
}

impl Wanted {
    /// Whether a version will do. `1.2*` stands for all that begin like that.
    pub(crate) fn accepts(&self, version: &str) -> bool {
        match self.version.as_deref() {
            None => true,
            Some(wanted) => match wanted.strip_suffix('*') {
                Some(beginning) => version.starts_with(beginning),
                None => version == wanted,
            },
        }
    }

    /// `name` or `name=version`, as apt takes it.
    pub(crate) fn argument(&self) -> String {
        match &self.version {
            Some(version) => format!("{}={version}", self.name),
            None => self.name.clone(),
        }
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
        Ok(Wanted { name: name.to_string(), version: None })
    }

    fn of_entry<E: Error>(name: String, version: Option<String>) -> Result<Wanted, E> {
        Ok(Wanted { name, version })
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
