//! A reader that the server remembers.

use crate::error::{Error, Kind};
use crate::message::{Record, Sequence};
use crate::pattern::{check_name, check_pattern};
use crate::storage::{Drift, Settings, in_words};
use std::time::Duration;

/// A place in a stream that outlives whoever reads there. All who name the same reader share it: each message goes to one of
/// them, and comes again, to any of them, until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurableReader {
    pub stream: String,
    pub name: String,
    /// Which messages.
    pub pattern: String,
    /// Where it begins when it is made.
    pub start: Start,
    /// How long whoever took a message may take to acknowledge it.
    pub ack_wait: Duration,
    /// Messages that may be taken and not yet acknowledged, over all who read.
    pub unacked_max: usize,
    /// How often a message is given at most. After that it never comes again, acknowledged or not; none: it comes until it is.
    pub max_deliver: Option<u64>,
}

/// Where a reader begins. One that exists goes on where it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the oldest message that the stream keeps.
    Oldest,
    /// With what comes after it was made.
    New,
}

/// How a reader gives, in words: what can be changed while it is used.
pub(crate) const ACK_WAIT: &str = "ack wait";
pub(crate) const UNACKED: &str = "unacknowledged messages";
pub(crate) const DELIVERIES: &str = "deliveries";

/// Of these differences those that can be mended.
pub(crate) fn adjustable(drift: Vec<Drift>) -> Vec<Drift> {
    drift.into_iter().filter(|one| [ACK_WAIT, UNACKED, DELIVERIES].contains(&one.setting)).collect()
}

impl DurableReader {
    /// What a drift is told of.
    pub(crate) fn title(&self) -> String {
        format!("reader {} of {}", self.name, self.stream)
    }

    /// Whether the settings make sense. No reader is without a limit.
    pub(crate) fn check(&self) -> Result<(), Error> {
        check_name(&self.stream)?;
        check_name(&self.name)?;
        check_pattern(&self.pattern)?;
        if self.unacked_max == 0 || self.ack_wait.is_zero() || self.max_deliver == Some(0) {
            return Err(Error::new(Kind::Invalid, format!("{}: it would give nothing", self.title())));
        }
        Ok(())
    }

    /// Every setting in words, for comparing.
    pub(crate) fn settings(&self) -> Settings {
        vec![
            ("pattern", self.pattern.clone()),
            ("start", format!("{:?}", self.start)),
            (ACK_WAIT, in_words(Some(self.ack_wait))),
            (UNACKED, self.unacked_max.to_string()),
            (DELIVERIES, in_words(self.max_deliver)),
        ]
    }
}

/// A message that was taken. It comes again unless it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub record: Record,
    /// How often it was given, this time included.
    pub deliveries: u64,
    /// Which delivery this is of all that its reader gave, to whomever.
    pub given: u64,
    /// What the server knows this delivery by.
    pub(crate) token: String,
}

/// What is to become of a message that was taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// It is done with, and never comes again.
    Done,
    /// It comes again after this time, unless that was its last delivery.
    Later(Duration),
    /// It is being worked on: the time to acknowledge it begins anew.
    Progress,
    /// Nothing can be done with it, and it never comes again.
    Never,
}

/// What a reader has before it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Messages that were never given.
    pub waiting: u64,
    /// Messages that were given and not yet acknowledged.
    pub unacked: u64,
    pub reached: Reached,
}

/// How far a durable reader is.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// When the reader was made, in milliseconds: one of the same name that was made anew is another, and counts from one again.
    pub made: u64,
    /// Deliveries so far, to all who read, those of what came again included.
    pub given: u64,
    /// The last message that was given for the first time, or that came before the reader was made.
    pub sequence: Sequence,
}

impl Pending {
    pub fn total(self) -> u64 {
        self.waiting + self.unacked
    }
}
