//! What tests stand on: a private `nats-server`, a cluster of three, and waiting with a deadline. Only ever a dev-dependency.
//!
//! A fixture that cannot be set up ends the test that asked for it, so this crate may panic. A missing `nats-server` fails
//! its tests too: `scripts/setup` installs it, and `ZESTER_NATS_SERVER` names another binary. What only some machines can
//! show (another user, a real package manager) is skipped by name: [`skip!`].
#![allow(clippy::panic, clippy::print_stderr)]

mod binary;
mod cluster;
mod node;
mod port;
mod server;
mod skip;
mod wait;

pub use cluster::Cluster;
pub use server::Server;
pub use skip::record_skip;
pub use wait::{wait_for, wait_until};
