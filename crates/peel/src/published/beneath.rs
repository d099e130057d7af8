//! The disk of this machine, as far as it lies beneath one directory that is held open (I-11). Every path is looked up from that handle,
//! through no link and never out of it: whatever a manifest names, and whoever puts a link in the way, nothing else is read or written.

use super::disk::{DiskEntry, TreeDisk};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};

/// Only its owner looks into a cache: state files may hold what is not for everybody.
const DIR_MODE: u32 = 0o700;
/// How deep a removal goes: deeper than any path that is published.
const DEPTH_MAX: usize = 512;

pub(super) struct Beneath {
    base: PathBuf,
    directory: OwnedFd,
}

/// A directory that is held open, and a name in it.
struct Place {
    directory: OwnedFd,
    name: OsString,
}

const HOLD: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

impl Beneath {
    /// Holds a directory, which is made if it is not there.
    pub(super) fn open(base: &Path) -> io::Result<Beneath> {
        let path = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)?;
        let directory = rustix::fs::open(path, HOLD | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Beneath { base: base.to_path_buf(), directory })
    }

    /// A path as it is seen from the directory: names, and nothing that leads up or elsewhere.
    fn below<'a>(&self, path: &'a Path) -> io::Result<&'a Path> {
        let below = path.strip_prefix(&self.base).ok();
        let is_plain = |below: &&Path| below.components().all(|part| matches!(part, Component::Normal(_)));
        below.filter(is_plain).ok_or_else(|| {
            let why = format!("{} is not beneath {}", path.display(), self.base.display());
            io::Error::new(ErrorKind::InvalidInput, why)
        })
    }

    fn open_at(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let below = self.below(path)?;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match rustix::fs::openat2(&self.directory, below, flags, Mode::empty(), resolve) {
            // Before Linux 5.6, or forbidden by a filter of system calls that does not know it.
            Err(Errno::NOSYS | Errno::PERM) => self.open_by_steps(below, flags),
            opened => Ok(opened?),
        }
    }

    /// The same, directory by directory.
    fn open_by_steps(&self, below: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let step = HOLD | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut here = rustix::fs::openat(&self.directory, ".", step, Mode::empty())?;
        let mut names = below.components().map(Component::as_os_str).peekable();
        while let Some(name) = names.next() {
            let flags = if names.peek().is_some() { step } else { flags };
            here = rustix::fs::openat(&here, name, flags, Mode::empty())?;
        }
        Ok(here)
    }

    fn place(&self, path: &Path) -> io::Result<Place> {
        let name = self.below(path)?.file_name();
        let name = name.ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?.to_os_string();
        let directory = self.open_at(path.parent().unwrap_or(&self.base), HOLD)?;
        Ok(Place { directory, name })
    }
}

/// What stands under a name; none where nothing does.
fn entry_in(directory: &OwnedFd, name: &OsStr) -> io::Result<Option<DiskEntry>> {
    let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => DiskEntry::Directory,
        FileType::Symlink => DiskEntry::Link,
        _ => DiskEntry::File,
    }))
}

fn names_in(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// Whatever stands under a name, with all below it. A link goes, and what it leads to stays.
fn remove_in(directory: &OwnedFd, name: &OsStr, depth: usize) -> io::Result<()> {
    if entry_in(directory, name)? != Some(DiskEntry::Directory) {
        return match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        };
    }
    if depth >= DEPTH_MAX {
        return Err(io::Error::other("it is deeper than anything that was published"));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let below = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    for inner in names_in(&below)? {
        remove_in(&below, &inner, depth + 1)?;
    }
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
}

impl TreeDisk for Beneath {
    fn entry(&self, path: &Path) -> Option<DiskEntry> {
        let place = self.place(path).ok()?;
        entry_in(&place.directory, &place.name).ok().flatten()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        File::from(self.open_at(path, OFlags::RDONLY)?).read_to_end(&mut content)?;
        Ok(content)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.place(path)?;
        let target = rustix::fs::readlinkat(&place.directory, &place.name, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.to_bytes())))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = names_in(&self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// Under another name first, and on disk before it has its own.
    fn write(&self, path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
        let Place { directory, name } = self.place(path)?;
        let mut temp = name.clone();
        temp.push(".new");
        remove_in(&directory, &temp, 0)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, &temp, flags, Mode::from_raw_mode(mode))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        let mut file = File::from(file);
        file.write_all(content)?;
        file.sync_all()?;
        Ok(rustix::fs::renameat(&directory, &temp, &directory, &name)?)
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        let mut made = self.base.clone();
        for part in self.below(path)?.components() {
            made.push(part);
            let place = self.place(&made)?;
            match rustix::fs::mkdirat(&place.directory, &place.name, Mode::from_raw_mode(DIR_MODE)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // One that is there already may be a link.
        self.open_at(path, HOLD).map(drop)
    }

    fn link(&self, target: &Path, at: &Path) -> io::Result<()> {
        let place = self.place(at)?;
        Ok(rustix::fs::symlinkat(target, &place.directory, &place.name)?)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.place(from)?, self.place(to)?);
        Ok(rustix::fs::renameat(&from.directory, &from.name, &to.directory, &to.name)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let place = match self.place(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            place => place?,
        };
        remove_in(&place.directory, &place.name, 0)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::from(self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY)?).sync_all()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use zester_rule::rule;

    #[test]
    #[rule("I-11")]
    fn i11_nothing_beneath_leads_out_whoever_puts_a_link_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let (base, outside) = (dir.path().join("data"), dir.path().join("outside"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "theirs").unwrap();
        let disk = Beneath::open(&base).unwrap();
        disk.make_dirs(&base.join("trees/a/b")).unwrap();
        symlink(&outside, base.join("trees/parts")).unwrap();
        symlink(outside.join("kept"), base.join("trees/a/file")).unwrap();
        for path in ["trees/parts/x", "trees/parts/kept"] {
            assert!(disk.write(&base.join(path), b"ours", 0o600).is_err(), "{path}");
            assert!(disk.read(&base.join(path)).is_err(), "{path}");
            assert!(disk.remove(&base.join(path)).is_err(), "{path}");
            assert!(disk.rename(&base.join("trees/a/b"), &base.join(path)).is_err(), "{path}");
            assert_eq!(disk.entry(&base.join(path)), None, "{path}");
        }
        assert!(disk.make_dirs(&base.join("trees/parts")).is_err());
        assert!(disk.make_dirs(&base.join("trees/parts/deep")).is_err());
        assert!(
            disk.list(&base.join("trees/parts")).is_err()
                && disk.sync_dir(&base.join("trees/parts")).is_err()
        );
        // A link at the end is not followed either: it is replaced, or removed.
        assert!(disk.read(&base.join("trees/a/file")).is_err());
        disk.write(&base.join("trees/a/file"), b"ours", 0o640).unwrap();
        assert_eq!(disk.entry(&base.join("trees/a/file")), Some(DiskEntry::File));
        symlink(outside.join("kept"), base.join("trees/a/other.new")).unwrap();
        disk.write(&base.join("trees/a/other"), b"ours", 0o600).unwrap();
        // What leads up, or begins elsewhere, is no path beneath.
        for path in
            [base.join("../outside/kept"), outside.join("kept"), base.join("trees/../../outside/kept")]
        {
            assert_eq!(disk.read(&path).unwrap_err().kind(), ErrorKind::InvalidInput, "{}", path.display());
            assert!(disk.write(&path, b"ours", 0o600).is_err() && disk.remove(&path).is_err());
        }
        symlink(&outside, base.join("trees/a/b/link")).unwrap();
        disk.remove(&base.join("trees")).unwrap();
        assert_eq!(disk.entry(&base.join("trees")), None);
        disk.remove(&base.join("trees/a")).unwrap();
        assert_eq!(std::fs::read_to_string(outside.join("kept")).unwrap(), "theirs");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
        // The directory is the one that was opened, whatever has its name now.
        std::fs::rename(&base, dir.path().join("moved")).unwrap();
        symlink(&outside, &base).unwrap();
        disk.write(&base.join("x"), b"ours", 0o600).unwrap();
        assert_eq!(std::fs::read(dir.path().join("moved/x")).unwrap(), b"ours");
        assert!(!outside.join("x").exists());
    }

    #[test]
    #[rule("I-11", "D-4")]
    fn i11_both_ways_to_open_give_the_same_answers() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("data");
        let disk = Beneath::open(&base).unwrap();
        disk.make_dirs(&base.join("d/e")).unwrap();
        disk.write(&base.join("d/e/f"), b"x", 0o640).unwrap();
        let mode = std::fs::metadata(base.join("d/e/f")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640);
        symlink("e", base.join("d/l")).unwrap();
        symlink("f", base.join("d/e/g")).unwrap();
        for (path, flags) in [
            ("d/e", HOLD),
            ("d/e/f", OFlags::RDONLY),
            ("d/e/f", OFlags::RDONLY | OFlags::DIRECTORY),
            ("d/l", HOLD),
            ("d/l/f", OFlags::RDONLY),
            ("d/e/g", OFlags::RDONLY),
            ("d/none", OFlags::RDONLY),
            ("d/e/f/g", OFlags::RDONLY),
        ] {
            let whole = disk.open_at(&base.join(path), flags).is_ok();
            let steps =
                disk.open_by_steps(Path::new(path), flags | OFlags::NOFOLLOW | OFlags::CLOEXEC).is_ok();
            assert_eq!(whole, steps, "{path}");
        }
        assert_eq!(disk.read(&base.join("d/e/f")).unwrap(), b"x");
        assert_eq!(disk.read_link(&base.join("d/l")).unwrap(), Path::new("e"));
        let mut names = disk.list(&base.join("d/e")).unwrap();
        names.sort_unstable();
        assert_eq!(names, ["f", "g"]);
        disk.link(Path::new("e"), &base.join("d/again")).unwrap();
        disk.rename(&base.join("d/again"), &base.join("d/l")).unwrap();
        disk.sync_dir(&base).unwrap();
    }
}
