//! Putting many things in place below one directory: what `file.recurse`, `file.copy` and `archive.extracted` share.

use crate::context::{Applying, BlobStore, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::diff;
use crate::file_resource::{FileDrift, only_done};
use crate::path_change::{PathChange, at_current_top, remove_seen, rights_of, set_attributes, unrestored};
use crate::path_state::PathState;
use crate::path_text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Act, Fault, FaultKind, FileKind, HostRead, HostWrite, Meta, NewFile, Owner};
use zester_model::limits::{FILE_BYTES_MAX, UNDO_BYTES_MAX};
use zester_model::outcome::Details;

/// Paths that one change may touch, so that its record fits into the journal.
const STEPS_MAX: usize = 50_000;
/// Lines of a diff that are shown path by path.
const SHOWN_MAX: usize = 100;
/// What new things get where nothing is said.
const FILE_MODE: u32 = 0o644;
const DIRECTORY_MODE: u32 = 0o755;
/// What everybody may do with a file that is no secret.
const READ_BY_ALL: u32 = 0o004;

/// What is to be at a path.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    File(Arc<[u8]>),
    Directory,
    Link(PathBuf),
}

/// One thing that is wanted. Without a mode, what is there keeps its own.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) path: PathBuf,
    pub(crate) body: Body,
    pub(crate) mode: Option<u32>,
    /// Given where the state names one; what is there keeps the other half.
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
}

/// How it is done.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Manner {
    /// The content of files that are there may be replaced.
    pub(crate) replace: bool,
    /// A file or link of another sort gives way.
    pub(crate) force: bool,
    pub(crate) show_changes: bool,
}

/// One path, and what is put there.
#[derive(Clone, Serialize, Deserialize)]
struct Step {
    #[serde(flatten)]
    change: PathChange,
    #[serde(skip)]
    content: Option<Arc<[u8]>>,
    #[serde(skip)]
    diff: String,
}

/// What differs, parents before children, what goes behind what comes.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TreeChange {
    #[serde(with = "path_text")]
    top: PathBuf,
    steps: Vec<Step>,
    /// Parent directories that are made first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: CreatedDirs,
    #[serde(skip)]
    details: Details,
}

/// Collects what differs.
pub(crate) struct Finder<'a> {
    host: &'a dyn HostRead,
    manner: Manner,
    steps: Vec<Step>,
    record: usize,
    top: PathBuf,
}

impl<'a> Finder<'a> {
    /// `top` is a real path.
    pub(crate) fn new(host: &'a dyn HostRead, top: &Path, manner: Manner) -> Finder<'a> {
        Finder { host, manner, steps: Vec::new(), record: 0, top: top.to_path_buf() }
    }

    fn push(&mut self, change: PathChange, content: Option<Arc<[u8]>>, diff: String) -> Result<(), Fault> {
        self.record += change.record_bytes();
        self.steps.push(Step { change, content, diff });
        if self.steps.len() <= STEPS_MAX && self.record <= UNDO_BYTES_MAX {
            return Ok(());
        }
        let message = format!("more than {STEPS_MAX} paths differ below {}", self.top.display());
        Err(Fault::new(FaultKind::Unsupported, message).hint("do it in several states"))
    }

    /// What differs at one path. Parents come before what is inside.
    pub(crate) fn want(&mut self, wanted: &Wanted) -> Result<(), Fault> {
        let host = self.host;
        let path = wanted.path.as_path();
        let present = host.stat(path)?;
        let owner =
            |now: Owner| Owner { uid: wanted.uid.unwrap_or(now.uid), gid: wanted.gid.unwrap_or(now.gid) };
        let same_sort = |meta: &Meta| {
            matches!(
                (&wanted.body, meta.kind),
                (Body::File(_), FileKind::File)
                    | (Body::Directory, FileKind::Directory)
                    | (Body::Link(_), FileKind::Link)
            )
        };
        match present {
            Some(meta) if same_sort(&meta) => {
                self.present(wanted, &meta, owner(Owner { uid: meta.uid, gid: meta.gid }))
            }
            Some(meta) if self.manner.force && matches!(meta.kind, FileKind::File | FileKind::Link) => {
                // Only what can be replaced in one step gives way.
                if matches!(wanted.body, Body::Directory) {
                    return Err(in_the_way(path, &meta, &wanted.body));
                }
                let before = PathState::of(host, path, &meta)?;
                self.put(wanted, before, owner(host.me()))
            }
            Some(meta) => Err(in_the_way(path, &meta, &wanted.body)),
            None => self.put(wanted, PathState::Absent, owner(host.me())),
        }
    }

    /// Something of the right sort is there.
    fn present(&mut self, wanted: &Wanted, meta: &Meta, owner: Owner) -> Result<(), Fault> {
        let (host, path) = (self.host, wanted.path.as_path());
        let now = Owner { uid: meta.uid, gid: meta.gid };
        let mode = wanted.mode.unwrap_or(meta.mode);
        match &wanted.body {
            Body::File(content) if self.manner.replace => {
                let present = host.read(path, FILE_BYTES_MAX)?;
                if *present != **content {
                    crate::ownership::may_put(host, path, owner)?;
                    let before = PathState::file(&present, meta.mode, now);
                    let after = PathState::file(content, mode, owner);
                    let diff = match self.manner.show_changes {
                        true if meta.mode & READ_BY_ALL == 0 => {
                            diff::of_private(path, &present, content, false)
                        }
                        true => diff::of_content(path, Some(&present), content),
                        false => format!("{}: content differs (not shown)\n", path.display()),
                    };
                    let change = PathChange::new(path.to_path_buf(), before, after);
                    let change = change.with_names(meta).with_xattrs(host)?;
                    return self.push(change, Some(Arc::clone(content)), diff);
                }
            }
            Body::Link(target) => {
                let present = host.read_link(path)?;
                if (present != *target && self.manner.replace) || owner != now {
                    host.may(path, Act::Put)?;
                    let link = |target: PathBuf, owner: Owner| PathState::Link {
                        target,
                        uid: owner.uid,
                        gid: owner.gid,
                    };
                    let (before, after) = (link(present, now), link(target.clone(), owner));
                    return self.push_words(PathChange::new(path.to_path_buf(), before, after));
                }
                return Ok(());
            }
            Body::File(_) | Body::Directory => {}
        }
        if owner == now && mode == meta.mode {
            return Ok(());
        }
        host.may(path, if owner == now { Act::Attributes } else { Act::Owner(owner) })?;
        let sort = |mode: u32, owner: Owner| match meta.kind {
            FileKind::Directory => PathState::directory(mode, owner),
            _ => PathState::attributes(mode, owner),
        };
        let mut change = PathChange::new(path.to_path_buf(), sort(meta.mode, now), sort(mode, owner));
        if owner != now {
            change.xattrs = rights_of(host, path, &change.before)?;
        }
        self.push_words(change)
    }

    fn push_words(&mut self, change: PathChange) -> Result<(), Fault> {
        let words = change.words();
        self.push(change, None, words)
    }

    /// Something new, or in the place of another.
    fn put(&mut self, wanted: &Wanted, before: PathState, owner: Owner) -> Result<(), Fault> {
        let path = wanted.path.as_path();
        crate::ownership::may_put(self.host, path, owner)?;
        let (after, content) = match &wanted.body {
            Body::File(content) => {
                let mode = wanted.mode.unwrap_or(FILE_MODE);
                (PathState::file(content, mode, owner), Some(Arc::clone(content)))
            }
            Body::Directory => (PathState::directory(wanted.mode.unwrap_or(DIRECTORY_MODE), owner), None),
            Body::Link(target) => {
                (PathState::Link { target: target.clone(), uid: owner.uid, gid: owner.gid }, None)
            }
        };
        let change = PathChange::new(path.to_path_buf(), before, after).with_xattrs(self.host)?;
        let words = change.words();
        self.push(change, content, words)
    }

    /// What stands at this path goes. Parents before what is inside; all of it behind everything that is wanted.
    pub(crate) fn remove(&mut self, path: &Path, meta: &Meta) -> Result<(), Fault> {
        self.host.may(path, Act::Put)?;
        let before = PathState::of(self.host, path, meta)?;
        let change = PathChange::new(path.to_path_buf(), before, PathState::Absent).with_xattrs(self.host)?;
        let words = format!("removed: {}\n", path.display());
        self.push(change, None, words)
    }

    /// Whether nothing differs so far.
    pub(crate) fn is_clean(&self) -> bool {
        self.steps.is_empty()
    }

    /// `None`: nothing differs.
    pub(crate) fn finish(self, made: CreatedDirs, details: Details) -> Option<TreeChange> {
        let Finder { steps, top, .. } = self;
        (!steps.is_empty()).then_some(TreeChange { top, steps, made, details })
    }
}

fn in_the_way(path: &Path, meta: &Meta, wanted: &Body) -> Fault {
    let is = match meta.kind {
        FileKind::File => "a file",
        FileKind::Directory => "a directory",
        FileKind::Link => "a link",
        FileKind::Special(what) => what.article(),
    };
    let wanted = match wanted {
        Body::File(_) => "a file",
        Body::Directory => "a directory",
        Body::Link(_) => "a link",
    };
    let message = format!("{} is {is}, and {wanted} is to be there", path.display());
    Fault::new(FaultKind::InTheWay, message).hint("remove it in a `file.absent` state first, if it may go")
}

impl TreeChange {
    /// Acts; what another state made meanwhile is its own to remove, and the record then says so.
    fn act(&self, host: &dyn HostWrite) -> Result<Option<TreeChange>, Fault> {
        let (mut made, mut met) = (CreatedDirs::new(), BTreeMap::new());
        let ended = created_dirs::make_then(host, &self.made, &mut made, || self.take_steps(host, &mut met));
        let joined: Vec<(usize, PathState)> =
            met.into_iter().filter_map(|(at, before)| Some((at, before?))).collect();
        let done = (!joined.is_empty() || made.len() != self.made.len()).then(|| {
            let mut steps = self.steps.clone();
            for (at, before) in joined {
                if let Some(step) = steps.get_mut(at) {
                    step.change.before = before;
                }
            }
            TreeChange { steps, made, top: self.top.clone(), details: Details::new() }
        });
        match ended {
            Ok(()) => Ok(done),
            Err(fault) => Err(done.iter().fold(fault, only_done)),
        }
    }

    /// Notes the steps whose directory was there by then, and how it was; nothing for those that it made.
    fn take_steps(
        &self,
        host: &dyn HostWrite,
        met: &mut BTreeMap<usize, Option<PathState>>,
    ) -> Result<(), Fault> {
        let goes = |step: &&Step| step.change.after == PathState::Absent;
        for Step { change: PathChange { path, before, .. }, .. } in self.steps.iter().rev().filter(goes) {
            remove_seen(host, path, before)?;
        }
        for (at, step) in self.steps.iter().enumerate() {
            let PathChange { path, before, after, .. } = &step.change;
            let owner = after.owner().unwrap_or_else(|| host.me());
            match (before, after) {
                (_, PathState::Absent) => {}
                (PathState::Absent, PathState::Directory { mode, .. }) => {
                    let there = created_dirs::make_or_join(host, path, *mode, owner)?;
                    let now = there.map(|meta| PathState::of(host, path, &meta)).transpose()?;
                    // At a second try, the directory that the first one made is ours.
                    let now = met.entry(at).or_insert(now);
                    if let Some(now) = now {
                        set_attributes(host, path, now, owner, Some(*mode))?;
                    }
                }
                (_, PathState::File { mode, .. }) => {
                    let content = step.content.as_deref().unwrap_or_default();
                    let seen = before.seen().ok_or_else(|| Fault::changed_meanwhile(path))?;
                    host.put_file_over(path, &NewFile { content, mode: *mode, owner }, seen)?;
                }
                (_, PathState::Link { target, .. }) => {
                    before.still_at(host, path)?;
                    host.put_link(path, target, owner)?;
                }
                _ => set_attributes(host, path, before, owner, after.mode())?,
            }
        }
        Ok(())
    }

    fn revert_step(step: &PathChange, cx: &Reverting<'_>) -> Result<Option<String>, Fault> {
        let is_attributes = |path_state: &PathState| {
            matches!(path_state, PathState::Attributes { .. } | PathState::Directory { .. })
        };
        match cx.host.stat(&step.path)? {
            _ if is_attributes(&step.before) && is_attributes(&step.after) => step.revert_attributes(cx),
            // Made by us, used by others since: what they put inside is not ours to remove.
            Some(meta)
                if step.before == PathState::Absent
                    && meta.kind == FileKind::Directory
                    && !cx.host.list(&step.path)?.is_empty() =>
            {
                let message = format!("{} is not empty any more", step.path.display());
                Err(Fault::new(FaultKind::ChangedSince, message).hint("empty it first"))
            }
            _ => step.revert_here(cx),
        }
    }
}

impl FileDrift for TreeChange {
    fn explain(&self, _done: bool) -> Explanation {
        let mut diff: String = self.steps.iter().take(SHOWN_MAX).map(|step| step.diff.as_str()).collect();
        if let more @ 1.. = self.steps.len().saturating_sub(SHOWN_MAX) {
            diff.push_str(&format!("[... {more} more ...]\n"));
        }
        let mut details = self.details.clone();
        let counted = |holds: fn(&PathChange) -> bool| -> usize {
            self.steps.iter().filter(|step| holds(&step.change)).count()
        };
        details.insert("path".into(), self.top.display().to_string().into());
        details.insert("created".into(), counted(|change| change.before == PathState::Absent).into());
        details.insert("removed".into(), counted(|change| change.after == PathState::Absent).into());
        details.insert("paths_changed".into(), self.steps.len().into());
        let lost: Vec<&Step> =
            self.steps.iter().filter(|step| step.change.unrestorable().is_some()).collect();
        diff.extend(lost.iter().take(SHOWN_MAX).filter_map(|step| step.change.unrestorable()));
        if !lost.is_empty() {
            let names: Vec<String> = lost.iter().map(|step| step.change.path.display().to_string()).collect();
            details.insert("unrestorable".into(), names.into());
        }
        Explanation { diff, details }
    }

    fn save_before_image(&mut self, look: &dyn HostRead, blobs: &dyn BlobStore) -> Result<(), Fault> {
        for Step { change: PathChange { path, before, .. }, .. } in &mut self.steps {
            before.keep(path, look, blobs)?;
        }
        Ok(())
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<TreeChange>, Fault> {
        self.act(cx.host)
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay).map(drop)
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let changes: Vec<PathChange> = self.steps.iter().map(|step| step.change.clone()).collect();
        let steps = at_current_top(&changes, &self.top, cx)?;
        let (went, came): (Vec<&PathChange>, Vec<&PathChange>) =
            steps.iter().partition(|change| change.after == PathState::Absent);
        let mut lines = Vec::new();
        let mut lost: Vec<(&Path, Fault)> = Vec::new();
        for step in came.into_iter().rev().chain(went) {
            match TreeChange::revert_step(step, cx) {
                Ok(line) => lines.extend(line),
                Err(fault) => lost.push((&step.path, fault)),
            }
        }
        lines.append(&mut created_dirs::unmake_all(&self.top, &self.made, cx)?);
        match unrestored(lost, &lines, self.steps.len()) {
            None => Ok(lines),
            Some(fault) => Err(fault),
        }
    }
}
