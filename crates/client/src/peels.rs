//! Who is in the fleet: facts say who ever was, heartbeats who is there now.

use crate::client::Client;
use crate::error::Error;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use zester_wire::{Bucket, FactsRecord, Key, PeelHeartbeat, PeelId, UnixMillis};

/// One peel as the fleet knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Peel {
    pub id: PeelId,
    pub online: bool,
    /// When it last gave a sign of life, by the server's clock.
    pub last_seen: UnixMillis,
    pub os: String,
    pub version: String,
    /// Executions that run or wait there.
    pub busy: u32,
    /// Returns that no master has yet.
    pub outbox: u32,
    pub facts: Map<String, Value>,
}

impl Peel {
    fn of_facts(id: PeelId, record: FactsRecord, stored: UnixMillis) -> Peel {
        let text = |key: &str| record.facts.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
        Peel {
            id,
            online: false,
            last_seen: stored,
            os: text("os"),
            version: text("zester_version"),
            busy: 0,
            outbox: 0,
            facts: record.facts,
        }
    }

    fn apply_heartbeat(&mut self, heartbeat: PeelHeartbeat, stored: UnixMillis) {
        self.online = true;
        self.last_seen = self.last_seen.max(stored);
        for (known, reported) in [(&mut self.os, heartbeat.os), (&mut self.version, heartbeat.version)] {
            if !reported.is_empty() {
                *known = reported;
            }
        }
        (self.busy, self.outbox) = (heartbeat.busy, heartbeat.outbox);
    }

    fn without_records(id: PeelId) -> Peel {
        let (os, version) = (String::new(), String::new());
        let last_seen = UnixMillis::default();
        Peel { id, online: false, last_seen, os, version, busy: 0, outbox: 0, facts: Map::new() }
    }
}

impl Client {
    /// Everybody, by name.
    pub async fn peels(&self) -> Result<Vec<Peel>, Error> {
        let mut peels: BTreeMap<PeelId, Peel> = BTreeMap::new();
        for (key, found) in self.records::<FactsRecord>(Bucket::Facts, ">").await? {
            if let Key::Facts(id) = key {
                peels.insert(id.clone(), Peel::of_facts(id, found.value, found.stored));
            }
        }
        for (key, found) in self.records::<PeelHeartbeat>(Bucket::PeelHeartbeat, ">").await? {
            if let Key::Peel(id) = key {
                let peel = peels.entry(id.clone()).or_insert_with(|| Peel::without_records(id));
                peel.apply_heartbeat(found.value, found.stored);
            }
        }
        Ok(peels.into_values().collect())
    }

    /// Which of these no peel has: neither facts nor a heartbeat. Costs the server no consumer.
    pub async fn unknown(&self, ids: Vec<PeelId>) -> Result<Vec<PeelId>, Error> {
        let known = |id: PeelId| async move {
            Ok(self.has(&Key::Facts(id.clone())).await? || self.has(&Key::Peel(id)).await?)
        };
        let found = self.each(ids, known).await?;
        let mut unknown: Vec<PeelId> =
            found.into_iter().filter_map(|(id, known)| (!known).then_some(id)).collect();
        unknown.sort_unstable();
        Ok(unknown)
    }

    async fn has(&self, key: &Key) -> Result<bool, Error> {
        Ok(self.link.bus().get(key.bucket().as_str(), &key.to_string()).await?.is_some())
    }

    pub async fn peel(&self, id: &PeelId) -> Result<Peel, Error> {
        let facts = self.link.get::<FactsRecord>(&Key::Facts(id.clone())).await?;
        let heartbeat = self.link.get::<PeelHeartbeat>(&Key::Peel(id.clone())).await?;
        if facts.is_none() && heartbeat.is_none() {
            return Err(Error::NoSuchPeel(id.to_string()));
        }
        let mut peel = match facts {
            Some(found) => Peel::of_facts(id.clone(), found.value, found.stored),
            None => Peel::without_records(id.clone()),
        };
        if let Some(found) = heartbeat {
            peel.apply_heartbeat(found.value, found.stored);
        }
        Ok(peel)
    }
}
