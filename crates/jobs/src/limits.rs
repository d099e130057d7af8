//! The bounds of the machines.

use std::time::Duration;

/// Mutating executions that wait on one peel (J-15).
pub const QUEUE_MAX: usize = 64;
/// Read-only executions that run at once on one peel. Many operators may ask at the same moment (J-30), and each answer is
/// quick.
pub const BESIDE_MAX: usize = 1_024;
/// Returns that wait on one peel for a master; beyond it the peel takes nothing new, so that none is ever dropped.
pub const OUTBOX_MAX: usize = 4_096;
/// Results of its schedule that wait on one peel for a server; beyond it the oldest are dropped, and that is told. They leave
/// room for the returns of jobs.
pub const SCHEDULED_OUTBOX_MAX: usize = 1_024;
/// Dispatches one peel remembers.
pub const LEDGER_MAX: usize = 100_000;
/// Refusals that one peel repeats for copies of a request; beyond it the oldest are forgotten.
pub const REFUSALS_MAX: usize = 4_096;

/// Requests that one master refused for good and whose clients may still wait; one more is asked to come again.
pub const REFUSED_MAX: usize = 16_384;

/// So long after it was asked for a job of a reaction may still begin, however short its own time: as old as events may be, unless
/// somebody configured it otherwise.
pub const REACTION_BEGINS_WITHIN: Duration = Duration::from_secs(3_600);
/// So long after it was claimed a job may be told as dispatched: less than the stream remembers the id of an event.
pub const DISPATCHED_TOLD: Duration = Duration::from_secs(60);

/// Heartbeats that all idle peels of a fleet together send in a second (J-26). A fleet of 5,000 beats every ten seconds; a larger one
/// more seldom.
pub const HEARTBEATS_PER_SECOND: u64 = 500;
/// How long a peel beats as seldom as it was told. A fleet that lost its masters, or most of its peels, is soon as configured.
pub const PACE_LASTS: Duration = Duration::from_secs(15 * 60);

/// From here on `readyz` says how full a store is (J-23).
pub const STORE_NEARLY_FULL_PERCENT: u64 = 85;
/// From here on no job is claimed: what is left is for the ends of those that run.
pub const STORE_FULL_PERCENT: u64 = 95;
/// Longer than a cluster takes to elect a leader: 5 to 9 s were measured.
pub const ELECTION_MAX: Duration = Duration::from_secs(10);
/// Old records are removed from here on …
pub const PRUNE_ABOVE_PERCENT: u64 = 80;
/// … until the store is as full as this.
pub const PRUNE_TO_PERCENT: u64 = 70;
/// A job that ended so short ago is not removed: somebody may still read how it ended.
pub const PRUNE_MIN_AGE: Duration = Duration::from_secs(30);
/// How much of the name of whoever canceled a job its record repeats.
pub const CANCELED_BY_MAX: usize = 256;
