//! One concrete cycle to show, out of all that a broken graph may hold.

use crate::adjacency::Adjacency;
use crate::graph::Edge;
use crate::levels::{Levels, UNRESOLVED};
use std::collections::VecDeque;
use std::fmt;

/// The states wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    pub resolved: usize,
    pub total: usize,
    /// One cycle along "waits for", its first node repeated at the end: `a -> b -> a`.
    pub path: Vec<usize>,
}

impl fmt::Display for Cycle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "dag: cycle detected, resolved {} of {} states", self.resolved, self.total)
    }
}

/// A short cycle helps more than any cycle; the shortest of all would cost a search from every node. So the search
/// starts from this many nodes of the first cycle found.
const SEARCHES_MAX: usize = 32;

/// Finds the same short cycle every time.
pub(crate) fn find(needs: &Adjacency<Edge>, levels: &Levels) -> Cycle {
    let open = |node: usize| levels.of[node] == UNRESOLVED;
    let first = walk(needs, &open);
    let mut best = first.clone();
    for start in first.iter().take(SEARCHES_MAX) {
        if let Some(found) = shortest_through(*start, needs, &open)
            && found.len() < best.len()
        {
            best = found;
        }
    }
    let lowest = best.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(place, _)| place);
    best.rotate_left(lowest);
    best.extend(best.first().copied());
    Cycle { resolved: levels.resolved, total: needs.len(), path: best }
}

/// Follows the first unresolved target from node to node: each unresolved node has one, so the walk must come round.
fn walk(needs: &Adjacency<Edge>, open: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let mut place = vec![usize::MAX; needs.len()];
    let mut path: Vec<usize> = Vec::new();
    let mut at = (0..needs.len()).find(|node| open(*node));
    while let Some(node) = at {
        if place[node] != usize::MAX {
            return path.split_off(place[node]);
        }
        place[node] = path.len();
        path.push(node);
        at = needs.of(node).iter().map(|edge| edge.node.index()).find(|target| open(*target));
    }
    path
}

/// Breadth first from a node back to itself.
fn shortest_through(
    start: usize,
    needs: &Adjacency<Edge>,
    open: &dyn Fn(usize) -> bool,
) -> Option<Vec<usize>> {
    let mut came_from = vec![usize::MAX; needs.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for target in needs.of(node).iter().map(|edge| edge.node.index()) {
            if target == start {
                let back = std::iter::successors(Some(node), |at| (*at != start).then(|| came_from[*at]));
                let mut path: Vec<usize> = back.collect();
                path.reverse();
                return Some(path);
            }
            if open(target) && came_from[target] == usize::MAX {
                came_from[target] = node;
                queue.push_back(target);
            }
        }
    }
    None
}
