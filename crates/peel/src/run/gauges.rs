//! What the actor counts (D-11).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zester_health::prometheus_client::metrics::counter::Counter;
use zester_health::{Health, State};
use zester_link::Link;
use zester_wire::{Cause, Return};

pub(super) struct Gauges {
    health: Arc<Health>,
    executed: Counter,
    failed: Counter,
    refused: Counter,
    progress_dropped: Counter,
    busy: Arc<AtomicU64>,
    outbox: Arc<AtomicU64>,
    /// Whether the last write failed: the state is told when it changes.
    store_failed: bool,
}

impl Gauges {
    pub(super) fn new(health: Arc<Health>, link: &Link) -> Gauges {
        let gauges = Gauges {
            executed: Counter::default(),
            failed: Counter::default(),
            refused: Counter::default(),
            progress_dropped: Counter::default(),
            busy: Arc::default(),
            outbox: Arc::default(),
            store_failed: false,
            health,
        };
        gauges.health.register(|registry| {
            registry.register("zester_peel_jobs_executed", "Executions that ended", gauges.executed.clone());
            registry.register("zester_peel_jobs_failed", "Executions that failed", gauges.failed.clone());
            registry.register(
                "zester_peel_jobs_refused",
                "Requests that were not executed",
                gauges.refused.clone(),
            );
            registry.register(
                "zester_peel_progress_dropped",
                "Progress that nobody could keep up with",
                gauges.progress_dropped.clone(),
            );
        });
        let (busy, outbox, dropped) = (gauges.busy.clone(), gauges.outbox.clone(), link.dropped().clone());
        let look = |number: Arc<AtomicU64>| move || number.load(Ordering::Relaxed);
        gauges.health.watch("zester_peel_busy", "Executions that run or wait", look(busy));
        gauges.health.watch("zester_peel_outbox", "Returns that no master has yet", look(outbox));
        gauges.health.watch_each(
            "zester_messages_dropped",
            "Messages that were not read",
            "reason",
            move || dropped.by_reason(),
        );
        gauges.bus_down();
        gauges.health.set("store", State::Up);
        gauges
    }

    /// Work is done twice, yet a peel that took itself out would leave none.
    pub(super) fn shares_its_id(&self) {
        self.health.set("id", State::Degraded("another peel has this id".into()));
    }

    pub(super) fn progress_dropped(&self) -> Counter {
        self.progress_dropped.clone()
    }

    pub(super) fn work(&self, busy: usize, outbox: usize) {
        self.busy.store(busy as u64, Ordering::Relaxed);
        self.outbox.store(outbox as u64, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, ret: &Return) {
        self.executed.inc();
        if !ret.success {
            self.failed.inc();
        }
    }

    /// Counts what was turned away; what was canceled or interrupted was not.
    pub(super) fn refused(&self, cause: Cause) {
        if matches!(cause, Cause::Busy | Cause::Expired | Cause::Refused) {
            self.refused.inc();
        }
    }

    pub(super) fn bus_up(&self) {
        self.health.set("bus", State::Up);
    }

    /// A peel works without a bus: it is not down for that (D-9).
    pub(super) fn bus_down(&self) {
        self.health.set("bus", State::Degraded("no connection; returns wait in the outbox".into()));
    }

    pub(super) fn store(&mut self, result: Result<(), &str>) {
        match result {
            Ok(()) if self.store_failed => {
                self.store_failed = false;
                self.health.set("store", State::Up);
            }
            Ok(()) => {}
            Err(why) => {
                self.store_failed = true;
                tracing::error!("the peel cannot remember: {why}");
                self.health.set("store", State::Degraded(why.into()));
            }
        }
    }
}
