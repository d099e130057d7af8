//! A machine with nothing on it: the ground that tests stand on.

use crate::download::Download;
use crate::fault::{Fault, FaultKind};
use crate::files::{FileKind, Group, HostRead, Meta, Owner, User};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An empty `/` that belongs to root; the only user is root.
pub struct EmptyHost;

fn missing(doing: &str, path: &Path) -> Fault {
    Fault::io(doing, path, std::io::ErrorKind::NotFound.into())
}

impl HostRead for EmptyHost {
    fn without_links(&self) -> &dyn HostRead {
        self
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, Fault> {
        Ok(path.to_path_buf())
    }

    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        let root = Meta {
            kind: FileKind::Directory,
            mode: 0o755,
            uid: 0,
            gid: 0,
            size: 0,
            links: 1,
            mtime_ns: 0,
            atime_ns: 0,
        };
        Ok((path == Path::new("/")).then_some(root))
    }

    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        self.stat(path)
    }

    fn read(&self, path: &Path, _limit: u64) -> Result<Vec<u8>, Fault> {
        Err(missing("read", path))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
        Err(missing("read the link", path))
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
        if path == Path::new("/") { Ok(Vec::new()) } else { Err(missing("list", path)) }
    }

    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        let root = || User { name: "root".into(), uid: 0, gid: 0, home: "/root".into() };
        Ok((name == "root").then(root))
    }

    fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        Ok((name == "root").then(|| Group { name: "root".into(), gid: 0 }))
    }

    fn download(&self, download: &Download<'_>) -> Result<Vec<u8>, Fault> {
        Err(Fault::new(FaultKind::NotFound, format!("{} does not exist", download.url)))
    }

    fn me(&self) -> Owner {
        Owner { uid: 0, gid: 0 }
    }
}
