//! The lifecycle events of one job on their way to the stream. The job does not wait for them.

use crate::core::Core;
use crate::limits::{EVENT_TRIES_MAX, EVENTS_WAITING};
use futures_util::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::Arc;
use zester_wire::{JobEvent, Subject};

#[derive(Default)]
pub struct Events {
    waiting: VecDeque<(Subject, JobEvent)>,
    under_way: Option<BoxFuture<'static, ()>>,
}

impl Events {
    /// In a line that is full the oldest gives way: the record says more than any event.
    pub fn add(&mut self, subject: Subject, event: JobEvent) {
        if self.waiting.len() >= EVENTS_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((subject, event));
    }

    pub fn start(&mut self, core: &Arc<Core>) {
        if self.under_way.is_none()
            && let Some((subject, event)) = self.waiting.pop_front()
        {
            self.under_way = Some(Box::pin(publish(core.clone(), subject, event)));
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_none()
    }

    /// Until the one that is under way has ended; for ever if none is.
    pub async fn next(&mut self) {
        match &mut self.under_way {
            Some(under_way) => under_way.await,
            None => std::future::pending().await,
        }
        self.under_way = None;
    }
}

/// Tries again a few times, always under the same id, so that it is kept once.
async fn publish(core: Arc<Core>, subject: Subject, event: JobEvent) {
    let Ok(id) = core.link.new_message_id() else { return };
    for _ in 0..EVENT_TRIES_MAX {
        match core.link.publish_stored(&subject, &id, &event).await {
            Ok(_) => return,
            Err(error) => tracing::debug!(%subject, "an event of a job was not stored: {error}"),
        }
        tokio::time::sleep(core.timing.retry_pause).await;
    }
    tracing::warn!(%subject, "an event of a job could not be published");
}
