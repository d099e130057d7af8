//! The binary on a fleet, from outside: `zester up`, and what a user types beside it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod answers;
mod batches;
mod down;
mod forget;
mod kill;
mod missing;
mod past_masters;
mod target;
mod turns;
mod up;
mod words;
