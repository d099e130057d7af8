//! Jobs under way at this master: one task each around the machine of `zester_jobs::Owner`.

mod asker;
mod history;
mod persist;
mod publish;
mod returns;
mod roster;
mod step;
mod targets;
mod task;

pub use asker::Asker;
pub use returns::{mark_late, store_return};
pub use roster::{Handle, Mail, Roster, Start, Unstarted, start};
