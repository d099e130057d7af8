//! Keeps the facts of the index as the bus has them.
//!
//! Removed keys are not told by a watch: they show when the keys are listed, now and then, and when another master says that
//! it removed some. So do the facts of peels that are there and whose bucket lost them: they are asked to publish them again.

use crate::core::Core;
use crate::limits::{BUS_PAUSE, FACTS_ASKED, FACTS_AWAITED, NOTICES_WAITING, RELIST, WATCH_AHEAD};
use crate::router::subscribe;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::time::{Instant, sleep, sleep_until};
use zester_bus::{Entry, Listen, Seen, Subscription, Watch};
use zester_health::State;
use zester_wire::{Bucket, FactsRecord, Key, PeelCommand, PeelId, PublishFacts, Subject, Token, VERSION};

const ALL: &str = "*";

pub(crate) struct Keeper {
    core: Arc<Core>,
}

impl Keeper {
    pub fn new(core: Arc<Core>) -> Keeper {
        Keeper { core }
    }

    /// Ends only with its task.
    pub async fn run(self) {
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
    async fn follow(&self, mut facts: Watch, notices: &mut Subscription, relist_at: &mut Instant) -> String {
        loop {
            tokio::select! {
                biased;
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
                    Some(Ok(Seen::Entry(entry))) => self.facts(&entry),
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

    /// The key decides whose they are; a record that says another is dropped.
    fn facts(&self, entry: &Entry) {
        self.core.index.feed().told(entry.revision);
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
