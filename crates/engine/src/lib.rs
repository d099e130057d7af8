//! The graph of states and the run as a pure state machine.
//!
//! [`Graph`] puts states into levels and finds cycles. [`Run`] decides which state runs, forced or not, or is skipped and
//! why: events in, commands out, with no IO, no clock, no threads. Whoever drives it carries out the commands and
//! reports how they ended, so the same decisions can be tested from tables, from seeds and against a slow reference.
//!
//! What is deliberately not here: parameters, texts of errors, time. The engine knows a state only as a [`NodeId`].

mod adjacency;
mod command;
mod components;
mod cycle;
mod gate;
mod give_way;
mod graph;
mod levels;
mod outcome;
mod revert;
mod run;
mod verdict;
mod waits;

pub use command::{Command, Event, Failed, Force, IllegalTransition};
pub use cycle::Cycle;
pub use graph::{BuildError, Edge, Graph, NodeId, NodeSpec};
pub use outcome::Outcome;
pub use run::Run;
