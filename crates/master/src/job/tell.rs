//! Telling the world of a job: lifecycle events, kept in the stream. The job does not wait for them.

use crate::core::Core;
use crate::limits::TELLS_MAX;
use std::sync::Arc;
use zester_wire::{JobEvent, Subject};

/// Publishes an event; tries again a few times, always under the same id, so that it is kept once.
pub async fn tell(core: Arc<Core>, subject: Subject, event: JobEvent) {
    let Ok(id) = core.link.new_message_id() else { return };
    for _ in 0..TELLS_MAX {
        match core.link.publish_stored(&subject, &id, &event).await {
            Ok(_) => return,
            Err(error) => tracing::debug!(%subject, "an event of a job was not stored: {error}"),
        }
        tokio::time::sleep(core.timing.retry_pause).await;
    }
    tracing::warn!(%subject, "an event of a job was not told");
}
