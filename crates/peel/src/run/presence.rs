//! Being there: the connection, the heartbeat that announces it (J-6), and the facts (D-7).

use super::Error;
use super::actor::{Actor, panic_words};
use super::away::Away;
use super::beat::{Beaten, beat};
use super::limits::FACTS_EVERY;
use crate::work::Work;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use tokio::task::JoinError;
use tokio::time::Instant;
use zester_bus::{Event as BusEvent, Sequence, Subscription};
use zester_jobs::peel::Event;
use zester_link::Link;
use zester_wire::{FactsRecord, Key, PeelHeartbeat, PeelId, Token, VERSION};

/// What housekeeping comes back with.
pub(super) enum House {
    Subscribed(Result<Subscription, zester_bus::Error>),
    /// A round trip over the connection of this number ended.
    Settled {
        connection: u64,
        proven: bool,
    },
    Beaten(Beaten),
    Facts {
        os: String,
        published: Option<String>,
    },
    LeftoversGone,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Bus {
    #[default]
    Down,
    /// There is a connection; whether the server has our subscription is not proven yet.
    Settling,
    Up,
}

#[derive(Default)]
pub(super) struct Presence {
    bus: Bus,
    /// Counts every change, to tell an old round trip from a new one.
    connection: u64,
    /// Connections that were announced.
    connects: u64,
    next_beat: Option<Instant>,
    beating: bool,
    beat_again: bool,
    /// The revision of our last heartbeat.
    beaten: Option<Sequence>,
    /// Another peel of our id that was told of.
    other: Option<Token>,
    away: Away,
    next_facts: Option<Instant>,
    gathering: bool,
    /// The hash of the facts that the bus has; none while that is not known.
    published: Option<String>,
    os: String,
}

impl Presence {
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.next_beat.into_iter().chain(self.next_facts).min()
    }
}

impl Actor {
    pub(super) fn bus_event(&mut self, event: Option<BusEvent>) -> Result<(), Error> {
        match event {
            Some(BusEvent::Connected) if self.presence.bus != Bus::Down => {}
            Some(BusEvent::Connected | BusEvent::Reconnected) => self.bus_there(),
            Some(BusEvent::Disconnected) => self.bus_gone(),
            Some(BusEvent::Missed(_)) if self.link.bus().info().connected => self.bus_there(),
            Some(BusEvent::Missed(_)) => self.bus_gone(),
            Some(BusEvent::ServerSaid(words)) if self.presence.bus == Bus::Down => {
                if let Some(news) = self.presence.away.hear(&words) {
                    tracing::warn!("{news}");
                }
            }
            Some(BusEvent::ServerSaid(words)) => tracing::warn!("the bus says: {words}"),
            Some(BusEvent::SlowConsumer) => {}
            Some(BusEvent::Closed) | None => return Err(Error("the bus was closed".into())),
        }
        Ok(())
    }

    fn bus_gone(&mut self) {
        if self.presence.bus == Bus::Up {
            tracing::warn!("the bus is gone; work goes on, returns wait");
            self.presence.away.lost();
        }
        self.presence.bus = Bus::Down;
        self.presence.connection += 1;
        self.presence.next_beat = None;
        self.presence.next_facts = None;
        self.gauges.bus_down();
        self.feed(Event::Disconnected);
    }

    fn bus_there(&mut self) {
        if self.presence.bus == Bus::Up {
            self.feed(Event::Disconnected);
        }
        self.presence.bus = Bus::Settling;
        self.presence.connection += 1;
        self.settle();
    }

    /// Proves by a round trip that the server has our subscription: only then may a master send work.
    fn settle(&mut self) {
        if self.commands.is_none() || self.presence.bus != Bus::Settling {
            return;
        }
        let (link, connection) = (self.link.clone(), self.presence.connection);
        let pause = self.setup.timing.retry_pause;
        self.house.spawn(async move {
            let proven = link.bus().flush().await.is_ok();
            if !proven {
                tokio::time::sleep(pause).await;
            }
            House::Settled { connection, proven }
        });
    }

    fn settled(&mut self, connection: u64, proven: bool) {
        if self.presence.bus != Bus::Settling || connection != self.presence.connection {
            return;
        }
        if !proven {
            return self.settle();
        }
        self.presence.bus = Bus::Up;
        self.presence.connects += 1;
        self.presence.away.over();
        self.gauges.bus_up();
        tracing::info!(connects = self.presence.connects, "connected to the bus");
        self.beat();
        // A fleet that came back at once must not beat in step for ever.
        let every = self.setup.timing.peel_heartbeat;
        self.presence.next_beat = Some(Instant::now() + every.mul_f64(0.5 + 0.5 * share(&self.setup.id)));
        self.presence.published = None;
        self.gather_facts();
        self.feed(Event::Connected);
    }

    pub(super) fn presence_due(&mut self) {
        let now = Instant::now();
        if self.presence.next_beat.is_some_and(|at| now >= at) {
            self.presence.next_beat = Some(now + self.setup.timing.peel_heartbeat);
            self.beat();
        }
        if self.presence.next_facts.is_some_and(|at| now >= at) {
            self.gather_facts();
        }
    }

    /// Writes a heartbeat; while one is on its way, the next waits for it.
    fn beat(&mut self) {
        if self.presence.beating {
            self.presence.beat_again = true;
            return;
        }
        self.presence.beating = true;
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let heartbeat = PeelHeartbeat {
            v: VERSION,
            peel: self.setup.id.clone(),
            ts: self.link.now(),
            boot: self.setup.boot.clone(),
            connects: self.presence.connects,
            version: self.setup.version.clone(),
            os: self.presence.os.clone(),
            busy: count(self.machine.busy()),
            outbox: count(self.machine.undelivered()),
        };
        let (link, last) = (self.link.clone(), self.presence.beaten.take());
        self.house.spawn(async move { House::Beaten(beat(link, heartbeat, last).await) });
    }

    fn beaten(&mut self, beaten: Beaten) {
        self.presence.beating = false;
        self.presence.beaten = beaten.revision;
        if let Some(other) = beaten.other.filter(|other| self.presence.other.as_ref() != Some(other)) {
            tracing::warn!(
                boot = %other,
                "another peel has the id {} too, and both do what it is told; give one of them another --id",
                self.setup.id
            );
            self.gauges.shares_its_id();
            self.presence.other = Some(other);
        }
        if std::mem::take(&mut self.presence.beat_again) && self.presence.bus == Bus::Up {
            self.beat();
        }
    }

    fn gather_facts(&mut self) {
        self.presence.next_facts = None;
        if self.presence.gathering {
            return;
        }
        self.presence.gathering = true;
        let (link, work) = (self.link.clone(), self.work.clone());
        let (peel, published) = (self.setup.id.clone(), self.presence.published.clone());
        self.house.spawn(publish_facts(link, work, peel, published));
    }

    pub(super) fn kill_leftovers(&mut self, interrupted: usize) {
        tracing::warn!(interrupted, "the peel was ended while it worked; ending what is left of it");
        let work = self.work.clone();
        self.house.spawn(async move {
            work.kill_leftovers().await;
            House::LeftoversGone
        });
    }

    pub(super) fn house_ended(&mut self, joined: Result<House, JoinError>) -> Result<(), Error> {
        let house = match joined {
            Ok(house) => house,
            Err(error) if error.is_cancelled() => return Ok(()),
            Err(error) => return Err(Error(format!("a part of the peel crashed: {}", panic_words(error)))),
        };
        if self.stopping {
            return Ok(());
        }
        match house {
            House::Subscribed(Ok(commands)) => {
                self.commands = Some(commands);
                if self.presence.bus == Bus::Down && self.link.bus().info().connected {
                    self.bus_there();
                } else {
                    self.settle();
                }
            }
            House::Subscribed(Err(error)) => {
                return Err(Error(format!("the peel cannot listen for commands: {error}")));
            }
            House::Settled { connection, proven } => self.settled(connection, proven),
            House::Beaten(beaten) => self.beaten(beaten),
            House::Facts { os, published } => self.facts_gathered(os, published),
            House::LeftoversGone => self.feed(Event::LeftoversGone),
        }
        Ok(())
    }

    fn facts_gathered(&mut self, os: String, published: Option<String>) {
        self.presence.gathering = false;
        let every = if published.is_some() { FACTS_EVERY } else { self.setup.timing.peel_heartbeat };
        self.presence.published = published;
        if self.presence.bus != Bus::Up {
            return;
        }
        self.presence.next_facts = Some(Instant::now() + every);
        if self.presence.os != os {
            self.presence.os = os;
            self.beat();
        }
    }
}

/// Writes the facts if the bus has others. Reads what it has where that is not known: another life may have written it.
async fn publish_facts(link: Link, work: Arc<dyn Work>, peel: PeelId, known: Option<String>) -> House {
    let facts = work.facts().await;
    let (os, hash) = (os_of(&facts), hash_of(&facts));
    let key = Key::Facts(peel.clone());
    let there = match known {
        Some(known) => Some(known),
        None => {
            let read = link.get::<FactsRecord>(&key).await;
            read.ok().flatten().map(|found| found.value.hash)
        }
    };
    if there.as_ref() == Some(&hash) {
        return House::Facts { os, published: there };
    }
    let record = FactsRecord { v: VERSION, peel, ts: link.now(), hash: hash.clone(), facts };
    let published = match link.put(&key, &record).await {
        Ok(_) => Some(hash),
        Err(error) => {
            tracing::warn!("the facts were not published, they will be: {error}");
            None
        }
    };
    House::Facts { os, published }
}

fn os_of(facts: &Map<String, Value>) -> String {
    facts.get("os").and_then(Value::as_str).unwrap_or_default().to_string()
}

/// The same facts have the same hash, in whatever order they were found.
fn hash_of(facts: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_sorted(&Value::Object(facts.clone()), &mut text);
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        let _infallible = write!(hex, "{byte:02x}");
    }
    hex
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            text.push('{');
            for (key, value) in sorted {
                let _infallible = write!(text, "{}:", Value::String(key.clone()));
                write_sorted(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write_sorted(item, text);
                text.push(',');
            }
            text.push(']');
        }
        plain => {
            let _infallible = write!(text, "{plain}");
        }
    }
}

/// A number from 0 to 1 that belongs to a name.
fn share(id: &PeelId) -> f64 {
    let digest = Sha256::digest(id.as_str().as_bytes());
    f64::from(u16::from_be_bytes([digest[0], digest[1]])) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_the_order_of_facts_does_not_change_their_hash() {
        let hash = |value: Value| hash_of(value.as_object().unwrap());
        assert_eq!(
            hash(json!({"a": 1, "b": {"c": 2, "d": 3}})),
            hash(json!({"b": {"d": 3, "c": 2}, "a": 1}))
        );
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": "1"})));
        assert_ne!(hash(json!({"a": [1, 2]})), hash(json!({"a": [2, 1]})));
    }

    #[test]
    fn heartbeats_are_spread_over_half_a_period() {
        let ids = ["web-1", "web-2", "db-1"].map(|name| PeelId::parse(name).unwrap());
        assert!(ids.iter().map(share).all(|share| (0.0..=1.0).contains(&share)));
        assert_ne!(share(&ids[0]), share(&ids[1]));
    }
}
