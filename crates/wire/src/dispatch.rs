//! `zester.dispatch`: a client asks for a job.
//!
//! The request has keys of the job record under the same names, so a whole record reads as a request: what only a master
//! may say (owner, epochs, deadline, status) is not read at all.

use crate::codec::{DecodeError, DecodeKind, EncodeError, Message, decode, encode};
use crate::job::{Job, is_false};
use crate::limits::EXPRESSION_CARRIED_MAX;
use crate::name::{Jid, PeelId};
use crate::refusal::Refusal;
use crate::target_digest::TargetDigest;
use crate::time::{UnixMillis, millis, optional_millis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DispatchRequest {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// Made by the client, so that it may ask again.
    pub jid: Jid,
    pub function: String,
    #[serde(default)]
    pub args: Map<String, Value>,
    #[serde(default)]
    pub state_id: String,
    /// Empty: those that `target_expr` names.
    #[serde(default)]
    pub targets: Vec<PeelId>,
    #[serde(default)]
    pub target_expr: String,
    #[serde(default, with = "millis")]
    pub timeout: Duration,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positionals: Vec<Value>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub test: bool,
    /// How long the client still waits for an answer when it sends this. A master that has not claimed the job by then, on its
    /// own clock from receipt, drops it (J-28). A span, because clocks differ. None: an older client, which says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "optional_millis")]
    pub wait: Option<Duration>,
    /// Of the targets, or of an expression that is long: they travel beside this, to the master only (J-24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_digest: Option<TargetDigest>,
}

/// Whom a request means, where that does not travel on to the peels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Whom {
    #[serde(default)]
    targets: Vec<PeelId>,
    #[serde(default)]
    target_expr: String,
}

impl Message for Whom {
    const NAME: &'static str = "target list";
}

/// The names of a list, and an expression that is long, would cost each of its peels as much as all of them together (J-24). What is
/// signed and sent to the peels names their digest.
impl Message for DispatchRequest {
    const NAME: &'static str = "dispatch request";

    fn detach(&self) -> Result<Option<(DispatchRequest, Vec<u8>)>, EncodeError> {
        let digest = match self.targets.is_empty() {
            false => TargetDigest::of_names(&self.targets),
            true if self.target_expr.len() > EXPRESSION_CARRIED_MAX => {
                TargetDigest::of_expression(&self.target_expr)
            }
            true => return Ok(None),
        };
        let whom = Whom { targets: self.targets.clone(), target_expr: self.target_expr.clone() };
        let (targets, target_expr) = (Vec::new(), String::new());
        let signed = DispatchRequest { targets, target_expr, target_digest: Some(digest), ..self.clone() };
        Ok(Some((signed, encode(&whom)?)))
    }

    fn attach(&mut self, beside: &[u8]) -> Result<(), DecodeError> {
        let whom: Whom = decode(beside)?;
        let digest = match whom.targets.is_empty() {
            false => TargetDigest::of_names(&whom.targets),
            true => TargetDigest::of_expression(&whom.target_expr),
        };
        if self.target_digest.as_ref() != Some(&digest) {
            let (message, field) = (Self::NAME, "target_digest".to_string());
            let why = "the targets are not those that it names a digest of".to_string();
            return Err(DecodeError { kind: DecodeKind::Malformed, message, field, why });
        }
        (self.targets, self.target_expr) = (whom.targets, whom.target_expr);
        Ok(())
    }
}

impl DispatchRequest {
    /// What the record keeps of the expression, for people: the beginning of one that is long.
    pub fn recorded_expr(&self) -> String {
        if self.target_expr.len() <= EXPRESSION_CARRIED_MAX {
            return self.target_expr.clone();
        }
        let end = self.target_expr.floor_char_boundary(EXPRESSION_CARRIED_MAX);
        format!("{}… ({} bytes)", &self.target_expr[..end], self.target_expr.len())
    }

    /// Whether the request as it was signed may go to every peel: it names none of the others.
    pub fn may_be_passed_on(&self) -> bool {
        let short = self.targets.is_empty() && self.target_expr.len() <= EXPRESSION_CARRIED_MAX;
        short || self.target_digest.is_some()
    }

    /// Whether a record came from this very request (J-3). Targets are compared only where the client named them: an
    /// expression may match others a moment later and is the same intent all the same.
    pub fn is_intent_of(&self, job: &Job) -> bool {
        let targets = self.targets.is_empty() || self.targets == job.targets;
        let what = self.function == job.function && self.state_id == job.state_id && self.test == job.test;
        let with = self.args == job.args && self.positionals == job.positionals;
        let whom = targets && self.recorded_expr() == job.target_expr;
        let told = self.timeout == job.timeout && self.user == job.user && self.metadata == job.metadata;
        self.jid == job.jid && what && with && whom && told
    }
}

/// `{jid}` or `{error}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DispatchReply {
    #[serde(default = "crate::version")]
    pub v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jid: Option<Jid>,
    /// Who was asked, so that a client knows whom to wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<PeelId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
    /// Those among the targets that were not there (J-25).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offline: Option<Offline>,
}

/// Targets that were offline when the job was dispatched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offline {
    pub count: u64,
    /// When the first of them was last seen; 0 if that is not known.
    #[serde(default)]
    pub since: UnixMillis,
    /// Some of them, by name.
    #[serde(default)]
    pub some: Vec<PeelId>,
}

impl Message for DispatchReply {
    const NAME: &'static str = "dispatch reply";
}
