//! `zester.audit.<master>.<boot>`: who decided what, when, because of which request (I-6). Each entry names the hash of the one before
//! it, so that none can be changed, moved or taken out without being missed. `zester-identity` hashes and judges.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::name::MasterId;
use crate::subject::Subject;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// Every start of a master is a chain of its own, so that a chain has one writer.
    pub chain: MasterId,
    /// 1 is the first of its chain.
    pub seq: u64,
    /// The hash of the entry before; empty in the first.
    #[serde(default, with = "serde_bytes")]
    pub prev: Vec<u8>,
    /// In the first: where the chain ended that this master wrote before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<AuditHead>,
    pub ts: UnixMillis,
    /// One word: `dispatch`, `kill`, `publish` …
    pub act: String,
    /// Who wanted it: `operator ann`.
    #[serde(default)]
    pub who: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// What it was about: a job and its function, names, a revision.
    #[serde(default)]
    pub about: String,
    /// Why it was refused; empty where it was done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// The id of the message that asked for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// Entries before this one that found no room and are lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub missed: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Message for AuditEntry {
    const NAME: &'static str = "audit entry";
}

impl Addressed for AuditEntry {
    fn fits(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Audit { master } if *master == self.chain)
    }
}

/// How far a chain is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    pub chain: MasterId,
    pub seq: u64,
    #[serde(with = "serde_bytes")]
    pub hash: Vec<u8>,
}
