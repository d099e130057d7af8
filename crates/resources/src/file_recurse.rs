//! `file.recurse`: a directory like one of the states directory.

use crate::claims::Claims;
use crate::context::{Checking, SourceEntry, SourceSort};
use crate::created_dirs;
use crate::file_resource::FileResource;
use crate::kept_paths::KeptPaths;
use crate::ownership;
use crate::params::{Absolute, FileMode, Invalid, Mode, PathPattern, Template, params};
use crate::source::{self, Remote};
use crate::tree;
use crate::tree_change::{Body, Finder, Manner, TreeChange, Wanted};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zester_host::{Fault, FaultKind, FileKind, HostRead, Meta};
use zester_model::limits::FILE_BYTES_MAX;
use zester_model::outcome::Details;

const DIRECTORY_MODE: u32 = 0o755;

/// A directory with what another holds.
#[params(kind = "file.recurse", primary = "path", manual = "file_recurse.md")]
pub struct Recurse {
    /// Where the directory is.
    path: Absolute,
    /// The directory to take it from: `salt://…`, a path below the states directory, or an absolute path on this machine.
    source: String,
    /// Removes what the source does not hold, and no other state of the run decides about.
    #[param(default)]
    clean: bool,
    /// Whom everything belongs to: a name or a number. Unset: as it is.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group everything belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
    /// Permissions of files, like `0644`; `keep` takes those of the source. Unset: as they are, `0644` for new ones.
    file_mode: Option<FileMode>,
    /// Permissions of directories. Unset: as they are, `0755` for new ones.
    dir_mode: Option<Mode>,
    /// Which files are taken: a glob, or `E@` and a regular expression, of the path below the source. Unset: all.
    #[param(list, default)]
    include_pat: Vec<PathPattern>,
    /// Which files are left out; `clean` leaves them alone too.
    #[param(list, default)]
    exclude_pat: Vec<PathPattern>,
    /// How many directories deep it goes; 0 for the files of the source alone. Unset: all.
    maxdepth: Option<usize>,
    /// Makes directories that hold no file too.
    #[param(default)]
    include_empty: bool,
    /// Makes links where the source has links. Otherwise what they lead to is copied.
    #[param(default)]
    keep_symlinks: bool,
    /// A file in the place of a link gives way, and a link in the place of a file.
    #[param(default)]
    force_symlinks: bool,
    /// `jinja` renders every file as a template.
    template: Option<Template>,
    /// Variables for the templates.
    #[param(default)]
    context: Details,
    /// Variables for the templates that `context` does not set.
    #[param(default)]
    defaults: Details,
    /// `false` leaves the content of existing files alone.
    #[param(default = true)]
    replace: bool,
    /// Salt keeps a copy of what it fetched; here there is none to keep.
    #[allow(dead_code, reason = "accepted as in Salt, and there is nothing to do")]
    keep_source: Option<bool>,
    /// `false` does not show what changes in files.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

impl Recurse {
    fn local(&self) -> Option<&Path> {
        let path = source::local_name(&self.source);
        path.starts_with('/').then(|| Path::new(path))
    }

    fn listed(&self, cx: &Checking<'_>) -> Result<Vec<SourceEntry>, Fault> {
        match self.local() {
            Some(directory) => local_entries(cx.host, directory),
            None => cx.files.list(&self.source).map_err(|fault| match fault.kind {
                FaultKind::NotFound => Fault { kind: FaultKind::Unsupported, ..fault },
                _ => fault,
            }),
        }
    }

    fn is_meant(&self, path: &str) -> bool {
        let depth = path.matches('/').count();
        self.maxdepth.is_none_or(|most| depth <= most)
            && (self.include_pat.is_empty() || self.include_pat.iter().any(|pattern| pattern.matches(path)))
            && !self.is_excluded(path)
    }

    fn is_excluded(&self, path: &str) -> bool {
        // What lies in a directory that is left out is left out.
        let parts = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path]);
        parts.into_iter().any(|part| self.exclude_pat.iter().any(|pattern| pattern.matches(part)))
    }

    fn content(&self, cx: &Checking<'_>, path: &str, is_link: bool) -> Result<Vec<u8>, Fault> {
        let name = format!("{}/{path}", self.source.trim_end_matches('/'));
        let content = match self.local() {
            // What the source holds may be somebody else's: a link in it leads root nowhere but to what is theirs.
            Some(directory) => {
                let mut file = tree::behind_links(cx.host, &cx.host.real_path(directory)?)?.join(path);
                if is_link {
                    file = tree::behind_links(cx.host, &file)?;
                }
                cx.host.without_links().read(&file, FILE_BYTES_MAX)?
            }
            None => cx.files.read(&name)?,
        };
        match self.template {
            None => Ok(content),
            Some(Template::Jinja) => {
                source::rendered(cx, &name, content, &self.defaults, &self.context).map(String::into_bytes)
            }
        }
    }

    /// Everything that is to be there, parents before children.
    fn wanted(&self, cx: &Checking<'_>, top: &Path) -> Result<Vec<Wanted>, Fault> {
        let entries = self.listed(cx)?;
        let (uid, gid) = ownership::named(cx.host, self.user.as_deref(), self.group.as_deref())?;
        let wanted = |path: PathBuf, body: Body, mode: Option<u32>| Wanted { path, body, mode, uid, gid };
        let dir_mode = self.dir_mode.map(|mode| mode.0);
        let mut files = Vec::new();
        let mut directories: BTreeSet<PathBuf> = BTreeSet::new();
        for SourceEntry { path, sort } in &entries {
            let at = top.join(path);
            if !self.is_meant(path) {
                continue;
            }
            let above = |at: &Path| -> Vec<PathBuf> {
                at.ancestors().skip(1).take_while(|above| *above != top).map(Path::to_path_buf).collect()
            };
            match sort {
                SourceSort::Directory { .. } => {
                    if self.include_empty {
                        directories.extend(above(&at));
                        directories.insert(at);
                    }
                    continue;
                }
                SourceSort::Link { target } if self.keep_symlinks => {
                    directories.extend(above(&at));
                    files.push(wanted(at, Body::Link(PathBuf::from(target)), None));
                }
                // What a link to a directory leads to is not entered.
                SourceSort::Link { .. } if self.leads_to_directory(cx, path)? => {}
                SourceSort::File { .. } | SourceSort::Link { .. } => {
                    let mode = match (self.file_mode, sort) {
                        (Some(FileMode::Bits(mode)), _) => Some(mode.0),
                        (Some(FileMode::Keep), SourceSort::File { mode }) => Some(*mode),
                        _ => None,
                    };
                    directories.extend(above(&at));
                    let is_link = matches!(sort, SourceSort::Link { .. });
                    files.push(wanted(at, Body::File(self.content(cx, path, is_link)?.into()), mode));
                }
            }
        }
        let mut all = vec![wanted(top.to_path_buf(), Body::Directory, dir_mode)];
        all.extend(directories.into_iter().map(|path| wanted(path, Body::Directory, dir_mode)));
        all.extend(files);
        Ok(all)
    }

    fn leads_to_directory(&self, cx: &Checking<'_>, path: &str) -> Result<bool, Fault> {
        match self.local() {
            Some(directory) => {
                let meta = cx.host.stat_followed(&directory.join(path))?;
                Ok(meta.is_some_and(|meta| meta.kind == FileKind::Directory))
            }
            None => Ok(cx.files.list(&format!("{}/{path}", self.source.trim_end_matches('/'))).is_ok()),
        }
    }

    fn inspect(&self, cx: &Checking<'_>, top: &Path) -> Result<Option<TreeChange>, Fault> {
        let wanted = self.wanted(cx, top)?;
        let owner = ownership::wanted(cx.host, self.user.as_deref(), self.group.as_deref(), None)?;
        let dir_mode = self.dir_mode.map_or(DIRECTORY_MODE, |mode| mode.0);
        let made = created_dirs::missing_parents(cx.host, top, true, dir_mode, owner)?;
        let manner =
            Manner { replace: self.replace, force: self.force_symlinks, show_changes: self.show_changes };
        let mut finder = Finder::new(cx.host, top, manner);
        for wanted in &wanted {
            finder.want(wanted)?;
        }
        if self.clean && cx.host.stat(top)?.is_some_and(|meta| meta.kind == FileKind::Directory) {
            let kept: BTreeSet<&Path> = wanted.iter().flat_map(|wanted| wanted.path.ancestors()).collect();
            self.find_strays(cx, top, &kept, &mut finder)?;
        }
        Ok(finder.finish(made, Details::new()))
    }

    fn find_strays(
        &self,
        cx: &Checking<'_>,
        top: &Path,
        kept: &BTreeSet<&Path>,
        finder: &mut Finder<'_>,
    ) -> Result<(), Fault> {
        let of_others = KeptPaths::below(cx, &self.path, top, true)?;
        let below = |path: &Path| path.strip_prefix(top).ok().and_then(Path::to_str).map(str::to_string);
        let mut found: Vec<(PathBuf, Meta)> = Vec::new();
        let mut spared: Vec<PathBuf> = Vec::new();
        let mut visit = |_: &dyn HostRead, path: &Path, meta: &Meta| {
            let name = below(path);
            let excluded = of_others.keeps(path)
                || name.as_ref().is_none_or(|name| {
                    self.is_excluded(name)
                        || self.maxdepth.is_some_and(|most| name.matches('/').count() > most)
                });
            match excluded {
                true => spared.push(path.to_path_buf()),
                false if !kept.contains(path) => found.push((path.to_path_buf(), meta.clone())),
                false => {}
            }
            Ok(())
        };
        let mut mounted = Vec::new();
        tree::walk(cx.host, top, &mut visit, &mut |path| {
            mounted.push(path.to_path_buf());
            Ok(())
        })?;
        spared.append(&mut mounted);
        for (path, meta) in found {
            if !spared.iter().any(|spared| spared.starts_with(&path)) {
                finder.remove(&path, &meta)?;
            }
        }
        Ok(())
    }
}

/// A directory of this machine, as the states directory would be listed.
fn local_entries(host: &dyn HostRead, directory: &Path) -> Result<Vec<SourceEntry>, Fault> {
    match host.stat_followed(directory)?.map(|meta| meta.kind) {
        Some(FileKind::Directory) => {}
        Some(_) => {
            let message = format!("{} is not a directory", directory.display());
            return Err(Fault::new(FaultKind::InTheWay, message));
        }
        None => {
            let message = format!("the directory {} does not exist", directory.display());
            return Err(Fault::new(FaultKind::NotFound, message));
        }
    }
    let real = tree::behind_links(host, &host.real_path(directory)?)?;
    let mut entries = Vec::new();
    let mut visit = |host: &dyn HostRead, path: &Path, meta: &Meta| {
        let name = path.strip_prefix(&real).ok().and_then(Path::to_str);
        let Some(name) = name else {
            let message = format!("{} has a name that is not UTF-8", path.display());
            return Err(Fault::new(FaultKind::Unsupported, message));
        };
        let sort = match meta.kind {
            FileKind::File => SourceSort::File { mode: meta.mode },
            FileKind::Directory => SourceSort::Directory { mode: meta.mode },
            FileKind::Link => {
                SourceSort::Link { target: host.read_link(path)?.to_string_lossy().into_owned() }
            }
            FileKind::Special(what) => {
                let message = format!("{} is {}, and cannot be copied", path.display(), what.article());
                return Err(Fault::new(FaultKind::Unsupported, message));
            }
        };
        entries.push(SourceEntry { path: name.to_string(), sort });
        Ok(())
    };
    tree::walk(host, &real, &mut visit, &mut |_| Ok(()))?;
    Ok(entries)
}

impl FileResource for Recurse {
    type Drift = TreeChange;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<TreeChange>, Fault> {
        let path = tree::behind_links(cx.host, &self.path)?;
        tree::real_path_now(cx.host, &path, |path| self.inspect(cx, path))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = ownership::invalid(self.user.as_deref(), self.group.as_deref());
        invalid.extend(source::invalid("source", &self.source, Remote::Refused));
        if self.path.parent().is_none() {
            invalid.push(Invalid::new("path", "`/` cannot be made like another directory"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let owned = Claims::path(&self.path, "a directory")
            .with("source", Some(&self.source))
            .with("user", self.user.as_ref())
            .with("group", self.group.as_ref())
            .with("mode", self.dir_mode)
            .with("file_mode", self.file_mode)
            .with("clean", Some(self.clean));
        let how: (Option<Mode>, _, _) = (self.dir_mode, &self.user, &self.group);
        Claims::of(owned)
            .follows(true)
            .fills()
            .clears(self.clean)
            .accounts(self.user.as_deref(), self.group.as_deref())
            .takes(self.local())
            .makes_parents(true, how)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    const SOURCE: &str =
        "d /s 0755\nd /s/sub 0700\nd /s/empty 0755\nf /s/a 0640 A\nf /s/sub/b 0600 B\nl /s/link a";
    let case = |mut params: serde_json::Value, promise, world: &'static str| {
        params["path"] = json!("/t");
        params["source"] = json!("/s");
        Case::new("file.recurse", params, promise, move |host| furnish(host, &format!("{SOURCE}\n{world}")))
    };
    let states = Case::new(
        "file.recurse",
        json!({ "path": "/t/deep", "source": "salt://tree", "dir_mode": "0750", "user": "web" }),
        Promise::Converges,
        |host| furnish(host, ""),
    );
    let missing =
        Case::new("file.recurse", json!({ "path": "/t", "source": "salt://nope" }), Promise::Fails, |host| {
            furnish(host, "")
        });
    vec![
        states,
        missing,
        case(json!({}), Promise::Converges, ""),
        case(
            json!({ "include_empty": true, "keep_symlinks": true, "file_mode": "keep" }),
            Promise::Converges,
            "",
        ),
        case(
            json!({ "file_mode": "0600", "user": "web", "group": "web" }),
            Promise::Converges,
            "d /t 0755\nf /t/a 0644 A\nf /t/mine 0644 x",
        ),
        case(
            json!({ "clean": true }),
            Promise::Converges,
            "d /t 0755\nd /t/old 0700\nf /t/old/x 0604 x\nf /t/a 0644 A",
        ),
        case(
            json!({ "clean": true, "exclude_pat": "old" }),
            Promise::Clean,
            "d /t 0755\nd /t/sub 0755\nd /t/old 0700\nf /t/old/x 0604 x\nf /t/a 0644 A\nf /t/sub/b 0644 B\nf /t/link 0644 A",
        ),
        case(json!({ "replace": false, "include_pat": "a" }), Promise::Clean, "d /t 0755\nf /t/a 0644 other"),
        case(json!({}), Promise::Fails, "f /t 0644 file"),
        case(json!({}), Promise::Fails, "d /t 0755\nd /t/a 0755"),
        case(json!({ "force_symlinks": true }), Promise::Converges, "d /t 0755\nl /t/a elsewhere"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_managed::Bench;
    use crate::laws::bind_json;
    use serde_json::{Value as Json, json};
    use zester_host::{FaultKind, FileKind, NewFile, Owner};

    fn there(bench: &Bench, path: &str) -> bool {
        bench.host.stat(path.as_ref()).unwrap().is_some()
    }

    #[tokio::test]
    async fn patterns_say_what_is_taken() {
        let world = "d /s 0755\nd /s/sub 0755\nf /s/a.conf 0644 a\nf /s/b.txt 0644 b\nf /s/sub/c.conf 0644 c\nf /s/.git 0644 g";
        let taken = |params: Json| async move {
            let bench = Bench::of("file.recurse", world);
            let mut params = params;
            params["path"] = json!("/t");
            params["source"] = json!("/s");
            bench.apply(params).await;
            ["a.conf", "b.txt", "sub/c.conf", ".git"]
                .into_iter()
                .filter(|name| there(&bench, &format!("/t/{name}")))
                .collect::<Vec<_>>()
        };
        assert_eq!(taken(json!({ "include_pat": "*.conf" })).await, ["a.conf", "sub/c.conf"]);
        assert_eq!(taken(json!({ "include_pat": "E@^[ab]" })).await, ["a.conf", "b.txt"]);
        assert_eq!(taken(json!({ "exclude_pat": ["E@\\.git", "*.txt"] })).await, ["a.conf", "sub/c.conf"]);
        assert_eq!(taken(json!({ "exclude_pat": "sub", "maxdepth": 5 })).await, ["a.conf", "b.txt", ".git"]);
        assert_eq!(taken(json!({ "maxdepth": 0 })).await, ["a.conf", "b.txt", ".git"]);
    }

    #[tokio::test]
    async fn links_become_what_they_lead_to_or_stay_links() {
        let world = "d /s 0755\nd /s/d 0755\nf /s/d/x 0644 x\nf /s/a 0644 A\nl /s/l a\nl /s/ld d";
        let bench = Bench::of("file.recurse", world);
        bench.apply(json!({ "path": "/t", "source": "/s" })).await;
        assert_eq!(bench.host.stat("/t/l".as_ref()).unwrap().unwrap().kind, FileKind::File);
        assert!(!there(&bench, "/t/ld"));
        let bench = Bench::of("file.recurse", world);
        bench.apply(json!({ "path": "/t", "source": "/s", "keep_symlinks": true })).await;
        assert_eq!(bench.host.read_link("/t/ld".as_ref()).unwrap().to_str(), Some("d"));
    }

    #[tokio::test]
    async fn root_reads_through_no_link_of_somebody_else_what_is_not_theirs() {
        let bench =
            Bench::of("file.recurse", "d /s 0755\nf /own 0600 mine\nl /s/own /own\nl /s/secret /etc-shadow");
        let file = NewFile { content: b"root's", mode: 0o600, owner: Owner { uid: 0, gid: 0 } };
        bench.host.put_file("/etc-shadow".as_ref(), &file).unwrap();
        let all = json!({ "path": "/t", "source": "/s" });
        let bound = bind_json("file.recurse", &all).ok().unwrap();
        let fault = bench.check(&*bound).await.err().unwrap();
        let told = "/s/secret is a link of user 7 that leads to /etc-shadow, which is not theirs";
        assert_eq!((fault.kind, fault.message.as_str()), (FaultKind::InTheWay, told));
        bench.apply(json!({ "path": "/t", "source": "/s", "exclude_pat": "secret" })).await;
        assert!(there(&bench, "/t/own") && !there(&bench, "/t/secret"));
    }

    #[tokio::test]
    async fn a_link_inside_leads_no_file_elsewhere() {
        let world = "d /s 0755\nd /s/d 0755\nf /s/d/x 0644 x\nd /t 0755\nd /other 0755\nl /t/d /other";
        let bench = Bench::of("file.recurse", world);
        let bound = bind_json("file.recurse", &json!({ "path": "/t", "source": "/s" })).ok().unwrap();
        let fault = bench.check(&*bound).await.err().unwrap();
        assert!(fault.message.contains("/t/d is a link, and a directory is to be there"), "{fault}");
    }

    #[test]
    fn what_cannot_be_a_source_is_refused() {
        for source in ["https://host/x", "salt://../x"] {
            assert!(bind_json("file.recurse", &json!({ "path": "/t", "source": source })).is_err());
        }
        let bad = json!({ "path": "/t", "source": "salt://x", "include_pat": "E@(" });
        assert!(bind_json("file.recurse", &bad).is_err());
    }
}
