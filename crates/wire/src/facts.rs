//! Bucket `facts`: what a peel says of itself, written when it changed (D-7).

use crate::codec::Message;
use crate::name::PeelId;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FactsRecord {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub peel: PeelId,
    #[serde(default)]
    pub ts: UnixMillis,
    /// Of the facts, so that a peel need not send the same again.
    #[serde(default)]
    pub hash: String,
    pub facts: Map<String, Value>,
}

impl Message for FactsRecord {
    const NAME: &'static str = "facts";
}
