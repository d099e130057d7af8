//! `file.hardlink`: a second name of a file.

use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::{FileDrift, FileResource};
use crate::ownership;
use crate::params::{Absolute, Invalid, Mode, params};
use crate::path_change::PathChange;
use crate::path_state::PathState;
use crate::path_text;
use crate::tree;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::overlay::Overlay;
use zester_host::{Act, Fault, FaultKind, FileKind, HostRead, HostWrite};

const DIRECTORY_MODE: Mode = Mode(0o755);

/// A second name of a file.
#[params(kind = "file.hardlink", primary = "path", manual = "file_hardlink.md")]
pub struct Hardlink {
    /// The second name.
    path: Absolute,
    /// The file, which must be there, on the same file system.
    target: Absolute,
    /// Replaces another file or a link that is in the way.
    #[param(default)]
    force: bool,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Whom new directories belong to: a name or a number.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group new directories belong to: a name or a number.
    group: Option<String>,
    /// The mode of new directories. Default: 0755.
    dir_mode: Option<Mode>,
}

/// What stands in the place of the name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Drift {
    #[serde(flatten)]
    step: PathChange,
    #[serde(with = "path_text")]
    target: PathBuf,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: CreatedDirs,
}

impl Hardlink {
    fn inspect(&self, host: &dyn HostRead, path: &Path) -> Result<Option<Drift>, Fault> {
        let target = tree::behind_links(host, &tree::resolve_again(host, &self.target)?)?;
        match host.stat(&target)?.map(|meta| meta.kind) {
            Some(FileKind::File) => {}
            Some(_) => {
                let message = format!("{} is not a file, and can have no second name", self.target.display());
                return Err(Fault::new(FaultKind::InTheWay, message).hint("use `file.symlink`"));
            }
            None => {
                let message = format!("there is no file {}", self.target.display());
                return Err(Fault::new(FaultKind::NotFound, message));
            }
        }
        if host.same_file(path, &target)? {
            return Ok(None);
        }
        let before = PathState::at(host, path)?;
        let in_the_way = match &before {
            PathState::Absent => None,
            PathState::File { .. } | PathState::Link { .. } if self.force => None,
            PathState::File { .. } | PathState::Attributes { .. } => {
                Some(("another file", "`force: true` replaces it"))
            }
            PathState::Link { .. } => Some(("a link", "`force: true` replaces it")),
            PathState::Directory { .. } => Some(("a directory", "remove it first")),
            PathState::Special { what, .. } => Some((what.article(), "remove it first")),
        };
        if let Some((what, hint)) = in_the_way {
            let message = format!("{} is {what}", path.display());
            return Err(Fault::new(FaultKind::InTheWay, message).hint(hint));
        }
        let made = match before {
            PathState::Absent => {
                let owner = ownership::wanted(host, self.user.as_deref(), self.group.as_deref(), None)?;
                let mode = self.dir_mode.unwrap_or(DIRECTORY_MODE).0;
                created_dirs::missing_parents(host, path, self.makedirs, mode, owner)?
            }
            _ => Vec::new(),
        };
        host.may(path, Act::Put)?;
        let after = PathState::at_attributes(host, &target)?;
        let step = PathChange::new(path.to_path_buf(), before, after).with_xattrs(host)?;
        Ok(Some(Drift { step, target, made }))
    }
}

impl Drift {
    fn act(&self, host: &dyn HostWrite) -> Result<CreatedDirs, Fault> {
        let mut made = CreatedDirs::new();
        created_dirs::make_then(host, &self.made, &mut made, || {
            self.step.before.still_at(host, &self.step.path)?;
            host.put_hard_link(&self.step.path, &self.target)
        })?;
        Ok(made)
    }
}

impl FileResource for Hardlink {
    type Drift = Drift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        tree::real_path_now(cx.host, &self.path, |path| self.inspect(cx.host, path))
    }

    fn claims(&self) -> Claims {
        let owned = Claims::path(&self.path, "a hard link").with("target", Some(&self.target.0));
        Claims::of(owned)
            .needs([&*self.target])
            .accounts(self.user.as_deref(), self.group.as_deref())
            .makes_parents(self.makedirs, (self.dir_mode, &self.user, &self.group))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        if self.path == self.target {
            invalid.push(Invalid::new("target", "a second name is another one"));
        }
        invalid
    }
}

impl FileDrift for Drift {
    fn explain(&self, _done: bool) -> Explanation {
        let PathChange { path, before, .. } = &self.step;
        let target = self.target.display();
        let diff = format!("{}: {} → a hard link of {target}\n", path.display(), before.words());
        Explanation { diff, ..Explanation::default() }
    }

    fn save_before_image(&mut self, look: &dyn HostRead, blobs: &dyn BlobStore) -> Result<(), Fault> {
        let PathChange { path, before, .. } = &mut self.step;
        before.keep(path, look, blobs)
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<Drift>, Fault> {
        let made = self.act(cx.host)?;
        Ok((made.len() != self.made.len()).then(|| Drift { made, ..self.clone() }))
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay).map(drop)
    }

    /// While both are one file nothing of it is lost with a name, whatever was written into it since.
    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let step = self.step.at_current_path(cx)?;
        let reverted = match cx.host.same_file(&step.path, &self.target)? {
            true => step.revert_name(cx)?,
            false => step.revert_here(cx)?,
        };
        let mut lines: Vec<String> = reverted.into_iter().collect();
        lines.append(&mut created_dirs::unmake_all(&step.path, &self.made, cx)?);
        Ok(lines)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |mut params: serde_json::Value, promise, world: &'static str| {
        params["target"] = json!("/file");
        Case::new("file.hardlink", params, promise, move |host| furnish(host, world))
    };
    let linked = |mut params: serde_json::Value| {
        params["target"] = json!("/file");
        Case::new("file.hardlink", params, Promise::Clean, |host| {
            let processes = furnish(host, "f /file 0640 text");
            host.put_hard_link("/name".as_ref(), "/file".as_ref()).unwrap();
            processes
        })
    };
    vec![
        case(json!({ "path": "/name" }), Promise::Converges, "f /file 0640 text"),
        linked(json!({ "path": "/name" })),
        case(
            json!({ "path": "/a/b/name", "makedirs": true, "user": "web" }),
            Promise::Converges,
            "f /file 0640 text",
        ),
        case(json!({ "path": "/name" }), Promise::Fails, "f /file 0640 text\nf /name 0640 text"),
        case(
            json!({ "path": "/name", "force": true }),
            Promise::Converges,
            "f /file 0640 text\nf /name 0600 other",
        ),
        // The same text, and another file all the same: the mode of one must not become that of the other.
        case(
            json!({ "path": "/name", "force": true }),
            Promise::Converges,
            "f /file 0640 text\nf /name 0600 text",
        ),
        case(
            json!({ "path": "/name", "force": true }),
            Promise::Converges,
            "f /file 0640 text\nl /name /file",
        ),
        case(json!({ "path": "/name" }), Promise::Fails, "d /name 0755"),
        case(json!({ "path": "/name", "force": true }), Promise::Fails, "f /file 0640 text\nd /name 0755"),
        case(json!({ "path": "/name" }), Promise::Fails, "d /file 0755"),
    ]
}
