//! What the schedules of peels did, as the stream has it (D-10): no record is made for it, and none is needed.

use crate::client::Client;
use crate::error::Error;
use std::collections::BTreeMap;
use zester_bus::storage::JOB_EVENTS;
use zester_wire::{Jid, Return, Subject, subject};

impl Client {
    /// The results of schedules, newest first. One that was told twice is one.
    pub async fn scheduled(&self, limit: usize) -> Result<Vec<Return>, Error> {
        let mut found = self.read_scheduled(subject::ALL_SCHEDULED).await?;
        // Job ids begin with the time.
        found.sort_by(|a, b| b.jid.cmp(&a.jid));
        found.truncate(limit);
        Ok(found)
    }

    /// The result of one scheduled run.
    pub async fn scheduled_run(&self, jid: &Jid) -> Result<Option<Return>, Error> {
        Ok(self.read_scheduled(&subject::all_scheduled(jid)).await?.pop())
    }

    async fn read_scheduled(&self, pattern: &str) -> Result<Vec<Return>, Error> {
        let mut found = BTreeMap::new();
        self.link
            .each_message(JOB_EVENTS, pattern, |record| {
                let Ok(subject) = Subject::parse(&record.subject) else { return };
                if let Some(opened) = self.link.open_addressed::<Return>(&subject, record) {
                    found.insert(opened.message.jid.clone(), opened.message);
                }
            })
            .await?;
        Ok(found.into_values().collect())
    }
}
