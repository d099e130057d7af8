//! Which rules hold up others. An event that waits for its next try keeps its place among those that the server gives out
//! unacknowledged, wherever it waits, and a handful of places is all that the rules of a fleet have. So a rule that fails for the
//! moment for many events is told before it stops all others.

use crate::gates::Place;
use crate::limits::STUCK_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;
use zester_wire::UnixMillis;

/// Events whose last try failed for the moment, with the rules that failed.
#[derive(Debug, Default)]
pub struct Stuck {
    waits: BTreeMap<Place, Wait>,
}

#[derive(Debug)]
struct Wait {
    rules: Vec<Arc<str>>,
    /// Until then it is tried again, here or by another master, who counts it then.
    until: UnixMillis,
}

impl Stuck {
    /// These rules failed for it, and it waits until then.
    pub fn waits(&mut self, event: Place, rules: impl Iterator<Item = Arc<str>>, until: UnixMillis) {
        if self.waits.len() < STUCK_MAX || self.waits.contains_key(&event) {
            self.waits.insert(event, Wait { rules: rules.collect(), until });
        }
    }

    /// It is done with. Whether it had waited.
    pub fn is_done(&mut self, event: Place) -> bool {
        self.waits.remove(&event).is_some()
    }

    /// The rules that at least so many events wait for, with their number.
    pub fn told(&mut self, at_least: usize, now: UnixMillis) -> Vec<(Arc<str>, usize)> {
        self.waits.retain(|_, wait| wait.until >= now);
        let mut counts: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        for rule in self.waits.values().flat_map(|wait| &wait.rules) {
            *counts.entry(rule).or_default() += 1;
        }
        counts.retain(|_, count| *count >= at_least.max(1));
        counts.into_iter().map(|(rule, count)| (rule.clone(), count)).collect()
    }
}
