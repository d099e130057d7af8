//! Who may be a peel (I-4): requests at the door, decisions of operators and rules, and what all masters know of them.
//!
//! `identity::enrollment` decides; this reads records, writes what it says by comparing revisions, and tells. Any master takes
//! decisions. Those that have the key of the issuer, and a door, also take requests and give out credentials.

mod audit;
mod begin;
mod decide;
mod desk;
mod order;
mod react;
mod registry;
mod revoke;
mod standing;

pub use desk::{DoorSetup, NONCE_PATH, REQUEST_PATH};
pub use revoke::Revokes;

pub(crate) use begin::know_who_was_revoked;
pub(crate) use decide::Declined;
pub(crate) use desk::Desk;
pub(crate) use order::handle;
pub(crate) use react::react;
pub(crate) use registry::{Enrollments, Keeper};
pub(crate) use revoke::run as run_revoker;
