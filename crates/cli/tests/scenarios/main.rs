//! Whole fleets of the real binary on a real server, and what happens to them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

mod adversary;
mod audit;
mod away;
mod beacons;
mod cluster;
mod daemon;
mod enrollment;
mod events;
mod failover;
mod fleet;
mod forgeries;
mod garbage;
mod no_store;
mod peel_restart;
mod policy;
mod proxy;
mod publishing;
mod reactor_examples;
mod reactor_kills;
mod reactor_unread;
mod remade;
mod revoker;
mod roles;
mod rotation;
mod schedule;
mod secrets;
mod secure;
mod self_heal;
mod server_restart;
mod settings;
mod shell;
mod startup;
mod stores;
