//! What a peel remembers across its own crash: the ledger of dispatches and the outbox of returns (J-7, J-22).

mod file;
mod memory;

pub use file::{FileStore, SyncCalls};
pub use memory::MemoryStore;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_wire::Return;

/// The future of one call.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Why it could not be written or read, in a sentence.
#[derive(Debug)]
pub struct StoreError(pub String);

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for StoreError {}

/// What was written when a call returns is there after a crash.
pub trait Store: Send + Sync {
    /// Everything that is remembered.
    fn load(&self) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>>;
    fn put_entry(&self, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>>;
    /// The return and, in one step, that its dispatch has returned.
    fn put_return(&self, ret: Return) -> BoxFuture<'_, Result<(), StoreError>>;
    fn get_return(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<Option<Return>, StoreError>>;
    /// These and their returns may go.
    fn forget(&self, dispatches: Vec<Dispatch>) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Whether it takes what is written, without keeping anything.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>>;
}

/// How long a return is remembered whose dispatch never stood in the ledger (it was refused before that): as long as
/// masters keep jobs.
const UNLISTED_KEEP: Duration = Duration::from_secs(7 * 86_400);

/// The line of the ledger that goes with a return. What a master has already stays delivered.
fn returned(dispatch: &Dispatch, before: Option<&Entry>, ret: &Return) -> Entry {
    let delivered = DispatchState::Returned { delivered: true };
    match before {
        Some(entry) if entry.state == delivered => entry.clone(),
        Some(entry) => Entry { state: DispatchState::Returned { delivered: false }, ..entry.clone() },
        None => Entry {
            dispatch: dispatch.clone(),
            state: DispatchState::Returned { delivered: false },
            keep_until: ret.ts.plus(UNLISTED_KEEP),
            direct: false,
            schedule: ret.schedule.clone(),
        },
    }
}
