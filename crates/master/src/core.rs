//! What all parts of one master share.

use crate::audit::Audit;
use crate::catch_up::Losses;
use crate::enroll::Enrollments;
use crate::events::Tells;
use crate::heartbeat::Beats;
use crate::index::Index;
use crate::job::{EndedJobs, RunningJobs, Start};
use crate::limits::UNMARKED_MAX;
use crate::metrics::Metrics;
use crate::publisher::Orders;
use crate::reactor::Reactor;
use crate::shares::Shares;
use crate::stores::StoreHealth;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_wire::{Jid, MasterId, Message};

pub struct Core {
    pub link: Link,
    pub id: MasterId,
    pub version: String,
    pub timing: Timing,
    pub index: Arc<Index>,
    pub running: RunningJobs,
    pub ended: EndedJobs,
    pub metrics: Metrics,
    pub health: Arc<Health>,
    /// Where new jobs go to get a task. The tasks live with whoever runs the master, so that they end with it.
    pub starts: mpsc::Sender<Start>,
    /// Jobs let go: the master stops (J-12).
    pub detach: CancellationToken,
    pub orphans: Orphans,
    pub stores: StoreHealth,
    pub beats: Beats,
    pub losses: Arc<Losses>,
    /// What this master tells the fleet.
    pub events: Tells,
    /// Who asked to be a peel, and what became of it.
    pub enrollments: Arc<Enrollments>,
    /// What each member has asked lately.
    pub shares: Shares,
    /// What it decided, and for whom (I-6).
    pub audit: Audit,
    /// What operators want to have published.
    pub orders: Orders,
    /// None where this master does not react to events.
    pub reactor: Option<Arc<Reactor>>,
    /// Jobs that other masters ran at the last look.
    pub jobs_elsewhere: AtomicUsize,
}

impl Core {
    /// Answers a client. One whose answer is lost asks again.
    pub async fn answer<T: Message>(&self, reply: Option<&str>, message: &T) {
        if let Err(error) = self.link.answer(reply, message).await {
            tracing::debug!("an answer could not be sent: {error}");
        }
    }
}

/// What the scans found out, for those who judge a single job.
#[derive(Default)]
pub struct Orphans {
    dead: Mutex<BTreeSet<MasterId>>,
    /// Claims that a client asked for, or that stood there when this master started. Perhaps they have no `active.<jid>`,
    /// and no scan finds them.
    claims: Mutex<BTreeSet<Jid>>,
    /// Jobs whose task here broke: nobody watches them although their owner lives.
    broken: Mutex<BTreeSet<Jid>>,
}

impl Orphans {
    pub fn is_dead(&self, owner: &MasterId) -> bool {
        lock(&self.dead).contains(owner)
    }

    pub fn set_dead(&self, dead: BTreeSet<MasterId>) {
        *lock(&self.dead) = dead;
    }

    /// What earlier scans found out counts for nothing.
    pub fn skip(&self) {
        lock(&self.dead).clear();
    }

    /// Looks at this job with the next scans. Whether there was room for it.
    pub fn look_at(&self, jid: &Jid) -> bool {
        let mut claims = lock(&self.claims);
        if claims.len() < UNMARKED_MAX {
            claims.insert(jid.clone());
        }
        claims.contains(jid)
    }

    pub fn forget(&self, jid: &Jid) {
        lock(&self.claims).remove(jid);
    }

    /// The task of this job broke.
    pub fn broke(&self, jid: &Jid) {
        lock(&self.broken).insert(jid.clone());
    }

    /// The jobs whose task broke since the last call.
    pub fn take_broken(&self) -> BTreeSet<Jid> {
        std::mem::take(&mut lock(&self.broken))
    }

    pub fn unmarked(&self) -> Vec<Jid> {
        lock(&self.claims).iter().cloned().collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::UnixMillis;

    #[test]
    #[rule("J-13")]
    fn j13_claims_that_find_no_room_are_told_of() {
        let jid = |number: usize| Jid::new(UnixMillis(1_800_000_000_000 + number as u64 * 1_000), [7; 16]);
        let orphans = Orphans::default();
        assert!((0..UNMARKED_MAX).all(|number| orphans.look_at(&jid(number))));
        assert!(!orphans.look_at(&jid(UNMARKED_MAX)));
        assert!(orphans.look_at(&jid(0)), "it is looked at already");
        orphans.forget(&jid(0));
        assert!(orphans.look_at(&jid(UNMARKED_MAX)));
    }

    #[test]
    #[rule("J-13")]
    fn j13_a_look_that_counts_for_nothing_leaves_nobody_dead() {
        let owner = MasterId::new("m9", "boot").unwrap();
        let orphans = Orphans::default();
        orphans.set_dead(BTreeSet::from([owner.clone()]));
        assert!(orphans.is_dead(&owner));
        orphans.skip();
        assert!(!orphans.is_dead(&owner));
    }

    #[test]
    #[rule("J-13")]
    fn j13_a_job_whose_task_broke_is_handed_to_the_next_scan_once() {
        let jid = Jid::new(UnixMillis(1_800_000_000_000), [7; 16]);
        let orphans = Orphans::default();
        orphans.broke(&jid);
        assert_eq!(orphans.take_broken(), BTreeSet::from([jid]));
        assert!(orphans.take_broken().is_empty());
    }
}
