//! One change of one path, as an undo record holds it, and how it is undone.
//!
//! It says what was there before and what was left there. That is enough to tell four things apart: the change never
//! happened (killed before it), it happened, it stopped half-way (owner set, mode not yet), or somebody else has been
//! here since.

use crate::context::Reverting;
use crate::path_state::PathState;
use crate::path_text;
use crate::tree;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use zester_host::{
    Act, BeforeImage, Body, Fault, FaultKind, HostRead, HostWrite, Lost, Meta, Owner, Special, Xattrs,
};
use zester_model::outcome::Details;

/// Paths that one sentence names.
const NAMED_MAX: usize = 5;

/// The name of a kept content in its own field, and its two hashes in the list of objects.
const KEPT_BYTES: usize = r#","kept":"""#.len() + 64 + 2 * (r#""","#.len() + 64);

/// Bits of a mode that say what the owner or the group may do to others, or the group alone.
const OF_ANOTHER: u32 = 0o6070;

/// What a journal record knows of one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PathChange {
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    pub(crate) before: PathState,
    pub(crate) after: PathState,
    /// Extended attributes of what stood there, where it goes or gets other content.
    #[serde(default, skip_serializing_if = "Xattrs::is_empty")]
    pub(crate) xattrs: Xattrs,
    /// Whom it belonged to is nobody to whom we may give anything.
    #[serde(skip)]
    strange: bool,
    /// Other names of the file that goes.
    #[serde(skip)]
    other_names: u64,
}

impl PathChange {
    pub(crate) fn new(path: PathBuf, before: PathState, after: PathState) -> PathChange {
        PathChange { path, before, after, xattrs: Xattrs::default(), strange: false, other_names: 0 }
    }

    /// A file that gets other content is another file: its other names do not come along.
    pub(crate) fn with_names(mut self, replaced: &Meta) -> PathChange {
        self.other_names = replaced.links.saturating_sub(1);
        self
    }

    /// How many names the file has that goes.
    pub(crate) fn hard_links(&self) -> Option<u64> {
        (self.other_names > 0).then_some(self.other_names + 1)
    }

    /// Looks for extended attributes too, and whether its owner could be given back.
    pub(crate) fn with_xattrs(mut self, host: &dyn HostRead) -> Result<PathChange, Fault> {
        if self.before != PathState::Absent && self.before.restorable() {
            self.xattrs = host.xattrs(&self.path)?;
            self.strange = self.strange_owner(host).is_some();
        }
        Ok(self)
    }

    /// What it takes in the journal, once its content is kept: the record names each object once more.
    pub(crate) fn record_bytes(&self) -> usize {
        let json = serde_json::to_vec(self).map_or(0, |json| json.len());
        let objects = match self.before {
            PathState::File { .. } => KEPT_BYTES,
            _ => 0,
        };
        json + objects + ",".len()
    }

    /// What no revert can bring back, in a sentence.
    pub(crate) fn unrestorable(&self) -> Option<String> {
        let path = self.path.display();
        if !self.before.restorable() {
            return Some(format!("no revert can bring back {path}: it is a socket\n"));
        }
        if let Some(owner) = self.before.owner().filter(|_| self.strange) {
            let Owner { uid, gid } = owner;
            return Some(format!("no revert of ours can bring back the owner {uid}:{gid} of {path}\n"));
        }
        if let Some(links) = self.hard_links() {
            let go_on = if links == 2 { "the other goes on" } else { "the others go on" };
            return Some(format!(
                "{path} has {links} names: {go_on} with the old content, and no revert joins them again\n"
            ));
        }
        let names: Vec<&str> = self.xattrs.unkept().collect();
        (!names.is_empty())
            .then(|| format!("no revert can bring back {} of {path}: it cannot be kept\n", names.join(", ")))
    }

    /// The former owner of something that goes, if we cannot give anything to them.
    fn strange_owner(&self, host: &dyn HostRead) -> Option<Owner> {
        let owner = self.before.owner()?;
        let goes = !self.before.same_core(&self.after);
        (goes && owner != host.me() && host.may(&self.path, Act::New(owner)).is_err()).then_some(owner)
    }

    /// Brings back what stood there. `Ok(None)`: it does already. Touches nothing that somebody changed
    /// since, but by force.
    pub(crate) fn revert(&self, cx: &Reverting<'_>) -> Result<Option<String>, Fault> {
        self.at_current_path(cx)?.revert_here(cx)
    }

    /// The same step, at the place that its path leads to now.
    pub(crate) fn at_current_path(&self, cx: &Reverting<'_>) -> Result<PathChange, Fault> {
        Ok(PathChange { path: tree::resolve_again(cx.host, &self.path)?, ..self.clone() })
    }

    /// Undoes it at the very path of the record, through no link: what lies inside a tree was reached through none.
    pub(crate) fn revert_here(&self, cx: &Reverting<'_>) -> Result<Option<String>, Fault> {
        cx.host.sweep(&self.path)?;
        let now = match self.before {
            PathState::Attributes { .. } => PathState::at_attributes(cx.host, &self.path)?,
            _ => PathState::at(cx.host, &self.path)?,
        };
        if now.same(&self.before) && self.lacking(cx.host)?.is_empty() {
            return Ok(None);
        }
        let ours = now.same(&self.after)
            || now.is_between(&self.before, &self.after)
            || now.same(&self.before.without_list(&self.xattrs));
        let strange = self.strange_owner(cx.host);
        // A revert before this one brought it back under our own owner.
        let is_back = strange.is_some()
            && now.same_core(&self.before)
            && now.owner().is_some_and(|owner| owner.uid == cx.host.me().uid);
        if !ours && !is_back && !cx.force {
            let path = self.path.display();
            let message = format!(
                "{path} was changed since: it was left as {}, now it is {}",
                self.after.words(),
                now.words()
            );
            return Err(Fault::new(FaultKind::ChangedSince, message).hint("`--force` overwrites it"));
        }
        let lost = if is_back { Lost::new() } else { self.restore(&now, cx)? };
        let path = self.path.display();
        if let Some(Owner { uid, gid }) = strange {
            let restored = if is_back { format!("{path} is back") } else { format!("restored {path}") };
            if cx.force {
                return Ok((!is_back).then(|| format!("restored {path} without its owner {uid}:{gid}")));
            }
            let message = format!("{restored}, but not its owner {uid}:{gid}, which only root can give");
            let hint = "revert it as root; `--force` gives it up";
            return Err(Fault::new(FaultKind::Unsupported, message).hint(hint));
        }
        if !lost.is_empty() {
            let names: Vec<&str> = lost.keys().map(String::as_str).collect();
            if cx.force {
                return Ok(Some(format!("restored {path} without its {}", names.join(", "))));
            }
            let closed = self.xattrs.has_access_list() && !self.xattrs.list_in_force(&lost);
            let closed = if closed { "; it is closed to its group" } else { "" };
            let whys: Vec<String> = lost.iter().map(|(name, why)| format!("{name} ({why})")).collect();
            let message = format!("restored {path}, but not its {}{closed}", whys.join(", "));
            return Err(Fault::new(FaultKind::Unsupported, message).hint("`--force` gives it up"));
        }
        Ok(Some(if self.before == PathState::Absent {
            format!("removed {path}")
        } else {
            format!("restored {path}")
        }))
    }

    /// The same where a second name of another file was left: the name goes, and that file is not touched.
    pub(crate) fn revert_name(&self, cx: &Reverting<'_>) -> Result<Option<String>, Fault> {
        cx.host.sweep(&self.path)?;
        let path = self.path.display();
        let content;
        let body = match &self.before {
            PathState::Absent => {
                cx.host.remove_file(&self.path)?;
                return Ok(Some(format!("removed {path}")));
            }
            PathState::File { kept, .. } => {
                content = cx.blobs.fetch(kept.as_ref().ok_or_else(|| lost(&self.path))?)?;
                Body::File(&content)
            }
            PathState::Link { target, .. } => Body::Link(target),
            _ => return self.revert_here(cx),
        };
        self.recreate(cx.host, body)?;
        Ok(Some(format!("restored {path}")))
    }

    /// The same for what was there before and only got another owner or mode. What is gone since has none to get back,
    /// and force gives it up.
    pub(crate) fn revert_attributes(&self, cx: &Reverting<'_>) -> Result<Option<String>, Fault> {
        let now = PathState::at_attributes(cx.host, &self.path)?;
        if std::mem::discriminant(&now) == std::mem::discriminant(&self.before) {
            return self.revert_here(cx);
        }
        let path = self.path.display();
        match (cx.force, &now) {
            (true, _) => Ok(Some(format!("gave up {path}: it is {} now", now.words()))),
            (false, PathState::Absent) => {
                let message = format!("{path} is gone: its owner and mode cannot be restored");
                Err(Fault::new(FaultKind::ChangedSince, message).hint("`--force` gives it up"))
            }
            (false, _) => {
                let message = format!(
                    "{path} was changed since: it was left as {}, now it is {}",
                    self.after.words(),
                    now.words()
                );
                Err(Fault::new(FaultKind::ChangedSince, message).hint("`--force` gives it up"))
            }
        }
    }

    /// What changes at this path, for a diff.
    pub(crate) fn words(&self) -> String {
        format!("{}: {} → {}\n", self.path.display(), self.before.words(), self.after.words())
    }

    /// What of the extended attributes is not there.
    fn lacking(&self, host: &dyn HostRead) -> Result<Xattrs, Fault> {
        if self.xattrs.is_empty() {
            return Ok(Xattrs::default());
        }
        Ok(self.xattrs.lacking(&host.xattrs(&self.path)?))
    }

    /// Makes it anew, as it was. What we cannot give to its owner is ours then, and opens nothing to us or our group that
    /// it did not open to theirs.
    fn recreate(&self, host: &dyn HostWrite, body: Body<'_>) -> Result<Lost, Fault> {
        let (mut mode, owner) = (self.before.mode().unwrap_or(0), self.before.owner());
        let mut owner = owner.unwrap_or_else(|| host.me());
        if self.strange_owner(host).is_some() {
            mode &= !OF_ANOTHER;
            owner = host.me();
        }
        host.restore(&self.path, &BeforeImage { body, mode, owner, xattrs: &self.xattrs })
    }

    /// The thing itself is there: it gets its owner, mode and extended attributes. Until its access list is in force it
    /// is closed to its group, and a new owner takes its capabilities where nobody gives them back, so they come last.
    fn set_attributes_back(&self, host: &dyn HostWrite, now: &PathState) -> Result<Lost, Fault> {
        let (mode, path) = (self.before.mode(), self.path.as_path());
        let owner = self.before.owner().unwrap_or_else(|| host.me());
        let first = self.lacking(host)?;
        let closed = mode.map(|mode| first.mode_without_list(mode));
        set_attributes(host, path, now, owner, closed)?;
        let lacking = self.lacking(host)?;
        if lacking.is_empty() {
            return Ok(Lost::new());
        }
        let lost = host.set_xattrs(path, &lacking)?;
        if first.list_in_force(&lost)
            && let Some(mode) = mode
        {
            host.set_mode(path, mode)?;
        }
        Ok(lost)
    }

    fn restore(&self, now: &PathState, cx: &Reverting<'_>) -> Result<Lost, Fault> {
        let (host, path) = (cx.host, self.path.as_path());
        let same_sort = std::mem::discriminant(now) == std::mem::discriminant(&self.before);
        match &self.before {
            PathState::Absent => remove(host, path, now).map(|()| Lost::new()),
            PathState::File { sha256, kept, .. } => {
                if matches!(now, PathState::File { sha256: present, .. } if present == sha256) {
                    return self.set_attributes_back(host, now);
                }
                let kept = kept.as_ref().ok_or_else(|| lost(path))?;
                let content = cx.blobs.fetch(kept)?;
                if matches!(now, PathState::Directory { .. }) {
                    remove(host, path, now)?;
                }
                self.recreate(host, Body::File(&content))
            }
            PathState::Directory { .. } => {
                if same_sort {
                    return self.set_attributes_back(host, now);
                }
                remove(host, path, now)?;
                self.recreate(host, Body::Directory)
            }
            PathState::Link { target, .. } => {
                if matches!(now, PathState::Link { target: present, .. } if present == target) {
                    return self.set_attributes_back(host, now);
                }
                if matches!(now, PathState::Directory { .. }) {
                    remove(host, path, now)?;
                }
                self.recreate(host, Body::Link(target))
            }
            PathState::Attributes { .. } => {
                if !same_sort {
                    return Err(lost(path));
                }
                self.set_attributes_back(host, now)
            }
            PathState::Special { what: Special::Socket, .. } => {
                let message = format!("{} was a socket, which cannot be restored", path.display());
                let hint = "restart what listens there and revert again; `--force` gives it up";
                Err(Fault::new(FaultKind::Unsupported, message).hint(hint))
            }
            PathState::Special { what, .. } => {
                if matches!(now, PathState::Special { what: present, .. } if present == what) {
                    return self.set_attributes_back(host, now);
                }
                remove(host, path, now)?;
                self.recreate(host, Body::Special(*what))
            }
        }
    }
}

/// The changes of a tree, at the place where its top is now: a directory above it may have been moved since, and a link
/// left in its place. Inside the tree no link is followed.
pub(crate) fn at_current_top<'a>(
    changes: &'a [PathChange],
    top: &Path,
    cx: &Reverting<'_>,
) -> Result<Cow<'a, [PathChange]>, Fault> {
    let now = tree::resolve_again(cx.host, top)?;
    if now == top {
        return Ok(Cow::Borrowed(changes));
    }
    let moved = |change: &PathChange| match change.path.strip_prefix(top) {
        Ok(below) => PathChange { path: now.join(below).components().collect(), ..change.clone() },
        Err(_) => change.clone(),
    };
    Ok(Cow::Owned(changes.iter().map(moved).collect()))
}

/// One failure for all that did not come back, by name, and what did all the same.
pub(crate) fn unrestored(mut lost: Vec<(&Path, Fault)>, came_back: &[String], total: usize) -> Option<Fault> {
    let mut details = Details::new();
    let names: Vec<String> = lost.iter().map(|(path, _)| path.display().to_string()).collect();
    details.insert("unrestored".into(), names.into());
    if !came_back.is_empty() {
        details.insert("restored".into(), came_back.into());
    }
    let mut besides: String = came_back.iter().take(NAMED_MAX).map(|line| format!("; {line}")).collect();
    if let more @ 1.. = came_back.len().saturating_sub(NAMED_MAX) {
        besides.push_str(&format!("; and {more} more"));
    }
    if lost.len() < 2 {
        let (_, fault) = lost.pop()?;
        return Some(Fault { message: fault.message + &besides, ..fault }.details(details));
    }
    let shown: Vec<&str> = lost.iter().take(NAMED_MAX).map(|(_, fault)| fault.message.as_str()).collect();
    let more = lost.len() - shown.len();
    let mut message = format!("{} of {total} paths could not be restored: {}", lost.len(), shown.join("; "));
    if more > 0 {
        message.push_str(&format!("; and {more} more"));
    }
    message.push_str(&besides);
    let (_, first) = lost.swap_remove(0);
    Some(Fault { message, ..first }.details(details))
}

fn lost(path: &Path) -> Fault {
    Fault::new(FaultKind::NotFound, format!("the former content of {} was not kept", path.display()))
}

/// Removes what was looked at, and nothing that somebody else put there or wrote since (S-31).
pub(crate) fn remove_seen(host: &dyn HostWrite, path: &Path, seen: &PathState) -> Result<(), Fault> {
    seen.still_at(host, path)?;
    remove(host, path, seen)
}

fn remove(host: &dyn HostWrite, path: &Path, now: &PathState) -> Result<(), Fault> {
    match now {
        PathState::Absent => Ok(()),
        PathState::Directory { .. } => host.remove_directory(path),
        PathState::File { .. }
        | PathState::Attributes { .. }
        | PathState::Link { .. }
        | PathState::Special { .. } => host.remove_file(path),
    }
}

/// Owner before mode, because changing the owner clears the setuid bit; each only if it differs.
pub(crate) fn set_attributes(
    host: &dyn HostWrite,
    path: &Path,
    now: &PathState,
    owner: Owner,
    mode: Option<u32>,
) -> Result<(), Fault> {
    let chown = now.owner() != Some(owner);
    if chown {
        host.set_owner(path, owner)?;
    }
    match mode {
        Some(mode) if chown || now.mode() != Some(mode) => host.set_mode(path, mode),
        _ => Ok(()),
    }
}

/// The capabilities of a program.
pub(crate) fn rights_of(host: &dyn HostRead, path: &Path, now: &PathState) -> Result<Xattrs, Fault> {
    match now {
        PathState::File { .. } | PathState::Attributes { .. } => Ok(host.xattrs(path)?.rights()),
        _ => Ok(Xattrs::default()),
    }
}
