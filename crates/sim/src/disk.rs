//! A peel's disk: what it holds outlives the peel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zester_jobs::dedup::{Dispatch, Entry, Standing};
use zester_peel::Store;
use zester_peel::store::{Later, StoreError};
use zester_wire::{Jid, Return};

/// Longer than any life.
const KEPT: Duration = Duration::from_secs(3_600);

#[derive(Clone, Default)]
pub struct Disk {
    inner: Arc<Mutex<Inner>>,
    /// [`crate::Mutation::DropDedupWrite`].
    forgetful: bool,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<Dispatch, Entry>,
    returns: BTreeMap<Dispatch, Return>,
    /// Everything that was ever taken on, for the judge.
    ever: Vec<Dispatch>,
}

impl Disk {
    pub fn new(forgetful: bool) -> Disk {
        Disk { inner: Arc::default(), forgetful }
    }

    /// Whether the peel ever took on a dispatch of the job, or refused it for good.
    pub fn ever_had(&self, jid: &Jid) -> bool {
        self.lock().ever.iter().any(|dispatch| dispatch.jid == *jid)
    }

    /// Why this dispatch must not start now, if there is a reason.
    pub fn forbids(&self, dispatch: &Dispatch) -> Option<&'static str> {
        let inner = self.lock();
        match inner.entries.get(dispatch).map(|entry| entry.standing) {
            Some(Standing::Returned { .. }) => Some("it had returned"),
            Some(Standing::Canceled) => Some("it was canceled"),
            Some(Standing::Accepted) => None,
            None if self.forgetful => None,
            None => Some("it was not on disk"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Disk {
    fn load(&self) -> Later<'_, Result<Vec<Entry>, StoreError>> {
        let entries = self.lock().entries.values().cloned().collect();
        Box::pin(std::future::ready(Ok(entries)))
    }

    fn put_entry(&self, entry: Entry) -> Later<'_, Result<(), StoreError>> {
        let mut inner = self.lock();
        inner.ever.push(entry.dispatch.clone());
        if !self.forgetful {
            inner.entries.insert(entry.dispatch.clone(), entry);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn put_return(&self, ret: Return) -> Later<'_, Result<(), StoreError>> {
        let mut inner = self.lock();
        let dispatch = Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch };
        inner.ever.push(dispatch.clone());
        if !self.forgetful {
            let fresh = || Entry {
                dispatch: dispatch.clone(),
                standing: Standing::Returned { delivered: false },
                keep_until: ret.ts.plus(KEPT),
                direct: false,
            };
            // What was turned away at once has a return and no line of its own.
            let entry = inner.entries.entry(dispatch.clone()).or_insert_with(fresh);
            entry.standing = Standing::Returned { delivered: false };
        }
        inner.returns.insert(dispatch, ret);
        Box::pin(std::future::ready(Ok(())))
    }

    fn get_return(&self, dispatch: Dispatch) -> Later<'_, Result<Option<Return>, StoreError>> {
        let ret = self.lock().returns.get(&dispatch).cloned();
        Box::pin(std::future::ready(Ok(ret)))
    }

    fn forget(&self, dispatches: Vec<Dispatch>) -> Later<'_, Result<(), StoreError>> {
        let mut inner = self.lock();
        for dispatch in &dispatches {
            inner.entries.remove(dispatch);
            inner.returns.remove(dispatch);
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
