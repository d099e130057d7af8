//! Which drops the ledger gets: all of a few, a sample of many.

use crate::gates::{DropReason, Dropped};
use crate::limits::{DROP_SAMPLES_MAX, DROPS_WRITTEN_PER_SECOND};
use lru::LruCache;
use std::num::NonZeroUsize;
use zester_wire::UnixMillis;

const SECOND_MILLIS: u64 = 1_000;

/// How many were written of each source and reason in the current second.
pub struct DropSamples {
    seen: LruCache<(String, DropReason), Second>,
}

struct Second {
    begun: u64,
    written: u32,
    /// Those since the last that was written: how many, and the newest.
    unwritten: u64,
    newest: Option<Dropped>,
}

impl Default for DropSamples {
    fn default() -> DropSamples {
        let pairs = NonZeroUsize::new(DROP_SAMPLES_MAX).unwrap_or(NonZeroUsize::MIN);
        DropSamples { seen: LruCache::new(pairs) }
    }
}

impl DropSamples {
    /// Gives back what is to be written, and how many were not since the last.
    pub fn take(&mut self, dropped: Dropped, now: UnixMillis) -> Option<(Dropped, u64)> {
        let begin = || Second { begun: now.0, written: 0, unwritten: 0, newest: None };
        let second = self.seen.get_or_insert_mut((dropped.source(), dropped.reason), begin);
        if now.0.abs_diff(second.begun) >= SECOND_MILLIS {
            (second.begun, second.written) = (now.0, 0);
        }
        if second.written >= DROPS_WRITTEN_PER_SECOND {
            second.unwritten += 1;
            second.newest = Some(dropped);
            return None;
        }
        second.written += 1;
        second.newest = None;
        Some((dropped, std::mem::take(&mut second.unwritten)))
    }

    /// What is left to be written when nothing more will come: of each source and reason the newest, and how many were not
    /// before it.
    pub fn rest(&mut self) -> Vec<(Dropped, u64)> {
        let left = |(_, second): (_, &mut Second)| {
            let newest = second.newest.take()?;
            Some((newest, std::mem::take(&mut second.unwritten).saturating_sub(1)))
        };
        self.seen.iter_mut().filter_map(left).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::{Origin, PeelId};

    fn dropped(source: &str, reason: DropReason) -> Dropped {
        let origin = Some(Origin::Peel(PeelId::parse(source).unwrap()));
        let (why, id) = (String::new(), String::new());
        Dropped { reason, why, origin, tag: None, id, depth: 0, sequence: 0 }
    }

    /// How many were left out before this one, where it is written.
    fn take(samples: &mut DropSamples, source: &str, reason: DropReason, at: u64) -> Option<u64> {
        samples.take(dropped(source, reason), UnixMillis(at)).map(|(_, unwritten)| unwritten)
    }

    #[test]
    #[rule("R-22")]
    fn r22_what_was_left_out_is_told_at_the_end() {
        let mut samples = DropSamples::default();
        for (source, count) in [("web", 25), ("db", 11), ("one", 10)] {
            for _ in 0..count {
                take(&mut samples, source, DropReason::Stale, 5_000);
            }
        }
        let told = |rest: Vec<(Dropped, u64)>| {
            let mut told: Vec<_> = rest.into_iter().map(|(one, more)| (one.source(), more)).collect();
            told.sort();
            told
        };
        assert_eq!(told(samples.rest()), [("db".to_string(), 0), ("web".to_string(), 14)]);
        assert_eq!(told(samples.rest()), [], "once");
    }

    #[test]
    #[rule("R-22")]
    fn r22_more_than_ten_drops_a_second_are_sampled_and_counted() {
        let mut samples = DropSamples::default();
        let mut take = |source: &str, at| take(&mut samples, source, DropReason::Stale, at);
        let written = (0..25).filter(|_| take("web", 5_000).is_some()).count();
        assert_eq!(written, 10);
        assert_eq!(take("db", 5_000), Some(0), "sources are counted apart");
        assert_eq!(take("web", 6_000), Some(15), "the next says how many were left out");
        assert_eq!(take("web", 6_000), Some(0));
    }

    #[test]
    #[rule("R-22")]
    fn r22_each_reason_of_a_source_has_its_own_sample() {
        let mut samples = DropSamples::default();
        let mut at_five = |reason| take(&mut samples, "web", reason, 5_000);
        for reason in DropReason::ALL {
            let written = (0..25).filter(|_| at_five(reason).is_some()).count();
            assert_eq!(written, 10, "{reason:?}: a flood of others hides none of these");
        }
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            (0..place).for_each(|_| assert_eq!(at_five(reason), None));
        }
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            let next = take(&mut samples, "web", reason, 6_000);
            assert_eq!(next, Some(15 + place as u64), "{reason:?}: counted apart");
        }
    }

    #[test]
    #[rule("R-22")]
    fn r22_a_clock_set_back_samples_on() {
        let mut samples = DropSamples::default();
        let mut take = |at| take(&mut samples, "web", DropReason::Stale, at);
        assert_eq!((0..11).filter(|_| take(90_000).is_some()).count(), 10);
        assert_eq!(take(89_001), None, "still the same second");
        assert_eq!(take(5_000), Some(2));
    }
}
