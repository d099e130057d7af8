//! Pending refreshes: a small file, replaced whole.

use super::lists::{self, DamagedList};
use super::log::LogFile;
use crate::disk::Disk;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Why a refresh of a watcher is pending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PendingRefresh {
    /// The states that changed.
    pub changed: BTreeSet<String>,
    /// What the runs that left it were asked for. A later run of the same that does not hold the watcher any more tells
    /// that it was renamed, moved elsewhere or taken out.
    pub scopes: BTreeSet<String>,
    /// The objects that hold the graphs of those runs: a state in one of them is not the watcher under a new name.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub graphs: BTreeSet<String>,
}

/// The run that a pending refresh comes from, as far as it is known.
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
    PendingRefresh {
        changed: BTreeSet<String>,
        #[serde(default)]
        scopes: BTreeSet<String>,
        #[serde(default)]
        graphs: BTreeSet<String>,
    },
}

impl From<Written> for PendingRefresh {
    fn from(written: Written) -> PendingRefresh {
        match written {
            Written::Changed(changed) => PendingRefresh { changed, ..PendingRefresh::default() },
            Written::PendingRefresh { changed, scopes, graphs } => PendingRefresh { changed, scopes, graphs },
        }
    }
}

impl PendingRefresh {
    pub fn add(&mut self, other: &PendingRefresh) {
        self.changed.extend(other.changed.iter().cloned());
        self.scopes.extend(other.scopes.iter().cloned());
        self.graphs.extend(other.graphs.iter().cloned());
    }
}

pub struct Pending {
    path: PathBuf,
    pending: BTreeMap<String, PendingRefresh>,
}

impl Pending {
    /// What the list says, and why it cannot be read if that is so: nothing is known of it then.
    pub fn read(journal: &Path) -> Result<(Pending, Option<DamagedList>), Error> {
        let (written, damaged) = lists::read::<BTreeMap<String, Written>>(journal, "pending")?;
        let pending = written.into_iter().map(|(watcher, written)| (watcher, written.into())).collect();
        Ok((Pending { path: journal.join("pending"), pending }, damaged))
    }

    pub fn all(&self) -> &BTreeMap<String, PendingRefresh> {
        &self.pending
    }

    /// Whether this was news.
    pub fn add_pending(
        &mut self,
        watcher: &str,
        changed: impl IntoIterator<Item = String>,
        origin: &Origin,
    ) -> bool {
        let refresh = self.pending.entry(watcher.to_string()).or_default();
        let before = refresh.clone();
        refresh.changed.extend(changed);
        refresh.scopes.extend(origin.scope.clone());
        refresh.graphs.extend(origin.graph.clone());
        before != *refresh
    }

    /// Moves a pending refresh to others; whether there was one.
    pub fn transfer(&mut self, watcher: &str, successors: &[String]) -> bool {
        let Some(refresh) = self.pending.remove(watcher) else { return false };
        for successor in successors {
            self.pending.entry(successor.clone()).or_default().add(&refresh);
        }
        true
    }

    /// What a run that was cut off left pending; whether that was news.
    pub fn recover(&mut self, cut: &LogFile) -> Result<bool, Error> {
        let (origin, mut news) = (cut.origin()?, false);
        for (watcher, changed) in cut.pending()? {
            news |= self.add_pending(&watcher, changed, &origin);
        }
        Ok(news)
    }

    /// Takes back one reason; whether it was one.
    pub fn withdraw(&mut self, watcher: &str, changed: &str) -> bool {
        let Some(refresh) = self.pending.get_mut(watcher) else { return false };
        let was = refresh.changed.remove(changed);
        if refresh.changed.is_empty() {
            self.pending.remove(watcher);
        }
        was
    }

    /// Whether something was pending, whatever run left it.
    pub fn clear(&mut self, watcher: &str) -> bool {
        self.pending.remove(watcher).is_some()
    }

    pub fn save(&self, disk: &Disk) -> Result<(), Error> {
        let text =
            serde_json::to_vec_pretty(&self.pending).map_err(|error| Error::other(error.to_string()))?;
        disk.replace(&self.path, &text)
    }
}
