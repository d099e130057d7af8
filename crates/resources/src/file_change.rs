//! Putting one file in place, with the content, mode and owner that are wished for: what `file.managed` and all edits share.

mod candidate_check;

use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::FileDrift;
use crate::params::Mode;
use crate::path_change::{PathChange, set_attributes};
use crate::path_state::{PathState, changed_meanwhile};
use crate::{diff, ownership, tree};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::digest::sha256_hex;
use zester_host::overlay::Overlay;
use zester_host::{
    Act, BeforeImage, Body, Fault, FaultKind, FileKind, HostRead, HostWrite, Meta, NewFile, Owner, Xattrs,
};
use zester_model::limits::FILE_BYTES_MAX;
use zester_model::outcome::Details;
use zester_secret::Revealed;

/// What new files and directories get.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// What a new file gets that holds a secret.
const SECRET_MODE: u32 = 0o600;

/// The suffix of a backup; empty for none.
#[derive(Clone, Debug)]
pub struct Backup(String);

crate::params::from_text!(Backup, "true, false or a suffix", |text| match text {
    // `minion` is what Salt files say for "keep one here".
    "true" | "True" | "yes" | "on" | "minion" => Ok(Backup("~".to_string())),
    "false" | "False" | "no" | "off" => Ok(Backup(String::new())),
    suffix if !suffix.contains('/') => Ok(Backup(suffix.to_string())),
    other => Err(format!("`{other}` is not a suffix")),
});

/// What a file is to hold, given what it holds; `None`: nothing is said about that. Only an edit is told what it holds.
type WantedContent<'a> = dyn Fn(Option<&[u8]>) -> Result<Option<Revealed>, Fault> + 'a;

/// How a file is to be.
pub(crate) struct FileWish<'a> {
    pub(crate) path: &'a Path,
    pub(crate) content: &'a WantedContent<'a>,
    /// The content comes of what is there.
    pub(crate) edits: bool,
    pub(crate) mode: Option<Mode>,
    pub(crate) user: Option<&'a str>,
    pub(crate) group: Option<&'a str>,
    pub(crate) makedirs: bool,
    pub(crate) dir_mode: Option<Mode>,
    pub(crate) backup: Option<&'a Backup>,
    /// The content of an existing file may be replaced.
    pub(crate) replace: bool,
    /// A missing file is made.
    pub(crate) create: bool,
    pub(crate) show_changes: bool,
    /// What a link at the path leads to is meant, and not the link.
    pub(crate) follow_symlinks: bool,
}

impl<'a> FileWish<'a> {
    pub(crate) fn new(path: &'a Path, content: &'a WantedContent<'a>) -> FileWish<'a> {
        FileWish {
            path,
            content,
            edits: false,
            mode: None,
            user: None,
            group: None,
            makedirs: false,
            dir_mode: None,
            backup: None,
            replace: true,
            create: true,
            show_changes: true,
            follow_symlinks: true,
        }
    }
}

impl FileWish<'_> {
    pub(crate) fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        tree::real_path_now(cx.host, self.path, |path| self.inspect(cx, path))
    }

    fn inspect(&self, cx: &Checking<'_>, path: &Path) -> Result<Option<FileChange>, Fault> {
        let present = cx.host.stat(path)?;
        let is_link = present.as_ref().is_some_and(|meta| meta.kind == FileKind::Link);
        if is_link && self.follow_symlinks {
            let behind = tree::behind_links(cx.host, path)?;
            return tree::real_path_now(cx.host, &behind, |path| self.inspect(cx, path));
        }
        if is_link && !self.replace {
            return Ok(None);
        }
        let path = path.to_path_buf();
        refuse_other_sorts(&path, present.as_ref())?;
        if present.is_none() && !self.create {
            return Ok(None);
        }
        let old = match present {
            Some(_) if self.edits => Some(cx.host.read(&path, FILE_BYTES_MAX)?),
            _ => None,
        };
        let wanted = if present.is_some() && !self.replace { None } else { (self.content)(old.as_deref())? };
        if self.edits && wanted.is_none() && present.is_none() {
            return Ok(None);
        }
        let owner_now =
            present.as_ref().filter(|_| !is_link).map(|meta| Owner { uid: meta.uid, gid: meta.gid });
        let owner = ownership::wanted(cx.host, self.user, self.group, owner_now)?;
        match present.filter(|_| !is_link) {
            None => {
                let content = wanted.unwrap_or_else(|| Vec::new().into());
                self.new_file(cx, path, content, owner).map(Some)
            }
            Some(meta) => self.existing_file(cx, path, (old, wanted), &meta, owner),
        }
    }

    fn new_file(
        &self,
        cx: &Checking<'_>,
        path: PathBuf,
        content: Revealed,
        owner: Owner,
    ) -> Result<FileChange, Fault> {
        let unset = if content.holds_secret() { SECRET_MODE } else { FILE_MODE };
        let mode = self.mode.map_or(unset, |mode| mode.0);
        let dir_mode = self.dir_mode.map_or(DIRECTORY_MODE, |mode| mode.0);
        let made = created_dirs::missing_parents(cx.host, &path, self.makedirs, dir_mode, owner)?;
        ownership::may_put(cx.host, &path, owner)?;
        let mut diff = self.content_diff(&path, None, &content);
        let after = PathState::file(content.bytes(), mode, owner);
        // Nothing, or a link that is not to be followed.
        let before = PathState::at(cx.host, &path)?;
        if let PathState::Link { target, .. } = &before {
            diff.insert_str(0, &format!("replaces the link to {}\n", target.display()));
        }
        let step = PathChange::new(path, before, after).with_xattrs(cx.host)?;
        Ok(FileChange { step, backup: None, made, content: Some(content), diff })
    }

    fn existing_file(
        &self,
        cx: &Checking<'_>,
        path: PathBuf,
        (old, wanted): (Option<Vec<u8>>, Option<Revealed>),
        meta: &Meta,
        owner: Owner,
    ) -> Result<Option<FileChange>, Fault> {
        let mode = self.mode.map_or(meta.mode, |mode| mode.0);
        let owner_now = Owner { uid: meta.uid, gid: meta.gid };
        let attributes_differ = mode != meta.mode || owner != owner_now;
        if wanted.is_none() && !attributes_differ {
            return Ok(None);
        }
        let present = old.map_or_else(|| cx.host.read(&path, FILE_BYTES_MAX), Ok)?;
        let content = wanted.filter(|wanted| wanted.bytes() != present);
        if content.is_none() && !attributes_differ {
            return Ok(None);
        }
        let mut diff = String::new();
        if let Some(content) = &content {
            diff = self.content_diff(&path, Some(&present), content);
        }
        if mode != meta.mode {
            diff.push_str(&format!("mode: {:04o} → {mode:04o}\n", meta.mode));
        }
        if owner != owner_now {
            diff.push_str(&format!("owner: {}:{} → {}:{}\n", meta.uid, meta.gid, owner.uid, owner.gid));
        }
        match &content {
            Some(_) => ownership::may_put(cx.host, &path, owner)?,
            None if owner == owner_now => cx.host.may(&path, Act::Attributes)?,
            None => cx.host.may(&path, Act::Owner(owner))?,
        }
        let before = PathState::file(&present, meta.mode, owner_now);
        let after =
            PathState::file(content.as_ref().map_or(present.as_slice(), Revealed::bytes), mode, owner);
        let backup = content.as_ref().map_or(Ok(None), |_| self.backup_of(cx.host, &path, &before))?;
        let step = PathChange::new(path, before, after).with_xattrs(cx.host)?;
        diff.extend(step.unrestorable());
        Ok(Some(FileChange { step, backup, made: Vec::new(), content, diff }))
    }

    /// The copy that is to stand beside a file that is replaced, and what it takes the place of.
    fn backup_of(
        &self,
        host: &dyn HostRead,
        path: &Path,
        replaced: &PathState,
    ) -> Result<Option<PathChange>, Fault> {
        let Some(Backup(suffix)) = self.backup.filter(|backup| !backup.0.is_empty()) else {
            return Ok(None);
        };
        let mut name = path.as_os_str().to_os_string();
        name.push(suffix);
        let path = PathBuf::from(name);
        let before = PathState::at(host, &path)?;
        if matches!(before, PathState::Directory { .. } | PathState::Special { .. }) {
            let message = format!("{} is in the way of the backup: it is not a file", path.display());
            return Err(Fault::new(FaultKind::InTheWay, message));
        }
        if before.same(replaced) {
            return Ok(None);
        }
        if let Some(owner) = replaced.owner() {
            ownership::may_put(host, &path, owner)?;
        }
        PathChange::new(path, before, replaced.clone()).with_xattrs(host).map(Some)
    }

    fn content_diff(&self, path: &Path, before: Option<&[u8]>, after: &Revealed) -> String {
        if !self.show_changes {
            return "content differs (not shown)\n".to_string();
        }
        // What was there before may hold the secret of yesterday, which nobody here knows.
        if after.holds_secret() {
            return "content differs (holds a secret, not shown)\n".to_string();
        }
        let after = after.bytes();
        if before.is_none() && after.is_empty() {
            return "new empty file\n".to_string();
        }
        diff::of_content(path, before, after)
    }
}

/// What differs, and how it was.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct FileChange {
    #[serde(flatten)]
    step: PathChange,
    /// The copy that `backup` puts beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backup: Option<PathChange>,
    /// Parent directories that are made first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: CreatedDirs,
    /// What is to be written; `None` where only attributes change.
    #[serde(skip)]
    content: Option<Revealed>,
    #[serde(skip)]
    diff: String,
}

impl FileChange {
    /// Acts; the same for the machine and for a dry run. Adds the directories that it made on the way to those that the
    /// candidate needed.
    fn act(&self, host: &dyn HostWrite, made: &mut CreatedDirs) -> Result<(), Fault> {
        let PathChange { path, before, after, .. } = &self.step;
        let PathState::File { mode, uid, gid, .. } = after else { return Ok(()) };
        let owner = Owner { uid: *uid, gid: *gid };
        created_dirs::make_then(host, &self.made, made, || match &self.content {
            None => set_attributes(host, path, before, owner, Some(*mode)),
            Some(content) => {
                self.back_up(host)?;
                host.put_file(path, &NewFile { content: content.bytes(), mode: *mode, owner })
            }
        })
    }

    fn details(&self) -> Details {
        let mut details = Details::new();
        details.insert("path".into(), self.step.path.display().to_string().into());
        let created = matches!(self.step.before, PathState::Absent | PathState::Link { .. });
        details.insert("created".into(), created.into());
        if let Some(backup) = &self.backup {
            details.insert("backup".into(), backup.path.display().to_string().into());
        }
        if self.step.unrestorable().is_some() {
            details.insert("unrestorable".into(), vec![self.step.path.display().to_string()].into());
        }
        details
    }

    fn back_up(&self, host: &dyn HostWrite) -> Result<(), Fault> {
        let Some(PathChange { path, after: PathState::File { sha256, mode, uid, gid, .. }, .. }) =
            &self.backup
        else {
            return Ok(());
        };
        let content = host.read(&self.step.path, FILE_BYTES_MAX)?;
        if sha256_hex(&content) != *sha256 {
            return Err(changed_meanwhile(&self.step.path));
        }
        let new = NewFile { content: &content, mode: *mode, owner: Owner { uid: *uid, gid: *gid } };
        self.put_beside(host, path, &new)
    }

    /// Beside the file, what belongs to its place holds as well: whom its access list keeps out is not to read a copy.
    fn put_beside(&self, host: &dyn HostWrite, path: &Path, new: &NewFile<'_>) -> Result<(), Fault> {
        let xattrs = match self.step.before {
            PathState::File { .. } => self.step.xattrs.carried(),
            _ => Xattrs::default(),
        };
        if xattrs.is_empty() {
            return host.put_file(path, new);
        }
        let NewFile { content, mode, owner } = *new;
        let image = BeforeImage { body: Body::File(content), mode, owner, xattrs: &xattrs };
        let lost = host.restore(path, &image)?;
        if !xattrs.has_access_list() || xattrs.list_in_force(&lost) {
            return Ok(());
        }
        let place = self.step.path.display();
        let message = format!("{} cannot get the access list of {place}", path.display());
        Err(Fault::new(FaultKind::Unsupported, message).touched())
    }
}

fn refuse_other_sorts(path: &Path, present: Option<&Meta>) -> Result<(), Fault> {
    let place = path.display();
    let (what, hint) = match present.map(|meta| meta.kind) {
        None | Some(FileKind::File | FileKind::Link) => return Ok(()),
        Some(FileKind::Directory) => {
            ("a directory", "remove it in a `file.absent` state first, if it may go")
        }
        Some(FileKind::Special(what)) => (what.article(), "only files can be managed"),
    };
    Err(Fault::new(FaultKind::InTheWay, format!("{place} is {what}, not a file")).hint(hint))
}

impl FileDrift for FileChange {
    fn explain(&self, _done: bool) -> Explanation {
        Explanation { diff: self.diff.clone(), details: self.details() }
    }

    fn save_before_image(&mut self, look: &dyn HostRead, blobs: &dyn BlobStore) -> Result<(), Fault> {
        if self.content.is_none() {
            return Ok(());
        }
        for PathChange { path, before, .. } in [&mut self.step].into_iter().chain(&mut self.backup) {
            before.keep(path, look, blobs)?;
        }
        Ok(())
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<FileChange>, Fault> {
        let mut made = self.prove(cx).await?;
        let acted = self.act(cx.host, &mut made);
        acted.map_err(|fault| Fault { touched: fault.touched || !made.is_empty(), ..fault })?;
        Ok((made.len() != self.made.len()).then(|| FileChange { made, ..self.clone() }))
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay, &mut CreatedDirs::new())
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        candidate_check::sweep(cx.host, &self.step.at_current_path(cx)?.path)?;
        let mut lines: Vec<String> = self.step.revert(cx)?.into_iter().collect();
        if let Some(backup) = &self.backup {
            lines.extend(backup.revert(cx)?);
        }
        lines.append(&mut created_dirs::unmake_all(&self.step.path, &self.made, cx)?);
        Ok(lines)
    }
}

#[cfg(test)]
mod candidate_check_tests;
