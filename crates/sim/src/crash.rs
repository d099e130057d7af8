//! Crashes at a call: before or after the k-th bus or store call of a node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Which side of a call.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// Nothing of it has been sent.
    Before,
    /// It is done, and the node does not know.
    After,
}

/// Where a node crashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CrashPoint {
    /// `m0`, `p1`.
    pub node: String,
    /// Counted from one, over all starts of the node.
    pub call: u64,
    pub edge: Edge,
}

/// Counts the calls of all nodes, and ends the one that has reached its point.
#[derive(Clone, Default)]
pub struct CrashPoints {
    inner: Arc<Mutex<Inner>>,
    /// Somebody asks for its own end.
    pub dying: Arc<Notify>,
}

#[derive(Default)]
struct Inner {
    planned: Vec<CrashPoint>,
    calls: BTreeMap<String, u64>,
    /// What was reached.
    reached: Vec<CrashPoint>,
}

/// One start of one node.
#[derive(Clone)]
pub struct Caller {
    pub node: String,
    pub points: CrashPoints,
    /// It asks for its own end.
    pub wants_to_die: Arc<AtomicBool>,
}

impl CrashPoints {
    pub fn plan(&self, points: &[CrashPoint]) {
        self.lock().planned = points.to_vec();
    }

    /// Nobody crashes at a call any more.
    pub fn clear(&self) {
        self.lock().planned.clear();
    }

    /// How many calls each node has made.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.lock().calls.clone()
    }

    pub fn reached(&self) -> Vec<CrashPoint> {
        self.lock().reached.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self, node: &str, call: u64, edge: Edge) -> bool {
        let mut inner = self.lock();
        let here = |point: &CrashPoint| point.node == node && point.call == call && point.edge == edge;
        let Some(at) = inner.planned.iter().position(here) else { return false };
        let point = inner.planned.remove(at);
        inner.reached.push(point);
        true
    }
}

impl Caller {
    /// Makes a call, and crashes before or after it where that is planned.
    pub async fn call<T>(&self, call: impl Future<Output = T>) -> T {
        let number = self.count();
        self.perhaps_die(number, Edge::Before).await;
        let answer = call.await;
        self.perhaps_die(number, Edge::After).await;
        answer
    }

    fn count(&self) -> u64 {
        let mut inner = self.points.lock();
        let calls = inner.calls.entry(self.node.clone()).or_insert(0);
        *calls += 1;
        *calls
    }

    async fn perhaps_die(&self, number: u64, edge: Edge) {
        if self.points.is_due(&self.node, number, edge) {
            self.die().await;
        }
    }

    /// The end comes before anything else can be done.
    pub async fn die(&self) {
        self.wants_to_die.store(true, Ordering::Relaxed);
        self.points.dying.notify_one();
        std::future::pending::<()>().await;
    }
}
