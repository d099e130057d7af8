//! The log of one run: append-only, a checksum a line. A line that is not whole is told (see [`super::damage`]), those after
//! it are read.

use super::damage::{self, Damage, Line};
use super::pending_refresh::Origin;
use super::record::{Ended, Intent, Record, Started};
use crate::disk::{Disk, cut_torn_end, open_append};
use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_host::GroupSync;
use zester_model::limits;

/// A log on disk, by its name `<sequence>-<run id>.<open|log>`.
#[derive(Clone, Debug)]
pub struct LogFile {
    path: PathBuf,
    sequence: u64,
    pub run_id: String,
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
    /// The object that holds the graph of its run; logs of earlier versions have none.
    pub graph: Option<String>,
    /// What its run was asked for.
    pub scope: Option<String>,
    log: PathBuf,
}

/// What a log says, as far as it can be read.
#[derive(Default)]
struct Read {
    records: Vec<Record>,
    /// Of intents that cannot be read: the state, and who watches it.
    salvaged: Vec<(String, Vec<String>)>,
    /// Objects that such lines name.
    objects: Vec<String>,
    damage: Option<Damage>,
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

    /// Whose refresh this run leaves pending: watchers of what changed (or may have), less those that ran.
    pub fn pending(&self) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let mut pending: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut watchers: BTreeMap<String, Vec<String>> = BTreeMap::new();
        // A later try that finds nothing left to do takes nothing back of what an earlier one altered (S-43).
        let mut altered: BTreeSet<String> = BTreeSet::new();
        let Read { records, salvaged, .. } = self.read()?;
        for (state, names) in salvaged {
            for watcher in &names {
                pending.entry(watcher.clone()).or_default().push(state.clone());
            }
            watchers.insert(state, names);
        }
        for record in records {
            match record {
                Record::Intent(intent) => {
                    for watcher in &intent.watchers {
                        pending.entry(watcher.clone()).or_default().push(intent.state.clone());
                    }
                    watchers.insert(intent.state.clone(), intent.watchers);
                }
                Record::Ended(ended) => {
                    if ended.changed || ended.touched {
                        altered.insert(ended.state.clone());
                    }
                    if !altered.contains(&ended.state) {
                        for watcher in watchers.get(&ended.state).into_iter().flatten() {
                            if let Some(changed) = pending.get_mut(watcher) {
                                changed.retain(|state| *state != ended.state);
                            }
                        }
                    }
                    if !ended.failed {
                        pending.remove(&ended.state);
                    }
                }
                Record::Started(_) | Record::Reverted { .. } => {}
            }
        }
        pending.retain(|_, changed| !changed.is_empty());
        Ok(pending)
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
        let (mut graph, mut scope) = (None, None);
        for record in self.records()? {
            match record {
                Record::Started(started) => (graph, scope) = (started.graph, Some(started.scope)),
                Record::Intent(intent) => {
                    if let Some(value) = intent.undo.clone() {
                        found.push(Undo {
                            run_id: self.run_id.clone(),
                            intent,
                            value,
                            graph: graph.clone(),
                            scope: scope.clone(),
                            log: self.path.clone(),
                        });
                    }
                }
                Record::Ended(ended) => {
                    let Some(at) = found.iter().rposition(|undo| undo.intent.state == ended.state) else {
                        continue;
                    };
                    // What a failure had done before it, only logs that say how they began tell.
                    let maybe = ended.failed && scope.is_none();
                    let nothing_done = !ended.changed && !ended.touched && !maybe;
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

    /// What the log itself takes.
    pub fn bytes(&self) -> Result<u64, Error> {
        let path = self.current_path();
        fs::metadata(&path).map(|meta| meta.len()).map_err(|error| Error::io("look at", &path, error))
    }

    /// The run of this log, as far as it says.
    pub fn origin(&self) -> Result<Origin, Error> {
        let mut records = self.records()?.into_iter();
        let started = records.find_map(|record| match record {
            Record::Started(Started { scope, graph, .. }) => Some(Origin { scope: Some(scope), graph }),
            _ => None,
        });
        Ok(started.unwrap_or_default())
    }

    /// The command that its run was started with, as far as it says.
    pub fn command(&self) -> Result<Option<String>, Error> {
        let mut records = self.records()?.into_iter();
        let command = records.find_map(|record| match record {
            Record::Started(started) => Some(started.command),
            _ => None,
        });
        Ok(command.filter(|command| !command.is_empty()))
    }

    /// Marks a run that was cut off as read. A torn last line goes, so that what is appended later can be read.
    pub fn close(&self, disk: &Disk) -> Result<(), Error> {
        if cut_torn_end(&self.path)? {
            let file = open_append(&self.path)?;
            disk.sync(&file, &self.path)?;
        }
        let to = self.path.with_extension("log");
        fs::rename(&self.path, &to).map_err(|error| Error::io("rename", &self.path, error))?;
        disk.sync_directory(self.directory())
    }

    pub fn remove(&self) -> Result<(), Error> {
        let path = self.current_path();
        fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))
    }

    /// It may have been closed since it was listed.
    fn current_path(&self) -> PathBuf {
        if self.path.exists() { self.path.clone() } else { self.path.with_extension("log") }
    }

    /// What of it cannot be read.
    pub fn damage(&self) -> Result<Option<Damage>, Error> {
        Ok(self.read()?.damage)
    }

    /// The objects that lines name which cannot be read.
    pub fn objects_salvaged(&self) -> Result<Vec<String>, Error> {
        Ok(self.read()?.objects)
    }

    /// The watchers that came to an end here, and so need no refresh of an earlier run.
    pub fn ended(&self) -> Result<BTreeSet<String>, Error> {
        let ended = self.records()?.into_iter().filter_map(|record| match record {
            Record::Ended(ended) if !ended.failed => Some(ended.state),
            _ => None,
        });
        Ok(ended.collect())
    }

    fn records(&self) -> Result<Vec<Record>, Error> {
        Ok(self.read()?.records)
    }

    fn read(&self) -> Result<Read, Error> {
        let path = self.current_path();
        let bytes = fs::read(&path).map_err(|error| Error::io("read", &path, error))?;
        let is_open = path.extension().is_some_and(|extension| extension == "open");
        let mut read = Read::default();
        let mut unread = None;
        for (at, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
            let newer = match damage::decode(line) {
                Line::Record(record) => {
                    read.records.push(*record);
                    continue;
                }
                Line::Torn if is_open || damage::is_torn_note(line) => continue,
                Line::Torn | Line::Rotten => false,
                Line::Newer => true,
            };
            read.salvaged.extend(damage::watchers_in(line));
            read.objects.extend(damage::objects_in(line));
            let known = unread.get_or_insert(Damage {
                run_id: self.run_id.clone(),
                path: path.clone(),
                line: at + 1,
                lines: 0,
                newer: true,
            });
            known.lines += 1;
            known.newer &= newer;
        }
        Ok(Read { damage: unread, ..read })
    }
}

/// The before-images and graphs that these still need.
pub fn objects(undos: Vec<Undo>) -> BTreeSet<String> {
    undos.into_iter().flat_map(|undo| undo.intent.objects.into_iter().chain(undo.graph)).collect()
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

pub fn mark_reverted(disk: &Disk, undo: &Undo) -> Result<(), Error> {
    let path = if undo.log.exists() { undo.log.clone() } else { undo.log.with_extension("log") };
    disk.append_line(&path, &encode(&Record::Reverted { state: undo.intent.state.clone() })?)
}

/// Appends to the log of the run under way. Many workers wait for one sync together.
pub struct Writer {
    path: PathBuf,
    file: File,
    disk: Arc<Disk>,
    /// A write went wrong half-way: a line that followed it could become part of it.
    torn: Mutex<Option<String>>,
    syncs: Arc<GroupSync<bool>>,
}

impl Writer {
    pub fn create(journal: &Path, run_id: &str, disk: Arc<Disk>) -> Result<Writer, Error> {
        let next = list(journal)?.last().map_or(1, |log| log.sequence + 1);
        let path = journal.join(format!("{next:06}-{run_id}.open"));
        let file = open_append(&path)?;
        disk.sync_directory(journal)?;
        Ok(Writer { path, file, disk, torn: Mutex::default(), syncs: Arc::default() })
    }

    pub fn append(&self, record: &Record) -> Result<(), Error> {
        let line = encode(record)?;
        let mut torn = self.lock();
        self.usable_unless(&torn)?;
        self.disk.write(&self.file, &self.path, &line).inspect_err(|error| *torn = Some(error.to_string()))
    }

    /// Returns once the record is safe on disk. One sync serves all that was written before it.
    pub fn append_synced(&self, record: &Record) -> Result<(), Error> {
        let visit = self.syncs.enter();
        self.append(record)?;
        self.disk.sync_together(visit, || self.disk.sync(&self.file, &self.path))
    }

    /// Whether what is written from here on can be read back.
    pub fn usable(&self) -> Result<(), Error> {
        self.usable_unless(&self.lock())
    }

    fn usable_unless(&self, torn: &Option<String>) -> Result<(), Error> {
        self.disk.trusted()?;
        match torn {
            None => Ok(()),
            Some(why) => Err(Error::other(format!("the journal could not be written: {why}"))),
        }
    }

    pub fn close(&self) -> Result<(), Error> {
        self.usable()?;
        self.disk.sync(&self.file, &self.path)?;
        let to = self.path.with_extension("log");
        fs::rename(&self.path, &to).map_err(|error| Error::io("rename", &self.path, error))?;
        self.disk.sync_directory(self.path.parent().unwrap_or(Path::new(".")))
    }

    fn lock(&self) -> MutexGuard<'_, Option<String>> {
        self.torn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
