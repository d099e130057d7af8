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
    /// that it is gone.
    pub scopes: BTreeSet<String>,
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
    },
}

impl From<Written> for Debt {
    fn from(written: Written) -> Debt {
        match written {
            Written::Changed(changed) => Debt { changed, scopes: BTreeSet::new() },
            Written::Debt { changed, scopes } => Debt { changed, scopes },
        }
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
    pub fn owe(
        &mut self,
        watcher: &str,
        changed: impl IntoIterator<Item = String>,
        scope: Option<&str>,
    ) -> bool {
        let debt = self.owed.entry(watcher.to_string()).or_default();
        let before = (debt.changed.len(), debt.scopes.len());
        debt.changed.extend(changed);
        debt.scopes.extend(scope.map(str::to_string));
        before != (debt.changed.len(), debt.scopes.len())
    }

    /// What a run that was cut off owes; whether that was news.
    pub fn take_over(&mut self, cut: &LogFile) -> Result<bool, Error> {
        let (scope, mut news) = (cut.scope()?, false);
        for (watcher, changed) in cut.owed()? {
            news |= self.owe(&watcher, changed, scope.as_deref());
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
