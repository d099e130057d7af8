//! The door that new machines come to, both sides of it: HTTPS in TLS 1.3 and nothing else (I-4, I-13).
//!
//! The server takes a body of a few kilobytes for one of a few paths, hands it to [`Answers`] and sends back what that says. It
//! knows nothing of enrollment; it knows how long a stranger may take, how much it may send and how often it may come. The client
//! believes one CA, by the digest that somebody read out to it ([`Pin`]), and no other.

mod client;
pub mod limits;
mod pin;
mod server;

pub use client::{Caller, DoorUrl, Error, Kind};
pub use pin::{BadPin, Pin, is_signed_by};
pub use server::{Answers, Certificates, Door, Reply};
