//! What a dry run cannot know, and says so (S-44).
//!
//! A package, a command or a script does things that nobody can predict in full. Once one of them would act, what a
//! state of a later level does not find may be there by then: that state is *unknown*, neither failed nor unchanged.

use super::StateExecutor;
use crate::run_loop::Report;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_engine::{Graph, NodeId};
use zester_host::{Fault, FaultKind};
use zester_model::requisite::EdgeKind;
use zester_resources::Bound;

/// What a dry run has come to know of its own limits.
#[derive(Default)]
pub struct Unknowns {
    /// States that would act, with effects that nobody can predict in full; by level, then node.
    acting: Mutex<BTreeSet<(usize, NodeId)>>,
    /// States that would change something on the machine, predicted or not.
    changing: Mutex<HashSet<NodeId>>,
    /// States whose guard could not be answered, and because of whom.
    unsure: Mutex<HashMap<NodeId, NodeId>>,
}

impl Unknowns {
    /// This state would act, and only then will be known what it does.
    pub(super) fn will_act(&self, graph: &Graph, node: NodeId) {
        lock(&self.acting).insert((graph.level_of(node), node));
    }

    /// The nearest of those that a state waits for by a requisite, directly or not, and that would change something.
    fn changes_before(&self, graph: &Graph, node: NodeId) -> Option<NodeId> {
        let changing = lock(&self.changing);
        let found = |before: NodeId| changing.contains(&before);
        (!changing.is_empty()).then(|| nearest(graph, node, |kind| !kind.only_sequences(), found)).flatten()
    }

    /// Whose effects a state may miss: of those in earlier levels one that it waits for, the nearest; else the last.
    pub(super) fn cause(&self, graph: &Graph, node: NodeId) -> Option<NodeId> {
        self.awaited(graph, node).or_else(|| {
            let acting = lock(&self.acting);
            acting.range(..(graph.level_of(node), NodeId(0))).next_back().map(|(_, cause)| *cause)
        })
    }

    /// The nearest of those that a state waits for, directly or not.
    fn awaited(&self, graph: &Graph, node: NodeId) -> Option<NodeId> {
        let acting = lock(&self.acting);
        let found = |before: NodeId| acting.contains(&(graph.level_of(before), before));
        (!acting.is_empty()).then(|| nearest(graph, node, |_| true, found)).flatten()
    }

    pub(super) fn unsure(&self, node: NodeId, cause: NodeId) {
        lock(&self.unsure).insert(node, cause);
    }

    /// Forgets it again: whoever asks a guard anew may get another answer.
    pub(super) fn take_unsure(&self, node: NodeId) -> Option<NodeId> {
        lock(&self.unsure).remove(&node)
    }
}

/// The nearest of those that a state waits for by such edges, directly or not, of whom something holds.
fn nearest(
    graph: &Graph,
    node: NodeId,
    follows: impl Fn(EdgeKind) -> bool,
    found: impl Fn(NodeId) -> bool,
) -> Option<NodeId> {
    let mut seen = HashSet::new();
    let mut rest = VecDeque::from([node]);
    while let Some(node) = rest.pop_front() {
        for before in graph.needs(node).iter().filter(|edge| follows(edge.kind)).map(|edge| edge.node) {
            if found(before) {
                return Some(before);
            }
            if seen.insert(before) {
                rest.push_back(before);
            }
        }
    }
    None
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StateExecutor {
    /// Whose effects may bring what this state misses, in a dry run.
    pub(super) fn cause(&self, node: NodeId) -> Option<NodeId> {
        self.overlay.as_ref().and_then(|_| self.unknowns.cause(&self.graph, node))
    }

    /// This state would change something, unless it only tries something out: then there is nothing that a shell could see.
    pub(super) fn will_change(&self, node: NodeId) {
        let touches = |bound: &Arc<dyn Bound>| bound.unpredictable() || bound.claims().touches();
        if self.parts(node).is_ok_and(|(_, bound)| touches(bound)) {
            lock(&self.unknowns.changing).insert(node);
        }
    }

    /// Whose change a shell that asks now does not see, in a dry run.
    pub(super) fn changes_before(&self, node: NodeId) -> Option<NodeId> {
        self.overlay.as_ref().and_then(|_| self.unknowns.changes_before(&self.graph, node))
    }

    /// A check that failed: unknown, where what is missing may come. What is in the way may go only by the work of
    /// somebody whom the state waits for.
    pub(super) fn failed_check(&self, node: NodeId, fault: Fault) -> Report {
        let cause = match fault.kind {
            FaultKind::NotFound => self.cause(node),
            FaultKind::InTheWay if self.overlay.is_some() => self.unknowns.awaited(&self.graph, node),
            _ => None,
        };
        match cause {
            Some(cause) => {
                let mut report = self.unknown(node, cause);
                report.details.insert("missing".into(), fault.message.into());
                report
            }
            None => Report::plain(Err(fault)),
        }
    }

    /// It would change, and nobody knows yet how.
    pub(super) fn unknown(&self, node: NodeId, cause: NodeId) -> Report {
        self.will_change(node);
        let diff = format!("would change; known only after {} has run", self.graph.name(cause));
        let mut report = Report { diff, ..Report::plain(Ok(true)) };
        report.details.insert("unknown".into(), true.into());
        report
    }
}
