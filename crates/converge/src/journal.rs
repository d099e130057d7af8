//! The journal: what a run is about to do, written down before it does it.
//!
//! ```text
//! journal/000017-2hPx….open   records of a run that is under way, or was cut off
//! journal/000016-2hPw….log    records of a run that ended by itself
//! journal/objects/<sha256>    before-images
//! journal/pending             refreshes that are still owed (S-39)
//! journal/unconfirmed         states whose last `check_cmd` did not pass (S-43)
//! ```
//!
//! One rule carries both promises of the spec. An *intent* (the undo value, and who watches the state) is on disk,
//! synced, before the apply it announces. So after a crash at any moment either the intent is missing and nothing was
//! done, or it is there and revert can compare the machine with the before and after it names. An intent without an end
//! counts as a change towards its watchers: a refresh may be given once too often, never once too few.
//!
//! A run that changes nothing writes nothing here.

mod log;
mod pending;
mod record;
mod unconfirmed;
mod vault;

pub use log::Undo;
pub use record::{Ended, Intent, Record};
pub use vault::ObjectVault;

use crate::data_dir::DataDir;
use crate::error::Error;
use log::{LogFile, Writer};
use pending::Pending;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unconfirmed::Unconfirmed;
use zester_model::limits;

/// The journal of one data dir. Whoever holds the run lock may write to it.
pub struct Journal {
    directory: PathBuf,
    vault: Arc<ObjectVault>,
    state: Mutex<Inner>,
}

struct Inner {
    run_id: String,
    writer: Option<Arc<Writer>>,
    pending: Pending,
    unconfirmed: Unconfirmed,
}

impl Journal {
    /// Opens the journal for a mutating run: recovers what a killed run left.
    pub fn open(data_dir: &DataDir, run_id: &str) -> Result<Journal, Error> {
        let directory = data_dir.path("journal");
        make_private(&directory)?;
        make_private(&directory.join("objects"))?;
        let mut pending = Pending::read(&directory)?;
        let mut unconfirmed = Unconfirmed::read(&directory)?;
        let logs = log::list(&directory)?;
        for cut in logs.iter().filter(|file| file.open) {
            if unconfirmed.learn(cut.unconfirmed()?) {
                unconfirmed.save()?;
            }
            for (watcher, changed) in cut.owed()? {
                pending.owe(&watcher, changed);
            }
            pending.save()?;
            cut.close()?;
        }
        let vault = Arc::new(ObjectVault::new(directory.join("objects")));
        let inner = Inner { run_id: run_id.to_string(), writer: None, pending, unconfirmed };
        Ok(Journal { directory, vault, state: Mutex::new(inner) })
    }

    pub fn vault(&self) -> &Arc<ObjectVault> {
        &self.vault
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

    /// Whether the last `check_cmd` of a state did not pass.
    pub fn is_unconfirmed(&self, state: &str) -> bool {
        self.lock().unconfirmed.all().contains(state)
    }

    /// Notes, durably, whether a state is in place by its `check_cmd`.
    pub fn set_unconfirmed(&self, state: &str, unconfirmed: bool) -> Result<(), Error> {
        let mut inner = self.lock();
        match inner.unconfirmed.set(state, unconfirmed) {
            true => inner.unconfirmed.save(),
            false => Ok(()),
        }
    }

    /// Notes that an undo record was used up, in the log that holds it.
    pub fn reverted(&self, undo: &Undo) -> Result<(), Error> {
        log::mark_reverted(&self.directory, undo)
    }

    /// The refreshes that earlier runs still owe: watcher → what changed.
    pub fn owed(&self) -> BTreeMap<String, BTreeSet<String>> {
        self.lock().pending.all().clone()
    }

    /// The watcher got to run: nothing is owed to it any more.
    pub fn refreshed(&self, watcher: &str) -> Result<(), Error> {
        let mut inner = self.lock();
        if inner.pending.settle(watcher) {
            inner.pending.save()?;
        }
        Ok(())
    }

    /// Ends the run by itself: what it still owes is noted, its log is closed.
    pub fn finish(&self, owed: impl IntoIterator<Item = (String, Vec<String>)>) -> Result<(), Error> {
        let mut inner = self.lock();
        let mut dirty = false;
        for (watcher, changed) in owed {
            inner.pending.owe(&watcher, changed);
            dirty = true;
        }
        if dirty {
            inner.pending.save()?;
        }
        match inner.writer.take() {
            Some(writer) => writer.close(),
            None => Ok(()),
        }
    }

    /// Undo records that were not used yet, newest first.
    pub fn undos(&self) -> Result<Vec<Undo>, Error> {
        undos_in(&self.directory)
    }

    fn writer(&self) -> Result<Arc<Writer>, Error> {
        let mut inner = self.lock();
        if let Some(writer) = &inner.writer {
            return Ok(writer.clone());
        }
        // Only a run that adds something has to make room for it.
        make_room(&log::list(&self.directory)?, &self.vault)?;
        let writer = Arc::new(Writer::create(&self.directory, &inner.run_id)?);
        inner.writer = Some(writer.clone());
        Ok(writer)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What `zester status` shows, read without the lock and without changing anything.
pub struct Glance {
    pub owed: BTreeMap<String, BTreeSet<String>>,
    /// States whose last `check_cmd` did not pass.
    pub unconfirmed: BTreeSet<String>,
    pub undos: Vec<Undo>,
}

impl Glance {
    pub fn read(data_dir: &DataDir) -> Result<Glance, Error> {
        let directory = data_dir.path("journal");
        if !directory.exists() {
            return Ok(Glance { owed: BTreeMap::new(), unconfirmed: BTreeSet::new(), undos: Vec::new() });
        }
        let mut pending = Pending::read(&directory)?;
        let mut unconfirmed = Unconfirmed::read(&directory)?;
        for file in log::list(&directory)?.iter().filter(|file| file.open) {
            unconfirmed.learn(file.unconfirmed()?);
            for (watcher, changed) in file.owed()? {
                pending.owe(&watcher, changed);
            }
        }
        let (owed, unconfirmed) = (pending.all().clone(), unconfirmed.all().clone());
        Ok(Glance { owed, unconfirmed, undos: undos_in(&directory)? })
    }
}

fn undos_in(directory: &std::path::Path) -> Result<Vec<Undo>, Error> {
    let mut all = Vec::new();
    for file in log::list(directory)?.iter().rev() {
        all.extend(file.undos()?);
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

/// The oldest runs give way when the journal holds too many of them or too many bytes.
fn make_room(logs: &[LogFile], vault: &ObjectVault) -> Result<(), Error> {
    shrink(logs, vault, limits::JOURNAL_RUNS_MAX, limits::JOURNAL_BYTES_MAX)
}

fn shrink(logs: &[LogFile], vault: &ObjectVault, runs_max: usize, bytes_max: u64) -> Result<(), Error> {
    let mut kept: Vec<&LogFile> = logs.iter().collect();
    let mut bytes = vault.bytes()?;
    while (kept.len() > runs_max || bytes > bytes_max) && !kept.is_empty() {
        kept.remove(0).remove()?;
        let mut needed = BTreeSet::new();
        for log in &kept {
            needed.extend(log.objects()?);
        }
        bytes = vault.keep_only(&needed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
