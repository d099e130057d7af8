//! Jobs under way at this master: one task each around the machine of `zester_jobs::Owner`.

mod asker;
mod history;
mod persist;
mod publish;
mod roster;
mod step;
mod targets;
mod task;

pub use asker::Asker;
pub use roster::{Handle, Mail, Roster, Start, Unstarted, start};
pub use step::store_return;
