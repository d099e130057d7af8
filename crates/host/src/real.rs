//! This machine's files.

use crate::accounts::Accounts;
use crate::atomic::{self, Over};
use crate::blocking;
use crate::download::{self, Download};
use crate::durable::Durable;
use crate::fault::{Fault, FaultKind};
use crate::files::{
    Act, BeforeImage, Body, FileKind, Group, HostRead, HostWrite, Meta, Names, NewFile, Owner, Seen, Special,
    User,
};
use crate::no_follow;
use crate::temp_name::Reserved;
use crate::xattrs::{self, Lost, Xattrs};
use rustix::fs::{
    Access, AtFlags, CWD, Gid, Mode, OFlags, RenameFlags, StatxAttributes, StatxFlags, Timespec, Timestamps,
    Uid,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Room for a file that does not say how long it is.
const PROC_FILE_BYTES: usize = 4096;

/// The machine we run on.
pub struct Real {
    accounts: Arc<Accounts>,
    me: Owner,
    durable: Arc<Durable>,
    /// The same, looking without links; `None` in that one itself.
    acting: Option<Box<Real>>,
}

impl Default for Real {
    fn default() -> Real {
        Real::new()
    }
}

impl Real {
    pub fn new() -> Real {
        Real::on(Durable::default())
    }

    pub(crate) fn on(durable: Durable) -> Real {
        let me = Owner { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        let (accounts, durable) = (Arc::new(Accounts::new()), Arc::new(durable));
        let acting = Real { accounts: accounts.clone(), me, durable: durable.clone(), acting: None };
        Real { accounts, me, durable, acting: Some(Box::new(acting)) }
    }

    fn acting(&self) -> &Real {
        self.acting.as_deref().unwrap_or(self)
    }

    /// Links inside a path are followed for those who look, not for those who act.
    fn follows(&self) -> bool {
        self.acting.is_some()
    }

    fn open(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        match self.follows() {
            true => rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()),
            false => no_follow::open(path, flags),
        }
    }
}

fn meta_of(stat: &rustix::fs::Stat) -> Meta {
    let nanos = |seconds: i64, rest: u64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Meta {
        kind: atomic::kind_of(stat),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        #[allow(clippy::useless_conversion, reason = "it is narrower on other architectures")]
        links: stat.st_nlink.into(),
        mtime_ns: nanos(stat.st_mtime, stat.st_mtime_nsec),
        atime_ns: nanos(stat.st_atime, stat.st_atime_nsec),
    }
}

/// Nothing there, also where a parent is no directory.
fn absent(error: Errno) -> bool {
    matches!(error, Errno::NOENT | Errno::NOTDIR)
}

impl Real {
    fn failed(&self, doing: &str, path: &Path, error: Errno) -> Fault {
        match self.follows() {
            true => Fault::io(doing, path, error.into()),
            false => no_follow::failed(doing, path, error),
        }
    }
}

/// What can be known of a change before it is tried.
impl Real {
    fn may_put(&self, path: &Path) -> Result<(), Fault> {
        for above in path.ancestors().skip(1) {
            match self.access(above, Access::WRITE_OK | Access::EXEC_OK) {
                Ok(()) => break,
                Err(Errno::NOENT) => {}
                // Something is in the way, which others say better.
                Err(Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                Err(error) => return Err(Fault::io("write in", above, error.into())),
            }
        }
        let Ok(there) = rustix::fs::lstat(path) else { return Ok(()) };
        let guarded = path.parent().and_then(|above| rustix::fs::stat(above).ok()).is_some_and(|above| {
            above.st_mode & Mode::SVTX.as_raw_mode() != 0 && above.st_uid != self.me.uid
        });
        if self.me.uid != 0 && guarded && there.st_uid != self.me.uid {
            return Err(Fault::io("replace", path, Errno::PERM.into()));
        }
        self.unless_fixed("replace", path, &there)
    }

    fn may_own(&self, path: &Path, owner: Option<Owner>) -> Result<(), Fault> {
        let Ok(there) = rustix::fs::lstat(path) else { return Ok(()) };
        let ours = self.me.uid == 0 || self.me.uid == there.st_uid;
        let member = |gid: u32| gid == there.st_gid || self.is_member(gid);
        let given =
            owner.is_none_or(|owner| self.me.uid == 0 || (owner.uid == there.st_uid && member(owner.gid)));
        if !ours || !given {
            let doing = if owner.is_some() { "set the owner of" } else { "set the mode of" };
            return Err(Fault::io(doing, path, Errno::PERM.into()));
        }
        if self.me.uid != 0 && owner.is_some() && xattrs::has_rights(path) {
            let hint = "it would lose its file capabilities, which only root can give back";
            return Err(Fault::io("set the owner of", path, Errno::PERM.into()).hint(hint));
        }
        self.unless_fixed("change", path, &there)
    }

    /// What is new is ours, and its group is ours or that of its directory (the setgid bit).
    fn may_give(&self, path: &Path, owner: Owner) -> Result<(), Fault> {
        let above = path.ancestors().skip(1).find_map(|above| rustix::fs::stat(above).ok());
        let passed_on = above.filter(|above| above.st_mode & Mode::SGID.as_raw_mode() != 0);
        let member = self.is_member(owner.gid) || passed_on.is_some_and(|above| above.st_gid == owner.gid);
        if self.me.uid == 0 || (owner.uid == self.me.uid && member) {
            return Ok(());
        }
        Err(Fault::io("set the owner of", path, Errno::PERM.into()))
    }

    fn is_member(&self, gid: u32) -> bool {
        let groups = rustix::process::getgroups().unwrap_or_default();
        gid == self.me.gid || groups.iter().any(|group| group.as_raw() == gid)
    }

    /// A read-only file system, or a file that may not change (`chattr +i`).
    fn unless_fixed(&self, doing: &str, path: &Path, there: &rustix::fs::Stat) -> Result<(), Fault> {
        if !matches!(atomic::kind_of(there), FileKind::File | FileKind::Directory) {
            return Ok(());
        }
        match self.access(path, Access::WRITE_OK) {
            Err(error @ (Errno::ROFS | Errno::PERM)) => Err(Fault::io(doing, path, error.into())),
            _ => Ok(()),
        }
    }

    fn access(&self, path: &Path, access: Access) -> rustix::io::Result<()> {
        let flags = match rustix::process::getuid().as_raw() == self.me.uid {
            true => AtFlags::empty(),
            false => AtFlags::EACCESS,
        };
        rustix::fs::accessat(CWD, path, access, flags)
    }
}

impl HostRead for Real {
    fn without_links(&self) -> &dyn HostRead {
        self.acting()
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, Fault> {
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        if plain && no_follow::open_parent(path, OFlags::PATH).is_ok() {
            return Ok(path.to_path_buf());
        }
        for above in path.ancestors().skip(1) {
            match std::fs::canonicalize(above) {
                Ok(real) => return Ok(path.strip_prefix(above).map_or(real.clone(), |rest| real.join(rest))),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Fault::io("follow the links in", path, error)),
            }
        }
        Ok(path.to_path_buf())
    }

    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        let found = match self.follows() {
            true => rustix::fs::lstat(path),
            false => no_follow::open_parent(path, OFlags::PATH).and_then(|place| {
                rustix::fs::statat(&place.directory, place.name, AtFlags::SYMLINK_NOFOLLOW)
            }),
        };
        match found {
            Ok(stat) => Ok(Some(meta_of(&stat))),
            Err(error) if absent(error) => Ok(None),
            Err(error) => Err(self.failed("look at", path, error)),
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
        let opened = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY);
        let mut file = File::from(opened.map_err(|error| self.failed("read", path, error))?);
        let stat = rustix::fs::fstat(&file).map_err(|error| Fault::io("read", path, error.into()))?;
        if atomic::kind_of(&stat) != FileKind::File {
            return Err(Fault::new(
                FaultKind::InTheWay,
                format!("cannot read {}: it is not a file", path.display()),
            ));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        // Files of /proc say 0, and a setting of the kernel is told to the first read only.
        let expected = if size == 0 { PROC_FILE_BYTES } else { size.min(limit) as usize };
        let mut content = Vec::with_capacity(expected + 1);
        let failed = |error: std::io::Error| Fault::io("read", path, error);
        let first = || rustix::io::read(&file, rustix::buffer::spare_capacity(&mut content));
        rustix::io::retry_on_intr(first).map_err(|error| failed(error.into()))?;
        // As long as it said it is, where there was room for more: that was its end.
        if size == 0 || content.len() as u64 != size {
            let left = limit.saturating_add(1).saturating_sub(content.len() as u64);
            file.by_ref().take(left).read_to_end(&mut content).map_err(failed)?;
        }
        if content.len() as u64 > limit {
            return Err(too_large(path, limit));
        }
        Ok(content)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
        if self.follows() {
            return std::fs::read_link(path).map_err(|error| Fault::io("read the link", path, error));
        }
        let read = no_follow::open_parent(path, OFlags::PATH)
            .and_then(|place| rustix::fs::readlinkat(&place.directory, place.name, Vec::new()));
        let target = read.map_err(|error| no_follow::failed("read the link", path, error))?;
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
        let failed = |error: Errno| self.failed("list", path, error);
        let directory = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_os_string());
            }
        }
        names.sort();
        Ok(names)
    }

    fn links_in(&self, directory: &Path, most: usize) -> Result<Option<Names>, Fault> {
        let failed = |error: Errno| self.failed("list", directory, error);
        let opened = self.open(directory, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let mut links = Names::new();
        for (seen, entry) in rustix::fs::Dir::new(opened).map_err(failed)?.enumerate() {
            let entry = entry.map_err(failed)?;
            match entry.file_type() {
                _ if seen >= most => return Ok(None),
                // Not every file system says it here.
                rustix::fs::FileType::Unknown => return Ok(None),
                rustix::fs::FileType::Symlink => {
                    links.insert(OsStr::from_bytes(entry.file_name().to_bytes()).to_os_string());
                }
                _ => {}
            }
        }
        Ok(Some(links))
    }

    fn xattrs(&self, path: &Path) -> Result<Xattrs, Fault> {
        let failed = |error| self.failed("read the extended attributes of", path, error);
        let held = self.open(path, OFlags::PATH | OFlags::NOFOLLOW).map_err(failed)?;
        match xattrs::of(&held, self.me) {
            // No /proc: what can be opened can be asked all the same.
            Err(Errno::BADF) => match self.open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK) {
                Ok(opened) => xattrs::of(&opened, self.me).map_err(failed),
                Err(Errno::LOOP | Errno::NXIO) => Ok(Xattrs::default()),
                Err(error) => Err(failed(error)),
            },
            found => found.map_err(failed),
        }
    }

    fn is_mount_point(&self, path: &Path) -> Result<bool, Fault> {
        let asked = match self.follows() {
            true => mounted_at(CWD, path.as_os_str()),
            false => no_follow::open_parent(path, OFlags::PATH)
                .and_then(|place| mounted_at(place.directory.as_fd(), place.name)),
        };
        match asked {
            Err(error) if absent(error) => Ok(false),
            asked => asked.map_err(|error| self.failed("look at", path, error)),
        }
    }

    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Fault> {
        let file = |path: &Path| -> Result<Option<(u64, u64)>, Fault> {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match self.open(path, flags).and_then(|held| rustix::fs::fstat(&held)) {
                Ok(stat) => Ok(Some((stat.st_dev, stat.st_ino))),
                Err(error) if absent(error) => Ok(None),
                Err(error) => Err(self.failed("look at", path, error)),
            }
        };
        let (one, other) = (file(one)?, file(other)?);
        Ok(one.is_some() && one == other)
    }

    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        self.accounts.user(name)
    }

    fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        self.accounts.group(name)
    }

    fn download(&self, download: &Download<'_>) -> Result<Vec<u8>, Fault> {
        blocking::in_place(|| download::read(download))
    }

    fn me(&self) -> Owner {
        self.me
    }

    fn may(&self, path: &Path, act: Act) -> Result<(), Fault> {
        match act {
            Act::Put => self.may_put(path),
            Act::Attributes => self.may_own(path, None),
            Act::Owner(owner) => self.may_own(path, Some(owner)),
            Act::New(owner) => self.may_give(path, owner),
        }
    }
}

fn mounted_at(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<bool> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let there = match rustix::fs::statx(directory, name, flags, StatxFlags::empty()) {
        // Before Linux 4.11, or forbidden by a filter of system calls that does not know it.
        Err(Errno::NOSYS | Errno::PERM) => None,
        there => Some(there?),
    };
    if let Some(there) = there
        && there.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT)
    {
        return Ok(there.stx_attributes.contains(StatxAttributes::MOUNT_ROOT));
    }
    // Before Linux 5.8: a directory that lies on another device than its parent.
    let there = rustix::fs::statat(directory, name, flags)?;
    if atomic::kind_of(&there) != FileKind::Directory {
        return Ok(false);
    }
    let above = rustix::fs::statat(directory, Path::new(name).join(".."), AtFlags::empty())?;
    Ok(above.st_dev != there.st_dev)
}

pub(crate) fn too_large(path: &Path, limit: u64) -> Fault {
    Fault::new(FaultKind::Unsupported, format!("{} is larger than {limit} bytes", path.display()))
}

fn timespec(nanos: i128) -> Timespec {
    let seconds = nanos.div_euclid(1_000_000_000);
    let rest = nanos.rem_euclid(1_000_000_000);
    Timespec { tv_sec: seconds as i64, tv_nsec: rest as i64 }
}

/// Works on a name in the directory that it holds.
fn at<T>(
    doing: &str,
    path: &Path,
    work: impl FnOnce(&OwnedFd, &OsStr) -> rustix::io::Result<T>,
) -> Result<T, Fault> {
    let held = no_follow::open_parent(path, OFlags::PATH);
    held.and_then(|place| work(&place.directory, place.name))
        .map_err(|error| no_follow::failed(doing, path, error))
}

impl HostWrite for Real {
    fn acting(&self) -> &dyn HostWrite {
        self.acting()
    }

    fn put_file(&self, path: &Path, file: &NewFile<'_>) -> Result<(), Fault> {
        blocking::in_place(|| atomic::put_file(path, file, Over::Anything, &self.durable)).map(drop)
    }

    fn put_file_over(&self, path: &Path, file: &NewFile<'_>, seen: Seen<'_>) -> Result<(), Fault> {
        blocking::in_place(|| atomic::put_file(path, file, Over::Seen(seen), &self.durable)).map(drop)
    }

    fn make_directory(&self, path: &Path, mode: u32, owner: Owner) -> Result<(), Fault> {
        atomic::make_directory(path, mode, owner, None).map(drop)
    }

    fn make_special(&self, path: &Path, special: Special, mode: u32, owner: Owner) -> Result<(), Fault> {
        atomic::make_special(path, special, mode, owner, None).map(drop)
    }

    fn put_link(&self, path: &Path, target: &Path, owner: Owner) -> Result<(), Fault> {
        let none = Xattrs::default();
        blocking::in_place(|| atomic::put_link(path, target, owner, &none, &self.durable)).map(drop)
    }

    fn put_hard_link(&self, path: &Path, target: &Path) -> Result<(), Fault> {
        blocking::in_place(|| atomic::put_hard_link(path, target, &self.durable))
    }

    fn restore(&self, path: &Path, image: &BeforeImage<'_>) -> Result<Lost, Fault> {
        let BeforeImage { body, mode, owner, xattrs } = *image;
        blocking::in_place(|| match body {
            Body::File(content) => {
                let file = NewFile { content, mode, owner };
                atomic::put_file(path, &file, Over::Back(xattrs), &self.durable)
            }
            Body::Directory => atomic::make_directory(path, mode, owner, Some(xattrs)),
            Body::Link(target) => atomic::put_link(path, target, owner, xattrs, &self.durable),
            Body::Special(special) => atomic::make_special(path, special, mode, owner, Some(xattrs)),
        })
    }

    fn set_xattrs(&self, path: &Path, xattrs: &Xattrs) -> Result<Lost, Fault> {
        let held = no_follow::open(path, OFlags::PATH | OFlags::NOFOLLOW);
        let held = held.map_err(|error| no_follow::failed("set the extended attributes of", path, error))?;
        Ok(xattrs::set(&held, xattrs))
    }

    /// Through a descriptor that is not opened for anything: a link must never be followed here, and opening
    /// a device can be an act.
    fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Fault> {
        at("set the mode of", path, |directory, name| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let held = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            if atomic::kind_of(&rustix::fs::fstat(&held)?) == FileKind::Link {
                return Err(Errno::LOOP);
            }
            no_follow::set_mode(&held, mode)
        })
    }

    /// The kernel takes the capabilities of a program that changes hands; its content is the same, so they are given
    /// back. Where we could not do that nothing is done.
    fn set_owner(&self, path: &Path, owner: Owner) -> Result<(), Fault> {
        let lost = at("set the owner of", path, |directory, name| {
            let held = rustix::fs::openat(
                directory,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            let is_file = atomic::kind_of(&rustix::fs::fstat(&held)?) == FileKind::File;
            let rights = if is_file { xattrs::rights_of(&held)? } else { Xattrs::default() };
            if !rights.is_empty() && self.me.uid != 0 {
                return Err(Errno::PERM);
            }
            let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
            rustix::fs::chownat(&held, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
            Ok(xattrs::set(&held, &rights))
        })?;
        match lost.into_values().next() {
            Some(why) => {
                let message = format!("{} lost its file capabilities with its owner: {why}", path.display());
                Err(Fault::new(FaultKind::Io, message).touched())
            }
            None => Ok(()),
        }
    }

    fn set_times(&self, path: &Path, atime_ns: i128, mtime_ns: i128) -> Result<(), Fault> {
        let times = Timestamps { last_access: timespec(atime_ns), last_modification: timespec(mtime_ns) };
        at("set the times of", path, |directory, name| {
            rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)
        })
    }

    fn remove_file(&self, path: &Path) -> Result<(), Fault> {
        at("remove", path, |directory, name| rustix::fs::unlinkat(directory, name, AtFlags::empty()))
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Fault> {
        at("remove the directory", path, |directory, name| {
            rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        at(&format!("move {} to", from.display()), to, |directory, name| {
            let place = no_follow::open_parent(from, OFlags::PATH)?;
            rustix::fs::renameat_with(&place.directory, place.name, directory, name, RenameFlags::NOREPLACE)
        })
    }

    fn reserve(&self, path: &Path) -> Result<Option<Reserved>, Fault> {
        atomic::reserve(path)
    }

    fn sweep(&self, path: &Path) -> Result<(), Fault> {
        atomic::sweep(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    fn a_setting_of_the_kernel_is_read_whole() {
        let path = Path::new("/proc/sys/kernel/pid_max");
        let whole = std::fs::read(path).unwrap();
        assert!(whole.len() > 2, "a number of several digits");
        assert_eq!(Real::new().read(path, 1024).unwrap(), whole);
    }

    #[test]
    #[rule("S-30")]
    fn s30_only_root_makes_something_new_for_others() {
        let temp = tempfile::tempdir().unwrap();
        let me = Owner { uid: 4242, gid: 4243 };
        let host = Real { me, ..Real::new() };
        let may = |owner: Owner| host.may_give(&temp.path().join("new"), owner).is_ok();
        assert!(may(me));
        assert!(!may(Owner { uid: 0, ..me }) && !may(Owner { gid: 4244, ..me }));
        let root = Real { me: Owner { uid: 0, gid: 0 }, ..Real::new() };
        root.may_give(&temp.path().join("new"), me).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o2755);
        std::fs::set_permissions(temp.path(), open).unwrap();
        let gid = std::os::unix::fs::MetadataExt::gid(&std::fs::metadata(temp.path()).unwrap());
        assert!(may(Owner { gid, ..me }), "the setgid bit of the directory gives it its group");
    }
}
