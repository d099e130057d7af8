//! The paths that the states of a run decide about or edit: what none of them may clear away as nobody's.

use std::collections::BTreeSet;
use std::ops::Bound as Limit;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use zester_resources::Bound;
use zester_resources::claims::ManagedItem;

/// Collected when the first state asks: most runs clear nothing away.
pub struct ManagedPaths {
    bound: Vec<Arc<dyn Bound>>,
    paths: OnceLock<BTreeSet<PathBuf>>,
}

impl ManagedPaths {
    pub fn of(bound: &[Arc<dyn Bound>]) -> ManagedPaths {
        ManagedPaths { bound: bound.to_vec(), paths: OnceLock::new() }
    }

    fn all(&self) -> &BTreeSet<PathBuf> {
        self.paths.get_or_init(|| {
            let mut paths = BTreeSet::new();
            for claims in self.bound.iter().map(|bound| bound.claims()) {
                paths.extend(claims.edits);
                paths.extend(claims.owned.into_iter().filter_map(|owned| match owned.item {
                    ManagedItem::Path(path) => Some(path),
                    _ => None,
                }));
            }
            paths
        })
    }

    /// Those below a directory, each from the directory on.
    pub fn below(&self, directory: &Path) -> Vec<PathBuf> {
        let behind = self.all().range::<Path, _>((Limit::Excluded(directory), Limit::Unbounded));
        let below = behind.map_while(|path| path.strip_prefix(directory).ok());
        below.map(Path::to_path_buf).collect()
    }
}
