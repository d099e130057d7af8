//! A host on which one chosen call fails, or which dies at a chosen call.
//!
//! The laws of resources run every case once per host call with that call failing: whatever a resource does
//! then, it must end in a [`Fault`] and leave nothing half done.

use crate::download::Download;
use crate::fault::{Fault, FaultKind};
use crate::files::{
    Act, BeforeImage, Group, HostRead, HostWrite, Meta, NewFile, Owner, PredictedPackage, PredictedState,
    Seen, Slot, Special, User,
};
use crate::process::{BoxFuture, Exit, Launch, OutputSink, Processes};
use crate::temp_name::Reserved;
use crate::xattrs::{Lost, Xattrs};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Which calls fail, counted from 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Only counts.
    EmptyHost,
    /// This call fails, all others work.
    Once(usize),
    /// This call and all after it fail: what a crash or a power cut looks like from the disk.
    From(usize),
}

/// Wraps files and processes, counts the calls to both and makes some fail.
pub struct Faulty<'a> {
    files: &'a dyn HostWrite,
    processes: &'a dyn Processes,
    plan: Plan,
    calls: AtomicUsize,
    failed: AtomicUsize,
}

impl<'a> Faulty<'a> {
    pub fn new(files: &'a dyn HostWrite, processes: &'a dyn Processes, plan: Plan) -> Faulty<'a> {
        Faulty { files, processes, plan, calls: AtomicUsize::new(0), failed: AtomicUsize::new(0) }
    }

    /// Calls made so far, failed ones included.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// How many calls were made to fail.
    pub fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    fn call(&self, name: &str) -> Result<(), Fault> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let fails = match self.plan {
            Plan::EmptyHost => false,
            Plan::Once(chosen) => number == chosen,
            Plan::From(chosen) => number >= chosen,
        };
        if !fails {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        Err(Fault::new(FaultKind::Io, format!("injected fault in call {number}, {name}")))
    }
}

impl HostRead for Faulty<'_> {
    fn without_links(&self) -> &dyn HostRead {
        self
    }
    fn real_path(&self, path: &Path) -> Result<PathBuf, Fault> {
        self.call("real_path")?;
        self.files.real_path(path)
    }
    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        self.call("stat")?;
        self.files.stat(path)
    }
    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        self.call("stat_followed")?;
        self.files.stat_followed(path)
    }
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
        self.call("read")?;
        self.files.read(path, limit)
    }
    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
        self.call("read_link")?;
        self.files.read_link(path)
    }
    fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
        self.call("list")?;
        self.files.list(path)
    }
    fn xattrs(&self, path: &Path) -> Result<Xattrs, Fault> {
        self.call("xattrs")?;
        self.files.xattrs(path)
    }
    fn is_mount_point(&self, path: &Path) -> Result<bool, Fault> {
        self.call("is_mount_point")?;
        self.files.is_mount_point(path)
    }
    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Fault> {
        self.call("same_file")?;
        self.files.same_file(one, other)
    }
    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        self.call("user")?;
        self.files.user(name)
    }
    fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        self.call("group")?;
        self.files.group(name)
    }
    fn download(&self, download: &Download<'_>) -> Result<Vec<u8>, Fault> {
        self.call("download")?;
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

impl HostWrite for Faulty<'_> {
    fn acting(&self) -> &dyn HostWrite {
        self
    }
    fn make_special(&self, path: &Path, special: Special, mode: u32, owner: Owner) -> Result<(), Fault> {
        self.call("make_special")?;
        self.files.make_special(path, special, mode, owner)
    }
    fn put_file(&self, path: &Path, file: &NewFile<'_>) -> Result<(), Fault> {
        self.call("put_file")?;
        self.files.put_file(path, file)
    }
    fn put_file_over(&self, path: &Path, file: &NewFile<'_>, seen: Seen<'_>) -> Result<(), Fault> {
        self.call("put_file_over")?;
        self.files.put_file_over(path, file, seen)
    }
    fn make_directory(&self, path: &Path, mode: u32, owner: Owner) -> Result<(), Fault> {
        self.call("make_directory")?;
        self.files.make_directory(path, mode, owner)
    }
    fn put_link(&self, path: &Path, target: &Path, owner: Owner) -> Result<(), Fault> {
        self.call("put_link")?;
        self.files.put_link(path, target, owner)
    }
    fn put_hard_link(&self, path: &Path, target: &Path) -> Result<(), Fault> {
        self.call("put_hard_link")?;
        self.files.put_hard_link(path, target)
    }
    fn restore(&self, path: &Path, image: &BeforeImage<'_>) -> Result<Lost, Fault> {
        self.call("restore")?;
        self.files.restore(path, image)
    }
    fn set_xattrs(&self, path: &Path, xattrs: &Xattrs) -> Result<Lost, Fault> {
        self.call("set_xattrs")?;
        self.files.set_xattrs(path, xattrs)
    }
    fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Fault> {
        self.call("set_mode")?;
        self.files.set_mode(path, mode)
    }
    fn set_owner(&self, path: &Path, owner: Owner) -> Result<(), Fault> {
        self.call("set_owner")?;
        self.files.set_owner(path, owner)
    }
    fn set_times(&self, path: &Path, atime_ns: i128, mtime_ns: i128) -> Result<(), Fault> {
        self.call("set_times")?;
        self.files.set_times(path, atime_ns, mtime_ns)
    }
    fn remove_file(&self, path: &Path) -> Result<(), Fault> {
        self.call("remove_file")?;
        self.files.remove_file(path)
    }
    fn remove_directory(&self, path: &Path) -> Result<(), Fault> {
        self.call("remove_directory")?;
        self.files.remove_directory(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        self.call("rename")?;
        self.files.rename(from, to)
    }
    fn reserve(&self, path: &Path) -> Result<Option<Reserved>, Fault> {
        self.call("reserve")?;
        self.files.reserve(path)
    }

    fn sweep(&self, path: &Path) -> Result<(), Fault> {
        self.call("sweep")?;
        self.files.sweep(path)
    }
}

impl Processes for Faulty<'_> {
    fn run<'b>(
        &'b self,
        launch: &'b Launch,
        live: Option<OutputSink>,
        cancel: &'b CancellationToken,
    ) -> BoxFuture<'b, Result<Exit, Fault>> {
        match self.call("run") {
            Ok(()) => self.processes.run(launch, live, cancel),
            Err(fault) => Box::pin(std::future::ready(Err(fault))),
        }
    }
}
