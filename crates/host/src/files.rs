//! Looking at files and touching them.

use crate::download::Download;
use crate::fault::{Fault, FaultKind};
use crate::temp_name::Reserved;
use crate::xattrs::{Lost, Xattrs};
use serde::{Deserialize, Serialize};
use std::any::{Any, TypeId};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What kind of file a path is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Link,
    /// Never managed, always named.
    Special(Special),
}

/// What is neither file nor directory nor link.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "special", rename_all = "snake_case")]
pub enum Special {
    Pipe,
    /// It lives by whoever listens on it; nobody else can make it anew.
    Socket,
    Block {
        major: u32,
        minor: u32,
    },
    Character {
        major: u32,
        minor: u32,
    },
}

impl Special {
    /// What to call it.
    pub fn article(self) -> &'static str {
        match self {
            Special::Pipe => "a pipe",
            Special::Socket => "a socket",
            Special::Block { .. } => "a block device",
            Special::Character { .. } => "a character device",
        }
    }
}

/// What `lstat` tells, as far as states care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    pub kind: FileKind,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    /// How many names it has.
    pub links: u64,
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

/// What a dry run knows about a package before any package manager does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PredictedPackage {
    /// Would be installed, with its version where that is known.
    Installed(Option<String>),
    Removed,
}

/// Where a dry run keeps what would become of a thing that is no file: the type of its state, and its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    state: TypeId,
    name: String,
}

impl Slot {
    pub fn of<S: Any>(name: impl Into<String>) -> Slot {
        Slot { state: TypeId::of::<S>(), name: name.into() }
    }
}

/// The state of a thing, of whatever type its [`Slot`] says.
pub type PredictedState = Arc<dyn Any + Send + Sync>;

/// What somebody is going to do at a path.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Make, replace or remove what is there.
    Put,
    /// Set its mode or times.
    Attributes,
    /// Give it away.
    Owner(Owner),
    /// Let it belong to them from the start: something new.
    New(Owner),
}

/// A file to be put in place in one step, complete with mode and owner.
#[derive(Clone, Debug)]
pub struct NewFile<'a> {
    pub content: &'a [u8],
    pub mode: u32,
    pub owner: Owner,
}

/// What was at a path when it was looked at, and is to be there still when something takes its place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Seen<'a> {
    Nothing,
    /// A file with this content, by its SHA-256.
    File(&'a str),
    /// A link to there.
    Link(&'a Path),
}

/// Something that stood at a path and comes back, complete with its extended attributes.
#[derive(Clone, Debug)]
pub struct BeforeImage<'a> {
    pub body: Body<'a>,
    /// Links have none.
    pub mode: u32,
    pub owner: Owner,
    pub xattrs: &'a Xattrs,
}

#[derive(Copy, Clone, Debug)]
pub enum Body<'a> {
    File(&'a [u8]),
    Directory,
    Link(&'a Path),
    Special(Special),
}

/// Names in a directory.
pub type Names = std::collections::HashSet<std::ffi::OsString>;

/// Everything a check may do. There is no way to write through it.
///
/// A path means what it means to its user: links on the way are followed. Whoever is going to act first asks
/// for the [`real_path`](HostRead::real_path), and from then on looks [`without_links`](HostRead::without_links).
pub trait HostRead: Send + Sync {
    /// The same machine, seen without following a link inside any path: what can be put in the place of a
    /// directory after it was looked at is a fault here. Links at the end of a path are not followed either.
    fn without_links(&self) -> &dyn HostRead;
    /// The path with the links inside it followed, and its last name left as it is. What is missing stays as
    /// it is written.
    fn real_path(&self, path: &Path) -> Result<PathBuf, Fault>;
    /// The thing itself, links not followed; `None` where nothing is.
    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault>;
    /// What the path leads to, links followed; `None` where nothing is (or the link dangles).
    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault>;
    /// The whole content of a file; a file over `limit` bytes is a fault.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault>;
    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault>;
    /// Names in a directory, sorted.
    fn list(&self, path: &Path) -> Result<Vec<std::ffi::OsString>, Fault>;
    /// Which names in a directory are links, for who would ask for many of them. None where it holds more than so many names,
    /// or a host does not know.
    fn links_in(&self, _directory: &Path, _most: usize) -> Result<Option<Names>, Fault> {
        Ok(None)
    }
    /// Extended attributes of the thing itself. None where a host knows of none.
    fn xattrs(&self, _path: &Path) -> Result<Xattrs, Fault> {
        Ok(Xattrs::default())
    }
    /// Whether another file system, or another part of this one, is mounted there. False where a host knows of none.
    fn is_mount_point(&self, _path: &Path) -> Result<bool, Fault> {
        Ok(false)
    }
    /// Whether two names are of one file: hard links, which no content tells apart. False where a host knows of none.
    fn same_file(&self, _one: &Path, _other: &Path) -> Result<bool, Fault> {
        Ok(false)
    }
    fn user(&self, name: &str) -> Result<Option<User>, Fault>;
    fn group(&self, name: &str) -> Result<Option<Group>, Fault>;
    /// A file from a server, into memory. A host without a network says so.
    fn download(&self, download: &Download<'_>) -> Result<Vec<u8>, Fault> {
        let message = format!("{} cannot be read: there is no network here", download.url);
        Err(Fault::new(FaultKind::Unsupported, message))
    }
    /// Who we are: what new files belong to when nothing is said.
    fn me(&self) -> Owner;
    /// The time of day, in nanoseconds since 1970.
    fn now_ns(&self) -> i128 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(i128::MAX))
    }
    /// Where files go that nobody keeps. It is open to all.
    fn temp_dir(&self) -> PathBuf {
        std::env::temp_dir()
    }
    /// A fault where it is known beforehand that this cannot be done here: a read-only file system, a directory
    /// in which we may not write, somebody else's file.
    fn may(&self, _path: &Path, _act: Act) -> Result<(), Fault> {
        Ok(())
    }
    /// The version of a package that an earlier state of a dry run would install; the real machine predicts
    /// nothing.
    fn predicted_package(&self, _name: &str) -> Option<PredictedPackage> {
        None
    }
    /// What an earlier state of a dry run would make of a thing; the real machine predicts nothing.
    fn predicted_state(&self, _slot: &Slot) -> Option<PredictedState> {
        None
    }
}

/// Everything an apply may do. Each call is whole or did not happen, and none leads through a link: paths are
/// real paths here.
pub trait HostWrite: HostRead {
    /// The same machine for whoever acts, who looks without links as well.
    fn acting(&self) -> &dyn HostWrite;
    /// Temp file beside it, owner, mode, fsync, rename, fsync of the directory.
    fn put_file(&self, path: &Path, file: &NewFile<'_>) -> Result<(), Fault>;
    /// The same in the place of what was seen there. Where something else is by now, nothing is done, and the fault says so.
    fn put_file_over(&self, path: &Path, file: &NewFile<'_>, seen: Seen<'_>) -> Result<(), Fault>;
    /// Complete with mode and owner; fails where something is already.
    fn make_directory(&self, path: &Path, mode: u32, owner: Owner) -> Result<(), Fault>;
    /// A pipe or a device, alike. A socket cannot be made for somebody else.
    fn make_special(&self, path: &Path, special: Special, mode: u32, owner: Owner) -> Result<(), Fault>;
    /// A link, put in place of whatever link or file was there in one step, complete with its owner.
    fn put_link(&self, path: &Path, target: &Path, owner: Owner) -> Result<(), Fault>;
    /// A second name of a file, put in place of whatever link or file was there in one step.
    fn put_hard_link(&self, path: &Path, target: &Path) -> Result<(), Fault>;
    /// Puts back what stood there, under the same rules as what is put or made anew. Where its access list is among what
    /// could not be put back, it is closed to its group.
    fn restore(&self, path: &Path, image: &BeforeImage<'_>) -> Result<Lost, Fault>;
    /// Of the thing itself, links not followed; those that are not named stay.
    fn set_xattrs(&self, path: &Path, xattrs: &Xattrs) -> Result<Lost, Fault>;
    fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Fault>;
    /// Of the thing itself, links not followed; a program keeps its capabilities.
    fn set_owner(&self, path: &Path, owner: Owner) -> Result<(), Fault>;
    fn set_times(&self, path: &Path, atime_ns: i128, mtime_ns: i128) -> Result<(), Fault>;
    /// A file, link, socket or pipe.
    fn remove_file(&self, path: &Path) -> Result<(), Fault>;
    /// An empty directory.
    fn remove_directory(&self, path: &Path) -> Result<(), Fault>;
    /// Moves within a file system; fails where `to` exists.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault>;
    /// Keeps a path for us alone among all processes that ask like this, until it is dropped; `None` where another has it.
    fn reserve(&self, _path: &Path) -> Result<Option<Reserved>, Fault> {
        Ok(Some(Reserved::default()))
    }
    /// Removes what an interrupted put at this path may have left beside it.
    fn sweep(&self, path: &Path) -> Result<(), Fault>;
}
