//! `zester.target.resolve`: which peels an expression names.

use crate::codec::Message;
use crate::job::is_false;
use crate::name::PeelId;
use crate::refusal::Refusal;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolveRequest {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub target_expr: String,
    /// Wants to know of every peel whether it is meant, and which part of the expression said no; page by page.
    #[serde(default, skip_serializing_if = "is_false")]
    pub explain: bool,
    /// Only those that come after this one, by name: the last of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<PeelId>,
}

impl ResolveRequest {
    /// Which peels an expression names.
    pub fn of(expression: &str) -> ResolveRequest {
        let target_expr = expression.to_string();
        ResolveRequest { v: crate::version(), target_expr, explain: false, after: None }
    }
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
    /// The answer to `explain`; none of a master that does not know that key yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explained: Option<ExplainedPage>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

/// Some of all peels, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedPage {
    #[serde(default)]
    pub peels: Vec<ExplainedPeel>,
    /// There are more after the last of these.
    #[serde(default, skip_serializing_if = "is_false")]
    pub more: bool,
}

/// Whether one peel is meant, and why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedPeel {
    pub peel: PeelId,
    #[serde(default)]
    pub matches: bool,
    #[serde(default)]
    pub online: bool,
    /// When it was last heard; 0 if that is not known.
    #[serde(default)]
    pub last_seen: UnixMillis,
    /// The parts of the expression that said no; not all of a very long one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said_no: Vec<PartSaidNo>,
}

/// One part of an expression, and what it met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartSaidNo {
    pub part: String,
    /// `os is Arch`; empty where the id says it all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub found: String,
}

impl Message for ResolveReply {
    const NAME: &'static str = "target reply";
}
