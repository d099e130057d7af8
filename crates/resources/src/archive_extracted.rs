//! `archive.extracted`: what an archive holds, in a directory.

use crate::archive::{self, Body as Packed, Entry, Unpack};
use crate::claims::Claims;
use crate::context::Checking;
use crate::created_dirs;
use crate::file_resource::FileResource;
use crate::kept_paths::KeptPaths;
use crate::ownership;
use crate::params::{Absolute, Invalid, params};
use crate::source::{self, Remote, SourceHash};
use crate::tree;
use crate::tree_change::{Body, Finder, Manner, TreeChange, Wanted};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_host::{Fault, FaultKind, FileKind, HostRead, Meta};
use zester_model::outcome::Details;

const DIRECTORY_MODE: u32 = 0o755;

/// An unpacked archive.
#[params(kind = "archive.extracted", primary = "path", manual = "archive_extracted.md")]
pub struct Extracted {
    /// The directory that it is unpacked in.
    path: Absolute,
    /// The archive: `https://…`, `salt://…`, a path below the states directory, or an absolute path on this machine. Of a list, the
    /// first that exists.
    #[param(list)]
    source: Vec<String>,
    /// The digest that the archive has: `sha256=…`, its digits alone, or where to find a file of sums.
    source_hash: Option<String>,
    /// What the archive is called in a file of sums. Unset: as its own name is.
    source_hash_name: Option<String>,
    /// Takes what a server gives without knowing its digest; the result warns of it.
    #[param(default)]
    skip_verify: bool,
    /// `tar` or `zip`. It is known from the content too, and how that is compressed.
    archive_format: Option<ArchiveFormat>,
    /// Nothing is looked at or fetched where this path exists.
    if_missing: Option<Absolute>,
    /// Refuses an archive that has more than one thing at its top.
    #[param(default = true)]
    enforce_toplevel: bool,
    /// Options for tar; `--strip-components=N` counts, those that choose a compression are not needed.
    options: Option<String>,
    /// How many names are taken off the start of each path.
    #[param(alias = "strip")]
    strip_components: Option<usize>,
    /// Whom everything belongs to: a name or a number. Unset: as it is.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group everything belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
    /// Keeps the content of files like that of the archive. Otherwise what is there is left alone.
    #[param(default)]
    overwrite: bool,
    /// When something is unpacked, removes what the directories of the archive hold besides.
    #[param(default)]
    clean: bool,
    /// A file or link of another sort gives way.
    #[param(default)]
    force: bool,
    /// Taken as Salt has it, and without effect: a diff is cut where it becomes too long, whatever is said here.
    #[allow(dead_code, reason = "the diff is limited in any case")]
    trim_output: Option<TrimOutput>,
    /// Salt keeps a copy of what it fetched; here there is none to keep.
    #[allow(dead_code, reason = "accepted as in Salt, and there is nothing to do")]
    keep_source: Option<bool>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ArchiveFormat {
    Tar,
    Zip,
}

crate::params::from_text!(ArchiveFormat, "`tar` or `zip`", |text| match text {
    "tar" => Ok(ArchiveFormat::Tar),
    "zip" => Ok(ArchiveFormat::Zip),
    "rar" => Err("`rar` cannot be unpacked; `cmd.run: unrar x …` with `creates` can".to_string()),
    other => Err(format!("`{other}` cannot be unpacked; there are `tar`, compressed or not, and `zip`")),
});

/// Accepted as a number or a truth.
#[derive(Copy, Clone, Debug)]
struct TrimOutput;

crate::params::from_text!(TrimOutput, "true, false or a number", |text| {
    match text.parse::<u32>().is_ok()
        || ["true", "false", "yes", "no"].contains(&text.to_ascii_lowercase().as_str())
    {
        true => Ok(TrimOutput),
        false => Err(format!("`{text}` is neither a number nor true or false")),
    }
});

/// How many names the options of tar take off; what else they say is refused, but for what is known from the archive itself.
fn stripped(options: &str) -> Result<usize, String> {
    let mut strip = 0;
    let mut words = options.split_whitespace();
    while let Some(word) = words.next() {
        let count = match word.split_once('=') {
            Some(("--strip-components" | "--strip", count)) => Some(count),
            None if matches!(word, "--strip-components" | "--strip") => words.next(),
            _ => None,
        };
        if let Some(count) = count {
            strip = count.parse().map_err(|_| format!("`{count}` is no number of names to strip"))?;
            continue;
        }
        let letters = word.trim_start_matches('-');
        let known = matches!(word, "--gzip" | "--bzip2" | "--xz" | "--zstd" | "--verbose")
            || (!word.starts_with("--") && letters.chars().all(|letter| "xzjJvfp".contains(letter)));
        if !known {
            return Err(format!("`{word}` is not understood; `--strip-components=N` is"));
        }
    }
    Ok(strip)
}

impl Extracted {
    fn strip(&self) -> Result<usize, String> {
        let of_options = self.options.as_deref().map_or(Ok(0), stripped)?;
        Ok(self.strip_components.unwrap_or(of_options))
    }

    fn source_hash(&self) -> SourceHash<'_> {
        SourceHash {
            hash: self.source_hash.as_deref(),
            name: self.source_hash_name.as_deref(),
            skip_verify: self.skip_verify,
        }
    }

    fn entries(&self, source: &str, archive: &[u8], content: bool) -> Result<Vec<Entry>, Fault> {
        let refused = |message: String| {
            Fault::new(FaultKind::Unsupported, format!("{source} cannot be unpacked: {message}"))
        };
        let strip = self.strip().map_err(refused)?;
        let is_zip = archive.starts_with(b"PK");
        let other = match self.archive_format {
            Some(ArchiveFormat::Tar) if is_zip => Some("it is a zip archive, not tar"),
            Some(ArchiveFormat::Zip) if !is_zip => Some("it is no zip archive"),
            _ => None,
        };
        if let Some(other) = other {
            return Err(refused(other.to_string()));
        }
        archive::entries(archive, Unpack { strip, content }).map_err(refused)
    }

    fn inspect(&self, cx: &Checking<'_>, top: &Path) -> Result<Option<TreeChange>, Fault> {
        let Some((source, packed)) = source::first(cx, &self.source)? else { return Ok(None) };
        let hash = self.source_hash();
        hash.verify(hash.wanted(cx, source)?.as_ref(), source, &packed)?;
        let listed = self.entries(source, &packed, self.overwrite)?;
        self.refuse_many_tops(source, &listed)?;
        let (uid, gid) = ownership::named(cx.host, self.user.as_deref(), self.group.as_deref())?;
        let wanted = |entry: &Entry| {
            let body = match &entry.body {
                Packed::File(content) => Body::File(Arc::clone(content)),
                Packed::Directory => Body::Directory,
                Packed::Link(target) => Body::Link(target.clone()),
            };
            Wanted { path: top.join(&entry.path), body, mode: entry.mode, uid, gid }
        };
        let directory = Wanted { path: top.to_path_buf(), body: Body::Directory, mode: None, uid, gid };
        let mut finder = self.found(cx, top, &directory, listed.iter().map(wanted))?;
        if finder.is_clean() {
            return Ok(None);
        }
        if !self.overwrite {
            let whole = self.entries(source, &packed, true)?;
            finder = self.found(cx, top, &directory, whole.iter().map(wanted))?;
        }
        if self.clean {
            let of_others = KeptPaths::below(cx, &self.path, top, true)?;
            find_strays(cx.host, top, &listed, &of_others, &mut finder)?;
        }
        let owner = ownership::wanted(cx.host, self.user.as_deref(), self.group.as_deref(), None)?;
        let made = created_dirs::missing_parents(cx.host, top, true, DIRECTORY_MODE, owner)?;
        let mut details = Details::new();
        details.insert("source".into(), source.into());
        if hash.unverified(&self.source) {
            let warning = "the source was not verified: nothing says what its digest is to be";
            details.insert("warning".into(), warning.into());
        }
        Ok(finder.finish(made, details))
    }

    fn found<'h>(
        &self,
        cx: &Checking<'h>,
        top: &Path,
        directory: &Wanted,
        wanted: impl Iterator<Item = Wanted>,
    ) -> Result<Finder<'h>, Fault> {
        let manner = Manner { replace: self.overwrite, force: self.force, show_changes: false };
        let mut finder = Finder::new(cx.host, top, manner);
        finder.want(directory)?;
        for mut wanted in wanted {
            // Who changed the mode of what is there had a reason, unless the archive is to win.
            if !self.overwrite && cx.host.stat(&wanted.path)?.is_some() {
                wanted.mode = None;
            }
            finder.want(&wanted)?;
        }
        Ok(finder)
    }

    fn refuse_many_tops(&self, source: &str, entries: &[Entry]) -> Result<(), Fault> {
        let tops: BTreeSet<_> = entries.iter().filter_map(|entry| entry.path.components().next()).collect();
        if !self.enforce_toplevel || tops.len() <= 1 {
            return Ok(());
        }
        let names: Vec<String> =
            tops.iter().take(3).map(|top| top.as_os_str().to_string_lossy().into_owned()).collect();
        let message = format!("{source} has {} things at its top: {}, …", tops.len(), names.join(", "));
        Err(Fault::new(FaultKind::Unsupported, message)
            .hint("`enforce_toplevel: false` unpacks them side by side; check that `path` is meant for that"))
    }
}

/// What lies in the directories at the top of the archive, and is not in it.
fn find_strays(
    host: &dyn HostRead,
    top: &Path,
    entries: &[Entry],
    of_others: &KeptPaths,
    finder: &mut Finder<'_>,
) -> Result<(), Fault> {
    let known: BTreeSet<PathBuf> = entries.iter().map(|entry| top.join(&entry.path)).collect();
    let directories = entries
        .iter()
        .filter(|entry| entry.body == Packed::Directory && entry.path.components().count() == 1);
    for directory in directories {
        let path = top.join(&directory.path);
        if !host.stat(&path)?.is_some_and(|meta| meta.kind == FileKind::Directory) {
            continue;
        }
        let mut strays: Vec<(PathBuf, Meta)> = Vec::new();
        let mut visit = |_: &dyn HostRead, path: &Path, meta: &Meta| {
            if !known.contains(path) && !of_others.keeps(path) {
                strays.push((path.to_path_buf(), meta.clone()));
            }
            Ok(())
        };
        let mut mounted = Vec::new();
        tree::walk(host, &path, &mut visit, &mut |path| {
            mounted.push(path.to_path_buf());
            Ok(())
        })?;
        for (path, meta) in strays {
            if !mounted.iter().any(|mounted| mounted.starts_with(&path)) {
                finder.remove(&path, &meta)?;
            }
        }
    }
    Ok(())
}

impl FileResource for Extracted {
    type Drift = TreeChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<TreeChange>, Fault> {
        if let Some(path) = &self.if_missing
            && cx.host.stat(path)?.is_some()
        {
            return Ok(None);
        }
        let path = tree::behind_links(cx.host, &self.path)?;
        tree::real_path_now(cx.host, &path, |path| self.inspect(cx, path))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        if self.source.is_empty() {
            invalid.push(Invalid::new("source", "it names no archive"));
        }
        invalid.extend(
            self.source.iter().filter_map(|source| source::invalid("source", source, Remote::Allowed)),
        );
        invalid.extend(self.source_hash().invalid(&self.source));
        invalid.extend(self.strip().err().map(|message| Invalid::new("options", message)));
        invalid
    }

    fn claims(&self) -> Claims {
        let sources = self.source.iter().map(|source| Path::new(source::local_name(source)));
        // Several archives may be unpacked in one directory: it is none of their own.
        let how: (Option<u32>, _, _) = (None, &self.user, &self.group);
        Claims::default()
            .edits(&self.path)
            .fills()
            .clears(self.clean)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .needs(sources)
            .makes_parents(true, how)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    use zester_host::HostWrite;
    let case = |mut params: serde_json::Value, promise, world: &'static str| {
        params["path"] = json!("/t");
        params.as_object_mut().unwrap().entry("source").or_insert(json!("/a.tar"));
        Case::new("archive.extracted", params, promise, move |host| {
            let processes = furnish(host, world);
            let tar = archive::tests::tar_of(&[("app/", ""), ("app/bin/run", "#!"), ("app/l", "->bin/run")]);
            let file = zester_host::NewFile { content: &tar, mode: 0o600, owner: host.me() };
            host.put_file(Path::new("/a.tar"), &file).unwrap();
            let two = archive::tests::tar_of(&[("one", "1"), ("two", "2")]);
            host.put_file(Path::new("/two.tar"), &zester_host::NewFile { content: &two, ..file }).unwrap();
            host.serve("https://host/a.tar", &tar);
            processes
        })
    };
    vec![
        case(json!({}), Promise::Converges, ""),
        case(
            json!({ "user": "web", "group": "web", "options": "--strip-components=1", "enforce_toplevel": false }),
            Promise::Converges,
            "d /t 0755",
        ),
        case(
            json!({}),
            Promise::Clean,
            "d /t 0755\nd /t/app 0700\nd /t/app/bin 0755\nf /t/app/bin/run 0600 mine\nl /t/app/l bin/run",
        ),
        case(
            json!({ "overwrite": true, "clean": true }),
            Promise::Converges,
            "d /t 0755\nd /t/app 0700\nd /t/app/bin 0755\nf /t/app/bin/run 0600 mine\nf /t/app/old 0600 x",
        ),
        case(json!({ "if_missing": "/t/done" }), Promise::Clean, "d /t 0755\nf /t/done 0644 x"),
        case(json!({ "source": "/two.tar" }), Promise::Fails, ""),
        case(json!({ "source": "/two.tar", "enforce_toplevel": false }), Promise::Converges, ""),
        case(json!({ "source": "/none.tar" }), Promise::Fails, ""),
        case(json!({ "source": "salt://run.sh" }), Promise::Fails, ""),
        case(json!({ "source": "https://host/a.tar", "skip_verify": true }), Promise::Converges, ""),
        case(
            json!({ "source": "https://host/a.tar", "source_hash": "d41d8cd98f00b204e9800998ecf8427e" }),
            Promise::Fails,
            "",
        ),
        case(json!({}), Promise::Fails, "d /t 0755\nd /o 0755\nl /t/app /o"),
    ]
}

#[cfg(test)]
mod tests {
    use super::stripped;
    use crate::laws::bind_json;
    use serde_json::json;

    #[test]
    fn options_of_tar_are_understood_or_refused() {
        for (options, strip) in
            [("--strip-components=2", 2), ("--strip 1 -z", 1), ("xzvf", 0), ("-J --verbose", 0)]
        {
            assert_eq!(stripped(options), Ok(strip), "{options}");
        }
        for options in ["--to-command=sh", "--strip-components=x", "-C /"] {
            assert!(stripped(options).is_err(), "{options}");
        }
        let params = json!({ "path": "/t", "source": "salt://a.tar", "options": "--transform=s,a,b," });
        let said = bind_json("archive.extracted", &params).err().unwrap();
        assert!(said[0].message.contains("`--transform=s,a,b,` is not understood"), "{said:?}");
    }
}
