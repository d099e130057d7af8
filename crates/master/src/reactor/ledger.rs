//! Writes what was decided, off the path of reactions. Best effort in a crash: jobs and events alone tell what was done. What
//! cannot be written for longer than an election takes is given up, and counted.

use super::{Reactor, unread};
use crate::core::Core;
use crate::limits::{LEDGER_AGAIN, LEDGER_BATCH, LEDGER_TRIES};
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::sleep;
use zester_reactor::Lost;
use zester_wire::LedgerEntry;

/// What is left for the ledger.
pub enum Note {
    Decided(Box<LedgerEntry>),
    /// Which of them are to be written shows when it is their turn.
    Unread(Vec<Lost>),
}

/// Never ends by itself.
pub async fn run(core: Arc<Core>, reactor: Arc<Reactor>, entries: Option<mpsc::Receiver<Note>>) {
    let Some(mut entries) = entries else { return std::future::pending().await };
    let mut batch = Vec::with_capacity(LEDGER_BATCH);
    while entries.recv_many(&mut batch, LEDGER_BATCH).await > 0 {
        join_all(batch.drain(..).map(|entry| write(&core, &reactor, entry))).await;
        tokio::task::yield_now().await;
    }
    std::future::pending().await
}

async fn write(core: &Core, reactor: &Reactor, note: Note) {
    let written = match note {
        Note::Decided(entry) => stored(core, &entry).await,
        Note::Unread(lost) => unread::write(core, &lost).await,
    };
    if let Err(why) = written {
        tracing::debug!("a decision was not written: {why}");
        reactor.metrics.ledger_lost.inc();
    }
    reactor.written();
}

/// Under one id, however often it is tried.
async fn stored(core: &Core, entry: &LedgerEntry) -> Result<(), String> {
    let subject = entry.subject().map_err(|bad| bad.to_string())?;
    let id = core.link.new_message_id().map_err(|error| error.to_string())?;
    let mut tries = 0;
    loop {
        tries += 1;
        match core.link.publish_stored(&subject, &id, entry).await {
            Ok(_) => return Ok(()),
            Err(error) if error.retryable() && tries < LEDGER_TRIES => sleep(LEDGER_AGAIN).await,
            Err(error) => return Err(error.to_string()),
        }
    }
}
