//! `file.managed`: a file with the content, mode and owner that the state says.

mod content;

use crate::claims::Claims;
use crate::context::Checking;
use crate::file_change::{Backup, FileChange, FileWish};
use crate::file_resource::FileResource;
use crate::ownership;
use crate::params::{Absolute, FileMode, Invalid, Mode, Template, params};
use crate::source::{self, SourceHash};
use std::path::Path;
use zester_host::{Fault, FaultKind};
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
    /// A file to take the content from: `salt://…` or `zester://…`, a path below the states directory, an absolute path on
    /// this machine, or `https://…`. Of a list, the first that exists.
    #[param(list, default)]
    source: Vec<String>,
    /// The digest that the source has: `sha256=…`, its digits alone, or where to find a file of sums.
    source_hash: Option<String>,
    /// What the source is called in a file of sums. Unset: as its own name is.
    source_hash_name: Option<String>,
    /// Takes what a server gives without knowing its digest; the result warns of it.
    #[param(default)]
    skip_verify: bool,
    /// Salt keeps a copy of what it fetched; here there is none to keep.
    #[allow(dead_code, reason = "accepted as in Salt, and there is nothing to do")]
    keep_source: Option<bool>,
    /// A key of the settings that holds the content, `a:b:c`.
    #[param(alias = "contents_settings")]
    contents_pillar: Option<String>,
    /// A fact that holds the content, `a:b:c`.
    #[param(alias = "contents_facts")]
    contents_grains: Option<String>,
    /// How a text becomes bytes: `utf-8`, `ascii` or `latin-1`. Default: `utf-8`.
    encoding: Option<Encoding>,
    /// `jinja` renders the content as a template with facts, settings and `context`.
    template: Option<Template>,
    /// Variables for the template.
    #[param(secret, default)]
    context: Details,
    /// Variables for the template that `context` does not set.
    #[param(secret, default)]
    defaults: Details,
    /// Permissions, like `0644`; `keep` takes those of `source`. Unset: those of the existing file, `0644` for a new one,
    /// `0600` where it holds a secret.
    mode: Option<FileMode>,
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
    /// `true` fails where there is no such file yet.
    #[param(default)]
    must_exist: bool,
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
    /// A directory where `check_cmd` gets the new content. Unset: the one of the file.
    tmp_dir: Option<Absolute>,
    /// `false` replaces a link at `path` instead of managing the file it leads to.
    #[param(default = true)]
    follow_symlinks: bool,
}

/// How characters become bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
enum Encoding {
    Utf8,
    Ascii,
    Latin1,
}

crate::params::from_text!(Encoding, "`utf-8`, `ascii` or `latin-1`", |text| {
    match text.to_ascii_lowercase().replace(['_', ' '], "-").as_str() {
        "utf-8" | "utf8" => Ok(Encoding::Utf8),
        "ascii" | "us-ascii" => Ok(Encoding::Ascii),
        "latin-1" | "latin1" | "iso-8859-1" => Ok(Encoding::Latin1),
        _ => Err(format!("`{text}` cannot be written; there are `utf-8`, `ascii` and `latin-1`")),
    }
});

impl Managed {
    fn source_hash(&self) -> SourceHash<'_> {
        SourceHash {
            hash: self.source_hash.as_deref(),
            name: self.source_hash_name.as_deref(),
            skip_verify: self.skip_verify,
        }
    }
}

impl FileResource for Managed {
    type Drift = FileChange;
    const CHECK_CMD_FIRST: bool = true;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<FileChange>, Fault> {
        if self.must_exist && cx.host.stat_followed(&self.path)?.is_none() {
            let message = format!("there is no file {}", self.path.display());
            return Err(Fault::new(FaultKind::NotFound, message));
        }
        let content = |old: Option<&[u8]>| self.wanted_content(cx, old);
        let wish = FileWish {
            edits: self.compares_first(),
            mode: self.wanted_mode(cx)?,
            tmp_dir: self.tmp_dir.as_deref(),
            warning: self
                .source_hash()
                .unverified(&self.source)
                .then(|| "the source was not verified: nothing says what its digest is to be".to_string()),
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
        let given = [
            ("content", self.content.is_some()),
            ("source", !self.source.is_empty()),
            ("contents_pillar", self.contents_pillar.is_some()),
            ("contents_grains", self.contents_grains.is_some()),
        ];
        if let Some((parameter, _)) = given.iter().filter(|(_, given)| *given).nth(1) {
            let message = "only one of `content`, `source`, `contents_pillar` and `contents_grains` can give the content";
            invalid.push(Invalid::new(parameter, message));
        }
        if self.mode == Some(FileMode::Keep)
            && (self.source.is_empty() || self.source.iter().any(|source| source::is_remote(source)))
        {
            let message = "only a `source` of the states directory or of this machine has a mode to keep";
            invalid.push(Invalid::new("mode", message));
        }
        invalid.extend(self.source_hash().invalid(&self.source));
        if self.path.parent().is_none() {
            invalid.push(Invalid { parameter: "path", message: "`/` is not a file".into(), hint: None });
        }
        invalid.extend(
            self.source
                .iter()
                .filter_map(|source| source::invalid("source", source, source::Remote::Allowed)),
        );
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
        let sources = self.source.iter().map(|source| source::local_name(source));
        Claims::of(owned)
            .follows(self.follow_symlinks)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .needs(sources.map(Path::new))
            .makes_parents(self.makedirs, (self.dir_mode, &self.user, &self.group))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::{Bench, cases};
