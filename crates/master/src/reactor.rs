//! Reacts to events: takes them, asks the rules, does what they say, once.
//!
//! What to do is decided by `zester_reactor`; here is the bus, the clock and the compiler around it. One task takes events and
//! passes them through the gates; each event that matches has a task of its own, which waits its turn behind earlier events of the
//! same rule and source; a few files render at once.

mod consume;
mod execute;
mod in_hand;
mod lanes;
mod ledger;
mod look;
mod metrics;
mod reload;
mod service;
mod unread;
mod work;

use crate::core::Core;
use crate::limits::{
    EVENTS_END_LIMIT, LEDGER_END_PAUSE, LEDGER_QUEUE, LOGGED_REMEMBERED, REACTOR_QUEUE,
    REACTOR_RELOAD_DEBOUNCE, REACTOR_RELOAD_JITTER, REACTOR_RENDER_TIMEOUT, REACTOR_START_PAUSE,
    REACTOR_WORKERS, REACTOR_WORKERS_MAX, RULE_PROBLEMS_NAMED, STUCK_TOLD,
};
use lru::LruCache;
use metrics::Metrics;
pub use service::{admin_subjects, handle_admin, handle_passed};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use zester_bus::{DurableReader, Kind, storage};
use zester_health::{Health, State};
use zester_link::SteadyClock;
use zester_reactor::{DropSamples, GuardState, Guards, Place, RuleCompiler, RuleSet, Stuck};
use zester_wire::{LedgerEntry, UnixMillis};

/// The name of the readiness check.
const CHECK: &str = "reactor";

/// How a master reacts.
#[derive(Clone)]
pub struct Reacting {
    /// What rules are read with. None: this master does not react.
    pub compiler: Option<Arc<dyn RuleCompiler>>,
    pub guards: Guards,
    /// Files that are rendered at once.
    pub workers: usize,
    pub render_timeout: Duration,
    /// How long an event may go without a sign of life before it is given to another.
    pub ack_wait: Duration,
    pub reload_debounce: Duration,
    pub reload_jitter: Duration,
    /// Events that are worked on or wait at once.
    pub queue: usize,
}

impl Default for Reacting {
    fn default() -> Reacting {
        Reacting {
            compiler: None,
            guards: Guards::default(),
            workers: REACTOR_WORKERS,
            render_timeout: REACTOR_RENDER_TIMEOUT,
            ack_wait: storage::reactor().ack_wait,
            reload_debounce: REACTOR_RELOAD_DEBOUNCE,
            reload_jitter: REACTOR_RELOAD_JITTER,
            queue: REACTOR_QUEUE,
        }
    }
}

/// What all parts of the reactor of one master share.
pub struct Reactor {
    reacting: Reacting,
    compiler: Arc<dyn RuleCompiler>,
    rules: RwLock<Option<Arc<RuleSet>>>,
    /// Told when rules came.
    rules_came: Notify,
    guards: Mutex<GuardState>,
    stuck: Mutex<Stuck>,
    skipped: Mutex<unread::Skipped>,
    /// Fires are counted by time that really passed, whatever somebody does to the clock.
    clock: SteadyClock,
    /// When this master began to listen.
    begun: Instant,
    condition: Mutex<Condition>,
    health: Arc<Health>,
    metrics: Metrics,
    lag: AtomicU64,
    renders: Semaphore,
    /// Blocks that logged, by event, rule and block.
    logged: Mutex<LruCache<(Place, String, String), ()>>,
    drops: Mutex<DropSamples>,
    ledger: mpsc::Sender<ledger::Note>,
    /// Entries that the ledger was left and that are neither written nor given up.
    in_ledger: AtomicU64,
    unwritten: Mutex<Option<mpsc::Receiver<ledger::Note>>>,
}

/// What readiness is made of.
#[derive(Default)]
struct Condition {
    /// Why it does not run.
    down: Option<String>,
    /// Why the last look at what is published found nothing whole.
    torn: Option<String>,
    /// Why the newest rules that were whole are not in use.
    problems: Vec<String>,
}

impl Reactor {
    /// None where this master does not react.
    pub fn new(reacting: Reacting, health: &Arc<Health>, wall: UnixMillis) -> Option<Arc<Reactor>> {
        let compiler = reacting.compiler.clone()?;
        let (ledger, unwritten) = mpsc::channel(LEDGER_QUEUE);
        let condition = Condition { down: Some("it has just begun".into()), ..Condition::default() };
        let remembered = NonZeroUsize::new(LOGGED_REMEMBERED).unwrap_or(NonZeroUsize::MIN);
        let workers = reacting.workers.clamp(1, REACTOR_WORKERS_MAX);
        let reactor = Arc::new(Reactor {
            guards: Mutex::new(GuardState::new(&reacting.guards)),
            stuck: Mutex::default(),
            skipped: Mutex::default(),
            compiler,
            rules: RwLock::default(),
            rules_came: Notify::new(),
            clock: SteadyClock::new(wall),
            begun: Instant::now(),
            condition: Mutex::new(condition),
            health: health.clone(),
            metrics: Metrics::default(),
            lag: AtomicU64::new(0),
            renders: Semaphore::new(workers),
            logged: Mutex::new(LruCache::new(remembered)),
            drops: Mutex::default(),
            ledger,
            in_ledger: AtomicU64::new(0),
            unwritten: Mutex::new(Some(unwritten)),
            reacting,
        });
        metrics::register(&reactor, health);
        reactor.tell();
        Some(reactor)
    }

    fn reader(&self) -> DurableReader {
        DurableReader { ack_wait: self.reacting.ack_wait, ..storage::reactor() }
    }

    /// The rules that count. None before there are any.
    fn rules(&self) -> Option<Arc<RuleSet>> {
        self.rules.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_rules(&self, rules: RuleSet) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(rules));
        self.rules_came.notify_waiters();
        self.set_problems(Vec::new());
    }

    /// Why the newest rules are not in use. The last good ones stay.
    fn set_problems(&self, problems: Vec<String>) {
        if !problems.is_empty() {
            self.metrics.rule_errors.inc();
        }
        self.condition().problems = problems;
        self.tell();
    }

    /// What the last look found to be wrong with what is published, if anything. Whether the rules load is another matter.
    fn set_torn(&self, why: Option<String>) {
        if why.is_some() {
            self.metrics.rule_errors.inc();
        }
        self.condition().torn = why;
        self.tell();
    }

    fn set_down(&self, why: Option<String>) {
        self.condition().down = why;
        self.tell();
    }

    fn guards(&self) -> MutexGuard<'_, GuardState> {
        self.guards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rules of this event failed for the moment, and it is tried again after this time, here or by another.
    fn is_stuck(&self, event: Place, rules: impl Iterator<Item = Arc<str>>, after: Duration) {
        self.stuck().waits(event, rules, self.now().plus(after + STUCK_TOLD));
        self.tell();
    }

    fn is_unstuck(&self, event: Place) {
        if self.stuck().is_done(event) {
            self.tell();
        }
    }

    fn stuck(&self) -> MutexGuard<'_, Stuck> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether every peel that is there had the time to show itself to this master. Before that, nobody can be said to be
    /// missing: the event would be done with, and its peel a moment late.
    fn has_listened(&self, core: &Core) -> bool {
        self.begun.elapsed() >= core.timing.peel_ttl
    }

    /// The time that fires are counted by.
    fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    /// Says how the reactor is.
    fn tell(&self) {
        let mut open: Vec<String> = self.guards().breakers.open().map(ToString::to_string).collect();
        open.sort_unstable();
        // Half of the places that all rules have.
        let stuck = self.stuck().told(self.reader().unacked_max / 2, self.now());
        let stuck: Vec<String> =
            stuck.into_iter().map(|(rule, count)| format!("{rule} ({count} events)")).collect();
        let has_rules = self.rules().is_some();
        let condition = self.condition();
        let state = if let Some(why) = &condition.down {
            State::Down(format!("events are not reacted to: {why}"))
        } else if let Some(first) = condition.torn.as_ref().or(condition.problems.first()) {
            let line = first.lines().next().unwrap_or_default();
            let kept = if has_rules { "the rules before stay" } else { "there are no others" };
            State::Degraded(format!("the newest rules do not load, {kept}: {line}"))
        } else if !open.is_empty() {
            State::Degraded(format!("stopped, because they fired too often: {}", named(&open)))
        } else if !stuck.is_empty() {
            let why = "they fail for the moment, and their events hold up those of others";
            State::Degraded(format!("{why}: {}", named(&stuck)))
        } else if let Some(words) = self.unread_words() {
            State::Degraded(words)
        } else if !has_rules {
            State::Degraded("no rules were published yet; events wait".into())
        } else {
            State::Up
        };
        self.health.set(CHECK, state);
    }

    /// Leaves an entry for the ledger. Reactions never wait for it.
    fn note(&self, entry: LedgerEntry) {
        self.leave(ledger::Note::Decided(Box::new(entry)));
    }

    fn leave(&self, note: ledger::Note) {
        self.in_ledger.fetch_add(1, Ordering::Relaxed);
        if self.ledger.try_send(note).is_err() {
            self.metrics.ledger_lost.inc();
            self.written();
        }
    }

    /// An entry of the ledger is done with.
    fn written(&self) {
        self.in_ledger.fetch_sub(1, Ordering::Relaxed);
    }

    fn drops(&self) -> MutexGuard<'_, DropSamples> {
        self.drops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells how many drops were not written, and waits until the ledger has been told, for a master that stops; not for long
    ///
    pub async fn settle(&self, core: &Core) {
        self.tell_unread();
        let now = core.link.now();
        for (dropped, unwritten) in self.drops().rest() {
            self.note(dropped.entry(core.id.as_str(), now, unwritten));
        }
        let written = async {
            while self.in_ledger.load(Ordering::Relaxed) > 0 {
                sleep(LEDGER_END_PAUSE).await;
            }
        };
        let _lost = timeout(EVENTS_END_LIMIT, written).await;
    }

    /// Whether this block of a rule has not logged for this event yet, as far as this master remembers.
    fn logs_now(&self, place: Place, rule: &str, block: &str) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.put((place, rule.into(), block.into()), ()).is_none()
    }

    fn set_lag(&self, lag: u64) {
        self.lag.store(lag, Ordering::Relaxed);
    }
}

fn named(rules: &[String]) -> String {
    let more = rules.len().saturating_sub(RULE_PROBLEMS_NAMED);
    let some: Vec<&str> = rules.iter().take(RULE_PROBLEMS_NAMED).map(String::as_str).collect();
    match more {
        0 => some.join(", "),
        _ => format!("{} and {more} more", some.join(", ")),
    }
}

/// Ends when the bus is closed.
pub async fn run(core: Arc<Core>, reactor: Arc<Reactor>) {
    let unwritten = reactor.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take();
    // They end with this task, and whichever ends first ends it.
    let mut parts = JoinSet::new();
    parts.spawn(ledger::run(core.clone(), reactor.clone(), unwritten));
    parts.spawn(look::run(core.clone(), reactor.clone()));
    parts.spawn(reload::run(core.clone(), reactor.clone()));
    parts.spawn(service::run(core.clone(), reactor.clone()));
    parts.spawn(consuming(core, reactor));
    if let Some(Err(error)) = parts.join_next().await
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Starts, and starts again what could not.
async fn consuming(core: Arc<Core>, reactor: Arc<Reactor>) {
    let reader = reactor.reader();
    loop {
        let bus = core.link.bus();
        let reached = match bus.ensure_reader(&reader).await {
            Ok(_) => bus.pending(&reader).await.map(|pending| pending.reached),
            Err(error) => Err(error),
        };
        match reached {
            Ok(reached) => {
                reactor.reader_is_at(reached);
                reactor.set_down(None);
                let Some(why) = consume::run(&core, &reactor).await else { return };
                // Perhaps it is back at once: a stream has a new leader within seconds.
                reactor.set_down(Some(why));
                sleep(core.timing.retry_pause).await;
                continue;
            }
            Err(error) if error.kind() == Kind::Closed => return,
            // A server that is away, or elects a leader, is no reason to stay away for a minute.
            Err(error) if error.kind().retryable() => {
                tracing::debug!("the reactor cannot start now: {error}");
                reactor.set_down(Some(error.to_string()));
                sleep(core.timing.retry_pause).await;
                continue;
            }
            Err(error) => {
                tracing::warn!("the reactor cannot start, and tries again in a minute: {error}");
                reactor.set_down(Some(error.to_string()));
            }
        }
        sleep(REACTOR_START_PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use zester_model::diagnostic::Diagnostic;
    use zester_model::node::Node;
    use zester_reactor::{Fire, ReactionTemplate};
    use zester_rule::rule;
    use zester_wire::Origin;

    struct NoCompiler;

    impl RuleCompiler for NoCompiler {
        fn yaml(&self, _: &str, _: &str) -> Result<Node, Vec<String>> {
            Err(Vec::new())
        }

        fn template(
            &self,
            _: &str,
            _: &str,
            _: &BTreeMap<String, String>,
        ) -> Result<Arc<dyn ReactionTemplate>, Vec<String>> {
            Err(Vec::new())
        }

        fn explain(&self, _: &str, _: &str, _: &[Diagnostic]) -> Vec<String> {
            Vec::new()
        }
    }

    fn place(sequence: u64) -> Place {
        Place { sequence, stored: UnixMillis(1) }
    }

    #[test]
    #[rule("R-10")]
    fn r10_a_block_logs_once_however_often_its_rule_is_tried() {
        let reacting = Reacting { compiler: Some(Arc::new(NoCompiler)), ..Reacting::default() };
        let reactor = Reactor::new(reacting, &Arc::new(Health::new()), UnixMillis(1)).unwrap();
        assert!(reactor.logs_now(place(1), "reactor.a", "say"));
        assert!(!reactor.logs_now(place(1), "reactor.a", "say"));
        let others = [(2, "reactor.a", "say"), (1, "reactor.b", "say"), (1, "reactor.a", "more")];
        assert!(others.into_iter().all(|(event, rule, block)| reactor.logs_now(place(event), rule, block)));
        // A stream that was made anew gives its numbers to others.
        assert!(reactor.logs_now(Place { stored: UnixMillis(2), ..place(1) }, "reactor.a", "say"));
        // What is long ago is forgotten: it is said once too often, and not kept for ever.
        assert!((10..10 + LOGGED_REMEMBERED as u64).all(|event| reactor.logs_now(
            place(event),
            "reactor.a",
            "say"
        )));
        assert!(reactor.logs_now(place(1), "reactor.a", "say"));
    }

    #[test]
    #[rule("R-1", "R-15")]
    fn r1_readiness_names_a_rule_whose_events_hold_up_others() {
        let health = Arc::new(Health::new());
        let reacting = Reacting { compiler: Some(Arc::new(NoCompiler)), ..Reacting::default() };
        let reactor = Reactor::new(reacting, &health, UnixMillis(1)).unwrap();
        reactor.set_down(None);
        reactor.set_rules(RuleSet::empty(1));
        for sequence in 0..31 {
            reactor.is_stuck(place(sequence), ["reactor.a".into()].into_iter(), Duration::from_secs(10));
        }
        assert_eq!(health.state(CHECK), Some(State::Up));
        reactor.is_stuck(place(31), ["reactor.a".into()].into_iter(), Duration::from_secs(10));
        let told = health.state(CHECK);
        let words = "reactor.a (32 events)";
        assert!(matches!(&told, Some(State::Degraded(why)) if why.contains(words)), "{told:?}");
        reactor.is_unstuck(place(3));
        assert_eq!(health.state(CHECK), Some(State::Up));
    }

    #[test]
    #[rule("R-12", "R-13", "R-15")]
    fn r15_readiness_says_what_is_wrong_the_worst_first() {
        let health = Arc::new(Health::new());
        let reacting = Reacting { compiler: Some(Arc::new(NoCompiler)), ..Reacting::default() };
        let reactor = Reactor::new(reacting, &health, UnixMillis(1)).unwrap();
        let is = |wanted: &str| match health.state(CHECK) {
            Some(State::Up) => wanted == "up",
            Some(State::Degraded(why)) => wanted.starts_with("degraded") && why.contains(&wanted[9..]),
            Some(State::Down(why)) => wanted.starts_with("down") && why.contains(&wanted[5..]),
            None => false,
        };
        assert!(is("down it has just begun"));
        reactor.set_down(Some("no consumer".into()));
        assert!(is("down no consumer"));
        reactor.set_down(None);
        assert!(is("degraded no rules were published yet"));
        reactor.set_problems(vec!["top.zy:1:1: no".into()]);
        assert!(is("degraded there are no others: top.zy:1:1: no"));
        reactor.set_rules(RuleSet::empty(1));
        assert!(is("up"));
        reactor.set_problems(vec!["top.zy:1:1: no".into()]);
        assert!(is("degraded the rules before stay"));
        reactor.set_rules(RuleSet::empty(2));
        let rule: Arc<str> = "reactor.a".into();
        for sequence in 0..61 {
            let fire = Fire { rule: &rule, origin: &Origin::Admin, place: place(sequence), throttle: None };
            reactor.guards().fired(&fire, true, reactor.now());
        }
        reactor.tell();
        assert!(is("degraded fired too often: reactor.a"));
        assert_eq!(reactor.metrics.rule_errors.get(), 2);
    }
}
