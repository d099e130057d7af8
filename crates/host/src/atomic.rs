//! Putting a whole file in place in one step.
//!
//! The order is what makes it safe: a temp file beside the target with mode 0600, content, the extended
//! attributes that belong to the place (SELinux label, ACL), owner, mode, sync, rename, sync of the
//! directory, all of it in a directory that is held open (see [`crate::no_follow`]). A reader sees the old file
//! or the new one, complete with owner and mode, and a crash leaves one of the two. On any error the temp file
//! is removed. Those who put files at the same time share their syncs (see [`crate::durable`]).
//!
//! Where the temp name comes from, and how it is kept from other processes, says [`crate::temp_name`]. It is made
//! exclusively and links are not followed, so a name that somebody prepared gains them nothing. Directories, links,
//! pipes and devices come about the same way.

use crate::durable::Durable;
use crate::fault::{Fault, FaultKind};
use crate::files::{NewFile, Owner, Seen, Special};
use crate::no_follow::{self, Parent};
use crate::seen;
use crate::temp_name::{self, Reserved, Temp};
use crate::xattrs::{self, Lost, Xattrs};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What a file is put in the place of.
#[derive(Copy, Clone)]
pub(crate) enum Over<'a> {
    Anything,
    Seen(Seen<'a>),
    /// It comes back, with these extended attributes.
    Back(&'a Xattrs),
}

pub(crate) fn put_file(
    path: &Path,
    new: &NewFile<'_>,
    over: Over<'_>,
    durable: &Durable,
) -> Result<Lost, Fault> {
    let image = match over {
        Over::Back(image) => Some(image),
        Over::Anything | Over::Seen(_) => None,
    };
    let failed = |doing: &str, error: Errno| no_follow::failed(doing, path, error);
    let place = beside_to_sync(path)?;
    let temp = Temp::hold(&place).map_err(|error| failed("create a temp file beside", error))?;
    let content = durable.content(&place.directory);
    let mut file = temp.file();
    file.write_all(new.content).map_err(|error| Fault::io("write", path, error))?;
    if image.is_some() {
        let stripped = xattrs::strip_inherited(|name| rustix::fs::fremovexattr(file, name));
        stripped.map_err(|error| failed("set owner and mode of", error))?;
    }
    copy_attributes(&place, file, new.owner)
        .map_err(|error| failed("carry over the access list of", error))?;
    let lost = furnish(file, new.owner, new.mode, image);
    let lost = lost.map_err(|error| failed("set owner and mode of", error))?;
    let _putting = content.sync(file).map_err(|error| Fault::io("write", path, error.into()))?;
    let name = durable.name(&place.directory);
    let moved = match over {
        Over::Seen(seen) => seen::replace(&temp, &place, seen),
        Over::Anything | Over::Back(_) => temp.replace().map(|()| true),
    };
    match moved {
        Ok(false) => Err(Fault::changed_meanwhile(path)),
        Ok(true) => synced(path, name.sync(&place.directory)).map(|()| lost),
        // A bind-mounted file, as containers have for /etc/hosts: it cannot be replaced, only rewritten.
        Err(Errno::BUSY) => write_in_place(path, &place, new, image),
        Err(error) => Err(failed("put in place", error)),
    }
}

/// A link under a temp name, moved over whatever file or link was there.
pub(crate) fn put_link(
    path: &Path,
    target: &Path,
    owner: Owner,
    image: &Xattrs,
    durable: &Durable,
) -> Result<Lost, Fault> {
    let place = beside_to_sync(path)?;
    let failed = |error: Errno| no_follow::failed("create the link", path, error);
    let temp = Temp::hold(&place).map_err(failed)?;
    let given = durable.name(&place.directory);
    let name = temp.make(|name| rustix::fs::symlinkat(target, &place.directory, name)).map_err(failed)?;
    let owned = own_link(&place.directory, &name, owner);
    let furnished = owned.and_then(|()| match image.is_empty() {
        true => Ok(Lost::new()),
        false => Ok(xattrs::set(&held(&place.directory, &name)?, image)),
    });
    let moved = furnished.and_then(|lost| temp.replace_with(&name).map(|()| lost));
    let lost = moved.map_err(|error| no_follow::failed("put in place the link", path, error))?;
    synced(path, given.sync(&place.directory)).map(|()| lost)
}

/// A second name of a file under a temp name, moved over whatever file or link was there.
pub(crate) fn put_hard_link(path: &Path, target: &Path, durable: &Durable) -> Result<(), Fault> {
    let place = beside_to_sync(path)?;
    let failed = |error: Errno| match error {
        Errno::XDEV => {
            let message = format!("{} is on another file system than {}", target.display(), path.display());
            Fault::new(FaultKind::Unsupported, message)
                .hint("a hard link stays within one: use `file.symlink`")
        }
        error => no_follow::failed("create the link", path, error),
    };
    let file = no_follow::open_parent(target, OFlags::PATH)
        .map_err(|error| no_follow::failed("link to", target, error))?;
    let temp = Temp::hold(&place).map_err(failed)?;
    let given = durable.name(&place.directory);
    let link = |name: &OsStr| {
        rustix::fs::linkat(&file.directory, file.name, &place.directory, name, AtFlags::empty())
    };
    let name = temp.make(link).map_err(failed)?;
    temp.replace_with(&name).map_err(|error| no_follow::failed("put in place the link", path, error))?;
    synced(path, given.sync(&place.directory))
}

/// What is new need not be ours: the setgid bit of its directory gives it another group.
fn own_link(directory: &OwnedFd, name: &OsStr, owner: Owner) -> rustix::io::Result<()> {
    let now = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if now.st_uid == owner.uid && now.st_gid == owner.gid {
        return Ok(());
    }
    chown(directory, name, owner)
}

/// A directory that nobody sees before it has its owner and mode. Fails where something is already.
pub(crate) fn make_directory(
    path: &Path,
    mode: u32,
    owner: Owner,
    image: Option<&Xattrs>,
) -> Result<Lost, Fault> {
    let failed = |error: Errno| no_follow::failed("create the directory", path, error);
    let place = beside(path, OFlags::PATH)?;
    let temp = Temp::hold(&place).map_err(failed)?;
    let lost = Cell::new(Lost::new());
    let furnished = |name: &OsStr| -> rustix::io::Result<()> {
        rustix::fs::mkdirat(&place.directory, name, Mode::from_raw_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = File::from(rustix::fs::openat(&place.directory, name, flags, Mode::empty())?);
        if image.is_some() {
            xattrs::strip_inherited(|name| rustix::fs::fremovexattr(&made, name))?;
        }
        lost.set(furnish(&made, owner, mode, image)?);
        Ok(())
    };
    temp.make_new(furnished, AtFlags::REMOVEDIR).map_err(failed)?;
    Ok(lost.into_inner())
}

/// A pipe or a device, complete with owner and mode. Fails where something is already.
pub(crate) fn make_special(
    path: &Path,
    special: Special,
    mode: u32,
    owner: Owner,
    image: Option<&Xattrs>,
) -> Result<Lost, Fault> {
    let failed = |error: Errno| no_follow::failed(&format!("create {}", special.article()), path, error);
    let (sort, device) = match special {
        Special::Pipe => (FileType::Fifo, 0),
        Special::Block { major, minor } => (FileType::BlockDevice, rustix::fs::makedev(major, minor)),
        Special::Character { major, minor } => (FileType::CharacterDevice, rustix::fs::makedev(major, minor)),
        Special::Socket => return Err(failed(Errno::NOTSUP)),
    };
    let place = beside(path, OFlags::PATH)?;
    let temp = Temp::hold(&place).map_err(failed)?;
    let closed = Mode::from_raw_mode(0o600);
    let lost = Cell::new(Lost::new());
    let furnished = |name: &OsStr| -> rustix::io::Result<()> {
        rustix::fs::mknodat(&place.directory, name, sort, closed, device)?;
        let held = held(&place.directory, name)?;
        chown(&place.directory, name, owner)?;
        let Some(image) = image else { return no_follow::set_mode(&held, mode) };
        xattrs::strip_inherited(|name| rustix::fs::removexattr(no_follow::proc_fd_path(&held), name))?;
        no_follow::set_mode(&held, image.mode_without_list(mode))?;
        let unset = xattrs::set(&held, image);
        if image.list_in_force(&unset) {
            no_follow::set_mode(&held, mode)?;
        }
        lost.set(unset);
        Ok(())
    };
    temp.make_new(furnished, AtFlags::empty()).map_err(failed)?;
    Ok(lost.into_inner())
}

/// The thing itself, opened for nothing.
fn held(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

/// Removes what a put at this path left behind when it was killed.
pub(crate) fn sweep(path: &Path) -> Result<(), Fault> {
    let failed = |error: Errno| no_follow::failed("remove what was left beside", path, error);
    match no_follow::open_parent(path, OFlags::PATH) {
        Ok(place) => temp_name::sweep(&place).map_err(failed),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

/// Keeps a name beside this path from other processes; `None` where one has it.
pub(crate) fn reserve(path: &Path) -> Result<Option<Reserved>, Fault> {
    let place = beside(path, OFlags::PATH)?;
    temp_name::reserve(place).map_err(|error| no_follow::failed("create a temp file beside", path, error))
}

fn beside(path: &Path, access: OFlags) -> Result<Parent<'_>, Fault> {
    if path.parent().is_none() {
        return Err(Fault::new(FaultKind::InTheWay, "`/` is a directory and cannot be replaced"));
    }
    no_follow::open_parent(path, access)
        .map_err(|error| no_follow::failed("create a temp file beside", path, error))
}

/// The same, held so that it can be synced, where we may read it: who may only write in it can do without.
fn beside_to_sync(path: &Path) -> Result<Parent<'_>, Fault> {
    match no_follow::open_parent(path, OFlags::RDONLY) {
        Ok(place) if path.parent().is_some() => Ok(place),
        _ => beside(path, OFlags::PATH),
    }
}

/// Owner before mode: changing the owner clears the setuid bit.
fn own(file: &File, owner: Owner, mode: u32) -> rustix::io::Result<()> {
    let now = rustix::fs::fstat(file)?;
    if now.st_uid != owner.uid || now.st_gid != owner.gid {
        let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))
}

/// Owner, mode, and what it had besides.
fn furnish(file: &File, owner: Owner, mode: u32, image: Option<&Xattrs>) -> rustix::io::Result<Lost> {
    own(file, owner, image.map_or(mode, |image| image.mode_without_list(mode)))?;
    xattrs::put_back(file, mode, image)
}

/// Of the name itself, links not followed.
pub(crate) fn chown(directory: &OwnedFd, name: &OsStr, owner: Owner) -> rustix::io::Result<()> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    rustix::fs::chownat(directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
}

/// Best effort: many file systems have none, and a label that may not be copied (another namespace) must not
/// stop the write. An access list must: without it the mode means something else. A file that has none gets none either,
/// whatever its directory gives to what is new in it.
///
/// What somebody let others do with a file of theirs, or noted there, says nothing about a file of somebody else.
fn copy_attributes(from: &Parent<'_>, to: &File, owner: Owner) -> rustix::io::Result<()> {
    let Ok(held) = held(&from.directory, from.name) else { return Ok(()) };
    let replaced = rustix::fs::fstat(&held)?;
    if kind_of(&replaced) != crate::files::FileKind::File {
        return Ok(());
    }
    let same_owner = replaced.st_uid == owner.uid;
    let held = no_follow::proc_fd_path(&held);
    let mut names = [0_u8; 65_536];
    let Ok(length) = rustix::fs::listxattr(&*held, &mut names[..]) else { return Ok(()) };
    let mut has_list = false;
    for name in names[..length].split(|byte| *byte == 0).filter(|name| xattrs::carried(name, same_owner)) {
        let is_list = name == xattrs::ACCESS_LIST.as_bytes();
        has_list |= is_list;
        let mut value = [0_u8; 65_536];
        let copied = rustix::fs::getxattr(&*held, name, &mut value[..]).and_then(|size| {
            rustix::fs::fsetxattr(to, name, &value[..size], rustix::fs::XattrFlags::empty())
        });
        match copied {
            Err(error) if is_list && error != Errno::NODATA => return Err(error),
            _ => {}
        }
    }
    if has_list {
        return Ok(());
    }
    xattrs::strip_inherited(|name| rustix::fs::fremovexattr(to, name))
}

fn write_in_place(
    path: &Path,
    place: &Parent<'_>,
    new: &NewFile<'_>,
    image: Option<&Xattrs>,
) -> Result<Lost, Fault> {
    let failed = |error: std::io::Error| Fault::io("rewrite in place (it is a mount point)", path, error);
    let open = |access: OFlags| {
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&place.directory, place.name, flags, Mode::empty())
    };
    // To be read as well, where we may: what was there goes back if the new content does not fit.
    let (opened, readable) = match open(OFlags::RDWR) {
        Ok(opened) => (opened, true),
        Err(_) => (open(OFlags::WRONLY).map_err(|error| failed(error.into()))?, false),
    };
    let mut file = File::from(opened);
    let mut old = Vec::new();
    if readable {
        file.read_to_end(&mut old).map_err(failed)?;
    }
    let rewrite = |content: &[u8]| {
        file.rewind()?;
        file.write_all(content)?;
        file.set_len(content.len() as u64)
    };
    swap_content(new.content, readable.then_some(&old), rewrite).map_err(
        |(error, is_back)| match is_back {
            true => failed(error),
            false => failed(error).touched(),
        },
    )?;
    let furnished = furnish(&file, new.owner, new.mode, image).map_err(std::io::Error::from);
    let lost = furnished.and_then(|lost| file.sync_all().map(|()| lost));
    lost.map_err(|error| failed(error).touched())
}

/// Writes new content over the old one, which goes back if that fails half-way; whether it did.
fn swap_content(
    new: &[u8],
    old: Option<&Vec<u8>>,
    mut rewrite: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), (std::io::Error, bool)> {
    rewrite(new).map_err(|error| (error, old.is_some_and(|old| rewrite(old).is_ok())))
}

/// What came of making the name of what was put there durable.
fn synced(path: &Path, synced: rustix::io::Result<()>) -> Result<(), Fault> {
    synced.map_err(|error| Fault::io("sync the directory of", path, error.into()).touched())
}

/// What sort of thing `stat` says it is.
pub(crate) fn kind_of(stat: &rustix::fs::Stat) -> crate::files::FileKind {
    use crate::files::FileKind;
    let device = || (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Special(Special::Pipe),
        FileType::BlockDevice => {
            let (major, minor) = device();
            FileKind::Special(Special::Block { major, minor })
        }
        FileType::CharacterDevice => {
            let (major, minor) = device();
            FileKind::Special(Special::Character { major, minor })
        }
        _ => FileKind::Special(Special::Socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-43")]
    fn s43_what_could_not_be_rewritten_whole_is_as_it_was() {
        let (new, old) = (b"new and longer", b"old".to_vec());
        // A device with room for so many bytes.
        let tried = |room: usize, old: Option<&Vec<u8>>| {
            let mut there = b"old".to_vec();
            let ended = swap_content(new, old, |content| {
                let written = content.len().min(room);
                there.splice(..written.min(there.len()), content[..written].iter().copied());
                if written < content.len() {
                    return Err(Errno::NOSPC.into());
                }
                there.truncate(content.len());
                Ok(())
            });
            (ended.map_err(|(_, is_back)| is_back), there)
        };
        assert_eq!(tried(20, Some(&old)), (Ok(()), new.to_vec()));
        assert_eq!(tried(5, Some(&old)), (Err(true), old.clone()));
        assert_eq!(tried(5, None).0, Err(false), "what it was cannot be read");
        assert_eq!(tried(2, Some(&old)).0, Err(false), "not even the old content can be written");
    }
}
