//! Dispatches jobs to peels, watches them, finishes them, also those of a master that died.
//!
//! [`run`] is a handful of actors that each own their state: one per job around the machine of `zester_jobs::Owner`, one that
//! keeps the index of peels, one that scans for orphans, one that answers operators.

mod run;

pub use run::{Error, NoSettings, SettingsOf, Setup, run};
