//! The reactor's machines by tables, properties and garbage.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod actions;
mod double;
mod entries;
mod fuzzed;
mod gates;
mod guards;
mod loading;
mod reactions;
mod replays;
mod requests;
mod stuck;
mod unread;
