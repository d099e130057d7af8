//! Reads again from the stream what this master may have missed, once for all its jobs.
//!
//! Acks, returns and cancels come by subscriptions, which may drop some and lose all while there is no connection. Every few
//! seconds the end of the stream is noted, and after a loss the stream is read from the last such place on, page by page and not
//! faster than so many pages a second. What is read is told apart by its subject, and only what belongs to a job of this master
//! is opened.

use crate::core::Core;
use crate::job::JobMessage;
use crate::limits::{CATCH_UP_AGAIN, CATCH_UP_PAUSE, POSITION_EVERY, SCAN_IN_FLIGHT};
use futures_util::stream::{self, StreamExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval, sleep};
use zester_bus::storage::{JOB_EVENTS, job_events};
use zester_bus::{Kind, Record, Sequence};
use zester_wire::{Ack, Job, JobEvent, JobEventKind, Key, Subject};

/// Where everybody who noticed a loss says so.
#[derive(Default)]
pub struct Losses {
    noticed: Notify,
    happened: AtomicBool,
    /// What this master sent may be lost too.
    sent_too: AtomicBool,
}

impl Losses {
    /// Messages to this master were dropped.
    pub fn dropped(&self) {
        self.happened.store(true, Ordering::Relaxed);
        self.noticed.notify_one();
    }

    #[cfg(test)]
    pub(crate) fn are_noticed(&self) -> bool {
        self.happened.load(Ordering::Relaxed)
    }

    /// There was no connection for a while.
    pub fn disconnected(&self) {
        self.sent_too.store(true, Ordering::Relaxed);
        self.dropped();
    }
}

/// How far the stream is known. A server may store a message a moment before it delivers it, so a place counts once the next
/// has been noted and nothing was lost in between.
#[derive(Debug, Default, PartialEq, Eq)]
struct Position {
    known: Sequence,
    noted: Option<Sequence>,
}

impl Position {
    /// The stream ends there, and nothing was lost since the last note.
    fn note(&mut self, last: Sequence) {
        self.found_end(last);
        if let Some(noted) = self.noted.replace(last) {
            self.known = noted;
        }
    }

    /// The stream ends there now. One that was made again has nothing of what was known, and is read from its beginning.
    fn found_end(&mut self, last: Sequence) {
        if last < self.known {
            *self = Position::default();
        }
    }

    fn lost(&mut self) {
        self.noted = None;
    }

    /// Everything up to there was read from the stream itself.
    fn read_to(&mut self, last: Sequence) {
        *self = Position { known: last, noted: None };
    }
}

pub struct CatchUp {
    core: Arc<Core>,
    position: Position,
}

impl CatchUp {
    /// Notes where the stream ends before this master has jobs.
    pub async fn begin(core: Arc<Core>) -> CatchUp {
        let mut position = Position::default();
        loop {
            match core.link.bus().usage(&job_events()).await {
                Ok(usage) => {
                    position.read_to(usage.last);
                    return CatchUp { core, position };
                }
                Err(error) => tracing::warn!("the stream of job events cannot be read: {error}"),
            }
            sleep(core.timing.retry_pause).await;
        }
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        let mut notes = interval(POSITION_EVERY);
        notes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let core = self.core.clone();
        loop {
            tokio::select! {
                biased;
                () = core.losses.noticed.notified() => {
                    if !self.catch_up().await {
                        return;
                    }
                }
                _ = notes.tick() => self.note().await,
            }
        }
    }

    async fn note(&mut self) {
        let Ok(usage) = self.core.link.bus().usage(&job_events()).await else { return };
        // A loss that is noticed meanwhile is handled next, from the place that was known before.
        if !self.core.losses.happened.load(Ordering::Relaxed) {
            self.position.note(usage.last);
        }
    }

    /// Whether the bus is still open.
    async fn catch_up(&mut self) -> bool {
        let losses = &self.core.losses;
        losses.happened.store(false, Ordering::Relaxed);
        self.position.lost();
        if self.core.running.len() == 0 {
            losses.sent_too.store(false, Ordering::Relaxed);
            return true;
        }
        self.core.metrics.catch_ups.inc();
        let sent_too = losses.sent_too.swap(false, Ordering::Relaxed);
        if sent_too {
            self.check_owners().await;
        }
        if !self.read().await {
            return false;
        }
        if sent_too {
            // Peels that have it answer with what they stored.
            for (_, handle) in self.core.running.handles() {
                let _ended = handle.hand(JobMessage::AskAgain).await;
            }
        }
        // A cluster may store a moment later than it delivers.
        sleep(CATCH_UP_AGAIN).await;
        self.read().await
    }

    /// Whoever was away may have lost its jobs to others, and must not go on with them (J-10).
    async fn check_owners(&self) {
        let link = &self.core.link;
        let reads = self.core.running.handles().into_iter().map(|(jid, handle)| async move {
            match link.get_latest::<Job>(&Key::Job(jid.clone())).await {
                Ok(Some(found)) => {
                    let Job { owner, epoch, .. } = found.value;
                    let _ended = handle.hand(JobMessage::OwnedBy { owner, epoch }).await;
                }
                Ok(None) => {}
                // Its next write finds out.
                Err(error) => tracing::debug!(%jid, "whose job it is could not be read: {error}"),
            }
        });
        stream::iter(reads).buffer_unordered(SCAN_IN_FLIGHT).collect::<()>().await;
    }

    async fn read(&mut self) -> bool {
        // Where it cannot be asked, reading it says why.
        if let Ok(usage) = self.core.link.bus().usage(&job_events()).await {
            self.position.found_end(usage.last);
        }
        let mut last = self.position.known;
        loop {
            match self.core.link.bus().replay(JOB_EVENTS, ">", last + 1).await {
                Ok(page) => {
                    self.core.metrics.catch_up_pages.inc();
                    for record in &page.items {
                        self.hand_over(record).await;
                    }
                    last = page.items.last().map_or(last, |record| record.sequence);
                    self.position.read_to(last);
                    if page.next.is_none() {
                        return true;
                    }
                    sleep(CATCH_UP_PAUSE).await;
                }
                Err(error) if error.kind() == Kind::Closed => return false,
                Err(error) => {
                    tracing::debug!("the stream cannot be read again now: {error}");
                    sleep(self.core.timing.retry_pause).await;
                }
            }
        }
    }

    /// What is known already changes nothing: a job ignores what it has.
    async fn hand_over(&self, record: &Record) {
        let link = &self.core.link;
        let Ok(subject) = Subject::parse(&record.subject) else { return };
        let jid = match &subject {
            Subject::JobAck { jid, .. } | Subject::JobReturn { jid, .. } | Subject::JobCancel { jid } => jid,
            _ => return,
        };
        let Some(handle) = self.core.running.get(jid) else { return };
        let message = match &subject {
            Subject::JobAck { .. } => link.open_addressed::<Ack>(&subject, record).map(|opened| {
                JobMessage::Ack { peel: opened.message.peel, dispatch_epoch: opened.message.dispatch_epoch }
            }),
            Subject::JobReturn { .. } => {
                if let Some(ret) = link.open_return(&subject, record) {
                    handle.hand_return(ret, record.payload.len()).await;
                }
                return;
            }
            _ => {
                let opened = link.open_addressed::<JobEvent>(&subject, record);
                opened.and_then(|opened| match opened.message.event {
                    JobEventKind::Canceled { by, .. } => Some(JobMessage::Cancel { by, answer: None }),
                    _ => None,
                })
            }
        };
        if let Some(message) = message {
            // A job that has ended meanwhile needs it no more.
            let _ended = handle.hand(message).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_once_the_next_was_noted_without_a_loss() {
        let mut position = Position::default();
        position.note(10);
        assert_eq!(position.known, 0);
        position.note(20);
        assert_eq!(position.known, 10);
        position.lost();
        position.note(30);
        assert_eq!(position.known, 10, "what was lost may stand before the 20 that was noted");
        position.read_to(30);
        assert_eq!(position.known, 30);
        position.note(3);
        assert_eq!(position.known, 0, "a stream that was made again begins anew");
    }

    #[test]
    fn a_stream_that_was_made_again_is_read_from_its_beginning() {
        let mut position = Position::default();
        position.read_to(500);
        position.lost();
        position.found_end(700);
        assert_eq!(position.known, 500, "the same stream, which went on");
        position.found_end(500);
        assert_eq!(position.known, 500, "nothing has come");
        position.found_end(3);
        assert_eq!(position, Position::default());
    }
}
