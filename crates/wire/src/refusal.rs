//! Why a request was not granted: one shape for every reply.

use serde::{Deserialize, Serialize};
use std::fmt;

/// To branch on.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Another master holds the claim; ask again (J-3).
    ClaimPending,
    /// The jid is taken by another intent.
    Conflict,
    NoTargets,
    BadTarget,
    NoSuchJob,
    /// The job is over; nothing was changed.
    AlreadyOver,
    Denied,
    Invalid,
    /// Storage or bus failed; ask again.
    Unavailable,
    /// A store takes no writes and will not soon: it is full, or has had no leader for longer than an election takes.
    /// Nothing was claimed, and nothing will run (J-28).
    CannotWrite,
    /// It is being done; ask again for its end.
    UnderWay,
    /// The job was claimed, did not run, and never will.
    NeverRan,
    #[serde(other)]
    Unknown,
}

impl RefusalKind {
    /// Whether the same request may succeed a moment later.
    pub fn is_retryable(self) -> bool {
        matches!(self, RefusalKind::ClaimPending | RefusalKind::Unavailable | RefusalKind::UnderWay)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub kind: RefusalKind,
    /// One sentence in lower case.
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl Refusal {
    pub fn new(kind: RefusalKind, message: impl Into<String>) -> Refusal {
        Refusal { kind, message: message.into(), hint: String::new() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
