//! `file.managed`: a file with the content, mode and owner that the state says.

mod content;

use crate::claims::Claims;
use crate::context::Checking;
use crate::file_change::{Backup, FileChange, FileWish};
use crate::file_resource::FileResource;
use crate::params::{Absolute, Invalid, Mode, params};
use crate::{ownership, shell_words};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use zester_host::Fault;
use zester_model::outcome::Details;

/// A file with the given content, mode and owner.
#[params(kind = "file.managed", primary = "path", manual = "file_managed.md")]
pub struct Managed {
    /// Where the file is.
    path: Absolute,
    /// What it holds, byte for byte; written as `contents`, it ends with a line end. A list stands for lines, each with
    /// a line end.
    #[param(alias = "contents", alias = "text", lines, secret)]
    content: Option<String>,
    /// A file to take the content from: `salt://…` or `zester://…`, a path below the states directory, or an
    /// absolute path on this machine. Of a list, the first that exists.
    #[param(list, default)]
    source: Vec<String>,
    /// A key of the settings that holds the content, `a:b:c`.
    #[param(alias = "contents_settings")]
    contents_pillar: Option<String>,
    /// `jinja` renders the content as a template with facts, settings and `context`.
    template: Option<Template>,
    /// Variables for the template.
    #[param(secret, default)]
    context: Details,
    /// Variables for the template that `context` does not set.
    #[param(secret, default)]
    defaults: Details,
    /// Permissions, like `0644`. Unset: those of the existing file, `0644` for a new one, `0600` where it holds a secret.
    mode: Option<Mode>,
    /// Whom it belongs to: a name or a number. Unset: as it is.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group it belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Permissions of directories that `makedirs` creates. Default: `0755`.
    dir_mode: Option<Mode>,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` leaves the content of an existing file alone.
    #[param(default = true)]
    replace: bool,
    /// `false` does nothing where there is no such file yet.
    #[param(default = true)]
    create: bool,
    /// `false` does not show what changes in the content: for secrets.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
    /// `false` fails rather than writing an empty file.
    #[param(default = true)]
    allow_empty: bool,
    /// `true` ends the content with a line end, if it lacks one; `false` leaves it out. Unset: as `contents` and
    /// `contents_pillar` have one and nothing else is touched.
    contents_newline: Option<bool>,
    /// It was written `contents`, which means what it means in Salt.
    #[param(written = "contents")]
    as_in_salt: bool,
    /// `false` replaces a link at `path` instead of managing the file it leads to.
    #[param(default = true)]
    follow_symlinks: bool,
}

/// How content becomes text.
#[derive(Copy, Clone, Debug, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Template {
    Jinja,
}

impl FileResource for Managed {
    type Drift = FileChange;
    const CHECK_CMD_FIRST: bool = true;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        let content = |_: Option<&[u8]>| self.wanted_content(cx);
        let wish = FileWish {
            mode: self.mode,
            user: self.user.as_deref(),
            group: self.group.as_deref(),
            makedirs: self.makedirs,
            dir_mode: self.dir_mode,
            backup: self.backup.as_ref(),
            replace: self.replace,
            create: self.create,
            show_changes: self.show_changes,
            follow_symlinks: self.follow_symlinks,
            ..FileWish::new(&self.path, &content)
        };
        wish.find(cx)
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
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::{Bench, cases};
