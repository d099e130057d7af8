//! What may be done, and who says so. No IO, no clock: files come in as nodes, the time as a value, and every refusal names the line
//! that decided.
//!
//! Two documents decide, and neither can widen the other. A [`LocalPolicy`] is of one machine, and no master can override it. [`Rights`]
//! are of the operators of a fleet: they stand in the signed roster, and masters and peels read them alike (I-14). [`covers`]
//! says whether an operator's own request stands behind what a master asks of a peel (I-8, J-24).

mod call;
mod covers;
pub mod limits;
mod local;
mod other_names;
mod read_local;
mod read_roles;
mod rights;
mod window;
mod words;

pub use call::Call;
pub use covers::{Uncovered, covers};
pub use local::{Asker, Judged, LocalPolicy, OperatorsWanted, Refused};
pub use other_names::kind_of;
pub use read_local::read as read_local;
pub use read_roles::read as read_roles;
pub use rights::{Rights, RoleVerdict, VERBS, Wanted};
pub use window::Window;
