//! The relations between states that the graph and the runner know.

use serde::Serialize;
use std::fmt;

/// A core requisite, or a plain order. `_in` forms, `listen`, `subscribe` and `prereq` are rewritten into these.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeKind {
    Require,
    Watch,
    Onchanges,
    Onfail,
    /// Only sequences: the manifest order of S-38 and `#!ordered` of S-40. Never skips anything.
    Order,
    /// Only sequences, and gives way where it would close a cycle: what obviously comes first (S-57, S-58).
    Auto,
    RequireAny,
    WatchAny,
    OnchangesAny,
    OnfailAny,
    OnfailAll,
}

impl EdgeKind {
    /// Whether it says only who comes first, whatever becomes of them.
    pub fn only_sequences(self) -> bool {
        matches!(self, EdgeKind::Order | EdgeKind::Auto)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            EdgeKind::Require => "require",
            EdgeKind::Watch => "watch",
            EdgeKind::Onchanges => "onchanges",
            EdgeKind::Onfail => "onfail",
            EdgeKind::Order => "order",
            EdgeKind::Auto => "auto",
            EdgeKind::RequireAny => "require_any",
            EdgeKind::WatchAny => "watch_any",
            EdgeKind::OnchangesAny => "onchanges_any",
            EdgeKind::OnfailAny => "onfail_any",
            EdgeKind::OnfailAll => "onfail_all",
        }
    }
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
