//! `zester.target.resolve`: which peels an expression names.

use crate::codec::Message;
use crate::job::is_false;
use crate::name::PeelId;
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolveRequest {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub target_expr: String,
}

impl Message for ResolveRequest {
    const NAME: &'static str = "target request";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolveReply {
    #[serde(default = "crate::version")]
    pub v: u32,
    #[serde(default)]
    pub peels: Vec<PeelId>,
    /// They are too many for one answer, which names none then and has an error for whoever does not know this key:
    /// `zester.peel.list` has them page by page.
    #[serde(default, skip_serializing_if = "is_false")]
    pub too_many: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

impl Message for ResolveReply {
    const NAME: &'static str = "target reply";
}
