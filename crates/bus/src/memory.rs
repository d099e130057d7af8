//! The bus in memory: a [`Net`] is the server, a [`Memory`] one connection to it.
//!
//! Deterministic: time comes from the [`Timer`] that is handed in, chance only from the [`Faults`], and everything that waits
//! waits on one of the two. On a single-threaded runtime the same seed gives the same run.
//!
//! Faults are those of a fleet, seen from its members: a message between two of them may be lost, late or doubled; what is
//! asked of the server may be lost on the way there (nothing happened) or back (it happened, and nobody knows); a client may
//! be cut off, or be silent without anybody knowing; the server may crash, which keeps what is stored and forgets what is
//! under way. What is asked of the server gets there whether or not anybody still waits. A stream may be full, have no
//! leader or be made again; a direct get may be behind, a watch late, a subscription too slow.

mod client;
mod durable;
mod faults;
mod net;
mod state;
mod store;
mod timer;
mod watch;

pub use client::Memory;
pub use faults::{Chaos, Fate, Faults, Leg, Perfect, SERVER, WatchFate};
pub use net::Net;
pub use timer::{ManualClock, Timer, TokioClock};
