//! Which states wait for each other, all the way round: Tarjan's strongly connected components, without recursion.

use crate::adjacency::Adjacency;
use crate::graph::Edge;

const NEW: u32 = u32::MAX;

/// The number of each node's component. Two nodes share one exactly if each waits for the other, directly or not; a node on
/// no cycle has one of its own. Looks at each node and each edge once.
pub(crate) fn components(needs: &Adjacency<Edge>) -> Vec<u32> {
    let nodes = needs.len();
    let mut component = vec![NEW; nodes];
    // When a node was first seen, and the earliest node still undecided that it reaches.
    let mut seen = vec![NEW; nodes];
    let mut earliest = vec![NEW; nodes];
    let (mut clock, mut count) = (0, 0);
    let mut undecided: Vec<usize> = Vec::new();
    for root in 0..nodes {
        // The way down to here, each node with how many of its edges were followed.
        let mut way: Vec<(usize, usize)> = if seen[root] == NEW { vec![(root, 0)] } else { Vec::new() };
        while let Some((node, followed)) = way.pop() {
            if followed == 0 {
                seen[node] = clock;
                earliest[node] = clock;
                clock += 1;
                undecided.push(node);
            }
            if let Some(edge) = needs.of(node).get(followed) {
                let target = edge.node.index();
                way.push((node, followed + 1));
                if seen[target] == NEW {
                    way.push((target, 0));
                } else if component[target] == NEW {
                    earliest[node] = earliest[node].min(seen[target]);
                }
                continue;
            }
            if let Some((before, _)) = way.last() {
                earliest[*before] = earliest[*before].min(earliest[node]);
            }
            if earliest[node] == seen[node] {
                while let Some(member) = undecided.pop() {
                    component[member] = count;
                    if member == node {
                        break;
                    }
                }
                count += 1;
            }
        }
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::NodeId;
    use zester_model::requisite::EdgeKind;

    fn reaches(edges: &[(usize, usize)], from: usize, to: usize) -> bool {
        let mut reached = vec![from];
        let mut next = 0;
        while let Some(at) = reached.get(next).copied() {
            next += 1;
            for (_, target) in edges.iter().filter(|(node, _)| *node == at) {
                if !reached.contains(target) {
                    reached.push(*target);
                }
            }
        }
        reached.contains(&to)
    }

    #[test]
    fn in_every_graph_of_four_two_share_a_component_exactly_if_each_waits_for_the_other() {
        let pairs = || (0..4).flat_map(|from| (0..4).map(move |to| (from, to)));
        let others = || pairs().filter(|(from, to)| from != to);
        for graph in 0..1_u32 << 12 {
            let chosen = others().enumerate().filter(|(bit, _)| graph >> bit & 1 == 1);
            let edges: Vec<(usize, usize)> = chosen.map(|(_, edge)| edge).collect();
            let needs = Adjacency::pack((0..4).map(|node| {
                let own = edges.iter().filter(move |(from, _)| *from == node);
                own.map(|(_, to)| Edge { node: NodeId(*to as u32), kind: EdgeKind::Auto })
            }));
            let components = components(&needs);
            for (one, other) in pairs() {
                let mutual = reaches(&edges, one, other) && reaches(&edges, other, one);
                assert_eq!(components[one] == components[other], mutual, "{edges:?}: {one} and {other}");
            }
        }
    }
}
