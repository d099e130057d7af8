//! Everything that a stream or a bucket keeps of a pattern, over all its pages.

use crate::dropped::Reason;
use crate::error::Error;
use crate::link::Link;
use zester_bus::{Entry, Record};
use zester_wire::{Bucket, Jid, Key, Return};

impl Link {
    /// Shows every message of a stream, oldest first.
    pub async fn each_message(
        &self,
        stream: &str,
        pattern: &str,
        mut show: impl FnMut(&Record),
    ) -> Result<(), Error> {
        let mut from = Some(0);
        while let Some(start) = from {
            let page = self.bus().replay(stream, pattern, start).await?;
            page.items.iter().for_each(&mut show);
            from = page.next;
        }
        Ok(())
    }

    /// Shows every entry of a bucket, oldest first.
    pub async fn each_entry(
        &self,
        bucket: Bucket,
        pattern: &str,
        mut show: impl FnMut(&Entry),
    ) -> Result<(), Error> {
        let mut from = Some(0);
        while let Some(start) = from {
            let page = self.bus().scan(bucket.as_str(), pattern, start).await?;
            page.items.iter().for_each(&mut show);
            from = page.next;
        }
        Ok(())
    }

    /// The stored returns of a job. The key decides whose each is; what cannot be read, or says another, is counted and left
    /// out.
    pub async fn returns_of(&self, jid: &Jid) -> Result<Vec<Return>, Error> {
        let mut returns = Vec::new();
        let take = |entry: &Entry| match self.record::<Return>(Bucket::JobReturns, entry) {
            Ok(found) if is_of(&found.value, &entry.key) => returns.push(found.value),
            Ok(_) => self.dropped().add(Reason::Mismatched, 1),
            Err(error) => self.dropped().add(error.reason(), 1),
        };
        self.each_entry(Bucket::JobReturns, &Key::all_returns(jid), take).await?;
        Ok(returns)
    }
}

fn is_of(ret: &Return, key: &str) -> bool {
    matches!(Key::parse(Bucket::JobReturns, key), Ok(Key::Return(jid, peel)) if jid == ret.jid && peel == ret.peel)
}
