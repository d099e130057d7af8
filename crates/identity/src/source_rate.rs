//! How much of a reader's time one source may take, in a bounded memory (I-13). A source is whoever the server lets speak there: the
//! peel that a subject names, or the key that signed. Pure: time comes in as what has passed since the reader began.

use std::collections::BTreeMap;
use std::time::Duration;

/// So many at once, and so many a second after that.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub burst: u64,
    pub per_second: u64,
}

/// One number a source says it all: when its share will be whole again. Two tables take turns: when the newer is full, the older goes,
/// so that whoever spoke lately is known and no flood of invented sources grows it.
#[derive(Debug)]
pub struct SourceRate<K> {
    /// Nanoseconds of waiting that one message costs.
    cost: u64,
    /// What a source may be behind.
    behind_max: u64,
    sources_max: usize,
    newer: BTreeMap<K, u64>,
    older: BTreeMap<K, u64>,
}

impl<K: Ord + Clone> SourceRate<K> {
    /// `sources_max`: how many are known in each of the two tables.
    pub fn new(share: Share, sources_max: usize) -> SourceRate<K> {
        let cost = (1_000_000_000 / share.per_second.max(1)).max(1);
        let behind_max = cost.saturating_mul(share.burst.max(1));
        SourceRate { cost, behind_max, sources_max, newer: BTreeMap::new(), older: BTreeMap::new() }
    }

    /// Takes one message of this source. False: it has had its share.
    pub fn takes(&mut self, source: &K, since_start: Duration) -> bool {
        let now = u64::try_from(since_start.as_nanos()).unwrap_or(u64::MAX);
        if let Some(whole_at) = self.newer.get_mut(source) {
            return take(whole_at, now, self.cost, self.behind_max);
        }
        let mut whole_at = self.older.get(source).copied().unwrap_or(now);
        let is_taken = take(&mut whole_at, now, self.cost, self.behind_max);
        if self.newer.len() >= self.sources_max {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(source.clone(), whole_at);
        is_taken
    }

    /// Sources that are remembered.
    pub fn len(&self) -> usize {
        self.newer.len() + self.older.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn take(whole_at: &mut u64, now: u64, cost: u64, behind_max: u64) -> bool {
    let begins = (*whole_at).max(now);
    let next = begins.saturating_add(cost);
    let fits = next - now <= behind_max;
    *whole_at = if fits { next } else { begins };
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zester_rule::rule;

    const SHARE: Share = Share { burst: 5, per_second: 10 };
    const MOST: usize = 100;

    fn taken(rate: &mut SourceRate<u32>, source: u32, count: usize, millis: u64) -> usize {
        (0..count).filter(|_| rate.takes(&source, Duration::from_millis(millis))).count()
    }

    #[test]
    #[rule("I-13")]
    fn i13_a_source_has_its_share_and_takes_nothing_of_others() {
        let mut rate = SourceRate::new(SHARE, MOST);
        assert_eq!(taken(&mut rate, 1, 100, 0), 5);
        assert_eq!(taken(&mut rate, 2, 1, 0), 1);
        assert_eq!(taken(&mut rate, 1, 100, 99), 0);
        assert_eq!(taken(&mut rate, 1, 100, 100), 1);
        assert_eq!(taken(&mut rate, 1, 100, 400), 3);
        assert_eq!(taken(&mut rate, 1, 100, 3_600_000), 5, "a share holds no more than a burst");
    }

    #[test]
    #[rule("I-13")]
    fn i13_invented_sources_fill_no_memory_and_whoever_spoke_lately_is_known() {
        let mut rate = SourceRate::new(SHARE, MOST);
        for source in 0..10_000 {
            assert!(rate.takes(&source, Duration::ZERO));
        }
        assert!(rate.len() <= 2 * MOST);
        assert_eq!(taken(&mut rate, 9_999, 100, 0), 4);
        assert_eq!(taken(&mut rate, 9_900, 100, 0), 4, "of the table before");
    }

    proptest! {
        #[test]
        #[rule("I-13")]
        fn i13_nobody_gets_more_than_burst_and_rate(gaps in prop::collection::vec(0u64..400, 1..300)) {
            let mut rate = SourceRate::new(SHARE, MOST);
            let (mut now, mut count) = (0, 0_u64);
            for gap in gaps {
                now += gap;
                count += u64::from(rate.takes(&1_u32, Duration::from_millis(now)));
                prop_assert!(count <= 5 + now / 100 + 1);
            }
        }
    }
}
