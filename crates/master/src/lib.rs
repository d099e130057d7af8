//! Dispatches jobs to peels, watches them, finishes them, also those of a master that died.
//!
//! [`run`] is a handful of actors that each own their state: one per job around the machine of `zester_jobs::Owner`, one that
//! keeps the index of peels, one that routes what peels send to the jobs, one that scans for orphans, one that answers
//! operators.

mod core;
mod heartbeat;
pub mod index;
mod job;
pub mod limits;
mod metrics;
mod reaper;
mod router;
mod run;
mod scan;
mod services;
mod start;
mod stores;
mod strays;

pub use index::Index;
pub use run::{Error, NoSettings, SettingsOf, Setup, run};
