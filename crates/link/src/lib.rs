//! Typed messages over the bus: sealed on the way out, opened and checked on the way in.
//!
//! A [`Link`] is one connection with everything that sealing needs: a clock, dice and a signer. Whoever holds one speaks in
//! the nouns of `zester-wire` (subjects, keys, messages) and never sees bytes. What cannot be read, is too large, or claims
//! another sender than its subject is dropped here, counted by reason in [`Dropped`], and told once per source.
//!
//! What is deliberately not here: any decision. Masters, peels and clients share this crate so that the rules of the envelope
//! (I-8) stand in one place.

mod clock;
mod dropped;
mod error;
mod incoming;
mod jobs;
mod link;
mod newest;
mod pages;
mod records;
mod roster;
mod sources;
mod strangers;

pub use clock::{Clock, Dice, OsDice, SteadyClock, SystemClock};
pub use dropped::{Dropped, Reason};
pub use error::Error;
pub use incoming::{Came, Opened};
pub use link::Link;
pub use records::{Found, Standing};
