//! Whether a newer roster than ours may know whoever signed something.

use crate::error::Error;
use crate::link::Link;
use zester_identity::roster;
use zester_wire::{Bucket, Key};

impl Link {
    /// Whether the bus has a newer roster than the one that counts here. It is not taken: whoever follows it also keeps it on the
    /// disk, and one that was taken past him would be forgotten at the next start.
    pub async fn is_behind(&self) -> Result<bool, Error> {
        let Some(trust) = self.trust() else { return Ok(false) };
        let entry = self.bus().get(Bucket::Trust.as_str(), &Key::Roster.to_string()).await?;
        let newest = entry.and_then(|entry| roster::read(&entry.value, trust.anchor()).ok());
        Ok(newest.is_some_and(|newest| newest.serial > trust.serial()))
    }
}
