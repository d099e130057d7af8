//! The one rule of a revert: what a node stands on stays while the node itself could not be reverted (S-31).

use crate::graph::{Edge, NodeId};
use crate::outcome::Outcome;
use crate::verdict::{Verdict, distinct};
use zester_model::outcome::SkipReason;

/// Judges a node by those that wait for it, which have all ended. Order edges only sequence.
pub(crate) fn judge(dependents: &[Edge], outcome: impl Fn(NodeId) -> Outcome) -> Verdict {
    let stands = |edge: &&Edge| !edge.kind.only_sequences() && outcome(edge.node).blocks();
    let still_applied: Vec<NodeId> = dependents.iter().filter(stands).map(|edge| edge.node).collect();
    match still_applied.is_empty() {
        true => Verdict::Run,
        false => Verdict::Skip { reason: SkipReason::RequireFailed, because: distinct(still_applied) },
    }
}
