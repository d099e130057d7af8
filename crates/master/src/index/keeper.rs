//! Keeps the index as the bus has it.
//!
//! Removed and expired keys are not told by a watch. An expired heartbeat shows by its age; facts that were removed show when
//! the keys are listed, now and then.

use crate::core::Core;
use crate::limits::{BUS_PAUSE, RELIST, WATCH_AHEAD};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::{Instant, sleep, sleep_until};
use zester_bus::{Entry, Seen, Watch};
use zester_health::State;
use zester_wire::{Bucket, FactsRecord, Key, PeelHeartbeat, PeelId};

const ALL: &str = "*";

pub(crate) struct Keeper {
    core: Arc<Core>,
    /// Whether the first telling of a bucket is complete: facts, heartbeats.
    facts_told: bool,
    beats_told: bool,
}

impl Keeper {
    pub fn new(core: Arc<Core>) -> Keeper {
        Keeper { core, facts_told: false, beats_told: false }
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        let mut relist_at = Instant::now() + RELIST;
        loop {
            let facts = self.watch(Bucket::Facts).await;
            let beats = self.watch(Bucket::PeelHeartbeat).await;
            (self.facts_told, self.beats_told) = (false, false);
            self.follow(facts, beats, &mut relist_at).await;
            if self.core.index.is_current() {
                let why = "a watch ended; what is known may be old";
                self.core.health.set("index", State::Degraded(why.into()));
            }
            sleep(BUS_PAUSE).await;
        }
    }

    async fn watch(&self, bucket: Bucket) -> Watch {
        loop {
            match self.core.link.bus().watch(bucket.as_str(), ALL, WATCH_AHEAD).await {
                Ok(watch) => return watch,
                Err(error) => tracing::debug!("cannot watch {}: {error}", bucket.as_str()),
            }
            sleep(BUS_PAUSE).await;
        }
    }

    /// Until one of the watches ends.
    async fn follow(&mut self, mut facts: Watch, mut beats: Watch, relist_at: &mut Instant) {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(*relist_at) => {
                    self.relist().await;
                    *relist_at = Instant::now() + RELIST;
                }
                seen = beats.next() => match seen {
                    Some(Ok(Seen::Entry(entry))) => self.heartbeat(&entry),
                    Some(Ok(Seen::Current)) => { self.beats_told = true; self.tell(); }
                    Some(Err(error)) => { tracing::warn!("the index begins anew: {error}"); return }
                    None => return,
                },
                seen = facts.next() => match seen {
                    Some(Ok(Seen::Entry(entry))) => self.facts(&entry),
                    Some(Ok(Seen::Current)) => { self.facts_told = true; self.tell(); }
                    Some(Err(error)) => { tracing::warn!("the index begins anew: {error}"); return }
                    None => return,
                },
            }
        }
    }

    fn tell(&self) {
        if self.facts_told && self.beats_told {
            self.core.index.set_current(true);
            self.core.health.set("index", State::Up);
            tracing::info!(peels = self.core.index.len(), "the index of peels is complete");
        }
    }

    /// The key decides whose it is; a record that says another is dropped.
    fn peel_of(&self, bucket: Bucket, entry: &Entry, claimed: &PeelId) -> bool {
        let key = Key::parse(bucket, &entry.key);
        let fits = matches!(&key, Ok(Key::Facts(peel) | Key::Peel(peel)) if peel == claimed);
        if !fits {
            self.core.link.dropped().add(zester_link::Reason::Mismatched, 1);
        }
        fits
    }

    fn facts(&self, entry: &Entry) {
        match self.core.link.record::<FactsRecord>(entry) {
            Ok(found) if self.peel_of(Bucket::Facts, entry, &found.value.peel) => {
                self.core.index.put_facts(found.value, entry.revision);
            }
            Ok(_) => {}
            Err(error) => self.malformed(entry, &error),
        }
    }

    fn heartbeat(&self, entry: &Entry) {
        match self.core.link.record::<PeelHeartbeat>(entry) {
            Ok(found) if self.peel_of(Bucket::PeelHeartbeat, entry, &found.value.peel) => {
                let peel = found.value.peel.clone();
                if self.core.index.put_heartbeat(found.value, entry.revision) {
                    self.core.roster.connected(&peel);
                }
            }
            Ok(_) => {}
            Err(error) => self.malformed(entry, &error),
        }
    }

    fn malformed(&self, entry: &Entry, error: &zester_link::Error) {
        self.core.link.dropped().add(zester_link::Reason::Malformed, 1);
        tracing::debug!(key = entry.key, "a record that cannot be read: {error}");
    }

    /// Those whose facts are gone are forgotten. A failure changes nothing.
    async fn relist(&self) {
        let begun = Instant::now();
        match self.core.link.bus().keys(Bucket::Facts.as_str(), ALL).await {
            Ok(keys) => {
                let listed: BTreeSet<PeelId> =
                    keys.iter().filter_map(|key| PeelId::parse(key).ok()).collect();
                self.core.index.keep_only(&listed, begun);
            }
            Err(error) => tracing::debug!("cannot list the facts: {error}"),
        }
    }
}
