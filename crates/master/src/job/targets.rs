//! The targets of a job, and whose return is stored: what others than the job itself need to know.

use std::sync::atomic::{AtomicBool, Ordering};
use zester_wire::PeelId;

#[derive(Debug)]
pub struct JobTargets {
    /// Sorted by name.
    all: Vec<(PeelId, AtomicBool)>,
}

impl JobTargets {
    pub fn new(peels: &[PeelId]) -> JobTargets {
        let mut names = peels.to_vec();
        names.sort_unstable();
        names.dedup();
        JobTargets { all: names.into_iter().map(|peel| (peel, AtomicBool::new(false))).collect() }
    }

    pub fn names(&self) -> impl Iterator<Item = &PeelId> {
        self.all.iter().map(|(peel, _)| peel)
    }

    /// Whether the return of a peel is stored; none if it is no target.
    pub fn is_stored(&self, peel: &PeelId) -> Option<bool> {
        let at = self.all.binary_search_by(|(name, _)| name.cmp(peel)).ok()?;
        self.all.get(at).map(|(_, stored)| stored.load(Ordering::Relaxed))
    }

    pub fn set_stored(&self, peel: &PeelId) {
        let found = self.all.binary_search_by(|(name, _)| name.cmp(peel));
        if let Some((_, stored)) = found.ok().and_then(|at| self.all.get(at)) {
            stored.store(true, Ordering::Relaxed);
        }
    }
}
