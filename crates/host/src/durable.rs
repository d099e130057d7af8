//! How what is put in place survives a power cut: its content before it gets its name, then the name.
//!
//! Many files that are put at once cost few syncs. Names of one directory share one sync of it. Contents share one sync of
//! their whole file system where that is cheaper than a sync each: it writes what others have left unwritten there as well,
//! so only where there is little of that. Either way nothing is called safe before a sync that began after it was written.

use crate::group_sync::{GroupSync, Visit};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::Hash;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

/// From so many files on, one sync of their file system is cheaper than a sync of each.
const TOGETHER_FROM: usize = 4;
/// With more than this unwritten, by whomever, a file system is not synced as a whole.
const UNWRITTEN_KB_MAX: u64 = 64 * 1024;
/// Meeting places that are kept before those that nobody uses any more go.
const GROUPS_KEPT: usize = 64;
/// ext2 to ext4, XFS, Btrfs, F2FS: what `syncfs` promises there is what `fsync` promises. By the number of `statfs`.
const WHOLE: [u64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
/// Before this version `syncfs` keeps quiet about what it could not write.
const TELLS_ERRORS_SINCE: (u32, u32) = (5, 8);

/// What is asked of a disk, behind a door at which a test can count, and have it fail.
pub(crate) trait SyncCalls: Send + Sync {
    fn file(&self, file: &File) -> rustix::io::Result<()> {
        rustix::fs::fsync(file)
    }

    fn directory(&self, directory: BorrowedFd<'_>) -> rustix::io::Result<()> {
        rustix::fs::fsync(directory)
    }

    fn file_system(&self, within: BorrowedFd<'_>) -> rustix::io::Result<()> {
        rustix::fs::syncfs(within)
    }

    /// Whether a file system can be synced as a whole, and says so where it fails.
    fn syncs_whole(&self, within: BorrowedFd<'_>) -> bool {
        tells_errors() && rustix::fs::fstatfs(within).is_ok_and(|stat| WHOLE.contains(&(stat.f_type as u64)))
    }

    /// What all file systems together have not written yet; nobody knows where there is no /proc.
    fn unwritten_kb(&self) -> Option<u64> {
        unwritten(&std::fs::read_to_string("/proc/meminfo").ok()?)
    }
}

struct Disk;
impl SyncCalls for Disk {}

/// How one sync of contents ended for its round.
#[derive(Copy, Clone)]
enum Contents {
    Safe,
    /// Each is to sync its own.
    Each,
}

/// What an open file of a file system is held for: whatever goes wrong with what was written since is told to it.
struct FileSystem {
    device: u64,
    within: OwnedFd,
    group: Arc<GroupSync<Contents>>,
}

type Outcome = Result<(), Errno>;

/// The syncs of one host.
pub(crate) struct Durable {
    calls: Box<dyn SyncCalls>,
    file_systems: Meetings<u64, FileSystem>,
    /// Devices whose sync as a whole has failed once. The kernel tells an error once, whoever's file it is about, so a later
    /// sync that goes well proves nothing of a file that was written before: from then on each file is asked.
    failed: Mutex<HashSet<u64>>,
    directories: Meetings<(u64, u64), GroupSync<Outcome>>,
}

impl Default for Durable {
    fn default() -> Durable {
        Durable::behind(Box::new(Disk))
    }
}

impl Durable {
    pub(crate) fn behind(calls: Box<dyn SyncCalls>) -> Durable {
        let (file_systems, directories) = (Meetings::default(), Meetings::default());
        Durable { calls, file_systems, failed: Mutex::default(), directories }
    }

    /// To be called before the content is written.
    pub(crate) fn content(&self, directory: &OwnedFd) -> Content<'_> {
        let met = match self.calls.syncs_whole(directory.as_fd()) {
            true => self.file_system(directory).ok(),
            false => None,
        };
        let met = met.map(|file_system| (file_system.group.enter(), file_system));
        Content { durable: self, met }
    }

    /// To be called before something gets its name in the directory.
    pub(crate) fn name(&self, directory: &OwnedFd) -> Name<'_> {
        let key = rustix::fs::fstat(directory).map(|stat| (stat.st_dev, stat.st_ino));
        let group = key.and_then(|key| self.directories.at(key, || Ok(GroupSync::default())));
        Name { durable: self, visit: group.ok().map(|group| group.enter()) }
    }

    fn file_system(&self, directory: &OwnedFd) -> rustix::io::Result<Arc<FileSystem>> {
        let device = rustix::fs::fstat(directory)?.st_dev;
        self.file_systems.at(device, || {
            let within = rustix::io::fcntl_dupfd_cloexec(directory, 0)?;
            Ok(FileSystem { device, within, group: Arc::default() })
        })
    }

    /// One sync for all contents of a round, where that is cheaper and can be believed.
    fn sync_whole(&self, file_system: &FileSystem, files: usize) -> Contents {
        if !self.is_cheaper(files) || self.failed().contains(&file_system.device) {
            return Contents::Each;
        }
        match self.calls.file_system(file_system.within.as_fd()) {
            Ok(()) => Contents::Safe,
            // Held by its path alone: it may not be read.
            Err(Errno::BADF) => Contents::Each,
            Err(_) => {
                self.failed().insert(file_system.device);
                Contents::Each
            }
        }
    }

    fn failed(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one sync of the file system is cheaper than one of each file that is being put there.
    fn is_cheaper(&self, files: usize) -> bool {
        files >= TOGETHER_FROM && self.calls.unwritten_kb().is_some_and(|kb| kb <= UNWRITTEN_KB_MAX)
    }
}

/// A content that is being written.
pub(crate) struct Content<'a> {
    durable: &'a Durable,
    met: Option<(Visit<Contents>, Arc<FileSystem>)>,
}

/// To be held until the file is in place: so many are being put.
pub(crate) struct Putting(#[expect(dead_code, reason = "it is counted")] Option<Arc<FileSystem>>);

impl Content<'_> {
    pub(crate) fn sync(self, file: &File) -> rustix::io::Result<Putting> {
        let calls = &self.durable.calls;
        let Some((visit, file_system)) = self.met else { return calls.file(file).map(|()| Putting(None)) };
        let files = Arc::strong_count(&file_system);
        match visit.sync(|| self.durable.sync_whole(&file_system, files)) {
            Contents::Safe => {}
            Contents::Each => calls.file(file)?,
        }
        Ok(Putting(Some(file_system)))
    }
}

/// A name that is being given.
pub(crate) struct Name<'a> {
    durable: &'a Durable,
    visit: Option<Visit<Outcome>>,
}

impl Name<'_> {
    pub(crate) fn sync(self, directory: &OwnedFd) -> rustix::io::Result<()> {
        let sync = || match self.durable.calls.directory(directory.as_fd()) {
            // Some file systems (9p, FUSE) cannot sync a directory; they never could promise more. And one that may not be
            // read is held by its path alone.
            Err(Errno::INVAL | Errno::NOTSUP | Errno::BADF) => Ok(()),
            synced => synced,
        };
        match self.visit {
            Some(visit) => visit.sync(sync),
            None => sync(),
        }
    }
}

/// Where those meet who work on the same thing at the same time.
struct Meetings<K, T>(Mutex<HashMap<K, Weak<T>>>);

impl<K, T> Default for Meetings<K, T> {
    fn default() -> Meetings<K, T> {
        Meetings(Mutex::default())
    }
}

impl<K: Eq + Hash, T> Meetings<K, T> {
    fn at(&self, key: K, make: impl FnOnce() -> rustix::io::Result<T>) -> rustix::io::Result<Arc<T>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(met) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(met);
        }
        if known.len() >= GROUPS_KEPT {
            known.retain(|_, met| met.strong_count() > 0);
        }
        let made = Arc::new(make()?);
        known.insert(key, Arc::downgrade(&made));
        Ok(made)
    }
}

/// Whether the kernel tells of errors that a sync of a whole file system met.
fn tells_errors() -> bool {
    static TELLS: LazyLock<bool> =
        LazyLock::new(|| is_recent(&rustix::system::uname().release().to_string_lossy()));
    *TELLS
}

fn is_recent(release: &str) -> bool {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit()).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= TELLS_ERRORS_SINCE,
        _ => false,
    }
}

fn unwritten(meminfo: &str) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(number("Dirty")?.saturating_add(number("Writeback")?))
}

#[cfg(test)]
mod tests;
