//! What tests stand on: a private `nats-server`, a cluster of three, and waiting with a deadline. Only ever a dev-dependency.
//!
//! A fixture that cannot be set up ends the test that asked for it, so this crate may panic. A missing `nats-server` is
//! different: [`Server::or_skip`] says so and the test passes by, because `scripts/setup` is what installs it.
//! `ZESTER_NATS_SERVER` names another binary; one that is named and missing is a failure, not a reason to skip.
#![allow(clippy::panic, clippy::print_stderr)]

mod binary;
mod cluster;
mod node;
mod port;
mod server;
mod wait;

pub use cluster::Cluster;
pub use server::Server;
pub use wait::{wait_for, wait_until};
