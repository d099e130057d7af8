//! Every bound of the reactor, by name.

use std::time::Duration;

/// Sources whose rate is remembered. One that is forgotten begins with a full burst.
pub const SOURCES_MAX: usize = 65_536;
/// Pairs of rule and source whose last fire is remembered.
pub const THROTTLED_MAX: usize = 65_536;
/// Rules of one set.
pub const RULES_MAX: usize = 10_000;
/// Rules of which fires are remembered: those of the set that counts, and of the one before.
pub const BREAKERS_MAX: usize = 2 * RULES_MAX;
/// The most fires a minute that a breaker can be told to allow.
pub const STORM_RATE_MAX: u32 = 100_000;
/// Bytes of one glob.
pub const GLOB_BYTES_MAX: usize = 512;
/// Bytes of one reference to a reaction file.
pub const REFERENCE_BYTES_MAX: usize = 256;
/// Blocks of one rendered reaction file.
pub const BLOCKS_MAX: usize = 100;
/// Bytes of the id of a block.
pub const BLOCK_ID_BYTES_MAX: usize = 256;
/// Bytes of what a `log` action writes.
pub const LOG_BYTES_MAX: usize = 4_096;
/// Bytes of a reason that the ledger keeps.
pub const REASON_BYTES_MAX: usize = 1_024;
/// Bytes of an event id that are kept and shown.
pub const EVENT_ID_BYTES_MAX: usize = 256;
/// Problems that one load reports.
pub const PROBLEMS_MAX: usize = 100;

/// The minute in which a breaker counts fires.
pub const STORM_WINDOW: Duration = Duration::from_secs(60);
/// How far ahead of us the clock of a signer may be.
pub const SIGNED_AHEAD_MAX: Duration = Duration::from_secs(300);
/// After so long an event whose effects failed for the moment comes again.
pub const AGAIN_AFTER: Duration = Duration::from_secs(10);
/// From the last but one of these deliveries on an event is not handed back: whoever has it keeps it alive and tries it where
/// it is. The server gives it for as long as it takes, because a master may die on any delivery.
pub const DELIVERIES_HANDED: u64 = 5;
/// An event that was given so often took whoever worked on it with it, each time. It is told as exhausted, and not tried again.
pub const DELIVERIES_MAX: u64 = 100;
/// How often an event that must not come again is tried where it is, so long apart: for ten minutes, and longer by what
/// the tries themselves take.
pub const TRIES_IN_PLACE: u32 = 60;
/// Entries that the ledger gets of one source and drop reason in one second; the rest is counted.
pub const DROPS_WRITTEN_PER_SECOND: u32 = 10;
/// Pairs of source and reason whose drops are counted apart.
pub const DROP_SAMPLES_MAX: usize = 4_096;
/// Events that wait for another try and are remembered with the rules that failed.
pub const STUCK_MAX: usize = 1_024;
