//! A fleet in parts, one after the other: the planner, without a bus.

use std::fmt;
use std::str::FromStr;
use zester_wire::PeelId;

/// How many at a time: a number, or a share of the targets.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BatchSize {
    Count(usize),
    Percent(u8),
}

impl BatchSize {
    /// How many of `targets` that is: at least one.
    pub fn of(self, targets: usize) -> usize {
        match self {
            BatchSize::Count(count) => count.max(1),
            // Up to 100 %, so the product is at most a hundred times what fits in memory.
            BatchSize::Percent(percent) => (targets.saturating_mul(usize::from(percent)) / 100).max(1),
        }
    }
}

impl FromStr for BatchSize {
    type Err = String;

    fn from_str(text: &str) -> Result<BatchSize, String> {
        let bad = || format!("`{text}` is no size of a batch; write a number like `5` or a share like `25%`");
        let size = match text.strip_suffix('%') {
            Some(share) => BatchSize::Percent(share.trim().parse().map_err(|_| bad())?),
            None => BatchSize::Count(text.trim().parse().map_err(|_| bad())?),
        };
        match size {
            BatchSize::Count(0) | BatchSize::Percent(0) | BatchSize::Percent(101..) => Err(bad()),
            size => Ok(size),
        }
    }
}

impl fmt::Display for BatchSize {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchSize::Count(count) => write!(out, "{count}"),
            BatchSize::Percent(percent) => write!(out, "{percent}%"),
        }
    }
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextBatch {
    Run(Vec<PeelId>),
    /// All have had their turn.
    Done,
    /// Too many did not succeed; these are not asked.
    Stopped {
        not_asked: Vec<PeelId>,
    },
}

/// Hands out one batch after the other until too many peels have not succeeded.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    left: Vec<PeelId>,
    size: usize,
    failed: usize,
    /// So many that did not succeed stop the rest.
    max_fail: usize,
}

impl BatchPlan {
    pub fn new(targets: Vec<PeelId>, size: BatchSize, max_fail: Option<usize>) -> BatchPlan {
        let size = size.of(targets.len());
        BatchPlan { left: targets, size, failed: 0, max_fail: max_fail.unwrap_or(usize::MAX) }
    }

    /// The next batch. Ask when the last has ended, and not before.
    pub fn next_batch(&mut self) -> NextBatch {
        if self.left.is_empty() {
            return NextBatch::Done;
        }
        if self.failed >= self.max_fail {
            return NextBatch::Stopped { not_asked: std::mem::take(&mut self.left) };
        }
        let size = self.size.min(self.left.len());
        NextBatch::Run(self.left.drain(..size).collect())
    }

    /// How many of the batch failed, were unreachable or did not return.
    pub fn ended(&mut self, failed: usize) {
        self.failed = self.failed.saturating_add(failed);
    }

    /// Those who have not had their turn, and will not have it.
    pub fn rest(&mut self) -> Vec<PeelId> {
        std::mem::take(&mut self.left)
    }

    pub fn batches_left(&self) -> usize {
        self.left.len().div_ceil(self.size)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn peels(count: usize) -> Vec<PeelId> {
        (0..count).map(|at| PeelId::parse(&format!("web-{at:02}")).unwrap()).collect()
    }

    fn sizes(mut plan: BatchPlan) -> Vec<usize> {
        std::iter::from_fn(|| match plan.next_batch() {
            NextBatch::Run(batch) => Some(batch.len()),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn a_batch_is_a_number_or_a_share_and_at_least_one() {
        assert_eq!(sizes(BatchPlan::new(peels(5), BatchSize::Count(2), None)), [2, 2, 1]);
        assert_eq!(sizes(BatchPlan::new(peels(10), BatchSize::Percent(25), None)), [2, 2, 2, 2, 2]);
        assert_eq!(sizes(BatchPlan::new(peels(3), BatchSize::Percent(10), None)), [1, 1, 1]);
        assert_eq!(sizes(BatchPlan::new(peels(3), BatchSize::Count(100), None)), [3]);
        assert_eq!(sizes(BatchPlan::new(peels(0), BatchSize::Count(1), None)), [0; 0]);
    }

    #[test]
    fn every_target_has_its_turn_once_and_in_order() {
        let mut plan = BatchPlan::new(peels(7), BatchSize::Count(3), None);
        let mut all = Vec::new();
        while let NextBatch::Run(batch) = plan.next_batch() {
            all.extend(batch);
        }
        assert_eq!(all, peels(7));
    }

    #[test]
    fn as_many_failures_as_max_fail_stop_the_rest() {
        let mut plan = BatchPlan::new(peels(6), BatchSize::Count(2), Some(2));
        assert!(matches!(plan.next_batch(), NextBatch::Run(_)));
        plan.ended(1);
        assert!(matches!(plan.next_batch(), NextBatch::Run(_)));
        plan.ended(1);
        assert_eq!(plan.next_batch(), NextBatch::Stopped { not_asked: peels(6)[4..].to_vec() });
        assert_eq!(plan.next_batch(), NextBatch::Done);
        let mut plan = BatchPlan::new(peels(2), BatchSize::Count(1), Some(1));
        assert!(matches!(plan.next_batch(), NextBatch::Run(_)));
        plan.ended(1);
        assert_eq!(plan.next_batch(), NextBatch::Stopped { not_asked: peels(2)[1..].to_vec() });
    }

    #[test]
    fn sizes_read_as_users_write_them() {
        assert_eq!("5".parse(), Ok(BatchSize::Count(5)));
        assert_eq!("25%".parse(), Ok(BatchSize::Percent(25)));
        for bad in ["", "0", "0%", "101%", "-1", "many", "%", "1.5"] {
            assert!(bad.parse::<BatchSize>().is_err(), "{bad}");
        }
    }
}
