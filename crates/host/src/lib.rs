//! The only door to the operating system.
//!
//! A resource never calls `std::fs` or starts a process by itself. It gets a [`HostRead`], which cannot write, to
//! check with, and a [`HostWrite`], which can, to apply with: a dry run is a type, not a flag. Commands go
//! through [`Processes`], the questions of a check through [`Query`], which can start nothing else.
//!
//! Four hosts implement the files half: [`real::Real`] is this machine; [`overlay::Overlay`] keeps writes in
//! memory above any other host, which serves a dry run (S-30) and the tests alike; [`faulty::Faulty`] makes
//! one chosen call fail; [`ChangeTracker`] remembers whether anything was changed through it.

mod accounts;
mod atomic;
pub mod blocking;
mod change_tracker;
pub mod digest;
pub mod download;
mod durable;
pub mod fault;
pub mod faulty;
pub mod files;
mod group_sync;
pub mod heap;
mod miss_tracker;
mod no_follow;
pub mod overlay;
pub mod process;
pub mod program_text;
pub mod real;
mod seen;
pub mod services;
mod temp_name;
mod xattrs;

pub use change_tracker::ChangeTracker;
pub use download::Download;
pub use fault::{Fault, FaultKind};
pub use files::{
    Act, BeforeImage, Body, FileKind, Group, HostRead, HostWrite, Meta, Names, NewFile, Owner, Seen, Special,
    User,
};
pub use group_sync::{GroupSync, Visit};
pub use miss_tracker::MissTracker;
pub use process::{BoxFuture, Captured, Exit, Launch, OutputSink, Processes, Program, Query, Question};
pub use temp_name::Reserved;
pub use xattrs::{Lost, Xattrs};
