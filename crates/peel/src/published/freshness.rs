//! What can be asked of a follower: what it has learned, and to look now.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use zester_bus::Bus;

/// What the last look with a bus came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learned {
    /// Nothing was ever published.
    Nothing,
    /// What was published is in the cache.
    InPlace,
    /// Why nobody knows.
    Failed(String),
}

/// A handle on one follower.
#[derive(Clone)]
pub struct Freshness(Arc<Inner>);

struct Inner {
    bus: Arc<dyn Bus>,
    wake: Notify,
    looks: watch::Sender<Looks>,
}

/// Looks are numbered from 1; one is under way at most.
#[derive(Default)]
struct Looks {
    begun: u64,
    ended: u64,
    learned: Option<Learned>,
}

impl Freshness {
    pub fn new(bus: Arc<dyn Bus>) -> Freshness {
        let inner = Inner { bus, wake: Notify::new(), looks: watch::Sender::new(Looks::default()) };
        Freshness(Arc::new(inner))
    }

    /// What is known in this life; none before the first look has ended.
    pub fn learned(&self) -> Option<Learned> {
        self.0.looks.borrow().learned.clone()
    }

    pub fn is_connected(&self) -> bool {
        self.0.bus.info().connected
    }

    /// Waits for the end of a look that begins after this call, `limit` at most; without a bus, not at all.
    pub async fn look_now(&self, limit: Duration) {
        if !self.is_connected() {
            return;
        }
        let mut looks = self.0.looks.subscribe();
        let wanted = looks.borrow().begun + 1;
        self.0.wake.notify_one();
        // Whatever it came to is for `learned` to tell.
        let _late = tokio::time::timeout(limit, looks.wait_for(|looks| looks.ended >= wanted)).await;
    }

    pub(super) async fn asked(&self) {
        self.0.wake.notified().await;
    }

    pub(super) fn begins(&self) {
        self.0.looks.send_modify(|looks| looks.begun += 1);
    }

    /// A look without a bus leaves what was learned.
    pub(super) fn ends(&self, learned: Option<Learned>) {
        self.0.looks.send_modify(|looks| {
            looks.ended = looks.begun;
            if learned.is_some() {
                looks.learned = learned;
            }
        });
    }
}
