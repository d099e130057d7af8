//! What the network and the servers do to messages, and the memory of which work they lost.

use crate::dice::Dice;
use crate::observed::Observed;
use crate::script::Disturbance;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::memory::{Fate, Faults, Leg, SERVER, WatchFate};

/// Whoever is called so has a perfect network: it only looks.
pub const JUDGE: &str = "judge";
/// How long a message takes when nothing is wrong.
const CALM_DELAY: Duration = Duration::from_millis(3);
/// What a late write may take: longer than anybody waits for its answer.
const LATE_MS: (u64, u64) = (5_000, 30_000);
pub const LATE_MAX: Duration = Duration::from_millis(LATE_MS.1);
/// How far behind a direct get may be.
const LAG_MS: (u64, u64) = (50, 9_000);
/// How late a watch may be.
const WATCH_LATE_MS: (u64, u64) = (100, 15_000);

#[derive(Clone)]
pub struct Network {
    inner: Arc<Mutex<Inner>>,
    observed: Observed,
}

struct Inner {
    dice: Dice,
    /// What is wrong now, by its name.
    now: BTreeMap<&'static str, Disturbance>,
    /// Commands to peels: (peel, when, whether it was lost).
    commands: Vec<(String, Instant, bool)>,
}

impl Inner {
    /// How much of a thousand is wrong in one respect, and is it now?
    fn happens(&self, name: &'static str, rate: impl Fn(&Disturbance) -> u64) -> bool {
        let of_a_thousand = self.now.get(name).map_or(0, rate);
        of_a_thousand > 0 && self.dice.happens(of_a_thousand)
    }
}

impl Network {
    pub fn new(seed: u64, observed: Observed) -> Network {
        let dice = Dice::new(seed, "network");
        let inner = Inner { dice, now: BTreeMap::new(), commands: Vec::new() };
        Network { inner: Arc::new(Mutex::new(inner)), observed }
    }

    pub fn disturb(&self, disturbance: Disturbance) {
        let name = disturbance.name();
        self.observed.disturbance(name, true);
        self.lock().now.insert(name, disturbance);
    }

    pub fn calm(&self, name: &'static str) {
        self.observed.disturbance(name, false);
        self.lock().now.remove(name);
    }

    pub fn calm_all(&self) {
        let names: Vec<&'static str> = self.lock().now.keys().copied().collect();
        names.into_iter().for_each(|name| self.calm(name));
    }

    /// Whether every command to that peel between two moments was lost, and there was one.
    pub fn lost_every_command(&self, to: &str, from: Instant, until: Instant) -> bool {
        let inner = self.lock();
        let theirs =
            || inner.commands.iter().filter(|(name, at, _)| name == to && *at >= from && *at <= until);
        theirs().next().is_some() && theirs().all(|(_, _, lost)| *lost)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults for Network {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if leg.from == JUDGE || leg.to == JUDGE {
            return vec![Duration::ZERO];
        }
        let mut inner = self.lock();
        let storm = match inner.now.get("storm") {
            Some(Disturbance::Storm { lost, doubled, delay }) => (*lost, *doubled, *delay),
            _ => (0, 0, CALM_DELAY),
        };
        let (lost, doubled, delay) = storm;
        let is_lost = lost > 0 && inner.dice.happens(lost);
        if leg.subject.starts_with("zester.cmd.") && leg.to != SERVER {
            let to = leg.to.to_string();
            inner.commands.push((to, Instant::now(), is_lost));
        }
        if is_lost {
            return Vec::new();
        }
        if leg.to == SERVER && inner.happens("late writes", Disturbance::rate) {
            self.observed.count("late write");
            return vec![inner.dice.between(LATE_MS.0, LATE_MS.1)];
        }
        let copies = if doubled > 0 && inner.dice.happens(doubled) { 2 } else { 1 };
        let most = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX - 1);
        (0..copies).map(|_| Duration::from_micros(inner.dice.roll(most + 1))).collect()
    }

    fn lag(&mut self, client: &str, _stream: &str) -> Duration {
        let inner = self.lock();
        if client == JUDGE || !inner.happens("stale reads", Disturbance::rate) {
            return Duration::ZERO;
        }
        self.observed.count("stale read");
        inner.dice.between(LAG_MS.0, LAG_MS.1)
    }

    fn overflows(&mut self, leg: Leg<'_>) -> bool {
        let inner = self.lock();
        let overflows = leg.to != JUDGE && inner.happens("slow subscribers", Disturbance::rate);
        if overflows {
            self.observed.count("overflow");
        }
        overflows
    }

    fn watch(&mut self, _client: &str, _bucket: &str) -> WatchFate {
        let inner = self.lock();
        if !inner.happens("watches", Disturbance::rate) {
            return WatchFate::OnTime;
        }
        if inner.dice.happens(500) {
            self.observed.count("watch ended");
            return WatchFate::Ends;
        }
        self.observed.count("watch late");
        WatchFate::Late(inner.dice.between(WATCH_LATE_MS.0, WATCH_LATE_MS.1))
    }
}
