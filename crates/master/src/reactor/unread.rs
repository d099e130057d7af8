//! Tells of events that left the stream before anybody was given them: counted at once, written a few times a minute.

use super::Reactor;
use crate::core::Core;
use crate::limits::{UNREAD_EVERY, UNREAD_TOLD};
use std::sync::PoisonError;
use tokio::time::Instant;
use zester_bus::{Reached, Taken};
use zester_reactor::{Dropped, Unread};

#[derive(Default)]
pub struct Skipped {
    unread: Unread,
    /// Since this master began.
    total: u64,
    /// Those that ledger and log have not been told of.
    untold: u64,
    /// The event behind the last of them.
    before: u64,
    last_at: Option<Instant>,
    told_at: Option<Instant>,
}

impl Reactor {
    fn skipped(&self) -> std::sync::MutexGuard<'_, Skipped> {
        self.skipped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the reader is, before this master takes anything and whenever it looks. What was lost since the last look shows.
    pub(super) fn reader_is_at(&self, reached: Reached) {
        self.skipped().unread.look(reached.made, reached.given, reached.sequence);
    }

    /// Notes what a delivery says of those before it.
    pub(super) fn was_given(&self, core: &Core, taken: &Taken) {
        let (now, sequence) = (Instant::now(), taken.record.sequence);
        let mut skipped = self.skipped();
        if taken.deliveries > 1 {
            return skipped.unread.given_again(taken.given);
        }
        let Some(lost) = skipped.unread.given(taken.given, sequence) else { return };
        let count = lost.count;
        self.metrics.unread(count);
        skipped.total += count;
        skipped.untold += count;
        skipped.before = sequence;
        skipped.last_at = Some(now);
        let is_due = skipped.told_at.is_none_or(|told| now.duration_since(told) >= UNREAD_EVERY);
        drop(skipped);
        if is_due {
            self.tell_unread(core);
            self.tell();
        }
    }

    /// Tells the log and the ledger of those that they do not know of yet.
    pub(super) fn tell_unread(&self, core: &Core) {
        let mut skipped = self.skipped();
        let count = std::mem::take(&mut skipped.untold);
        if count == 0 {
            return;
        }
        skipped.told_at = Some(Instant::now());
        let before = skipped.before;
        drop(skipped);
        let why = "events left the stream before any master took them: masters are too slow, or were away";
        tracing::warn!(count, before, "{why}");
        self.note(Dropped::unread(before).entry(core.id.as_str(), core.link.now(), count - 1));
    }

    /// What readiness says of them.
    pub(super) fn unread_words(&self) -> Option<String> {
        let skipped = self.skipped();
        let is_recent = skipped.last_at.is_some_and(|last| last.elapsed() < UNREAD_TOLD);
        let total = skipped.total;
        let events = if total == 1 { "event" } else { "events" };
        is_recent
            .then(|| format!("{total} {events} left the stream before any master took them, and met no rule"))
    }
}
