//! How a new machine becomes a peel (I-4): what it asks at the door, what it is told there, and what masters keep of it.

use crate::codec::{Message, Serial};
use crate::job::{is_false, is_zero};
use crate::name::{PeelId, Token};
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// One name and who has it: there is one record a name, whoever asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Enrollment {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// Of this key under this name: `<16 hex digits>-<peel>`. Another key has another one.
    pub id: Token,
    pub peel: PeelId,
    /// Its public nkey. The key is who it is; the name is a label.
    pub key: String,
    pub status: EnrollmentStatus,
    /// Where the request came from.
    #[serde(default)]
    pub address: String,
    #[serde(default)]
    pub requested: UnixMillis,
    /// When the status became what it is.
    #[serde(default)]
    pub changed: UnixMillis,
    /// Who decided: the name of an operator, `reactor`, `token`.
    #[serde(default)]
    pub by: String,
    #[serde(default)]
    pub reason: String,
    /// The join token that it brought along, by its id and what people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenName>,
    /// When the credentials end that it was given last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixMillis>,
    /// Keys that had this name before: nothing that they say counts any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former: Vec<FormerKey>,
    /// Grows with every write: one that is brought back is told from the newest (I-12). Zero: an older release.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub serial: u64,
    /// Keys of newer releases, as in a job: masters of two releases write one record by turns.
    #[serde(flatten)]
    pub rest: BTreeMap<String, rmpv::Value>,
}

impl Message for Enrollment {
    const NAME: &'static str = "enrollment";

    fn serial(&self) -> Option<Serial> {
        (self.serial > 0).then(|| Serial::of([self.serial, 0, 0, 0]))
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrollmentStatus {
    /// It waits for somebody's word.
    Pending,
    /// It may have credentials, and has none yet.
    Approved,
    /// It was given credentials.
    Issued,
    /// It was seen on the bus with them.
    Active,
    Rejected,
    Revoked,
    #[serde(other)]
    Unknown,
}

impl EnrollmentStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            EnrollmentStatus::Pending => "pending",
            EnrollmentStatus::Approved => "approved",
            EnrollmentStatus::Issued => "issued",
            EnrollmentStatus::Active => "active",
            EnrollmentStatus::Rejected => "rejected",
            EnrollmentStatus::Revoked => "revoked",
            EnrollmentStatus::Unknown => "newer",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerKey {
    pub key: String,
    /// When another key got the name.
    pub at: UnixMillis,
    /// When its credentials end by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixMillis>,
    /// The machine that had it replaced it by itself: what it signed counts until then. None: nothing that it said counts any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_until: Option<UnixMillis>,
}

/// A join token without what is secret of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenName {
    pub id: Token,
    #[serde(default)]
    pub label: String,
}

/// What masters keep of a join token: its digest, never the word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// SHA-256 of the word.
    #[serde(with = "serde_bytes")]
    pub digest: Vec<u8>,
    /// A name, or a glob over names.
    pub names: String,
    /// The only address that it may come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    pub until: UnixMillis,
    /// What people, and rules, call it.
    #[serde(default)]
    pub label: String,
    /// It vouches and does not approve: a rule or an operator still has the word.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hold: bool,
    /// Who made it.
    #[serde(default)]
    pub by: String,
    #[serde(default)]
    pub made: UnixMillis,
    /// The key that came in with it, and under which name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<TokenUse>,
}

impl Message for JoinToken {
    const NAME: &'static str = "join token";

    /// It is used once, and never not used again.
    fn serial(&self) -> Option<Serial> {
        Some(Serial::of([self.made.0, u64::from(self.used.is_some()), 0, 0]))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUse {
    pub key: String,
    pub peel: PeelId,
    pub at: UnixMillis,
}

/// What the door gives to whoever asks: something to sign.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollNonce {
    #[serde(default = "crate::version")]
    pub v: u32,
    #[serde(with = "serde_bytes")]
    pub nonce: Vec<u8>,
}

impl Message for EnrollNonce {
    const NAME: &'static str = "nonce";
}

/// What a machine says at the door: to get in, to hear what became of that, and to renew its credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollRequest {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub peel: PeelId,
    /// The public half of the key that it made itself.
    pub key: String,
    #[serde(with = "serde_bytes")]
    pub nonce: Vec<u8>,
    /// Its signature of the nonce, for this name.
    #[serde(with = "serde_bytes")]
    pub proof: Vec<u8>,
    /// The word of a join token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The key that this one is to replace, which this machine has too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ReplacedKey>,
}

/// A key that its machine gives up for another, and its word for that (I-15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacedKey {
    pub key: String,
    /// Its signature of the nonce, for this name and the new key.
    #[serde(with = "serde_bytes")]
    pub proof: Vec<u8>,
}

impl Message for EnrollRequest {
    const NAME: &'static str = "enrollment request";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollAnswer {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub outcome: EnrollOutcome,
    /// Of the record; for people to compare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Token>,
    /// In a sentence.
    #[serde(default)]
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Box<EnrollGrant>>,
}

impl EnrollAnswer {
    pub fn new(outcome: EnrollOutcome, message: impl Into<String>) -> EnrollAnswer {
        EnrollAnswer { v: crate::VERSION, outcome, id: None, message: message.into(), grant: None }
    }
}

impl Message for EnrollAnswer {
    const NAME: &'static str = "enrollment answer";
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrollOutcome {
    /// Somebody has to decide; ask again.
    Pending,
    Granted,
    Rejected,
    Revoked,
    /// It cannot be: the name is another's, the token is no good, the proof does not hold.
    Refused,
    /// Not now; ask again.
    Later,
    #[serde(other)]
    Unknown,
}

/// Credentials without anything secret in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollGrant {
    /// As a credentials file has them: JWT, anchor, roster, certificate. No seed.
    pub credentials: String,
    /// Where the bus is.
    pub nats: String,
    /// The CA of the bus as PEM; empty where it speaks no TLS.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ca: String,
    /// When the credentials end.
    pub until: UnixMillis,
    /// How long they count from now: a machine whose clock is wrong knows when to renew them all the same.
    #[serde(default, with = "crate::time::millis")]
    pub life: Duration,
}

/// What an operator wants done about enrollments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum EnrollOrder {
    /// About one record, by its id: the one that the operator saw, not whoever has the name by now.
    Decide {
        id: Token,
        decision: EnrollDecision,
        #[serde(default)]
        reason: String,
    },
    Token(NewToken),
    DropToken {
        id: Token,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnrollDecision {
    Approve,
    Reject,
    Revoke,
    #[serde(other)]
    Unknown,
}

impl EnrollDecision {
    pub fn as_str(self) -> &'static str {
        match self {
            EnrollDecision::Approve => "approve",
            EnrollDecision::Reject => "reject",
            EnrollDecision::Revoke => "revoke",
            EnrollDecision::Unknown => "decide",
        }
    }
}

/// A join token to be. Whoever asks for it made the word and keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewToken {
    #[serde(with = "serde_bytes")]
    pub digest: Vec<u8>,
    pub names: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    #[serde(with = "crate::time::millis")]
    pub life: Duration,
    #[serde(default)]
    pub label: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub hold: bool,
}
