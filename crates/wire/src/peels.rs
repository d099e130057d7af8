//! `zester.peel.list`: which peels there are and how they are, as a master knows them, page by page.

use crate::codec::Message;
use crate::job::is_false;
use crate::name::PeelId;
use crate::refusal::Refusal;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeelsRequest {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub target_expr: String,
    /// Only those that come after this one, by name: the last of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PeelId>,
}

impl Message for PeelsRequest {
    const NAME: &'static str = "request for peels";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeelsReply {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// Sorted by name.
    #[serde(default)]
    pub peels: Vec<PeelStatus>,
    /// There are more after the last of these.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

impl Message for PeelsReply {
    const NAME: &'static str = "list of peels";
}

/// How one peel is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeelStatus {
    pub peel: PeelId,
    #[serde(default)]
    pub online: bool,
    /// When it was last heard; 0 if that is not known.
    #[serde(default)]
    pub last_seen: UnixMillis,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub os: String,
    /// Executions that run or wait there.
    #[serde(default)]
    pub busy: u32,
    /// Returns that no master has yet.
    #[serde(default)]
    pub outbox: u32,
}
