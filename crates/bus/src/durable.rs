//! A reader that the server remembers.

use crate::message::Record;
use std::time::Duration;

/// A place in a stream that outlives whoever reads there. All who name the same reader share it: each message goes to one of
/// them, and comes again, to any of them, until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableReader {
    pub stream: String,
    pub name: String,
    /// Which messages, from the oldest that the stream keeps.
    pub pattern: String,
    /// How long whoever took a message may take to acknowledge it.
    pub ack_wait: Duration,
    /// Messages that may be taken and not yet acknowledged, over all who read.
    pub unacked_max: usize,
}

/// A message that was taken. It comes again unless it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub record: Record,
    /// How often it was given, this time included.
    pub deliveries: u64,
    /// What the server knows this delivery by.
    pub(crate) token: String,
}

/// What is to become of a message that was taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// It is done with, and never comes again.
    Done,
    /// It comes again after this time.
    Later(Duration),
}
