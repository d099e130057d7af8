//! Putting one file in place, with the content, mode and owner that are wished for: what `file.managed` and all edits share.

mod candidate_check;

use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::{FileDrift, only_done};
use crate::params::Mode;
use crate::path_change::{PathChange, set_attributes};
use crate::path_state::PathState;
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
/// What not everybody may do with an existing file that is to hold a secret, unless the state says so. Its group stays: a service
/// may read it through that.
const OF_OTHERS: u32 = 0o007;
/// What everybody may do with a file that is no secret.
const READ_BY_ALL: u32 = 0o004;

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
    /// Where `check_cmd` gets the new content; beside the file where nothing is said.
    pub(crate) tmp_dir: Option<&'a Path>,
    /// What whoever reads the result should know.
    pub(crate) warning: Option<String>,
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
            tmp_dir: None,
            warning: None,
        }
    }
}

impl FileWish<'_> {
    pub(crate) fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let Some(found) = tree::real_path_now(cx.host, self.path, |path| self.inspect(cx, path))? else {
            return Ok(None);
        };
        let tmp_dir = self.tmp_dir.map(|directory| real_directory(cx.host, directory)).transpose()?;
        Ok(Some(FileChange { tmp_dir, warning: self.warning.clone(), ..found }))
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
        Ok(FileChange { backup: None, made, content: Some(content), diff, ..FileChange::of(step) })
    }

    fn existing_file(
        &self,
        cx: &Checking<'_>,
        path: PathBuf,
        (old, wanted): (Option<Vec<u8>>, Option<Revealed>),
        meta: &Meta,
        owner: Owner,
    ) -> Result<Option<FileChange>, Fault> {
        let owner_now = Owner { uid: meta.uid, gid: meta.gid };
        // Without a word about the content, nobody reads it: it may be of any size.
        let present = match (&wanted, old) {
            (None, _) => None,
            (Some(_), Some(old)) => Some(old),
            (Some(_), None) => Some(cx.host.read(&path, FILE_BYTES_MAX)?),
        };
        let held = wanted.as_ref().is_some_and(Revealed::holds_secret);
        let replaced = wanted.zip(present).filter(|(wanted, present)| wanted.bytes() != present);
        let (mode, because) = self.mode_of_existing(cx.host, &path, meta, held, replaced.is_some(), owner)?;
        if replaced.is_none() && mode == meta.mode && owner == owner_now {
            return Ok(None);
        }
        let mut diff = String::new();
        if let Some((content, present)) = &replaced {
            diff = self.content_diff(&path, Some((present, meta.mode)), content);
        }
        if mode != meta.mode {
            diff.push_str(&format!("mode: {:04o} → {mode:04o}{because}\n", meta.mode));
        }
        if owner != owner_now {
            diff.push_str(&format!("owner: {}:{} → {}:{}\n", meta.uid, meta.gid, owner.uid, owner.gid));
        }
        match &replaced {
            Some(_) => ownership::may_put(cx.host, &path, owner)?,
            None if owner == owner_now => cx.host.may(&path, Act::Attributes)?,
            None => cx.host.may(&path, Act::Owner(owner))?,
        }
        let Some((content, present)) = replaced else {
            let attributes = PathState::attributes;
            let step = PathChange::new(path, attributes(meta.mode, owner_now), attributes(mode, owner));
            let step = step.with_xattrs(cx.host)?;
            diff.extend(step.unrestorable());
            return Ok(Some(FileChange { diff, ..FileChange::of(step) }));
        };
        let before = PathState::file(&present, meta.mode, owner_now);
        let after = PathState::file(content.bytes(), mode, owner);
        let backup = self.backup_of(cx.host, &path, &before)?;
        let step = PathChange::new(path, before, after).with_names(meta).with_xattrs(cx.host)?;
        if owner.uid != owner_now.uid {
            let names: Vec<&str> = step.xattrs.of_owner().collect();
            if !names.is_empty() {
                diff.push_str(&format!("not carried over to the new owner: {}\n", names.join(", ")));
            }
        }
        diff.extend(step.unrestorable());
        Ok(Some(FileChange { backup, content: Some(content), diff, ..FileChange::of(step) }))
    }

    /// The permissions that an existing file gets, and why where nobody asked for them: a secret is for its owner alone, and
    /// what an access list kept from the group stays kept from it when the list goes with the former owner.
    fn mode_of_existing(
        &self,
        host: &dyn HostRead,
        path: &Path,
        meta: &Meta,
        holds_secret: bool,
        is_replaced: bool,
        owner: Owner,
    ) -> Result<(u32, &'static str), Fault> {
        if let Some(mode) = self.mode {
            return Ok((mode.0, ""));
        }
        if holds_secret {
            return Ok((meta.mode & !OF_OTHERS, " (it holds a secret, and no `mode` is set)"));
        }
        if is_replaced && owner.uid != meta.uid {
            let closed = host.xattrs(path)?.mode_without_list(meta.mode);
            return Ok((closed, " (its access list goes, and no `mode` is set)"));
        }
        Ok((meta.mode, ""))
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

    /// `before`: what is there, and its mode.
    fn content_diff(&self, path: &Path, before: Option<(&[u8], u32)>, after: &Revealed) -> String {
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
        match before {
            Some((before, mode)) if mode & READ_BY_ALL == 0 => {
                diff::of_private(path, before, after, self.edits)
            }
            before => diff::of_content(path, before.map(|(before, _)| before), after),
        }
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
    /// Where the candidate of `check_cmd` stands, if not beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tmp_dir: Option<PathBuf>,
    #[serde(skip)]
    warning: Option<String>,
}

impl FileChange {
    fn of(step: PathChange) -> FileChange {
        FileChange {
            step,
            backup: None,
            made: Vec::new(),
            content: None,
            diff: String::new(),
            tmp_dir: None,
            warning: None,
        }
    }

    /// The path that its candidates are named after.
    fn candidate_place(&self, path: &Path) -> PathBuf {
        match (&self.tmp_dir, path.file_name()) {
            (Some(directory), Some(name)) => directory.join(name),
            _ => path.to_path_buf(),
        }
    }

    /// Acts; the same for the machine and for a dry run. Adds the directories that it made on the way to those that the
    /// candidate needed.
    fn act(&self, host: &dyn HostWrite, made: &mut CreatedDirs) -> Result<(), Fault> {
        let PathChange { path, before, after, .. } = &self.step;
        let (Some(mode), Some(owner)) = (after.mode(), after.owner()) else { return Ok(()) };
        created_dirs::make_then(host, &self.made, made, || match &self.content {
            None => set_attributes(host, path, before, owner, Some(mode)),
            Some(content) => {
                self.back_up(host)?;
                let seen = before.seen().ok_or_else(|| Fault::changed_meanwhile(path))?;
                host.put_file_over(path, &NewFile { content: content.bytes(), mode, owner }, seen)
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
        if let Some(warning) = &self.warning {
            details.insert("warning".into(), warning.clone().into());
        }
        if let Some(links) = self.step.hard_links() {
            details.insert("hard_links".into(), links.into());
        }
        if self.step.unrestorable().is_some() {
            details.insert("unrestorable".into(), vec![self.step.path.display().to_string()].into());
        }
        details
    }

    fn back_up(&self, host: &dyn HostWrite) -> Result<(), Fault> {
        let Some(PathChange { path, before, after: PathState::File { sha256, mode, uid, gid, .. }, .. }) =
            &self.backup
        else {
            return Ok(());
        };
        let content = host.read(&self.step.path, FILE_BYTES_MAX)?;
        if sha256_hex(&content) != *sha256 {
            return Err(Fault::changed_meanwhile(&self.step.path));
        }
        before.still_at(host, path)?;
        let new = NewFile { content: &content, mode: *mode, owner: Owner { uid: *uid, gid: *gid } };
        self.put_beside(host, path, &new)
    }

    /// Beside the file, what belongs to its place holds as well: whom its access list keeps out is not to read a copy.
    fn put_beside(&self, host: &dyn HostWrite, path: &Path, new: &NewFile<'_>) -> Result<(), Fault> {
        let same_owner = self.step.before.owner().is_some_and(|owner| owner.uid == new.owner.uid);
        let xattrs = match self.step.before {
            PathState::File { .. } | PathState::Attributes { .. } => self.step.xattrs.carried(same_owner),
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

/// The directory itself, behind all links.
fn real_directory(host: &dyn HostRead, directory: &Path) -> Result<PathBuf, Fault> {
    let real = tree::behind_links(host, &host.real_path(directory)?)?;
    match host.stat(&real)?.map(|meta| meta.kind) {
        Some(FileKind::Directory) => host.real_path(&real),
        Some(_) => {
            let message = format!("{} is not a directory", directory.display());
            Err(Fault::new(FaultKind::InTheWay, message))
        }
        None => {
            let message = format!("the directory {} does not exist", directory.display());
            Err(Fault::new(FaultKind::NotFound, message))
        }
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
        let touched = !made.is_empty();
        let done = (made.len() != self.made.len()).then(|| FileChange { made, ..self.clone() });
        match acted {
            Ok(()) => Ok(done),
            Err(fault) => {
                let fault = Fault { touched: fault.touched || touched, ..fault };
                Err(done.iter().fold(fault, only_done))
            }
        }
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay, &mut CreatedDirs::new())
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let step = self.step.at_current_path(cx)?;
        candidate_check::sweep(cx.host, &self.candidate_place(&step.path))?;
        let line = match step.before {
            PathState::Attributes { .. } => step.revert_attributes(cx)?,
            _ => step.revert_here(cx)?,
        };
        let mut lines: Vec<String> = line.into_iter().collect();
        if let Some(backup) = &self.backup {
            lines.extend(backup.revert(cx)?);
        }
        lines.append(&mut created_dirs::unmake_all(&self.step.path, &self.made, cx)?);
        Ok(lines)
    }
}

#[cfg(test)]
mod candidate_check_tests;

#[cfg(test)]
mod tests;
