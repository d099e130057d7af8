//! Getting hold of a path without following a link on the way.
//!
//! Whoever owns a directory can put a link in the place of anything inside, at any moment. A path that was
//! looked at and is then used again may lead elsewhere by then, and we may be root. So whoever acts opens
//! the directory through no link at all, holds it, and works on a name in it; no name is looked up twice.

use crate::fault::{Fault, FaultKind};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory that is held open, and a name in it.
pub(crate) struct Parent<'a> {
    pub(crate) directory: OwnedFd,
    pub(crate) name: &'a OsStr,
}

/// Holds the directory of a path; `access` is `PATH`, or `RDONLY` for who is going to sync it.
pub(crate) fn open_parent(path: &Path, access: OFlags) -> rustix::io::Result<Parent<'_>> {
    let access = access | OFlags::DIRECTORY;
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok(Parent { directory: open(parent, access)?, name }),
        _ => Ok(Parent { directory: open(path, access)?, name: OsStr::new(".") }),
    }
}

/// Opens the thing itself. `LOOP` where the path leads through a link; one at its end can be opened with
/// `PATH` alone.
pub(crate) fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    static BY_STEPS: AtomicBool = AtomicBool::new(false);
    let flags = flags | OFlags::CLOEXEC;
    if BY_STEPS.load(Ordering::Relaxed) {
        return open_by_steps(path, flags);
    }
    // A link is no directory either; asked for one without `NOFOLLOW`, the answer says that it is a link.
    let whole = if flags.contains(OFlags::DIRECTORY) { flags } else { flags | OFlags::NOFOLLOW };
    match rustix::fs::openat2(CWD, path, whole, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Before Linux 5.6, or forbidden by a filter of system calls that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => {
            BY_STEPS.store(true, Ordering::Relaxed);
            open_by_steps(path, flags)
        }
        opened => opened,
    }
}

/// The same, directory by directory.
fn open_by_steps(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = rustix::fs::open("/", step, Mode::empty())?;
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let Some(mut name) = names.next() else { return rustix::fs::openat(&here, ".", flags, Mode::empty()) };
    for next in names {
        here = rustix::fs::openat(&here, name, step, Mode::empty())
            .map_err(|error| link_or(&here, name, error))?;
        name = next;
    }
    rustix::fs::openat(&here, name, flags | OFlags::NOFOLLOW, Mode::empty())
        .map_err(|error| link_or(&here, name, error))
}

/// The answer is to be the same as that of `openat2`.
fn link_or(directory: &OwnedFd, name: &OsStr, error: Errno) -> Errno {
    let link = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink);
    if link { Errno::LOOP } else { error }
}

/// What a call that met a link says; every other error in the system's words.
pub(crate) fn failed(doing: &str, path: &Path, error: Errno) -> Fault {
    if error != Errno::LOOP {
        return Fault::io(doing, path, error.into());
    }
    let message = format!("cannot {doing} {}: its path leads through a symbolic link now", path.display());
    Fault::new(FaultKind::ChangedSince, message).hint("what was looked at was no link; run it again")
}

/// Sets the mode of whatever a descriptor holds, also of what cannot be opened for reading.
pub(crate) fn set_mode(held: &OwnedFd, mode: u32) -> rustix::io::Result<()> {
    rustix::fs::chmod(proc_fd_path(held), Mode::from_raw_mode(mode))
}

/// The name by which the kernel knows a descriptor: it leads to the held thing, whatever its path is now.
pub(crate) fn proc_fd_path(held: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", held.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_open_give_the_same_answers() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join("d/e")).unwrap();
        std::fs::write(top.join("d/e/f"), "x").unwrap();
        std::os::unix::fs::symlink("d", top.join("l")).unwrap();
        std::os::unix::fs::symlink("f", top.join("d/e/g")).unwrap();
        for (path, flags) in [
            ("d/e", OFlags::PATH | OFlags::DIRECTORY),
            ("d/e/f", OFlags::RDONLY),
            ("d/e/f", OFlags::RDONLY | OFlags::DIRECTORY),
            ("d/../d/e", OFlags::RDONLY | OFlags::DIRECTORY),
            ("l", OFlags::PATH),
            ("l", OFlags::PATH | OFlags::DIRECTORY),
            ("l/e", OFlags::PATH | OFlags::DIRECTORY),
            ("l/e/f", OFlags::RDONLY),
            ("d/e/g", OFlags::RDONLY),
            ("d/none", OFlags::PATH),
            ("none/e", OFlags::PATH),
            ("d/e/f/g", OFlags::PATH),
        ] {
            let path = top.join(path);
            let whole = open(&path, flags).map(drop);
            let steps = open_by_steps(&path, flags | OFlags::CLOEXEC).map(drop);
            assert_eq!(whole, steps, "{}", path.display());
        }
    }
}
