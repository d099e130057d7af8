//! The prereq gate of one node: which targets are asked, in which order, and when it opens (S-15).
//!
//! A target that has a gate of its own would run only if that one opens. So a chain is asked from its end: when the last
//! would not change, nobody before it needs to be asked.

use crate::graph::{Graph, NodeId};
use std::collections::BTreeSet;

/// The questions of one gate.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// Every target, direct or behind another gate, after those that its own gate asks.
    asked: Vec<NodeId>,
    /// The place in `asked` of the question that is open, or comes next.
    at: usize,
    would_change: BTreeSet<NodeId>,
}

/// How it goes on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Ask(NodeId),
    /// This target would change, and one is enough.
    Open(NodeId),
    Shut,
}

impl Gate {
    pub(crate) fn of(graph: &Graph, node: NodeId) -> Gate {
        let mut asked = Vec::new();
        let mut seen = BTreeSet::from([node]);
        let mut path = vec![(node, 0)];
        while let Some((owner, next)) = path.last_mut() {
            match graph.prereq(*owner).get(*next) {
                Some(target) => {
                    *next += 1;
                    if seen.insert(*target) {
                        path.push((*target, 0));
                    }
                }
                None => {
                    asked.extend(path.pop().map(|(target, _)| target).filter(|target| *target != node));
                }
            }
        }
        Gate { asked, at: 0, would_change: BTreeSet::new() }
    }

    /// Goes on to the next target that is worth asking: one that may run, by its requisites and by its own gate.
    pub(crate) fn next(&mut self, graph: &Graph, node: NodeId, may_run: impl Fn(NodeId) -> bool) -> Next {
        loop {
            if let Some(target) = self.opener(graph, node) {
                return Next::Open(target);
            }
            let Some(target) = self.asked.get(self.at).copied() else { return Next::Shut };
            let gated = !graph.prereq(target).is_empty();
            if may_run(target) && (!gated || self.opener(graph, target).is_some()) {
                return Next::Ask(target);
            }
            self.at += 1;
        }
    }

    /// The open question is answered.
    pub(crate) fn answer(&mut self, target: NodeId, would_change: bool) {
        if would_change {
            self.would_change.insert(target);
        }
        self.at += 1;
    }

    /// The target of a node's own prereq that would change, as far as was asked.
    pub(crate) fn opener(&self, graph: &Graph, node: NodeId) -> Option<NodeId> {
        graph.prereq(node).iter().copied().find(|target| self.would_change.contains(target))
    }
}
