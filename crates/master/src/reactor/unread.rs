//! Tells of events that left the stream before anybody was given them: counted at once, written a few times a minute.

use super::Reactor;
use super::ledger::Note;
use crate::core::Core;
use crate::limits::{LEDGER_AGAIN, LEDGER_TRIES, UNREAD_EVERY, UNREAD_STRETCHES, UNREAD_TOLD};
use std::sync::PoisonError;
use tokio::time::{Instant, sleep};
use zester_bus::storage::REACTOR_LEDGER;
use zester_bus::{Kind, Reached, Taken};
use zester_reactor::{Dropped, Lost, Unread};
use zester_wire::{BadName, LedgerEntry, MessageId};

#[derive(Default)]
pub struct Skipped {
    unread: Unread,
    /// Since this master began.
    total: u64,
    /// Those that ledger and log have not been told of, oldest first.
    untold: Vec<Lost>,
    last_at: Option<Instant>,
    told_at: Option<Instant>,
}

impl Skipped {
    fn add(&mut self, lost: Lost) {
        self.total += lost.count;
        let is_full = self.untold.len() >= UNREAD_STRETCHES;
        match self.untold.last_mut().filter(|last| is_full && last.reader == lost.reader) {
            Some(last) => (last.before, last.count) = (lost.before, last.count + lost.count),
            None => self.untold.push(lost),
        }
    }
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
    pub(super) fn was_given(&self, taken: &Taken) {
        let (now, sequence) = (Instant::now(), taken.record.sequence);
        let mut skipped = self.skipped();
        if taken.deliveries > 1 {
            return skipped.unread.given_again(taken.given);
        }
        let Some(lost) = skipped.unread.given(taken.given, sequence) else { return };
        self.metrics.unread(lost.count);
        skipped.add(lost);
        skipped.last_at = Some(now);
        let is_due = skipped.told_at.is_none_or(|told| now.duration_since(told) >= UNREAD_EVERY);
        drop(skipped);
        if is_due {
            self.tell_unread();
            self.tell();
        }
    }

    /// Tells the log and the ledger of those that they do not know of yet.
    pub(super) fn tell_unread(&self) {
        let mut skipped = self.skipped();
        let lost = std::mem::take(&mut skipped.untold);
        let Some(Lost { before, .. }) = lost.last().copied() else { return };
        skipped.told_at = Some(Instant::now());
        drop(skipped);
        let count: u64 = lost.iter().map(|lost| lost.count).sum();
        let why = "events left the stream before any master took them: masters are too slow, or were away";
        tracing::warn!(count, before, "{why}");
        self.leave(Note::Unread(lost));
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

/// Writes them to the ledger, but what another master wrote: all of them see the same loss.
pub async fn write(core: &Core, lost: &[Lost]) -> Result<(), String> {
    for of_reader in lost.chunk_by(|one, next| one.reader == next.reader) {
        let mut tries = 0;
        loop {
            tries += 1;
            match try_write(core, of_reader).await {
                Ok(true) => break,
                Ok(false) if tries < LEDGER_TRIES => sleep(LEDGER_AGAIN).await,
                Ok(false) => return Err("what another master wrote cannot be read yet".into()),
                Err(error) if error.retryable() && tries < LEDGER_TRIES => sleep(LEDGER_AGAIN).await,
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    Ok(())
}

/// Whether the ledger has them now. Each line about a reader follows another, and its message id says which: of two masters that
/// would follow the same line the stream keeps one, and the other has to read it first.
async fn try_write(core: &Core, lost: &[Lost]) -> Result<bool, zester_link::Error> {
    let Some(Lost { reader, before, .. }) = lost.last().copied() else { return Ok(true) };
    let unwritten = |more| Dropped::unread(reader, before).entry(core.id.as_str(), core.link.now(), more);
    let subject = unwritten(0).subject().map_err(invalid)?;
    let line = core.link.bus().last(REACTOR_LEDGER, &subject.to_string()).await?;
    let told = line.as_ref().map_or(0, |record| match core.link.try_open::<LedgerEntry>(&subject, record) {
        Ok(opened) => opened.message.sequence,
        // Nobody is held to what is not believed. A loss that is told twice is better than one that never is.
        Err(error) => {
            tracing::debug!("what the ledger tells of events that were lost does not count: {error}");
            0
        }
    });
    // One that begins before what was told is in it, or will be told by whoever told that.
    let count: u64 = lost.iter().filter(|lost| lost.after >= told).map(|lost| lost.count).sum();
    let Some(more) = count.checked_sub(1) else { return Ok(true) };
    let follows = line.map_or(0, |record| record.sequence);
    let id = MessageId::parse(&format!("unread-{reader}-{follows}")).map_err(invalid)?;
    let stored = core.link.publish_stored(&subject, &id, &unwritten(more)).await?;
    Ok(!stored.duplicate)
}

fn invalid(bad: BadName) -> zester_link::Error {
    zester_bus::Error::new(Kind::Invalid, bad.to_string()).into()
}
