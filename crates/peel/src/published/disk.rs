//! What a cache of published trees does to a disk, one step at a time: so that a simulator brings its own, and looks at it
//! after every step of the very code that decides.

use std::io;
use std::path::{Path, PathBuf};
use zester_wire::ContentHash;

/// What stands at a path; a link is not followed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DiskEntry {
    File,
    Directory,
    Link,
}

pub trait TreeDisk: Send + Sync {
    fn entry(&self, path: &Path) -> Option<DiskEntry>;
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// The names in a directory.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// A whole file or none, and on disk when this returns.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()>;
    /// A directory with all above it.
    fn make_dirs(&self, path: &Path) -> io::Result<()>;
    fn link(&self, target: &Path, at: &Path) -> io::Result<()>;
    /// Takes the place of a file or a link that is there.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Whatever stands there, with all below it. Nothing is fine.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// What was renamed in it stays so.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Whether a content that was read is the one that is meant (D-3).
    fn is_intact(&self, hash: &ContentHash, content: &[u8]) -> bool {
        hash.is_of(content)
    }

    /// Whether its steps take time, and so a thread of their own.
    fn blocks(&self) -> bool {
        true
    }
}
