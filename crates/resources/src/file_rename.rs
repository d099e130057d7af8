//! `file.rename`: something under another name.

use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::{FileDrift, FileResource};
use crate::params::{Absolute, Invalid, params};
use crate::path_change::{PathChange, remove_seen};
use crate::path_state::PathState;
use crate::{path_text, tree};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use zester_host::overlay::Overlay;
use zester_host::{Act, Fault, FaultKind, FileKind, HostRead, HostWrite};
use zester_model::outcome::Details;

const DIRECTORY_MODE: u32 = 0o755;

/// Something that gets another name.
#[params(kind = "file.rename", primary = "path", manual = "file_rename.md")]
pub struct Rename {
    /// Where it is to be.
    path: Absolute,
    /// Where it is now: a file, link or directory.
    source: Absolute,
    /// A file or link at `path` gives way. Otherwise both are left alone.
    #[param(default)]
    force: bool,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
}

/// What moves, and what it takes the place of.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Move {
    #[serde(with = "path_text")]
    from: PathBuf,
    #[serde(with = "path_text")]
    to: PathBuf,
    /// What stood at the new place and goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replaced: Option<PathChange>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: CreatedDirs,
}

impl Move {
    fn act(&self, host: &dyn HostWrite, made: &mut CreatedDirs) -> Result<(), Fault> {
        created_dirs::make_then(host, &self.made, made, || {
            if let Some(replaced) = &self.replaced
                && host.stat(&replaced.path)?.is_some()
            {
                remove_seen(host, &replaced.path, &replaced.before)?;
            }
            host.rename(&self.from, &self.to)
        })
    }
}

impl FileDrift for Move {
    fn explain(&self, done: bool) -> Explanation {
        let verb = if done { "renamed" } else { "would rename" };
        let mut diff = format!("{verb} {} to {}\n", self.from.display(), self.to.display());
        if let Some(replaced) = &self.replaced {
            diff.push_str(&format!("in the place of {}\n", replaced.before.words()));
        }
        let mut details = Details::new();
        details.insert("source".into(), self.from.display().to_string().into());
        details.insert("path".into(), self.to.display().to_string().into());
        Explanation { diff, details }
    }

    fn save_before_image(&mut self, look: &dyn HostRead, blobs: &dyn BlobStore) -> Result<(), Fault> {
        match &mut self.replaced {
            Some(PathChange { path, before, .. }) => before.keep(path, look, blobs),
            None => Ok(()),
        }
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<Move>, Fault> {
        let mut made = CreatedDirs::new();
        let acted = self.act(cx.host, &mut made);
        acted.map_err(|fault| Fault { touched: fault.touched || !made.is_empty(), ..fault })?;
        Ok((made.len() != self.made.len()).then(|| Move { made, ..self.clone() }))
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay, &mut CreatedDirs::new())
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let from = tree::resolve_again(cx.host, &self.from)?;
        let to = tree::resolve_again(cx.host, &self.to)?;
        let mut lines = Vec::new();
        // What was put where it came from since is not ours to replace.
        match (cx.host.stat(&from)?.is_some(), cx.host.stat(&to)?.is_some()) {
            (false, true) => {
                cx.host.rename(&to, &from)?;
                lines.push(format!("renamed {} to {}", to.display(), from.display()));
            }
            (false, false) => {
                let message = format!("{} is gone: it cannot be renamed back", to.display());
                return Err(Fault::new(FaultKind::ChangedSince, message));
            }
            (true, there) => {
                let untouched = match &self.replaced {
                    Some(replaced) => PathState::at(cx.host, &to)?.same(&replaced.before) || !there,
                    None => !there,
                };
                if !untouched {
                    let message = format!("both {} and {} are there now", from.display(), to.display());
                    return Err(Fault::new(FaultKind::ChangedSince, message));
                }
            }
        }
        if let Some(replaced) = &self.replaced {
            lines.extend(replaced.revert(cx)?);
        }
        lines.append(&mut created_dirs::unmake_all(&self.to, &self.made, cx)?);
        Ok(lines)
    }
}

impl FileResource for Rename {
    type Drift = Move;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Move>, Fault> {
        let host = cx.host;
        if host.stat(&self.source)?.is_none() {
            if host.stat(&self.path)?.is_some() {
                return Ok(None);
            }
            let (source, path) = (self.source.display(), self.path.display());
            let message = format!("there is neither {source} nor {path}");
            return Err(Fault::new(FaultKind::NotFound, message));
        }
        let from = tree::resolve_again(host, &self.source)?;
        let to = tree::resolve_again(host, &self.path)?;
        if to.starts_with(&from) {
            let message = format!("{} lies inside {}", to.display(), from.display());
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let replaced = match host.stat(&to)? {
            None => None,
            Some(_) if !self.force => return Ok(None),
            Some(meta) if matches!(meta.kind, FileKind::File | FileKind::Link) => {
                let before = PathState::of(host, &to, &meta)?;
                Some(PathChange::new(to.clone(), before, PathState::Absent).with_xattrs(host)?)
            }
            Some(_) => {
                let message = format!("{} is in the way: it is neither file nor link", to.display());
                let hint = "remove it in a `file.absent` state first, if it may go";
                return Err(Fault::new(FaultKind::InTheWay, message).hint(hint));
            }
        };
        let made = created_dirs::missing_parents(host, &to, self.makedirs, DIRECTORY_MODE, host.me())?;
        host.may(&from, Act::Put)?;
        host.may(&to, Act::Put)?;
        Ok(Some(Move { from, to, replaced, made }))
    }

    fn validate(&self) -> Vec<Invalid> {
        match self.path.0 == self.source.0 {
            true => vec![Invalid::new("source", "it is the same as `path`")],
            false => Vec::new(),
        }
    }

    fn claims(&self) -> Claims {
        let how: (Option<u32>, Option<&str>, Option<&str>) = (None, None, None);
        Claims::of(Claims::path(&self.path, "renamed").with("source", Some(&self.source.0)))
            .fills()
            .takes([&*self.source])
            .makes_parents(self.makedirs, how)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |mut params: serde_json::Value, promise, world: &'static str| {
        params["source"] = json!("/s");
        Case::new("file.rename", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "path": "/t" }), Promise::Converges, "f /s 0604 text"),
        case(json!({ "path": "/t" }), Promise::Converges, "d /s 0700\nf /s/f 0604 text"),
        case(json!({ "path": "/t" }), Promise::Clean, "f /t 0604 text"),
        case(json!({ "path": "/t" }), Promise::Clean, "f /s 0604 text\nf /t 0644 other"),
        case(json!({ "path": "/t", "force": true }), Promise::Converges, "f /s 0604 text\nf /t 0644 other"),
        case(json!({ "path": "/t", "force": true }), Promise::Fails, "f /s 0604 text\nd /t 0755"),
        case(json!({ "path": "/a/b/t", "makedirs": true }), Promise::Converges, "f /s 0604 text"),
        case(json!({ "path": "/a/t" }), Promise::Fails, "f /s 0604 text"),
        case(json!({ "path": "/t" }), Promise::Fails, ""),
        case(json!({ "path": "/s/t" }), Promise::Fails, "d /s 0755"),
    ]
}
