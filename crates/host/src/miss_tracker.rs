//! A host that remembers whether somebody looked for something that is not there.
//!
//! Behind a command that would run, what a check does not find may be what that command brings: the dry run then says
//! that it does not know, whatever the check made of it (S-44).

use crate::download::Download;
use crate::fault::{Fault, FaultKind};
use crate::files::{Act, Group, HostRead, Meta, Owner, PredictedPackage, PredictedState, Slot, User};
use crate::xattrs::Xattrs;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Files, and whether one that was asked for is missing.
pub struct MissTracker<'a> {
    files: &'a dyn HostRead,
    missed: AtomicBool,
}

impl<'a> MissTracker<'a> {
    pub fn new(files: &'a dyn HostRead) -> MissTracker<'a> {
        MissTracker { files, missed: AtomicBool::new(false) }
    }

    /// A file, directory, user or group was looked for in vain.
    pub fn missed(&self) -> bool {
        self.missed.load(Ordering::Relaxed)
    }

    fn maybe<T>(&self, found: Result<Option<T>, Fault>) -> Result<Option<T>, Fault> {
        if matches!(found, Ok(None)) {
            self.missed.store(true, Ordering::Relaxed);
        }
        self.surely(found)
    }

    fn surely<T>(&self, found: Result<T, Fault>) -> Result<T, Fault> {
        if matches!(&found, Err(fault) if fault.kind == FaultKind::NotFound) {
            self.missed.store(true, Ordering::Relaxed);
        }
        found
    }
}

impl HostRead for MissTracker<'_> {
    fn without_links(&self) -> &dyn HostRead {
        self.files.without_links()
    }
    fn real_path(&self, path: &Path) -> Result<PathBuf, Fault> {
        self.files.real_path(path)
    }
    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        self.maybe(self.files.stat(path))
    }
    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        self.maybe(self.files.stat_followed(path))
    }
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
        self.surely(self.files.read(path, limit))
    }
    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
        self.surely(self.files.read_link(path))
    }
    fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
        self.surely(self.files.list(path))
    }
    fn xattrs(&self, path: &Path) -> Result<Xattrs, Fault> {
        self.surely(self.files.xattrs(path))
    }
    fn is_mount_point(&self, path: &Path) -> Result<bool, Fault> {
        self.files.is_mount_point(path)
    }
    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Fault> {
        self.files.same_file(one, other)
    }
    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        self.maybe(self.files.user(name))
    }
    fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        self.maybe(self.files.group(name))
    }
    fn download(&self, download: &Download<'_>) -> Result<Vec<u8>, Fault> {
        self.files.download(download)
    }
    fn me(&self) -> Owner {
        self.files.me()
    }
    fn may(&self, path: &Path, act: Act) -> Result<(), Fault> {
        self.files.may(path, act)
    }
    fn predicted_package(&self, name: &str) -> Option<PredictedPackage> {
        self.files.predicted_package(name)
    }
    fn predicted_state(&self, slot: &Slot) -> Option<PredictedState> {
        self.files.predicted_state(slot)
    }
}
