//! Where the paths of a run really are, links followed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use zester_host::{Fault, FileKind, HostRead};

/// How many links at the end of a path are followed, one to the next: what the system itself does.
const LINKS_MAX: usize = 40;

/// Remembers each directory: many paths of a run lie in few of them.
pub struct RealPlaces<'a> {
    host: &'a dyn HostRead,
    directories: RefCell<HashMap<PathBuf, PathBuf>>,
}

impl<'a> RealPlaces<'a> {
    pub fn on(host: &'a dyn HostRead) -> RealPlaces<'a> {
        RealPlaces { host, directories: RefCell::default() }
    }

    /// `follows`: a link at the end of the path as well. The path itself where that cannot be told: its state says why.
    pub fn of(&self, path: &Path, follows: bool) -> PathBuf {
        let real = self.of_its_directory(path);
        let real = real.and_then(|real| if follows { self.behind(real, &mut |_| {}) } else { Ok(real) });
        real.unwrap_or_else(|_| path.to_path_buf())
    }

    /// All that the path stands on: its own name, where that really is, and with `follows` each link at its end and the thing
    /// itself. As far as it can be told: its state says why it cannot.
    pub fn names(&self, path: &Path, follows: bool) -> Vec<PathBuf> {
        let mut names = vec![path.to_path_buf()];
        let Ok(real) = self.of_its_directory(path) else { return names };
        names.push(real.clone());
        if follows {
            let _its_state_says_why = self.behind(real, &mut |next| names.push(next.to_path_buf()));
        }
        names
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

    /// The thing itself, where links stand at the end of a path. `passing` hears where each leads.
    fn behind(&self, mut path: PathBuf, passing: &mut dyn FnMut(&Path)) -> Result<PathBuf, Fault> {
        for _ in 0..LINKS_MAX {
            if self.host.stat(&path)?.is_none_or(|meta| meta.kind != FileKind::Link) {
                break;
            }
            let target = self.host.read_link(&path)?;
            let target = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
            path = self.host.real_path(&target)?;
            passing(&path);
        }
        Ok(path)
    }
}
