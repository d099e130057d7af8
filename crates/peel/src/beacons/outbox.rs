//! Events of beacons that wait for the bus: so many, in their order.

use crate::run::limits::{BEACON_BURST, BEACON_BURST_PAUSE, BEACON_EVENTS_WAITING_MAX, BEACON_SEND_PAUSE};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use zester_bus::Kind;
use zester_health::prometheus_client::metrics::counter::Counter;
use zester_link::{Error, Link};
use zester_wire::{Event, MessageId, Subject};

/// One event on its way.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) subject: Subject,
    /// Kept while it waits, so that a stream keeps one.
    pub(super) id: MessageId,
    pub(super) event: Event,
}

pub(super) struct Outbox {
    waiting: Mutex<VecDeque<Waiting>>,
    more: Notify,
    dropped: Counter,
}

impl Outbox {
    pub(super) fn new(dropped: Counter) -> Outbox {
        Outbox { waiting: Mutex::default(), more: Notify::new(), dropped }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where there is no room, the oldest goes.
    pub(super) fn push(&self, event: Waiting) {
        let mut waiting = self.waiting();
        if waiting.len() >= BEACON_EVENTS_WAITING_MAX
            && let Some(oldest) = waiting.pop_front()
        {
            self.dropped.inc();
            let tag = &oldest.event.tag;
            tracing::warn!(%tag, "an event was dropped: {BEACON_EVENTS_WAITING_MAX} wait for the bus already");
        }
        waiting.push_back(event);
        self.more.notify_one();
    }

    /// Sends one after the other, each when a stream has the one before.
    pub(super) async fn drain(&self, link: &Link) {
        let mut burst: usize = 1;
        loop {
            let Some(first) = self.waiting().front().cloned() else {
                self.more.notified().await;
                burst = 1;
                continue;
            };
            match link.publish_stored(&first.subject, &first.id, &first.event).await {
                Ok(_) => {
                    self.sent(&first.id);
                    // A backlog that comes at once would be more than the masters take of one source.
                    if burst.is_multiple_of(BEACON_BURST) {
                        tokio::time::sleep(BEACON_BURST_PAUSE).await;
                    }
                    burst += 1;
                }
                Err(error) if never_fits(&error) => {
                    tracing::error!(tag = %first.event.tag, "an event cannot be sent, and is dropped: {error}");
                    self.dropped.inc();
                    self.sent(&first.id);
                }
                Err(error) => {
                    tracing::debug!(tag = %first.event.tag, "an event waits: {error}");
                    tokio::time::sleep(BEACON_SEND_PAUSE).await;
                }
            }
        }
    }

    /// It may have been dropped meanwhile.
    fn sent(&self, id: &MessageId) {
        let mut waiting = self.waiting();
        if waiting.front().is_some_and(|first| first.id == *id) {
            waiting.pop_front();
        }
    }
}

/// It would be refused again and again, and hold up all others.
fn never_fits(error: &Error) -> bool {
    match error {
        Error::Bus(error) => matches!(error.kind(), Kind::TooLarge | Kind::Invalid),
        Error::Encode(_)
        | Error::Decode(_)
        | Error::Mismatched { .. }
        | Error::Spoof { .. }
        | Error::Older { .. } => true,
    }
}
