//! Events of this master on their way to the stream: what happened to jobs, peels and published trees, for the reactor and for
//! whoever watches. Nobody waits for them.
//!
//! The id of each follows from what happened, so that two masters that tell the same tell one event.

use crate::core::Core;
use crate::limits::{EVENTS_END_LIMIT, IDS_TRIED, TELL_LIMIT, TELLS_IN_FLIGHT, TELLS_WAITING};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use zester_bus::storage::EVENTS;
use zester_bus::{Kind, Record, Sequence, Stored};
use zester_link::{Error, Link};
use zester_reactor::next_id;
use zester_wire::{BadName, Event, MessageId, Subject};

/// An event and where it goes.
pub type Tell = (Subject, Event);

/// Where events go to be told.
pub struct Tells {
    sender: mpsc::Sender<Box<Tell>>,
    /// Those that are not stored yet.
    open: Arc<AtomicUsize>,
}

/// The other end of it.
pub struct Told {
    receiver: mpsc::Receiver<Box<Tell>>,
    open: Arc<AtomicUsize>,
}

impl Tells {
    pub fn new() -> (Tells, Told) {
        let (sender, receiver) = mpsc::channel(TELLS_WAITING);
        let open = Arc::<AtomicUsize>::default();
        (Tells { sender, open: open.clone() }, Told { receiver, open })
    }

    /// One that finds no room is lost, and told of.
    pub fn tell(&self, event: Result<Tell, BadName>) {
        match event {
            Ok(tell) => {
                self.open.fetch_add(1, Ordering::AcqRel);
                if let Err(error) = self.sender.try_send(Box::new(tell)) {
                    self.open.fetch_sub(1, Ordering::AcqRel);
                    tracing::warn!("an event of this master is lost: {error}");
                }
            }
            Err(bad) => tracing::error!("an event of this master cannot be told: {bad}"),
        }
    }

    /// Waits until all are stored, for a master that stops; not for long.
    pub async fn settle(&self) {
        let stored = async {
            while self.open.load(Ordering::Acquire) > 0 {
                sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        let _lost = timeout(EVENTS_END_LIMIT, stored).await;
    }
}

impl Told {
    /// Ends only with its task.
    pub async fn run(mut self, core: Arc<Core>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            let room = under_way.len() < TELLS_IN_FLIGHT;
            tokio::select! {
                biased;
                Some(()) = under_way.next() => {
                    self.open.fetch_sub(1, Ordering::AcqRel);
                }
                Some(tell) = self.receiver.recv(), if room => under_way.push(tell_until_stored(&core, tell)),
                else => return,
            }
        }
    }
}

/// Tries again, always under the same id, so that it is kept once.
async fn tell_until_stored(core: &Core, tell: Box<Tell>) {
    let (subject, event) = *tell;
    let end = Instant::now() + TELL_LIMIT;
    loop {
        match publish_event(&core.link, &subject, &event).await {
            Ok(_) => return,
            Err(error) if Instant::now() >= end || error.bus_kind() == Some(Kind::Closed) => {
                tracing::warn!(%subject, "an event of this master is lost: {error}");
                return;
            }
            Err(error) => tracing::debug!(%subject, "an event of this master was not stored: {error}"),
        }
        sleep(core.timing.retry_pause).await;
    }
}

/// Publishes an event under its own id. A peel may have published something under that id before: what is called a duplicate is
/// believed only if what is stored has our subject, else the event gets another id on its way. That one follows from
/// the first, so that a second try finds it again.
pub async fn publish_event(link: &Link, subject: &Subject, event: &Event) -> Result<Stored, Error> {
    let bad = |bad: BadName| zester_bus::Error::new(Kind::Invalid, bad.to_string());
    let mut id = event.id.clone();
    for _ in 0..IDS_TRIED {
        let stored = link.publish_stored(subject, &MessageId::parse(&id).map_err(bad)?, event).await?;
        if !stored.duplicate {
            return Ok(stored);
        }
        let found = link.bus().at(EVENTS, stored.sequence).await?;
        if found.is_some_and(|found| found.subject == subject.to_string()) {
            return Ok(stored);
        }
        tracing::warn!(%subject, "somebody else used the id {id} before");
        id = next_id(&id);
    }
    Err(zester_bus::Error::new(Kind::Invalid, "somebody else uses all ids of this event").into())
}

/// Whether an event of this subject and id is in the stream, there or later: for whoever tries again when the server no longer
/// remembers which ids it has had.
pub async fn is_stored(link: &Link, subject: &Subject, id: &str, from: Sequence) -> Result<bool, Error> {
    let pattern = subject.to_string();
    let mut next = Some(from);
    while let Some(start) = next {
        let page = link.bus().replay(EVENTS, &pattern, start).await?;
        let is_it = |record: &Record| {
            let opened = link.try_open::<Event>(subject, record);
            opened.is_ok_and(|opened| opened.message.id == id)
        };
        if page.items.iter().any(is_it) {
            return Ok(true);
        }
        next = page.next;
    }
    Ok(false)
}
