//! `file.managed`: a file with the content, mode and owner that the state says.

mod candidate_check;
mod content;

use crate::claims::Claims;
use crate::created_dirs::{self, CreatedDirs};
use crate::ownership;
use crate::params::{Absolute, Mode};
use crate::path_change::{PathChange, set_attributes};
use crate::path_state::{PathState, changed_meanwhile};
use crate::resource::{Applying, BlobStore, Change, Checking, Explanation, Invalid, Resource, Reverting};
use crate::{diff, shell_words, tree};
use schemars::JsonSchema;
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

/// A file with the given content, mode and owner.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Managed {
    /// Where the file is.
    path: Absolute,
    /// What it holds, byte for byte; written as `contents`, it ends with a line end. A list stands for lines, each with
    /// a line end.
    content: Option<String>,
    /// A file to take the content from: `salt://…` or `zester://…`, a path below the states directory, or an
    /// absolute path on this machine. Of a list, the first that exists.
    #[serde(default)]
    source: Vec<String>,
    /// A key of the settings that holds the content, `a:b:c`.
    contents_pillar: Option<String>,
    /// `jinja` renders the content as a template with facts, settings and `context`.
    template: Option<Template>,
    /// Variables for the template.
    #[serde(default)]
    context: Details,
    /// Variables for the template that `context` does not set.
    #[serde(default)]
    defaults: Details,
    /// Permissions, like `0644`. Unset: those of the existing file, `0644` for a new one, `0600` where it holds a secret.
    mode: Option<Mode>,
    /// Whom it belongs to: a name or a number. Unset: as it is.
    user: Option<String>,
    /// Which group it belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
    /// Creates missing parent directories.
    #[serde(default)]
    makedirs: bool,
    /// Permissions of directories that `makedirs` creates. Default: `0755`.
    dir_mode: Option<Mode>,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` leaves the content of an existing file alone.
    #[serde(default = "yes")]
    replace: bool,
    /// `false` does nothing where there is no such file yet.
    #[serde(default = "yes")]
    create: bool,
    /// `false` does not show what changes in the content: for secrets.
    #[serde(default = "yes")]
    show_changes: bool,
    /// `false` fails rather than writing an empty file.
    #[serde(default = "yes")]
    allow_empty: bool,
    /// `true` ends the content with a line end, if it lacks one; `false` leaves it out. Unset: as `contents` and
    /// `contents_pillar` have one and nothing else is touched.
    contents_newline: Option<bool>,
    /// It was written `contents`, which means what it means in Salt.
    #[serde(skip)]
    as_in_salt: bool,
    /// `false` replaces a link at `path` instead of managing the file it leads to.
    #[serde(default = "yes")]
    follow_symlinks: bool,
}

fn yes() -> bool {
    true
}

/// How content becomes text.
#[derive(Copy, Clone, Debug, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Template {
    Jinja,
}

/// The suffix of a backup; empty for none.
#[derive(Clone, Debug)]
struct Backup(String);

crate::params::from_text!(Backup, "true, false or a suffix", |text| match text {
    // `minion` is what Salt files say for "keep one here".
    "true" | "True" | "yes" | "on" | "minion" => Ok(Backup("~".to_string())),
    "false" | "False" | "no" | "off" => Ok(Backup(String::new())),
    suffix if !suffix.contains('/') => Ok(Backup(suffix.to_string())),
    other => Err(format!("`{other}` is not a suffix")),
});

/// What differs, and how it was.
#[derive(Clone, Serialize, Deserialize)]
pub struct Drift {
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

impl Managed {
    fn find_drift(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        tree::real_path_now(cx.host, &self.path, |path| self.inspect(cx, path))
    }

    fn inspect(&self, cx: &Checking<'_>, path: &Path) -> Result<Option<Drift>, Fault> {
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
        let wanted = if present.is_some() && !self.replace { None } else { self.wanted_content(cx)? };
        let owner_now =
            present.as_ref().filter(|_| !is_link).map(|meta| Owner { uid: meta.uid, gid: meta.gid });
        let owner = ownership::wanted(cx.host, self.user.as_deref(), self.group.as_deref(), owner_now)?;
        match present.filter(|_| !is_link) {
            None => {
                let content = wanted.unwrap_or_else(|| Vec::new().into());
                self.new_file(cx, path, content, owner).map(Some)
            }
            Some(meta) => self.existing_file(cx, path, wanted, &meta, owner),
        }
    }

    fn new_file(
        &self,
        cx: &Checking<'_>,
        path: PathBuf,
        content: Revealed,
        owner: Owner,
    ) -> Result<Drift, Fault> {
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
        Ok(Drift { step, backup: None, made, content: Some(content), diff })
    }

    fn existing_file(
        &self,
        cx: &Checking<'_>,
        path: PathBuf,
        wanted: Option<Revealed>,
        meta: &Meta,
        owner: Owner,
    ) -> Result<Option<Drift>, Fault> {
        let mode = self.mode.map_or(meta.mode, |mode| mode.0);
        let owner_now = Owner { uid: meta.uid, gid: meta.gid };
        let attributes_differ = mode != meta.mode || owner != owner_now;
        if wanted.is_none() && !attributes_differ {
            return Ok(None);
        }
        let present = cx.host.read(&path, FILE_BYTES_MAX)?;
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
        Ok(Some(Drift { step, backup, made: Vec::new(), content, diff }))
    }

    /// The copy that is to stand beside a file that is replaced, and what it takes the place of.
    fn backup_of(
        &self,
        host: &dyn HostRead,
        path: &Path,
        replaced: &PathState,
    ) -> Result<Option<PathChange>, Fault> {
        let Some(Backup(suffix)) = self.backup.as_ref().filter(|backup| !backup.0.is_empty()) else {
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

    /// Acts on the drift; the same for the machine and for a dry run.
    /// Adds the directories that it made on the way to those that the candidate needed.
    fn act(&self, drift: &Drift, host: &dyn HostWrite, made: &mut CreatedDirs) -> Result<(), Fault> {
        let PathChange { path, before, after, .. } = &drift.step;
        let PathState::File { mode, uid, gid, .. } = after else { return Ok(()) };
        let owner = Owner { uid: *uid, gid: *gid };
        created_dirs::make_then(host, &drift.made, made, || match &drift.content {
            None => set_attributes(host, path, before, owner, Some(*mode)),
            Some(content) => {
                back_up(drift, host)?;
                host.put_file(path, &NewFile { content: content.bytes(), mode: *mode, owner })
            }
        })
    }

    fn details(&self, drift: &Drift) -> Details {
        let mut details = Details::new();
        details.insert("path".into(), drift.step.path.display().to_string().into());
        let created = matches!(drift.step.before, PathState::Absent | PathState::Link { .. });
        details.insert("created".into(), created.into());
        if let Some(backup) = &drift.backup {
            details.insert("backup".into(), backup.path.display().to_string().into());
        }
        if drift.step.unrestorable().is_some() {
            details.insert("unrestorable".into(), vec![drift.step.path.display().to_string()].into());
        }
        details
    }
}

fn back_up(drift: &Drift, host: &dyn HostWrite) -> Result<(), Fault> {
    let Some(PathChange { path, after: PathState::File { sha256, mode, uid, gid, .. }, .. }) = &drift.backup
    else {
        return Ok(());
    };
    let content = host.read(&drift.step.path, FILE_BYTES_MAX)?;
    if sha256_hex(&content) != *sha256 {
        return Err(changed_meanwhile(&drift.step.path));
    }
    let new = NewFile { content: &content, mode: *mode, owner: Owner { uid: *uid, gid: *gid } };
    put_beside(host, path, &new, drift)
}

/// Beside the file, what belongs to its place holds as well: whom its access list keeps out is not to read a copy.
fn put_beside(host: &dyn HostWrite, path: &Path, new: &NewFile<'_>, drift: &Drift) -> Result<(), Fault> {
    let xattrs = match drift.step.before {
        PathState::File { .. } => drift.step.xattrs.carried(),
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
    let place = drift.step.path.display();
    let message = format!("{} cannot get the access list of {place}", path.display());
    Err(Fault::new(FaultKind::Unsupported, message).touched())
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

impl Resource for Managed {
    const KIND: &'static str = "file.managed";
    const PRIMARY: &'static str = "path";
    const DOC: &'static str = include_str!("file_managed/manual.md");
    const UNDOABLE: bool = true;
    const CHECK_CMD_FIRST: bool = true;
    const ALIASES: &'static [(&'static str, &'static [&'static str])] = &[
        ("content", &["contents", "text"]),
        ("user", &["owner"]),
        ("contents_pillar", &["contents_settings"]),
        ("show_changes", &["show_diff"]),
    ];
    const LISTS: &'static [&'static str] = &["source"];
    const LINES: &'static [&'static str] = &["content"];
    const SECRETS: &'static [&'static str] = &["content", "context", "defaults"];
    type Drift = Drift;

    fn spelled(&mut self, parameter: &str, word: &str) {
        self.as_in_salt |= parameter == "content" && word == "contents";
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        let given = [self.content.is_some(), !self.source.is_empty(), self.contents_pillar.is_some()];
        if given.iter().filter(|given| **given).count() > 1 {
            let parameter = if self.source.is_empty() { "contents_pillar" } else { "source" };
            let message =
                "only one of `content`, `source` and `contents_pillar` can give the content".to_string();
            invalid.push(Invalid { parameter, message, hint: None });
        }
        if self.path.parent().is_none() {
            invalid.push(Invalid { parameter: "path", message: "`/` is not a file".into(), hint: None });
        }
        for source in &self.source {
            if let Some(message) = crate::params::outside_states(source) {
                invalid.push(Invalid { parameter: "source", message, hint: None });
            }
            let remote =
                ["http://", "https://", "ftp://", "s3://"].iter().any(|scheme| source.starts_with(scheme));
            if remote {
                let hint = format!(
                    "fetch it with `cmd.run: curl -fsSLo FILE {}` and `creates`",
                    shell_words::quoted(source)
                );
                let message = format!("`{source}` cannot be a source");
                invalid.push(Invalid { parameter: "source", message, hint: Some(hint) });
            }
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let content = self.intended_content();
        let owned = Claims::path(&self.path, "a file")
            .with("replace", content.as_ref().map(|_| self.replace))
            .with("content", content)
            .with("follow_symlinks", Some(self.follow_symlinks))
            .with("mode", self.mode)
            .with("user", self.user.as_ref())
            .with("group", self.group.as_ref());
        let sources = self.source.iter().map(|source| source.strip_prefix("file://").unwrap_or(source));
        Claims::of(owned)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .needs(sources.map(Path::new))
            .makes_parents(self.makedirs, (self.dir_mode, &self.user, &self.group))
    }

    async fn check(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        self.find_drift(cx)
    }

    fn explain(&self, drift: &Drift, _done: bool) -> Explanation {
        Explanation { diff: drift.diff.clone(), details: self.details(drift) }
    }

    fn save_before_image(
        &self,
        drift: &mut Drift,
        host: &dyn HostRead,
        blobs: &dyn BlobStore,
    ) -> Result<(), Fault> {
        if drift.content.is_none() {
            return Ok(());
        }
        for PathChange { path, before, .. } in [&mut drift.step].into_iter().chain(&mut drift.backup) {
            before.keep(path, host, blobs)?;
        }
        Ok(())
    }

    async fn apply(&self, drift: &Drift, cx: &Applying<'_>) -> Result<Change, Fault> {
        let mut made = self.prove(drift, cx).await?;
        let acted = self.act(drift, cx.host, &mut made);
        acted.map_err(|fault| Fault { touched: fault.touched || !made.is_empty(), ..fault })?;
        let undo = created_dirs::undo_of(&drift.made, made, |made| Drift { made, ..drift.clone() });
        Ok(Change { changed: true, diff: drift.diff.clone(), details: self.details(drift), undo })
    }

    fn predict(&self, drift: &Drift, overlay: &Overlay) -> Result<(), Fault> {
        self.act(drift, overlay, &mut CreatedDirs::new())
    }

    async fn revert(undo: &Drift, cx: &Reverting<'_>) -> Result<Change, Fault> {
        candidate_check::sweep(cx.host, &undo.step.at_current_path(cx)?.path)?;
        let mut lines: Vec<String> = undo.step.revert(cx)?.into_iter().collect();
        if let Some(backup) = &undo.backup {
            lines.extend(backup.revert(cx)?);
        }
        lines.append(&mut created_dirs::unmake_all(&undo.step.path, &undo.made, cx)?);
        Ok(Change { changed: !lines.is_empty(), diff: lines.join("\n"), ..Change::default() })
    }
}

#[cfg(test)]
mod candidate_check_tests;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::{Bench, cases};
