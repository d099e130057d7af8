//! What was thrown away, by reason.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Sources that are remembered as told about. A flood of invented names must not fill the memory.
const SOURCES_TOLD_MAX: usize = 1_024;

/// Why a message was not read.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Not an envelope, or what is inside is not what the subject promises.
    Malformed,
    /// Larger than anything we read.
    TooLarge,
    /// It says another peel, job or verb than its subject.
    Mismatched,
    /// A subject that is none of ours.
    Subject,
    /// Nobody whom we believe signed it for this subject (I-8).
    Spoof,
    /// Its source says more than its share (I-13).
    Flood,
    /// A record that is older than what was seen under its key (I-12).
    Older,
    /// The queue was full: it was never seen.
    Missed,
}

impl Reason {
    pub const ALL: [Reason; 8] = [
        Reason::Malformed,
        Reason::TooLarge,
        Reason::Mismatched,
        Reason::Subject,
        Reason::Spoof,
        Reason::Flood,
        Reason::Older,
        Reason::Missed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Malformed => "malformed",
            Reason::TooLarge => "too_large",
            Reason::Mismatched => "mismatched",
            Reason::Subject => "subject",
            Reason::Spoof => "spoof",
            Reason::Flood => "flood",
            Reason::Older => "older",
            Reason::Missed => "missed",
        }
    }
}

/// Counts by reason.
#[derive(Debug, Default)]
pub struct Dropped {
    counts: [AtomicU64; Reason::ALL.len()],
    told: Mutex<BTreeSet<(Reason, String)>>,
}

impl Dropped {
    pub fn add(&self, reason: Reason, count: u64) {
        self.counts[reason as usize].fetch_add(count, Ordering::Relaxed);
    }

    pub fn of(&self, reason: Reason) -> u64 {
        self.counts[reason as usize].load(Ordering::Relaxed)
    }

    /// Every reason with its count, for metrics.
    pub fn by_reason(&self) -> Vec<(&'static str, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason.as_str(), self.of(reason))).collect()
    }

    pub fn total(&self) -> u64 {
        Reason::ALL.into_iter().map(|reason| self.of(reason)).sum()
    }

    /// Counts one, and logs it the first time that this source does it.
    pub(crate) fn one(&self, reason: Reason, source: &str, why: &dyn std::fmt::Display) {
        self.add(reason, 1);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < SOURCES_TOLD_MAX && told.insert((reason, source.to_string())) {
            tracing::warn!(subject = source, "dropped a message: {why}; more of the same is only counted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-13")]
    fn i13_a_flood_of_invented_sources_is_counted_and_fills_no_memory() {
        let dropped = Dropped::default();
        for number in 0..SOURCES_TOLD_MAX * 3 {
            dropped.one(Reason::Spoof, &format!("zester.event.web-{number}.send.x"), &"it is not signed");
        }
        assert_eq!(dropped.of(Reason::Spoof), SOURCES_TOLD_MAX as u64 * 3);
        let told = dropped.told.lock().unwrap_or_else(PoisonError::into_inner).len();
        assert_eq!(told, SOURCES_TOLD_MAX);
    }
}
