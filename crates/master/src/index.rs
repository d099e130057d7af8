//! Every peel that is known, for resolving targets without asking the bus (D-8).

mod caret;
mod keeper;

pub use caret::{bad_target, point_at};
pub(crate) use keeper::Keeper;

use crate::limits::SETTINGS_FRESH;
use crate::run::SettingsOf;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;
use zester_model::target::{Subject, Target};
use zester_wire::{FactsRecord, PeelHeartbeat, PeelId, Refusal};

/// A heartbeat, and when it was seen.
#[derive(Clone, Debug)]
pub struct Beat {
    pub heartbeat: Arc<PeelHeartbeat>,
    pub seen: Instant,
    revision: u64,
}

/// What is known of one peel.
#[derive(Clone, Debug)]
pub struct Known {
    pub facts: Arc<Value>,
    /// Of the facts; 0 before they came.
    pub revision: u64,
    pub hash: Arc<str>,
    pub beat: Option<Beat>,
}

impl Known {
    fn nothing() -> Known {
        Known { facts: Arc::new(Value::Object(Map::new())), revision: 0, hash: "".into(), beat: None }
    }
}

type Peels = BTreeMap<PeelId, Known>;

struct Rendered {
    revision: u64,
    at: Instant,
    settings: Arc<Value>,
}

/// All peels. Readers take a snapshot, so that a long look holds nobody up.
pub struct Index {
    peels: RwLock<Arc<Peels>>,
    current: AtomicBool,
    peel_ttl: Duration,
    settings: Arc<dyn SettingsOf>,
    rendered: Mutex<HashMap<PeelId, Rendered>>,
}

impl Index {
    pub fn new(peel_ttl: Duration, settings: Arc<dyn SettingsOf>) -> Index {
        Index {
            peels: RwLock::default(),
            current: AtomicBool::new(false),
            peel_ttl,
            settings,
            rendered: Mutex::default(),
        }
    }

    /// Everything as it is now. Cheap; what changes later is not seen.
    pub fn snapshot(&self) -> Arc<Peels> {
        self.peels.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Peels) -> T) -> T {
        let mut peels = self.peels.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut peels))
    }

    /// Whether everything that was on the bus at the start is here.
    pub fn is_current(&self) -> bool {
        self.current.load(Ordering::Acquire)
    }

    pub fn set_current(&self, current: bool) {
        self.current.store(current, Ordering::Release);
    }

    pub fn len(&self) -> usize {
        self.snapshot().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn put_facts(&self, record: FactsRecord, revision: u64) {
        self.change(|peels| {
            let known = peels.entry(record.peel).or_insert_with(Known::nothing);
            if revision >= known.revision {
                known.facts = Arc::new(Value::Object(record.facts));
                known.hash = record.hash.into();
                known.revision = revision;
            }
        });
    }

    /// Takes a heartbeat; tells whether the peel came (back) with it (J-6).
    pub fn put_heartbeat(&self, heartbeat: PeelHeartbeat, revision: u64) -> bool {
        self.change(|peels| {
            let known = peels.entry(heartbeat.peel.clone()).or_insert_with(Known::nothing);
            let before = known.beat.as_ref();
            if before.is_some_and(|before| revision <= before.revision) {
                // Told again by a watch that began anew: no sign of life.
                return false;
            }
            let came = heartbeat.announces_connect(before.map(|before| before.heartbeat.as_ref()));
            known.beat = Some(Beat { heartbeat: Arc::new(heartbeat), seen: Instant::now(), revision });
            came
        })
    }

    /// Forgets the facts of those that are not listed any more, and whom nothing else speaks for.
    pub fn keep_only(&self, with_facts: &BTreeSet<PeelId>, seen_before: Instant) {
        let ttl = self.peel_ttl;
        self.change(|peels| {
            peels.retain(|peel, known| {
                let alive = known.beat.as_ref().is_some_and(|beat| beat.seen + ttl > seen_before);
                if !with_facts.contains(peel) && known.revision > 0 {
                    known.facts = Known::nothing().facts;
                    known.revision = 0;
                }
                alive || known.revision > 0
            });
        });
        let known = self.snapshot();
        self.rendered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|peel, _| known.contains_key(peel));
    }

    /// Whether a heartbeat was seen within its time.
    pub fn is_online(&self, peel: &PeelId) -> bool {
        self.snapshot().get(peel).is_some_and(|known| self.lives(known))
    }

    pub fn online_count(&self) -> usize {
        self.snapshot().values().filter(|known| self.lives(known)).count()
    }

    /// Which of these have no heartbeat now (J-8).
    pub fn absent(&self, targets: &[PeelId]) -> BTreeSet<PeelId> {
        let peels = self.snapshot();
        let absent = |peel: &&PeelId| !peels.get(*peel).is_some_and(|known| self.lives(known));
        targets.iter().filter(absent).cloned().collect()
    }

    fn lives(&self, known: &Known) -> bool {
        known.beat.as_ref().is_some_and(|beat| beat.seen.elapsed() <= self.peel_ttl)
    }

    /// The peels that an expression names, sorted. A mistake is shown where it is.
    pub fn resolve(&self, expression: &str) -> Result<Vec<PeelId>, Refusal> {
        let target = Target::parse(expression).map_err(|error| bad_target(expression, &error))?;
        let peels = self.snapshot();
        let none = Value::Null;
        let by_settings = target.needs_settings();
        let matches = |(peel, known): &(&PeelId, &Known)| {
            let rendered = by_settings.then(|| self.settings_of(peel, known));
            let settings = rendered.as_deref().unwrap_or(&none);
            target.matches(&Subject { id: peel.as_str(), facts: &known.facts, settings })
        };
        Ok(peels.iter().filter(matches).map(|(peel, _)| peel.clone()).collect())
    }

    fn settings_of(&self, peel: &PeelId, known: &Known) -> Arc<Value> {
        let lock = || self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = lock().get(peel)
            && found.revision == known.revision
            && found.at.elapsed() < SETTINGS_FRESH
        {
            return found.settings.clone();
        }
        // Rendered without the lock: it may take a while, and twice is no harm.
        let settings = Arc::new(self.settings.settings(peel, &known.facts));
        let rendered = Rendered { revision: known.revision, at: Instant::now(), settings: settings.clone() };
        lock().insert(peel.clone(), rendered);
        settings
    }
}
