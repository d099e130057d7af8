//! A host that remembers whether anything was altered through it.
//!
//! A state that fails half-way need not keep account of what it did before: the files it was given know (S-43).

use crate::download::Download;
use crate::fault::Fault;
use crate::files::{
    Act, BeforeImage, Group, HostRead, HostWrite, Meta, NewFile, Owner, PredictedPackage, PredictedState,
    Seen, Slot, Special, User,
};
use crate::temp_name::Reserved;
use crate::xattrs::{Lost, Xattrs};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Files, and whether one of them was touched. A call that failed did not happen.
pub struct ChangeTracker<'a> {
    files: &'a dyn HostWrite,
    touched: AtomicBool,
}

impl<'a> ChangeTracker<'a> {
    /// For whoever acts.
    pub fn new(files: &'a dyn HostWrite) -> ChangeTracker<'a> {
        ChangeTracker { files: files.acting(), touched: AtomicBool::new(false) }
    }

    pub fn touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    fn note<T>(&self, done: Result<T, Fault>) -> Result<T, Fault> {
        if done.as_ref().map_or_else(|fault| fault.touched, |_| true) {
            self.touched.store(true, Ordering::Relaxed);
        }
        done
    }
}

impl HostRead for ChangeTracker<'_> {
    fn without_links(&self) -> &dyn HostRead {
        self
    }
    fn real_path(&self, path: &Path) -> Result<PathBuf, Fault> {
        self.files.real_path(path)
    }
    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        self.files.stat(path)
    }
    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        self.files.stat_followed(path)
    }
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
        self.files.read(path, limit)
    }
    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
        self.files.read_link(path)
    }
    fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
        self.files.list(path)
    }
    fn xattrs(&self, path: &Path) -> Result<Xattrs, Fault> {
        self.files.xattrs(path)
    }
    fn is_mount_point(&self, path: &Path) -> Result<bool, Fault> {
        self.files.is_mount_point(path)
    }
    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Fault> {
        self.files.same_file(one, other)
    }
    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        self.files.user(name)
    }
    fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        self.files.group(name)
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

impl HostWrite for ChangeTracker<'_> {
    fn acting(&self) -> &dyn HostWrite {
        self
    }
    fn make_special(&self, path: &Path, special: Special, mode: u32, owner: Owner) -> Result<(), Fault> {
        self.note(self.files.make_special(path, special, mode, owner))
    }
    fn put_file(&self, path: &Path, file: &NewFile<'_>) -> Result<(), Fault> {
        self.note(self.files.put_file(path, file))
    }
    fn put_file_over(&self, path: &Path, file: &NewFile<'_>, seen: Seen<'_>) -> Result<(), Fault> {
        self.note(self.files.put_file_over(path, file, seen))
    }
    fn make_directory(&self, path: &Path, mode: u32, owner: Owner) -> Result<(), Fault> {
        self.note(self.files.make_directory(path, mode, owner))
    }
    fn put_link(&self, path: &Path, target: &Path, owner: Owner) -> Result<(), Fault> {
        self.note(self.files.put_link(path, target, owner))
    }
    fn put_hard_link(&self, path: &Path, target: &Path) -> Result<(), Fault> {
        self.note(self.files.put_hard_link(path, target))
    }
    fn restore(&self, path: &Path, image: &BeforeImage<'_>) -> Result<Lost, Fault> {
        self.note(self.files.restore(path, image))
    }
    fn set_xattrs(&self, path: &Path, xattrs: &Xattrs) -> Result<Lost, Fault> {
        let lost = self.files.set_xattrs(path, xattrs)?;
        if xattrs.names() > lost.len() {
            self.touched.store(true, Ordering::Relaxed);
        }
        Ok(lost)
    }
    fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Fault> {
        self.note(self.files.set_mode(path, mode))
    }
    fn set_owner(&self, path: &Path, owner: Owner) -> Result<(), Fault> {
        self.note(self.files.set_owner(path, owner))
    }
    fn set_times(&self, path: &Path, atime_ns: i128, mtime_ns: i128) -> Result<(), Fault> {
        self.note(self.files.set_times(path, atime_ns, mtime_ns))
    }
    fn remove_file(&self, path: &Path) -> Result<(), Fault> {
        self.note(self.files.remove_file(path))
    }
    fn remove_directory(&self, path: &Path) -> Result<(), Fault> {
        self.note(self.files.remove_directory(path))
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        self.note(self.files.rename(from, to))
    }
    /// What is gone again soon alters nothing.
    fn reserve(&self, path: &Path) -> Result<Option<Reserved>, Fault> {
        self.files.reserve(path)
    }
    /// Leftovers are nobody's: removing them alters nothing.
    fn sweep(&self, path: &Path) -> Result<(), Fault> {
        self.files.sweep(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::Overlay;
    use zester_rule::rule;

    #[test]
    #[rule("S-43")]
    fn s43_looking_and_failing_touch_nothing() {
        let files = Overlay::empty();
        let tracker = ChangeTracker::new(&files);
        assert!(tracker.stat("/x".as_ref()).unwrap().is_none());
        assert!(tracker.remove_file("/x".as_ref()).is_err());
        assert!(!tracker.touched());
        tracker.make_directory("/x".as_ref(), 0o755, files.me()).unwrap();
        assert!(tracker.touched());
    }
}
