//! What obviously comes first gives way to what the user said: an `auto` edge that would close a cycle is left out (S-58).

use crate::adjacency::Adjacency;
use crate::components::components;
use crate::graph::Edge;
use std::collections::HashSet;
use zester_model::requisite::EdgeKind;

/// Auto edges inside components that are weighed one by one, each by a search; past that many, those that remain are left out.
const WEIGHED_MAX: usize = 4_096;

/// The edges without the `auto` ones that close a cycle. Those are weighed in the order of the nodes, so the same ones
/// stay every time. Only an edge inside a component can close one: what merely lies before or behind is never in doubt.
pub(crate) fn without_closing(needs: &Adjacency<Edge>) -> Adjacency<Edge> {
    let components = components(needs);
    let in_doubt = |from: usize, edge: &Edge| {
        edge.kind == EdgeKind::Auto && components.get(from) == components.get(edge.node.index())
    };
    let mut kept: Vec<Vec<Edge>> = (0..needs.len())
        .map(|node| needs.of(node).iter().filter(|edge| !in_doubt(node, edge)).copied().collect())
        .collect();
    let doubtful = (0..needs.len()).flat_map(|node| {
        needs.of(node).iter().filter(move |edge| in_doubt(node, edge)).map(move |edge| (node, *edge))
    });
    for (node, edge) in doubtful.take(WEIGHED_MAX) {
        if !reaches(&kept, edge.node.index(), node, &components) {
            kept[node].push(edge);
        }
    }
    Adjacency::pack(kept.into_iter())
}

/// Whether `from` waits for `to`, directly or not. Both are of one component, and so is every way between them.
fn reaches(needs: &[Vec<Edge>], from: usize, to: usize, components: &[u32]) -> bool {
    let mut seen = HashSet::new();
    let mut rest = vec![from];
    while let Some(node) = rest.pop() {
        if node == to {
            return true;
        }
        if !seen.insert(node) {
            continue;
        }
        let inside = |next: &usize| components[*next] == components[to] && !seen.contains(next);
        rest.extend(needs[node].iter().map(|edge| edge.node.index()).filter(inside));
    }
    false
}
