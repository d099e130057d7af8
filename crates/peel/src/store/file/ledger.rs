//! The ledger on disk: lines of a checksum and a batch of records, synced before anybody is told.
//!
//! A batch is one line, and the next is not begun before it is synced. So a crash can leave at most one line that is not
//! whole, and only at the end: that one is dropped, nobody was told of it. A bad line with a good one behind it is damage.

use super::syncs::{SyncCalls, sync_directory};
use super::{StoreError, io_error};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_wire::{Jid, ScheduledRun, UnixMillis};

/// Outdated records after which the ledger is written anew, unless there are more that are in force.
const OUTDATED_MAX: usize = 4_096;
/// Largest ledger that is read: several times what the machine remembers at most.
const LEDGER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Records of one line when the ledger is written anew.
const BATCH_RECORDS: usize = 1_024;

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Accepted,
    Returned,
    Delivered,
    Canceled,
    Forgotten,
}

/// One piece of news.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    jid: Jid,
    epoch: u64,
    word: Word,
    #[serde(default)]
    keep_until: UnixMillis,
    #[serde(default)]
    direct: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schedule: Option<ScheduledRun>,
}

impl Record {
    pub(super) fn put(entry: &Entry) -> Record {
        let word = match entry.state {
            DispatchState::Accepted => Word::Accepted,
            DispatchState::Returned { delivered: false } => Word::Returned,
            DispatchState::Returned { delivered: true } => Word::Delivered,
            DispatchState::Canceled => Word::Canceled,
        };
        let Dispatch { jid, epoch } = entry.dispatch.clone();
        let (keep_until, direct, schedule) = (entry.keep_until, entry.direct, entry.schedule.clone());
        Record { jid, epoch, word, keep_until, direct, schedule }
    }

    pub(super) fn forget(dispatch: &Dispatch) -> Record {
        let Dispatch { jid, epoch } = dispatch.clone();
        let keep_until = UnixMillis(0);
        Record { jid, epoch, word: Word::Forgotten, keep_until, direct: false, schedule: None }
    }

    fn tell(self, entries: &mut BTreeMap<Dispatch, Entry>) {
        let dispatch = Dispatch { jid: self.jid, epoch: self.epoch };
        let state = match self.word {
            Word::Accepted => DispatchState::Accepted,
            Word::Returned => DispatchState::Returned { delivered: false },
            Word::Delivered => DispatchState::Returned { delivered: true },
            Word::Canceled => DispatchState::Canceled,
            Word::Forgotten => {
                entries.remove(&dispatch);
                return;
            }
        };
        let (keep_until, direct, schedule) = (self.keep_until, self.direct, self.schedule);
        entries.insert(dispatch.clone(), Entry { dispatch, state, keep_until, direct, schedule });
    }
}

pub(super) struct Ledger {
    path: PathBuf,
    file: File,
    disk: Arc<dyn SyncCalls>,
    /// Where the last whole line ends. What stands behind it was never acknowledged.
    end: u64,
    /// Records in the file.
    records: usize,
    entries: BTreeMap<Dispatch, Entry>,
    /// It was written anew under a name that may be the old ledger's again after a power cut: nothing is added to it.
    is_loose: bool,
}

impl Ledger {
    pub(super) fn open(path: &Path, disk: Arc<dyn SyncCalls>) -> Result<Ledger, StoreError> {
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| io_error("open", path, &error))?;
        let mut text = Vec::new();
        let read = (&mut file).take(LEDGER_BYTES_MAX + 1).read_to_end(&mut text);
        read.map_err(|error| io_error("read", path, &error))?;
        if text.len() as u64 > LEDGER_BYTES_MAX {
            return Err(StoreError(format!("{} is larger than any ledger", path.display())));
        }
        let (batches, end) = whole_lines(path, &text)?;
        let mut entries = BTreeMap::new();
        let records = batches.iter().map(Vec::len).sum();
        batches.into_iter().flatten().for_each(|record| record.tell(&mut entries));
        if end < text.len() {
            tracing::warn!("{}: dropped an unfinished line of {} bytes", path.display(), text.len() - end);
        }
        let mut ledger = Ledger {
            path: path.to_path_buf(),
            file,
            disk,
            end: end as u64,
            records,
            entries,
            is_loose: false,
        };
        ledger.cut().map_err(|error| io_error("repair", path, &error))?;
        sync_directory(&*ledger.disk, path.parent().unwrap_or(Path::new(".")))?;
        Ok(ledger)
    }

    pub(super) fn entries(&self) -> BTreeMap<Dispatch, Entry> {
        self.entries.clone()
    }

    /// Writes and syncs. After a failure the file is as it was, or will be before the next line is written.
    pub(super) fn append(&mut self, records: Vec<Record>) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let line = line_of(&records)?;
        if self.is_loose {
            self.rewrite()?;
        }
        let written =
            self.cut().and_then(|()| self.file.write_all(&line)).and_then(|()| self.disk.content(&self.file));
        if let Err(error) = written {
            let _tried_again_later = self.cut();
            return Err(io_error("write", &self.path, &error));
        }
        self.end += line.len() as u64;
        self.records += records.len();
        records.into_iter().for_each(|record| record.tell(&mut self.entries));
        if self.records - self.entries.len().min(self.records) > OUTDATED_MAX.max(self.entries.len())
            && let Err(error) = self.rewrite()
        {
            // What was asked for is on disk; the ledger is only longer than it need be.
            tracing::warn!("the ledger could not be shortened: {error}");
        }
        Ok(())
    }

    fn cut(&mut self) -> std::io::Result<()> {
        if self.file.metadata()?.len() != self.end {
            self.file.set_len(self.end)?;
        }
        self.file.seek(SeekFrom::Start(self.end)).map(|_| ())
    }

    /// Only what is in force, in a new file that takes the place of the old one whole.
    fn rewrite(&mut self) -> Result<(), StoreError> {
        let directory = self.path.parent().unwrap_or(Path::new("."));
        let fail = |error: std::io::Error| io_error("write", &self.path, &error);
        let mut temp = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
        let records: Vec<Record> = self.entries.values().map(Record::put).collect();
        let mut end = 0;
        for batch in records.chunks(BATCH_RECORDS) {
            let line = line_of(batch)?;
            temp.write_all(&line).map_err(fail)?;
            end += line.len() as u64;
        }
        self.disk.content(temp.as_file()).map_err(fail)?;
        let file = temp.persist(&self.path).map_err(|error| fail(error.error))?;
        (self.file, self.end, self.records) = (file, end, records.len());
        self.is_loose = true;
        sync_directory(&*self.disk, directory)?;
        self.is_loose = false;
        Ok(())
    }
}

/// `<checksum of the rest> <records as JSON>`, and a line feed.
fn line_of(records: &[Record]) -> Result<Vec<u8>, StoreError> {
    let json = serde_json::to_vec(records)
        .map_err(|error| StoreError(format!("a line of the ledger cannot be written: {error}")))?;
    let mut line = format!("{:08x} ", crc32fast::hash(&json)).into_bytes();
    line.extend(json);
    line.push(b'\n');
    Ok(line)
}

/// The batches of all whole lines, and where the last of them ends.
fn whole_lines(path: &Path, text: &[u8]) -> Result<(Vec<Vec<Record>>, usize), StoreError> {
    let (mut batches, mut end, mut at) = (Vec::new(), 0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        at += line.len();
        match batch_of(line) {
            Some(_) if end < at - line.len() => {
                return Err(StoreError(format!(
                    "{} is damaged at byte {end}; move it away to start anew: what was accepted before is then forgotten",
                    path.display()
                )));
            }
            Some(batch) => {
                batches.push(batch);
                end = at;
            }
            None => {}
        }
    }
    Ok((batches, end))
}

fn batch_of(line: &[u8]) -> Option<Vec<Record>> {
    let line = line.strip_suffix(b"\n")?;
    let (sum, json) = line.split_at_checked(9)?;
    let sum = std::str::from_utf8(sum.strip_suffix(b" ")?).ok()?;
    let whole = u32::from_str_radix(sum, 16) == Ok(crc32fast::hash(json));
    whole.then(|| serde_json::from_slice(json).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::super::syncs::RealSyncs;
    use super::*;
    use zester_rule::rule;

    fn open(path: &Path) -> Result<Ledger, StoreError> {
        Ledger::open(path, Arc::new(RealSyncs))
    }

    fn entry(number: u64, state: DispatchState) -> Entry {
        let jid = Jid::parse("rxn-0123456789abcdef0123456789abcdef").unwrap();
        let dispatch = Dispatch { jid, epoch: number };
        Entry { dispatch, state, keep_until: UnixMillis(7), direct: false, schedule: None }
    }

    fn accepted(number: u64) -> Record {
        Record::put(&entry(number, DispatchState::Accepted))
    }

    #[test]
    #[rule("J-7")]
    fn j7_a_line_that_a_crash_cut_off_is_dropped_wherever_it_was_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = open(&path).unwrap();
        ledger.append(vec![accepted(1)]).unwrap();
        let first = ledger.end;
        ledger.append(vec![accepted(2), accepted(3)]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in first as usize..whole.len() {
            let mut torn = whole[..length].to_vec();
            for tail in [&b""[..], &[0; 40]] {
                torn.extend(tail);
                std::fs::write(&path, &torn).unwrap();
                let mut ledger = open(&path).unwrap();
                assert_eq!(ledger.entries().len(), 1, "{length}");
                ledger.append(vec![accepted(4)]).unwrap();
                assert_eq!(open(&path).unwrap().entries().len(), 2, "{length}");
            }
        }
    }

    #[test]
    #[rule("J-7")]
    fn j7_damage_in_the_middle_is_told_with_the_name_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = open(&path).unwrap();
        ledger.append(vec![accepted(1)]).unwrap();
        ledger.append(vec![accepted(2)]).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[20] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let error = open(&path).err().unwrap();
        assert!(error.0.contains("ledger is damaged at byte 0"), "{error}");
    }

    #[test]
    fn a_ledger_that_says_the_same_again_and_again_stays_small() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let mut ledger = open(&path).unwrap();
        let kept = entry(1_000_000, DispatchState::Canceled);
        ledger.append(vec![Record::put(&kept)]).unwrap();
        for number in 0..20 {
            let numbers = number * 1_000..(number + 1) * 1_000;
            ledger.append(numbers.clone().map(accepted).collect()).unwrap();
            let gone = numbers.map(|number| Record::forget(&entry(number, DispatchState::Accepted).dispatch));
            ledger.append(gone.collect()).unwrap();
        }
        assert!(ledger.records <= 2 * OUTDATED_MAX, "{}", ledger.records);
        let again = open(&path).unwrap().entries();
        assert_eq!(again.into_values().collect::<Vec<_>>(), [kept]);
    }
}
