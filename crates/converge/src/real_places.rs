//! Where the paths of a run really are, links on the way followed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use zester_host::HostRead;
use zester_host::real::Real;

/// Remembers each directory: many paths of a run lie in few of them.
#[derive(Default)]
pub struct RealPlaces {
    host: Real,
    directories: RefCell<HashMap<PathBuf, PathBuf>>,
}

impl RealPlaces {
    /// The path itself where that cannot be told: whoever works on it says why.
    pub fn of(&self, path: &Path) -> PathBuf {
        let whole = || self.host.real_path(path).unwrap_or_else(|_| path.to_path_buf());
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return whole() };
        if let Some(real) = self.directories.borrow().get(directory) {
            return real.join(name);
        }
        let real = whole();
        if let Some(real) = real.parent() {
            self.directories.borrow_mut().insert(directory.to_path_buf(), real.to_path_buf());
        }
        real
    }
}
