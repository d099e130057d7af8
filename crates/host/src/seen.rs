//! Putting a file in the place of what was looked at, and of nothing else.
//!
//! Between the look and the act lie a check command, a sync of the journal, whatever the machine is busy with; somebody else
//! may work on the same file. Where nothing was, nothing is replaced. A file is read once more and then exchanged for the new
//! one: what comes out must be the very file that was read, or it goes back. A file system that cannot exchange leaves the
//! moment between the look and the rename.

use crate::digest::Sha256;
use crate::files::{FileKind, Seen};
use crate::no_follow::Parent;
use crate::temp_name::Temp;
use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// Read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Moves the file to its place. `false`: something else is there by now, and stays.
pub(crate) fn replace(temp: &Temp<'_>, place: &Parent<'_>, seen: Seen<'_>) -> rustix::io::Result<bool> {
    match seen {
        Seen::Nothing => match temp.place() {
            Err(Errno::EXIST) => Ok(false),
            placed => placed.map(|()| true),
        },
        Seen::Link(target) => match rustix::fs::readlinkat(&place.directory, place.name, Vec::new()) {
            Ok(now) if now.as_bytes() == target.as_os_str().as_bytes() => temp.replace().map(|()| true),
            Ok(_) | Err(Errno::INVAL | Errno::NOENT) => Ok(false),
            Err(error) => Err(error),
        },
        Seen::File(sha256) => match with_content(place, place.name, sha256)? {
            // A layered file system copies a file up when it moves, and may give it another number then.
            Some((there, _locked)) => temp.exchange(|out, name| {
                Ok(is_same(&there, out)
                    || (looks_the_same(&there, out) && with_content(place, name, sha256)?.is_some()))
            }),
            None => Ok(false),
        },
    }
}

/// The file of that name in the directory of the place, if it holds this. For a moment it will stand under a temp name, where only what is locked is let
/// alone; whoever holds a lock of their own serves as well.
fn with_content(place: &Parent<'_>, name: &OsStr, sha256: &str) -> rustix::io::Result<Option<(Stat, File)>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut file = match rustix::fs::openat(&place.directory, name, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error),
    };
    let there = rustix::fs::fstat(&file)?;
    if crate::atomic::kind_of(&there) != FileKind::File {
        return Ok(None);
    }
    let mut digest = Sha256::default();
    let mut chunk = vec![0_u8; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => digest.add(chunk.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        }
    }
    let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared);
    Ok((digest.hex() == sha256).then_some((there, file)))
}

/// The same file, and nobody wrote to it since.
fn is_same(there: &Stat, now: &Stat) -> bool {
    (there.st_dev, there.st_ino) == (now.st_dev, now.st_ino) && looks_the_same(there, now)
}

fn looks_the_same(there: &Stat, now: &Stat) -> bool {
    let of = |stat: &Stat| (stat.st_mode, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
    of(there) == of(now)
}
