//! What the simulator itself saw happen, for the judge.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use zester_jobs::dedup::Dispatch;
use zester_wire::{Jid, JobStatus, PeelId};

/// Shared by everybody who sees something.
#[derive(Clone, Default)]
pub struct Journal {
    inner: Arc<Mutex<Seen>>,
}

#[derive(Default)]
pub struct Seen {
    /// Executions that began.
    pub starts: BTreeMap<(PeelId, Dispatch), u32>,
    /// What should never have happened, noticed when it did.
    pub wrongs: Vec<(&'static str, String)>,
    /// Jobs whose client was told that they run.
    pub accepted: BTreeMap<Jid, Instant>,
    /// How a job ended, as its client was told.
    pub told: BTreeMap<Jid, JobStatus>,
    /// When a master last sent work of a job, and when it sent a cancel first: by (job, boot of the master).
    pub sent_work: BTreeMap<(Jid, String), Instant>,
    pub sent_cancel: BTreeMap<(Jid, String), Instant>,
    /// When each node had a connection and lived.
    pub present: BTreeMap<String, Vec<(Instant, Option<Instant>)>>,
}

impl Journal {
    pub fn lock(&self) -> MutexGuard<'_, Seen> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wrong(&self, rule: &'static str, what: String) {
        self.lock().wrongs.push((rule, what));
    }

    /// A node came, or went.
    pub fn presence(&self, name: &str, present: bool) {
        let mut seen = self.lock();
        let spans = seen.present.entry(name.to_string()).or_default();
        match (spans.last_mut(), present) {
            (Some((_, None)), true) => {}
            (_, true) => spans.push((Instant::now(), None)),
            (Some((_, end @ None)), false) => *end = Some(Instant::now()),
            (_, false) => {}
        }
    }
}

impl Seen {
    /// Whether a node was there without a break.
    pub fn was_there(&self, name: &str, from: Instant, until: Instant) -> bool {
        let covers =
            |(begin, end): &(Instant, Option<Instant>)| *begin <= from && end.is_none_or(|end| end >= until);
        self.present.get(name).is_some_and(|spans| spans.iter().any(covers))
    }
}
