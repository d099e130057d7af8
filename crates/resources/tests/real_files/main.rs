//! File kinds on the real file system: what a machine in memory cannot show.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::expect_used,
    reason = "tests, their helpers included"
)]

mod hardlinks;
mod links;
mod mounts;
mod race;
mod special;
mod umask;
mod xattrs;

use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;
use zester_host::process::fake::Scripted;
use zester_host::real::Real;
use zester_host::{Fault, Query};
use zester_resources::context::LeftDirs;
use zester_resources::laws::{FewFiles, MemoryBlobStore, bind_json};
use zester_resources::{Applying, Bound, Change, Checking, Drift, Reverting};

/// This machine, and a blob store in memory.
struct Bench {
    host: Real,
    blobs: MemoryBlobStore,
    processes: Scripted,
    cancel: CancellationToken,
    left: LeftDirs,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            host: Real::new(),
            blobs: MemoryBlobStore::default(),
            processes: Scripted::new(),
            cancel: CancellationToken::new(),
            left: LeftDirs::default(),
        }
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
    }

    fn check(&self, bound: &dyn Bound) -> Result<Option<Drift>, Fault> {
        let cx = Checking {
            host: &self.host,
            query: Query::through(&self.processes),
            files: &FewFiles,
            forced: None,
            dry_run: false,
            cancel: &self.cancel,
        };
        self.block_on(bound.check(&cx))
    }

    /// Keeps and acts on what a check found; the record comes back whatever happens.
    fn act(&self, bound: &dyn Bound, mut drift: Drift) -> (Result<Change, Fault>, Option<Json>) {
        if let Err(fault) = bound.save_before_image(&mut drift, &self.host, &self.blobs) {
            return (Err(fault), None);
        }
        let record = bound.undo_record(&drift).unwrap();
        let cx = Applying::new(&self.host, &self.processes, &self.cancel);
        let applied = self.block_on(bound.apply(&drift, &cx));
        let record = applied.as_ref().ok().and_then(|change| change.undo.clone()).unwrap_or(record);
        (applied, Some(record))
    }

    fn apply(&self, kind: &str, params: Json) -> (Change, Json) {
        let bound = bind(kind, params);
        let drift = self.check(&*bound).unwrap().expect("something to do");
        let (applied, record) = self.act(&*bound, drift);
        (applied.unwrap(), record.unwrap())
    }

    fn revert(&self, kind: &str, record: &Json, force: bool) -> Result<Change, Fault> {
        let cx = Reverting {
            host: &self.host,
            processes: &self.processes,
            blobs: &self.blobs,
            cancel: &self.cancel,
            force,
            left: &self.left,
        };
        self.block_on(zester_resources::revert(kind, record, &cx))
    }
}

fn bind(kind: &str, params: Json) -> Box<dyn Bound> {
    bind_json(kind, &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
}

/// Everything below a directory: sort and mode, owner, and content or target.
fn snapshot(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut rest = vec![top.to_path_buf()];
    while let Some(path) = rest.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let what = match meta.file_type() {
            sort if sort.is_symlink() => std::fs::read_link(&path).unwrap().display().to_string(),
            sort if sort.is_file() => std::fs::read_to_string(&path).unwrap(),
            sort if sort.is_dir() => {
                rest.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                String::new()
            }
            _ => String::new(),
        };
        found.insert(path, format!("{:o} {}:{} {what}", meta.mode(), meta.uid(), meta.gid()));
    }
    found
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
