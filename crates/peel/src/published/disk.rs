//! What a cache of published trees does to a disk, one step at a time: so that a simulator brings its own, and looks at it
//! after every step of the very code that decides.

use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use zester_wire::ContentHash;

/// Only its owner looks into a cache: state files may hold what is not for everybody.
const DIR_MODE: u32 = 0o700;

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

/// The disk of this machine.
pub(super) struct RealDisk;

impl TreeDisk for RealDisk {
    fn entry(&self, path: &Path) -> Option<DiskEntry> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(match found.file_type() {
            sort if sort.is_dir() => DiskEntry::Directory,
            sort if sort.is_symlink() => DiskEntry::Link,
            _ => DiskEntry::File,
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(path)?.flatten();
        Ok(entries.filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Under another name first, and on disk before it has its own.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".new");
        let temp = path.with_file_name(name);
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temp)?;
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
        file.write_all(content)?;
        file.sync_all()?;
        std::fs::rename(&temp, path)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)
    }

    fn link(&self, target: &Path, at: &Path) -> io::Result<()> {
        symlink(target, at)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = match self.entry(path) {
            Some(DiskEntry::Directory) => std::fs::remove_dir_all(path),
            _ => std::fs::remove_file(path),
        };
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        std::fs::File::open(path).and_then(|dir| dir.sync_all())
    }
}
