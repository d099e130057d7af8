//! What an operator asks of the reactor: a test of the rules, and a list of them with their guards.

use crate::codec::Message;
use crate::refusal::Refusal;
use crate::time::{UnixMillis, millis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;

/// `zester.reactor.test`: what would become of such an event. Nothing is executed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReactorTestRequest {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// `<origin>/<tag>`.
    pub key: String,
    #[serde(default)]
    pub data: Map<String, Value>,
}

impl Message for ReactorTestRequest {
    const NAME: &'static str = "reactor test request";
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReactorTestReply {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// Of the rules that were asked.
    #[serde(default)]
    pub revision: u64,
    #[serde(default)]
    pub master: String,
    /// Those that match, in the order of the file.
    #[serde(default)]
    pub rules: Vec<TestedRule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

impl Message for ReactorTestReply {
    const NAME: &'static str = "reactor test reply";
}

/// One rule that matches, and what it renders to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestedRule {
    pub rule: String,
    #[serde(default)]
    pub glob: String,
    #[serde(default)]
    pub blocks: Vec<TestedBlock>,
    /// What is wrong, in words with places. Then nothing of the rule would run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TestedBlock {
    pub block: String,
    /// The word of the action, as `dispatch.module`.
    pub action: String,
    /// The action after rendering.
    #[serde(default)]
    pub rendered: Map<String, Value>,
    /// Peels that it would reach now; none where it reaches none by its nature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<u64>,
}

/// One rule and its guards at the master that answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleStatus {
    pub rule: String,
    #[serde(default)]
    pub glob: String,
    #[serde(default)]
    pub file: String,
    /// Zero: not throttled.
    #[serde(default, with = "millis")]
    pub throttle: Duration,
    /// Fires of the last minute.
    #[serde(default)]
    pub fires: u64,
    /// Until when its breaker is open; zero where it is closed.
    #[serde(default)]
    pub open_until: UnixMillis,
}

/// The rules that a master reacts by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleList {
    #[serde(default)]
    pub revision: u64,
    #[serde(default)]
    pub master: String,
    #[serde(default)]
    pub rules: Vec<RuleStatus>,
    /// How many more there are than are listed.
    #[serde(default)]
    pub more: u64,
    /// Why a newer revision is not in use; empty where the newest is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}
