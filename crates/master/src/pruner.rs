//! Removes the oldest jobs that are over before the bucket of records is full (J-23). One master does, by a lease.

use crate::core::Core;
use crate::limits::{PRUNE_EVERY, PRUNE_PAUSE};
use crate::start;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_bus::{Entry, Sequence};
use zester_jobs::prune::{excess, may_go};
use zester_lease::{Answer, Command, LeaseClient, LeaseTiming};
use zester_link::Error;
use zester_wire::{Bucket, Jid, Job, Key, Lease as LeaseRecord, Token, VERSION};

/// The key of the lease.
const NAME: &str = "pruner";
/// Keys of one token: `<jid>`, not `active.<jid>`.
const ALL_RECORDS: &str = "*";

pub struct Pruner {
    core: Arc<Core>,
    lease: LeaseClient,
    key: Key,
    name: Token,
    start: Instant,
    /// Nothing could be removed; not before this is it tried again.
    not_before: Instant,
}

impl Pruner {
    pub fn new(core: Arc<Core>) -> Result<Pruner, zester_wire::BadName> {
        let name = Token::parse(NAME)?;
        let timing = LeaseTiming { ttl: core.timing.lease_ttl, renew: core.timing.lease_ttl / 3 };
        let lease = LeaseClient::new(core.id.clone(), timing);
        let now = Instant::now();
        Ok(Pruner { lease, key: Key::Lease(name.clone()), name, core, start: now, not_before: now })
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        loop {
            self.keep().await;
            if self.lease.is_held(self.now()) && Instant::now() >= self.not_before {
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

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Takes or renews the lease, where that is due.
    async fn keep(&mut self) {
        while let Some(command) = self.lease.tick(self.now()) {
            let answer = self.carry_out(command).await;
            let again =
                matches!(&answer, Answer::Conflict { found: Some((holder, _)) } if *holder == self.core.id);
            self.lease.answer(answer, self.now());
            if !again {
                return;
            }
        }
    }

    async fn carry_out(&self, command: Command) -> Answer {
        let (name, holder, since) = (self.name.clone(), self.core.id.clone(), self.core.link.now());
        let record = LeaseRecord { v: VERSION, name, holder, since };
        let written = match command {
            Command::Create => self.core.link.create(&self.key, &record).await,
            Command::Renew { revision } => self.core.link.update(&self.key, &record, revision).await,
        };
        match written {
            Ok(revision) => Answer::Written { revision },
            Err(error) if error.is_conflict() => {
                match self.core.link.get_latest::<LeaseRecord>(&self.key).await {
                    Ok(found) => {
                        Answer::Conflict { found: found.map(|found| (found.value.holder, found.revision)) }
                    }
                    Err(_) => Answer::Failed,
                }
            }
            Err(error) => {
                tracing::debug!("the lease of the pruner was not written: {error}");
                Answer::Failed
            }
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
                self.keep().await;
                if excess == 0 || !self.lease.is_held(self.now()) {
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
        let found = self.core.link.record::<Job>(entry).ok()?;
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
