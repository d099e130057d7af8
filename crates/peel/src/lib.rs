//! The agent on a machine: takes jobs, runs each dispatch once, hands the returns over, bus or no bus.
//!
//! [`run`] is one actor around the state machine of `zester_jobs::Peel`. It owns that and carries its commands out; what it
//! needs of the world comes in as three traits: a [`Link`](zester_link::Link) to the bus, a [`Store`] that survives a crash, and
//! [`Work`], which executes. A simulator brings its own.

pub mod beacons;
pub mod events;
pub mod policy;
pub mod published;
mod run;
pub mod schedule;
pub mod store;
pub mod work;

pub use run::judge::kind_of;
pub use run::{Error, OwnWork, Setup, run, run_with};
pub use store::Store;
pub use work::{Outcome, Work};
