//! Every peel that is known, for resolving targets without asking the bus (D-8).

mod caret;
mod explain;
mod feed;
mod forget;
mod heartbeats;
mod keeper;
mod news;
mod over;
mod presence;
mod presence_events;

pub use caret::{bad_target, point_at};
use feed::Feed;
pub(crate) use forget::{ForgetByAge, forget, tell_others};
pub(crate) use heartbeats::Heartbeats;
pub(crate) use keeper::Keeper;
pub use presence::{Heard, Presence};
pub(crate) use presence_events::PresenceEvents;

use crate::limits::{OFFLINE_NAMED, SETTINGS_FRESH};
use crate::run::SettingsOf;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;
use zester_identity::limits::CLOCK_TOLERANCE;
use zester_model::target::{Subject, Target};
use zester_wire::{
    FactsRecord, Offline, PeelHeartbeat, PeelId, PeelStatus, Refusal, RefusalKind, UnixMillis,
};

/// The facts of one peel.
#[derive(Clone, Debug)]
pub struct Known {
    pub facts: Arc<Value>,
    pub hash: Arc<str>,
    /// When the peel wrote them, on its own clock.
    pub written: UnixMillis,
    /// Which change of the index brought them.
    version: u64,
}

impl Known {
    fn nothing() -> Known {
        Known {
            facts: Arc::new(Value::Object(Map::new())),
            hash: "".into(),
            written: UnixMillis(0),
            version: 0,
        }
    }
}

type Peels = BTreeMap<PeelId, Known>;

/// Whom an expression names, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    pub peels: Vec<PeelId>,
    /// Those of whom nobody can say: the expression asks for settings, and theirs do not render.
    pub undecided: Vec<PeelId>,
}

impl Resolved {
    fn add(&mut self, peel: &PeelId, is_meant: Option<bool>) {
        match is_meant {
            Some(true) => self.peels.push(peel.clone()),
            Some(false) => {}
            None => self.undecided.push(peel.clone()),
        }
    }

    /// In words, where there are such.
    pub fn undecided_words(&self) -> Option<String> {
        let first = self.undecided.first()?;
        Some(match self.undecided.len() - 1 {
            0 => format!("the settings of {first} do not render, so nobody knows whether it is meant"),
            more => format!(
                "the settings of {first} and {more} more do not render, so nobody knows whether they are meant"
            ),
        })
    }
}

struct Rendered {
    version: u64,
    at: Instant,
    settings: Result<Arc<Value>, Arc<str>>,
}

/// All peels: their facts, which change seldom and are read as a snapshot, so that a long look holds nobody up, and who is
/// there, which changes with every heartbeat and costs the same for each, however many peels there are (J-26).
pub struct Index {
    facts: RwLock<Arc<Peels>>,
    presence: Presence,
    feed: Feed,
    facts_current: AtomicBool,
    seen_current: AtomicBool,
    changes: AtomicU64,
    settings: Arc<dyn SettingsOf>,
    rendered: Mutex<HashMap<PeelId, Rendered>>,
}

impl Index {
    pub fn new(peel_ttl: Duration, settings: Arc<dyn SettingsOf>) -> Index {
        Index {
            facts: RwLock::default(),
            presence: Presence::new(peel_ttl),
            feed: Feed::default(),
            facts_current: AtomicBool::new(false),
            seen_current: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            settings,
            rendered: Mutex::default(),
        }
    }

    /// All facts as they are now. Cheap; what changes later is not seen.
    pub fn snapshot(&self) -> Arc<Peels> {
        self.facts.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another number whenever facts came that were not known.
    pub(crate) fn facts_version(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Whether what is known is kept up to date.
    pub(crate) fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Who is there.
    pub fn presence(&self) -> &Presence {
        &self.presence
    }

    fn change<T>(&self, change: impl FnOnce(&mut Peels) -> T) -> T {
        let mut peels = self.facts.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut peels))
    }

    /// Whether everything that was on the bus at the start is here.
    pub fn is_current(&self) -> bool {
        self.facts_current.load(Ordering::Acquire) && self.seen_current.load(Ordering::Acquire)
    }

    pub(crate) fn set_facts_current(&self) {
        self.facts_current.store(true, Ordering::Release);
    }

    pub(crate) fn set_seen_current(&self) {
        self.seen_current.store(true, Ordering::Release);
    }

    /// Peels that can be targets.
    pub fn len(&self) -> usize {
        let facts = self.snapshot();
        facts.len() + self.presence.online().into_iter().filter(|peel| !facts.contains_key(peel)).count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is told later is newer: a watch tells in order, and one that begins anew tells everything again. Revisions say
    /// nothing here, because a store that was made anew counts from one again.
    pub fn put_facts(&self, record: FactsRecord) {
        let version = self.changes.fetch_add(1, Ordering::Relaxed) + 1;
        let (facts, hash) = (Arc::new(Value::Object(record.facts)), record.hash.into());
        let known = Known { facts, hash, written: record.ts, version };
        self.change(|peels| peels.insert(record.peel, known));
    }

    /// Whether facts are older than those that are known: somebody brings back what a peel once said (I-12). Clocks are set now and
    /// then, so a little older is not.
    pub fn facts_are_older(&self, record: &FactsRecord) -> bool {
        let known = self.snapshot();
        known.get(&record.peel).is_some_and(|known| record.ts.plus(CLOCK_TOLERANCE) < known.written)
    }

    /// The same for a heartbeat.
    pub fn heartbeat_is_older(&self, heartbeat: &PeelHeartbeat) -> bool {
        self.presence
            .last_written(&heartbeat.peel)
            .is_some_and(|last| heartbeat.ts.plus(CLOCK_TOLERANCE) < last)
    }

    /// Takes a heartbeat that was heard now.
    pub fn put_heartbeat(&self, heartbeat: PeelHeartbeat, now: UnixMillis) -> Heard {
        self.feed.heard();
        self.presence.hear(heartbeat, now)
    }

    /// Forgets who is neither listed nor there.
    pub fn keep_only(&self, with_facts: &BTreeSet<PeelId>) {
        let online: BTreeSet<PeelId> = self.online_besides(with_facts).into_iter().collect();
        self.change(|peels| peels.retain(|peel, _| with_facts.contains(peel) || online.contains(peel)));
        self.presence.keep_only(with_facts);
        let known = self.snapshot();
        self.lock_rendered().retain(|peel, _| known.contains_key(peel));
    }

    /// Forgets one peel.
    pub fn forget(&self, peel: &PeelId) {
        self.change(|peels| peels.remove(peel));
        self.presence.forget(peel);
        self.lock_rendered().remove(peel);
    }

    /// Whether a heartbeat was heard within its time.
    pub fn is_online(&self, peel: &PeelId) -> bool {
        self.presence.is_online(peel)
    }

    /// Who is there and not among these.
    pub fn online_besides(&self, these: &BTreeSet<PeelId>) -> Vec<PeelId> {
        self.presence.online().into_iter().filter(|peel| !these.contains(peel)).collect()
    }

    pub fn online_count(&self) -> usize {
        self.presence.online().len()
    }

    /// Which of these have no heartbeat now (J-8).
    pub fn absent(&self, targets: &[PeelId]) -> BTreeSet<PeelId> {
        self.presence.absent(targets).into_iter().collect()
    }

    /// How many of these are offline, and since when the first of them (J-25).
    pub fn offline(&self, targets: &[PeelId]) -> Option<Offline> {
        let absent = self.presence.absent(targets);
        if absent.is_empty() {
            return None;
        }
        let seen = absent.iter().map(|peel| self.presence.last_seen(peel)).filter(|seen| seen.0 > 0);
        let since = seen.min().unwrap_or_default();
        let some = absent.iter().take(OFFLINE_NAMED).cloned().collect();
        Some(Offline { count: absent.len() as u64, since, some })
    }

    /// How the peels are that an expression names, beginning after one of them: so many, and whether there are more.
    pub async fn page(
        self: &Arc<Index>,
        expression: &str,
        after: Option<&PeelId>,
        most: usize,
    ) -> Result<(Vec<PeelStatus>, bool), Refusal> {
        let named = self.resolve_aside(expression).await?.peels;
        let begin = after.map_or(0, |after| named.partition_point(|peel| peel <= after));
        let page: Vec<PeelStatus> =
            named.iter().skip(begin).take(most).map(|peel| self.presence.status(peel)).collect();
        let more = begin + page.len() < named.len();
        Ok((page, more))
    }

    /// The peels that an expression names. A mistake is shown where it is.
    pub fn resolve(&self, expression: &str) -> Result<Resolved, Refusal> {
        let target = Target::parse(expression).map_err(|error| bad_target(expression, &error))?;
        Ok(self.matching(&target))
    }

    /// Why nobody can be said to match an expression that asks for settings.
    pub fn unresolvable(&self, expression: &str) -> Option<String> {
        let by_settings = Target::parse(expression).is_ok_and(|target| target.needs_settings());
        if by_settings { self.settings.unknown() } else { None }
    }

    /// The same for callers that must not be held up: settings are rendered on a thread of their own.
    pub async fn resolve_aside(self: &Arc<Index>, expression: &str) -> Result<Resolved, Refusal> {
        let target = Target::parse(expression).map_err(|error| bad_target(expression, &error))?;
        if !target.needs_settings() {
            return Ok(self.matching(&target));
        }
        let index = self.clone();
        let matching = tokio::task::spawn_blocking(move || index.matching(&target)).await;
        matching.map_err(|error| {
            Refusal::new(RefusalKind::Unavailable, format!("the target was not resolved: {error}; ask again"))
        })
    }

    fn matching(&self, target: &Target) -> Resolved {
        let peels = self.snapshot();
        let mut found = Resolved::default();
        // Who is named is looked up: rules mostly name one, and a fleet may be large.
        if let Some(ids) = target.exact_ids() {
            let named = ids.into_iter().filter_map(|id| PeelId::parse(id).ok());
            found.peels =
                named.filter(|peel| peels.contains_key(peel) || self.presence.is_online(peel)).collect();
            found.peels.sort_unstable();
            return found;
        }
        peels.iter().for_each(|(peel, known)| found.add(peel, self.is_meant(target, peel, known)));
        // Whoever has no facts yet is a target as long as it is there.
        let nothing = Known::nothing();
        let bare = self.presence.online().into_iter().filter(|peel| !peels.contains_key(peel));
        bare.for_each(|peel| found.add(&peel, self.is_meant(target, &peel, &nothing)));
        found.peels.sort_unstable();
        found.undecided.sort_unstable();
        found
    }

    /// None where that hangs on settings that do not render: neither whether `I@` holds is known, nor whether `not I@` does.
    fn is_meant(&self, target: &Target, peel: &PeelId, known: &Known) -> Option<bool> {
        let none = Value::Null;
        let rendered = target.needs_settings().then(|| self.settings_of(peel, known)).transpose();
        let Ok(rendered) = rendered else {
            return target.matches_without_settings(peel.as_str(), &known.facts);
        };
        let settings = rendered.as_deref().unwrap_or(&none);
        Some(target.matches(&Subject { id: peel.as_str(), facts: &known.facts, settings }))
    }

    fn lock_rendered(&self) -> std::sync::MutexGuard<'_, HashMap<PeelId, Rendered>> {
        self.rendered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settings_of(&self, peel: &PeelId, known: &Known) -> Result<Arc<Value>, Arc<str>> {
        if let Some(found) = self.lock_rendered().get(peel)
            && found.version == known.version
            && found.at.elapsed() < SETTINGS_FRESH
        {
            return found.settings.clone();
        }
        // Rendered without the lock: it may take a while, and twice is no harm.
        let settings = self.settings.settings(peel, &known.facts).map(Arc::new).map_err(Arc::from);
        let rendered = Rendered { version: known.version, at: Instant::now(), settings: settings.clone() };
        self.lock_rendered().insert(peel.clone(), rendered);
        settings
    }
}
