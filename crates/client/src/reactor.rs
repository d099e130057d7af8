//! What an operator asks about the reactor: its rules, what they would do, and what they did.

use crate::client::Client;
use crate::error::Error;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;
use zester_bus::storage::REACTOR_LEDGER;
use zester_bus::{Kind, Record};
use zester_wire::{
    AdminRequest, Bucket, FactsRecord, Key, LedgerEntry, PeelId, ReactorTestReply, ReactorTestRequest,
    Refusal, RefusalKind, RuleList, Subject, Token, VERSION, subject,
};

/// Which decisions are wanted. Empty: any.
#[derive(Clone, Debug, Default)]
pub struct LedgerQuery {
    pub rule: String,
    pub event: String,
    pub source: String,
    pub result: String,
}

impl LedgerQuery {
    fn wants(&self, entry: &LedgerEntry) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        fits(&self.rule, &entry.rule)
            && (self.event.is_empty() || entry.event_id.starts_with(&self.event))
            && fits(&self.source, &entry.origin)
            && fits(&self.result, &entry.decision)
    }
}

impl Client {
    /// What the rules would make of such an event. Nothing is executed.
    pub async fn test_reactor(&self, key: &str, data: Map<String, Value>) -> Result<ReactorTestReply, Error> {
        let request = ReactorTestRequest { v: VERSION, key: key.to_string(), data };
        self.ask(&Subject::ReactorTest, &request).await
    }

    /// The rules that a master reacts by.
    pub async fn reactor_rules(&self) -> Result<RuleList, Error> {
        let old = "the master that answered is of an earlier release, and has no reactor";
        let reply = self.ask_admin(&AdminRequest::ReactorRules).await?;
        reply.reactor.ok_or_else(|| Error::Refused(Refusal::new(RefusalKind::Invalid, old)))
    }

    /// Lets a rule react again that its breaker stopped.
    pub async fn close_breaker(&self, rule: &str, user: &str) -> Result<String, Error> {
        let request = AdminRequest::BreakerClose { rule: rule.to_string(), user: user.to_string() };
        Ok(self.ask_admin(&request).await?.message)
    }

    /// The facts of every peel, as the buckets have them.
    pub async fn facts(&self) -> Result<BTreeMap<PeelId, Map<String, Value>>, Error> {
        let mut facts = BTreeMap::new();
        for (key, found) in self.records::<FactsRecord>(Bucket::Facts, ">").await? {
            if let Key::Facts(peel) = key {
                facts.insert(peel, found.value.facts);
            }
        }
        Ok(facts)
    }

    /// What was decided in the last so long, oldest first.
    pub async fn ledger(&self, since: Duration, query: &LedgerQuery) -> Result<Vec<LedgerEntry>, Error> {
        let pattern = match Token::parse(&query.source) {
            Ok(source) => subject::ledger_of(&source),
            Err(_) if query.source.is_empty() => subject::LEDGER.to_string(),
            Err(bad) => return Err(zester_bus::Error::new(Kind::Invalid, bad.to_string()).into()),
        };
        let mut found = Vec::new();
        self.each_since(REACTOR_LEDGER, &pattern, since, |record| {
            found.extend(self.ledger_entry(record).filter(|entry| query.wants(entry)));
        })
        .await?;
        Ok(found)
    }

    /// Everything that was decided about one event, oldest first.
    pub async fn ledger_of_event(&self, event_id: &str) -> Result<Vec<LedgerEntry>, Error> {
        let pattern = subject::ledger_of_event(event_id)
            .map_err(|bad| zester_bus::Error::new(Kind::Invalid, bad.to_string()))?;
        let mut found = Vec::new();
        // Its subject names a part of a hash: another event may share it.
        let take = |record: &Record| {
            found.extend(self.ledger_entry(record).filter(|entry| entry.event_id == event_id));
        };
        self.link.each_message(REACTOR_LEDGER, &pattern, take).await?;
        Ok(found)
    }

    fn ledger_entry(&self, record: &Record) -> Option<LedgerEntry> {
        let subject = Subject::parse(&record.subject).ok()?;
        Some(self.link.open_addressed::<LedgerEntry>(&subject, record)?.message)
    }
}
