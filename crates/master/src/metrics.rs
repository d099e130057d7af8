//! What a master counts.

use crate::core::Core;
use std::sync::Arc;
use zester_health::Health;
use zester_health::prometheus_client::encoding::EncodeLabelSet;
use zester_health::prometheus_client::metrics::counter::Counter;
use zester_health::prometheus_client::metrics::family::Family;
use zester_wire::{EnrollOutcome, JobStatus};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Ended {
    status: &'static str,
}

#[derive(Default)]
pub struct Metrics {
    pub dispatched: Counter,
    pub adopted: Counter,
    pub returns_stored: Counter,
    pub late_returns: Counter,
    /// Returns that met no job, or one that needed them no more.
    pub stray_returns: Counter,
    pub scan_failures: Counter,
    pub catch_ups: Counter,
    pub catch_up_pages: Counter,
    /// Events that a job could not take: a mistake of ours.
    pub illegal: Counter,
    /// What the roles of an operator did not allow.
    pub denied: Counter,
    finalized: Family<Ended, Counter>,
    /// Strangers that came to the door too often.
    pub door_turned_away: Counter,
    door_answers: Family<Answered, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    outcome: &'static str,
}

impl Metrics {
    pub fn answered_at_door(&self, outcome: EnrollOutcome) {
        let outcome = match outcome {
            EnrollOutcome::Pending => "pending",
            EnrollOutcome::Granted => "granted",
            EnrollOutcome::Rejected => "rejected",
            EnrollOutcome::Revoked => "revoked",
            EnrollOutcome::Refused => "refused",
            EnrollOutcome::Later | EnrollOutcome::Unknown => "later",
        };
        self.door_answers.get_or_create(&Answered { outcome }).inc();
    }

    pub fn finalized(&self, status: JobStatus) {
        self.finalized.get_or_create(&Ended { status: status.as_str() }).inc();
    }
}

pub fn register(core: &Arc<Core>, health: &Health) {
    let metrics = &core.metrics;
    health.register(|registry| {
        let mut add =
            |name: &str, help: &str, counter: &Counter| registry.register(name, help, counter.clone());
        add("zester_jobs_dispatched", "Jobs that this master sent out", &metrics.dispatched);
        add("zester_jobs_adopted", "Jobs taken over from a master that died", &metrics.adopted);
        add("zester_returns_stored", "Returns written while their job was watched", &metrics.returns_stored);
        add("zester_returns_late", "Returns written after their job was over", &metrics.late_returns);
        add("zester_returns_stray", "Returns that were left alone", &metrics.stray_returns);
        add("zester_scan_failures", "Scans for orphans that could not read all", &metrics.scan_failures);
        add("zester_catch_ups", "Times that the stream was read again after a loss", &metrics.catch_ups);
        add("zester_catch_up_pages", "Pages that were read again from the stream", &metrics.catch_up_pages);
        add("zester_jobs_illegal", "Events that a job could not take; always 0", &metrics.illegal);
        add(
            "zester_door_turned_away",
            "Connections of addresses that came too often",
            &metrics.door_turned_away,
        );
        add("zester_requests_denied", "Requests that no role of their operator allows", &metrics.denied);
        let answers = metrics.door_answers.clone();
        registry.register("zester_door_answers", "What was said to who asked to be a peel", answers);
        let ended = metrics.finalized.clone();
        registry.register("zester_jobs_finalized", "Jobs that ended, by status", ended);
    });
    let look = |look: fn(&Core) -> usize| {
        let core = Arc::downgrade(core);
        move || core.upgrade().map_or(0, |core| look(&core) as u64)
    };
    health.watch("zester_jobs_active", "Jobs under way at this master", look(|core| core.running.len()));
    health.watch("zester_peels_known", "Peels in the index", look(|core| core.index.len()));
    health.watch("zester_peels_online", "Peels with a heartbeat", look(|core| core.index.online_count()));
    let look = Arc::downgrade(core);
    health.watch_each("zester_store_used_percent", "How full each store is", "store", move || {
        look.upgrade().map(|core| core.stores.percents()).unwrap_or_default()
    });
    let dropped = core.link.dropped().clone();
    health.watch_each("zester_messages_dropped", "Messages that were not read", "reason", move || {
        dropped.by_reason()
    });
}
