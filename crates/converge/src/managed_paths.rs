//! The paths that the states of a run decide about or edit: what none of them may clear away as nobody's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use zester_host::HostRead;
use zester_host::real::Real;
use zester_resources::Bound;
use zester_resources::claims::ManagedItem;

/// It says what a directory is, and leaves to others what lies inside.
const DIRECTORY: &str = "file.directory";

/// Collected when the first state asks: most runs clear nothing away.
pub struct ManagedPaths {
    bound: Vec<Arc<dyn Bound>>,
    /// As they are declared, and whether a state also decides about what lies inside.
    paths: OnceLock<BTreeMap<PathBuf, bool>>,
}

impl ManagedPaths {
    pub fn of(bound: &[Arc<dyn Bound>]) -> ManagedPaths {
        ManagedPaths { bound: bound.to_vec(), paths: OnceLock::new() }
    }

    fn all(&self) -> &BTreeMap<PathBuf, bool> {
        self.paths.get_or_init(|| {
            let mut paths = BTreeMap::new();
            for bound in &self.bound {
                let claims = bound.claims();
                let owned = claims.owned.into_iter().filter_map(|owned| match owned.item {
                    ManagedItem::Path(path) => Some(path),
                    _ => None,
                });
                for path in owned.chain(claims.edits) {
                    *paths.entry(path).or_default() |= bound.kind() != DIRECTORY;
                }
            }
            paths
        })
    }

    /// Those below a directory, each from the directory on; the directory itself, as an empty path, where a state decides about
    /// what lies inside. Where links lead is looked at each time: a state before this one may have made them.
    pub fn below(&self, directory: &Path) -> Vec<PathBuf> {
        let host = Real::new();
        let mut below = BTreeSet::new();
        for (declared, fills) in self.all() {
            let real = host.real_path(declared).ok();
            for path in [Some(declared), real.as_ref()].into_iter().flatten() {
                let rest = path.strip_prefix(directory).ok();
                let rest = rest.filter(|rest| *fills || !rest.as_os_str().is_empty());
                below.extend(rest.map(Path::to_path_buf));
            }
        }
        below.into_iter().collect()
    }
}
