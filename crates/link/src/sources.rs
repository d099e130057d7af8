//! The share that each peel has of a reader's time (I-13).

use crate::dropped::Reason;
use crate::link::Link;
use std::sync::PoisonError;
use zester_wire::PeelId;

impl Link {
    /// Whether a message of this peel may be opened: its subject says whose it is, and the server lets nobody else speak there. What is
    /// more than its share is dropped and counted before anything is spent on it.
    pub fn has_room_for(&self, peel: &PeelId) -> bool {
        let since_start = self.begun().elapsed();
        let takes = self.sources().lock().unwrap_or_else(PoisonError::into_inner).takes(peel, since_start);
        if !takes {
            self.dropped().one(Reason::Flood, peel.as_str(), &"it says more than its share");
        }
        takes
    }
}
