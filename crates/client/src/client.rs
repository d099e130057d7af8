//! The operator's end of the bus.

use crate::error::Error;
use crate::limits::{FINISH_GRACE, PATIENCE};
use std::time::Duration;
use zester_bus::Entry;
use zester_link::Link;
use zester_wire::{Bucket, Key, Message};

/// Cheap to clone; clones share the connection.
#[derive(Clone)]
pub struct Client {
    pub(crate) link: Link,
    pub(crate) patience: Duration,
    pub(crate) finish_grace: Duration,
}

impl Client {
    pub fn new(link: Link) -> Client {
        Client { link, patience: PATIENCE, finish_grace: FINISH_GRACE }
    }

    /// How long masters are asked before there is said to be none.
    pub fn with_patience(self, patience: Duration) -> Client {
        Client { patience, ..self }
    }

    /// How long after its deadline a job is still followed, where a failover does not take what it usually does.
    pub fn with_finish_grace(self, finish_grace: Duration) -> Client {
        Client { finish_grace, ..self }
    }

    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Every record of a pattern whose key and bytes can be read; what cannot be is skipped, as whoever wrote it is to blame.
    pub(crate) async fn records<T: Message>(
        &self,
        bucket: Bucket,
        pattern: &str,
    ) -> Result<Vec<(Key, zester_link::Found<T>)>, Error> {
        let mut found = Vec::new();
        let take = |entry: &Entry| {
            let Ok(key) = Key::parse(bucket, &entry.key) else { return };
            match self.link.record(bucket, entry) {
                Ok(record) => found.push((key, record)),
                Err(error) => tracing::debug!(key = %entry.key, "skipped a record: {error}"),
            }
        };
        self.link.each_entry(bucket, pattern, take).await?;
        Ok(found)
    }
}
