//! The only door to the operating system.
//!
//! A resource never calls `std::fs` or starts a process by itself. It gets a [`HostRead`], which cannot write, to
//! check with, and a [`HostWrite`], which can, to apply with: a dry run is a type, not a flag. Commands go
//! through [`Processes`], the questions of a check through [`Query`], which can start nothing else.
//!
//! Four hosts implement the files half: [`real::Real`] is this machine; [`overlay::Overlay`] keeps writes in
//! memory above any other host, which serves a rehearsal (S-30) and the tests alike; [`faulty::Faulty`] makes
//! one chosen call fail; [`Noting`] remembers whether anything was changed through it.

mod accounts;
mod anchor;
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
mod xattrs;

pub use fault::{Fault, FaultKind};
pub use files::{Act, Body, Former, Group, HostRead, HostWrite, Meta, NewFile, Owner, Sort, Special, User};
pub use missing::Missing;
pub use noting::Noting;
pub use process::{BoxFuture, Captured, Exit, Launch, OutputSink, Processes, Program, Query, Question};
pub use xattrs::{Lost, Xattrs};
