//! Events that left the stream before anybody was given them. The stream is bounded and drops its oldest: a flood, or masters that
//! were all away, can push out what no rule has met. The server goes on with what is left and says nothing; the numbers of its
//! deliveries say it.

use crate::gates::{DropReason, Dropped};

/// How far the reader of events is, as one master knows it.
///
/// Nothing is ever told that was not so. Each event is one delivery at least, so what the stream went on by more than the
/// deliveries was skipped. What was given again to other masters hides as many, until the reader says where it is.
#[derive(Debug, Default)]
pub struct Unread {
    last: Option<Last>,
}

#[derive(Copy, Clone, Debug)]
struct Last {
    /// Which reader: when it was made.
    reader: u64,
    /// Deliveries of the reader so far, to all masters.
    given: u64,
    /// The newest event that is known to have been given.
    sequence: u64,
    /// Deliveries before that no event up to it needed. They may have been of newer ones: nats-server 2.9 now and then calls one
    /// that comes again the first.
    spare: u64,
}

/// Events that nobody was given.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub reader: u64,
    /// They came behind this one, and before the other.
    pub after: u64,
    pub before: u64,
    pub count: u64,
}

impl Unread {
    /// The reader says where it is. What was lost up to there is not told here, but at the next delivery.
    pub fn look(&mut self, reader: u64, given: u64, sequence: u64) {
        let exact = Last { reader, given, sequence, spare: 0 };
        let Some(last) = self.last.filter(|last| last.reader == reader) else {
            self.last = Some(exact);
            return;
        };
        // An old answer says nothing, and one that shows a loss must not hide it.
        if given >= last.given && sequence.saturating_sub(last.sequence) < given - last.given + last.spare {
            self.last = Some(exact);
        }
    }

    /// An event was given here for the first time, by this delivery of the reader: tells of those before it that were given to
    /// nobody. Whoever was not told where the reader is knows nothing.
    pub fn given(&mut self, given: u64, sequence: u64) -> Option<Lost> {
        let last = self.last?;
        if given <= last.given {
            // It was on its way when the reader said where it is; or the reader was made anew, and must be asked.
            self.last = self.last.filter(|last| sequence <= last.sequence);
            return None;
        }
        if sequence <= last.sequence {
            self.given_again(given);
            return None;
        }
        let (events, deliveries) = (sequence - last.sequence, given - last.given + last.spare);
        self.last = Some(Last { given, sequence, spare: deliveries.saturating_sub(events), ..last });
        let count = events.checked_sub(deliveries).filter(|count| *count > 0)?;
        Some(Lost { reader: last.reader, after: last.sequence, before: sequence, count })
    }

    /// One came again, by this delivery: no step in the stream. Which is the newest that others were given, it does not say.
    pub fn given_again(&mut self, given: u64) {
        if let Some(last) = self.last.as_mut().filter(|last| given > last.given) {
            last.given += 1;
        }
    }
}

impl Dropped {
    /// An event before this one of the stream, of which nothing else is known. The id that it is told under is that of all that this
    /// reader was not given: each line of the ledger then finds the one before it.
    pub fn unread(reader: u64, before: u64) -> Dropped {
        Dropped {
            reason: DropReason::Unread,
            why: format!("it left the stream before any master took it; the next is number {before}"),
            origin: None,
            tag: None,
            id: format!("unread-{reader}"),
            depth: 0,
            sequence: before,
        }
    }
}
