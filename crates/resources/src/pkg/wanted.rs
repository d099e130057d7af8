//! Packages as a state lists them: names, or names with versions.

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

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

struct Whole;

impl<'de> Visitor<'de> for Whole {
    type Value = WantedList;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of package names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WantedList, A::Error> {
        let mut found = Vec::new();
        while let Some((name, version)) = map.next_entry()? {
            found.push(Wanted { name, version });
        }
        Ok(WantedList(found))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<WantedList, A::Error> {
        let mut found = Vec::new();
        while let Some(Item(mut items)) = list.next_element()? {
            found.append(&mut items);
        }
        Ok(WantedList(found))
    }
}

struct Item(Vec<Wanted>);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Item, D::Error> {
        deserializer.deserialize_any(One)
    }
}

struct One;

impl<'de> Visitor<'de> for One {
    type Value = Item;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the name of a package, or `name: version`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Item, E> {
        Ok(Item(vec![Wanted { name: name.to_string(), version: None }]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
        Whole.visit_map(map).map(|list| Item(list.0))
    }
}

impl<'de> Deserialize<'de> for WantedList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<WantedList, D::Error> {
        deserializer.deserialize_any(Whole)
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
