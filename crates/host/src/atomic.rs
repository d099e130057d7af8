//! Putting a whole file in place in one step.
//!
//! The order is what makes it safe: a temp file beside the target with mode 0600, content, extended
//! attributes of the file it replaces (SELinux label, ACL), owner, mode, fsync, rename, fsync of the
//! directory. A reader sees the old file or the new one, complete with owner and mode, and a crash leaves one
//! of the two. On any error the temp file is removed.
//!
//! The temp name follows from the name of the target, so that what a killed process left behind is found
//! again: the next put at that path replaces it, a revert sweeps it. It is made exclusively and links are not
//! followed, so a name that somebody prepared gains them nothing.

use crate::digest::sha256_hex;
use crate::fault::{Fault, FaultKind};
use crate::files::{NewFile, Owner};
use rustix::fs::{FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// What temp files of ours are called, so that a human who finds one after a power cut knows whose it is.
const PREFIX: &str = ".zester-";

pub(crate) fn put_file(path: &Path, new: &NewFile<'_>) -> Result<(), Fault> {
    let directory = parent(path)?;
    let failed = |doing: &str, error: std::io::Error| Fault::io(doing, path, error);
    let name = temp_name(path);
    let _alone = alone(&name);
    let mut temp = exclusive(directory, &name).map_err(|error| failed("create a temp file beside", error))?;
    temp.write_all(new.content).map_err(|error| failed("write", error))?;
    copy_attributes(path, temp.as_file());
    own(temp.as_file(), new).map_err(|error| failed("set owner and mode of", error.into()))?;
    temp.as_file().sync_all().map_err(|error| failed("write", error))?;
    match temp.persist(path) {
        Ok(_) => sync_directory(directory),
        Err(refused) if refused.error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
            // A bind-mounted file, as containers have for /etc/hosts: it cannot be replaced, only rewritten.
            write_in_place(path, new)
        }
        Err(refused) => Err(failed("put in place", refused.error)),
    }
}

/// A link under a temp name, moved over whatever file or link was there. An owner is given where it is not
/// us.
pub(crate) fn put_link(path: &Path, target: &Path, owner: Option<Owner>) -> Result<(), Fault> {
    let directory = parent(path)?;
    let name = temp_name(path);
    let _alone = alone(&name);
    let temp = directory.join(name);
    sweep(path)?;
    std::os::unix::fs::symlink(target, &temp).map_err(|error| Fault::io("create the link", path, error))?;
    let owned = owner.map_or(Ok(()), |owner| crate::real::chown(&temp, owner).map_err(Into::into));
    match owned.and_then(|()| std::fs::rename(&temp, path)) {
        Ok(()) => sync_directory(directory),
        Err(error) => {
            // The error that matters is the first one.
            let _ = std::fs::remove_file(&temp);
            Err(Fault::io("put in place the link", path, error))
        }
    }
}

/// The one name under which this path is prepared.
fn temp_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    let digest = sha256_hex(name.as_bytes());
    format!("{PREFIX}{}", digest.get(..16).unwrap_or(&digest))
}

/// Two states may manage one path; inside this process they take turns.
fn alone(name: &str) -> MutexGuard<'static, ()> {
    static TURNS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];
    let at = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    TURNS[at % TURNS.len()].lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new file under exactly this name; one that a killed process left gives way.
fn exclusive(directory: &Path, name: &str) -> std::io::Result<NamedTempFile> {
    let make = || tempfile::Builder::new().prefix(name).suffix("").rand_bytes(0).tempfile_in(directory);
    match make() {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(directory.join(name))?;
            make()
        }
        made => made,
    }
}

/// Removes what a put at this path left behind when it was killed.
pub(crate) fn sweep(path: &Path) -> Result<(), Fault> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    let Some(directory) = path.parent() else { return Ok(()) };
    match std::fs::remove_file(directory.join(temp_name(path))) {
        Err(error) if !matches!(error.kind(), NotFound | NotADirectory) => {
            Err(Fault::io("remove what was left beside", path, error))
        }
        _ => Ok(()),
    }
}

fn parent(path: &Path) -> Result<&Path, Fault> {
    path.parent().ok_or_else(|| Fault::new(FaultKind::InTheWay, "`/` is a directory and cannot be replaced"))
}

/// Owner before mode: changing the owner clears the setuid bit.
fn own(file: &File, new: &NewFile<'_>) -> rustix::io::Result<()> {
    let now = rustix::fs::fstat(file)?;
    if now.st_uid != new.owner.uid || now.st_gid != new.owner.gid {
        let (uid, gid) = (Uid::from_raw(new.owner.uid), Gid::from_raw(new.owner.gid));
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(new.mode))
}

/// Labels and ACLs belong to the place, not to the content. Best effort: many file systems have none.
fn copy_attributes(from: &Path, to: &File) {
    let mut names = [0_u8; 4096];
    let Ok(length) = rustix::fs::llistxattr(from, &mut names[..]) else { return };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = [0_u8; 65_536];
        if let Ok(size) = rustix::fs::lgetxattr(from, name, &mut value[..]) {
            // A label that may not be copied (another namespace) must not stop the write.
            let _ = rustix::fs::fsetxattr(to, name, &value[..size], rustix::fs::XattrFlags::empty());
        }
    }
}

fn write_in_place(path: &Path, new: &NewFile<'_>) -> Result<(), Fault> {
    let failed = |error: std::io::Error| Fault::io("rewrite in place (it is a mount point)", path, error);
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file =
        File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?);
    file.write_all(new.content).map_err(failed)?;
    file.set_len(new.content.len() as u64).map_err(failed)?;
    own(&file, new).map_err(|error| failed(error.into()))?;
    file.sync_all().map_err(failed)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(directory: &Path) -> Result<(), Fault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let synced = rustix::fs::open(directory, flags, Mode::empty()).and_then(|opened| {
        match rustix::fs::fsync(opened.as_fd()) {
            // Some file systems (9p, FUSE) cannot sync a directory; they never could promise more.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            other => other,
        }
    });
    synced.map_err(|error| Fault::io("sync the directory", directory, error.into()))
}

/// What sort of thing `st_mode` says it is.
pub(crate) fn sort_of(mode: u32) -> crate::files::Sort {
    use crate::files::Sort;
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Sort::File,
        FileType::Directory => Sort::Directory,
        FileType::Symlink => Sort::Link,
        _ => Sort::Other,
    }
}
