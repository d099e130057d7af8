//! A set of names, each of which is an aspect of its own: a revert takes out whom the change put in, and nobody else.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

/// The groups of a user, or the users of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(pub(crate) BTreeSet<String>);

impl Members {
    pub(crate) fn of<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Members {
        Members(names.into_iter().map(Into::into).collect())
    }

    /// As programs want them.
    pub(crate) fn with_commas(&self) -> String {
        self.0.iter().map(String::as_str).collect::<Vec<_>>().join(",")
    }

    /// For people.
    pub(crate) fn words(&self) -> String {
        if self.0.is_empty() { "none".to_string() } else { self.with_commas().replace(',', ", ") }
    }
}

impl Deref for Members {
    type Target = BTreeSet<String>;

    fn deref(&self) -> &BTreeSet<String> {
        &self.0
    }
}

impl DerefMut for Members {
    fn deref_mut(&mut self) -> &mut BTreeSet<String> {
        &mut self.0
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|name| (name, true)))
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        let members = BTreeMap::<String, Option<bool>>::deserialize(deserializer)?;
        Ok(Members(members.into_iter().filter(|(_, is)| *is == Some(true)).map(|(name, _)| name).collect()))
    }
}
