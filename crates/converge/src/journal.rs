//! The journal: what a run is about to do, written down before it does it.
//!
//! ```text
//! journal/000017-2hPx….open   records of a run that is under way, or was cut off
//! journal/000016-2hPw….log    records of a run that ended by itself
//! journal/objects/<sha256>    before-images, and the graphs of runs
//! journal/pending             pending refreshes (S-39)
//! journal/unconfirmed         states whose last `check_cmd` did not pass (S-43)
//! journal/pending.damaged-1   a list that could not be read; it was made again from the logs
//! ```
//!
//! One rule carries both promises of the spec. An *intent* (the undo value, and who watches the state) is on disk,
//! synced, before the apply it announces. So after a crash at any moment either the intent is missing and nothing was
//! done, or it is there and revert can compare the machine with the before and after it names. An intent without an end
//! counts as a change towards its watchers: a refresh may be given once too often, never once too few.
//!
//! A log begins with the graph of its run, so that a revert needs nothing else to find the way back.
//!
//! A run that changes nothing writes nothing here.

mod blob_store;
mod damage;
mod lists;
mod log;
mod pending_refresh;
mod record;
mod recovery;
mod run_graph;
mod unconfirmed;

pub use blob_store::FileBlobStore;
pub use damage::Damage;
pub use log::Undo;
pub use pending_refresh::{Origin, PendingRefresh};
pub use record::{Ended, Intent, Record, Started};
pub use run_graph::RunGraph;

use crate::data_dir::{DataDir, is_readable};
use crate::disk::Disk;
use crate::error::Error;
use crate::lock::RunLock;
use log::{LogFile, Writer};
use pending_refresh::Pending;
use recovery::Recovered;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use svix_ksuid::{Ksuid, KsuidLike};
use unconfirmed::Unconfirmed;
use zester_engine::Graph;
use zester_model::limits;
use zester_resources::context::BlobStore;

/// Whose refresh is pending, and why.
pub type PendingRefreshes = BTreeMap<String, PendingRefresh>;

/// A refresh of one state that is pending because another changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefreshCause {
    pub watcher: String,
    pub changed: String,
    /// The run that brought them together.
    pub origin: Origin,
}

/// The journal of one data dir. Whoever holds the run lock may write to it.
pub struct Journal {
    directory: PathBuf,
    disk: Arc<Disk>,
    blobs: Arc<FileBlobStore>,
    state: Mutex<Inner>,
    /// What recovering brought to light.
    notices: Vec<String>,
    /// Whoever still works for the run keeps the next one away.
    _lock: Option<Arc<RunLock>>,
}

struct Inner {
    run_id: String,
    /// The command that it was started with.
    command: String,
    scope: String,
    /// What the log begins with, should there be one.
    graph: Option<Arc<Graph>>,
    /// The object that holds it, once there is a log.
    graph_name: Option<String>,
    writer: Option<Arc<Writer>>,
    pending: Pending,
    unconfirmed: Unconfirmed,
}

impl Journal {
    /// Opens the journal for a mutating run: recovers what a killed run left.
    pub fn open(data_dir: &DataDir, run_id: &str) -> Result<Journal, Error> {
        Journal::open_on(Disk::real(), data_dir, run_id)
    }

    pub(crate) fn open_on(disk: Disk, data_dir: &DataDir, run_id: &str) -> Result<Journal, Error> {
        let disk = Arc::new(disk);
        let directory = data_dir.path("journal");
        make_private(&directory)?;
        make_private(&directory.join("objects"))?;
        let logs = log::list(&directory)?;
        let recovered = Recovered::read(&directory, &logs)?;
        let notices = recovered.keep(&disk)?;
        for cut in logs.iter().filter(|file| file.open) {
            cut.close(&disk)?;
        }
        let Recovered { pending, unconfirmed, .. } = recovered;
        let blobs = Arc::new(FileBlobStore::new(directory.join("objects"), disk.clone()));
        let (run_id, command, scope) = (run_id.to_string(), String::new(), String::new());
        let (graph, graph_name, writer) = (None, None, None);
        let inner = Inner { run_id, command, scope, graph, graph_name, writer, pending, unconfirmed };
        Ok(Journal { directory, disk, blobs, state: Mutex::new(inner), notices, _lock: None })
    }

    /// What recovering brought to light, and somebody should know.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Keeps the lock as long as anybody has this journal: a task that was given up may come back and go on.
    pub fn under(self, lock: Arc<RunLock>) -> Journal {
        Journal { _lock: Some(lock), ..self }
    }

    /// The command that this run was started with, for whoever finds its log and nothing else of it.
    pub fn asked_as(self, command: &str) -> Journal {
        self.lock().command = command.to_string();
        self
    }

    /// What this run was asked for, and its graph: written down only if it comes to change something.
    pub fn describe(&self, scope: &str, graph: &Arc<Graph>) {
        let mut inner = self.lock();
        inner.scope = scope.to_string();
        inner.graph = Some(graph.clone());
    }

    /// Whether what is written down can be relied on. Once it cannot, nothing may be changed any more.
    pub fn usable(&self) -> Result<(), Error> {
        self.disk.trusted()?;
        self.lock().writer.as_ref().map_or(Ok(()), |writer| writer.usable())
    }

    pub fn blobs(&self) -> &Arc<FileBlobStore> {
        &self.blobs
    }

    /// Makes room and opens the log of this run, before anything is kept for it: making room removes every before-image
    /// that no log names, and what is kept for an intent is named only once the intent is written.
    pub fn begin(&self) -> Result<(), Error> {
        self.writer().map(drop)
    }

    /// Writes the intent and returns once it is safe on disk.
    pub fn announce(&self, intent: Intent) -> Result<(), Error> {
        self.writer()?.append_synced(&Record::Intent(intent))
    }

    /// Notes how an announced apply ended. Not synced: losing it costs at most one needless comparison.
    pub fn ended(&self, ended: Ended) -> Result<(), Error> {
        let (state, unconfirmed) = (ended.state.clone(), ended.unconfirmed);
        self.writer()?.append(&Record::Ended(ended))?;
        unconfirmed.map_or(Ok(()), |unconfirmed| self.set_unconfirmed(&state, unconfirmed))
    }

    /// The states whose last `check_cmd` did not pass.
    pub fn unconfirmed(&self) -> BTreeSet<String> {
        self.lock().unconfirmed.all().clone()
    }

    /// Whether the last `check_cmd` of a state did not pass.
    pub fn is_unconfirmed(&self, state: &str) -> bool {
        self.lock().unconfirmed.all().contains(state)
    }

    /// Notes, durably, whether a state is in place by its `check_cmd`.
    pub fn set_unconfirmed(&self, state: &str, unconfirmed: bool) -> Result<(), Error> {
        let mut inner = self.lock();
        match inner.unconfirmed.set(state, unconfirmed) {
            true => inner.unconfirmed.save(&self.disk),
            false => Ok(()),
        }
    }

    /// Notes that an undo record was used up, in the log that holds it.
    pub fn reverted(&self, undo: &Undo) -> Result<(), Error> {
        log::mark_reverted(&self.disk, undo)
    }

    /// The refreshes that earlier runs left pending.
    pub fn pending(&self) -> PendingRefreshes {
        self.lock().pending.all().clone()
    }

    /// The watcher got to run, or need not: nothing is pending for it any more. Whether something was.
    pub fn refreshed(&self, watcher: &str) -> Result<bool, Error> {
        let mut inner = self.lock();
        let pending = inner.pending.clear(watcher);
        if pending {
            inner.pending.save(&self.disk)?;
        }
        Ok(pending)
    }

    /// Notes pending refreshes before their cause comes about. Returns those that were not pending before, for
    /// [`Journal::withdraw`].
    pub fn add_pending(&self, causes: Vec<RefreshCause>) -> Result<Vec<RefreshCause>, Error> {
        let mut inner = self.lock();
        let (mut new, mut dirty) = (Vec::new(), false);
        for cause in causes {
            let known = inner.pending.all().get(&cause.watcher);
            let is_known = known.is_some_and(|refresh| refresh.changed.contains(&cause.changed));
            // One that is known may be of a run of something else, and is one of ours from now on.
            dirty |= inner.pending.add_pending(&cause.watcher, [cause.changed.clone()], &cause.origin);
            if !is_known {
                new.push(cause);
            }
        }
        if dirty {
            inner.pending.save(&self.disk)?;
        }
        Ok(new)
    }

    /// Withdraws pending refreshes whose cause did not come about.
    pub fn withdraw<'a>(&self, causes: impl IntoIterator<Item = &'a RefreshCause>) -> Result<(), Error> {
        let mut inner = self.lock();
        let mut dirty = false;
        for cause in causes {
            dirty |= inner.pending.withdraw(&cause.watcher, &cause.changed);
        }
        if dirty { inner.pending.save(&self.disk) } else { Ok(()) }
    }

    /// Moves a pending refresh to others.
    pub fn transfer(&self, watcher: &str, successors: &[String]) -> Result<(), Error> {
        let mut inner = self.lock();
        match inner.pending.transfer(watcher, successors) {
            true => inner.pending.save(&self.disk),
            false => Ok(()),
        }
    }

    /// Ends the run by itself: what is cleared and what is still pending is noted, its log is closed. If the first cannot be
    /// done the log stays open, and the next run reads from it what is pending.
    pub fn finish(
        &self,
        cleared: impl IntoIterator<Item = String>,
        pending: impl IntoIterator<Item = (String, Vec<String>)>,
    ) -> Result<(), Error> {
        self.leave(cleared, pending)?;
        match self.lock().writer.take() {
            Some(writer) => writer.close(),
            None => Ok(()),
        }
    }

    /// Ends a run while somebody still works for it. Its log stays open for what they write, and the next run reads it like
    /// that of a run that was cut off.
    pub fn leave(
        &self,
        cleared: impl IntoIterator<Item = String>,
        pending: impl IntoIterator<Item = (String, Vec<String>)>,
    ) -> Result<(), Error> {
        let mut inner = self.lock();
        let inner = &mut *inner;
        let mut dirty = false;
        for watcher in cleared {
            dirty |= inner.pending.clear(&watcher);
        }
        let scope = Some(inner.scope.clone()).filter(|scope| !scope.is_empty());
        let origin = Origin { scope, graph: inner.graph_name.clone() };
        for (watcher, changed) in pending {
            dirty |= inner.pending.add_pending(&watcher, changed, &origin);
        }
        if dirty { inner.pending.save(&self.disk) } else { Ok(()) }
    }

    /// The graph of the run that an undo record belongs to; `None` in journals of earlier versions.
    pub fn graph_of(&self, undo: &Undo) -> Result<Option<RunGraph>, Error> {
        let Some(name) = &undo.graph else { return Ok(None) };
        let unread =
            |why: String| Error::other(format!("the graph of run {} cannot be read: {why}", undo.run_id));
        let text = self.blobs.fetch(name).map_err(|fault| unread(fault.message))?;
        serde_json::from_slice(&text).map(Some).map_err(|error| unread(error.to_string()))
    }

    /// Undo records that were not used yet, newest first.
    pub fn undos(&self) -> Result<Vec<Undo>, Error> {
        undos_in(&self.directory)
    }

    /// Logs that cannot be read in full; with `run`, only that run's. What they say is not in [`Journal::undos`].
    pub fn damage(&self, run: Option<&str>) -> Result<Vec<Damage>, Error> {
        damage_in(&self.directory, run)
    }

    fn writer(&self) -> Result<Arc<Writer>, Error> {
        let mut inner = self.lock();
        if let Some(writer) = &inner.writer {
            return Ok(writer.clone());
        }
        // Only a run that adds something has to make room for it.
        make_room(&log::list(&self.directory)?, &self.blobs, inner.pending.all())?;
        let graph = inner.graph.as_ref().map(|graph| self.keep_graph(graph)).transpose()?;
        let writer = Arc::new(Writer::create(&self.directory, &inner.run_id, self.disk.clone())?);
        inner.writer = Some(writer.clone());
        inner.graph_name = graph.clone();
        let (command, scope) = (inner.command.clone(), inner.scope.clone());
        writer.append(&Record::Started(Started { command, scope, graph }))?;
        Ok(writer)
    }

    fn keep_graph(&self, graph: &Graph) -> Result<String, Error> {
        let text =
            serde_json::to_vec(&RunGraph::of(graph)).map_err(|error| Error::other(error.to_string()))?;
        self.blobs.keep(&text).map_err(|fault| Error::other(fault.message))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `zester status` shows, read without the lock and without changing anything.
#[derive(Default)]
pub struct JournalSnapshot {
    pub pending: PendingRefreshes,
    /// States whose last `check_cmd` did not pass.
    pub unconfirmed: BTreeSet<String>,
    pub undos: Vec<Undo>,
    /// The runs that have a log, oldest first.
    pub runs: Vec<String>,
    /// Logs that cannot be read in full: revert could undo less than was done.
    pub damage: Vec<Damage>,
    pub notices: Vec<String>,
}

impl JournalSnapshot {
    pub fn read(data_dir: &DataDir) -> Result<JournalSnapshot, Error> {
        let directory = data_dir.path("journal");
        if !is_readable(&directory)? {
            return Ok(JournalSnapshot::default());
        }
        let PendingWork { pending, unconfirmed, notices, .. } = PendingWork::read(data_dir)?;
        let runs = log::list(&directory)?.into_iter().map(|log| log.run_id).collect();
        let (undos, damage) = (undos_in(&directory)?, damage_in(&directory, None)?);
        Ok(JournalSnapshot { pending, unconfirmed, undos, runs, damage, notices })
    }
}

/// A run that nothing but its log is left of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoggedRun {
    pub run_id: String,
    /// The command that it was started with; `None` in logs of earlier versions.
    pub command: Option<String>,
    /// Seconds since the epoch.
    pub started_at: Option<u64>,
}

impl LoggedRun {
    /// What the log of a run says of it, and its id.
    pub fn read(data_dir: &DataDir, run_id: &str) -> Result<LoggedRun, Error> {
        let logs = log::list(&data_dir.path("journal"))?;
        let log = logs.iter().find(|log| log.run_id == run_id);
        let command = log.map(LogFile::command).transpose()?.flatten();
        let started_at =
            Ksuid::from_str(run_id).ok().and_then(|id| u64::try_from(id.timestamp_seconds()).ok());
        Ok(LoggedRun { run_id: run_id.to_string(), command, started_at })
    }
}

/// What earlier runs left for the next to do, read without the lock and without the undo records: those grow with all that
/// was ever done, and a dry run does not need them.
#[derive(Default)]
pub struct PendingWork {
    pub pending: PendingRefreshes,
    /// States whose last `check_cmd` did not pass.
    pub unconfirmed: BTreeSet<String>,
    pub blobs: Option<Arc<FileBlobStore>>,
    pub notices: Vec<String>,
}

impl PendingWork {
    pub fn read(data_dir: &DataDir) -> Result<PendingWork, Error> {
        let directory = data_dir.path("journal");
        if !is_readable(&directory)? {
            return Ok(PendingWork::default());
        }
        let recovered = Recovered::read(&directory, &log::list(&directory)?)?;
        let blobs = FileBlobStore::new(directory.join("objects"), Arc::new(Disk::real()));
        let (pending, unconfirmed) = (recovered.pending.all().clone(), recovered.unconfirmed.all().clone());
        Ok(PendingWork { pending, unconfirmed, blobs: Some(Arc::new(blobs)), notices: recovered.notices() })
    }
}

/// Whether a run left something that a revert could undo.
pub fn is_undoable(data_dir: &DataDir, run_id: &str) -> Result<bool, Error> {
    let directory = data_dir.path("journal");
    if !is_readable(&directory)? {
        return Ok(false);
    }
    let log = log::list(&directory)?.into_iter().find(|log| log.run_id == run_id);
    log.map_or(Ok(false), |log| Ok(!log.undos()?.is_empty()))
}

/// The states of the runs that a pending refresh comes from; `None` where that cannot be told any more.
pub fn states_beside(blobs: &FileBlobStore, refresh: &PendingRefresh) -> Option<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for graph in &refresh.graphs {
        let graph: RunGraph = serde_json::from_slice(&blobs.fetch(graph).ok()?).ok()?;
        names.extend(graph.names().map(str::to_string));
    }
    (!refresh.graphs.is_empty()).then_some(names)
}

fn undos_in(directory: &std::path::Path) -> Result<Vec<Undo>, Error> {
    let mut all = Vec::new();
    for file in log::list(directory)?.iter().rev() {
        all.extend(file.undos()?);
    }
    Ok(all)
}

fn damage_in(directory: &std::path::Path, run: Option<&str>) -> Result<Vec<Damage>, Error> {
    let mut all = Vec::new();
    for file in log::list(directory)?.iter().rev().filter(|log| run.is_none_or(|id| log.run_id == id)) {
        all.extend(file.damage()?);
    }
    Ok(all)
}

fn make_private(directory: &std::path::Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    if directory.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(|error| Error::io("create", directory, error))
}

/// Makes room when the journal holds too many runs or too many bytes. What nobody needs goes first.
fn make_room(logs: &[LogFile], blobs: &FileBlobStore, pending: &PendingRefreshes) -> Result<(), Error> {
    shrink(logs, blobs, pending, limits::JOURNAL_RUNS_MAX, limits::JOURNAL_BYTES_MAX)
}

/// Objects that no log names (before-images of what was reverted since) go first, then logs that hold nothing to undo, and
/// only then what could still be undone, the oldest first.
fn shrink(
    logs: &[LogFile],
    blobs: &FileBlobStore,
    pending: &PendingRefreshes,
    runs_max: usize,
    bytes_max: u64,
) -> Result<(), Error> {
    let fits = |logs: usize, bytes: u64| logs <= runs_max && bytes <= bytes_max;
    let sizes: u64 = logs.iter().map(LogFile::bytes).sum::<Result<_, _>>()?;
    if fits(logs.len(), sizes + blobs.bytes()?) {
        return Ok(());
    }
    let mut candidates = logs.iter().map(Candidate::of).collect::<Result<Vec<_>, _>>()?;
    // Stable: of each sort the oldest comes first.
    candidates.sort_by_key(|candidate| candidate.undoable);
    let mut kept = candidates.as_slice();
    loop {
        let graphs = pending.values().flat_map(|refresh| &refresh.graphs);
        let objects = kept.iter().flat_map(|candidate| &candidate.objects).chain(graphs);
        let bytes = blobs.keep_only(&objects.cloned().collect())?
            + kept.iter().map(|candidate| candidate.bytes).sum::<u64>();
        match kept.split_first() {
            Some((first, rest)) if !fits(kept.len(), bytes) => {
                first.log.remove()?;
                kept = rest;
            }
            _ => return Ok(()),
        }
    }
}

/// A log that may have to give way.
struct Candidate<'a> {
    log: &'a LogFile,
    bytes: u64,
    undoable: bool,
    /// What it keeps from being removed.
    objects: BTreeSet<String>,
}

impl Candidate<'_> {
    fn of(log: &LogFile) -> Result<Candidate<'_>, Error> {
        let undos = log.undos()?;
        // What cannot be read may be undone by somebody who mends it.
        let undoable = !undos.is_empty() || log.damage()?.is_some();
        let mut objects = log::objects(undos);
        objects.extend(log.objects_salvaged()?);
        Ok(Candidate { log, bytes: log.bytes()?, undoable, objects })
    }
}

#[cfg(test)]
mod tests;
