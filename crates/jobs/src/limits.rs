//! The bounds of the machines.

/// Mutating executions that wait on one peel (J-15).
pub const QUEUE_MAX: usize = 64;
/// Read-only executions that run at once on one peel.
pub const BESIDE_MAX: usize = 64;
/// Returns that wait on one peel for a master; beyond it the peel takes nothing new, so that none is ever dropped.
pub const OUTBOX_MAX: usize = 4_096;
/// Dispatches one peel remembers.
pub const LEDGER_MAX: usize = 100_000;
/// Refusals that one peel repeats for copies of a request; beyond it the oldest are forgotten.
pub const REFUSALS_MAX: usize = 4_096;
