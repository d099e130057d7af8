//! The last runs of this machine, one summary a line, for `zester status`.

use crate::data_dir::{DataDir, open_append, replace_file};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Write};
use zester_model::outcome::{Mode, RunResult};

/// Summaries that are kept when the file is tidied.
const RUNS_KEPT: usize = 200;
/// Size at which it is tidied.
const BYTES_MAX: u64 = 512 * 1024;
/// Failed states named in one summary.
const FAILED_NAMED_MAX: usize = 20;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    pub run_id: String,
    pub mode: Mode,
    /// What was asked for: references, `highstate`, or a function.
    pub asked: String,
    /// Seconds since the epoch.
    pub ended_at: u64,
    pub duration_ms: u64,
    pub states: usize,
    pub changed: usize,
    pub failed: usize,
    pub skipped: usize,
    pub canceled: bool,
    pub success: bool,
    pub failed_states: Vec<String>,
}

impl Summary {
    pub fn of(result: &RunResult, asked: &str, ended_at: u64) -> Summary {
        let failed = result.states.values().filter(|state| state.failed());
        Summary {
            run_id: result.run_id.clone(),
            mode: result.mode,
            asked: asked.to_string(),
            ended_at,
            duration_ms: result.total_duration_ms,
            states: result.states.len(),
            changed: result.changed,
            failed: result.failed,
            skipped: result.skipped,
            canceled: result.canceled,
            success: result.success,
            failed_states: failed.take(FAILED_NAMED_MAX).map(|state| state.name.clone()).collect(),
        }
    }
}

/// Adds a run. Not synced: it informs, nothing depends on it.
pub fn add(data_dir: &DataDir, summary: &Summary) -> Result<(), Error> {
    let path = data_dir.path("history");
    let mut line = serde_json::to_vec(summary).map_err(|error| Error::other(error.to_string()))?;
    line.push(b'\n');
    let mut file = open_append(&path)?;
    file.write_all(&line).map_err(|error| Error::io("write", &path, error))?;
    let size = file.metadata().map_err(|error| Error::io("look at", &path, error))?.len();
    if size > BYTES_MAX {
        let kept = last(data_dir, RUNS_KEPT)?;
        let mut text = Vec::new();
        for summary in kept.iter().rev() {
            serde_json::to_writer(&mut text, summary).map_err(|error| Error::other(error.to_string()))?;
            text.push(b'\n');
        }
        replace_file(&path, &text)?;
    }
    Ok(())
}

/// The last runs, newest first. Lines that cannot be read are passed over.
pub fn last(data_dir: &DataDir, count: usize) -> Result<Vec<Summary>, Error> {
    let path = data_dir.path("history");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    Ok(text.lines().rev().filter_map(|line| serde_json::from_str(line).ok()).take(count).collect())
}
