//! What the stream `job-events` tells of one job, and why each target of it is missing (J-17).

use crate::client::Client;
use crate::error::Error;
use std::collections::BTreeMap;
use zester_bus::Record;
use zester_bus::storage::JOB_EVENTS;
use zester_wire::subject::all_of_job;
use zester_wire::{Ack, Jid, Job, Key, Missing, PeelHeartbeat, PeelId, Return, Subject};

/// The first ack and the first return of each peel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    pub acks: BTreeMap<PeelId, Ack>,
    pub returns: BTreeMap<PeelId, Return>,
}

impl Client {
    pub async fn history(&self, jid: &Jid) -> Result<History, Error> {
        let mut history = History::default();
        let take = |record: &Record| {
            let Ok(subject) = Subject::parse(&record.subject) else { return };
            match &subject {
                Subject::JobAck { peel, .. } => {
                    if let Some(ack) = self.link.open_addressed::<Ack>(&subject, &record.payload) {
                        history.acks.entry(peel.clone()).or_insert(ack.message);
                    }
                }
                Subject::JobReturn { peel, .. } => {
                    if let Some(ret) = self.link.open_addressed::<Return>(&subject, &record.payload) {
                        history.returns.entry(peel.clone()).or_insert(ret.message);
                    }
                }
                _ => {}
            }
        };
        self.link.each_message(JOB_EVENTS, &all_of_job(jid), take).await?;
        Ok(history)
    }

    /// Why each target has no usable return. Of a job that is over the record says so; of one that runs it is found out.
    pub async fn missing(
        &self,
        job: &Job,
        returns: &BTreeMap<PeelId, Return>,
    ) -> Result<BTreeMap<PeelId, Missing>, Error> {
        if job.status.is_terminal() {
            // A late return corrects the record.
            let late = |peel: &PeelId| returns.get(peel).is_some_and(|ret| ret.late && ret.counts());
            let missing = job.missing.iter().filter(|(peel, _)| !late(peel));
            return Ok(missing.map(|(peel, why)| (peel.clone(), *why)).collect());
        }
        let history = self.history(&job.jid).await?;
        let mut missing = BTreeMap::new();
        for peel in job.targets.iter().filter(|peel| !returns.contains_key(*peel)) {
            if history.returns.contains_key(peel) {
                continue;
            }
            let why = match history.acks.contains_key(peel) {
                true => Missing::Running,
                false => match self.link.get::<PeelHeartbeat>(&Key::Peel(peel.clone())).await? {
                    Some(_) => Missing::NeverAcked,
                    None => Missing::Unreachable,
                },
            };
            missing.insert(peel.clone(), why);
        }
        Ok(missing)
    }
}
