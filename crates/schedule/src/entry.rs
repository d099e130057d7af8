//! One line of a schedule: what to run, and when.

use crate::when::When;
use serde_json::{Map, Value};
use std::time::Duration;
use zester_wire::UnixMillis;

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    /// Where it was written: the file, or the settings.
    pub source: String,
    pub function: String,
    pub args: Vec<Value>,
    pub kwargs: Map<String, Value>,
    pub when: When,
    pub splay: Splay,
    /// Runs of it that may be under way at once.
    pub maxrunning: usize,
    /// Also when the peel starts.
    pub run_on_start: bool,
    /// Not before, and not after.
    pub after: Option<UnixMillis>,
    pub until: Option<UnixMillis>,
    /// One run makes up for those that were missed.
    pub catch_up: bool,
    /// Whether its results travel to the fleet, or stay on the peel.
    pub return_job: bool,
    pub enabled: bool,
    /// How long one run may take.
    pub timeout: Duration,
}

/// By how much a run is put off, by chance: so that a fleet does not act as one.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Splay {
    pub from: Duration,
    pub to: Duration,
}
