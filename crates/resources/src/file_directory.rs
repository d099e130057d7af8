//! `file.directory`: a directory with the mode and owner that the state says.

use crate::claims::Claims;
use crate::context::{Applying, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::{FileDrift, FileResource};
use crate::ownership;
use crate::params::{Absolute, Invalid, Mode, params};
use crate::path_change::{PathChange, at_current_top, rights_of, set_attributes, unrestored};
use crate::path_state::PathState;
use crate::path_text;
use crate::tree;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use zester_host::overlay::Overlay;
use zester_host::{Act, Fault, FaultKind, FileKind, HostRead, HostWrite, Meta, Owner};
use zester_model::limits::UNDO_BYTES_MAX;
use zester_model::outcome::Details;

const DIRECTORY_MODE: u32 = 0o755;
/// Names that are told of what stands in the way of a revert.
const NAMED_MAX: usize = 3;
/// Paths that one record of the journal can hold.
const STEPS_MAX: usize = 50_000;
/// Lines of a diff; a tree can have a million entries.
const SHOWN_MAX: usize = 100;

/// A directory.
#[params(kind = "file.directory", primary = "path", manual = "file_directory.md")]
pub struct Directory {
    /// Where the directory is.
    path: Absolute,
    /// Permissions, like `0755`. Unset: those of the existing directory, `0755` for a new one.
    #[param(alias = "dir_mode")]
    mode: Option<Mode>,
    /// Permissions of the files inside, with `recurse: [mode]`.
    file_mode: Option<Mode>,
    /// Whom it belongs to: a name or a number. Unset: as it is.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group it belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// What holds for everything inside as well: `user`, `group`, `mode`.
    #[param(list, default)]
    recurse: Vec<Recurse>,
}

/// An attribute that is passed down.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Recurse {
    User,
    Group,
    Mode,
}

/// What differs, path by path.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Drift {
    steps: Vec<PathChange>,
    /// Where all of them lie; nothing in the records of earlier versions.
    #[serde(default, with = "path_text", skip_serializing_if = "is_empty")]
    top: PathBuf,
    /// Parent directories that are made first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: CreatedDirs,
    /// Somebody else made the directory while we were about to; it is theirs to remove.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    joined: bool,
    /// Mount points inside, where `recurse` ends.
    #[serde(skip)]
    mounted: Vec<PathBuf>,
}

impl Directory {
    fn inspect(&self, host: &dyn HostRead, path: &Path) -> Result<Option<Drift>, Fault> {
        let Some(meta) = host.stat(path)? else {
            return self.new_directory(host, path).map(Some);
        };
        if meta.kind != FileKind::Directory {
            let message = format!("{} is not a directory", path.display());
            let hint = "remove it in a `file.absent` state first, if it may go";
            return Err(Fault::new(FaultKind::InTheWay, message).hint(hint));
        }
        let mut steps: Vec<PathChange> = Vec::new();
        let mut mounted = Vec::new();
        let mut record = 0_usize;
        steps.extend(self.step(host, path, &meta, [true; 3])?);
        if !self.recurse.is_empty() {
            let passed =
                [Recurse::User, Recurse::Group, Recurse::Mode].map(|what| self.recurse.contains(&what));
            let mut visit = |host: &dyn HostRead, inside: &Path, meta: &Meta| {
                let step = self.step(host, inside, meta, passed)?;
                record += step.as_ref().map_or(0, PathChange::record_bytes);
                steps.extend(step);
                let too_much = if steps.len() > STEPS_MAX {
                    format!("more than {STEPS_MAX} paths differ")
                } else if record > UNDO_BYTES_MAX {
                    format!("paths of more than {} MiB, names and attributes, differ", UNDO_BYTES_MAX >> 20)
                } else {
                    return Ok(());
                };
                let message = format!("{too_much} inside {}", self.path.display());
                let hint = "change them with `cmd.run: chown -R …` first";
                Err(Fault::new(FaultKind::Unsupported, message).hint(hint))
            };
            tree::walk(host, path, &mut visit, &mut |path| {
                mounted.push(path.to_path_buf());
                Ok(())
            })?;
        }
        let top = path.to_path_buf();
        Ok((!steps.is_empty()).then_some(Drift { steps, top, made: Vec::new(), joined: false, mounted }))
    }

    fn new_directory(&self, host: &dyn HostRead, path: &Path) -> Result<Drift, Fault> {
        let path = path.to_path_buf();
        let owner = ownership::wanted(host, self.user.as_deref(), self.group.as_deref(), None)?;
        let mode = self.mode.map_or(DIRECTORY_MODE, |mode| mode.0);
        let made = created_dirs::missing_parents(host, &path, self.makedirs, DIRECTORY_MODE, owner)?;
        ownership::may_put(host, &path, owner)?;
        let top = path.clone();
        let step = PathChange::new(path, PathState::Absent, PathState::directory(mode, owner));
        Ok(Drift { steps: vec![step], top, made, joined: false, mounted: Vec::new() })
    }

    /// What differs at one path, as far as user, group and mode are managed there.
    fn step(
        &self,
        host: &dyn HostRead,
        path: &Path,
        meta: &Meta,
        managed: [bool; 3],
    ) -> Result<Option<PathChange>, Fault> {
        let [user, group, mode] = managed;
        let present = Owner { uid: meta.uid, gid: meta.gid };
        let user = self.user.as_deref().filter(|_| user);
        let group = self.group.as_deref().filter(|_| group);
        let owner = ownership::wanted(host, user, group, Some(present))?;
        let wanted = match meta.kind {
            FileKind::Directory => self.mode,
            FileKind::File => self.file_mode,
            FileKind::Link | FileKind::Special(_) => None,
        };
        let wanted = wanted.filter(|_| mode).map_or(meta.mode, |mode| mode.0);
        if matches!(meta.kind, FileKind::Special(_)) || (owner == present && wanted == meta.mode) {
            return Ok(None);
        }
        host.may(path, if owner == present { Act::Attributes } else { Act::Owner(owner) })?;
        // The content does not change and may be large: it is left out of the record on both sides.
        let path_state = |owner: Owner, mode: u32| -> Result<PathState, Fault> {
            Ok(match meta.kind {
                FileKind::Directory => PathState::directory(mode, owner),
                FileKind::Link => {
                    PathState::Link { target: host.read_link(path)?, uid: owner.uid, gid: owner.gid }
                }
                FileKind::File | FileKind::Special(_) => PathState::attributes(mode, owner),
            })
        };
        let (before, after) = (path_state(present, meta.mode)?, path_state(owner, wanted)?);
        let mut change = PathChange::new(path.to_path_buf(), before, after);
        if owner != present {
            // A kill between the new owner and the return of the capabilities must not lose them.
            change.xattrs = rights_of(host, path, &change.before)?;
        }
        Ok(Some(change))
    }
}

impl Drift {
    /// Acts. Where another state made a directory of ours meanwhile, the record of what was really done comes
    /// back: what it made is its own to remove.
    fn act(&self, host: &dyn HostWrite) -> Result<Option<Drift>, Fault> {
        let mut made = CreatedDirs::new();
        let joined = created_dirs::make_then(host, &self.made, &mut made, || self.take_steps(host))?;
        if joined.is_none() && made.len() == self.made.len() {
            return Ok(None);
        }
        // Only a new directory can be joined, and it is the only step then.
        let (steps, joined) = match joined {
            Some(step) => (vec![step], true),
            None => (self.steps.clone(), false),
        };
        Ok(Some(Drift { steps, top: self.top.clone(), made, joined, mounted: Vec::new() }))
    }

    /// Returns the step of a directory that somebody else has made meanwhile.
    fn take_steps(&self, host: &dyn HostWrite) -> Result<Option<PathChange>, Fault> {
        let mut joined = None;
        for PathChange { path, before, after, .. } in &self.steps {
            let owner = after.owner().unwrap_or_else(|| host.me());
            match (before, after) {
                (PathState::Absent, PathState::Directory { mode, .. }) => {
                    if let Some(meta) = created_dirs::make_or_join(host, path, *mode, owner)? {
                        let before = PathState::of(host, path, &meta)?;
                        set_attributes(host, path, &before, owner, Some(*mode))?;
                        joined = Some(PathChange::new(path.clone(), before, after.clone()));
                    }
                }
                _ => set_attributes(host, path, before, owner, after.mode())?,
            }
        }
        Ok(joined)
    }

    fn revert_step(&self, step: &PathChange, cx: &Reverting<'_>) -> Result<Option<String>, Fault> {
        match cx.host.stat(&step.path)? {
            None if self.joined => Ok(None),
            _ if step.before != PathState::Absent => step.revert_attributes(cx),
            // Made by us, used by others since: what they put inside is not ours to remove.
            Some(meta) if meta.kind == FileKind::Directory && !cx.host.list(&step.path)?.is_empty() => {
                let inside = some_of(&cx.host.list(&step.path)?);
                let message = format!("{} is not empty: {inside}", step.path.display());
                Err(Fault::new(FaultKind::ChangedSince, message).hint("empty it first"))
            }
            _ => step.revert_here(cx),
        }
    }
}

impl FileResource for Directory {
    type Drift = Drift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        // A link to a directory is a directory for whoever uses it.
        let path = tree::behind_links(cx.host, &self.path)?;
        if path != *self.path.0 && cx.host.stat(&path)?.is_none() {
            let message = format!("{} is a link that leads nowhere", self.path.display());
            return Err(Fault::new(FaultKind::InTheWay, message));
        }
        tree::real_path_now(cx.host, &path, |path| self.inspect(cx.host, path))
    }

    fn claims(&self) -> Claims {
        let recurse = (!self.recurse.is_empty()).then_some((&self.recurse, self.file_mode));
        let owned = Claims::path(&self.path, "a directory")
            .with("mode", self.mode)
            .with("user", self.user.as_ref())
            .with("group", self.group.as_ref())
            .with("recurse", recurse);
        let how: (Option<Mode>, _, _) = (None, &self.user, &self.group);
        Claims::of(owned)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .makes_parents(self.makedirs, how)
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        if self.file_mode.is_some() && !self.recurse.contains(&Recurse::Mode) {
            let message = "it means nothing without `recurse: [mode]`".to_string();
            invalid.push(Invalid { parameter: "file_mode", message, hint: None });
        }
        invalid
    }
}

impl FileDrift for Drift {
    /// Parents made on the way are not told: which of several states makes a shared one is chance (S-58).
    fn explain(&self, _done: bool) -> Explanation {
        let mut diff = String::new();
        for step in self.steps.iter().take(SHOWN_MAX) {
            diff.push_str(&step.words());
        }
        if self.steps.len() > SHOWN_MAX {
            diff.push_str(&format!("[... {} more ...]\n", self.steps.len() - SHOWN_MAX));
        }
        for mounted in self.mounted.iter().take(SHOWN_MAX) {
            diff.push_str(&format!("left alone: {} is a mount point\n", mounted.display()));
        }
        let mut details = Details::new();
        let created = self.steps.first().is_some_and(|step| step.before == PathState::Absent);
        details.insert("created".into(), created.into());
        details.insert("paths_changed".into(), self.steps.len().into());
        Explanation { diff, details }
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<Drift>, Fault> {
        self.act(cx.host)
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay).map(drop)
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let steps = match is_empty(&self.top) {
            true => Cow::Borrowed(self.steps.as_slice()),
            false => at_current_top(&self.steps, &self.top, cx)?,
        };
        let mut lines = Vec::new();
        let mut lost: Vec<(&Path, Fault)> = Vec::new();
        for step in steps.iter().rev() {
            match self.revert_step(step, cx) {
                Ok(line) => lines.extend(line),
                Err(fault) => lost.push((&step.path, fault)),
            }
        }
        if let Some(top) = self.steps.first() {
            lines.append(&mut created_dirs::unmake_all(&top.path, &self.made, cx)?);
        }
        match unrestored(lost, &lines, self.steps.len()) {
            None => Ok(lines),
            Some(fault) => Err(fault),
        }
    }
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// The first few names, and how many more.
fn some_of(names: &[std::ffi::OsString]) -> String {
    let shown: Vec<_> = names.iter().take(NAMED_MAX).map(|name| name.to_string_lossy()).collect();
    match names.len().saturating_sub(NAMED_MAX) {
        0 => format!("it holds {}", shown.join(", ")),
        more => format!("it holds {} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("file.directory", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "path": "/new" }), Promise::Converges, ""),
        case(
            json!({ "path": "/a/b/c", "makedirs": true, "mode": "0700", "user": "web" }),
            Promise::Converges,
            "",
        ),
        case(json!({ "path": "/a/b/c" }), Promise::Fails, ""),
        case(json!({ "path": "/there" }), Promise::Clean, "d /there 0755"),
        case(
            json!({ "path": "/there", "mode": "0700", "user": "web", "group": "web" }),
            Promise::Converges,
            "d /there 0755",
        ),
        case(json!({ "path": "/file" }), Promise::Fails, "f /file 0644 text"),
        case(json!({ "path": "/link" }), Promise::Fails, "l /link nowhere"),
        case(
            json!({ "path": "/link/a/b", "makedirs": true, "group": "web" }),
            Promise::Converges,
            "d /there 0755\nl /link there",
        ),
        case(json!({ "path": "/link", "mode": "0711" }), Promise::Converges, "d /there 0755\nl /link there"),
        case(
            json!({ "path": "/t", "mode": "0750", "file_mode": "0640", "user": "web", "recurse": ["user", "mode"] }),
            Promise::Converges,
            "d /t 0755\nd /t/sub 0700\nf /t/sub/file 0600 text\nl /t/link /t/sub",
        ),
        case(
            json!({ "path": "/t", "user": "web", "recurse": ["user"] }),
            Promise::Converges,
            "d /t 0755\nf /t/program 0755 text\nx /t/program security.capability rights",
        ),
    ]
}
