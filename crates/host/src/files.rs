//! Looking at files and touching them.

use crate::fault::Fault;
use std::path::{Path, PathBuf};

/// What sort of thing a path is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sort {
    File,
    Directory,
    Link,
    /// A device, socket or pipe: never managed, always named.
    Other,
}

/// What `lstat` tells, as far as states care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub sort: Sort,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// Modification and access time, nanoseconds since the epoch.
    pub mtime_ns: i128,
    pub atime_ns: i128,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub uid: u32,
    pub gid: u32,
    pub home: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub gid: u32,
}

/// What a rehearsal knows about a package before any package manager does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Foreseen {
    /// Would be installed, with its version where that is known.
    Installed(Option<String>),
    Removed,
}

/// A file to be put in place in one step, complete with mode and owner.
#[derive(Clone, Debug)]
pub struct NewFile<'a> {
    pub content: &'a [u8],
    pub mode: u32,
    pub owner: Owner,
}

/// Everything a check may do. There is no way to write through it.
pub trait Look: Send + Sync {
    /// The thing itself, links not followed; `None` where nothing is.
    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault>;
    /// What the path leads to, links followed; `None` where nothing is (or the link dangles).
    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault>;
    /// The whole content of a file; a file over `limit` bytes is a fault.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault>;
    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault>;
    /// Names in a directory, sorted.
    fn list(&self, path: &Path) -> Result<Vec<std::ffi::OsString>, Fault>;
    fn user(&self, name: &str) -> Result<Option<User>, Fault>;
    fn group(&self, name: &str) -> Result<Option<Group>, Fault>;
    /// Who we are: what new files belong to when nothing is said.
    fn me(&self) -> Owner;
    /// The mode bits that new files do not get.
    fn umask(&self) -> u32;
    /// The time of day, in nanoseconds since 1970.
    fn now_ns(&self) -> i128 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX))
    }
    /// Where files go that nobody keeps. It is open to all.
    fn temp_dir(&self) -> PathBuf {
        std::env::temp_dir()
    }
    /// The version of a package that an earlier state of a rehearsal would install; the real machine foresees
    /// nothing.
    fn package_foreseen(&self, _name: &str) -> Option<Foreseen> {
        None
    }
}

/// Everything an apply may do. Each call is whole or did not happen.
pub trait Touch: Look {
    /// Temp file beside it, owner, mode, fsync, rename, fsync of the directory.
    fn put_file(&self, path: &Path, file: &NewFile<'_>) -> Result<(), Fault>;
    fn make_directory(&self, path: &Path, mode: u32, owner: Owner) -> Result<(), Fault>;
    /// A link, put in place of whatever link or file was there in one step, complete with its owner.
    fn put_link(&self, path: &Path, target: &Path, owner: Owner) -> Result<(), Fault>;
    fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Fault>;
    /// Of the thing itself, links not followed.
    fn set_owner(&self, path: &Path, owner: Owner) -> Result<(), Fault>;
    fn set_times(&self, path: &Path, atime_ns: i128, mtime_ns: i128) -> Result<(), Fault>;
    /// A file, link, socket or pipe.
    fn remove_file(&self, path: &Path) -> Result<(), Fault>;
    /// An empty directory.
    fn remove_directory(&self, path: &Path) -> Result<(), Fault>;
    /// Moves within a file system; fails where `to` exists.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault>;
    /// Removes what an interrupted put at this path may have left beside it.
    fn sweep(&self, path: &Path) -> Result<(), Fault>;
}
