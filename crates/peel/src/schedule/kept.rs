//! What a schedule keeps on disk.
//!
//! ```text
//! <dir>/memory.json          what is due, what ran last, what was running; and what each source last said well
//! <dir>/results/<hash>.json  the last results of one entry, the newest first
//! ```

use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use zester_converge::data_dir::replace_file;
use zester_schedule::Memory;
use zester_wire::Return;

/// Results of one entry that are kept.
const RESULTS_KEPT: usize = 5;
/// Bytes of one of them; longer texts in it are cut.
const RESULT_BYTES_MAX: usize = 64 * 1024;

/// `memory.json`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    #[serde(default)]
    pub(crate) memory: Memory,
    /// What the file and the settings last said well.
    #[serde(default)]
    pub(crate) file: Value,
    #[serde(default)]
    pub(crate) settings: Value,
}

#[derive(Serialize, Deserialize)]
struct Results {
    name: String,
    results: Vec<Return>,
}

/// The directory.
#[derive(Clone)]
pub(crate) struct Kept(PathBuf);

impl Kept {
    pub(crate) fn open(dir: &Path) -> Result<Kept, StoreError> {
        let results = dir.join("results");
        // Results may hold secrets: only the owner may look.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&results);
        made.map_err(|error| StoreError(format!("cannot create {}: {error}", results.display())))?;
        Ok(Kept(dir.to_path_buf()))
    }

    /// Blocks, as all of these.
    pub(crate) fn document(&self) -> Document {
        read(&self.0.join("memory.json")).unwrap_or_default()
    }

    /// Adds results to those of their entries, then writes the document.
    pub(crate) fn save(&self, document: &Document, results: &[Return]) -> Result<(), StoreError> {
        for result in results {
            let Some(run) = &result.schedule else { continue };
            let mut kept = self.results(&run.name);
            // One that was interrupted may be told twice.
            kept.retain(|other| other.jid != result.jid);
            kept.insert(0, result.clone().fit(RESULT_BYTES_MAX));
            kept.truncate(RESULTS_KEPT);
            write(&self.path_of(&run.name), &Results { name: run.name.clone(), results: kept })?;
        }
        write(&self.0.join("memory.json"), document)?;
        self.forget_results(document);
        Ok(())
    }

    /// Of results that wait for the disk, drops those of which newer ones would take the place: they come oldest first.
    pub(crate) fn drop_surplus(results: &mut Vec<Return>) {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let mut kept: Vec<Return> = Vec::with_capacity(results.len());
        for result in std::mem::take(results).into_iter().rev() {
            let name = result.schedule.as_ref().map(|run| run.name.clone()).unwrap_or_default();
            let count = counts.entry(name).or_default();
            *count += 1;
            if *count <= RESULTS_KEPT {
                kept.push(result);
            }
        }
        kept.reverse();
        *results = kept;
    }

    /// The last results of an entry, the newest first.
    pub(crate) fn results(&self, name: &str) -> Vec<Return> {
        let read: Option<Results> = read(&self.path_of(name));
        read.filter(|read| read.name == name).map(|read| read.results).unwrap_or_default()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.0.join("results").join(format!("{}.json", hash(name)))
    }

    /// Results of entries that are no more go with them.
    fn forget_results(&self, document: &Document) {
        let known: Vec<String> =
            document.memory.entries.keys().map(|name| format!("{}.json", hash(name))).collect();
        for found in fs::read_dir(self.0.join("results")).into_iter().flatten().flatten() {
            let name = found.file_name().to_string_lossy().into_owned();
            if !known.contains(&name) {
                let _stays_until_the_next = fs::remove_file(found.path());
            }
        }
    }
}

fn hash(name: &str) -> String {
    let mut text = String::with_capacity(32);
    for byte in &Sha256::digest(name.as_bytes())[..16] {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}

/// None where there is none. What cannot be read is set aside, and told.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::error!("cannot read {}: {error}", path.display());
            return None;
        }
    };
    match serde_json::from_slice(&text) {
        Ok(value) => Some(value),
        Err(error) => {
            let aside = path.with_extension("damaged");
            tracing::error!("{} is damaged: {error}; it is now {}", path.display(), aside.display());
            let _stays = fs::rename(path, &aside);
            None
        }
    }
}

fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let text = serde_json::to_vec(value).map_err(|error| StoreError(error.to_string()))?;
    replace_file(path, &text).map_err(|error| StoreError(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;
    use zester_schedule::Remembered;
    use zester_wire::{Cause, Jid, PeelId, ScheduledRun, UnixMillis};

    fn result(number: u64, name: &str) -> Return {
        let jid = Jid::parse(&format!("rxn-{number:032x}")).unwrap();
        let peel = PeelId::parse("web-1").unwrap();
        let schedule = ScheduledRun { name: name.into(), function: "test.ping".into(), due: UnixMillis(1) };
        Return { schedule: Some(schedule), ..Return::refusing(jid, peel, 1, Cause::Finished, "") }
    }

    fn document(names: &[&str]) -> Document {
        let entries = names.iter().map(|name| (name.to_string(), Remembered::default())).collect();
        Document { memory: Memory { entries }, file: json!({"a": 1}), settings: Value::Null }
    }

    #[test]
    #[rule("D-10")]
    fn d10_the_last_results_of_an_entry_are_kept_and_go_with_it() {
        let temp = tempfile::tempdir().unwrap();
        let kept = Kept::open(&temp.path().join("schedule")).unwrap();
        assert_eq!(kept.document(), Document::default());
        for number in 0..9 {
            kept.save(&document(&["a", "b"]), &[result(number, "a"), result(number + 100, "b")]).unwrap();
        }
        // The same again is one.
        kept.save(&document(&["a", "b"]), &[result(8, "a")]).unwrap();
        let results = kept.results("a");
        let jids: Vec<&str> = results.iter().map(|result| result.jid.as_str()).collect();
        assert_eq!(
            (jids.len(), jids[0].ends_with("08"), jids[4].ends_with("04")),
            (5, true, true),
            "{jids:?}"
        );
        kept.save(&document(&["b"]), &[]).unwrap();
        assert_eq!((kept.results("a").len(), kept.results("b").len()), (0, 5));
        assert_eq!(Kept::open(&temp.path().join("schedule")).unwrap().document(), document(&["b"]));
    }

    #[test]
    #[rule("D-10")]
    fn d10_a_document_that_cannot_be_written_takes_no_result_away() {
        let temp = tempfile::tempdir().unwrap();
        let kept = Kept::open(temp.path()).unwrap();
        kept.save(&document(&["a", "b"]), &[result(1, "a"), result(2, "b")]).unwrap();
        // No file can take the place of a directory.
        fs::remove_file(temp.path().join("memory.json")).unwrap();
        fs::create_dir(temp.path().join("memory.json")).unwrap();
        assert!(kept.save(&document(&["b"]), &[]).is_err());
        assert_eq!((kept.results("a").len(), kept.results("b").len()), (1, 1));
    }

    #[test]
    #[rule("D-10")]
    fn d10_of_results_that_wait_for_the_disk_the_newest_stay() {
        let mut waiting: Vec<Return> = (0..9).map(|number| result(number, "a")).collect();
        waiting.insert(0, result(100, "b"));
        Kept::drop_surplus(&mut waiting);
        let jids: Vec<u64> =
            waiting.iter().map(|one| u64::from_str_radix(&one.jid.as_str()[4..], 16).unwrap()).collect();
        assert_eq!(jids, [100, 4, 5, 6, 7, 8]);
    }

    #[test]
    #[rule("D-10")]
    fn d10_a_damaged_memory_is_set_aside() {
        let temp = tempfile::tempdir().unwrap();
        let kept = Kept::open(temp.path()).unwrap();
        fs::write(temp.path().join("memory.json"), "{").unwrap();
        assert_eq!(kept.document(), Document::default());
        assert!(temp.path().join("memory.damaged").exists());
    }
}
