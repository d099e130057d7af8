//! Where the paths of a run really are, links followed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use zester_host::real::Real;
use zester_host::{Fault, FileKind, HostRead};

/// How many links at the end of a path are followed, one to the next: what the system itself does.
const LINKS_MAX: usize = 40;

/// Remembers each directory: many paths of a run lie in few of them.
#[derive(Default)]
pub struct RealPlaces {
    host: Real,
    directories: RefCell<HashMap<PathBuf, PathBuf>>,
}

impl RealPlaces {
    /// `follows`: a link at the end of the path as well. The path itself where that cannot be told: its state says why.
    pub fn of(&self, path: &Path, follows: bool) -> PathBuf {
        let real = self.of_its_directory(path);
        let real = real.and_then(|real| if follows { self.behind(real) } else { Ok(real) });
        real.unwrap_or_else(|_| path.to_path_buf())
    }

    fn of_its_directory(&self, path: &Path) -> Result<PathBuf, Fault> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return self.host.real_path(path);
        };
        if let Some(real) = self.directories.borrow().get(directory) {
            return Ok(real.join(name));
        }
        let real = self.host.real_path(path)?;
        if let Some(real) = real.parent() {
            self.directories.borrow_mut().insert(directory.to_path_buf(), real.to_path_buf());
        }
        Ok(real)
    }

    /// The thing itself, where links stand at the end of a path.
    fn behind(&self, mut path: PathBuf) -> Result<PathBuf, Fault> {
        for _ in 0..LINKS_MAX {
            if self.host.stat(&path)?.is_none_or(|meta| meta.kind != FileKind::Link) {
                break;
            }
            let target = self.host.read_link(&path)?;
            let target = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
            path = self.host.real_path(&target)?;
        }
        Ok(path)
    }
}
