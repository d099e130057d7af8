//! Keeps the facts of the index as the bus has them.
//!
//! Removed keys are not told by a watch: they show when the keys are listed, now and then, and when another master says that
//! it removed some. So do the facts of peels that are there and whose bucket lost them: they are asked to publish them again.

use crate::core::Core;
use crate::limits::{
    BUS_PAUSE, FACTS_ASKED, FACTS_AWAITED, FACTS_LATER, NOTICES_WAITING, RELIST, WATCH_AHEAD,
};
use crate::router::subscribe;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use zester_bus::{Entry, Listen, Seen, Subscription, Watch};
use zester_health::State;
use zester_identity::limits::{FACTS_SHARE, SOURCES_MAX};
use zester_identity::source_rate::SourceRate;
use zester_wire::{Bucket, FactsRecord, Key, PeelCommand, PeelId, PublishFacts, Subject, Token, VERSION};

const ALL: &str = "*";

pub(crate) struct Keeper {
    core: Arc<Core>,
    /// How often the facts of each were taken up, and the newest of those that wait (I-13): each costs a look at all peels.
    rate: SourceRate<PeelId>,
    begun: Instant,
    later: BTreeMap<PeelId, Entry>,
}

impl Keeper {
    pub fn new(core: Arc<Core>) -> Keeper {
        let rate = SourceRate::new(FACTS_SHARE, SOURCES_MAX);
        Keeper { core, rate, begun: Instant::now(), later: BTreeMap::new() }
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        let mut relist_at = Instant::now() + RELIST;
        let Ok(what) = Token::parse(Bucket::Facts.as_str()) else { return };
        let notices = Subject::Notify { what }.to_string();
        let mut notices = subscribe(&self.core, &notices, &Listen::alone(NOTICES_WAITING)).await;
        loop {
            let facts = self.watch(Bucket::Facts).await;
            let ended = self.follow(facts, &mut notices, &mut relist_at).await;
            self.core.index.feed().ended(&ended);
            crate::stores::tell_index(&self.core);
            // The next watch tells what is there, and not what is gone.
            relist_at = Instant::now();
            sleep(BUS_PAUSE).await;
        }
    }

    async fn watch(&self, bucket: Bucket) -> Watch {
        loop {
            match self.core.link.bus().watch(bucket.as_str(), ALL, WATCH_AHEAD).await {
                Ok(watch) => return watch,
                Err(error) => {
                    tracing::debug!("cannot watch {}: {error}", bucket.as_str());
                    if !self.core.index.is_current() {
                        let why =
                            format!("the peels are not known: {} cannot be read: {error}", bucket.as_str());
                        self.core.health.set("index", State::Down(why));
                    }
                }
            }
            sleep(BUS_PAUSE).await;
        }
    }

    /// Until the watch ends. Says why it did.
    async fn follow(
        &mut self,
        mut facts: Watch,
        notices: &mut Subscription,
        relist_at: &mut Instant,
    ) -> String {
        let mut later = interval(FACTS_LATER);
        later.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = later.tick(), if !self.later.is_empty() => {
                    for (peel, entry) in std::mem::take(&mut self.later) {
                        self.facts_of(peel, entry);
                    }
                }
                () = sleep_until(*relist_at) => {
                    let all_have_facts = self.relist().await;
                    *relist_at = Instant::now() + if all_have_facts { RELIST } else { FACTS_AWAITED };
                }
                () = self.core.index.feed().watch_is_behind.notified() => {
                    tracing::warn!("the watch of facts does not tell what is written; it begins anew");
                    return "the watch of facts has told nothing".into();
                }
                Some(_) = notices.next() => *relist_at = Instant::now(),
                seen = facts.next() => match seen {
                    Some(Ok(Seen::Entry(entry))) => {
                        self.core.index.feed().told(entry.revision);
                        match Key::parse(Bucket::Facts, &entry.key) {
                            Ok(Key::Facts(peel)) => self.facts_of(peel, entry),
                            _ => self.core.link.dropped().add(zester_link::Reason::Mismatched, 1),
                        }
                    }
                    Some(Ok(Seen::Current)) => self.complete(),
                    Some(Err(error)) => {
                        tracing::warn!("the index begins anew: {error}");
                        return error.to_string();
                    }
                    None => return "the watch of the facts ended".into(),
                },
            }
        }
    }

    fn complete(&self) {
        self.core.index.set_facts_current();
        self.core.index.feed().current();
        self.core.health.set("index", State::Up);
        tracing::info!(peels = self.core.index.len(), "the index of peels is complete");
    }

    /// Takes up the facts of a peel now, or keeps the newest of them for later.
    fn facts_of(&mut self, peel: PeelId, entry: Entry) {
        if self.rate.takes(&peel, self.begun.elapsed()) {
            self.later.remove(&peel);
            return self.facts(&entry);
        }
        self.core.link.dropped().add(zester_link::Reason::Flood, 1);
        // More peels than a fleet has: the flood is of names that nobody has.
        if self.later.len() < SOURCES_MAX || self.later.contains_key(&peel) {
            self.later.insert(peel, entry);
        }
    }

    /// The key decides whose they are; a record that says another is dropped.
    fn facts(&self, entry: &Entry) {
        match self.core.link.record::<FactsRecord>(Bucket::Facts, entry) {
            Ok(found) => {
                let key = Key::parse(Bucket::Facts, &entry.key);
                if matches!(&key, Ok(Key::Facts(peel)) if *peel == found.value.peel) {
                    // Where nobody signs, anybody writes what they like.
                    if self.core.link.trust().is_some() && self.core.index.facts_are_older(&found.value) {
                        self.core.link.dropped().add(zester_link::Reason::Spoof, 1);
                        return tracing::warn!(peel = %found.value.peel, "facts were dropped: newer ones are known");
                    }
                    self.core.index.put_facts(found.value);
                } else {
                    self.core.link.dropped().add(zester_link::Reason::Mismatched, 1);
                }
            }
            Err(error) => {
                self.core.link.dropped().add(error.reason(), 1);
                tracing::debug!(key = entry.key, "a record that cannot be read: {error}");
            }
        }
    }

    /// Those whose facts are gone are forgotten, unless they are there: then they are asked for them. Says whether nobody had
    /// to be. A failure changes nothing.
    async fn relist(&self) -> bool {
        let keys = match self.core.link.bus().keys(Bucket::Facts.as_str(), ALL).await {
            Ok(keys) => keys,
            Err(error) => {
                tracing::debug!("cannot list the facts: {error}");
                return false;
            }
        };
        let listed: BTreeSet<PeelId> = keys.iter().filter_map(|key| PeelId::parse(key).ok()).collect();
        self.core.index.keep_only(&listed);
        let without = self.core.index.online_besides(&listed);
        for peel in without.iter().take(FACTS_ASKED) {
            let command = PeelCommand::PublishFacts(PublishFacts { v: VERSION });
            if let Err(error) =
                self.core.link.publish(&Subject::Command { peel: peel.clone() }, &command).await
            {
                tracing::debug!(%peel, "was not asked for its facts: {error}");
            }
        }
        without.is_empty()
    }
}
