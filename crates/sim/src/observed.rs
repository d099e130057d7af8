//! What the simulator itself saw happen, for the judge.

use crate::judge::Invariant;
use crate::network::LATE_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use zester_jobs::dedup::Dispatch;
use zester_wire::{Jid, JobStatus, PeelId};

/// Shared by everybody who sees something.
#[derive(Clone, Default)]
pub struct Observed {
    inner: Arc<Mutex<Seen>>,
}

/// One execution on one peel.
pub struct Execution {
    pub peel: PeelId,
    pub dispatch: Dispatch,
    pub began: Instant,
    pub ended: Option<Instant>,
    /// The peel crashed under it.
    pub crashed: bool,
}

/// What somebody who asked for a kill was told.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum KillReply {
    /// The job will be canceled.
    Stopping,
    /// It was ending by itself.
    Ending,
    /// It was over, and nothing was changed.
    WasOver,
}

/// A stretch of time; open while it lasts.
pub type Span = (Instant, Option<Instant>);

#[derive(Default)]
pub struct Seen {
    pub executions: Vec<Execution>,
    /// What should never have happened, noticed when it did.
    pub wrongs: Vec<(Invariant, String)>,
    /// Jobs whose client was told that they run.
    pub accepted: BTreeMap<Jid, Instant>,
    /// Jobs whose client was told that nothing ran and nothing will (exit 1).
    pub refused: BTreeMap<Jid, (Instant, String)>,
    /// How a job ended, as its client was told.
    pub told: BTreeMap<Jid, JobStatus>,
    /// Jobs that somebody wanted canceled.
    pub asked_to_kill: BTreeSet<Jid>,
    pub kills: Vec<(Jid, Instant, KillReply)>,
    /// When a master first and last sent work of a job, and when it sent a cancel first: by (job, boot of the master).
    pub sent_work: BTreeMap<(Jid, String), (Instant, Instant)>,
    pub sent_cancel: BTreeMap<(Jid, String), Instant>,
    /// When each node had a connection and lived.
    pub present: BTreeMap<String, Vec<Span>>,
    /// When something was wrong that excuses slowness.
    pub disturbed: Vec<(&'static str, Instant, Option<Instant>)>,
    /// How often each fault happened.
    pub faults: BTreeMap<&'static str, u64>,
}

impl Observed {
    pub fn lock(&self) -> MutexGuard<'_, Seen> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn wrong(&self, invariant: Invariant, what: String) {
        self.lock().wrongs.push((invariant, what));
    }

    pub fn count(&self, fault: &'static str) {
        *self.lock().faults.entry(fault).or_insert(0) += 1;
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

    pub fn disturbance(&self, name: &'static str, begins: bool) {
        let mut seen = self.lock();
        let now = Instant::now();
        for (_, _, end) in seen.disturbed.iter_mut().filter(|(one, _, end)| *one == name && end.is_none()) {
            *end = Some(now);
        }
        if begins {
            seen.disturbed.push((name, now, None));
        }
    }
}

impl Seen {
    /// Whether a node was there without a break.
    pub fn was_there(&self, name: &str, from: Instant, until: Instant) -> bool {
        let covers = |(begin, end): &Span| *begin <= from && end.is_none_or(|end| end >= until);
        self.present.get(name).is_some_and(|spans| spans.iter().any(covers))
    }

    /// When a node was not there, up to a moment.
    pub fn breaks(&self, name: &str, until: Instant) -> Vec<(Instant, Instant)> {
        let Some(spans) = self.present.get(name) else { return Vec::new() };
        let next = spans.iter().skip(1).map(|(begin, _)| *begin).chain([until]);
        let breaks = spans.iter().zip(next).filter_map(|((_, end), next)| Some(((*end)?, next.min(until))));
        breaks.filter(|(left, back)| left < back).collect()
    }

    /// Whether nothing was wrong that slows things down. What a disturbance left behind takes a moment to pass.
    pub fn was_calm(&self, from: Instant, until: Instant) -> bool {
        let apart = |(_, begin, end): &(&str, Instant, Option<Instant>)| {
            *begin > until || end.is_some_and(|end| end + AFTERMATH < from)
        };
        self.disturbed.iter().all(apart)
    }

    /// Whether a write that was sent in this time may still come.
    pub fn writes_came_late(&self, from: Instant, until: Instant) -> bool {
        let late = |(name, begin, end): &(&str, Instant, Option<Instant>)| {
            *name == "late writes" && *begin <= until && end.is_none_or(|end| end + LATE_MAX >= from)
        };
        self.disturbed.iter().any(late)
    }
}

/// How long after a disturbance its last victims may still wait: for an answer that was lost, and the pause before the next
/// try.
const AFTERMATH: Duration = Duration::from_secs(6);
