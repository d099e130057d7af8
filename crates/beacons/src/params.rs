//! Types of parameters that several beacons share. Each says in its error what to write instead.

use crate::limits::THINGS_MAX;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use zester_model::duration;

/// `30s`, `5m`, or a number of seconds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = String::deserialize(deserializer)?;
        duration::parse(&text).map(Time).map_err(D::Error::custom)
    }
}

/// `90%` or `90`.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Percent, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text.trim().trim_end_matches('%').trim_end().parse::<f64>().ok();
        let fits = number.filter(|number| (0.0..=100.0).contains(number));
        fits.map(Percent)
            .ok_or_else(|| D::Error::custom(format!("`{text}` is no share; write it from 0% to 100%")))
    }
}

/// Names of what is watched: a list, one name, or a map whose keys they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) Vec<String>);

impl Names {
    pub(crate) fn paths(self) -> Result<Vec<PathBuf>, String> {
        let paths: Vec<PathBuf> = self.0.into_iter().map(PathBuf::from).collect();
        match paths.iter().find(|path| !path.is_absolute()) {
            Some(path) => Err(format!("`{}` is no absolute path; begin it with `/`", path.display())),
            None => Ok(paths),
        }
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
        let mut names = deserializer.deserialize_any(NamesVisitor)?;
        names.dedup();
        match names.len() {
            0 => Err(D::Error::custom("it names nothing to watch")),
            1..=THINGS_MAX => Ok(Names(names)),
            many => Err(D::Error::custom(format!("it names {many} things; {THINGS_MAX} are the most"))),
        }
    }
}

struct NamesVisitor;

impl<'de> Visitor<'de> for NamesVisitor {
    type Value = Vec<String>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of names")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Vec<String>, E> {
        Ok(vec![name.to_string()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = items.next_element::<String>()? {
            names.push(name);
        }
        Ok(names)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while let Some((name, value)) = entries.next_entry::<String, serde_json::Value>()? {
            let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
            if !empty {
                let why = format!("`{name}` has options of its own; give them to the beacon, for all");
                return Err(A::Error::custom(why));
            }
            names.push(name);
        }
        Ok(names)
    }
}
