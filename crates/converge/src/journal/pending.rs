//! Refreshes that are owed: a small file, replaced whole.

use crate::data_dir::replace_file;
use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

pub struct Pending {
    path: PathBuf,
    owed: BTreeMap<String, BTreeSet<String>>,
}

impl Pending {
    pub fn read(journal: &Path) -> Result<Pending, Error> {
        let path = journal.join("pending");
        let owed = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                Error::other(format!(
                    "the list of pending refreshes, {}, is damaged: {error}",
                    path.display()
                ))
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(Error::io("read", &path, error)),
        };
        Ok(Pending { path, owed })
    }

    pub fn all(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.owed
    }

    pub fn owe(&mut self, watcher: &str, changed: impl IntoIterator<Item = String>) {
        self.owed.entry(watcher.to_string()).or_default().extend(changed);
    }

    /// Whether something was owed.
    pub fn settle(&mut self, watcher: &str) -> bool {
        self.owed.remove(watcher).is_some()
    }

    pub fn save(&self) -> Result<(), Error> {
        let text = serde_json::to_vec_pretty(&self.owed).map_err(|error| Error::other(error.to_string()))?;
        replace_file(&self.path, &text)
    }
}
