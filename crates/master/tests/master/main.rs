//! Masters on a memory bus, and on a real server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod again;
mod chaos;
mod command_bytes;
mod enroll;
mod enroll_anew;
mod events;
mod failover;
mod fleet;
mod forget;
mod index;
mod jobs;
mod large;
mod late;
mod limits;
mod loss;
mod operators;
mod prudence;
mod publishing;
mod publishing_restless;
mod publishing_tops;
mod reactor;
mod reactor_claims;
mod reactor_guards;
mod reactor_rules;
mod reactor_slow;
mod reactor_start;
mod reactor_strangers;
mod reactor_stuck;
mod reactor_unread;
mod returns;
mod servers;
mod shares;
mod signed;
mod stores;
