//! What an event passes before any rule is asked, in the order of R-3. Each drop has a reason, and is for good.

use crate::config::Guards;
use crate::limiter::Limiter;
use crate::limits::{DELIVERIES_MAX, EVENT_ID_BYTES_MAX, SIGNED_AHEAD_MAX};
use zester_wire::ledger::NO_ORIGIN;
use zester_wire::{Event, EventSubject, Origin, Subject, Tag, UnixMillis};

/// Why an event was dropped.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DropReason {
    Malformed,
    Decode,
    Spoof,
    Depth,
    Ratelimit,
    Stale,
    /// It left the stream before anybody was given it, and met no gate.
    Unread,
}

impl DropReason {
    pub const ALL: [DropReason; 7] = [
        DropReason::Malformed,
        DropReason::Decode,
        DropReason::Spoof,
        DropReason::Depth,
        DropReason::Ratelimit,
        DropReason::Stale,
        DropReason::Unread,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::Decode => "decode",
            DropReason::Spoof => "spoof",
            DropReason::Depth => "depth",
            DropReason::Ratelimit => "ratelimit",
            DropReason::Stale => "stale",
            DropReason::Unread => "unread",
        }
    }
}

/// A message of the stream as it was given to us.
#[derive(Copy, Clone, Debug)]
pub struct Delivered<'a> {
    pub subject: &'a str,
    pub sequence: u64,
    /// When the stream took it.
    pub stored: UnixMillis,
    /// How often it was given, this time included.
    pub deliveries: u64,
}

/// What opening the envelope came to. How that is done is not known here.
#[derive(Clone, Debug)]
pub enum Payload {
    Read {
        event: Event,
        /// When it was signed, on the clock of its sender.
        signed: UnixMillis,
    },
    /// It is not an event, in these words.
    Unreadable(String),
    /// The signature does not hold.
    Forged(String),
}

/// Where an event stands in its stream. One that is made anew counts from one again, and its times go on: together they name one
/// event, whichever stream it came by.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub sequence: u64,
    /// When the stream took it.
    pub stored: UnixMillis,
}

impl Place {
    /// Whether it came after the other, by either: a stream made anew has smaller numbers, a new leader may have an earlier clock.
    pub fn is_after(self, other: Place) -> bool {
        self.sequence > other.sequence || self.stored > other.stored
    }
}

/// An event that may meet the rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Passed {
    pub event: Event,
    pub origin: Origin,
    /// What globs are matched against.
    pub key: String,
    pub sequence: u64,
    pub deliveries: u64,
    pub stored: UnixMillis,
}

impl Passed {
    pub fn place(&self) -> Place {
        Place { sequence: self.sequence, stored: self.stored }
    }

    /// It was given many times only because it was handed back before anything was tried: that is no reason to give it up untried
    ///
    pub fn having_waited(self) -> Passed {
        Passed { deliveries: self.deliveries.min(DELIVERIES_MAX), ..self }
    }
}

/// An event that was dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropped {
    pub reason: DropReason,
    pub why: String,
    /// None where the subject does not say.
    pub origin: Option<Origin>,
    pub tag: Option<Tag>,
    pub id: String,
    pub depth: u32,
    pub sequence: u64,
}

impl Dropped {
    /// The origin as the ledger writes it.
    pub fn source(&self) -> String {
        self.origin.as_ref().map_or_else(|| NO_ORIGIN.to_string(), Origin::to_string)
    }
}

/// The gates, with what they remember of each source.
pub struct Gates {
    guards: Guards,
    limiter: Limiter,
}

impl Gates {
    pub fn new(guards: Guards) -> Gates {
        Gates { limiter: Limiter::new(&guards), guards }
    }

    pub fn guards(&self) -> &Guards {
        &self.guards
    }

    /// Lets a message through, or says why not. `open` is asked only for what came by a subject of ours.
    pub fn judge(
        &mut self,
        delivered: &Delivered<'_>,
        open: impl FnOnce(&Subject) -> Payload,
        now: UnixMillis,
    ) -> Result<Passed, Box<Dropped>> {
        let mut dropped = Dropped {
            reason: DropReason::Malformed,
            why: String::new(),
            origin: None,
            tag: None,
            id: String::new(),
            depth: 0,
            sequence: delivered.sequence,
        };
        let refuse =
            |dropped: Dropped, reason, why: String| Err(Box::new(Dropped { reason, why, ..dropped }));
        let subject = match Subject::parse(delivered.subject) {
            Ok(subject) => subject,
            Err(bad) => return refuse(dropped, DropReason::Malformed, bad.to_string()),
        };
        let Subject::Event(of_event) = &subject else {
            return refuse(dropped, DropReason::Malformed, "no event has this subject".into());
        };
        let (origin, tag) = (of_event.origin(), of_event.tag());
        dropped.origin = Some(origin.clone());
        dropped.tag = Some(tag.clone());
        let (event, signed) = match open(&subject) {
            Payload::Read { event, signed } => (event, signed),
            Payload::Unreadable(why) => return refuse(dropped, DropReason::Decode, why),
            Payload::Forged(why) => return refuse(dropped, DropReason::Spoof, why),
        };
        dropped.id = shortened(&event.id);
        dropped.depth = event.depth;
        if event.id.is_empty() {
            return refuse(dropped, DropReason::Malformed, "it has no id".into());
        }
        if event.id.len() > EVENT_ID_BYTES_MAX || event.id.chars().any(char::is_control) {
            let why = format!("its id has control characters, or more than {EVENT_ID_BYTES_MAX} bytes");
            return refuse(dropped, DropReason::Malformed, why);
        }
        if signed > now.plus(SIGNED_AHEAD_MAX) {
            let why = format!("it was signed {:?} ahead of our clock", signed.since(now));
            return refuse(dropped, DropReason::Malformed, why);
        }
        if event.tag != tag {
            let why = format!("it says the tag {}, its subject {tag}", event.tag);
            return refuse(dropped, DropReason::Spoof, why);
        }
        if self.guards.is_too_deep(event.depth) {
            let why = format!("depth {} of at most {}", event.depth, self.guards.max_chain_depth);
            return refuse(dropped, DropReason::Depth, why);
        }
        // One that comes again has paid already. What counts is when the stream took it: a backlog that meets a master at once was
        // not sent at once.
        if delivered.deliveries <= 1 && !self.limiter.allows(&origin, delivered.stored) {
            let Guards { source_rate_limit, source_burst, .. } = self.guards;
            let why = format!("more than {source_rate_limit} a minute and {source_burst} at once");
            return refuse(dropped, DropReason::Ratelimit, why);
        }
        let oldest = if signed.is_zero() { delivered.stored } else { delivered.stored.min(signed) };
        let (age, age_max) = (now.since(oldest), self.guards.max_event_age);
        if !age_max.is_zero() && age > age_max {
            let why = format!("{}s old, of at most {}s", age.as_secs(), age_max.as_secs());
            return refuse(dropped, DropReason::Stale, why);
        }
        Ok(Passed {
            key: of_event.match_key(),
            event,
            origin,
            sequence: delivered.sequence,
            deliveries: delivered.deliveries,
            stored: delivered.stored,
        })
    }
}

/// The subject that an event of this match key comes by, where it can come by one: a beacon's tag names its peel.
pub fn subject_of_key(key: &str) -> Option<EventSubject> {
    let (origin, tag) = key.split_once('/')?;
    let tokens = tag.replace('/', ".");
    let beacon = tag.strip_prefix("beacon/").and_then(|rest| rest.strip_prefix(origin)?.strip_prefix('/'));
    let text = match (origin, beacon) {
        ("_master", _) => format!("zester.event._master.{tokens}"),
        ("_admin", _) => format!("zester.event._admin.send.{tokens}"),
        (peel, Some(name)) => format!("zester.event.{peel}.beacon.{name}"),
        (peel, None) => format!("zester.event.{peel}.send.{tokens}"),
    };
    match Subject::parse(&text) {
        Ok(Subject::Event(subject)) => Some(subject),
        _ => None,
    }
}

/// A text of a stranger, cut to what is kept.
pub(crate) fn shortened(text: &str) -> String {
    text[..text.floor_char_boundary(EVENT_ID_BYTES_MAX)].to_string()
}
