//! This machine's files.

use crate::accounts::Accounts;
use crate::atomic;
use crate::fault::{Fault, FaultKind};
use crate::files::{Group, Look, Meta, NewFile, Owner, Sort, Touch, User};
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The machine we run on.
pub struct Real {
    accounts: Accounts,
    me: Owner,
    umask: u32,
}

impl Default for Real {
    fn default() -> Real {
        Real::new()
    }
}

impl Real {
    pub fn new() -> Real {
        let me = Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        Real { accounts: Accounts::new(), me, umask: own_umask() }
    }
}

/// Read from `/proc`: the system call can only tell the umask by changing it, for all threads.
fn own_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(0o022)
}

fn meta_of(stat: &rustix::fs::Stat) -> Meta {
    let nanos = |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Meta {
        sort: atomic::sort_of(stat.st_mode),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime_ns: nanos(stat.st_mtime, stat.st_mtime_nsec),
        atime_ns: nanos(stat.st_atime, stat.st_atime_nsec),
    }
}

/// Nothing there, also where a parent is no directory.
fn absent(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR)
}

impl Look for Real {
    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        match rustix::fs::lstat(path) {
            Ok(stat) => Ok(Some(meta_of(&stat))),
            Err(error) if absent(error) => Ok(None),
            Err(error) => Err(Fault::io("look at", path, error.into())),
        }
    }

    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        match rustix::fs::stat(path) {
            Ok(stat) => Ok(Some(meta_of(&stat))),
            Err(error) if absent(error) => Ok(None),
            Err(error) => Err(Fault::io("look at", path, error.into())),
        }
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
        // Not blocking: a pipe in the place of a file must not hang the run.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = rustix::fs::open(path, flags, Mode::empty());
        let mut file = File::from(opened.map_err(|error| Fault::io("read", path, error.into()))?);
        let stat = rustix::fs::fstat(&file).map_err(|error| Fault::io("read", path, error.into()))?;
        if atomic::sort_of(stat.st_mode) != Sort::File {
            return Err(Fault::new(
                FaultKind::InTheWay,
                format!("cannot read {}: it is not a file", path.display()),
            ));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let mut content = Vec::with_capacity(size.min(limit) as usize + 1);
        let taken = file.by_ref().take(limit.saturating_add(1)).read_to_end(&mut content);
        taken.map_err(|error| Fault::io("read", path, error))?;
        if content.len() as u64 > limit {
            return Err(too_large(path, limit));
        }
        Ok(content)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
        std::fs::read_link(path).map_err(|error| Fault::io("read the link", path, error))
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
        let failed = |error| Fault::io("list", path, error);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort();
        Ok(names)
    }

    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        self.accounts.user(name)
    }

    fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        self.accounts.group(name)
    }

    fn me(&self) -> Owner {
        self.me
    }

    fn umask(&self) -> u32 {
        self.umask
    }
}

pub(crate) fn too_large(path: &Path, limit: u64) -> Fault {
    Fault::new(FaultKind::Unsupported, format!("{} is larger than {limit} bytes", path.display()))
}

pub(crate) fn chown(path: &Path, owner: Owner) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

/// Through a descriptor, because a link must never be followed here and `fchmodat` cannot say so on older
/// kernels.
fn chmod(path: &Path, mode: u32) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => rustix::fs::fchmod(opened, Mode::from_raw_mode(mode)),
        // Ours, but not readable for us: a link cannot give this answer.
        Err(Errno::ACCESS) => rustix::fs::chmod(path, Mode::from_raw_mode(mode)),
        Err(error) => Err(error),
    }
}

fn timespec(nanos: i128) -> Timespec {
    let seconds = nanos.div_euclid(1_000_000_000);
    let rest = nanos.rem_euclid(1_000_000_000);
    Timespec { tv_sec: seconds as i64, tv_nsec: rest as i64 }
}

impl Touch for Real {
    fn put_file(&self, path: &Path, file: &NewFile<'_>) -> Result<(), Fault> {
        atomic::put_file(path, file)
    }

    fn make_directory(&self, path: &Path, mode: u32, owner: Owner) -> Result<(), Fault> {
        let failed = |error: Errno| Fault::io("create the directory", path, error.into());
        // Closed to others until owner and mode are set.
        rustix::fs::mkdir(path, Mode::from_raw_mode(0o700)).map_err(failed)?;
        let finished = chown(path, owner).and_then(|()| chmod(path, mode));
        finished.map_err(|error| {
            // Whole or not at all.
            let _ = rustix::fs::rmdir(path);
            failed(error)
        })
    }

    fn put_link(&self, path: &Path, target: &Path, owner: Owner) -> Result<(), Fault> {
        atomic::put_link(path, target, (owner != self.me).then_some(owner))
    }

    fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Fault> {
        chmod(path, mode).map_err(|error| Fault::io("set the mode of", path, error.into()))
    }

    fn set_owner(&self, path: &Path, owner: Owner) -> Result<(), Fault> {
        chown(path, owner).map_err(|error| Fault::io("set the owner of", path, error.into()))
    }

    fn set_times(&self, path: &Path, atime_ns: i128, mtime_ns: i128) -> Result<(), Fault> {
        let times = Timestamps { last_access: timespec(atime_ns), last_modification: timespec(mtime_ns) };
        rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| Fault::io("set the times of", path, error.into()))
    }

    fn remove_file(&self, path: &Path) -> Result<(), Fault> {
        std::fs::remove_file(path).map_err(|error| Fault::io("remove", path, error))
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Fault> {
        std::fs::remove_dir(path).map_err(|error| Fault::io("remove the directory", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        let moved = rustix::fs::renameat_with(CWD, from, CWD, to, flags);
        moved.map_err(|error| Fault::io(&format!("move {} to", from.display()), to, error.into()))
    }

    fn sweep(&self, path: &Path) -> Result<(), Fault> {
        atomic::sweep(path)
    }
}
