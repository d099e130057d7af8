//! `file.directory`: a directory with the mode and owner that the state says.

use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::{FileDrift, FileResource, only_done};
use crate::kept_paths::KeptPaths;
use crate::ownership;
use crate::params::{Absolute, Invalid, Mode, PathPattern, params};
use crate::path_change::{PathChange, at_current_top, remove_seen, rights_of, set_attributes, unrestored};
use crate::path_state::PathState;
use crate::path_text;
use crate::tree;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeSet;
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
    /// What holds for everything inside as well: `user`, `group`, `mode`; `ignore_files` and `ignore_dirs` leave those out.
    #[param(list, default)]
    recurse: Vec<Recurse>,
    /// How many directories deep `recurse` goes; 0 for what lies in the directory itself. Unset: all.
    max_depth: Option<usize>,
    /// With `recurse`, leaves the directory itself as it is.
    #[param(default)]
    children_only: bool,
    /// Removes what no state of the run decides about.
    #[param(default)]
    clean: bool,
    /// What `clean` leaves alone: a glob, or `E@` and a regular expression, of the path below the directory.
    #[param(list, default)]
    exclude_pat: Vec<PathPattern>,
    /// A file or a link in its place gives way.
    #[param(default)]
    force: bool,
    /// Taken as it comes: a link to a directory is a directory for whoever uses it.
    #[allow(dead_code, reason = "accepted as in Salt, and there is nothing to do")]
    allow_symlink: Option<bool>,
    /// Taken as it comes, like `allow_symlink`.
    #[allow(dead_code, reason = "accepted as in Salt, and there is nothing to do")]
    follow_symlinks: Option<bool>,
}

/// An attribute that is passed down.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Recurse {
    User,
    Group,
    Mode,
    IgnoreFiles,
    IgnoreDirs,
    // Salt tells less then; here a diff is cut where it becomes too long.
    Silent,
}

/// What was found to differ so far.
struct Found<'a> {
    top: &'a Path,
    steps: Vec<PathChange>,
    record: usize,
}

impl Found<'_> {
    fn push(&mut self, step: Option<PathChange>) -> Result<(), Fault> {
        self.record += step.as_ref().map_or(0, PathChange::record_bytes);
        self.steps.extend(step);
        let too_much = if self.steps.len() > STEPS_MAX {
            format!("more than {STEPS_MAX} paths differ")
        } else if self.record > UNDO_BYTES_MAX {
            format!("paths of more than {} MiB, names and attributes, differ", UNDO_BYTES_MAX >> 20)
        } else {
            return Ok(());
        };
        let message = format!("{too_much} inside {}", self.top.display());
        let hint = "change them with `cmd.run` first: `chown -R …`, `rm -r …`";
        Err(Fault::new(FaultKind::Unsupported, message).hint(hint))
    }
}

/// What differs, path by path: what changes, parents before children, then what goes.
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
    /// `clean` removes nothing: what lies inside is another state's.
    #[serde(skip)]
    filled: bool,
}

impl Directory {
    fn inspect(&self, cx: &Checking<'_>, path: &Path) -> Result<Option<Drift>, Fault> {
        let host = cx.host;
        let Some(meta) = host.stat(path)? else {
            return self.new_directory(host, path, PathState::Absent).map(Some);
        };
        if meta.kind != FileKind::Directory {
            if self.force && matches!(meta.kind, FileKind::File | FileKind::Link) {
                return self.new_directory(host, path, PathState::of(host, path, &meta)?).map(Some);
            }
            let message = format!("{} is not a directory", path.display());
            let hint = match meta.kind {
                FileKind::File | FileKind::Link => "`force: true` removes what is there",
                _ => "remove it in a `file.absent` state first, if it may go",
            };
            return Err(Fault::new(FaultKind::InTheWay, message).hint(hint));
        }
        let mut found = Found { top: path, steps: Vec::new(), record: 0 };
        if !self.children_only {
            found.push(self.step(host, path, &meta, [true; 3])?)?;
        }
        let of_others = match self.clean {
            true => Some(KeptPaths::below(cx, &self.path, path, false)?),
            false => None,
        };
        let filled = of_others.as_ref().is_some_and(KeptPaths::is_filled);
        let strays = match &of_others {
            Some(of_others) if !filled => self.strays(cx, path, of_others)?,
            _ => Vec::new(),
        };
        let mut mounted = Vec::new();
        if self.passes_down() {
            let passed =
                [Recurse::User, Recurse::Group, Recurse::Mode].map(|what| self.recurse.contains(&what));
            let goes: BTreeSet<&Path> = strays.iter().map(|(path, _)| path.as_path()).collect();
            let mut visit = |host: &dyn HostRead, inside: &Path, meta: &Meta| {
                let left_out = match meta.kind {
                    FileKind::Directory => self.recurse.contains(&Recurse::IgnoreDirs),
                    _ => self.recurse.contains(&Recurse::IgnoreFiles),
                };
                if left_out || goes.contains(inside) || self.is_too_deep(path, inside) {
                    return Ok(());
                }
                found.push(self.step(host, inside, meta, passed)?)
            };
            tree::walk(host, path, &mut visit, &mut |path| {
                mounted.push(path.to_path_buf());
                Ok(())
            })?;
        }
        for (stray, meta) in &strays {
            host.may(stray, Act::Put)?;
            let before = PathState::of(host, stray, meta)?;
            let change = PathChange::new(stray.clone(), before, PathState::Absent).with_xattrs(host)?;
            found.push(Some(change))?;
        }
        let (steps, top) = (found.steps, path.to_path_buf());
        Ok((!steps.is_empty()).then_some(Drift {
            steps,
            top,
            made: Vec::new(),
            joined: false,
            mounted,
            filled,
        }))
    }

    /// Whether anything holds for what is inside.
    fn passes_down(&self) -> bool {
        self.recurse.iter().any(|what| matches!(what, Recurse::User | Recurse::Group | Recurse::Mode))
    }

    fn is_too_deep(&self, top: &Path, inside: &Path) -> bool {
        let deep = inside.strip_prefix(top).map_or(0, |below| below.components().count());
        self.max_depth.is_some_and(|most| deep > most + 1)
    }

    /// What is inside and nobody's, parents before children. What is mounted inside stays, with all above it.
    fn strays(
        &self,
        cx: &Checking<'_>,
        top: &Path,
        of_others: &KeptPaths,
    ) -> Result<Vec<(PathBuf, Meta)>, Fault> {
        let mut strays: Vec<(PathBuf, Meta)> = Vec::new();
        let mut spared: Vec<PathBuf> = Vec::new();
        let mut visit = |_: &dyn HostRead, path: &Path, meta: &Meta| {
            // What lies in something that is left alone is left alone. A name that is no text fits no pattern.
            let excluded = match path.strip_prefix(top).ok().and_then(Path::to_str) {
                Some(name) => {
                    let parts = name.match_indices('/').map(|(at, _)| &name[..at]).chain([name]);
                    parts.into_iter().any(|part| self.exclude_pat.iter().any(|pattern| pattern.matches(part)))
                }
                None => false,
            };
            match excluded || of_others.keeps(path) {
                true => spared.push(path.to_path_buf()),
                false => strays.push((path.to_path_buf(), meta.clone())),
            }
            Ok(())
        };
        let mut mounted = Vec::new();
        tree::walk(cx.host, top, &mut visit, &mut |path| {
            mounted.push(path.to_path_buf());
            Ok(())
        })?;
        spared.append(&mut mounted);
        let above: BTreeSet<&Path> = spared.iter().flat_map(|path| path.ancestors()).collect();
        strays.retain(|(path, _)| !above.contains(path.as_path()));
        Ok(strays)
    }

    /// In the place of nothing, or of what gives way.
    fn new_directory(&self, host: &dyn HostRead, path: &Path, before: PathState) -> Result<Drift, Fault> {
        let path = path.to_path_buf();
        let owner = ownership::wanted(host, self.user.as_deref(), self.group.as_deref(), None)?;
        let mode = self.mode.map_or(DIRECTORY_MODE, |mode| mode.0);
        let made = created_dirs::missing_parents(host, &path, self.makedirs, DIRECTORY_MODE, owner)?;
        ownership::may_put(host, &path, owner)?;
        let top = path.clone();
        let step = PathChange::new(path, before, PathState::directory(mode, owner)).with_xattrs(host)?;
        Ok(Drift { steps: vec![step], top, made, joined: false, mounted: Vec::new(), filled: false })
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
        let (mut made, mut met) = (CreatedDirs::new(), None);
        let ended = created_dirs::make_then(host, &self.made, &mut made, || self.take_steps(host, &mut met));
        let joined = met.flatten();
        let done = (joined.is_some() || made.len() != self.made.len()).then(|| {
            // Only a new directory can be joined, and it is the only step then.
            let (steps, joined) = match joined {
                Some(step) => (vec![step], true),
                None => (self.steps.clone(), false),
            };
            Drift { steps, top: self.top.clone(), made, joined, mounted: Vec::new(), filled: self.filled }
        });
        match ended {
            Ok(()) => Ok(done),
            Err(fault) => Err(done.iter().fold(fault, only_done)),
        }
    }

    /// Notes the step of a directory that somebody else has made meanwhile; nothing in the place of one that it made.
    fn take_steps(&self, host: &dyn HostWrite, met: &mut Option<Option<PathChange>>) -> Result<(), Fault> {
        for PathChange { path, before, .. } in self.steps.iter().rev().filter(|step| goes(step)) {
            remove_seen(host, path, before)?;
        }
        for PathChange { path, before, after, .. } in self.steps.iter().filter(|step| !goes(step)) {
            let owner = after.owner().unwrap_or_else(|| host.me());
            match (before, after) {
                (PathState::File { .. } | PathState::Link { .. }, PathState::Directory { mode, .. }) => {
                    remove_seen(host, path, before)?;
                    host.make_directory(path, *mode, owner)?;
                }
                (PathState::Absent, PathState::Directory { mode, .. }) => {
                    let there = created_dirs::make_or_join(host, path, *mode, owner)?;
                    let now = there.map(|meta| PathState::of(host, path, &meta)).transpose()?;
                    let joined = now.map(|before| PathChange::new(path.clone(), before, after.clone()));
                    if let Some(joined) = met.get_or_insert(joined) {
                        set_attributes(host, path, &joined.before, owner, Some(*mode))?;
                    }
                }
                _ => set_attributes(host, path, before, owner, after.mode())?,
            }
        }
        Ok(())
    }

    fn revert_step(&self, step: &PathChange, cx: &Reverting<'_>) -> Result<Option<String>, Fault> {
        match cx.host.stat(&step.path)? {
            None if self.joined => Ok(None),
            _ if goes(step) => step.revert_here(cx),
            // It stopped between the two: what stood there was gone, and the directory not made yet.
            None if replaces(step) => {
                let mut gone = step.clone();
                gone.after = PathState::Absent;
                gone.revert_here(cx)
            }
            _ if replaces(step) && !is_empty_directory(cx.host, &step.path)? => {
                Err(not_empty(cx.host, &step.path)?)
            }
            _ if replaces(step) => step.revert_here(cx),
            _ if step.before != PathState::Absent => step.revert_attributes(cx),
            // Made by us, used by others since: what they put inside is not ours to remove.
            Some(meta) if meta.kind == FileKind::Directory && !cx.host.list(&step.path)?.is_empty() => {
                Err(not_empty(cx.host, &step.path)?)
            }
            _ => step.revert_here(cx),
        }
    }
}

impl FileResource for Directory {
    type Drift = Drift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        // A link to a directory is a directory for whoever uses it. One that leads nowhere, or where root does not follow,
        // is a link, and gives way as such.
        let path = match tree::behind_links(cx.host, &self.path) {
            Err(fault) if self.force && fault.kind == FaultKind::InTheWay => self.path.0.clone(),
            led => led?,
        };
        let leads_nowhere = path != *self.path.0 && cx.host.stat(&path)?.is_none();
        let path = match leads_nowhere {
            true if self.force => self.path.0.clone(),
            true => {
                let message = format!("{} is a link that leads nowhere", self.path.display());
                return Err(Fault::new(FaultKind::InTheWay, message).hint("`force: true` removes it"));
            }
            false => path,
        };
        tree::real_path_now(cx.host, &path, |path| self.inspect(cx, path))
    }

    fn claims(&self) -> Claims {
        let recurse = (!self.recurse.is_empty()).then_some((&self.recurse, self.file_mode));
        let owned = Claims::path(&self.path, "a directory")
            .with("mode", self.mode)
            .with("user", self.user.as_ref())
            .with("group", self.group.as_ref())
            .with("recurse", recurse)
            // Who does not clear it away leaves that to others.
            .with("clean", self.clean.then_some(true));
        let how: (Option<Mode>, _, _) = (None, &self.user, &self.group);
        Claims::of(owned)
            .follows(true)
            .clears(self.clean)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .makes_parents(self.makedirs, how)
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        if self.file_mode.is_some() && !self.recurse.contains(&Recurse::Mode) {
            let message = "it means nothing without `recurse: [mode]`".to_string();
            invalid.push(Invalid { parameter: "file_mode", message, hint: None });
        }
        if self.clean && self.max_depth.is_some() {
            let invalid_depth = Invalid::new("max_depth", "`clean` clears away at every depth");
            let hint = "name with `exclude_pat` what is to stay".to_string();
            invalid.push(Invalid { hint: Some(hint), ..invalid_depth });
        }
        if self.clean && self.path.parent().is_none() {
            invalid.push(Invalid::new("clean", "`/` is never emptied"));
        }
        invalid
    }
}

impl FileDrift for Drift {
    /// Parents made on the way are not told: which of several states makes a shared one is chance (S-58).
    fn explain(&self, _done: bool) -> Explanation {
        let mut diff = String::new();
        for step in self.steps.iter().take(SHOWN_MAX) {
            match goes(step) {
                true => diff.push_str(&format!("removed: {}\n", step.path.display())),
                false => diff.push_str(&step.words()),
            }
        }
        if self.steps.len() > SHOWN_MAX {
            diff.push_str(&format!("[... {} more ...]\n", self.steps.len() - SHOWN_MAX));
        }
        for mounted in self.mounted.iter().take(SHOWN_MAX) {
            diff.push_str(&format!("left alone: {} is a mount point\n", mounted.display()));
        }
        if self.filled {
            let top = self.top.display();
            diff.push_str(&format!(
                "left alone: what lies in {top} is another state's, and `clean` removes nothing\n"
            ));
        }
        let mut details = Details::new();
        let created = self.steps.first().is_some_and(|step| step.before == PathState::Absent);
        details.insert("created".into(), created.into());
        details.insert("paths_changed".into(), self.steps.len().into());
        let removed = self.steps.iter().filter(|step| goes(step)).count();
        if removed > 0 {
            details.insert("removed".into(), removed.into());
        }
        let lost: Vec<&PathChange> = self.steps.iter().filter(|step| step.unrestorable().is_some()).collect();
        diff.extend(lost.iter().take(SHOWN_MAX).filter_map(|step| step.unrestorable()));
        Explanation { diff, details }
    }

    fn save_before_image(&mut self, look: &dyn HostRead, blobs: &dyn BlobStore) -> Result<(), Fault> {
        let lost = self.steps.iter_mut().filter(|step| goes(step) || replaces(step));
        lost.into_iter().try_for_each(|PathChange { path, before, .. }| before.keep(path, look, blobs))
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
        let (went, stayed): (Vec<&PathChange>, Vec<&PathChange>) = steps.iter().partition(|step| goes(step));
        for step in stayed.into_iter().rev().chain(went) {
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

/// Whether what stood there goes.
fn goes(step: &PathChange) -> bool {
    step.after == PathState::Absent
}

/// Whether something of another sort made room for a directory.
fn replaces(step: &PathChange) -> bool {
    matches!(step.before, PathState::File { .. } | PathState::Link { .. })
        && matches!(step.after, PathState::Directory { .. })
}

fn is_empty_directory(host: &dyn HostRead, path: &Path) -> Result<bool, Fault> {
    match host.stat(path)? {
        Some(meta) if meta.kind == FileKind::Directory => Ok(host.list(path)?.is_empty()),
        _ => Ok(true),
    }
}

fn not_empty(host: &dyn HostRead, path: &Path) -> Result<Fault, Fault> {
    let message = format!("{} is not empty: {}", path.display(), some_of(&host.list(path)?));
    Ok(Fault::new(FaultKind::ChangedSince, message).hint("empty it first"))
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
    const TREE: &str = "d /t 0755\nd /t/sub 0700\nf /t/sub/file 0600 text\nf /t/file 0640 text\nl /t/link /nowhere\np /t/pipe 0600";
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
        case(json!({ "path": "/t", "clean": true }), Promise::Clean, "d /t 0755"),
        case(json!({ "path": "/t", "clean": true, "mode": "0750" }), Promise::Converges, TREE),
        case(
            json!({ "path": "/t", "clean": true, "exclude_pat": ["*.conf", "E@^keep/"] }),
            Promise::Converges,
            "d /t 0755\nf /t/a.conf 0644 a\nd /t/keep 0755\nf /t/keep/x 0644 x\nf /t/y 0600 y",
        ),
        case(
            json!({ "path": "/t", "clean": true, "user": "web", "recurse": ["user"], "exclude_pat": "sub" }),
            Promise::Converges,
            TREE,
        ),
        case(
            json!({ "path": "/t", "user": "web", "recurse": ["user", "ignore_dirs"], "max_depth": 0, "children_only": true }),
            Promise::Converges,
            TREE,
        ),
        case(json!({ "path": "/t", "force": true, "mode": "0700" }), Promise::Converges, "f /t 0640 text"),
        case(json!({ "path": "/t", "force": true }), Promise::Converges, "l /t nowhere"),
        case(json!({ "path": "/t", "force": true }), Promise::Fails, "p /t 0644"),
    ]
}
