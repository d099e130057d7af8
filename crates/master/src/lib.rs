//! Dispatches jobs to peels, watches them, finishes them, also those of a master that died.
//!
//! [`run`] is a handful of actors that each own their state: one per job around the machine of `zester_jobs::Owner`, one that
//! keeps the index of peels, one that routes what peels send to the jobs, one that scans for orphans, one that answers
//! operators.

pub mod audit;
mod catch_up;
mod core;
mod enroll;
mod events;
mod external;
mod heartbeat;
mod held_lease;
pub mod index;
mod job;
mod late_returns;
pub mod limits;
mod metrics;
mod outage;
mod pruner;
mod publisher;
mod reactor;
mod router;
mod run;
mod scan;
mod services;
mod shares;
mod start;
mod stores;

pub use enroll::{DoorSetup, NONCE_PATH, REQUEST_PATH, Revokes};
pub use external::{ExternalSettings, Refreshing};
pub use index::{Index, Resolved};
pub use publisher::{
    Checkout, LintRequest, Linter, NamedTree, NoLint, OriginTree, Publishing, Source, TreeOrigin,
};
pub use reactor::Reacting;
pub use run::{Error, NoSettings, SettingsOf, Setup, run};
