//! What the actor counts (D-11), and what of it does not work, since when (J-29).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zester_health::prometheus_client::metrics::counter::Counter;
use zester_health::{Health, State};
use zester_jobs::stores::clock_time;
use zester_link::Link;
use zester_wire::{Cause, Return, UnixMillis};

pub(super) struct Gauges {
    health: Arc<Health>,
    executed: Counter,
    failed: Counter,
    refused: Counter,
    denied: Counter,
    progress_dropped: Counter,
    busy: Arc<AtomicU64>,
    outbox: Arc<AtomicU64>,
    /// What does not work, and since when.
    failing: BTreeMap<&'static str, UnixMillis>,
    link: Link,
}

/// What a server must keep of a peel. Each is a line of `readyz` once it has failed.
pub(super) const RETURNS: &str = "returns";
pub(super) const FACTS: &str = "facts";
pub(super) const LAST_SEEN: &str = "last-seen";

impl Gauges {
    pub(super) fn new(health: Arc<Health>, link: &Link) -> Gauges {
        let mut gauges = Gauges {
            executed: Counter::default(),
            failed: Counter::default(),
            refused: Counter::default(),
            denied: Counter::default(),
            progress_dropped: Counter::default(),
            busy: Arc::default(),
            outbox: Arc::default(),
            failing: BTreeMap::new(),
            link: link.clone(),
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
                "zester_peel_policy_refused",
                "Requests that the policy of this machine or a role did not allow",
                gauges.denied.clone(),
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

    pub(super) fn health(&self) -> &Health {
        &self.health
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

    /// Counts what the policy of the machine, or a role, does not allow.
    pub(super) fn denied(&self) {
        self.denied.inc();
    }

    pub(super) fn bus_up(&mut self) {
        self.works("bus");
    }

    /// A peel works without a bus: it is not down for that (D-9).
    pub(super) fn bus_down(&mut self) {
        let since = clock_time(self.since("bus"));
        let why = format!("no connection since {since}; returns wait in the outbox");
        self.health.set("bus", State::Degraded(why));
    }

    /// Without a disk that takes what it writes, a peel starts nothing (J-7): it is down.
    pub(super) fn store(&mut self, result: Result<(), &str>) {
        let Err(why) = result else { return self.works("store") };
        let is_news = !self.failing.contains_key("store");
        let since = clock_time(self.since("store"));
        if is_news {
            tracing::error!("the peel cannot write to its disk, and starts nothing meanwhile: {why}");
        }
        self.health.set("store", State::Down(format!("nothing is started since {since}: {why}")));
    }

    /// Whether a server keeps what this peel sends. Without a connection that is not the server's fault.
    pub(super) fn kept(&mut self, what: &'static str, result: Result<(), &str>) {
        match result {
            Ok(()) => self.works(what),
            Err(_) if !self.link.bus().info().connected => {}
            Err(why) => {
                let since = clock_time(self.since(what));
                self.health.set(what, State::Degraded(format!("the server keeps none since {since}: {why}")));
            }
        }
    }

    /// The disk does not give a stored return back.
    pub(super) fn unread(&mut self, why: &str) {
        let since = clock_time(self.since(RETURNS));
        self.health.set(RETURNS, State::Degraded(format!("one cannot be read since {since}: {why}")));
    }

    fn works(&mut self, part: &'static str) {
        if self.failing.remove(part).is_some() {
            self.health.set(part, State::Up);
        }
    }

    /// Since when this does not work: now, unless it is known already.
    fn since(&mut self, part: &'static str) -> UnixMillis {
        let now = self.link.now();
        *self.failing.entry(part).or_insert(now)
    }
}
