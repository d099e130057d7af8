//! `file.copy`: a file or directory like another one of this machine.

use crate::claims::Claims;
use crate::context::Checking;
use crate::created_dirs;
use crate::file_resource::FileResource;
use crate::ownership;
use crate::params::{Absolute, Invalid, Mode, params};
use crate::tree;
use crate::tree_change::{Body, Finder, Manner, TreeChange, Wanted};
use std::path::{Path, PathBuf};
use zester_host::{Fault, FaultKind, FileKind, HostRead, Meta};
use zester_model::limits::FILE_BYTES_MAX;
use zester_model::outcome::Details;

const DIRECTORY_MODE: u32 = 0o755;

/// A copy of a file or directory.
#[params(kind = "file.copy", primary = "path", manual = "file_copy.md")]
pub struct Copy {
    /// Where the copy is.
    path: Absolute,
    /// What it is a copy of: a file or directory of this machine.
    source: Absolute,
    /// Keeps it like its source. Otherwise what is at `path` already is left alone.
    #[param(default)]
    force: bool,
    /// Gives it owner and permissions of the source.
    #[param(default)]
    preserve: bool,
    /// Whom it belongs to: a name or a number. Unset: as it is, or as `preserve` says.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group it belongs to: a name or a number. Unset: as it is, or as `preserve` says.
    group: Option<String>,
    /// Permissions of files, like `0644`. Unset: those of the source.
    mode: Option<Mode>,
    /// Where `path` is a directory, the copy goes into it, under the name of the source.
    #[param(default)]
    subdir: bool,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Permissions of directories that `makedirs` creates. Default: `0755`.
    dir_mode: Option<Mode>,
    /// `false` does not show what changes in files.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

impl Copy {
    fn wanted(&self, cx: &Checking<'_>, path: PathBuf, from: &Path, meta: &Meta) -> Result<Wanted, Fault> {
        let (uid, gid) = ownership::named(cx.host, self.user.as_deref(), self.group.as_deref())?;
        let kept = |id: u32| self.preserve.then_some(id);
        let (uid, gid) = (uid.or(kept(meta.uid)), gid.or(kept(meta.gid)));
        let (body, mode) = match meta.kind {
            FileKind::File => {
                let mode = self.mode.map_or(meta.mode, |mode| mode.0);
                (Body::File(cx.host.without_links().read(from, FILE_BYTES_MAX)?.into()), Some(mode))
            }
            FileKind::Directory => (Body::Directory, Some(meta.mode)),
            FileKind::Link => (Body::Link(cx.host.without_links().read_link(from)?), None),
            FileKind::Special(what) => {
                let message = format!("{} is {}, and cannot be copied", from.display(), what.article());
                return Err(Fault::new(FaultKind::Unsupported, message));
            }
        };
        Ok(Wanted { path, body, mode, uid, gid })
    }

    fn inspect(&self, cx: &Checking<'_>, top: &Path) -> Result<Option<TreeChange>, Fault> {
        let host = cx.host;
        let mut top = top.to_path_buf();
        let mut present = host.stat(&top)?;
        if self.subdir
            && present.as_ref().is_some_and(|meta| meta.kind == FileKind::Directory)
            && let Some(name) = self.source.file_name()
        {
            top.push(name);
            present = host.stat(&top)?;
        }
        if present.is_some() && !self.force {
            return Ok(None);
        }
        let Some(source) = host.stat_followed(&self.source)? else {
            let message = format!("there is no {} to copy", self.source.display());
            return Err(Fault::new(FaultKind::NotFound, message));
        };
        let from = tree::behind_links(host, &host.real_path(&self.source)?)?;
        if top.starts_with(&from) && source.kind == FileKind::Directory {
            let message = format!("{} lies inside {}", top.display(), from.display());
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        let owner = ownership::wanted(host, self.user.as_deref(), self.group.as_deref(), None)?;
        let dir_mode = self.dir_mode.map_or(DIRECTORY_MODE, |mode| mode.0);
        let made = created_dirs::missing_parents(host, &top, self.makedirs, dir_mode, owner)?;
        let manner = Manner { replace: true, force: true, show_changes: self.show_changes };
        let mut finder = Finder::new(host, &top, manner);
        finder.want(&self.wanted(cx, top.clone(), &from, &source)?)?;
        if source.kind == FileKind::Directory {
            let mut inside = Vec::new();
            let mut visit = |_: &dyn HostRead, path: &Path, meta: &Meta| {
                inside.push((path.to_path_buf(), meta.clone()));
                Ok(())
            };
            tree::walk(host, &from, &mut visit, &mut |_| Ok(()))?;
            for (path, meta) in inside {
                let below = path.strip_prefix(&from).unwrap_or(&path);
                finder.want(&self.wanted(cx, top.join(below), &path, &meta)?)?;
            }
        }
        Ok(finder.finish(made, Details::new()))
    }
}

impl FileResource for Copy {
    type Drift = TreeChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<TreeChange>, Fault> {
        tree::real_path_now(cx.host, &self.path, |path| self.inspect(cx, path))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        if self.path.0 == self.source.0 {
            invalid.push(Invalid::new("source", "it is the same as `path`"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let owned = Claims::path(&self.path, "a copy")
            .with("source", Some(&self.source.0))
            .with("mode", self.mode)
            .with("user", self.user.as_ref())
            .with("group", self.group.as_ref());
        Claims::of(owned)
            .fills()
            .accounts(self.user.as_deref(), self.group.as_deref())
            .takes([&*self.source])
            .makes_parents(self.makedirs, (self.dir_mode, &self.user, &self.group))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |mut params: serde_json::Value, promise, world: &'static str| {
        params["path"] = json!("/t");
        params["source"] = json!("/s");
        Case::new("file.copy", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({}), Promise::Converges, "f /s 0604 text"),
        case(json!({ "preserve": true, "mode": "0600" }), Promise::Converges, "f /s 0604 text"),
        case(json!({}), Promise::Clean, "f /s 0604 text\nf /t 0644 other"),
        case(json!({ "force": true, "user": "web" }), Promise::Converges, "f /s 0604 text\nf /t 0644 other"),
        case(json!({ "force": true }), Promise::Clean, "f /s 0604 text\nf /t 0604 text"),
        case(json!({}), Promise::Fails, ""),
        case(json!({}), Promise::Converges, "d /s 0755\nd /s/d 0700\nf /s/d/f 0640 x\nl /s/l d"),
        case(json!({ "subdir": true }), Promise::Converges, "f /s 0604 text\nd /t 0755"),
        case(json!({ "force": true }), Promise::Fails, "f /s 0604 text\nd /t 0755"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_managed::Bench;
    use crate::laws::bind_json;
    use serde_json::json;

    #[tokio::test]
    async fn a_directory_is_not_copied_into_itself() {
        let bench = Bench::of("file.copy", "d /s 0755");
        let bound = bind_json("file.copy", &json!({ "path": "/s/t", "source": "/s" })).ok().unwrap();
        let fault = bench.check(&*bound).await.err().unwrap();
        assert!(fault.message.contains("/s/t lies inside /s"), "{fault}");
        assert!(bind_json("file.copy", &json!({ "path": "/s", "source": "/s" })).is_err());
    }
}
