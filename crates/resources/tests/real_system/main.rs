//! Kinds about the system, with its own tools: accounts, crontabs, mounts, settings of the kernel, the packet filter.
//!
//! As root, with names of their own that a guard takes away. They take turns: the books of accounts have one lock.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests, their helpers included")]

mod access;
mod accounts;
mod etc;
mod firewall_daemon;
mod kernel;
mod packages;
mod python;
mod tables;
mod version_control;

use serde_json::Value as Json;
use std::fs::File;
use std::path::Path;
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::real::Real;
use zester_host::{Fault, Query};
use zester_resources::context::LeftDirs;
use zester_resources::laws::{FewFiles, MemoryBlobStore, bind_json};
use zester_resources::{Applying, Bound, Change, Checking, Drift, Reverting};

/// This machine, with its programs.
pub(crate) struct Bench {
    host: Real,
    blobs: MemoryBlobStore,
    processes: Runner,
    cancel: CancellationToken,
    left: LeftDirs,
    runtime: tokio::runtime::Runtime,
    _turn: File,
}

/// A state, and what it has to do.
type Found = (Box<dyn Bound>, Drift);

/// What came of an apply.
pub(crate) struct Applied {
    pub(crate) change: Change,
    kind: String,
    record: Json,
}

impl Bench {
    /// Waits for its turn among the processes that test the system.
    pub(crate) fn new() -> Bench {
        let turn = File::create(std::env::temp_dir().join("zester-test-system.lock")).unwrap();
        rustix::fs::flock(&turn, rustix::fs::FlockOperation::LockExclusive).unwrap();
        Bench {
            host: Real::new(),
            blobs: MemoryBlobStore::default(),
            processes: Runner::new(),
            cancel: CancellationToken::new(),
            left: LeftDirs::default(),
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
            _turn: turn,
        }
    }

    pub(crate) fn check(&self, kind: &str, params: &Json) -> Result<Option<Found>, Fault> {
        let bound = bind_json(kind, params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
        let cx = Checking {
            host: &self.host,
            query: Query::through(&self.processes),
            files: &FewFiles,
            forced: None,
            dry_run: false,
            cancel: &self.cancel,
        };
        let drift = self.runtime.block_on(bound.check(&cx))?;
        Ok(drift.map(|drift| (bound, drift)))
    }

    /// Says what differs, as a dry run does.
    pub(crate) fn drift(&self, kind: &str, params: &Json) -> Option<String> {
        self.check(kind, params).unwrap().map(|(bound, drift)| bound.explain(&drift, false).diff)
    }

    /// Applies, and makes sure that nothing is left to do.
    pub(crate) fn apply(&self, kind: &str, params: &Json) -> Applied {
        let (bound, mut drift) = self.check(kind, params).unwrap().expect("something to do");
        bound.save_before_image(&mut drift, &self.host, &self.blobs).unwrap();
        let record = bound.undo_record(&drift).unwrap();
        let cx = Applying::new(&self.host, &self.processes, &self.cancel);
        let change =
            self.runtime.block_on(bound.apply(&drift, &cx)).unwrap_or_else(|fault| panic!("{kind}: {fault}"));
        let record = change.undo.clone().unwrap_or(record);
        assert_eq!(self.drift(kind, params), None, "{kind}: a second apply has something to do");
        Applied { change, kind: kind.to_string(), record }
    }

    pub(crate) fn revert(&self, applied: &Applied) -> Change {
        let cx = Reverting {
            host: &self.host,
            processes: &self.processes,
            blobs: &self.blobs,
            cancel: &self.cancel,
            force: false,
            left: &self.left,
        };
        let reverted = self.runtime.block_on(zester_resources::revert(&applied.kind, &applied.record, &cx));
        reverted.unwrap_or_else(|fault| panic!("{}: revert: {fault}", applied.kind))
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|directory| Path::new(directory).join(name).exists())
}

/// Runs a program, and tells whether it succeeded.
pub(crate) fn ran(words: &[&str]) -> bool {
    let output = std::process::Command::new(words[0]).args(&words[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs one test again in another process. A name that no test has any more would succeed too, with none.
pub(crate) fn passed_once(again: &mut std::process::Command) {
    let output = again.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && told.contains(" 1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs something when the test ends, however it ends.
pub(crate) struct Finally<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
