//! The log of one run: append-only, a checksum a line, read back up to the first line that is not whole.

use super::record::{Ended, Intent, Record};
use crate::data_dir::{open_append, sync_directory};
use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use zester_model::limits;

/// A log on disk, by its name `<sequence>-<run id>.<open|log>`.
#[derive(Clone, Debug)]
pub struct LogFile {
    path: PathBuf,
    sequence: u64,
    run_id: String,
    /// The run is under way or was cut off.
    pub open: bool,
}

/// An undo value that no revert has used yet.
#[derive(Clone, Debug)]
pub struct Undo {
    pub run_id: String,
    pub intent: Intent,
    /// The undo value in force: the intent's, or what acting revealed.
    pub value: serde_json::Value,
    log: PathBuf,
}

/// All logs of a journal, oldest first.
pub fn list(journal: &Path) -> Result<Vec<LogFile>, Error> {
    let fail = |error| Error::io("list", journal, error);
    let mut logs = Vec::new();
    for entry in fs::read_dir(journal).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        logs.extend(LogFile::parse(path));
    }
    logs.sort_by_key(|log| log.sequence);
    Ok(logs)
}

impl LogFile {
    fn parse(path: PathBuf) -> Option<LogFile> {
        let open = match path.extension()?.to_str()? {
            "open" => true,
            "log" => false,
            _ => return None,
        };
        let (sequence, run_id) = path.file_stem()?.to_str()?.split_once('-')?;
        let (sequence, run_id) = (sequence.parse().ok()?, run_id.to_string());
        Some(LogFile { path, sequence, run_id, open })
    }

    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Who is owed a refresh by this run: watchers of what changed (or may have), less those that ran.
    pub fn owed(&self) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let mut owed: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut watchers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        // A later try that finds nothing left to do takes nothing back of what an earlier one altered (S-43).
        let mut altered: BTreeSet<String> = BTreeSet::new();
        for record in self.records()? {
            match record {
                Record::Intent(intent) => {
                    for watcher in &intent.watchers {
                        owed.entry(watcher.clone()).or_default().push(intent.state.clone());
                    }
                    watchers.insert(intent.state.clone(), intent.watchers);
                }
                Record::Ended(ended) => {
                    if ended.changed || ended.touched {
                        altered.insert(ended.state.clone());
                    }
                    if !altered.contains(&ended.state) {
                        for watcher in watchers.get(&ended.state).into_iter().flatten() {
                            if let Some(changed) = owed.get_mut(watcher) {
                                changed.retain(|state| *state != ended.state);
                            }
                        }
                    }
                    if !ended.failed {
                        owed.remove(&ended.state);
                    }
                }
                Record::Reverted { .. } => {}
            }
        }
        owed.retain(|_, changed| !changed.is_empty());
        Ok(owed)
    }

    /// Which states this run left in place or not, by their `check_cmd` (S-43): one that was cut off before it passed has
    /// not passed.
    pub fn unconfirmed(&self) -> Result<BTreeMap<String, bool>, Error> {
        let mut found = BTreeMap::new();
        for record in self.records()? {
            match record {
                Record::Intent(intent) if intent.confirms => drop(found.insert(intent.state, true)),
                Record::Ended(Ended { state, unconfirmed: Some(unconfirmed), .. }) => {
                    found.insert(state, unconfirmed);
                }
                Record::Ended(ended) if !ended.touched => drop(found.remove(&ended.state)),
                _ => {}
            }
        }
        Ok(found)
    }

    /// What this run did and nobody has undone, newest first. A state that was retried has a record for each try that may
    /// have done something: undoing all of them, newest first, leads back to where the run found it.
    pub fn undos(&self) -> Result<Vec<Undo>, Error> {
        let mut found: Vec<Undo> = Vec::new();
        for record in self.records()? {
            match record {
                Record::Intent(intent) => {
                    if let Some(value) = intent.undo.clone() {
                        found.push(Undo {
                            run_id: self.run_id.clone(),
                            intent,
                            value,
                            log: self.path.clone(),
                        });
                    }
                }
                Record::Ended(ended) => {
                    let Some(at) = found.iter().rposition(|undo| undo.intent.state == ended.state) else {
                        continue;
                    };
                    let nothing_done = !ended.changed && !ended.failed;
                    if nothing_done {
                        found.remove(at);
                    } else if let (Some(undo), Some(value)) = (found.get_mut(at), ended.undo) {
                        undo.value = value;
                    }
                }
                Record::Reverted { state } => found.retain(|undo| undo.intent.state != state),
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Before-images that this log may still need.
    pub fn objects(&self) -> Result<BTreeSet<String>, Error> {
        Ok(self.undos()?.into_iter().flat_map(|undo| undo.intent.objects).collect())
    }

    /// Marks a run that was cut off as read. A torn last line goes, so that what is appended later can be read.
    pub fn close(&self) -> Result<(), Error> {
        let fail = |error| Error::io("mend", &self.path, error);
        let bytes = fs::read(&self.path).map_err(fail)?;
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let whole: usize = lines.take_while(|line| decode(line).is_some()).map(<[u8]>::len).sum();
        if whole < bytes.len() {
            let file = File::options().write(true).open(&self.path).map_err(fail)?;
            file.set_len(whole as u64).and_then(|_| file.sync_data()).map_err(fail)?;
        }
        let to = self.path.with_extension("log");
        fs::rename(&self.path, &to).map_err(|error| Error::io("rename", &self.path, error))?;
        sync_directory(self.directory())
    }

    pub fn remove(&self) -> Result<(), Error> {
        // A log may have been closed since it was listed.
        let path = if self.path.exists() { self.path.clone() } else { self.path.with_extension("log") };
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))
    }

    fn records(&self) -> Result<Vec<Record>, Error> {
        let path = if self.path.exists() { self.path.clone() } else { self.path.with_extension("log") };
        let bytes = fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
        Ok(bytes.split_inclusive(|byte| *byte == b'\n').map_while(decode).collect())
    }
}

/// `<crc32 in hex> <json>\n`; anything else is the torn end of a log.
fn decode(line: &[u8]) -> Option<Record> {
    let body = line.strip_suffix(b"\n")?;
    let (checksum, json) = (body.get(..8)?, body.get(9..)?);
    let checksum = u32::from_str_radix(std::str::from_utf8(checksum).ok()?, 16).ok()?;
    (crc32fast::hash(json) == checksum).then(|| serde_json::from_slice(json).ok()).flatten()
}

fn encode(record: &Record) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(record).map_err(|error| Error::other(error.to_string()))?;
    if json.len() > limits::JOURNAL_RECORD_BYTES_MAX {
        return Err(Error::other(format!(
            "an undo record of {} bytes is too large for the journal",
            json.len()
        )));
    }
    let mut line = format!("{:08x} ", crc32fast::hash(&json)).into_bytes();
    line.extend(json);
    line.push(b'\n');
    Ok(line)
}

pub fn mark_reverted(journal: &Path, undo: &Undo) -> Result<(), Error> {
    let path = if undo.log.exists() { undo.log.clone() } else { undo.log.with_extension("log") };
    let mut file = open_append(&path)?;
    let line = encode(&Record::Reverted { state: undo.intent.state.clone() })?;
    file.write_all(&line).map_err(|error| Error::io("write", journal, error))
}

/// Appends to the log of the run under way. Many workers may wait for one fsync together.
pub struct Writer {
    path: PathBuf,
    file: File,
    progress: Mutex<Progress>,
    synced: Condvar,
}

#[derive(Default)]
struct Progress {
    written: u64,
    safe: u64,
    syncing: bool,
    /// A write went wrong half-way: nothing that follows it in the file could be read back.
    broken: bool,
}

impl Writer {
    pub fn create(journal: &Path, run_id: &str) -> Result<Writer, Error> {
        let next = list(journal)?.last().map_or(1, |log| log.sequence + 1);
        let path = journal.join(format!("{next:06}-{run_id}.open"));
        let file = open_append(&path)?;
        sync_directory(journal)?;
        Ok(Writer { path, file, progress: Mutex::default(), synced: Condvar::new() })
    }

    pub fn append(&self, record: &Record) -> Result<(), Error> {
        self.write(record).map(drop)
    }

    /// Group commit: whoever finds nobody syncing syncs for all that was written so far.
    pub fn append_synced(&self, record: &Record) -> Result<(), Error> {
        let mine = self.write(record)?;
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        while progress.safe < mine {
            if progress.syncing {
                progress = self.synced.wait(progress).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            progress.syncing = true;
            let upto = progress.written;
            drop(progress);
            let done = self.file.sync_data();
            progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.syncing = false;
            if done.is_ok() {
                progress.safe = progress.safe.max(upto);
            }
            self.synced.notify_all();
            done.map_err(|error| Error::io("sync", &self.path, error))?;
        }
        Ok(())
    }

    fn write(&self, record: &Record) -> Result<u64, Error> {
        let line = encode(record)?;
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if progress.broken {
            return Err(Error::other(format!("the journal {} could not be written", self.path.display())));
        }
        if let Err(error) = (&self.file).write_all(&line) {
            progress.broken = true;
            return Err(Error::io("write", &self.path, error));
        }
        progress.written += 1;
        Ok(progress.written)
    }

    pub fn close(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))?;
        let to = self.path.with_extension("log");
        fs::rename(&self.path, &to).map_err(|error| Error::io("rename", &self.path, error))?;
        sync_directory(self.path.parent().unwrap_or(Path::new(".")))
    }
}
