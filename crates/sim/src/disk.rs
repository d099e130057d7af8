//! A peel's disk: what it holds outlives the peel. It may be slow, and it may fail.

use crate::Mutation;
use crate::crash::Caller;
use crate::dice::Dice;
use crate::observed::Observed;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_peel::Store;
use zester_peel::store::{BoxFuture, StoreError};
use zester_wire::{Jid, Return};

/// Longer than any simulation.
const KEPT: Duration = Duration::from_secs(3_600);

#[derive(Clone)]
pub struct Disk {
    inner: Arc<Mutex<Inner>>,
    mutation: Mutation,
}

struct Inner {
    entries: BTreeMap<Dispatch, Entry>,
    returns: BTreeMap<Dispatch, Return>,
    /// Everything that was ever taken on, for the judge.
    ever: Vec<Dispatch>,
    dice: Dice,
    /// Of a thousand calls so many fail; each takes up to that long.
    failing: u64,
    slow: Duration,
}

impl Disk {
    pub fn new(seed: u64, name: &str, mutation: Mutation) -> Disk {
        let inner = Inner {
            entries: BTreeMap::new(),
            returns: BTreeMap::new(),
            ever: Vec::new(),
            dice: Dice::new(seed, &format!("disk {name}")),
            failing: 0,
            slow: Duration::ZERO,
        };
        Disk { inner: Arc::new(Mutex::new(inner)), mutation }
    }

    /// From now on so many of a thousand calls fail, and each takes up to that long.
    pub fn set_faults(&self, failing: u64, slow: Duration) {
        let mut inner = self.lock();
        (inner.failing, inner.slow) = (failing, slow);
    }

    /// Whether the peel ever took on a dispatch of the job, or refused it for good.
    pub fn ever_had(&self, jid: &Jid) -> bool {
        self.lock().ever.iter().any(|dispatch| dispatch.jid == *jid)
    }

    /// Returns that no stream has, as far as the peel knows.
    pub fn undelivered(&self) -> Vec<Dispatch> {
        let waits =
            |entry: &&Entry| entry.state == DispatchState::Returned { delivered: false } && !entry.direct;
        self.lock().entries.values().filter(waits).map(|entry| entry.dispatch.clone()).collect()
    }

    /// Why this dispatch must not start now, if there is a reason.
    pub fn forbids(&self, dispatch: &Dispatch) -> Option<&'static str> {
        let inner = self.lock();
        match inner.entries.get(dispatch).map(|entry| entry.state) {
            Some(DispatchState::Returned { .. }) => Some("it had returned"),
            Some(DispatchState::Canceled) => Some("it was canceled"),
            Some(DispatchState::Accepted) => None,
            None if self.mutation == Mutation::DropDedupWrite => None,
            None => Some("it was not on disk"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long the next call takes, before and after it is done, and whether it fails.
    fn next_call(&self) -> (Duration, Duration, bool) {
        let inner = self.lock();
        if inner.slow.is_zero() && inner.failing == 0 {
            return (Duration::ZERO, Duration::ZERO, false);
        }
        let most = u64::try_from(inner.slow.as_millis()).unwrap_or(u64::MAX);
        let (before, after) = (inner.dice.between(0, most / 2), inner.dice.between(0, most / 2));
        (before, after, inner.dice.happens(inner.failing))
    }

    fn put_entry(&self, entry: Entry) {
        let mut inner = self.lock();
        inner.ever.push(entry.dispatch.clone());
        if !matches!(self.mutation, Mutation::DropDedupWrite | Mutation::WriteEntryLate) {
            inner.entries.insert(entry.dispatch.clone(), entry);
        }
    }

    fn put_return(&self, ret: Return) {
        let mut inner = self.lock();
        let dispatch = Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch };
        inner.ever.push(dispatch.clone());
        if self.mutation != Mutation::DropDedupWrite {
            let fresh = || Entry {
                dispatch: dispatch.clone(),
                state: DispatchState::Returned { delivered: false },
                keep_until: ret.ts.plus(KEPT),
                direct: false,
                schedule: ret.schedule.clone(),
            };
            // What was turned away at once has a return and no line of its own.
            let entry = inner.entries.entry(dispatch.clone()).or_insert_with(fresh);
            if entry.state != (DispatchState::Returned { delivered: true }) {
                entry.state = DispatchState::Returned { delivered: false };
            }
        }
        inner.returns.insert(dispatch, ret);
    }
}

/// The disk as one start of a peel uses it: every call is counted, and may take time, fail, or be the last.
pub struct DiskTap {
    pub disk: Disk,
    pub caller: Caller,
    pub observed: Observed,
}

impl DiskTap {
    fn call<'a, T: Send + 'a>(
        &'a self,
        act: impl FnOnce(&Disk) -> T + Send + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        Box::pin(self.caller.call(async move {
            let (before, after, fails) = self.disk.next_call();
            if !before.is_zero() {
                tokio::time::sleep(before).await;
            }
            if fails {
                self.observed.count("disk failure");
                return Err(StoreError("no space left on device".into()));
            }
            let answer = act(&self.disk);
            // A crash here leaves what is written.
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            Ok(answer)
        }))
    }
}

impl Store for DiskTap {
    fn load(&self) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        self.call(|disk| match disk.mutation {
            Mutation::ForgetAtStart => Vec::new(),
            _ => disk.lock().entries.values().cloned().collect(),
        })
    }

    fn put_entry(&self, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(|disk| disk.put_entry(entry))
    }

    fn put_return(&self, ret: Return) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(|disk| disk.put_return(ret))
    }

    fn get_return(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<Option<Return>, StoreError>> {
        self.call(move |disk| disk.lock().returns.get(&dispatch).cloned())
    }

    /// Tells `readyz` and nobody else, so it is no point to crash at.
    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn forget(&self, dispatches: Vec<Dispatch>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.call(move |disk| {
            let mut inner = disk.lock();
            for dispatch in &dispatches {
                inner.entries.remove(dispatch);
                inner.returns.remove(dispatch);
            }
        })
    }
}
