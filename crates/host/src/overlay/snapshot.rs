//! The whole of an overlay as one comparable value.

use super::{FileKind, Overlay};
use crate::digest::sha256_hex;
use crate::fault::{Fault, FaultKind};
use crate::files::HostRead;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Begins the line of a file of which only a command could tell what it holds.
pub const UNKNOWN_FILE: &str = "file of unknown content";

impl Overlay {
    /// Everything below `/`, one line a path: sort, mode, owner, extended attributes, and content or target. Times are left out,
    /// because putting a file back sets them anew. Meant for small hosts: it reads them whole.
    pub fn snapshot(&self) -> Result<BTreeMap<PathBuf, String>, Fault> {
        let mut lines = BTreeMap::new();
        self.describe(Path::new("/"), &mut lines)?;
        Ok(lines)
    }

    fn describe(&self, path: &Path, lines: &mut BTreeMap<PathBuf, String>) -> Result<(), Fault> {
        let Some(meta) = self.stat(path)? else { return Ok(()) };
        let what = match meta.kind {
            FileKind::File => match self.read(path, u64::MAX - 1) {
                Ok(content) => format!("file {}", sha256_hex(&content)),
                Err(fault) if fault.kind == FaultKind::NotFound => UNKNOWN_FILE.to_string(),
                Err(fault) => return Err(fault),
            },
            FileKind::Link => format!("link {}", self.read_link(path)?.display()),
            FileKind::Directory => "directory".to_string(),
            FileKind::Special(special) => special.article().to_string(),
        };
        let xattrs = self.xattrs(path)?;
        let besides = if xattrs.is_empty() { String::new() } else { format!(" {xattrs:?}") };
        lines.insert(
            path.to_path_buf(),
            format!("{what}{besides} {:04o} {}:{}", meta.mode, meta.uid, meta.gid),
        );
        if meta.kind == FileKind::Directory {
            for name in self.list(path)? {
                self.describe(&path.join(name), lines)?;
            }
        }
        Ok(())
    }
}
