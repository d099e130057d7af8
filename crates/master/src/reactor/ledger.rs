//! Writes what was decided, off the path of reactions. Best effort: jobs and events alone tell what was done.

use crate::core::Core;
use crate::limits::LEDGER_BATCH;
use std::sync::Arc;
use tokio::sync::mpsc;
use zester_wire::LedgerEntry;

/// Never ends by itself.
pub async fn run(core: Arc<Core>, entries: Option<mpsc::Receiver<LedgerEntry>>) {
    let Some(mut entries) = entries else { return std::future::pending().await };
    let mut batch = Vec::with_capacity(LEDGER_BATCH);
    while entries.recv_many(&mut batch, LEDGER_BATCH).await > 0 {
        for entry in batch.drain(..) {
            let subject = match entry.subject() {
                Ok(subject) => subject,
                Err(bad) => {
                    tracing::debug!("a decision cannot be written: {bad}");
                    continue;
                }
            };
            // The stream keeps what it hears; nobody waits to be told so.
            if let Err(error) = core.link.publish(&subject, &entry).await {
                tracing::debug!("a decision was not written: {error}");
            }
        }
        tokio::task::yield_now().await;
    }
    std::future::pending().await
}
