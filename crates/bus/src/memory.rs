//! The bus in memory: a [`Net`] is the server, a [`Memory`] one connection to it.
//!
//! Deterministic: time comes from the [`Clock`] that is handed in, chance only from the [`Faults`], and everything that waits
//! waits on one of the two. On a single-threaded runtime the same seed gives the same run.
//!
//! Faults are those of a fleet, seen from its members: a message between two of them may be lost, late or doubled; what is
//! asked of the server may be lost on the way there (nothing happened) or back (it happened, and nobody knows); a client may
//! be cut off; the server may crash, which keeps what is stored and forgets what is under way.

mod client;
mod clock;
mod faults;
mod net;
mod shelf;

pub use client::Memory;
pub use clock::{Clock, ManualClock, TokioClock};
pub use faults::{Chaos, Fate, Faults, Leg, Perfect, SERVER};
pub use net::Net;
