//! The last runs of this machine, one summary a line, for `zester status`.

use crate::data_dir::DataDir;
use crate::disk::Disk;
use crate::error::Error;
use crate::journal::LoggedRun;
use crate::lock::{self, Note};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use zester_model::outcome::{Mode, RunResult};

/// Summaries that are kept when the file is tidied.
const RUNS_KEPT: usize = 200;
/// Size at which it is tidied.
const BYTES_MAX: u64 = 512 * 1024;
/// Failed states named in one summary.
const FAILED_NAMED_MAX: usize = 20;

/// How far a run has come.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Running,
    #[default]
    Ended,
    /// It neither ended by itself nor was canceled: SIGKILL, a power cut, a second Ctrl-C.
    Killed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    pub run_id: String,
    pub mode: Mode,
    /// What was asked for: references, `highstate`, or a function.
    pub asked: String,
    /// It is a call of one function.
    #[serde(default)]
    pub call: bool,
    #[serde(default)]
    pub state: Stage,
    /// Seconds since the epoch.
    #[serde(default)]
    pub started_at: Option<u64>,
    /// Nobody knows when a killed run ended.
    #[serde(default)]
    pub ended_at: Option<u64>,
    pub duration_ms: u64,
    pub states: usize,
    pub changed: usize,
    pub failed: usize,
    pub skipped: usize,
    pub canceled: bool,
    /// Canceled because its time was over.
    #[serde(default)]
    pub timed_out: bool,
    pub success: bool,
    pub failed_states: Vec<String>,
}

impl Summary {
    pub fn of(result: &RunResult, note: &Note, ended_at: u64) -> Summary {
        let failed = result.states.values().filter(|state| state.failed());
        Summary {
            run_id: result.run_id.clone(),
            mode: result.mode,
            asked: note.asked.clone(),
            call: note.call,
            state: Stage::Ended,
            started_at: Some(note.started_at),
            ended_at: Some(ended_at),
            duration_ms: result.total_duration_ms,
            states: result.states.len(),
            changed: result.changed,
            failed: result.failed,
            skipped: result.skipped,
            canceled: result.canceled,
            timed_out: result.timed_out,
            success: result.success,
            failed_states: failed.take(FAILED_NAMED_MAX).map(|state| state.name.clone()).collect(),
        }
    }
}

impl Summary {
    /// Of a run that has not said more of itself than its note.
    pub fn of_note(note: Note, state: Stage) -> Summary {
        Summary {
            run_id: note.run_id,
            mode: note.mode,
            asked: note.asked,
            call: note.call,
            state,
            started_at: Some(note.started_at),
            ended_at: None,
            duration_ms: 0,
            states: 0,
            changed: 0,
            failed: 0,
            skipped: 0,
            canceled: false,
            timed_out: false,
            success: false,
            failed_states: Vec::new(),
        }
    }
}

/// Adds a run that was killed, unless it got as far as to add itself.
pub fn add_killed(data_dir: &DataDir, note: Note) -> Result<(), Error> {
    // Not always the last: one that could not be added at once is added after the run that found it.
    let known = last(data_dir, RUNS_KEPT)?.iter().any(|run| run.run_id == note.run_id);
    if known { Ok(()) } else { add(data_dir, &Summary::of_note(note, Stage::Killed)) }
}

/// The last runs with the one under way, or one that was killed and that nobody has met since.
pub fn with_current(data_dir: &DataDir, count: usize) -> Result<Vec<Summary>, Error> {
    // In this order: a run that ends in between is then in one of the two.
    let holder = lock::last_holder(data_dir)?;
    let mut runs = last(data_dir, count)?;
    if let Some((mut note, under_way)) = holder {
        let state = if under_way { Stage::Running } else { Stage::Killed };
        let before = std::mem::take(&mut note.before);
        let noted = before.into_iter().map(|note| (note, Stage::Killed)).chain([(note, state)]);
        for (note, state) in noted {
            if runs.iter().all(|run| run.run_id != note.run_id) {
                runs.insert(0, Summary::of_note(note, state));
            }
        }
        runs.truncate(count);
    }
    Ok(runs)
}

/// The newest runs that the journal has a log of and the history no line: it could not be written then. `listed` are those
/// that are shown, `logs` the runs of the journal, oldest first. Runs from before the history begins were tidied away.
pub fn unlisted(
    data_dir: &DataDir,
    listed: &[Summary],
    logs: &[String],
    count: usize,
) -> Result<Vec<LoggedRun>, Error> {
    let known = last(data_dir, usize::MAX)?;
    let oldest = known.iter().map(|run| run.run_id.as_str()).min().unwrap_or_default();
    let is_known = |run_id: &String| known.iter().chain(listed).any(|run| run.run_id == *run_id);
    let new = |run_id: &&String| run_id.as_str() > oldest && !is_known(run_id);
    logs.iter().rev().filter(new).take(count).map(|run_id| LoggedRun::read(data_dir, run_id)).collect()
}

/// Adds a run. Not synced: it informs, nothing depends on it.
pub fn add(data_dir: &DataDir, summary: &Summary) -> Result<(), Error> {
    let path = data_dir.path("history");
    let mut line = serde_json::to_vec(summary).map_err(|error| Error::other(error.to_string()))?;
    line.push(b'\n');
    Disk::real().append_line(&path, &line)?;
    let size = std::fs::metadata(&path).map_err(|error| Error::io("look at", &path, error))?.len();
    if size > BYTES_MAX {
        let kept = last(data_dir, RUNS_KEPT)?;
        let mut text = Vec::new();
        for summary in kept.iter().rev() {
            serde_json::to_writer(&mut text, summary).map_err(|error| Error::other(error.to_string()))?;
            text.push(b'\n');
        }
        Disk::real().replace(&path, &text)?;
    }
    Ok(())
}

/// The last runs, newest first. Lines that cannot be read are passed over.
pub fn last(data_dir: &DataDir, count: usize) -> Result<Vec<Summary>, Error> {
    let path = data_dir.path("history");
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    let lines = bytes.rsplit(|byte| *byte == b'\n');
    Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).take(count).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn note(run_id: &str) -> Note {
        Note {
            run_id: run_id.into(),
            mode: Mode::Apply,
            asked: "web".into(),
            call: false,
            before: Vec::new(),
            pid: 1,
            life: String::new(),
            started_at: 1,
        }
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_line_that_has_rotted_hides_no_other_run() {
        let temp = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(temp.path()).unwrap();
        for run_id in ["1a", "2b", "3c"] {
            add(&data_dir, &Summary::of_note(note(run_id), Stage::Ended)).unwrap();
        }
        let path = data_dir.path("history");
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(2).position(|two| two == b"2b").unwrap();
        bytes[at] = 0xff;
        std::fs::write(&path, bytes).unwrap();
        let runs: Vec<String> = last(&data_dir, 9).unwrap().into_iter().map(|run| run.run_id).collect();
        assert_eq!(runs, ["3c", "1a"]);
    }

    #[test]
    fn a_run_that_only_the_journal_knows_is_not_forgotten() {
        let temp = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(temp.path()).unwrap();
        let logs: Vec<String> = ["1a", "2b", "3c", "4d", "5e"].map(String::from).into();
        std::fs::create_dir(data_dir.path("journal")).unwrap();
        let unlisted = |listed: &[Summary], count| -> Vec<String> {
            let found = unlisted(&data_dir, listed, &logs, count).unwrap();
            found.into_iter().map(|run| run.run_id).collect()
        };
        assert_eq!(unlisted(&[], 2), ["5e", "4d"]);
        for run_id in ["2b", "4d"] {
            add(&data_dir, &Summary::of_note(note(run_id), Stage::Ended)).unwrap();
        }
        let listed = [Summary::of_note(note("5e"), Stage::Running)];
        assert_eq!(unlisted(&listed, 9), ["3c"], "1a was tidied away");
    }
}
