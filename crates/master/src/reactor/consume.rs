//! Takes events, passes them through the gates, and gives those that match to their tasks.

use super::Reactor;
use super::in_hand::InHand;
use super::lanes::Lanes;
use super::work::Work;
use crate::core::Core;
use crate::limits::{REACTOR_BACKPRESSURE, REACTOR_BATCH, REACTOR_PATIENCE, REACTOR_WAIT, REACTOR_WAITED};
use crate::services::rights::must_be_allowed;
use futures_util::FutureExt;
use lru::LruCache;
use std::any::Any;
use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use zester_bus::{Acknowledge, DurableReader, Error, Found, Kind, Taken};
use zester_identity::Principal;
use zester_policy::Wanted;
use zester_reactor::{
    Delivered, DropReason, Dropped, Gates, Passed, Payload, Place, Reaction, RuleSet, may_be_handed_back,
};
use zester_wire::{Event, Refusal, UnixMillis};

/// How often an event says that it is worked on, in parts of the time it has.
const SIGNS_OF_LIFE: u32 = 3;

/// Until the bus is closed (none), or the reader cannot be read (why).
pub async fn run(core: &Arc<Core>, reactor: &Arc<Reactor>) -> Option<String> {
    let mut consumer = Consumer {
        core: core.clone(),
        reactor: reactor.clone(),
        gates: Gates::new(reactor.reacting.guards.clone()),
        lanes: Lanes::default(),
        in_hand: InHand::default(),
        works: JoinSet::new(),
        waited: LruCache::new(NonZeroUsize::new(REACTOR_WAITED).unwrap_or(NonZeroUsize::MIN)),
    };
    consumer.run().await
}

struct Consumer {
    core: Arc<Core>,
    reactor: Arc<Reactor>,
    gates: Gates,
    lanes: Lanes,
    in_hand: InHand,
    works: JoinSet<()>,
    /// Events that were handed back before anything was tried.
    waited: LruCache<Place, ()>,
}

impl Consumer {
    async fn run(&mut self) -> Option<String> {
        let reader = self.reactor.reader();
        let bus = self.core.link.bus().clone();
        let mut keepalive = interval(self.reactor.reacting.ack_wait / SIGNS_OF_LIFE);
        keepalive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.rules_came().await;
        loop {
            let mut take = std::pin::pin!(bus.take(&reader, REACTOR_BATCH, REACTOR_WAIT));
            let taken = loop {
                tokio::select! {
                    biased;
                    Some(ended) = self.works.join_next() => tell_broken(ended),
                    _ = keepalive.tick() => self.keep_alive().await,
                    taken = &mut take => break taken,
                }
            };
            match taken {
                Ok(taken) => self.batch(taken).await,
                Err(error) if error.kind() == Kind::Closed => return None,
                Err(error) if is_passing(&error) => {
                    tracing::debug!("events cannot be taken now: {error}");
                    tokio::time::sleep(self.core.timing.retry_pause).await;
                    // It may be gone with the disk of a server; what is being worked on goes on.
                    if let Err(error) = self.make_sure_of(&reader).await {
                        tracing::debug!("the reader of events is not there: {error}");
                    }
                }
                Err(error) => {
                    tracing::warn!("events cannot be taken: {error}");
                    return Some(error.to_string());
                }
            }
        }
    }

    /// Makes the reader where it is gone, and looks where it is.
    async fn make_sure_of(&self, reader: &DurableReader) -> Result<(), Error> {
        let bus = self.core.link.bus();
        if bus.ensure_reader(reader).await? == Found::Created {
            tracing::warn!("the reader of events was gone: events that were stored meanwhile meet no rule");
        }
        self.reactor.reader_is_at(bus.pending(reader).await?.reached);
        Ok(())
    }

    /// Without rules no event is taken: it would be done with, and nobody had asked for it. Those that came never go.
    async fn rules_came(&self) -> Arc<RuleSet> {
        loop {
            let came = self.reactor.rules_came.notified();
            if let Some(rules) = self.reactor.rules() {
                return rules;
            }
            came.await;
        }
    }

    /// Says of all that are worked on that they are.
    async fn keep_alive(&self) {
        for taken in self.in_hand.all() {
            acknowledge(&self.core, &taken, Acknowledge::Progress).await;
        }
    }

    async fn batch(&mut self, taken: Vec<Taken>) {
        while let Some(ended) = self.works.try_join_next() {
            tell_broken(ended);
        }
        let now = self.core.link.now();
        let mut behind = None;
        for one in taken {
            self.reactor.was_given(&one);
            self.one(one, &mut behind, now).await;
        }
    }

    /// Lets an event through the gates, or says why not, and whether only because nobody knows who signed it.
    fn judge(&mut self, taken: &Taken, now: UnixMillis) -> Result<Passed, (Box<Dropped>, bool)> {
        let link = &self.core.link;
        let delivered = Delivered {
            subject: &taken.record.subject,
            sequence: taken.record.sequence,
            stored: UnixMillis(taken.record.at),
            deliveries: taken.deliveries,
        };
        let mut is_strange = false;
        let open = |subject: &_| match link.try_open::<Event>(subject, &taken.record) {
            Ok(opened) => match may_send(&self.core, opened.principal.as_ref()) {
                Ok(()) => Payload::Read { event: opened.message, signed: opened.signed },
                Err(refusal) => Payload::Forged(refusal.message),
            },
            Err(error) => {
                is_strange = error.is_of_a_stranger();
                match error {
                    zester_link::Error::Spoof { why, .. } => Payload::Forged(why.to_string()),
                    _ => Payload::Unreadable(error.to_string()),
                }
            }
        };
        self.gates.judge(&delivered, open, now).map_err(|dropped| (dropped, is_strange))
    }

    /// Whether a roster that we do not have yet may name a stranger. Asked once for all events that came together.
    async fn may_be_named(&self, behind: &mut Option<bool>) -> bool {
        if behind.is_none() {
            *behind = match self.core.link.is_behind().await {
                Ok(is_behind) => Some(is_behind),
                Err(error) => {
                    tracing::debug!("the roster cannot be read now, and events wait for it: {error}");
                    Some(true)
                }
            };
        }
        *behind == Some(true)
    }

    async fn one(&mut self, taken: Taken, behind: &mut Option<bool>, now: UnixMillis) {
        let judged = self.judge(&taken, now);
        let metrics = &self.reactor.metrics;
        let passed = match judged {
            Ok(passed) => passed,
            // Nobody is a forger before the newest roster was asked, which is on its way.
            Err((_, true)) if self.may_be_named(behind).await => return self.hand_back(&taken).await,
            Err((dropped, _)) => {
                if taken.deliveries <= 1 {
                    metrics.event(dropped.origin.as_ref());
                }
                self.drop_event(*dropped, now);
                return acknowledge(&self.core, &taken, Acknowledge::Done).await;
            }
        };
        if taken.deliveries <= 1 {
            metrics.event(Some(&passed.origin));
        }
        let rules = self.rules_came().await;
        let matched = rules.matching(&passed.key);
        if matched.is_empty() {
            metrics.unmatched.inc();
            return acknowledge(&self.core, &taken, Acknowledge::Done).await;
        }
        // One that was handed back often enough is taken on all the same. There are never more of them than the server gives
        // out unacknowledged.
        if may_be_handed_back(taken.deliveries) && self.works.len() >= self.reactor.reacting.queue {
            return self.hand_back(&taken).await;
        }
        // Whoever waited took nobody with it, however often it was given.
        let passed = match self.waited.pop(&place_of(&taken)) {
            Some(()) => passed.having_waited(),
            None => passed,
        };
        let references = matched.iter().filter_map(|place| Some(&rules.rule(*place)?.reference));
        let turn = self.lanes.join(references, &passed.origin);
        let place = passed.place();
        let reaction = Reaction::new(Arc::new(passed), rules.clone(), matched, &self.reactor.reacting.guards);
        let taken = Arc::new(taken);
        let kept = self.in_hand.hold(place, taken.deliveries, taken.clone());
        let (core, reactor) = (self.core.clone(), self.reactor.clone());
        let work = Work { core, reactor, reaction, taken, _kept: kept }.run(turn);
        let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        // What has nothing to wait for is done before a task for it would begin; the others go on as tasks.
        match work.as_mut().now_or_never() {
            Some(ended) => tell_ended(ended),
            None => drop(self.works.spawn(async move { tell_ended(work.await) })),
        }
    }

    /// For a while, before anything was tried. The longer an event waits already, the longer the while: those who wait for long are
    /// not given a hundred times before they are too old.
    async fn hand_back(&mut self, taken: &Taken) {
        self.reactor.metrics.backpressure();
        self.waited.put(place_of(taken), ());
        let after = REACTOR_BACKPRESSURE
            * u32::try_from(taken.deliveries).unwrap_or(u32::MAX).clamp(1, REACTOR_PATIENCE);
        acknowledge(&self.core, taken, Acknowledge::Later(after)).await;
    }

    fn drop_event(&self, dropped: Dropped, now: UnixMillis) {
        self.reactor.metrics.dropped(dropped.reason);
        let Some((dropped, unwritten)) = self.reactor.drops().take(dropped, now) else { return };
        let (source, word) = (dropped.source(), dropped.reason.as_str());
        match dropped.reason {
            DropReason::Stale | DropReason::Depth => {
                tracing::warn!(%source, id = %dropped.id, "an event was dropped as {word}: {}", dropped.why);
            }
            _ => tracing::debug!(%source, "an event was dropped as {word}: {}", dropped.why),
        }
        self.reactor.note(dropped.entry(self.core.id.as_str(), now, unwritten));
    }
}

fn place_of(taken: &Taken) -> Place {
    Place { sequence: taken.record.sequence, stored: UnixMillis(taken.record.at) }
}

/// An operator sends events where a role allows it (I-14).
fn may_send(core: &Core, who: Option<&Principal>) -> Result<(), Refusal> {
    must_be_allowed(core, who, &Wanted::Verb("event"), &[])
}

/// A panic is that event's failure.
fn tell_ended(ended: Result<(), Box<dyn Any + Send>>) {
    if ended.is_err() {
        tracing::error!("the work on an event broke; it comes again");
    }
}

fn tell_broken(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!("the work on an event broke; it comes again: {error}");
    }
}

/// The bus is away for a moment, or a stream has no leader: the same question may be answered later.
fn is_passing(error: &Error) -> bool {
    error.kind().retryable()
}

pub async fn acknowledge(core: &Core, taken: &Taken, what: Acknowledge) {
    // One that is lost comes again, and finds everything done.
    if let Err(error) = core.link.bus().acknowledge(taken, what).await {
        tracing::debug!("an event was not acknowledged: {error}");
    }
}
