//! What all parts of one master share.

use crate::catch_up::Losses;
use crate::heartbeat::Beats;
use crate::index::Index;
use crate::job::{RunningJobs, Start};
use crate::limits::UNMARKED_MAX;
use crate::metrics::Metrics;
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

    /// Looks at this job with the next scans.
    pub fn look_at(&self, jid: &Jid) {
        let mut claims = lock(&self.claims);
        if claims.len() < UNMARKED_MAX {
            claims.insert(jid.clone());
        }
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
    fn j13_a_job_whose_task_broke_is_handed_to_the_next_scan_once() {
        let jid = Jid::new(UnixMillis(1_800_000_000_000), [7; 16]);
        let orphans = Orphans::default();
        orphans.broke(&jid);
        assert_eq!(orphans.take_broken(), BTreeSet::from([jid]));
        assert!(orphans.take_broken().is_empty());
    }
}
