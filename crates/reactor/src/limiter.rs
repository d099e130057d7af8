//! How many events one source may send: a bucket of tokens each, in a bounded memory.

use crate::config::Guards;
use crate::limits::SOURCES_MAX;
use lru::LruCache;
use std::num::NonZeroUsize;
use zester_wire::{Origin, UnixMillis};

const MINUTE_MICROS: u64 = 60_000_000;

/// One number a source says it all: when its bucket will be full again.
pub struct Limiter {
    full_at: LruCache<Origin, u64>,
    /// Microseconds that one event costs; zero: no limit.
    cost: u64,
    burst: u64,
}

impl Limiter {
    pub fn new(guards: &Guards) -> Limiter {
        let cost = match (guards.source_rate_limit, guards.source_burst) {
            (0, _) | (_, 0) => 0,
            (rate, _) => (MINUTE_MICROS / u64::from(rate)).max(1),
        };
        let sources = NonZeroUsize::new(SOURCES_MAX).unwrap_or(NonZeroUsize::MIN);
        Limiter { full_at: LruCache::new(sources), cost, burst: u64::from(guards.source_burst) }
    }

    /// Takes a token of this source, if it has one.
    pub fn allows(&mut self, origin: &Origin, now: UnixMillis) -> bool {
        if self.cost == 0 || *origin == Origin::Master {
            return true;
        }
        let now = now.0.saturating_mul(1_000);
        let whole = self.cost.saturating_mul(self.burst);
        let full_at = match self.full_at.get_mut(origin) {
            Some(full_at) => full_at,
            None => self.full_at.get_or_insert_mut(origin.clone(), || now),
        };
        // After a clock that went back a source waits for one burst at most.
        let begins = (*full_at).clamp(now, now.saturating_add(whole));
        *full_at = begins;
        if begins.saturating_sub(now) > whole.saturating_sub(self.cost) {
            return false;
        }
        *full_at = begins.saturating_add(self.cost);
        true
    }

    /// Sources that are remembered.
    pub fn len(&self) -> usize {
        self.full_at.len()
    }

    pub fn is_empty(&self) -> bool {
        self.full_at.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zester_rule::rule;
    use zester_wire::PeelId;

    fn peel(name: &str) -> Origin {
        Origin::Peel(PeelId::parse(name).unwrap())
    }

    fn allowed(limiter: &mut Limiter, origin: &Origin, count: usize, at: u64) -> usize {
        (0..count).filter(|_| limiter.allows(origin, UnixMillis(at))).count()
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_source_has_a_burst_of_30_and_then_two_a_second() {
        let mut limiter = Limiter::new(&Guards::default());
        let (web, db) = (peel("web"), peel("db"));
        assert_eq!(allowed(&mut limiter, &web, 100, 1_000_000), 30);
        assert_eq!(allowed(&mut limiter, &db, 1, 1_000_000), 1, "sources do not share");
        assert_eq!(allowed(&mut limiter, &web, 100, 1_000_499), 0);
        assert_eq!(allowed(&mut limiter, &web, 100, 1_000_500), 1);
        assert_eq!(allowed(&mut limiter, &web, 100, 1_010_500), 20);
        assert_eq!(allowed(&mut limiter, &web, 100, 9_000_000), 30, "a bucket holds no more than a burst");
    }

    #[test]
    #[rule("R-3", "R-12")]
    fn r3_masters_are_exempt_and_zero_is_no_limit() {
        let mut limiter = Limiter::new(&Guards::default());
        assert_eq!(allowed(&mut limiter, &Origin::Master, 1_000, 5), 1_000);
        let mut off = Limiter::new(&Guards { source_rate_limit: 0, ..Guards::default() });
        assert_eq!(allowed(&mut off, &peel("web"), 1_000, 5), 1_000);
        assert!(off.is_empty());
        let mut off = Limiter::new(&Guards { source_burst: 0, ..Guards::default() });
        assert_eq!(allowed(&mut off, &peel("web"), 1_000, 5), 1_000, "0 of either is off, as of every guard");
        assert!(off.is_empty());
        let mut one = Limiter::new(&Guards { source_burst: 1, ..Guards::default() });
        assert_eq!(allowed(&mut one, &peel("web"), 1_000, 5), 1);
    }

    #[test]
    #[rule("R-3", "R-12")]
    fn r12_those_who_speak_as_admins_are_one_source_like_others() {
        let mut limiter = Limiter::new(&Guards::default());
        assert_eq!(allowed(&mut limiter, &Origin::Admin, 100, 1_000_000), 30);
        assert_eq!(allowed(&mut limiter, &peel("web"), 100, 1_000_000), 30);
        assert_eq!(allowed(&mut limiter, &Origin::Admin, 100, 1_000_500), 1);
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_clock_that_goes_back_costs_a_source_one_burst_at_most() {
        let mut limiter = Limiter::new(&Guards::default());
        let web = peel("web");
        allowed(&mut limiter, &web, 100, 3_600_000);
        assert_eq!(allowed(&mut limiter, &web, 1, 1_000), 0);
        assert_eq!(allowed(&mut limiter, &web, 100, 16_000), 30);
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_hundred_thousand_sources_take_no_more_memory_than_the_limit() {
        let mut limiter = Limiter::new(&Guards::default());
        for number in 0..100_000 {
            assert!(limiter.allows(&peel(&format!("web-{number}")), UnixMillis(1)));
        }
        assert_eq!(limiter.len(), SOURCES_MAX);
    }

    proptest! {
        #[test]
        #[rule("R-12")]
        fn r12_no_source_gets_more_than_burst_and_rate(gaps in prop::collection::vec(0u64..2_000, 1..300)) {
            let mut limiter = Limiter::new(&Guards::default());
            let (web, begin) = (peel("web"), 1_000_000);
            let mut now = begin;
            let mut taken = 0_u64;
            for gap in gaps {
                now += gap;
                taken += u64::from(limiter.allows(&web, UnixMillis(now)));
                prop_assert!(taken <= 30 + (now - begin) / 500 + 1);
            }
        }
    }
}
