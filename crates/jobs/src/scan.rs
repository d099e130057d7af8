//! Whose owner is dead (J-13). One scan costs as much as there are active jobs.

use crate::timing::Timing;
use std::collections::{BTreeMap, BTreeSet};
use zester_wire::{Jid, MasterId};

/// What earlier scans saw. A scan whose reads failed is not reported, and counts for nothing.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    misses: BTreeMap<MasterId, u32>,
}

impl Scan {
    /// Takes one complete scan: the owner of every active job, and the heartbeats that stand. Returns the jobs to adopt.
    pub fn observe(
        &mut self,
        me: &MasterId,
        active: &[(Jid, MasterId)],
        heartbeats: &BTreeSet<MasterId>,
        timing: &Timing,
    ) -> Vec<Jid> {
        let mut misses = BTreeMap::new();
        for (_, owner) in active.iter().filter(|(_, owner)| owner != me && !heartbeats.contains(owner)) {
            let before = self.misses.get(owner).copied().unwrap_or(0);
            misses.insert(owner.clone(), before.saturating_add(1));
        }
        // Owners that were seen, or own nothing any more, are forgotten: only scans running count.
        self.misses = misses;
        let dead = |owner: &MasterId| self.is_dead(owner, timing);
        active.iter().filter(|(_, owner)| dead(owner)).map(|(jid, _)| jid.clone()).collect()
    }

    pub fn is_dead(&self, owner: &MasterId, timing: &Timing) -> bool {
        self.misses.get(owner).is_some_and(|misses| *misses >= timing.orphan_misses)
    }
}
