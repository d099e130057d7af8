//! Jobs under way at this master: one task each around the machine of `zester_jobs::Owner`.

mod action;
mod ended_jobs;
mod held;
mod history;
mod persist;
mod publish;
mod requester;
mod returns;
mod running_jobs;
mod signs;
mod targets;
mod task;

pub use ended_jobs::EndedJobs;
pub use requester::{Begun, Requester};
pub use returns::{mark_late, store_return};
pub use running_jobs::{Handle, JobMessage, RunningJobs, Start, Unstarted, start};
