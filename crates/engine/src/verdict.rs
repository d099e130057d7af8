//! The requisite table: from the ends of its targets to whether a node runs (S-12, S-13, S-41).

use crate::graph::{Edge, NodeId};
use crate::outcome::Outcome;
use zester_model::outcome::SkipReason;
use zester_model::requisite::EdgeKind;

/// What the requisites say of a node, the prereq gate still open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Run,
    /// `because`: the targets that decided.
    Skip {
        reason: SkipReason,
        because: Vec<NodeId>,
    },
}

/// How the targets of one kind of requisite ended.
#[derive(Copy, Clone, Default)]
struct Tally {
    targets: usize,
    blocking: usize,
    failed: usize,
    changed: usize,
    /// Not ended yet: may still turn out either way.
    undecided: usize,
}

impl Tally {
    fn any_blocks(self) -> bool {
        self.blocking > 0
    }

    fn all_block(self) -> bool {
        self.targets > 0 && self.blocking == self.targets
    }

    fn may_have_changed(self) -> bool {
        self.changed + self.undecided > 0
    }
}

/// The order in which requisites are asked: the first that says skip gives the reason.
const ASKED: [EdgeKind; 9] = [
    EdgeKind::Require,
    EdgeKind::RequireAny,
    EdgeKind::Watch,
    EdgeKind::WatchAny,
    EdgeKind::Onchanges,
    EdgeKind::OnchangesAny,
    EdgeKind::Onfail,
    EdgeKind::OnfailAny,
    EdgeKind::OnfailAll,
];

/// The one sentence of the table for each kind: why a node with these targets is skipped, if it is.
fn objection(kind: EdgeKind, tally: Tally) -> Option<SkipReason> {
    if tally.targets == 0 {
        return None;
    }
    let unmet = |met: bool, reason: SkipReason| (!met).then_some(reason);
    let blocked = |blocks: bool| blocks.then_some(SkipReason::RequireFailed);
    match kind {
        EdgeKind::Order | EdgeKind::Auto => None,
        EdgeKind::Require | EdgeKind::Watch => blocked(tally.any_blocks()),
        EdgeKind::RequireAny | EdgeKind::WatchAny => blocked(tally.all_block()),
        EdgeKind::Onchanges => blocked(tally.any_blocks())
            .or_else(|| unmet(tally.may_have_changed(), SkipReason::OnchangesNotMet)),
        EdgeKind::OnchangesAny => blocked(tally.all_block())
            .or_else(|| unmet(tally.may_have_changed(), SkipReason::OnchangesNotMet)),
        EdgeKind::Onfail | EdgeKind::OnfailAny => {
            unmet(tally.failed + tally.undecided > 0, SkipReason::OnfailNotMet)
        }
        EdgeKind::OnfailAll => {
            unmet(tally.failed + tally.undecided == tally.targets, SkipReason::OnfailNotMet)
        }
    }
}

/// Judges a node by its edges. A target that has not ended (`None`) objects to nothing yet: that is how a prereq gate
/// asks about a node whose turn has not come (S-15).
pub(crate) fn judge(edges: &[Edge], outcome: impl Fn(NodeId) -> Option<Outcome>) -> Verdict {
    for kind in ASKED {
        let mut tally = Tally::default();
        for edge in edges.iter().filter(|edge| edge.kind == kind) {
            tally.targets += 1;
            let Some(ended) = outcome(edge.node) else {
                tally.undecided += 1;
                continue;
            };
            tally.blocking += usize::from(ended.blocks());
            tally.failed += usize::from(ended.failed());
            tally.changed += usize::from(ended.changed());
        }
        if let Some(reason) = objection(kind, tally) {
            return Verdict::Skip { reason, because: deciders(edges, kind, reason, outcome) };
        }
    }
    Verdict::Run
}

/// The targets a reader should look at: those that block, or else all whose change or failure was waited for.
fn deciders(
    edges: &[Edge],
    kind: EdgeKind,
    reason: SkipReason,
    outcome: impl Fn(NodeId) -> Option<Outcome>,
) -> Vec<NodeId> {
    let decides = |edge: &&Edge| match reason {
        SkipReason::RequireFailed => outcome(edge.node).is_some_and(Outcome::blocks),
        SkipReason::OnfailNotMet => outcome(edge.node).is_some_and(|ended| !ended.failed()),
        _ => true,
    };
    let of_kind = edges.iter().filter(|edge| edge.kind == kind).filter(decides);
    distinct(of_kind.map(|edge| edge.node).collect())
}

/// The targets whose change forces the node.
pub(crate) fn watched_changes(edges: &[Edge], changed: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
    let watches = |edge: &&Edge| matches!(edge.kind, EdgeKind::Watch | EdgeKind::WatchAny);
    distinct(edges.iter().filter(watches).filter(|edge| changed(edge.node)).map(|edge| edge.node).collect())
}

/// One target may be named by several requisites.
pub(crate) fn distinct(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
