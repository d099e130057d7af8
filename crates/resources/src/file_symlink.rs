//! `file.symlink`: a symbolic link that points where the state says.

use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::created_dirs::{self, CreatedDirs};
use crate::file_resource::{FileDrift, FileResource};
use crate::ownership;
use crate::params::{Absolute, Invalid, Mode, params};
use crate::path_change::PathChange;
use crate::path_state::PathState;
use crate::tree;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::overlay::Overlay;
use zester_host::{Act, Fault, FaultKind, HostRead, HostWrite, Owner};
use zester_model::limits::LINK_TARGET_BYTES_MAX;

const DIRECTORY_MODE: u32 = 0o755;

/// A symbolic link.
#[params(kind = "file.symlink", primary = "path", manual = "file_symlink.md")]
pub struct Symlink {
    /// Where the link is.
    path: Absolute,
    /// What it points at; relative to the link's directory, unless it begins with `/`. It need not exist.
    target: String,
    /// Replaces a file or an empty directory that is in the way.
    #[param(default)]
    force: bool,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Whom the link belongs to: a name or a number. Unset: as it is.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group the link belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
}

/// What stands in the place of the link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Drift {
    #[serde(flatten)]
    step: PathChange,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    made: CreatedDirs,
}

impl Symlink {
    fn inspect(&self, host: &dyn HostRead, path: &Path) -> Result<Option<Drift>, Fault> {
        let path = path.to_path_buf();
        let before = PathState::at(host, &path)?;
        let present = before.owner().filter(|_| matches!(before, PathState::Link { .. }));
        let owner = ownership::wanted(host, self.user.as_deref(), self.group.as_deref(), present)?;
        let after = PathState::Link { target: PathBuf::from(&self.target), uid: owner.uid, gid: owner.gid };
        if before.same(&after) {
            return Ok(None);
        }
        self.refuse_what_is_in_the_way(host, &path, &before)?;
        let made = match before {
            PathState::Absent => {
                created_dirs::missing_parents(host, &path, self.makedirs, DIRECTORY_MODE, owner)?
            }
            _ => Vec::new(),
        };
        let points_there =
            matches!(&before, PathState::Link { target, .. } if *target == Path::new(&self.target));
        match points_there {
            true => host.may(&path, Act::Owner(owner))?,
            false => ownership::may_put(host, &path, owner)?,
        }
        let step = PathChange::new(path, before, after).with_xattrs(host)?;
        Ok(Some(Drift { step, made }))
    }

    fn refuse_what_is_in_the_way(
        &self,
        host: &dyn HostRead,
        path: &Path,
        before: &PathState,
    ) -> Result<(), Fault> {
        let what = match before {
            PathState::Absent | PathState::Link { .. } => return Ok(()),
            PathState::File { .. } if self.force => return Ok(()),
            PathState::Directory { .. } if self.force && host.list(path)?.is_empty() => return Ok(()),
            PathState::File { .. } => "a file",
            PathState::Directory { .. } if self.force => "a directory that is not empty",
            PathState::Directory { .. } => "a directory",
            PathState::Attributes { .. } => "a file",
            PathState::Special { what, .. } => what.article(),
        };
        let hint = if self.force {
            "empty or remove it first"
        } else {
            "`force: true` replaces a file or an empty directory"
        };
        Err(Fault::new(FaultKind::InTheWay, format!("{} is {what}, not a link", path.display())).hint(hint))
    }
}

impl Drift {
    /// Acts, and returns the directories that it made on the way.
    fn act(&self, host: &dyn HostWrite) -> Result<CreatedDirs, Fault> {
        let mut made = CreatedDirs::new();
        let PathChange { path, before, after, .. } = &self.step;
        let PathState::Link { target, uid, gid } = after else { return Ok(made) };
        let owner = Owner { uid: *uid, gid: *gid };
        created_dirs::make_then(host, &self.made, &mut made, || {
            before.still_at(host, path)?;
            match before {
                PathState::Link { target: present, .. } if present == target => host.set_owner(path, owner),
                PathState::Directory { .. } => {
                    host.remove_directory(path)?;
                    host.put_link(path, target, owner)
                }
                _ => host.put_link(path, target, owner),
            }
        })?;
        Ok(made)
    }
}

impl FileResource for Symlink {
    type Drift = Drift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        tree::real_path_now(cx.host, &self.path, |path| self.inspect(cx.host, path))
    }

    fn claims(&self) -> Claims {
        let owned = Claims::path(&self.path, "a link")
            .with("target", Some(&self.target))
            .with("user", self.user.as_ref())
            .with("group", self.group.as_ref());
        let how: (Option<Mode>, _, _) = (None, &self.user, &self.group);
        Claims::of(owned)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .makes_parents(self.makedirs, how)
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        let wrong = match &self.target {
            target if target.is_empty() || target.contains('\0') => "a link points somewhere".to_string(),
            target if target.len() > LINK_TARGET_BYTES_MAX => {
                format!("a link holds {LINK_TARGET_BYTES_MAX} bytes at most")
            }
            _ => return invalid,
        };
        invalid.push(Invalid { parameter: "target", message: wrong, hint: None });
        invalid
    }
}

impl FileDrift for Drift {
    fn explain(&self, _done: bool) -> Explanation {
        let mut explanation = Explanation { diff: self.step.words(), ..Explanation::default() };
        if let Some(why) = self.step.unrestorable() {
            explanation.diff.push_str(&why);
            let path = self.step.path.display().to_string();
            explanation.details.insert("unrestorable".into(), vec![path].into());
        }
        explanation
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

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let mut lines: Vec<String> = self.step.revert(cx)?.into_iter().collect();
        lines.append(&mut created_dirs::unmake_all(&self.step.path, &self.made, cx)?);
        Ok(lines)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("file.symlink", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "path": "/link", "target": "/there" }), Promise::Converges, ""),
        case(json!({ "path": "/link", "target": "there" }), Promise::Clean, "l /link there"),
        case(
            json!({ "path": "/link", "target": "here", "user": "web" }),
            Promise::Converges,
            "l /link there",
        ),
        case(
            json!({ "path": "/link", "target": "there", "user": "web" }),
            Promise::Converges,
            "l /link there",
        ),
        case(json!({ "path": "/a/b/link", "target": "/there", "makedirs": true }), Promise::Converges, ""),
        case(json!({ "path": "/file", "target": "/there" }), Promise::Fails, "f /file 0644 text"),
        case(
            json!({ "path": "/file", "target": "/there", "force": true }),
            Promise::Converges,
            "f /file 0604 text",
        ),
        case(json!({ "path": "/dir", "target": "/there", "force": true }), Promise::Converges, "d /dir 0711"),
        case(
            json!({ "path": "/dir", "target": "/x", "force": true }),
            Promise::Fails,
            "d /dir 0711\nf /dir/f 0644 text",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::laws::bind_json;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("S-3")]
    fn s3_a_target_that_no_link_can_hold_is_refused() {
        let bound = |bytes: usize| {
            bind_json("file.symlink", &json!({ "path": "/l", "target": "a".repeat(bytes) })).map(drop)
        };
        assert!(bound(4095).is_ok());
        let diagnostics = bound(4096).unwrap_err();
        assert!(diagnostics[0].message.contains("a link holds 4095 bytes at most"), "{diagnostics:?}");
    }
}
