//! `zester.ledger.<origin>.<token>`: what the reactor decided about an event, and why.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::name::{BadName, Jid, Token};
use crate::subject::Subject;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The origin of what has none that can be read.
pub const NO_ORIGIN: &str = "_unknown";
/// Bytes of the hash of an event id that a subject names.
const TOKEN_BYTES: usize = 8;

/// One decision. An event has one for each drop, or one for each block of each rule that matched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LedgerEntry {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub at: UnixMillis,
    /// Who sent the event, by its subject.
    #[serde(default)]
    pub origin: String,
    #[serde(default)]
    pub tag: String,
    #[serde(default)]
    pub event_id: String,
    /// Of the event in its stream.
    #[serde(default)]
    pub sequence: u64,
    #[serde(default)]
    pub depth: u32,
    /// The reference as the rules write it; empty where the event met no rule.
    #[serde(default)]
    pub rule: String,
    #[serde(default)]
    pub block: String,
    /// One word: why the event was dropped, or what became of the block.
    pub decision: String,
    #[serde(default)]
    pub reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jid: Option<Jid>,
    /// The id of the event that was sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event_sent: String,
    #[serde(default)]
    pub master: String,
    /// How many more of the same source and reason were not written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unwritten: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LedgerEntry {
    /// Where it is written.
    pub fn subject(&self) -> Result<Subject, BadName> {
        Ok(Subject::Ledger { origin: Token::parse(&self.origin)?, token: token_of(&self.event_id)? })
    }
}

/// What a subject calls an event, whose id may be any text: the first 16 hexadecimal digits of its SHA-256.
pub fn token_of(event_id: &str) -> Result<Token, BadName> {
    let digest = Sha256::digest(event_id.as_bytes());
    let text: String = digest.iter().take(TOKEN_BYTES).map(|byte| format!("{byte:02x}")).collect();
    Token::parse(&text)
}

impl Message for LedgerEntry {
    const NAME: &'static str = "ledger entry";
}

impl Addressed for LedgerEntry {
    fn fits(&self, subject: &Subject) -> bool {
        self.subject().is_ok_and(|own| own == *subject)
    }
}
