//! What became of one block of one rule for one event, in one word and a sentence.

use crate::gates::{Dropped, Passed, shortened};
use crate::limits::REASON_BYTES_MAX;
use zester_wire::{Jid, LedgerEntry, UnixMillis, VERSION};

/// The results of R-16, and what the ledger knows beside them.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Decision {
    Dispatched,
    Duplicate,
    Throttled,
    BreakerOpen,
    RenderError,
    ValidateError,
    Aborted,
    Refused,
    NoTargets,
    Error,
    /// An event was sent.
    Sent,
    Logged,
    /// Somebody was let in, sent away or ended.
    Enrolled,
    /// The file rendered to nothing.
    Nothing,
    /// It failed for the moment, again and again, until it was given up.
    Exhausted,
}

impl Decision {
    pub const ALL: [Decision; 15] = [
        Decision::Dispatched,
        Decision::Duplicate,
        Decision::Throttled,
        Decision::BreakerOpen,
        Decision::RenderError,
        Decision::ValidateError,
        Decision::Aborted,
        Decision::Refused,
        Decision::NoTargets,
        Decision::Error,
        Decision::Sent,
        Decision::Logged,
        Decision::Enrolled,
        Decision::Nothing,
        Decision::Exhausted,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Dispatched => "dispatched",
            Decision::Duplicate => "duplicate",
            Decision::Throttled => "throttled",
            Decision::BreakerOpen => "breaker_open",
            Decision::RenderError => "render_error",
            Decision::ValidateError => "validate_error",
            Decision::Aborted => "aborted",
            Decision::Refused => "refused",
            Decision::NoTargets => "no_targets",
            Decision::Error => "error",
            Decision::Sent => "sent",
            Decision::Logged => "logged",
            Decision::Enrolled => "enrolled",
            Decision::Nothing => "nothing",
            Decision::Exhausted => "exhausted",
        }
    }

    /// The label of the metric. What a rule did by itself, a job or not, counts as dispatched; none for what is no reaction.
    pub fn label(self) -> Option<&'static str> {
        match self {
            Decision::Sent | Decision::Logged | Decision::Enrolled => Some(Decision::Dispatched.as_str()),
            Decision::Nothing => None,
            other => Some(other.as_str()),
        }
    }

    /// Whether something was done or tried, now: it counts for the breaker.
    pub fn is_fire(self) -> bool {
        !matches!(self, Decision::Duplicate | Decision::Nothing | Decision::Throttled | Decision::BreakerOpen)
    }
}

/// What was decided about one block, or about a whole rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The reference as the rules write it.
    pub rule: String,
    /// Empty where all of the rule is meant.
    pub block: String,
    pub decision: Decision,
    pub reason: String,
    pub jid: Option<Jid>,
    /// The id of the event that was sent.
    pub event_sent: String,
}

impl Decided {
    pub fn new(rule: &str, block: &str, decision: Decision, reason: impl Into<String>) -> Decided {
        let (rule, block, reason) = (rule.to_string(), block.to_string(), reason.into());
        Decided { rule, block, decision, reason, jid: None, event_sent: String::new() }
    }

    /// As the ledger keeps it.
    pub fn entry(&self, of: &Passed, master: &str, at: UnixMillis) -> LedgerEntry {
        LedgerEntry {
            v: VERSION,
            at,
            origin: of.origin.to_string(),
            tag: of.event.tag.to_string(),
            event_id: shortened(&of.event.id),
            sequence: of.sequence,
            depth: of.event.depth,
            rule: self.rule.clone(),
            block: self.block.clone(),
            decision: self.decision.as_str().to_string(),
            reason: cut(&self.reason),
            jid: self.jid.clone(),
            event_sent: self.event_sent.clone(),
            master: master.to_string(),
            unwritten: 0,
        }
    }
}

impl Dropped {
    /// As the ledger keeps it.
    pub fn entry(&self, master: &str, at: UnixMillis, unwritten: u64) -> LedgerEntry {
        LedgerEntry {
            v: VERSION,
            at,
            origin: self.source(),
            tag: self.tag.as_ref().map_or_else(String::new, ToString::to_string),
            event_id: self.id.clone(),
            sequence: self.sequence,
            depth: self.depth,
            decision: self.reason.as_str().to_string(),
            reason: cut(&self.why),
            master: master.to_string(),
            unwritten,
            ..LedgerEntry::default()
        }
    }
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(REASON_BYTES_MAX)].to_string()
}
