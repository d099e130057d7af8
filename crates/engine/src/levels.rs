//! Kahn's algorithm: the level of every node, in one look at each node and each edge.

use crate::adjacency::Adjacency;
use crate::graph::Edge;

/// What could be resolved.
pub(crate) struct Levels {
    /// The level of each resolved node; [`UNRESOLVED`] for those on a cycle or behind one.
    pub of: Vec<u32>,
    pub resolved: usize,
    /// Nodes and edges looked at, so that a test can hold the work against the size.
    pub steps: usize,
}

pub(crate) const UNRESOLVED: u32 = u32::MAX;

/// A node's level is the length of the longest chain below it (S-21).
pub(crate) fn resolve(needs: &Adjacency<Edge>, needed_by: &Adjacency<Edge>) -> Levels {
    let nodes = needs.len();
    let mut of = vec![UNRESOLVED; nodes];
    let mut missing: Vec<u32> = (0..nodes).map(|node| needs.of(node).len() as u32).collect();
    let mut deepest = vec![0_u32; nodes];
    let mut ready: Vec<u32> = (0..nodes).filter(|node| missing[*node] == 0).map(|node| node as u32).collect();
    let (mut resolved, mut steps) = (0, nodes);
    while let Some(node) = ready.pop() {
        let level = deepest[node as usize];
        of[node as usize] = level;
        resolved += 1;
        for edge in needed_by.of(node as usize) {
            steps += 1;
            let dependent = edge.node.index();
            deepest[dependent] = deepest[dependent].max(level + 1);
            missing[dependent] -= 1;
            if missing[dependent] == 0 {
                ready.push(dependent as u32);
            }
        }
    }
    Levels { of, resolved, steps }
}
