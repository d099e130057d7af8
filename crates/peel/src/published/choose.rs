//! Which directory of states an execution sees (S-36, S-37).

use super::cache::{DiskCache, Pinned};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What `state.apply` says where there are no states yet, to the letter (S-37).
pub const NO_STATES: &str = "states engine unavailable: no states directory exists yet (state files not yet synced from KV and no baked states dir); retry after state files are published";

/// What a peel says at its start where there are none (S-37), and then what to do about it.
const NONE_AT_START: &str = "states engine unavailable at boot; will build when state files appear";
const WHAT_TO_DO: &str = "publish states with `zester publish`, or give this peel its own with --states DIR";

/// How often an empty cache is looked at before another directory is taken, and how long apart: it may just be swapped.
const LOOKS: usize = 5;
const LOOK_PAUSE: Duration = Duration::from_millis(25);

/// How often it is looked whether there are states now, where there were none. Costs a look at two directories.
const APPEAR_PAUSE: Duration = Duration::from_secs(1);

/// Where states may be.
#[derive(Clone)]
pub struct StatesDirs {
    pub cache: Option<Arc<DiskCache>>,
    /// What the machine was installed with.
    pub baked: Option<PathBuf>,
}

/// The directory of one execution.
pub struct Chosen {
    pub path: PathBuf,
    /// Holds the published tree in place for as long as the execution lasts.
    pub pinned: Option<Pinned>,
}

impl StatesDirs {
    /// Picks one. `patient` is who cannot do without.
    pub async fn choose(&self, patient: bool) -> Option<Chosen> {
        let baked = self.baked.as_deref().filter(|baked| baked.is_dir());
        let Some(cache) = &self.cache else { return baked.map(Chosen::plain) };
        for look in 0..if patient { LOOKS } else { 1 } {
            if look > 0 {
                tokio::time::sleep(LOOK_PAUSE).await;
            }
            // A tree that was published empty holds nothing to run (S-36).
            if let Some(pinned) = cache.pin().filter(|pinned| holds_files(&pinned.path)) {
                return Some(Chosen { path: pinned.path.clone(), pinned: Some(pinned) });
            }
            // Files that were put there by hand are as good.
            if holds_files(cache.live()) {
                return Some(Chosen::plain(cache.live()));
            }
        }
        if let Some(baked) = baked
            && patient
        {
            let cache = cache.live().display();
            tracing::warn!("no published states in {cache}; falling back to {}", baked.display());
        }
        baked.map(Chosen::plain)
    }

    /// Waits until there are files in one of them.
    pub async fn appear(&self) {
        while !self.choose(false).await.is_some_and(|chosen| holds_files(&chosen.path)) {
            tokio::time::sleep(APPEAR_PAUSE).await;
        }
    }

    /// Tells at the start of a peel that it has no states.
    pub fn tell_at_start(&self) {
        let published = |cache: &DiskCache| cache.pin().is_some_and(|pinned| holds_files(&pinned.path));
        let cached = self.cache.as_ref().is_some_and(|cache| published(cache) || holds_files(cache.live()));
        if !cached && !self.baked.as_deref().is_some_and(Path::is_dir) {
            tracing::warn!("{NONE_AT_START}");
            tracing::info!("{WHAT_TO_DO}");
        }
    }
}

impl Chosen {
    fn plain(path: &Path) -> Chosen {
        Chosen { path: path.into(), pinned: None }
    }
}

/// Only what was read and holds nothing is empty, and what is not there: what cannot be read is taken, so that whoever runs it
/// says why, and nothing else runs in its place.
fn holds_files(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
