//! The actor on the memory bus, with work that a test controls.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod beacons;
mod bus;
#[path = "../fixture/mod.rs"]
mod fixture;
mod health;
mod life;
mod once;
mod queue;
mod schedule;
mod startup;
mod world;
