//! What obviously comes first gives way to what the user said: an `auto` edge that would close a cycle is left out (S-58).

use crate::adjacency::Adjacency;
use crate::graph::Edge;
use crate::levels::{Levels, UNRESOLVED};
use zester_model::requisite::EdgeKind;

/// Auto edges that are weighed one by one, each by a search; past that many, those in doubt are all left out.
const WEIGHED_MAX: usize = 4_096;

/// The edges without the `auto` ones that close a cycle. Those are weighed in the order of the nodes, so the same ones
/// stay every time; only nodes that could not be resolved are in doubt.
pub(crate) fn without_closing(needs: &Adjacency<Edge>, levels: &Levels) -> Adjacency<Edge> {
    let open = |node: usize| levels.of.get(node) == Some(&UNRESOLVED);
    let in_doubt =
        |from: usize, edge: &Edge| edge.kind == EdgeKind::Auto && open(from) && open(edge.node.index());
    let mut kept: Vec<Vec<Edge>> = (0..needs.len())
        .map(|node| needs.of(node).iter().filter(|edge| !in_doubt(node, edge)).copied().collect())
        .collect();
    let doubtful = (0..needs.len()).flat_map(|node| {
        needs.of(node).iter().filter(move |edge| in_doubt(node, edge)).map(move |edge| (node, *edge))
    });
    for (node, edge) in doubtful.take(WEIGHED_MAX) {
        if !reaches(&kept, edge.node.index(), node, &open) {
            kept[node].push(edge);
        }
    }
    Adjacency::pack(kept.into_iter())
}

/// Whether `from` waits for `to`, directly or not. Only unresolved nodes can lie on a way round.
fn reaches(needs: &[Vec<Edge>], from: usize, to: usize, open: &dyn Fn(usize) -> bool) -> bool {
    let mut seen = vec![false; needs.len()];
    let mut rest = vec![from];
    while let Some(node) = rest.pop() {
        if node == to {
            return true;
        }
        if std::mem::replace(&mut seen[node], true) {
            continue;
        }
        rest.extend(
            needs[node].iter().map(|edge| edge.node.index()).filter(|next| open(*next) && !seen[*next]),
        );
    }
    false
}
