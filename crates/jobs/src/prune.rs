//! Which records make room for new ones before a store is full (J-23).

use crate::limits::{PRUNE_ABOVE_PERCENT, PRUNE_MIN_AGE, PRUNE_TO_PERCENT};
use zester_wire::{Job, UnixMillis};

/// How many bytes are to go from a store that holds so many of so many.
pub fn excess(bytes: u64, limit: u64) -> u64 {
    let share = |percent: u64| limit / 100 * percent;
    if bytes < share(PRUNE_ABOVE_PERCENT) { 0 } else { bytes.saturating_sub(share(PRUNE_TO_PERCENT)) }
}

/// Whether a record may go: the job is over, and has been for a moment. One that is still marked active was not reported yet: its
/// owner died, and whoever adopts it needs the record (J-19).
pub fn may_go(job: &Job, is_marked: bool, now: UnixMillis) -> bool {
    job.status.is_terminal() && !is_marked && now.since(job.updated) >= PRUNE_MIN_AGE
}
