//! The names under which something is prepared beside its place, each held by one process at a time.
//!
//! They follow from the name of the target, so that what a killed process left behind is found again: the next put at
//! that path replaces it, a revert sweeps it. What another process is still preparing must not be taken for that. So the
//! file under such a name is locked for as long as its process works on it, and the kernel drops the lock when the process
//! ends, however it ends. Under a name that is held nobody sweeps; who finds it held takes the next one.
//!
//! A link, a device or a directory cannot be locked before others see it: it stands beside a locked file, under the same
//! name and a `+`.
//!
//! Whoever may write in a directory can take all these names. What cannot be cleared away counts as held by another; when
//! all are, there is a name that nobody can know beforehand.

use crate::digest::sha256_hex;
use crate::files::FileKind;
use crate::no_follow::Parent;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What temp files of ours are called, so that a human who finds one after a power cut knows whose it is.
const PREFIX: &str = ".zester-";
/// Processes that work on one path at once and are found again when they are killed. More than that take names of chance.
const NAMES: usize = 4;
/// How often one name is tried while others make and sweep it.
const TRIES_MAX: u32 = 1000;

/// The first part of all names of a target.
fn base(target: &OsStr) -> String {
    let digest = sha256_hex(target.as_bytes());
    format!("{PREFIX}{}", digest.get(..16).unwrap_or(&digest))
}

fn names(base: &str) -> impl Iterator<Item = OsString> {
    let base = base.to_string();
    (0..NAMES).map(move |number| match number {
        0 => base.clone().into(),
        _ => format!("{base}-{number}").into(),
    })
}

/// Where a thing stands that is no file.
fn beside(name: &OsStr) -> OsString {
    let mut beside = name.to_os_string();
    beside.push("+");
    beside
}

/// A name that is ours, and the file under it, empty at first; what is left under it goes at the end.
pub(crate) struct Temp<'a> {
    place: &'a Parent<'a>,
    name: OsString,
    file: File,
    /// The file is where it belongs.
    moved: Cell<bool>,
    /// What stands beside the file.
    begun: RefCell<Option<OsString>>,
    _alone: MutexGuard<'static, ()>,
}

impl<'a> Temp<'a> {
    pub(crate) fn hold(place: &'a Parent<'a>) -> rustix::io::Result<Temp<'a>> {
        let base = base(place.name);
        let alone = alone(&base);
        let mut held = None;
        for name in names(&base) {
            match held {
                None => held = take(&place.directory, &name)?.map(|file| (name, file)),
                // Somebody may have been killed who found the first names held.
                Some(_) => drop(clear(&place.directory, &name)?),
            }
        }
        let (name, file) = match held {
            Some(held) => held,
            None => {
                let name = by_chance(&base);
                let file = take(&place.directory, &name)?.ok_or(Errno::EXIST)?;
                (name, file)
            }
        };
        Ok(Temp { place, name, file, moved: Cell::new(false), begun: RefCell::default(), _alone: alone })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Moves the file over whatever file or link is there.
    pub(crate) fn replace(&self) -> rustix::io::Result<()> {
        let directory = &self.place.directory;
        if !is_under(directory, &self.name, &self.file)? {
            return Err(Errno::STALE);
        }
        rustix::fs::renameat(directory, &*self.name, directory, self.place.name)?;
        self.has_moved();
        Ok(())
    }

    /// Moves the file to where nothing is.
    pub(crate) fn place(&self) -> rustix::io::Result<()> {
        let directory = &self.place.directory;
        if !is_under(directory, &self.name, &self.file)? {
            return Err(Errno::STALE);
        }
        match rustix::fs::renameat_with(
            directory,
            &*self.name,
            directory,
            self.place.name,
            RenameFlags::NOREPLACE,
        ) {
            Ok(()) => self.has_moved(),
            // A file system that cannot promise to replace nothing: a look has to do.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                return match rustix::fs::statat(directory, self.place.name, AtFlags::SYMLINK_NOFOLLOW) {
                    Err(Errno::NOENT) => self.replace(),
                    Err(error) => Err(error),
                    Ok(_) => Err(Errno::EXIST),
                };
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Moves the file to its place if what comes out of there `is` right; else that goes back, and it says `false`.
    pub(crate) fn exchange(
        &self,
        is: impl Fn(&Stat, &OsStr) -> rustix::io::Result<bool>,
    ) -> rustix::io::Result<bool> {
        let directory = &self.place.directory;
        if !is_under(directory, &self.name, &self.file)? {
            return Err(Errno::STALE);
        }
        let look = |name: &OsStr| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let exchange = || {
            rustix::fs::renameat_with(
                directory,
                &*self.name,
                directory,
                self.place.name,
                RenameFlags::EXCHANGE,
            )
        };
        match exchange() {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(false),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                return match look(self.place.name) {
                    Ok(there) if is(&there, self.place.name)? => self.replace().map(|()| true),
                    Ok(_) | Err(Errno::NOENT) => Ok(false),
                    Err(error) => Err(error),
                };
            }
            Err(error) => return Err(error),
        }
        let right = look(&self.name).and_then(|out| is(&out, &self.name));
        if !matches!(right, Ok(true)) {
            exchange()?;
            return right;
        }
        self.has_moved();
        // What cannot be removed now is swept by whoever comes next.
        let _ = remove(directory, &self.name);
        Ok(true)
    }

    /// Whoever locks the file in its place need not wait for us.
    fn has_moved(&self) {
        self.moved.set(true);
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }

    /// Makes something beside the file, and returns its name.
    pub(crate) fn make<T>(
        &self,
        make: impl Fn(&OsStr) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<OsString> {
        let begin = |name: OsString| {
            *self.begun.borrow_mut() = Some(name.clone());
            make(&name).map(|_| name)
        };
        let usual = beside(&self.name);
        match begin(usual.clone()) {
            Err(Errno::EXIST) => match remove(&self.place.directory, &usual) {
                Ok(()) => begin(usual),
                // Another's, and in use.
                Err(_) => begin(beside(&by_chance(&base(self.place.name)))),
            },
            begun => begun,
        }
    }

    /// Moves what was made beside the file over whatever file or link is there.
    pub(crate) fn replace_with(&self, name: &OsStr) -> rustix::io::Result<()> {
        let directory = &self.place.directory;
        rustix::fs::renameat(directory, name, directory, self.place.name)?;
        self.begun.take();
        Ok(())
    }

    /// Makes it whole and moves it to where nothing is.
    pub(crate) fn make_new(
        &self,
        make: impl Fn(&OsStr) -> rustix::io::Result<()>,
        sort: AtFlags,
    ) -> rustix::io::Result<()> {
        let name = self.make(&make)?;
        let directory = &self.place.directory;
        match rustix::fs::renameat_with(directory, &*name, directory, self.place.name, RenameFlags::NOREPLACE)
        {
            Ok(()) => {
                self.begun.take();
                Ok(())
            }
            // A file system that cannot promise to replace nothing: then it is made under its own name.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => make(self.place.name).inspect_err(|error| {
                if *error != Errno::EXIST {
                    let _ = rustix::fs::unlinkat(directory, self.place.name, sort);
                }
            }),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        // The error that matters is the first one.
        if let Some(begun) = self.begun.take() {
            let _ = remove(&self.place.directory, &begun);
        }
        if !self.moved.get() {
            let _ = remove_own(&self.place.directory, &self.name, &self.file);
        }
    }
}

/// A name that is kept from every other process which asks for it, until this is dropped.
#[derive(Debug, Default)]
pub struct Reserved(Option<(OwnedFd, OsString, File)>);

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some((directory, name, file)) = &self.0 {
            let _ = remove_own(directory, name, file);
        }
    }
}

/// `None` where another process has it.
pub(crate) fn reserve(place: Parent<'_>) -> rustix::io::Result<Option<Reserved>> {
    let name: OsString = base(place.name).into();
    let file = take(&place.directory, &name)?;
    Ok(file.map(|file| Reserved(Some((place.directory, name, file)))))
}

/// Removes what those left who were killed.
pub(crate) fn sweep(place: &Parent<'_>) -> rustix::io::Result<()> {
    let base = base(place.name);
    let _alone = alone(&base);
    names(&base).try_for_each(|name| clear(&place.directory, &name).map(drop))
}

/// The file under a name, made and locked by us; `None` where it is another's.
fn take(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<Option<File>> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..TRIES_MAX {
        match rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600)) {
            Ok(made) => {
                // Before it was locked, somebody may have taken it for left over.
                lock(&made, FlockOperation::LockExclusive)?;
                if is_under(directory, name, &made)? {
                    return Ok(Some(made.into()));
                }
            }
            Err(Errno::EXIST) if !clear(directory, name)? => return Ok(None),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Removes what is left under a name, with what stands beside it. `false`: its process lives, or it cannot be removed.
fn clear(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<bool> {
    let there = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(true),
        there => there?,
    };
    // Links, devices and directories stand here only by those who did not lock.
    let mut _locked = None;
    if crate::atomic::kind_of(&there) == FileKind::File {
        match open_any(directory, name) {
            Err(Errno::NOENT) => return Ok(true),
            // Nobody can be asked about it: what is ours is taken for left over, what is not, for another's.
            Err(_) if there.st_uid != rustix::process::geteuid().as_raw() => return Ok(false),
            Err(_) => {}
            Ok(opened) => match lock(&opened, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Ok(false),
                _ if !is_under(directory, name, &opened)? => return Ok(true),
                _ => _locked = Some(opened),
            },
        }
    }
    Ok(remove(directory, &beside(name)).and_then(|()| remove(directory, name)).is_ok())
}

/// Opened in whichever way its mode allows.
fn open_any(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let open = |access: OFlags| {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::empty())
    };
    open(OFlags::RDWR).or_else(|_| open(OFlags::RDONLY)).or_else(|_| open(OFlags::WRONLY))
}

/// A file system without locks has none to respect.
fn lock(file: &OwnedFd, how: FlockOperation) -> rustix::io::Result<()> {
    match rustix::io::retry_on_intr(|| rustix::fs::flock(file, how)) {
        Err(Errno::WOULDBLOCK) => Err(Errno::WOULDBLOCK),
        _ => Ok(()),
    }
}

/// Whether the name still means this very file.
fn is_under(directory: &OwnedFd, name: &OsStr, file: &impl std::os::fd::AsFd) -> rustix::io::Result<bool> {
    let held = rustix::fs::fstat(file)?;
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

fn remove_own(directory: &OwnedFd, name: &OsStr, file: &File) -> rustix::io::Result<()> {
    match is_under(directory, name, file)? {
        true => remove(directory, name),
        false => Ok(()),
    }
}

fn remove(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let removed = match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR),
        other => other,
    };
    match removed {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn by_chance(base: &str) -> OsString {
    use std::hash::{BuildHasher, Hasher};
    let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
    format!("{base}-{chance:016x}").into()
}

/// Two states may manage one path; inside this process they take turns.
fn alone(name: &str) -> MutexGuard<'static, ()> {
    static TURNS: [Mutex<()>; 1024] = [const { Mutex::new(()) }; 1024];
    let at = name.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(byte)));
    TURNS[at % TURNS.len()].lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::no_follow::open_parent;
    use std::io::Write;
    use std::path::Path;
    use zester_rule::rule;

    fn listed(top: &Path) -> Vec<String> {
        let names = std::fs::read_dir(top).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What another process holds: a lock of another open file is no different from that of another process.
    fn held_by_another(place: &Parent<'_>, number: usize) -> File {
        let name = names(&base(place.name)).nth(number).unwrap();
        let mut file = take(&place.directory, &name).unwrap().unwrap();
        file.write_all(b"theirs").unwrap();
        file
    }

    #[test]
    #[rule("S-31")]
    fn s31_what_another_process_prepares_is_not_swept_and_what_a_killed_one_left_is() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let path = top.join("f");
        let place = open_parent(&path, OFlags::PATH).unwrap();
        let theirs = held_by_another(&place, 0);
        let before = listed(&top);
        sweep(&place).unwrap();
        assert_eq!(listed(&top), before);
        let ours = Temp::hold(&place).unwrap();
        ours.file().write_all(b"ours").unwrap();
        ours.replace().unwrap();
        drop(ours);
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
        let name = names(&base(place.name)).next().unwrap();
        assert_eq!(std::fs::read(top.join(&name)).unwrap(), b"theirs");
        // It is killed: the lock goes, the file stays.
        let second = held_by_another(&place, 1);
        std::fs::create_dir(top.join(beside(&name))).unwrap();
        drop((theirs, second));
        assert_eq!(listed(&top).len(), 4);
        drop(Temp::hold(&place).unwrap());
        assert_eq!(listed(&top), ["f"]);
        drop(held_by_another(&place, 3));
        sweep(&place).unwrap();
        assert_eq!(listed(&top), ["f"]);
    }

    #[test]
    fn when_all_names_are_held_there_is_one_more() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let path = top.join("f");
        let place = open_parent(&path, OFlags::PATH).unwrap();
        let held: Vec<File> = (0..NAMES).map(|number| held_by_another(&place, number)).collect();
        let one_more = Temp::hold(&place).unwrap();
        let name = one_more.make(|name| rustix::fs::symlinkat("x", &place.directory, name)).unwrap();
        one_more.replace_with(&name).unwrap();
        drop(one_more);
        assert_eq!(std::fs::read_link(&path).unwrap(), Path::new("x"));
        assert_eq!(listed(&top).len(), held.len() + 1);
    }

    #[test]
    fn what_took_the_place_of_our_file_is_not_put_in_place_of_anything() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let path = top.join("f");
        let place = open_parent(&path, OFlags::PATH).unwrap();
        let ours = Temp::hold(&place).unwrap();
        std::fs::remove_file(top.join(&ours.name)).unwrap();
        std::fs::write(top.join(&ours.name), "theirs").unwrap();
        assert_eq!(ours.replace().unwrap_err(), Errno::STALE);
        let name = ours.name.clone();
        drop(ours);
        assert_eq!(std::fs::read(top.join(name)).unwrap(), b"theirs");
        assert!(!path.exists());
    }

    #[test]
    #[rule("S-31")]
    fn s31_what_others_put_under_our_names_keeps_nobody_from_putting_files() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let path = top.join("f");
        let place = open_parent(&path, OFlags::PATH).unwrap();
        let block = |name: &OsStr| std::fs::create_dir_all(top.join(name).join("inside")).unwrap();
        let all: Vec<OsString> = names(&base(place.name)).collect();
        all.iter().for_each(|name| block(name));
        let ours = Temp::hold(&place).unwrap();
        ours.file().write_all(b"ours").unwrap();
        ours.replace().unwrap();
        drop(ours);
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
        sweep(&place).unwrap();
        // What stands beside a file can be blocked too.
        all.iter().for_each(|name| std::fs::remove_dir_all(top.join(name)).unwrap());
        all.iter().for_each(|name| block(&beside(name)));
        let ours = Temp::hold(&place).unwrap();
        block(&beside(&ours.name));
        let name = ours.make(|name| rustix::fs::symlinkat("x", &place.directory, name)).unwrap();
        ours.replace_with(&name).unwrap();
        drop(ours);
        assert_eq!(std::fs::read_link(&path).unwrap(), Path::new("x"));
        let left = listed(&top).into_iter().filter(|name| !top.join(name).is_dir());
        assert_eq!(left.collect::<Vec<_>>(), ["f"]);
    }

    #[test]
    fn a_reserved_name_is_had_once() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        let path = top.join("f");
        let again = || reserve(open_parent(&path, OFlags::PATH).unwrap()).unwrap();
        let first = again();
        assert!(first.is_some() && again().is_none());
        drop(first);
        assert!(again().is_some());
        assert!(listed(&top).is_empty());
    }
}
