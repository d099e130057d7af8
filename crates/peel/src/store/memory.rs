//! A store in memory, for fleets in one process and for simulators.

use super::{BoxFuture, Store, StoreError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_jobs::dedup::{Dispatch, Entry};
use zester_wire::Return;

/// Clones share the content: whoever keeps one can hand it to the next life of a peel.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
}

#[derive(Debug, Default)]
struct Content {
    entries: BTreeMap<Dispatch, Entry>,
    returns: BTreeMap<Dispatch, Return>,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Done when it is called for: nothing is left for an await.
fn now<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, Result<T, StoreError>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Store for MemoryStore {
    fn load(&self) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        now(self.lock().entries.values().cloned().collect())
    }

    fn put_entry(&self, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut content = self.lock();
        content.entries.insert(entry.dispatch.clone(), entry);
        now(())
    }

    fn put_return(&self, ret: Return) -> BoxFuture<'_, Result<(), StoreError>> {
        let dispatch = Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch };
        let mut content = self.lock();
        let entry = super::returned(&dispatch, content.entries.get(&dispatch), &ret);
        content.entries.insert(dispatch.clone(), entry);
        content.returns.insert(dispatch, ret);
        now(())
    }

    fn get_return(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<Option<Return>, StoreError>> {
        now(self.lock().returns.get(&dispatch).cloned())
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        now(())
    }

    fn forget(&self, dispatches: Vec<Dispatch>) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut content = self.lock();
        for dispatch in &dispatches {
            content.entries.remove(dispatch);
            content.returns.remove(dispatch);
        }
        now(())
    }
}
