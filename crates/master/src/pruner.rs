//! Removes the oldest jobs that are over before the bucket of records is full (J-23). One master does, by a lease.

use crate::core::Core;
use crate::held_lease::LeaseKeeper;
use crate::limits::{PRUNE_EVERY, PRUNE_PAUSE};
use crate::start;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::{Instant, sleep};
use zester_bus::{Entry, Sequence};
use zester_jobs::prune::{excess, may_go};
use zester_link::Error;
use zester_wire::{Bucket, Jid, Job, Key};

/// The key of the lease.
const NAME: &str = "pruner";
/// Keys of one token: `<jid>`, not `active.<jid>`.
const ALL_RECORDS: &str = "*";

pub struct Pruner {
    core: Arc<Core>,
    lease: LeaseKeeper,
    /// Nothing could be removed; not before this is it tried again.
    not_before: Instant,
}

impl Pruner {
    pub fn new(core: Arc<Core>) -> Result<Pruner, zester_wire::BadName> {
        let lease = LeaseKeeper::new(core.clone(), NAME)?;
        Ok(Pruner { core, lease, not_before: Instant::now() })
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        loop {
            self.lease.keep().await;
            if self.lease.is_held() && Instant::now() >= self.not_before {
                match self.prune().await {
                    Ok(0) => {}
                    Ok(count) => {
                        tracing::info!(count, "removed the oldest jobs that were over, to make room")
                    }
                    Err(error) => tracing::debug!("old jobs could not be removed: {error}"),
                }
            }
            sleep(PRUNE_EVERY).await;
        }
    }

    /// Removes what is over, oldest first, until there is room. How many records went.
    async fn prune(&mut self) -> Result<usize, Error> {
        let (bus, bucket) = (self.core.link.bus().clone(), Bucket::Jobs.as_str());
        let Some(store) = start::table(&self.core.timing).into_iter().find(|store| store.name == bucket)
        else {
            return Ok(0);
        };
        let usage = bus.usage(&store).await?;
        let mut excess = usage.limit.map_or(0, |limit| excess(usage.bytes, limit));
        if excess == 0 {
            return Ok(0);
        }
        let marked: BTreeSet<String> = bus.keys(bucket, Key::ALL_ACTIVE).await?.into_iter().collect();
        let (mut count, mut from) = (0, 0);
        while excess > 0 {
            // In the order they were written: what ended longest ago comes first.
            let page = bus.scan(bucket, ALL_RECORDS, from).await?;
            for entry in &page.items {
                self.lease.keep().await;
                if excess == 0 || !self.lease.is_held() {
                    return Ok(count);
                }
                if let Some((jid, revision)) = self.may_go(entry, &marked) {
                    self.remove(&jid, revision).await?;
                    excess = excess.saturating_sub(entry.value.len() as u64);
                    count += 1;
                }
            }
            match page.next {
                Some(next) => from = next,
                None => {
                    self.not_before = Instant::now() + PRUNE_PAUSE;
                    break;
                }
            }
        }
        Ok(count)
    }

    fn may_go(&self, entry: &Entry, marked: &BTreeSet<String>) -> Option<(Jid, Sequence)> {
        let found = self.core.link.record::<Job>(Bucket::Jobs, entry).ok()?;
        let is_marked = marked.contains(&Key::Active(found.value.jid.clone()).to_string());
        may_go(&found.value, is_marked, self.core.link.now()).then_some((found.value.jid, found.revision))
    }

    /// The returns first: a record without them says less than none, but returns without a record are found by nobody.
    async fn remove(&self, jid: &Jid, revision: Sequence) -> Result<(), Error> {
        let bus = self.core.link.bus();
        bus.purge_all(Bucket::JobReturns.as_str(), &Key::all_returns(jid)).await?;
        bus.purge_all(Bucket::JobTargets.as_str(), &Key::all_target_pages(jid)).await?;
        Ok(bus.purge(Bucket::Jobs.as_str(), &Key::Job(jid.clone()).to_string(), Some(revision)).await?)
    }
}
