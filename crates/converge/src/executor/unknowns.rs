//! What a dry run cannot know, and says so (S-44).
//!
//! A package, a command or a script does things that nobody can predict in full. Once one of them would act, what a
//! state of a later level does not find may be there by then: that state is *unknown*, neither failed nor unchanged.

use super::StateExecutor;
use crate::run_loop::Report;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zester_engine::{Graph, NodeId};
use zester_host::{Fault, FaultKind};

/// What a dry run has come to know of its own limits.
#[derive(Default)]
pub struct Unknowns {
    /// States that would act, with effects that nobody can predict in full; by level, then node.
    acting: Mutex<BTreeSet<(usize, NodeId)>>,
    /// States whose guard could not be answered, and because of whom.
    unsure: Mutex<HashMap<NodeId, NodeId>>,
}

impl Unknowns {
    /// This state would act, and only then will be known what it does.
    pub(super) fn will_act(&self, graph: &Graph, node: NodeId) {
        lock(&self.acting).insert((graph.level_of(node), node));
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
        if acting.is_empty() {
            return None;
        }
        let mut seen = HashSet::new();
        let mut rest = VecDeque::from([node]);
        while let Some(node) = rest.pop_front() {
            for before in graph.needs(node).iter().map(|edge| edge.node) {
                if acting.contains(&(graph.level_of(before), before)) {
                    return Some(before);
                }
                if seen.insert(before) {
                    rest.push_back(before);
                }
            }
        }
        None
    }

    pub(super) fn unsure(&self, node: NodeId, cause: NodeId) {
        lock(&self.unsure).insert(node, cause);
    }

    /// Forgets it again: whoever asks a guard anew may get another answer.
    pub(super) fn take_unsure(&self, node: NodeId) -> Option<NodeId> {
        lock(&self.unsure).remove(&node)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StateExecutor {
    /// Whose effects may bring what this state misses, in a dry run.
    pub(super) fn cause(&self, node: NodeId) -> Option<NodeId> {
        self.overlay.as_ref().and_then(|_| self.unknowns.cause(&self.graph, node))
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
                let mut report = self.unknown(cause);
                report.details.insert("missing".into(), fault.message.into());
                report
            }
            None => Report::plain(Err(fault)),
        }
    }

    /// It would change, and nobody knows yet how.
    pub(super) fn unknown(&self, cause: NodeId) -> Report {
        let diff = format!("would change; known only after {} has run", self.graph.name(cause));
        let mut report = Report { diff, ..Report::plain(Ok(true)) };
        report.details.insert("unknown".into(), true.into());
        report
    }
}
