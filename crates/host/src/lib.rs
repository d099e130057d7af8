//! The only door to the operating system.
//!
//! A resource never calls `std::fs` or starts a process by itself. It gets a [`Look`], which cannot write, to
//! check with, and a [`Touch`], which can, to apply with: a dry run is a type, not a flag. Commands go
//! through [`Processes`].
//!
//! Three hosts implement the files half: [`real::Real`] is this machine; [`overlay::Overlay`] keeps writes in
//! memory above any other host, which serves a rehearsal (S-30) and the tests alike; [`faulty::Faulty`] makes
//! one chosen call fail.

mod accounts;
mod atomic;
pub mod digest;
pub mod fault;
pub mod faulty;
pub mod files;
mod missing;
mod noting;
pub mod overlay;
pub mod process;
pub mod real;

pub use fault::{Fault, FaultKind};
pub use files::{Group, Look, Meta, NewFile, Owner, Sort, Touch, User};
pub use missing::Missing;
pub use noting::Noting;
pub use process::{Captured, Exit, Later, Launch, Live, Processes, Program};
