//! Events that left the stream before anybody was given them. The stream is bounded and drops its oldest: a flood, or masters that
//! were all away, can push out what no rule has met. The server goes on with what is left and says nothing; the numbers of its
//! deliveries say it.

use crate::gates::{DropReason, Dropped};

/// How far the reader of events is, as one master knows it.
#[derive(Debug, Default)]
pub struct Unread {
    last: Option<Last>,
}

#[derive(Copy, Clone, Debug)]
struct Last {
    /// Deliveries of the reader so far, to all masters.
    given: u64,
    /// The newest event that was given for the first time.
    sequence: u64,
}

impl Unread {
    /// Where the reader is when this master begins.
    pub fn begin(&mut self, given: u64, sequence: u64) {
        self.last = Some(Last { given, sequence });
    }

    /// Where the reader is when this master could not ask it for a while. One that was made anew counts from one again: what it is
    /// ahead of the one before says nothing.
    pub fn resume(&mut self, given: u64, sequence: u64) {
        if self.last.is_none_or(|last| given < last.given) {
            self.begin(given, sequence);
        }
    }

    /// An event was given here for the first time, by this delivery of the reader. How many before it were given to nobody: each
    /// event is one delivery at least, so what the stream went on by more than the deliveries was skipped. What was given again
    /// to other masters meanwhile hides as many; nothing is ever told that was not so.
    pub fn given(&mut self, given: u64, sequence: u64) -> u64 {
        // A reader, or a stream, that was made anew counts from one again.
        let Some(last) = self.last.filter(|last| given > last.given) else {
            self.begin(given, sequence);
            return 0;
        };
        // nats-server 2.9 now and then calls one that comes again the first.
        if sequence <= last.sequence {
            self.given_again(given);
            return 0;
        }
        self.begin(given, sequence);
        let (events, deliveries) = (sequence - last.sequence, given - last.given);
        events.saturating_sub(deliveries)
    }

    /// One came again, by this delivery: no step in the stream. Which is the newest that others were given, it does not say.
    pub fn given_again(&mut self, given: u64) {
        if let Some(last) = self.last.as_mut().filter(|last| given > last.given) {
            last.given += 1;
        }
    }
}

impl Dropped {
    /// An event before this one of the stream, of which nothing else is known.
    pub fn unread(before: u64) -> Dropped {
        Dropped {
            reason: DropReason::Unread,
            why: format!("it left the stream before any master took it; the next is number {before}"),
            origin: None,
            tag: None,
            id: String::new(),
            depth: 0,
            sequence: before,
        }
    }
}
