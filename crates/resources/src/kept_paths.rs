//! What a state that empties directories leaves alone: the paths that other states of its run decide about or edit.

use crate::context::Checking;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};

pub(crate) struct KeptPaths {
    top: PathBuf,
    below: BTreeSet<PathBuf>,
    filled: bool,
}

impl KeptPaths {
    /// Below a directory, as a state names it and where it really is.
    pub(crate) fn below(cx: &Checking<'_>, named: &Path, top: &Path) -> KeptPaths {
        let mut below: BTreeSet<PathBuf> = cx.files.managed_below(named).into_iter().collect();
        if named != top {
            below.extend(cx.files.managed_below(top));
        }
        // The directory itself: of interest to who does not fill it.
        let filled = below.remove(Path::new(""));
        KeptPaths { top: top.to_path_buf(), below, filled }
    }

    /// Whether a state of the run, other than a `file.directory`, decides about all that lies in the directory.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled
    }

    /// Whether a path is somebody's, lies in what is, or holds what is.
    pub(crate) fn keeps(&self, path: &Path) -> bool {
        let Ok(own) = path.strip_prefix(&self.top) else { return false };
        let next = self.below.range::<Path, _>((Bound::Included(own), Bound::Unbounded)).next();
        own.ancestors().any(|above| self.below.contains(above))
            || next.is_some_and(|next| next.starts_with(own))
    }
}
