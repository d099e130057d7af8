//! What an operator asks of a fleet: dispatch, follow, list, cancel.
//!
//! A [`Client`] holds a [`Link`](zester_link::Link) and nothing else. Masters are asked by [`Client::dispatch`],
//! [`Client::resolve`], [`Client::kill`] and [`Client::retry`], again and again with the same ids until one answers or the
//! patience ends. Everything that only reads (jobs, returns, peels) reads the buckets, so it works with every master down, as
//! does [`Client::direct`].
//!
//! What is deliberately not here: printing, words of the command line, exit codes. The simulator and the benchmarks are
//! operators too.

mod ask;
mod audit;
pub mod batch;
mod client;
mod direct;
mod dispatch;
mod enroll;
mod error;
mod events;
mod follow;
mod jobs;
pub mod limits;
mod peels;
mod publish;
mod reaction_tree;
mod reactor;
mod received;
mod schedules;

pub use audit::{AuditLog, AuditRecord};
pub use client::Client;
pub use direct::{Direct, DirectReply, FunctionCall};
pub use dispatch::Dispatched;
pub use enroll::{MadeToken, TokenWish};
pub use error::Error;
pub use events::{EventWatch, SeenEvent, SentEvent};
pub use follow::{Ended, Follow, JobUpdate};
pub use jobs::{Killed, Retried};
pub use peels::{Peel, Peels};
pub use publish::Brought;
pub use reaction_tree::{EventTree, JobTree, ReactionTree};
pub use reactor::LedgerQuery;
pub use received::Returns;
