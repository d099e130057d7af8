//! What a state that empties directories leaves alone: the paths that other states of its run decide about, edit or need.

use crate::context::Checking;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use zester_host::Fault;

pub(crate) struct KeptPaths {
    top: PathBuf,
    below: BTreeSet<PathBuf>,
    filled: bool,
}

impl KeptPaths {
    /// Below a directory, as a state names it and where it really is. `itself`: who asks fills that directory too.
    pub(crate) fn below(
        cx: &Checking<'_>,
        named: &Path,
        top: &Path,
        itself: bool,
    ) -> Result<KeptPaths, Fault> {
        let mut below: BTreeSet<PathBuf> = cx.files.managed_below(named)?.into_iter().collect();
        if named != top {
            below.extend(cx.files.managed_below(top)?);
        }
        // Who decides about the directory itself has no share in what lies inside, unless it fills it or takes it all.
        below.remove(Path::new(""));
        let filled = cx.files.fillers_of(&[named, top]) > usize::from(itself);
        Ok(KeptPaths { top: top.to_path_buf(), below, filled })
    }

    /// Whether another state of the run puts things into the directory, or into one above, that only it knows, or takes all that
    /// lies there.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled
    }

    /// Whether a path is somebody's, lies in what is, or holds what is.
    pub(crate) fn keeps(&self, path: &Path) -> bool {
        if self.filled {
            return true;
        }
        let Ok(own) = path.strip_prefix(&self.top) else { return false };
        let next = self.below.range::<Path, _>((Bound::Included(own), Bound::Unbounded)).next();
        own.ancestors().any(|above| self.below.contains(above))
            || next.is_some_and(|next| next.starts_with(own))
    }
}
