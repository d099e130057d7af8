//! The life of a job as pure state machines: messages and time go in, commands come out (J-20).
//!
//! [`Owner`] is one job at the master that owns it, from the claim to the purge of `active.<jid>`, also when it adopts the job
//! of a master that died. [`Peel`] is the other end: what to execute once, in which order, when to abort it, and which
//! returns still wait for a master. Around them stand small functions that decide one thing each: [`status`] how a job
//! ended, [`intake`] what to do with a jid that is there already, [`scan`] whose owner is dead, [`retry`] whom to ask again.
//!
//! The machines speak in the terms of `zester-wire`: a job record, a return, a jid. A second set of the same nouns with
//! conversions between would be more code and one more place to lose a field.
//!
//! What is deliberately not here: a clock, a bus, a disk, a task. Whoever drives a machine carries out its commands in
//! order, reports how they ended, and asks [`Owner::next_wake`] or [`Peel::next_wake`] when to send the next tick.

pub mod command;
pub mod dedup;
pub mod intake;
pub mod limits;
pub mod messages;
mod owner;
pub mod pace;
pub mod peel;
pub mod prune;
pub mod queue;
mod refusals;
mod refused;
pub mod retry;
pub mod scan;
pub mod status;
pub mod stores;
mod targets;
mod timing;

pub use command::{CancelEffect, Command, Event, Failed, History, Illegal, Note, Written};
pub use owner::{End, Owner, Stage, Unadoptable, never_ran};
pub use peel::Peel;
pub use refused::RefusedRequests;
pub use timing::Timing;
