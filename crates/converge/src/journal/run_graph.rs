//! The graph of a run, as its revert will need it: every state, and what each waits for.
//!
//! It is an object like a before-image, under the hash of its content, so that a hundred runs of one tree keep it once.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use zester_engine::{Graph, NodeId};
use zester_model::requisite::EdgeKind;

/// In the order of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunGraph {
    states: Vec<Node>,
}

/// `["file.managed:x", [0, 4], [7]]`: its name, the places of the states it depends on, and of those that it only comes
/// after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Node(String, Vec<u32>, Vec<u32>);

impl RunGraph {
    pub fn of(graph: &Graph) -> RunGraph {
        let mut places = vec![0_u32; graph.len()];
        for (place, node) in graph.ranked().iter().enumerate() {
            places[node.index()] = place as u32;
        }
        let needs = |node: NodeId, order: bool| {
            let edges = graph.needs(node).iter().filter(|edge| edge.kind.only_sequences() == order);
            let mut needs: Vec<u32> = edges.map(|edge| places[edge.node.index()]).collect();
            needs.sort_unstable();
            needs.dedup();
            needs
        };
        let state =
            |node: &NodeId| Node(graph.name(*node).to_string(), needs(*node, false), needs(*node, true));
        RunGraph { states: graph.ranked().iter().map(state).collect() }
    }

    /// Its states.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.states.iter().map(|Node(name, ..)| name.as_str())
    }

    /// What each of `chosen` waits for among `chosen`, by their indexes, whatever lies between: the states that did
    /// nothing are gone from the graph, the paths through them are not. A path with an order edge only sequences.
    pub fn among(&self, chosen: &[&str]) -> Vec<Vec<(usize, EdgeKind)>> {
        let index: HashMap<&str, usize> = chosen.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let of: Vec<Option<usize>> =
            self.states.iter().map(|Node(name, ..)| index.get(name.as_str()).copied()).collect();
        let mut edges = vec![Vec::new(); chosen.len()];
        let mut search = Search { graph: self, of: &of, seen: vec![0; self.states.len()], round: 0 };
        for (place, at) in of.iter().enumerate() {
            if let Some(edges) = at.and_then(|at| edges.get_mut(at)) {
                *edges = search.from(place);
            }
        }
        edges
    }
}

/// Walks from one state through those that are not chosen.
struct Search<'a> {
    graph: &'a RunGraph,
    of: &'a [Option<usize>],
    /// The round in which each state was last reached.
    seen: Vec<u32>,
    round: u32,
}

impl Search<'_> {
    /// First along dependencies alone, then from everywhere along any edge: what is depended on stays so, whatever else
    /// leads there.
    fn from(&mut self, start: usize) -> Vec<(usize, EdgeKind)> {
        self.round += 1;
        let mut found = Vec::new();
        let mut walked = vec![start];
        let mut at = 0;
        while let Some(Node(_, needs, _)) = walked.get(at).and_then(|place| self.graph.states.get(*place)) {
            at += 1;
            for next in needs {
                self.reach(*next as usize, EdgeKind::Require, &mut found, &mut walked);
            }
        }
        let dependencies = walked.len();
        let mut at = 0;
        while let Some(Node(_, needs, after)) = walked.get(at).and_then(|place| self.graph.states.get(*place))
        {
            let needs = if at < dependencies { &[] } else { needs.as_slice() };
            at += 1;
            for next in after.iter().chain(needs) {
                self.reach(*next as usize, EdgeKind::Order, &mut found, &mut walked);
            }
        }
        found
    }

    fn reach(
        &mut self,
        place: usize,
        kind: EdgeKind,
        found: &mut Vec<(usize, EdgeKind)>,
        walked: &mut Vec<usize>,
    ) {
        let Some(seen) = self.seen.get_mut(place) else { return };
        if std::mem::replace(seen, self.round) == self.round {
            return;
        }
        match self.of.get(place).copied().flatten() {
            Some(at) => found.push((at, kind)),
            None => walked.push(place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_engine::NodeSpec;
    use zester_model::name::StateName;
    use zester_rule::rule;

    fn graph(states: &[(&str, &[(usize, EdgeKind)])]) -> RunGraph {
        let spec = |(name, edges): &(&str, &[(usize, EdgeKind)])| NodeSpec {
            edges: edges.to_vec(),
            ..NodeSpec::new(StateName::new("test.nop", name))
        };
        RunGraph::of(&Graph::build(states.iter().map(spec).collect()).unwrap())
    }

    const REQUIRE: EdgeKind = EdgeKind::Require;
    const ORDER: EdgeKind = EdgeKind::Order;

    #[test]
    #[rule("S-31")]
    fn s31_a_path_through_states_that_did_nothing_still_orders() {
        let graph = graph(&[
            ("dir", &[]),
            ("between", &[(0, REQUIRE)]),
            ("after", &[(1, ORDER)]),
            ("file", &[(2, EdgeKind::Watch)]),
            ("other", &[(1, EdgeKind::Onchanges)]),
        ]);
        let edges = graph.among(&["test.nop:dir", "test.nop:file", "test.nop:other"]);
        assert_eq!(edges, [vec![], vec![(0, ORDER)], vec![(0, REQUIRE)]]);
    }

    #[test]
    #[rule("S-31")]
    fn s31_to_depend_says_more_than_to_come_after() {
        let graph = graph(&[
            ("base", &[]),
            ("long", &[(0, REQUIRE)]),
            ("longer", &[(1, REQUIRE)]),
            ("top", &[(0, ORDER), (2, REQUIRE)]),
        ]);
        assert_eq!(graph.among(&["test.nop:base", "test.nop:top"]), [vec![], vec![(0, REQUIRE)]]);
        let written = serde_json::to_string(&graph).unwrap();
        assert!(written.contains(r#"["test.nop:top",[2],[0]]"#), "{written}");
        assert_eq!(serde_json::from_str::<RunGraph>(&written).unwrap(), graph);
    }
}
