//! Which drops the ledger gets: all of a few, a sample of many.

use crate::gates::DropReason;
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
    /// Since the last that was written.
    unwritten: u64,
}

impl Default for DropSamples {
    fn default() -> DropSamples {
        let pairs = NonZeroUsize::new(DROP_SAMPLES_MAX).unwrap_or(NonZeroUsize::MIN);
        DropSamples { seen: LruCache::new(pairs) }
    }
}

impl DropSamples {
    /// Whether this one is written, and how many were not since the last.
    pub fn takes(&mut self, source: String, reason: DropReason, now: UnixMillis) -> Option<u64> {
        let begin = || Second { begun: now.0, written: 0, unwritten: 0 };
        let second = self.seen.get_or_insert_mut((source, reason), begin);
        if now.0.abs_diff(second.begun) >= SECOND_MILLIS {
            *second = Second { begun: now.0, written: 0, unwritten: second.unwritten };
        }
        if second.written >= DROPS_WRITTEN_PER_SECOND {
            second.unwritten += 1;
            return None;
        }
        second.written += 1;
        Some(std::mem::take(&mut second.unwritten))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("R-22")]
    fn r22_more_than_ten_drops_a_second_are_sampled_and_counted() {
        let mut samples = DropSamples::default();
        let mut take = |source: &str, at| samples.takes(source.into(), DropReason::Stale, UnixMillis(at));
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
        let mut take = |reason| samples.takes("web".into(), reason, UnixMillis(5_000));
        for reason in DropReason::ALL {
            let written = (0..25).filter(|_| take(reason).is_some()).count();
            assert_eq!(written, 10, "{reason:?}: a flood of others hides none of these");
        }
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            (0..place).for_each(|_| assert_eq!(take(reason), None));
        }
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            let next = samples.takes("web".into(), reason, UnixMillis(6_000));
            assert_eq!(next, Some(15 + place as u64), "{reason:?}: counted apart");
        }
    }

    #[test]
    #[rule("R-22")]
    fn r22_a_clock_set_back_samples_on() {
        let mut samples = DropSamples::default();
        let mut take = |at| samples.takes("web".into(), DropReason::Stale, UnixMillis(at));
        assert_eq!((0..11).filter(|_| take(90_000).is_some()).count(), 10);
        assert_eq!(take(89_001), None, "still the same second");
        assert_eq!(take(5_000), Some(2));
    }
}
