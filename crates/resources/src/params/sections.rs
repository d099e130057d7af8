//! The sections of an INI file and what they hold.

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;

/// What one section is to hold, or is not to hold any more. Values are taken as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    pub settings: Vec<(String, Option<String>)>,
}

/// Sections by name; a key beside them stands before any section.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    pub top: Vec<(String, Option<String>)>,
    pub named: Vec<(String, Section)>,
}

/// What stands behind a name.
enum Entry {
    Text(String),
    Settings(Vec<(String, Option<String>)>),
    Nothing,
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map of keys and values, a list of keys, or a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Entry, E> {
        Ok(Entry::Nothing)
    }

    fn visit_none<E: Error>(self) -> Result<Entry, E> {
        Ok(Entry::Nothing)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Entry, E> {
        Ok(Entry::Text(text.to_string()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Entry, E> {
        Ok(Entry::Text(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Entry, E> {
        Ok(Entry::Text(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Entry, E> {
        Ok(Entry::Text(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entry, A::Error> {
        let mut keys = Vec::new();
        while let Some(key) = list.next_element::<String>()? {
            keys.push((key, None));
        }
        Ok(Entry::Settings(keys))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let mut settings = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, Option<String>>()? {
            settings.push((key, value));
        }
        Ok(Entry::Settings(settings))
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct SectionsVisitor;

impl<'de> Visitor<'de> for SectionsVisitor {
    type Value = Sections;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a map of sections, or a list of their names")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Sections, E> {
        let named = vec![(text.to_string(), Section::default())];
        Ok(Sections { named, ..Sections::default() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Sections, A::Error> {
        let mut sections = Sections::default();
        while let Some(name) = list.next_element::<String>()? {
            sections.named.push((name, Section::default()));
        }
        Ok(sections)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sections, A::Error> {
        let mut sections = Sections::default();
        while let Some((name, entry)) = map.next_entry::<String, Entry>()? {
            match entry {
                Entry::Text(value) => sections.top.push((name, Some(value))),
                Entry::Settings(settings) => sections.named.push((name, Section { settings })),
                Entry::Nothing => sections.named.push((name, Section::default())),
            }
        }
        Ok(sections)
    }
}

impl<'de> Deserialize<'de> for Sections {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Sections, D::Error> {
        deserializer.deserialize_any(SectionsVisitor)
    }
}

impl schemars::JsonSchema for Sections {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sections".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["object", "array", "string"], "x-takes": "map of sections, or list of names" })
    }
}
