//! `zester.cmd.<peel>`: what a master tells a peel.

use crate::codec::Message;
use crate::job::is_false;
use crate::name::{Jid, Token};
use crate::target_digest::TargetProof;
use crate::time::millis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// All kinds share one subject, so the word inside tells them apart. A kind that is not known yet is no error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "t", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "few of them exist at a time, and nearly all are the large one")]
pub enum PeelCommand {
    Exec(ExecRequest),
    Cancel(Cancel),
    SharedId(SharedId),
    PublishFacts(PublishFacts),
    Pace(Pace),
    #[serde(other)]
    Unknown,
}

impl Message for PeelCommand {
    const NAME: &'static str = "command";
}

/// Do this. The time it was signed stands in the envelope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecRequest {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub jid: Jid,
    pub function: String,
    #[serde(default)]
    pub args: Map<String, Value>,
    #[serde(default)]
    pub state_id: String,
    /// Which dispatch of the job: a peel executes one at most once (J-7).
    pub dispatch_epoch: u64,
    /// What is left of the time; the peel counts it from receipt on its own clock (J-5).
    #[serde(with = "millis")]
    pub budget: Duration,
    #[serde(default)]
    pub user: String,
    /// Depth in a chain of reactions, stamped on what the peel sends.
    #[serde(default)]
    pub rdepth: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positionals: Vec<Value>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub test: bool,
    /// Sent by an operator, not a master; the return is the reply (J-21).
    #[serde(default, skip_serializing_if = "is_false")]
    pub direct: bool,
    /// The operator's request as it came, envelope and all (I-8).
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "serde_bytes")]
    pub request: Vec<u8>,
    /// That this peel is on the list that the operator's request names a digest of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<TargetProof>,
}

/// Two peels have one id: both heard what is meant for one. The other is that of this boot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedId {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub boot: Token,
}

/// The facts of this peel are not where they should be: a bucket was emptied or made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishFacts {
    #[serde(default = "crate::version")]
    pub v: u32,
}

/// How often to send heartbeats while there is nothing to do: a large fleet shares what one master can hear (J-26).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    #[serde(default = "crate::version")]
    pub v: u32,
    #[serde(with = "millis")]
    pub every: Duration,
    /// After that it is as configured again, unless it was said once more.
    #[serde(with = "millis")]
    pub lasts: Duration,
}

/// Stop that, whether it runs, waits or has not come yet (J-11).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cancel {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub jid: Jid,
    #[serde(default)]
    pub dispatch_epoch: u64,
    /// In words: "cancelled by user".
    #[serde(default)]
    pub reason: String,
}
