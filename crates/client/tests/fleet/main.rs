//! The client against a bus in memory and masters and peels made by hand, on paused time.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod direct;
mod dispatch;
mod events;
mod follow;
mod large;
mod records;
mod servers;
mod world;
