//! Schedules as users write them, and what the machine makes of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod clock;
mod machine;
mod properties;
mod read;
mod world;
