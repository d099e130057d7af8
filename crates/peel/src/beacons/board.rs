//! What is known of each beacon, for whoever asks with `beacons.list`.

use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use zester_beacons::Entry;
use zester_wire::UnixMillis;

/// Problems of one look that are shown.
const PROBLEMS_SHOWN: usize = 10;

/// One beacon as it is shown.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: String,
    beacon: &'static str,
    /// Seconds between two looks.
    interval: f64,
    #[serde(rename = "for")]
    hold: f64,
    onchange: bool,
    emit_at_start: bool,
    state: &'static str,
    /// What the last look saw, and when it was.
    sample: Value,
    looked: Option<UnixMillis>,
    problems: Vec<String>,
    /// How many events it made.
    events: u64,
}

/// Shared by the beacons, which write, and the peel, which answers.
#[derive(Default)]
pub(crate) struct Board {
    rows: Mutex<BTreeMap<String, Row>>,
    problem: Mutex<Option<String>>,
}

impl Board {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<String, Row>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begins(&self, entry: &Entry) {
        let row = Row {
            name: entry.name.clone(),
            beacon: entry.kind,
            interval: entry.interval.as_secs_f64(),
            hold: entry.when.hold.as_secs_f64(),
            onchange: entry.when.onchange,
            emit_at_start: entry.when.emit_at_start,
            state: "starting",
            sample: Value::Null,
            looked: None,
            problems: Vec::new(),
            events: 0,
        };
        self.rows().insert(entry.name.clone(), row);
    }

    pub(super) fn forget(&self, name: &str) {
        self.rows().remove(name);
    }

    pub(super) fn is(&self, name: &str, state: &'static str) {
        if let Some(row) = self.rows().get_mut(name) {
            row.state = state;
        }
    }

    /// A look ended; the problems that it did not have before are news.
    pub(super) fn looked(
        &self,
        name: &str,
        at: UnixMillis,
        sample: Option<Value>,
        mut problems: Vec<String>,
        events: usize,
    ) -> Vec<String> {
        problems.truncate(PROBLEMS_SHOWN);
        let mut rows = self.rows();
        let Some(row) = rows.get_mut(name) else { return Vec::new() };
        let news = problems.iter().filter(|problem| !row.problems.contains(problem)).cloned().collect();
        row.looked = Some(at);
        row.sample = sample.unwrap_or_else(|| row.sample.take());
        row.problems = problems;
        row.events += events as u64;
        news
    }

    pub(super) fn wrong(&self, problem: Option<String>) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }

    /// All of them; of names, those.
    pub(crate) fn document(&self, names: &[String]) -> Result<Value, String> {
        let rows = self.rows();
        if let Some(missing) = names.iter().find(|name| !rows.contains_key(*name)) {
            return Err(format!("there is no beacon `{missing}`; `beacons.list` shows those there are"));
        }
        let shown: Vec<&Row> =
            rows.values().filter(|row| names.is_empty() || names.contains(&row.name)).collect();
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(json!({ "beacons": shown, "problem": problem }))
    }
}
