//! What became of a state and of a run: the result documents of S-34 and C-2.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a run is asked to do.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Apply,
    /// A dry run: nothing is ever applied.
    Check,
    Revert,
}

/// Why a state was not run.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    RequireFailed,
    OnchangesNotMet,
    OnfailNotMet,
    PrereqNotMet,
    FailhardAbort,
    Canceled,
}

impl SkipReason {
    pub fn as_str(self) -> &'static str {
        match self {
            SkipReason::RequireFailed => "require_failed",
            SkipReason::OnchangesNotMet => "onchanges_not_met",
            SkipReason::OnfailNotMet => "onfail_not_met",
            SkipReason::PrereqNotMet => "prereq_not_met",
            SkipReason::FailhardAbort => "failhard_abort",
            SkipReason::Canceled => "canceled",
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// Typed facts about one state's execution, in the order a reader wants them.
pub type Details = serde_json::Map<String, serde_json::Value>;

/// What became of one state. Empty texts mean "none".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StateResult {
    pub name: String,
    /// In check mode: would change.
    pub changed: bool,
    pub diff: String,
    pub duration_ms: u64,
    pub details: Details,
    pub error: String,
    pub skipped: bool,
    pub skip_reason: String,
    pub level: usize,
}

impl StateResult {
    pub fn failed(&self) -> bool {
        !self.error.is_empty()
    }

    /// A dry run could not predict what it would do (S-44).
    pub fn unknown(&self) -> bool {
        self.details.get("unknown").is_some_and(|unknown| *unknown == serde_json::Value::Bool(true))
    }
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub mode: Mode,
    pub test: bool,
    pub success: bool,
    pub canceled: bool,
    /// Canceled because its time was over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// What went wrong beside the states: its time was over, or what it did could not be written down.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    pub changed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Of those that would change: how many only the run itself can tell more about (S-44).
    #[serde(default)]
    pub unknown: usize,
    pub total_duration_ms: u64,
    pub run_id: String,
    /// By full name, in the order of the run.
    pub states: IndexMap<String, StateResult>,
}

impl RunResult {
    /// Counts the states and judges the run: `success = failed == 0 && !canceled`.
    pub fn new(
        mode: Mode,
        run_id: String,
        canceled: bool,
        total_duration_ms: u64,
        states: Vec<StateResult>,
    ) -> RunResult {
        let count = |test: fn(&StateResult) -> bool| states.iter().filter(|state| test(state)).count();
        let failed = count(StateResult::failed);
        RunResult {
            mode,
            test: mode == Mode::Check,
            success: failed == 0 && !canceled,
            canceled,
            timed_out: false,
            error: String::new(),
            changed: count(|state| state.changed),
            failed,
            skipped: count(|state| state.skipped),
            unknown: count(StateResult::unknown),
            total_duration_ms,
            run_id,
            states: states.into_iter().map(|state| (state.name.clone(), state)).collect(),
        }
    }
}
