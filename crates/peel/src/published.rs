//! Published trees on this machine: kept on disk, brought up to date, and chosen for each execution.

mod beneath;
mod cache;
mod choose;
mod disk;
mod follow;
mod freshness;

pub use cache::{DiskCache, Pinned};
pub use choose::{Chosen, NO_STATES, StatesDirs};
pub use disk::{DiskEntry, TreeDisk};
pub use follow::follow;
pub use freshness::{Freshness, Learned};
