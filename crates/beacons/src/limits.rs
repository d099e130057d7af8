//! The bounds of beacons.

use std::time::Duration;

/// Beacons of one machine.
pub const BEACONS_MAX: usize = 64;
/// Things that one beacon watches: services, mounts, files.
pub const THINGS_MAX: usize = 256;
/// The longest name of a beacon: it is a part of a subject.
pub const NAME_BYTES_MAX: usize = 64;
/// How often a beacon looks at most.
pub const INTERVAL_MIN: Duration = Duration::from_secs(1);
/// The largest file of `/proc`, `/sys` or a certificate that is read.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How much of a log one look reads; of more, the end.
pub const LOG_BYTES_MAX: u64 = 1024 * 1024;
/// A line of a log that is longer is cut.
pub const LINE_BYTES_MAX: usize = 4 * 1024;
/// Matches of one look that are told; the last says how many more there were.
pub const MATCHES_MAX: usize = 20;
/// Entries of the journal that one look reads; of more, the last.
pub const JOURNAL_ENTRIES_MAX: usize = 1_000;
/// Changes of files that one look tells; the last says how many more there were.
pub const CHANGES_MAX: usize = 50;
/// Files below the directories that one beacon watches.
pub const FILES_MAX: usize = 4_096;
/// A pattern of a log that takes more memory is refused.
pub const PATTERN_BYTES_MAX: usize = 1024 * 1024;
