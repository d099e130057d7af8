//! The backstop against loops that no depth can see: a rule that fires too often is stopped for a while.

use crate::config::Guards;
use crate::limits::{BREAKERS_MAX, STORM_RATE_MAX, STORM_WINDOW};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use zester_wire::UnixMillis;

/// The breakers of all rules.
pub struct Breakers {
    /// Zero: none ever opens.
    rate: usize,
    cooldown: Duration,
    rules: HashMap<Arc<str>, Breaker>,
}

#[derive(Default)]
struct Breaker {
    /// When it fired within the last minute; never more than the rate and one.
    fires: VecDeque<UnixMillis>,
    /// When it was stopped.
    opened: Option<UnixMillis>,
}

impl Breaker {
    fn forget_before(&mut self, now: UnixMillis) {
        // What lies ahead is of a clock that went back.
        let is_old = |at: &UnixMillis| now.since(*at) >= STORM_WINDOW || *at > now.plus(STORM_WINDOW);
        while self.fires.front().is_some_and(is_old) {
            self.fires.pop_front();
        }
    }

    fn is_open(&self, cooldown: Duration, now: UnixMillis) -> bool {
        // One that opened long after now did so on a clock that went back; it must not wait for that day.
        self.opened.is_some_and(|at| now.since(at) < cooldown && at <= now.plus(cooldown))
    }
}

impl Breakers {
    pub fn new(guards: &Guards) -> Breakers {
        let rate = guards.storm_rate.min(STORM_RATE_MAX) as usize;
        Breakers { rate, cooldown: guards.storm_cooldown, rules: HashMap::new() }
    }

    /// Until when the rule is stopped.
    pub fn open_until(&self, rule: &str, now: UnixMillis) -> Option<UnixMillis> {
        let breaker = self.rules.get(rule).filter(|breaker| breaker.is_open(self.cooldown, now))?;
        breaker.opened.map(|at| at.plus(self.cooldown))
    }

    /// The rule completed a fire, or failed for good. Whether that was one too many.
    pub fn fired(&mut self, rule: &Arc<str>, now: UnixMillis) -> bool {
        if self.rate == 0 || self.cooldown.is_zero() {
            return false;
        }
        if !self.rules.contains_key(rule) && self.rules.len() >= BREAKERS_MAX {
            return false;
        }
        let breaker = self.rules.entry(rule.clone()).or_default();
        breaker.forget_before(now);
        breaker.fires.push_back(now);
        if breaker.fires.len() <= self.rate || breaker.is_open(self.cooldown, now) {
            breaker.fires.truncate(self.rate + 1);
            return false;
        }
        breaker.fires.clear();
        breaker.opened = Some(now);
        true
    }

    /// Closes what was open long enough. Gives the rules that it closed.
    pub fn sweep(&mut self, now: UnixMillis) -> Vec<Arc<str>> {
        let mut closed = Vec::new();
        for (rule, breaker) in &mut self.rules {
            breaker.forget_before(now);
            if breaker.opened.is_some() && !breaker.is_open(self.cooldown, now) {
                breaker.opened = None;
                closed.push(rule.clone());
            }
        }
        self.rules.retain(|_, breaker| breaker.opened.is_some() || !breaker.fires.is_empty());
        closed
    }

    /// An operator lets the rule go on. Whether it was stopped.
    pub fn close(&mut self, rule: &str) -> bool {
        let Some(breaker) = self.rules.get_mut(rule) else { return false };
        breaker.fires.clear();
        breaker.opened.take().is_some()
    }

    /// Rules that are stopped, swept or not.
    pub fn open(&self) -> impl Iterator<Item = &Arc<str>> {
        self.rules.iter().filter(|(_, breaker)| breaker.opened.is_some()).map(|(rule, _)| rule)
    }

    /// Fires of the last minute.
    pub fn fires(&self, rule: &str, now: UnixMillis) -> usize {
        let recent = |at: &&UnixMillis| now.since(**at) < STORM_WINDOW;
        self.rules.get(rule).map_or(0, |breaker| breaker.fires.iter().filter(recent).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn fire(breakers: &mut Breakers, rule: &Arc<str>, times: usize, at: u64) -> usize {
        (0..times).filter(|_| breakers.fired(rule, UnixMillis(at))).count()
    }

    #[test]
    #[rule("R-12")]
    fn r12_the_61st_fire_of_a_minute_opens_the_breaker_for_five_minutes() {
        let mut breakers = Breakers::new(&Guards::default());
        let rule: Arc<str> = "reactor.a".into();
        assert_eq!(fire(&mut breakers, &rule, 60, 1_000_000), 0);
        assert_eq!(breakers.fires("reactor.a", UnixMillis(1_000_000)), 60);
        assert_eq!(breakers.open_until("reactor.a", UnixMillis(1_000_000)), None);
        assert_eq!(fire(&mut breakers, &rule, 1, 1_059_999), 1);
        let until = Some(UnixMillis(1_359_999));
        assert_eq!(breakers.open_until("reactor.a", UnixMillis(1_060_000)), until);
        assert_eq!(breakers.open_until("reactor.b", UnixMillis(1_060_000)), None);
        assert_eq!(breakers.open_until("reactor.a", UnixMillis(1_359_999)), None);
    }

    #[test]
    #[rule("R-12")]
    fn r12_fires_that_are_a_minute_old_do_not_count() {
        let mut breakers = Breakers::new(&Guards::default());
        let rule: Arc<str> = "reactor.a".into();
        assert_eq!(fire(&mut breakers, &rule, 60, 1_000_000), 0);
        assert_eq!(fire(&mut breakers, &rule, 60, 1_060_000), 0);
        assert_eq!(fire(&mut breakers, &rule, 1, 1_060_000), 1);
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_sweep_closes_it_and_an_operator_may_before() {
        let mut breakers = Breakers::new(&Guards::default());
        let rule: Arc<str> = "reactor.a".into();
        fire(&mut breakers, &rule, 61, 1_000_000);
        assert_eq!(breakers.sweep(UnixMillis(1_299_999)), []);
        assert_eq!(breakers.open().count(), 1);
        assert_eq!(breakers.sweep(UnixMillis(1_300_000)), std::slice::from_ref(&rule));
        assert_eq!(breakers.open().count(), 0);
        fire(&mut breakers, &rule, 61, 2_000_000);
        assert!(breakers.close("reactor.a"));
        assert!(!breakers.close("reactor.a"));
        assert!(!breakers.close("reactor.b"));
        assert_eq!(breakers.open_until("reactor.a", UnixMillis(2_000_000)), None);
    }

    #[test]
    #[rule("R-12")]
    fn r12_what_is_closed_by_hand_or_opened_begins_to_count_anew() {
        let mut breakers = Breakers::new(&Guards::default());
        let (rule, now): (Arc<str>, u64) = ("reactor.a".into(), 1_000_000);
        fire(&mut breakers, &rule, 60, now);
        assert!(!breakers.close("reactor.a"), "it was not stopped yet");
        assert_eq!(breakers.fires("reactor.a", UnixMillis(now)), 0);
        assert_eq!(fire(&mut breakers, &rule, 60, now), 0, "the 60 before are forgotten");
        assert_eq!(fire(&mut breakers, &rule, 1, now), 1);
        // Reactions that began before it opened end while it is open.
        assert_eq!(fire(&mut breakers, &rule, 200, now), 0, "it is open already");
        assert!(breakers.close("reactor.a"));
        assert_eq!(fire(&mut breakers, &rule, 60, now), 0);
        assert_eq!(fire(&mut breakers, &rule, 1, now), 1);
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_clock_set_back_neither_opens_nor_keeps_open() {
        let rule: Arc<str> = "reactor.a".into();
        let (day, now) = (86_400_000, 1_000_000_000);
        // Fires of a day that has not come yet do not count.
        let mut breakers = Breakers::new(&Guards::default());
        fire(&mut breakers, &rule, 60, now);
        assert_eq!(fire(&mut breakers, &rule, 60, now - day), 0);
        assert_eq!(fire(&mut breakers, &rule, 1, now - day), 1, "those of the new day do");
        // One that is open then is not open for a day, whether it is swept or not.
        let mut breakers = Breakers::new(&Guards::default());
        fire(&mut breakers, &rule, 61, now);
        assert_eq!(breakers.open_until("reactor.a", UnixMillis(now - day)), None);
        assert_eq!(breakers.sweep(UnixMillis(now - day)), std::slice::from_ref(&rule));
        assert_eq!(breakers.open().count(), 0);
        // It opens anew where it must.
        fire(&mut breakers, &rule, 61, now);
        assert_eq!(fire(&mut breakers, &rule, 61, now - day), 1);
        assert!(breakers.open_until("reactor.a", UnixMillis(now - day)).is_some());
        // A clock that is put right by a little closes nothing.
        let mut breakers = Breakers::new(&Guards::default());
        fire(&mut breakers, &rule, 61, now);
        assert!(breakers.open_until("reactor.a", UnixMillis(now - 5)).is_some());
        assert_eq!(breakers.sweep(UnixMillis(now - 5)), []);
    }

    #[test]
    #[rule("R-12")]
    fn r12_zero_switches_the_breaker_off() {
        for guards in [
            Guards { storm_rate: 0, ..Guards::default() },
            Guards { storm_cooldown: Duration::ZERO, ..Guards::default() },
        ] {
            let mut breakers = Breakers::new(&guards);
            assert_eq!(fire(&mut breakers, &"reactor.a".into(), 1_000, 1_000_000), 0);
        }
    }
}
