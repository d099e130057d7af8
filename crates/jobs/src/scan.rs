//! Whose owner is dead (J-13). One look costs as much as there are active jobs.

use crate::timing::Timing;
use std::collections::{BTreeMap, BTreeSet};
use zester_wire::{Jid, MasterId};

/// What earlier looks saw. A look whose reads failed is not reported, and counts for nothing.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    misses: BTreeMap<MasterId, u32>,
    /// Jobs of this very master that no task here works on.
    unattended: BTreeMap<Jid, u32>,
}

impl Scan {
    /// Takes one complete look: the owner of every active job that has no task here, and the heartbeats that stand. Returns the
    /// jobs to adopt: those of dead masters, and our own that nobody works on.
    pub fn observe(
        &mut self,
        me: &MasterId,
        active: &[(Jid, MasterId)],
        heartbeats: &BTreeSet<MasterId>,
        timing: &Timing,
    ) -> Vec<Jid> {
        let (mut misses, mut unattended) = (BTreeMap::new(), BTreeMap::new());
        for (jid, owner) in active {
            if owner == me {
                let before = self.unattended.get(jid).copied().unwrap_or(0);
                unattended.insert(jid.clone(), before.saturating_add(1));
            } else if !heartbeats.contains(owner) {
                let before = self.misses.get(owner).copied().unwrap_or(0);
                misses.insert(owner.clone(), before.saturating_add(1));
            }
        }
        // Owners that were seen, or own nothing any more, are forgotten: only looks running count.
        (self.misses, self.unattended) = (misses, unattended);
        let is_orphan = |jid: &Jid, owner: &MasterId| {
            self.is_dead(owner, timing)
                || self.unattended.get(jid).is_some_and(|looks| *looks >= timing.orphan_misses)
        };
        active.iter().filter(|(jid, owner)| is_orphan(jid, owner)).map(|(jid, _)| jid.clone()).collect()
    }

    /// A look that counts for nothing: what was missed before it was not missed in looks running.
    pub fn skip(&mut self) {
        self.misses.clear();
        self.unattended.clear();
    }

    pub fn is_dead(&self, owner: &MasterId, timing: &Timing) -> bool {
        self.misses.get(owner).is_some_and(|misses| *misses >= timing.orphan_misses)
    }
}
