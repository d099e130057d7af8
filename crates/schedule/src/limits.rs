//! The bounds of a schedule.

use std::time::Duration;

/// Entries of one schedule, from whatever source.
pub const ENTRIES_MAX: usize = 256;
/// Bytes of the name of an entry.
pub const NAME_BYTES_MAX: usize = 128;
/// The shortest interval.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The longest interval, splay and timeout.
pub const SPAN_MAX: Duration = Duration::from_secs(366 * 86_400);
/// Runs of one entry that may be under way at once.
pub const MAXRUNNING_MAX: usize = 64;
/// How long a scheduled run may take where its entry names no timeout.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(3_600);
/// A run that would begin later than this was missed: the peel was down, the machine slept, or its clock was set.
pub const LATE_MAX: Duration = Duration::from_secs(60);
/// Missed runs of one entry that are counted; beyond it they are "so many or more".
pub const MISSED_COUNTED_MAX: u64 = 1_000;
/// A clock that is set back by less does not bring back what ran in that time.
pub const SET_BACK_TOLERATED: Duration = Duration::from_secs(3_600);
/// Less than this is no jump of a clock.
pub const SET_BACK_NOTICED: Duration = Duration::from_secs(1);
/// Bytes of the error of a last run that are remembered.
pub const ERROR_BYTES_KEPT: usize = 1_024;
