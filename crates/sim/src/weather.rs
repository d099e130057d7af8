//! What the network does to messages, and the memory of which work it lost.

use crate::dice::Dice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::memory::{Fate, Faults, Leg};

/// Whoever is called so has perfect weather: it only looks.
pub const JUDGE: &str = "judge";
/// How long a message takes when nothing is wrong.
const CALM_DELAY: Duration = Duration::from_millis(3);

#[derive(Clone)]
pub struct Weather {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    dice: Dice,
    lost: u64,
    doubled: u64,
    delay: Duration,
    /// Commands to peels that never came.
    lost_commands: Vec<(String, Instant)>,
    /// When the weather was not calm.
    storms: Vec<(Instant, Option<Instant>)>,
}

impl Weather {
    pub fn new(seed: u64) -> Weather {
        let dice = Dice::new(seed, "weather");
        let inner =
            Inner { dice, lost: 0, doubled: 0, delay: CALM_DELAY, lost_commands: vec![], storms: vec![] };
        Weather { inner: Arc::new(Mutex::new(inner)) }
    }

    pub fn storm(&self, lost: u64, doubled: u64, delay: Duration) {
        self.calm();
        let mut inner = self.lock();
        (inner.lost, inner.doubled, inner.delay) = (lost, doubled, delay);
        inner.storms.push((Instant::now(), None));
    }

    pub fn calm(&self) {
        let mut inner = self.lock();
        (inner.lost, inner.doubled, inner.delay) = (0, 0, CALM_DELAY);
        if let Some((_, end)) = inner.storms.last_mut() {
            end.get_or_insert_with(Instant::now);
        }
    }

    /// Whether a command to that peel was lost between two moments.
    pub fn lost_a_command(&self, to: &str, from: Instant, until: Instant) -> bool {
        let lost = |(name, at): &(String, Instant)| name == to && *at >= from && *at <= until;
        self.lock().lost_commands.iter().any(lost)
    }

    pub fn was_calm(&self, from: Instant, until: Instant) -> bool {
        let apart =
            |(begin, end): &(Instant, Option<Instant>)| *begin > until || end.is_some_and(|end| end < from);
        self.lock().storms.iter().all(apart)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults for Weather {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if leg.from == JUDGE || leg.to == JUDGE {
            return vec![Duration::ZERO];
        }
        let mut inner = self.lock();
        if inner.dice.happens(inner.lost) {
            if leg.subject.starts_with("zester.cmd.") {
                let to = leg.to.to_string();
                inner.lost_commands.push((to, Instant::now()));
            }
            return Vec::new();
        }
        let copies = if inner.dice.happens(inner.doubled) { 2 } else { 1 };
        let most = u64::try_from(inner.delay.as_micros()).unwrap_or(u64::MAX - 1);
        (0..copies).map(|_| Duration::from_micros(inner.dice.roll(most + 1))).collect()
    }
}
