//! `zester.dispatch`: a client asks for a job.
//!
//! The request has keys of the job record under the same names, so a whole record reads as a request: what only a master
//! may say (owner, epochs, deadline, status) is not read at all.

use crate::codec::Message;
use crate::job::{Job, is_false};
use crate::name::{Jid, PeelId};
use crate::refusal::Refusal;
use crate::time::{millis, optional_millis};
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
}

impl Message for DispatchRequest {
    const NAME: &'static str = "dispatch request";
}

impl DispatchRequest {
    /// Whether a record came from this very request (J-3). Targets are compared only where the client named them: an
    /// expression may match others a moment later and is the same intent all the same.
    pub fn is_intent_of(&self, job: &Job) -> bool {
        let targets = self.targets.is_empty() || self.targets == job.targets;
        let what = self.function == job.function && self.state_id == job.state_id && self.test == job.test;
        let with = self.args == job.args && self.positionals == job.positionals;
        let whom = targets && self.target_expr == job.target_expr;
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
}

impl Message for DispatchReply {
    const NAME: &'static str = "dispatch reply";
}
