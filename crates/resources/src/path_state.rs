//! What is at a path: recorded before a change, and compared before it is undone.

use crate::context::BlobStore;
use crate::path_text;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::digest::sha256_hex;
use zester_host::{Fault, FileKind, HostRead, Meta, Owner, Seen, Special, Xattrs};
use zester_model::limits::FILE_BYTES_MAX;

/// One thing in the file system, without its children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "sort", rename_all = "snake_case")]
pub(crate) enum PathState {
    Absent,
    File {
        sha256: String,
        mode: u32,
        uid: u32,
        gid: u32,
        /// The name of its content in the blob store, once it was kept there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<String>,
    },
    Directory {
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Link {
        #[serde(with = "path_text")]
        target: PathBuf,
        uid: u32,
        gid: u32,
    },
    /// A file of which only the attributes are managed; its content is nobody's business.
    Attributes {
        mode: u32,
        uid: u32,
        gid: u32,
    },
    /// A device, socket or pipe.
    Special {
        what: Special,
        mode: u32,
        uid: u32,
        gid: u32,
    },
}

impl PathState {
    pub(crate) fn file(content: &[u8], mode: u32, owner: Owner) -> PathState {
        PathState::File { sha256: sha256_hex(content), mode, uid: owner.uid, gid: owner.gid, kept: None }
    }

    pub(crate) fn directory(mode: u32, owner: Owner) -> PathState {
        PathState::Directory { mode, uid: owner.uid, gid: owner.gid }
    }

    /// Looks; a file is read to know its content by its hash.
    pub(crate) fn at(host: &dyn HostRead, path: &Path) -> Result<PathState, Fault> {
        match host.stat(path)? {
            None => Ok(PathState::Absent),
            Some(meta) => PathState::of(host, path, &meta),
        }
    }

    pub(crate) fn of(host: &dyn HostRead, path: &Path, meta: &Meta) -> Result<PathState, Fault> {
        let owner = Owner { uid: meta.uid, gid: meta.gid };
        Ok(match meta.kind {
            FileKind::File => PathState::file(&host.read(path, FILE_BYTES_MAX)?, meta.mode, owner),
            FileKind::Directory => PathState::directory(meta.mode, owner),
            FileKind::Link => PathState::Link { target: host.read_link(path)?, uid: meta.uid, gid: meta.gid },
            FileKind::Special(what) => {
                PathState::Special { what, mode: meta.mode, uid: meta.uid, gid: meta.gid }
            }
        })
    }

    pub(crate) fn attributes(mode: u32, owner: Owner) -> PathState {
        PathState::Attributes { mode, uid: owner.uid, gid: owner.gid }
    }

    /// Looks without reading: a file is known by its attributes alone.
    pub(crate) fn at_attributes(host: &dyn HostRead, path: &Path) -> Result<PathState, Fault> {
        match host.stat(path)? {
            Some(meta) if meta.kind == FileKind::File => {
                Ok(PathState::attributes(meta.mode, Owner { uid: meta.uid, gid: meta.gid }))
            }
            Some(meta) => PathState::of(host, path, &meta),
            None => Ok(PathState::Absent),
        }
    }

    /// The same thing, wherever its content may be kept.
    pub(crate) fn same(&self, other: &PathState) -> bool {
        let bare = |path_state: &PathState| match path_state.clone() {
            PathState::File { sha256, mode, uid, gid, .. } => {
                PathState::File { sha256, mode, uid, gid, kept: None }
            }
            // Whoever listens there made it as it likes.
            PathState::Special { what: Special::Socket, .. } => {
                PathState::Special { what: Special::Socket, mode: 0, uid: 0, gid: 0 }
            }
            other => other,
        };
        bare(self) == bare(other)
    }

    pub(crate) fn owner(&self) -> Option<Owner> {
        match self {
            PathState::Attributes { uid, gid, .. } => Some(Owner { uid: *uid, gid: *gid }),
            PathState::File { uid, gid, .. }
            | PathState::Directory { uid, gid, .. }
            | PathState::Special { uid, gid, .. }
            | PathState::Link { uid, gid, .. } => Some(Owner { uid: *uid, gid: *gid }),
            PathState::Absent => None,
        }
    }

    pub(crate) fn mode(&self) -> Option<u32> {
        match self {
            PathState::File { mode, .. }
            | PathState::Directory { mode, .. }
            | PathState::Special { mode, .. }
            | PathState::Attributes { mode, .. } => Some(*mode),
            PathState::Absent | PathState::Link { .. } => None,
        }
    }

    /// What a revert leaves when it cannot put the access list back, or was killed before it did.
    pub(crate) fn without_list(&self, xattrs: &Xattrs) -> PathState {
        let mut closed = self.clone();
        if let PathState::File { mode, .. }
        | PathState::Directory { mode, .. }
        | PathState::Special { mode, .. }
        | PathState::Attributes { mode, .. } = &mut closed
        {
            *mode = xattrs.mode_without_list(*mode);
        }
        closed
    }

    /// Sort and content are the same, whoever owns it.
    pub(crate) fn same_core(&self, other: &PathState) -> bool {
        match (self, other) {
            (PathState::File { sha256: left, .. }, PathState::File { sha256: right, .. }) => left == right,
            (PathState::Directory { .. }, PathState::Directory { .. }) => true,
            (PathState::Attributes { .. }, PathState::Attributes { .. }) => true,
            (PathState::Link { target: left, .. }, PathState::Link { target: right, .. }) => left == right,
            (PathState::Special { what: left, .. }, PathState::Special { what: right, .. }) => left == right,
            _ => false,
        }
    }

    /// Sort and content are those of one of the two, and so is every attribute: a change that stopped
    /// half-way.
    pub(crate) fn is_between(&self, before: &PathState, after: &PathState) -> bool {
        // A directory cannot be replaced in one step: for a moment nothing is there.
        if *self == PathState::Absent && matches!(before, PathState::Directory { .. }) {
            return true;
        }
        let ends = [before, after];
        let mine = self.owner().zip(self.mode().or(Some(0)));
        ends.iter().any(|end| self.same_core(end))
            && mine.is_some_and(|(owner, mode)| {
                ends.iter().any(|end| end.mode().unwrap_or(mode) == mode)
                    && ends.iter().filter_map(|end| end.owner()).any(|end| end.uid == owner.uid)
                    && ends.iter().filter_map(|end| end.owner()).any(|end| end.gid == owner.gid)
            })
    }

    /// Puts the content of a file into the blob store, if it is still the content that was seen.
    pub(crate) fn keep(
        &mut self,
        path: &Path,
        host: &dyn HostRead,
        blobs: &dyn BlobStore,
    ) -> Result<(), Fault> {
        let PathState::File { sha256, kept, .. } = self else { return Ok(()) };
        let content = host.read(path, FILE_BYTES_MAX)?;
        if sha256_hex(&content) != *sha256 {
            return Err(Fault::changed_meanwhile(path));
        }
        *kept = Some(blobs.keep(&content)?);
        Ok(())
    }

    /// What a file that is put there expects; `None` where no file can be put.
    pub(crate) fn seen(&self) -> Option<Seen<'_>> {
        match self {
            PathState::Absent => Some(Seen::Nothing),
            PathState::File { sha256, .. } => Some(Seen::File(sha256)),
            PathState::Link { target, .. } => Some(Seen::Link(target)),
            PathState::Directory { .. } | PathState::Attributes { .. } | PathState::Special { .. } => None,
        }
    }

    /// A fault where something else stands there by now, or another content.
    pub(crate) fn still_at(&self, host: &dyn HostRead, path: &Path) -> Result<(), Fault> {
        let now = match self {
            PathState::Attributes { .. } => PathState::at_attributes(host, path)?,
            _ => PathState::at(host, path)?,
        };
        match now.same_core(self) || (now == PathState::Absent && *self == PathState::Absent) {
            true => Ok(()),
            false => Err(Fault::changed_meanwhile(path)),
        }
    }

    pub(crate) fn words(&self) -> String {
        match self {
            PathState::Absent => "nothing".to_string(),
            // Of what not everybody may read, not even the digest is shown: a short secret can be guessed from it.
            PathState::File { mode, uid, gid, .. } if mode & 0o004 == 0 => {
                format!("a file {mode:04o} {uid}:{gid} with private content")
            }
            PathState::File { sha256, mode, uid, gid, .. } => {
                format!("a file {mode:04o} {uid}:{gid} with content {}", &sha256[..sha256.len().min(12)])
            }
            PathState::Directory { mode, uid, gid } => format!("a directory {mode:04o} {uid}:{gid}"),
            PathState::Link { target, uid, gid } => format!("a link to {} {uid}:{gid}", target.display()),
            PathState::Attributes { mode, uid, gid } => format!("a file {mode:04o} {uid}:{gid}"),
            PathState::Special { what, mode, uid, gid } => {
                format!("{} {mode:04o} {uid}:{gid}", what.article())
            }
        }
    }

    /// Whether it can be put back once it is gone. A socket is made by whoever listens on it.
    pub(crate) fn restorable(&self) -> bool {
        !matches!(self, PathState::Special { what: Special::Socket, .. })
    }
}
