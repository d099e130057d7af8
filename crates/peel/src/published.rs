//! Published trees on this machine: kept on disk, brought up to date, and chosen for each execution.

mod cache;
mod choose;
mod follow;
mod freshness;

pub use cache::{DiskCache, Pinned};
pub use choose::{Chosen, NO_STATES, StatesDirs};
pub use follow::follow;
pub use freshness::{Freshness, Learned};
