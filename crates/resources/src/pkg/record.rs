//! What a state finds to do about packages, and what it did: the same words for the dry run, the journal and the revert.

use super::installed_packages::Installed;
use super::wanted::Wanted;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use zester_host::overlay::Overlay;
use zester_model::outcome::Details;

/// One package on its way from a version to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Move {
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

/// What is to be done, and all that comes along.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PackageDrift {
    /// What was asked for and is not so.
    #[serde(default)]
    pub(crate) asked: Vec<Wanted>,
    /// Everything that changes, dependencies included, as far as it can be predicted. Records of earlier releases call
    /// those that went away `gone`, with the version that they had.
    #[serde(default, alias = "gone", deserialize_with = "moves")]
    pub(crate) moves: BTreeMap<String, Move>,
    /// What other programs changed in the meantime.
    #[serde(skip)]
    pub(crate) others: BTreeMap<String, Move>,
    /// Whom a mark is set on, or taken off.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) holds: BTreeMap<String, bool>,
    /// What is only fetched, with its version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) fetched: BTreeMap<String, String>,
    /// New package lists are fetched before anything is installed: until then nobody knows what comes, or whether.
    #[serde(skip)]
    pub(crate) after_update: bool,
    /// No plan could be made yet: it takes new lists, or the end of a transaction that was cut.
    #[serde(skip)]
    pub(crate) unplanned: bool,
    /// Files of the states tree that packages are installed from.
    #[serde(skip)]
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

fn moves<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Move>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Recorded {
        Moved(Move),
        Gone(String),
    }
    let read: BTreeMap<String, Recorded> = Deserialize::deserialize(deserializer)?;
    let moved = |recorded| match recorded {
        Recorded::Moved(moved) => moved,
        Recorded::Gone(version) => Move { old: Some(version), new: None },
    };
    Ok(read.into_iter().map(|(name, recorded)| (name, moved(recorded))).collect())
}

impl PackageDrift {
    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.holds.is_empty() && self.fetched.is_empty()
    }

    pub(crate) fn words(&self) -> String {
        let line = |(name, Move { old, new }): (&String, &Move)| {
            let version = |version: &Option<String>| version.clone().unwrap_or_else(|| "?".to_string());
            match (old, new) {
                (Some(old), Some(new)) => format!("{name}: {old} → {new}\n"),
                (Some(old), None) => format!("{name}: {old} → removed\n"),
                (None, new) => format!("{name}: new, {}\n", version(new)),
            }
        };
        let hold = |(name, on): (&String, &bool)| {
            format!("{name}: {}\n", if *on { "held" } else { "no longer held" })
        };
        let fetched = |(name, version): (&String, &String)| format!("{name}: {version} fetched\n");
        let moves: String = self.moves.iter().map(line).collect();
        let holds: String = self.holds.iter().map(hold).collect();
        moves + &holds + &self.fetched.iter().map(fetched).collect::<String>()
    }

    pub(crate) fn details(&self) -> Details {
        let mut details = Details::new();
        details.insert("packages".into(), json!(self.moves));
        let gone = self.moves.iter().filter(|(_, moved)| moved.old.is_some() && moved.new.is_none());
        let gone: Vec<&String> = gone.map(|(name, _)| name).collect();
        if !gone.is_empty() {
            details.insert("removed".into(), json!(gone));
        }
        if !self.others.is_empty() {
            details.insert("others".into(), json!(self.others));
        }
        if !self.holds.is_empty() {
            details.insert("held".into(), json!(self.holds));
        }
        if !self.fetched.is_empty() {
            details.insert("fetched".into(), json!(self.fetched));
        }
        details
    }

    /// Makes it known to later checks of a dry run.
    pub(crate) fn predict(&self, overlay: &Overlay) {
        for (name, moved) in &self.moves {
            match moved {
                Move { old: Some(_), new: None } => overlay.predict_package_removed(name),
                Move { new, .. } => overlay.predict_package(name, new.as_deref()),
            }
        }
    }
}

/// All that differs between two looks at the machine.
pub(crate) fn moved(before: &Installed, after: &Installed) -> BTreeMap<String, Move> {
    let names = before.versions().keys().chain(after.versions().keys());
    let of = |name: &String| Move { old: before.get(name).cloned(), new: after.get(name).cloned() };
    names.map(|name| (name.clone(), of(name))).filter(|(_, moved)| moved.old != moved.new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_earlier_releases_are_read() {
        let removed = json!({ "asked": ["hello"], "gone": { "hello": "2.10" } });
        let read: PackageDrift = serde_json::from_value(removed).unwrap();
        assert_eq!(read.asked, [Wanted::any("hello")]);
        assert_eq!(read.moves["hello"], Move { old: Some("2.10".into()), new: None });
        let installed = json!({
            "asked": [{ "name": "hello", "version": null }], "moves": { "hello": { "old": null, "new": "2.10" } },
        });
        let read: PackageDrift = serde_json::from_value(installed).unwrap();
        assert_eq!(read.asked, [Wanted::any("hello")]);
        assert_eq!(read.words(), "hello: new, 2.10\n");
    }
}
