//! States and what they wait for, put into levels.

use crate::adjacency::Adjacency;
use crate::cycle::{self, Cycle};
use crate::give_way;
use crate::levels;
use crate::waits;
use std::fmt;
use zester_model::name::StateName;
use zester_model::program::Retry;
use zester_model::requisite::EdgeKind;

/// A state, by its index in the list that the graph was built from.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the engine has to know of a state.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    pub name: StateName,
    /// Sorts the launch inside a level (S-17).
    pub order: i64,
    pub failhard: bool,
    pub retry: Option<Retry>,
    /// Has an `onlyif` or an `unless`.
    pub guarded: bool,
    /// What it waits for: index of the target, and how.
    pub edges: Vec<(usize, EdgeKind)>,
    /// Runs only if one of these would change. The `require` that this puts on each of them is an edge of theirs,
    /// made by the compiler (S-11); that it waits for what they wait for is seen to here (S-15).
    pub prereq: Vec<usize>,
    /// A refresh from an earlier run is pending (S-39).
    pub refresh_pending: bool,
}

impl NodeSpec {
    /// A state without any attribute or requisite.
    pub fn new(name: StateName) -> NodeSpec {
        NodeSpec {
            name,
            order: 0,
            failhard: false,
            retry: None,
            guarded: false,
            edges: Vec::new(),
            prereq: Vec::new(),
            refresh_pending: false,
        }
    }
}

/// One end of a requisite: the other node, and the kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    pub node: NodeId,
    pub kind: EdgeKind,
}

/// Why there is no graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    Cycle(Cycle),
    /// `node` names a `target` that is no index of the list: a mistake of the caller, not of the user.
    UnknownTarget {
        node: usize,
        target: usize,
    },
    /// More nodes or edges than 32 bits count.
    TooLarge,
}

impl fmt::Display for BuildError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Cycle(cycle) => cycle.fmt(out),
            BuildError::UnknownTarget { node, target } => {
                write!(out, "dag: state #{node} waits for state #{target}, which does not exist")
            }
            BuildError::TooLarge => out.write_str("dag: too many states or requisites"),
        }
    }
}

impl std::error::Error for BuildError {}

#[derive(Debug)]
pub(crate) struct Node {
    pub name: StateName,
    pub order: i64,
    pub retry: Option<Retry>,
    pub failhard: bool,
    pub guarded: bool,
    pub refresh_pending: bool,
}

/// States in levels. Never changes once built, so runs share it.
#[derive(Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    needs: Adjacency<Edge>,
    needed_by: Adjacency<Edge>,
    prereq: Adjacency<NodeId>,
    /// All nodes by level, then order, then name: the order of a run.
    ranked: Vec<NodeId>,
    /// Where each level begins in `ranked`; one entry more than there are levels.
    level_starts: Vec<u32>,
    level_of: Vec<u32>,
    steps: usize,
}

impl Graph {
    /// Resolves the levels, or shows a cycle; an `auto` edge that would close one is left out (S-58). Linear in nodes and
    /// edges, but for the sort inside levels (S-26).
    pub fn build(mut specs: Vec<NodeSpec>) -> Result<Graph, BuildError> {
        check_targets(&specs)?;
        waits::add(&mut specs);
        let mut needs = Adjacency::pack(specs.iter().map(|spec| {
            spec.edges.iter().map(|(target, kind)| Edge { node: NodeId(*target as u32), kind: *kind })
        }));
        let prereq =
            Adjacency::pack(specs.iter().map(|spec| spec.prereq.iter().map(|target| NodeId(*target as u32))));
        let mut needed_by = reversed(&needs);
        let mut levels = levels::resolve(&needs, &needed_by);
        if levels.resolved < specs.len() && needs.all().any(|edge| edge.kind == EdgeKind::Auto) {
            needs = give_way::without_closing(&needs);
            needed_by = reversed(&needs);
            levels = levels::resolve(&needs, &needed_by);
        }
        if levels.resolved < specs.len() {
            return Err(BuildError::Cycle(cycle::find(&needs, &levels)));
        }
        let nodes: Vec<Node> = specs.into_iter().map(Node::from).collect();
        let (ranked, level_starts) = rank(&nodes, &levels.of);
        Ok(Graph {
            nodes,
            needs,
            needed_by,
            prereq,
            ranked,
            level_starts,
            level_of: levels.of,
            steps: levels.steps,
        })
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn contains(&self, node: NodeId) -> bool {
        node.index() < self.nodes.len()
    }

    /// All nodes, in the order of a run: by level, then `order`, then full name.
    pub fn ranked(&self) -> &[NodeId] {
        &self.ranked
    }

    pub fn level_count(&self) -> usize {
        self.level_starts.len() - 1
    }

    /// The nodes of one level, in launch order.
    pub fn level(&self, level: usize) -> &[NodeId] {
        &self.ranked[self.level_starts[level] as usize..self.level_starts[level + 1] as usize]
    }

    pub fn levels(&self) -> impl ExactSizeIterator<Item = &[NodeId]> {
        (0..self.level_count()).map(|level| self.level(level))
    }

    /// Whether a node is tried again when it fails.
    pub fn retries(&self, node: NodeId) -> bool {
        self.nodes.get(node.index()).is_some_and(|node| node.retry.is_some())
    }

    pub fn level_of(&self, node: NodeId) -> usize {
        self.level_of[node.index()] as usize
    }

    pub fn name(&self, node: NodeId) -> &StateName {
        &self.nodes[node.index()].name
    }

    /// What a node waits for.
    pub fn needs(&self, node: NodeId) -> &[Edge] {
        self.needs.of(node.index())
    }

    /// Who waits for a node.
    pub fn needed_by(&self, node: NodeId) -> &[Edge] {
        self.needed_by.of(node.index())
    }

    /// The targets of a node's prereq gate.
    pub fn prereq(&self, node: NodeId) -> &[NodeId] {
        self.prereq.of(node.index())
    }

    /// Who is to be refreshed when a node changes: journalled before the change is forgotten (S-39).
    pub fn watchers(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let watches = |edge: &&Edge| matches!(edge.kind, EdgeKind::Watch | EdgeKind::WatchAny);
        self.needed_by(node).iter().filter(watches).map(|edge| edge.node)
    }

    /// How many nodes and edges resolving looked at.
    pub fn steps(&self) -> usize {
        self.steps
    }

    pub(crate) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }
}

fn reversed(needs: &Adjacency<Edge>) -> Adjacency<Edge> {
    needs.reversed(|from, edge| (edge.node.index(), Edge { node: NodeId(from as u32), kind: edge.kind }))
}

impl From<NodeSpec> for Node {
    fn from(spec: NodeSpec) -> Node {
        Node {
            name: spec.name,
            order: spec.order,
            retry: spec.retry,
            failhard: spec.failhard,
            guarded: spec.guarded,
            refresh_pending: spec.refresh_pending,
        }
    }
}

fn check_targets(specs: &[NodeSpec]) -> Result<(), BuildError> {
    let mut total = 0_usize;
    for (node, spec) in specs.iter().enumerate() {
        total += spec.edges.len() + spec.prereq.len();
        let targets = spec.edges.iter().map(|(target, _)| *target).chain(spec.prereq.iter().copied());
        for target in targets {
            if target >= specs.len() {
                return Err(BuildError::UnknownTarget { node, target });
            }
        }
    }
    // The largest value is kept free: it marks "no level".
    match specs.len() < u32::MAX as usize && total < u32::MAX as usize {
        true => Ok(()),
        false => Err(BuildError::TooLarge),
    }
}

/// Drops the nodes into their levels by counting, then sorts each level (S-22).
fn rank(nodes: &[Node], level_of: &[u32]) -> (Vec<NodeId>, Vec<u32>) {
    let levels = level_of.iter().max().map_or(0, |highest| *highest as usize + 1);
    let mut starts = vec![0_u32; levels + 1];
    for level in level_of {
        starts[*level as usize + 1] += 1;
    }
    for level in 0..levels {
        starts[level + 1] += starts[level];
    }
    let mut next = starts.clone();
    let mut ranked = vec![NodeId(0); nodes.len()];
    for (node, level) in level_of.iter().enumerate() {
        let place = &mut next[*level as usize];
        ranked[*place as usize] = NodeId(node as u32);
        *place += 1;
    }
    for level in 0..levels {
        let members = &mut ranked[starts[level] as usize..starts[level + 1] as usize];
        members.sort_unstable_by(|left, right| {
            let (a, b) = (&nodes[left.index()], &nodes[right.index()]);
            // Names are unique in a program; the index only keeps the order total for any caller.
            (a.order, a.name.as_str(), left).cmp(&(b.order, b.name.as_str(), right))
        });
    }
    (ranked, starts)
}
