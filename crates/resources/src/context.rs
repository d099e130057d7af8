//! What a kind is given to look, to act and to undo with, and what it gives back.
//!
//! The flow of one state is always the same. A check looks at the machine and returns a *drift*: what differs, enough to
//! explain it, to apply it and to undo it. A dry run stops there. Otherwise what apply would destroy is saved, the drift is
//! written to the journal, apply acts on exactly that drift, and one day a revert may get it back. Because check and apply
//! share the drift, they cannot disagree.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::{BoxFuture, Fault, FaultKind, HostRead, HostWrite, OutputSink, Processes, Query};
use zester_model::outcome::Details;
use zester_secret::Revealed;

/// Why a state is to act whatever it finds (S-14).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Forced {
    /// A state that it watches changed, or its refresh was still pending.
    Watch,
    /// It is a prerequisite of something that is about to change.
    Prereq,
}

/// Files of the states dir and templates, as far as a resource may ask for them.
pub trait StateFileSource: Send + Sync {
    /// Content behind `salt://…`, `zester://…` or a path below the states dir.
    fn read(&self, uri: &str) -> Result<Vec<u8>, Fault>;
    /// Renders a Jinja template with facts, settings and the given context.
    fn render(&self, name: &str, text: &str, context: &Details) -> Result<String, Fault>;
    /// A value of the settings, `a:b:c`.
    fn setting(&self, key: &str) -> Option<serde_json::Value>;
    /// A fact of this machine, `a:b:c`.
    fn fact(&self, _key: &str) -> Option<serde_json::Value> {
        None
    }
    /// The permissions of a file of the states dir.
    fn mode(&self, uri: &str) -> Result<u32, Fault> {
        Err(Fault::new(FaultKind::NotFound, format!("there is no file {uri}")))
    }
    /// All that lies below a directory of the states dir, sorted by path.
    fn list(&self, uri: &str) -> Result<Vec<SourceEntry>, Fault> {
        Err(Fault::new(FaultKind::NotFound, format!("there is no directory {uri}")))
    }
    /// YAML as state files have it.
    fn parse_yaml(&self, _text: &str) -> Result<serde_json::Value, Fault> {
        Err(Fault::new(FaultKind::Unsupported, "YAML cannot be read here"))
    }
    /// The same, written.
    fn to_yaml(&self, _value: &serde_json::Value) -> Result<String, Fault> {
        Err(Fault::new(FaultKind::Unsupported, "YAML cannot be written here"))
    }
    /// Paths below a directory that states of this run decide about, edit or need, each from the directory on.
    fn managed_below(&self, _directory: &Path) -> Result<Vec<PathBuf>, Fault> {
        Ok(Vec::new())
    }
    /// How many states of this run put things that only they know into a directory, or into one above it, or take all that lies
    /// there. All its names count as one.
    fn fillers_of(&self, _names: &[&Path]) -> usize {
        0
    }
    /// Content as it is to be written: with the secrets that its placeholders stand for (D-15).
    fn reveal(&self, content: Vec<u8>) -> Result<Revealed, Fault> {
        Ok(content.into())
    }
}

/// Something below a directory of the states dir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceEntry {
    /// From the directory on.
    pub path: String,
    pub sort: SourceSort,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSort {
    File {
        mode: u32,
    },
    Directory {
        mode: u32,
    },
    /// A link, and where it points.
    Link {
        target: String,
    },
}

/// What a check may use. Nothing in it can change the machine.
pub struct Checking<'a> {
    pub host: &'a dyn HostRead,
    /// For the questions that only a program can answer (`dpkg-query`), and for nothing else.
    pub query: Query<'a>,
    pub files: &'a dyn StateFileSource,
    pub forced: Option<Forced>,
    /// A dry run: what only acting can reveal (a missing `cwd`, program or user of a command) is no failure
    /// yet (S-30).
    pub dry_run: bool,
    pub cancel: &'a CancellationToken,
}

/// What an apply may use. Paths are real ones here: nothing in it follows a link inside a path. What it alters through
/// `host` before it fails is noticed by itself; whoever acts by commands says so with [`Fault::touched`] or
/// [`Fault::having_done`] (S-43).
pub struct Applying<'a> {
    pub host: &'a dyn HostWrite,
    /// For what is gone again before the apply ends, and so alters nothing.
    pub scratch: &'a dyn HostWrite,
    pub processes: &'a dyn Processes,
    pub cancel: &'a CancellationToken,
    /// The state's `check_cmd`, where its kind has it pass first.
    pub candidate_check: Option<&'a dyn CandidateCheck>,
    /// Takes each line of output while a command runs, for whoever watches.
    pub live: Option<OutputSink>,
    /// Takes each line that is to be logged.
    pub log: Option<OutputSink>,
    /// Where events go; none where nobody takes them.
    pub events: Option<&'a dyn EventSender>,
}

impl<'a> Applying<'a> {
    /// Nobody watches.
    pub fn new(
        host: &'a dyn HostWrite,
        processes: &'a dyn Processes,
        cancel: &'a CancellationToken,
    ) -> Applying<'a> {
        Applying {
            host,
            scratch: host,
            processes,
            cancel,
            candidate_check: None,
            live: None,
            log: None,
            events: None,
        }
    }

    /// The same for whoever acts, who follows no link inside a path. Nobody begins once it is cancelled.
    pub(crate) fn acting(&self) -> Result<Applying<'a>, Fault> {
        if self.cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        Ok(Applying {
            host: self.host.acting(),
            scratch: self.scratch.acting(),
            live: self.live.clone(),
            log: self.log.clone(),
            ..*self
        })
    }

    /// Where the output of a command goes while it runs; `logged` by the user's wish.
    pub fn output(&self, logged: bool) -> Option<OutputSink> {
        match (self.live.clone(), self.log.clone().filter(|_| logged)) {
            (Some(live), Some(log)) => Some(Arc::new(move |line: &str| {
                live(line);
                log(line);
            })),
            (live, log) => live.or(log),
        }
    }
}

/// Sends events to the masters.
pub trait EventSender: Send + Sync {
    /// Sends one and waits until it is stored: its id, or why it was not sent.
    fn send<'a>(
        &'a self,
        tag: &'a str,
        data: &'a serde_json::Map<String, serde_json::Value>,
    ) -> BoxFuture<'a, Result<String, Fault>>;
}

/// The `check_cmd` of a state, for kinds that have it pass before anything is put in place (S-43).
pub trait CandidateCheck: Send + Sync {
    /// Runs every command with the path of the candidate appended. The fault names the one that did not pass.
    fn pass<'a>(&'a self, candidate: &'a Path) -> BoxFuture<'a, Result<(), Fault>>;
}

/// What a revert may use.
pub struct Reverting<'a> {
    pub host: &'a dyn HostWrite,
    pub processes: &'a dyn Processes,
    pub blobs: &'a dyn BlobStore,
    pub cancel: &'a CancellationToken,
    /// Overwrite what somebody changed since (`--force`).
    pub force: bool,
    /// Shared by all states of the revert.
    pub left: &'a LeftDirs,
}

/// Directories that `makedirs` made and that were not empty when the state that made them was reverted: whoever takes
/// the last thing out of one removes it.
#[derive(Debug, Default)]
pub struct LeftDirs(std::sync::Mutex<std::collections::BTreeSet<std::path::PathBuf>>);

impl LeftDirs {
    pub(crate) fn add(&self, path: &std::path::Path) {
        self.lock().insert(path.to_path_buf());
    }

    pub(crate) fn holds(&self, path: &std::path::Path) -> bool {
        self.lock().contains(path)
    }

    pub(crate) fn forget(&self, path: &std::path::Path) {
        self.lock().remove(path);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeSet<std::path::PathBuf>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Keeps before-images, by the hash of their content.
pub trait BlobStore: Send + Sync {
    /// Saves content durably and returns its name.
    fn keep(&self, content: &[u8]) -> Result<String, Fault>;
    fn fetch(&self, name: &str) -> Result<Vec<u8>, Fault>;
}

/// What a drift would do, or did, in words.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Explanation {
    /// A unified diff or a few words.
    pub diff: String,
    pub details: Details,
}

/// What an apply or a revert did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub changed: bool,
    pub diff: String,
    pub details: Details,
    /// What became known only by acting and is needed to undo it; replaces the drift in the journal.
    pub undo: Option<serde_json::Value>,
}

/// What guards share with their state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuardSetting {
    pub cwd: Option<std::path::PathBuf>,
    pub environment: Vec<(String, String)>,
    pub path: Option<String>,
    pub timeout: Option<std::time::Duration>,
    pub user: Option<String>,
}
