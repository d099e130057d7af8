//! What the reactor counts, by the names of R-16.

use super::Reactor;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zester_health::Health;
use zester_health::prometheus_client::encoding::EncodeLabelSet;
use zester_health::prometheus_client::metrics::counter::Counter;
use zester_health::prometheus_client::metrics::family::Family;
use zester_health::prometheus_client::metrics::histogram::Histogram;
use zester_reactor::{Decided, DropReason};
use zester_wire::Origin;

/// What counts as backpressure: no drop, but counted beside them.
const BACKPRESSURE: &str = "backpressure";
/// Seconds; the last is the limit of a render.
const RENDER_SECONDS: [f64; 10] = [0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 30.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOrigin {
    origin_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfReason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRule {
    rule: String,
    result: &'static str,
}

pub struct Metrics {
    events: Family<OfOrigin, Counter>,
    dropped: Family<OfReason, Counter>,
    pub unmatched: Counter,
    reactions: Family<OfRule, Counter>,
    pub render_seconds: Histogram,
    pub rule_errors: Counter,
    /// Entries that the ledger had no room for.
    pub ledger_lost: Counter,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics {
            events: Family::default(),
            dropped: Family::default(),
            unmatched: Counter::default(),
            reactions: Family::default(),
            render_seconds: Histogram::new(RENDER_SECONDS),
            rule_errors: Counter::default(),
            ledger_lost: Counter::default(),
        }
    }
}

impl Metrics {
    /// An event came, of this origin where its subject says one.
    pub fn event(&self, origin: Option<&Origin>) {
        let origin_type = match origin {
            Some(Origin::Peel(_)) => "peel",
            Some(Origin::Master) => "master",
            Some(Origin::Admin) => "admin",
            None => "unknown",
        };
        self.events.get_or_create(&OfOrigin { origin_type }).inc();
    }

    pub fn dropped(&self, reason: DropReason) {
        self.dropped.get_or_create(&OfReason { reason: reason.as_str() }).inc();
    }

    /// So many left the stream before anybody was given them.
    pub fn unread(&self, count: u64) {
        self.dropped.get_or_create(&OfReason { reason: DropReason::Unread.as_str() }).inc_by(count);
    }

    pub fn backpressure(&self) {
        self.dropped.get_or_create(&OfReason { reason: BACKPRESSURE }).inc();
    }

    pub fn decided(&self, decided: &Decided) {
        if let Some(result) = decided.decision.label() {
            self.reactions.get_or_create(&OfRule { rule: decided.rule.clone(), result }).inc();
        }
    }
}

pub fn register(reactor: &Arc<Reactor>, health: &Health) {
    let metrics = &reactor.metrics;
    health.register(|registry| {
        registry.register("zester_reactor_events", "Events that came", metrics.events.clone());
        let dropped = metrics.dropped.clone();
        registry.register("zester_reactor_events_dropped", "Events that met no rule, by reason", dropped);
        let unmatched = metrics.unmatched.clone();
        registry.register("zester_reactor_events_unmatched", "Events that no rule matches", unmatched);
        let reactions = metrics.reactions.clone();
        registry.register("zester_reactor_reactions", "What rules came to", reactions);
        let seconds = metrics.render_seconds.clone();
        registry.register("zester_reactor_render_duration_seconds", "How long files took to render", seconds);
        let errors = metrics.rule_errors.clone();
        registry.register("zester_reactor_rule_errors", "Rule sets that did not load", errors);
        let lost = metrics.ledger_lost.clone();
        registry.register("zester_reactor_ledger_lost", "Decisions that were not written", lost);
    });
    let look = |look: fn(&Reactor) -> u64| {
        let reactor = Arc::downgrade(reactor);
        move || reactor.upgrade().map_or(0, |reactor| look(&reactor))
    };
    health.watch(
        "zester_reactor_lag",
        "Events that wait",
        look(|reactor| reactor.lag.load(Ordering::Relaxed)),
    );
    health.watch(
        "zester_reactor_rules_loaded",
        "Rules in use",
        look(|reactor| reactor.rules().map_or(0, |rules| rules.rules().len() as u64)),
    );
    let open = Arc::downgrade(reactor);
    health.watch_each("zester_reactor_breaker_open", "Rules that are stopped", "rule", move || {
        let Some(reactor) = open.upgrade() else { return Vec::new() };
        let guards = reactor.guards();
        guards.breakers.open().map(|rule| (rule.to_string(), 1)).collect()
    });
}
