//! Who is in the fleet: facts say who ever was, a master who is there now. Without a master, the record that each peel writes
//! now and then has to do.

use crate::ask::Reply;
use crate::client::Client;
use crate::error::Error;
use crate::limits::{LIST_WAIT, NAMED_AT_ONCE};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use zester_wire::limits::SEEN_EVERY;
use zester_wire::{
    AdminRequest, Bucket, FactsRecord, Key, PeelHeartbeat, PeelId, PeelStatus, PeelsReply, PeelsRequest,
    Refusal, Subject, UnixMillis, VERSION,
};

/// One peel as the fleet knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Peel {
    pub id: PeelId,
    pub online: bool,
    /// When it last gave a sign of life.
    pub last_seen: UnixMillis,
    pub os: String,
    pub version: String,
    /// Executions that run or wait there.
    pub busy: u32,
    /// Returns that no master has yet.
    pub outbox: u32,
    pub facts: Map<String, Value>,
}

/// Everybody, and how well that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Peels {
    pub peels: Vec<Peel>,
    /// No master answered: `online` is what the peels wrote down themselves, every few minutes.
    pub by_record: bool,
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

    /// What its last record says. It is not written often: a peel that was there lately may be gone.
    fn recorded(&mut self, record: PeelHeartbeat, stored: UnixMillis, now: UnixMillis) {
        let PeelHeartbeat { peel, version, os, busy, outbox, stopped, ts, .. } = record;
        let last_seen = self.last_seen.max(stored);
        let online = !stopped && now.since(stored.max(ts)) < SEEN_EVERY.saturating_mul(2);
        self.is(PeelStatus { peel, online, last_seen, version, os, busy, outbox });
    }

    fn is(&mut self, status: PeelStatus) {
        self.online = status.online;
        self.last_seen = if status.last_seen.0 > 0 { status.last_seen } else { self.last_seen };
        for (known, told) in [(&mut self.os, status.os), (&mut self.version, status.version)] {
            if !told.is_empty() {
                *known = told;
            }
        }
        (self.busy, self.outbox) = (status.busy, status.outbox);
    }

    fn without_records(id: PeelId) -> Peel {
        let (os, version) = (String::new(), String::new());
        let last_seen = UnixMillis::default();
        Peel { id, online: false, last_seen, os, version, busy: 0, outbox: 0, facts: Map::new() }
    }
}

impl Reply for PeelsReply {
    fn refusal(&self) -> Option<&Refusal> {
        self.error.as_ref()
    }
}

impl Client {
    /// Everybody, by name.
    pub async fn peels(&self) -> Result<Vec<Peel>, Error> {
        Ok(self.peels_now().await?.peels)
    }

    /// The same, and whether a master said who is there.
    pub async fn peels_now(&self) -> Result<Peels, Error> {
        let mut peels = self.recorded_peels().await?;
        let statuses = self.statuses("*").await;
        let by_record = statuses.is_none();
        if let Some(statuses) = statuses {
            peels.values_mut().for_each(|peel| peel.online = false);
            for status in statuses {
                let id = status.peel.clone();
                peels.entry(id.clone()).or_insert_with(|| Peel::without_records(id)).is(status);
            }
        }
        Ok(Peels { peels: peels.into_values().collect(), by_record })
    }

    /// Which releases the peels run: as a master knows them, which costs the server nothing, or as they were last recorded.
    pub async fn versions(&self) -> Result<BTreeSet<String>, Error> {
        match self.statuses("*").await {
            Some(statuses) => {
                let versions = statuses.into_iter().map(|status| status.version);
                Ok(versions.filter(|version| !version.is_empty()).collect())
            }
            None => Ok(self.recorded_peels().await?.into_values().map(|peel| peel.version).collect()),
        }
    }

    /// Everybody as the buckets have them, whatever the masters do.
    pub(crate) async fn recorded_peels(&self) -> Result<BTreeMap<PeelId, Peel>, Error> {
        let mut peels: BTreeMap<PeelId, Peel> = BTreeMap::new();
        for (key, found) in self.records::<FactsRecord>(Bucket::Facts, ">").await? {
            if let Key::Facts(id) = key {
                peels.insert(id.clone(), Peel::of_facts(id, found.value, found.stored));
            }
        }
        let now = self.link.now();
        for (key, found) in self.records::<PeelHeartbeat>(Bucket::PeelSeen, ">").await? {
            if let Key::Peel(id) = key {
                let peel = peels.entry(id.clone()).or_insert_with(|| Peel::without_records(id));
                peel.recorded(found.value, found.stored, now);
            }
        }
        Ok(peels)
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
        let record = self.link.get::<PeelHeartbeat>(&Key::Peel(id.clone())).await?;
        let status = self.status_of(std::slice::from_ref(id)).await;
        let known = facts.is_some() || record.is_some();
        let mut peel = match facts {
            Some(found) => Peel::of_facts(id.clone(), found.value, found.stored),
            None => Peel::without_records(id.clone()),
        };
        if let Some(found) = record {
            peel.recorded(found.value, found.stored, self.link.now());
        }
        match status {
            Some(mut statuses) => match statuses.remove(id) {
                Some(status) => peel.is(status),
                None if known => peel.online = false,
                None => return Err(Error::NoSuchPeel(id.to_string())),
            },
            None if known => {}
            None => return Err(Error::NoSuchPeel(id.to_string())),
        }
        Ok(peel)
    }

    /// Which of these are offline: as a master knows them or, where none answers, as they were last recorded.
    pub(crate) async fn offline(&self, peels: &[PeelId]) -> Result<BTreeSet<PeelId>, Error> {
        let online: BTreeSet<PeelId> = match self.status_of(peels).await {
            Some(statuses) => statuses.into_values().filter(|it| it.online).map(|it| it.peel).collect(),
            None => {
                let recorded = self.recorded_peels().await?;
                recorded.into_values().filter(|peel| peel.online).map(|peel| peel.id).collect()
            }
        };
        Ok(peels.iter().filter(|peel| !online.contains(*peel)).cloned().collect())
    }

    /// How these are, as a master knows them; none where no master answers. Whom it does not know is not among them.
    async fn status_of(&self, peels: &[PeelId]) -> Option<BTreeMap<PeelId, PeelStatus>> {
        let mut all = BTreeMap::new();
        for names in peels.chunks(NAMED_AT_ONCE) {
            let names: Vec<&str> = names.iter().map(PeelId::as_str).collect();
            let statuses = self.statuses(&format!("L@{}", names.join(","))).await?;
            all.extend(statuses.into_iter().map(|status| (status.peel.clone(), status)));
        }
        Some(all)
    }

    /// Asked once: whoever wants to know who is there now is not served by waiting.
    async fn statuses(&self, expression: &str) -> Option<Vec<PeelStatus>> {
        let (mut all, mut after): (Vec<PeelStatus>, Option<PeelId>) = (Vec::new(), None);
        loop {
            let request = PeelsRequest { v: VERSION, target_expr: expression.into(), after: after.take() };
            let reply = self.link.request::<_, PeelsReply>(&Subject::PeelList, &request, LIST_WAIT).await;
            let page = reply.ok().filter(|page| page.error.is_none())?;
            // A page that brings nobody is the last, whatever it says: the next would be the same.
            match page.peels.last() {
                Some(last) if page.more => after = Some(last.peel.clone()),
                _ => {
                    all.extend(page.peels);
                    return Some(all);
                }
            }
            all.extend(page.peels);
        }
    }

    /// Machines that are gone for good (J-25). What was done, in a sentence.
    pub async fn forget(&self, peels: Vec<PeelId>, user: &str) -> Result<String, Error> {
        let request = AdminRequest::Forget { peels, user: user.into() };
        Ok(self.ask_admin(&request).await?.message)
    }
}
