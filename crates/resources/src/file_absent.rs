//! `file.absent`: nothing at this path.

use crate::claims::Claims;
use crate::context::{Applying, BlobStore, Checking, Explanation, Reverting};
use crate::file_resource::{FileDrift, FileResource};
use crate::params::{Absolute, Invalid, params};
use crate::path_change::{PathChange, at_current_top, remove_seen, unrestored};
use crate::path_state::PathState;
use crate::tree;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::overlay::Overlay;
use zester_host::{Act, Fault, FaultKind, FileKind, HostRead, HostWrite, Meta};
use zester_model::limits::{FILE_BYTES_MAX, UNDO_BYTES_MAX};
use zester_model::outcome::Details;

/// What one removal may hold, so that it fits into the journal and can be undone.
const ENTRIES_MAX: usize = 50_000;
const BYTES_MAX: u64 = FILE_BYTES_MAX;
/// Extended attributes stand in the record itself.
const XATTRS_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Directories that no machine lives without. Removing one is a mistake in the state, whatever it says.
const NEVER: [&str; 28] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/tmp",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
];
const SHOWN_MAX: usize = 100;

/// A path at which nothing may be.
#[params(kind = "file.absent", primary = "path", manual = "file_absent.md")]
pub struct Absent {
    /// What is to go: a file, a link, or a directory with all that is inside.
    path: Absolute,
}

/// Everything that goes, parents before children.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Drift {
    steps: Vec<PathChange>,
}

fn step(host: &dyn HostRead, path: &Path, meta: &Meta) -> Result<PathChange, Fault> {
    let before = PathState::of(host, path, meta)?;
    PathChange::new(path.to_path_buf(), before, PathState::Absent).with_xattrs(host)
}

fn is_never_removed(path: &Path) -> bool {
    NEVER.iter().any(|never| Path::new(never) == path)
}

/// Adds up what is to be kept, and refuses what is too much.
struct Budget {
    entries: usize,
    bytes: u64,
    xattrs: u64,
    record: usize,
}

impl Budget {
    fn spend(&mut self, root: &Path, meta: &Meta) -> Result<(), Fault> {
        self.entries += 1;
        if meta.kind == FileKind::File {
            self.bytes = self.bytes.saturating_add(meta.size);
        }
        if self.entries <= ENTRIES_MAX && self.bytes <= BYTES_MAX {
            return Ok(());
        }
        Err(too_much(root, &format!("{ENTRIES_MAX} entries or {} MiB", BYTES_MAX >> 20)))
    }

    fn spend_record(&mut self, root: &Path, step: &PathChange) -> Result<(), Fault> {
        self.xattrs = self.xattrs.saturating_add(step.xattrs.bytes());
        if self.xattrs > XATTRS_BYTES_MAX {
            return Err(too_much(root, &format!("{} MiB of extended attributes", XATTRS_BYTES_MAX >> 20)));
        }
        self.record = self.record.saturating_add(step.record_bytes());
        if self.record > UNDO_BYTES_MAX {
            return Err(too_much(root, &format!("{} MiB of names and attributes", UNDO_BYTES_MAX >> 20)));
        }
        Ok(())
    }
}

fn too_much(root: &Path, what: &str) -> Fault {
    let message =
        format!("{} holds more than {what}, which is too much to be kept for a revert", root.display());
    let hint = "if it need not come back, remove it with `cmd.run: rm -rf …`";
    Fault::new(FaultKind::Unsupported, message).hint(hint)
}

fn refuse_mount(host: &dyn HostRead, path: &Path) -> Result<(), Fault> {
    match host.is_mount_point(path)? {
        true => Err(mounted(path)),
        false => Ok(()),
    }
}

fn mounted(path: &Path) -> Fault {
    let message = format!("{} is a mount point, and what is mounted there is not removed", path.display());
    Fault::new(FaultKind::Unsupported, message).hint("unmount it first, if it is to go")
}

impl Absent {
    /// Asked again for the place that the links inside the path lead to.
    fn inspect(&self, host: &dyn HostRead, top: &Path) -> Result<Option<Drift>, Fault> {
        let Some(meta) = host.stat(top)? else { return Ok(None) };
        if is_never_removed(top) {
            let message =
                format!("{} leads to {}, which is never removed", self.path.display(), top.display());
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        refuse_mount(host, top)?;
        let mut budget = Budget { entries: 0, bytes: 0, xattrs: 0, record: 0 };
        budget.spend(top, &meta)?;
        host.may(top, Act::Put)?;
        let first = step(host, top, &meta)?;
        budget.spend_record(top, &first)?;
        let mut steps = vec![first];
        if meta.kind == FileKind::Directory {
            let mut writable = PathBuf::new();
            let mut visit = |host: &dyn HostRead, path: &Path, meta: &Meta| {
                budget.spend(top, meta)?;
                if meta.kind == FileKind::File {
                    refuse_mount(host, path)?;
                }
                if path.parent() != Some(&writable) {
                    host.may(path, Act::Put)?;
                    writable = path.parent().map(Path::to_path_buf).unwrap_or_default();
                }
                let step = step(host, path, meta)?;
                budget.spend_record(top, &step)?;
                steps.push(step);
                Ok(())
            };
            tree::walk(host, top, &mut visit, &mut |path| Err(mounted(path)))?;
        }
        Ok(Some(Drift { steps }))
    }
}

impl Drift {
    fn act(&self, host: &dyn HostWrite) -> Result<(), Fault> {
        self.steps.iter().rev().try_for_each(|step| remove_seen(host, &step.path, &step.before))
    }
}

impl FileResource for Absent {
    type Drift = Drift;

    fn find(&self, cx: &Checking<'_>) -> Result<Option<Drift>, Fault> {
        tree::real_path_now(cx.host, &self.path, |path| self.inspect(cx.host, path))
    }

    fn claims(&self) -> Claims {
        Claims::of(Claims::path(&self.path, "absent"))
    }

    fn validate(&self) -> Vec<Invalid> {
        let climbs = self.path.components().any(|part| part == std::path::Component::ParentDir);
        let message = match self.path.to_str() {
            Some(path) if is_never_removed(&self.path) => format!("{path} is never removed"),
            _ if climbs => "a path to remove may not hold `..`".to_string(),
            _ => return Vec::new(),
        };
        vec![Invalid { parameter: "path", message, hint: None }]
    }
}

impl FileDrift for Drift {
    fn explain(&self, done: bool) -> Explanation {
        let verb = if done { "removed" } else { "would remove" };
        let shown = self.steps.iter().take(SHOWN_MAX).map(|step| format!("{verb} {}\n", step.path.display()));
        let mut diff: String = shown.collect();
        if self.steps.len() > SHOWN_MAX {
            diff.push_str(&format!("[... {} more ...]\n", self.steps.len() - SHOWN_MAX));
        }
        let mut details = Details::new();
        details.insert("removed".into(), self.steps.len().into());
        let lost: Vec<(String, String)> = self
            .steps
            .iter()
            .filter_map(|step| step.unrestorable().map(|why| (step.path.display().to_string(), why)))
            .collect();
        diff.extend(lost.iter().take(SHOWN_MAX).map(|(_, why)| why.as_str()));
        let lost: Vec<String> = lost.into_iter().map(|(path, _)| path).collect();
        if !lost.is_empty() {
            details.insert("unrestorable".into(), lost.into());
        }
        Explanation { diff, details }
    }

    fn save_before_image(&mut self, look: &dyn HostRead, blobs: &dyn BlobStore) -> Result<(), Fault> {
        for PathChange { path, before, .. } in &mut self.steps {
            before.keep(path, look, blobs)?;
        }
        Ok(())
    }

    async fn apply(&self, cx: &Applying<'_>) -> Result<Option<Drift>, Fault> {
        self.act(cx.host).map(|()| None)
    }

    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        self.act(overlay)
    }

    fn revert(&self, cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
        let Some(top) = self.steps.first() else { return Ok(Vec::new()) };
        let steps = at_current_top(&self.steps, &top.path, cx)?;
        let mut lines = Vec::new();
        let mut lost: Vec<(&Path, Fault)> = Vec::new();
        for step in steps.iter() {
            // Parents come before children: nothing can be put into a directory that did not come back.
            // One that lacks an attribute did (the only thing that is not supported of a directory).
            let above = lost.last().filter(|(_, fault)| fault.kind != FaultKind::Unsupported);
            if above.is_some_and(|(above, _)| step.path.starts_with(above)) {
                continue;
            }
            match step.revert_here(cx) {
                Ok(line) => lines.extend(line),
                Err(_) if cx.force && !step.before.restorable() => {}
                Err(fault) => lost.push((&step.path, fault)),
            }
        }
        match unrestored(lost, &lines, self.steps.len()) {
            None => Ok(lines),
            Some(fault) => Err(fault),
        }
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("file.absent", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "path": "/nothing" }), Promise::Clean, ""),
        case(json!({ "path": "/no/parent" }), Promise::Clean, ""),
        case(json!({ "path": "/file" }), Promise::Converges, "f /file 0604 text"),
        case(json!({ "path": "/link" }), Promise::Converges, "d /there 0755\nl /link there"),
        case(
            json!({ "path": "/t" }),
            Promise::Converges,
            "d /t 0755\nd /t/sub 0700\nf /t/sub/file 0600 text\nf /t/one 0644 one\nl /t/link /t/sub\nd /t/empty 0711\np /t/pipe 0620",
        ),
        case(
            json!({ "path": "/t" }),
            Promise::Converges,
            "d /t 0750\nf /t/f 0640 text\np /t/pipe 0620\nx /t system.posix_acl_default list\nx /t/f user.note text\nx /t/f system.posix_acl_access list\nx /t/pipe security.selinux label",
        ),
        case(json!({ "path": "/l/f" }), Promise::Converges, "d /d 0755\nf /d/f 0604 text\nl /l d"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_managed::Bench;
    use crate::laws::bind_json;
    use serde_json::json;
    use zester_rule::rule;

    #[tokio::test]
    #[rule("S-31")]
    async fn s31_a_link_leads_no_removal_to_what_a_machine_lives_by() {
        let things = "d /srv 0755\nd /srv/app 0755\nd /d 0755\nd /usr 0755\nd /usr/sbin 0755";
        let bench = Bench::of("file.absent", things);
        bench.host.put_link("/d/root".as_ref(), "/".as_ref(), bench.host.me()).unwrap();
        for (path, leads_to) in [("/d/root/srv", "/srv"), ("/d/root/d/root/usr/sbin", "/usr/sbin")] {
            let bound = bind_json("file.absent", &json!({ "path": path })).ok().unwrap();
            let fault = bench.check(&*bound).await.err().expect(path);
            assert_eq!(fault.message, format!("{path} leads to {leads_to}, which is never removed"));
        }
        for path in ["/usr/sbin", "/usr/share", "/usr/local"] {
            assert!(bind_json("file.absent", &json!({ "path": path })).is_err(), "{path}");
        }
        bench.apply(json!({ "path": "/d/root/srv/app" })).await;
    }

    #[tokio::test]
    #[rule("S-30", "S-31")]
    async fn s30_what_no_record_can_hold_is_refused_in_the_check() {
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap().join("t");
        let name = "n".repeat(250);
        let deep = (0..12).fold(top.clone(), |above, _| above.join(&name));
        std::fs::create_dir_all(&deep).unwrap();
        // Each name has 3 kB with its directories: 15 MiB hold 5,200 of them at most.
        for number in 0..5_300 {
            std::fs::write(deep.join(number.to_string()), "").unwrap();
        }
        let bench = Bench::on("file.absent", std::sync::Arc::new(zester_host::real::Real::new()));
        let bound = bind_json("file.absent", &json!({ "path": top })).ok().unwrap();
        let fault = bench.check(&*bound).await.err().unwrap();
        assert!(fault.message.contains("t holds more than 15 MiB of names and attributes"), "{fault}");
        assert!(fault.hint.is_some());
        let closed = json!({ "path": top, "file_mode": "0600", "recurse": ["mode"] });
        let bound = bind_json("file.directory", &closed).ok().unwrap();
        let fault = bench.check(&*bound).await.err().unwrap();
        assert!(fault.message.contains("paths of more than 15 MiB"), "{fault}");
        assert!(fault.hint.is_some());
    }

    #[tokio::test]
    #[rule("S-31")]
    async fn s31_the_record_is_as_long_as_the_check_reckoned() {
        let bench = Bench::of("file.absent", "d /t 0755\nf /t/f 0644 text\nl /t/l f\nf /t/g 0644 other");
        let (_, record) = bench.apply(json!({ "path": "/t" })).await;
        let steps: Vec<crate::path_change::PathChange> =
            serde_json::from_value(record["steps"].clone()).unwrap();
        let without_kept = |mut step: crate::path_change::PathChange| {
            if let crate::path_state::PathState::File { kept, .. } = &mut step.before {
                *kept = None;
            }
            step.record_bytes()
        };
        let reckoned: usize = steps.into_iter().map(without_kept).sum();
        // Two files, each with two hashes in the list of objects.
        let objects = 4 * (64 + 3);
        assert_eq!(reckoned, record["steps"].to_string().len() - 1 + objects);
    }

    #[tokio::test]
    #[rule("S-31")]
    async fn s31_what_was_removed_comes_back_where_its_directory_is_now() {
        use std::fs;
        use std::os::unix::fs::symlink;
        let temp = tempfile::tempdir().unwrap();
        let top = temp.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("app/t/sub")).unwrap();
        fs::write(top.join("app/t/sub/f"), "text").unwrap();
        let bench = Bench::on("file.absent", std::sync::Arc::new(zester_host::real::Real::new()));
        let (_, record) = bench.apply(json!({ "path": top.join("app/t") })).await;
        fs::rename(top.join("app"), top.join("moved")).unwrap();
        symlink("moved", top.join("app")).unwrap();
        assert!(bench.revert(&record, false).await.unwrap());
        assert_eq!(fs::read_to_string(top.join("moved/t/sub/f")).unwrap(), "text");
        assert!(!bench.revert(&record, false).await.unwrap(), "nothing is left to do");
        // A link inside what was removed is followed nowhere.
        fs::remove_file(top.join("moved/t/sub/f")).unwrap();
        fs::rename(top.join("moved/t/sub"), top.join("other")).unwrap();
        symlink(top.join("other"), top.join("moved/t/sub")).unwrap();
        assert!(bench.revert(&record, false).await.is_err());
        assert_eq!(fs::read_dir(top.join("other")).unwrap().count(), 0);
    }
}
