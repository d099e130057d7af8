//! Refreshes that are owed: a small file, replaced whole.

use super::log::LogFile;
use crate::disk::Disk;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a watcher is owed a refresh.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Debt {
    /// The states that changed.
    pub changed: BTreeSet<String>,
    /// What the runs that owe it were asked for. A later run of the same that does not hold the watcher any more tells
    /// that it was renamed, moved elsewhere or taken out.
    pub scopes: BTreeSet<String>,
    /// The objects that hold the graphs of those runs: a state in one of them is not the watcher under a new name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub graphs: BTreeSet<String>,
}

/// The run that a debt comes from, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// What it was asked for.
    pub scope: Option<String>,
    /// The object that holds its graph.
    pub graph: Option<String>,
}

/// Earlier versions wrote only what changed.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Changed(BTreeSet<String>),
    Debt {
        changed: BTreeSet<String>,
        #[serde(default)]
        scopes: BTreeSet<String>,
        #[serde(default)]
        graphs: BTreeSet<String>,
    },
}

impl From<Written> for Debt {
    fn from(written: Written) -> Debt {
        match written {
            Written::Changed(changed) => Debt { changed, ..Debt::default() },
            Written::Debt { changed, scopes, graphs } => Debt { changed, scopes, graphs },
        }
    }
}

impl Debt {
    pub fn add(&mut self, other: &Debt) {
        self.changed.extend(other.changed.iter().cloned());
        self.scopes.extend(other.scopes.iter().cloned());
        self.graphs.extend(other.graphs.iter().cloned());
    }
}

pub struct Pending {
    path: PathBuf,
    owed: BTreeMap<String, Debt>,
}

impl Pending {
    pub fn read(journal: &Path) -> Result<Pending, Error> {
        let path = journal.join("pending");
        let written: BTreeMap<String, Written> = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Error::other(format!(
                    "the list of pending refreshes, {}, is damaged: {error}",
                    path.display()
                ))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        let owed = written.into_iter().map(|(watcher, written)| (watcher, written.into())).collect();
        Ok(Pending { path, owed })
    }

    pub fn all(&self) -> &BTreeMap<String, Debt> {
        &self.owed
    }

    /// Whether this was news.
    pub fn owe(&mut self, watcher: &str, changed: impl IntoIterator<Item = String>, origin: &Origin) -> bool {
        let debt = self.owed.entry(watcher.to_string()).or_default();
        let before = debt.clone();
        debt.changed.extend(changed);
        debt.scopes.extend(origin.scope.clone());
        debt.graphs.extend(origin.graph.clone());
        before != *debt
    }

    /// Gives a debt to others; whether there was one.
    pub fn pass_on(&mut self, watcher: &str, heirs: &[String]) -> bool {
        let Some(debt) = self.owed.remove(watcher) else { return false };
        for heir in heirs {
            self.owed.entry(heir.clone()).or_default().add(&debt);
        }
        true
    }

    /// What a run that was cut off owes; whether that was news.
    pub fn take_over(&mut self, cut: &LogFile) -> Result<bool, Error> {
        let (origin, mut news) = (cut.origin()?, false);
        for (watcher, changed) in cut.owed()? {
            news |= self.owe(&watcher, changed, &origin);
        }
        Ok(news)
    }

    /// Takes back one reason; whether it was one.
    pub fn excuse(&mut self, watcher: &str, changed: &str) -> bool {
        let Some(debt) = self.owed.get_mut(watcher) else { return false };
        let was = debt.changed.remove(changed);
        if debt.changed.is_empty() {
            self.owed.remove(watcher);
        }
        was
    }

    /// Whether something was owed.
    pub fn settle(&mut self, watcher: &str) -> bool {
        self.owed.remove(watcher).is_some()
    }

    pub fn save(&self, disk: &Disk) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(&self.owed).map_err(|error| Error::other(error.to_string()))?;
        disk.replace(&self.path, &text)
    }
}
