//! The graph in layers: columns of slots, and edges only between neighbouring columns.
//!
//! A slot is a state's box, or the bend of an edge that passes a column between its ends. Giving each bend a place of
//! its own among the boxes is what keeps long edges from running through them (Sugiyama, Tagawa and Toda, 1981).

use super::Picture;
use std::collections::{BTreeMap, HashMap};
use zester_model::requisite::EdgeKind;

/// A level of at most this many states is one column; larger ones may take several side by side.
const ROWS_MIN: usize = 24;
/// An edge over more columns than this takes a lane below the boxes instead of a bend in each.
const SPAN_MAX: usize = 32;
/// All edges together have at most this many bends; the longest edges beyond take lanes.
const BENDS_MAX: usize = 40_000;

/// Where an edge runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// From box to box through these bends, one in each column between.
    Through(Vec<usize>),
    /// Below all boxes, in the lane of this number.
    Below(usize),
    /// An end of it is not in the picture.
    Nowhere,
}

#[derive(Clone, Debug, Default)]
pub struct Slot {
    pub column: usize,
    /// Neighbours in the column before.
    pub before: Vec<usize>,
    /// Neighbours in the column after.
    pub after: Vec<usize>,
}

/// The columns that a level takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Level {
    pub number: usize,
    pub first_column: usize,
    pub last_column: usize,
    pub states: usize,
}

#[derive(Clone, Debug)]
pub struct Layers {
    /// The boxes first, by the index of their state; then the bends.
    pub slots: Vec<Slot>,
    pub boxes: usize,
    /// The slots of each column from top to bottom.
    pub columns: Vec<Vec<usize>>,
    pub levels: Vec<Level>,
    /// By the index of the edge.
    pub ways: Vec<Way>,
    pub lanes: usize,
}

impl Layers {
    pub fn of(picture: &Picture) -> Layers {
        let boxes = picture.nodes.len();
        let mut layers = Layers {
            slots: vec![Slot::default(); boxes],
            boxes,
            columns: Vec::new(),
            levels: Vec::new(),
            ways: vec![Way::Nowhere; picture.edges.len()],
            lanes: 0,
        };
        layers.place_boxes(picture);
        layers.bend_edges(picture);
        layers.order_by_component();
        layers
    }

    /// Between neighbouring columns.
    pub fn segments(&self) -> usize {
        self.slots.iter().map(|slot| slot.after.len()).sum()
    }

    fn place_boxes(&mut self, picture: &Picture) {
        let mut lean = vec![0i8; self.boxes];
        for edge in picture.edges.iter().filter(|edge| edge.from < self.boxes && edge.to < self.boxes) {
            lean[edge.from] |= 2;
            lean[edge.to] |= 1;
        }
        let mut levels: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, node) in picture.nodes.iter().enumerate() {
            levels.entry(node.level).or_default().push(index);
        }
        let rows_max = rows_max(self.boxes);
        for (number, mut states) in levels {
            let first_column = self.columns.len();
            let columns = states.len().div_ceil(rows_max);
            if columns > 1 {
                // What only leads on stands at the right and what only ends here at the left, next to their edges.
                states.sort_by_key(|state| match lean[*state] {
                    1 => 0,
                    2 => 2,
                    _ => 1,
                });
            }
            for column in states.chunks(states.len().div_ceil(columns)) {
                for state in column {
                    self.slots[*state].column = self.columns.len();
                }
                self.columns.push(column.to_vec());
            }
            let last_column = self.columns.len() - 1;
            self.levels.push(Level { number, first_column, last_column, states: states.len() });
        }
    }

    /// Edges of one kind from one state share their bends: they are drawn as one line that parts where they part.
    fn bend_edges(&mut self, picture: &Picture) {
        let mut by_span: Vec<(usize, usize)> = Vec::with_capacity(picture.edges.len());
        for (index, edge) in picture.edges.iter().enumerate() {
            if edge.from < self.boxes && edge.to < self.boxes {
                let (from, to) = (self.slots[edge.from].column, self.slots[edge.to].column);
                by_span.push((to.saturating_sub(from), index));
            }
        }
        by_span.sort_unstable();
        let mut chains: HashMap<(usize, EdgeKind), Vec<usize>> = HashMap::new();
        let mut lanes: HashMap<(usize, EdgeKind), usize> = HashMap::new();
        let mut bends = 0;
        for (span, index) in by_span {
            let edge = &picture.edges[index];
            let passed = span.saturating_sub(1);
            if span > SPAN_MAX || bends + passed > BENDS_MAX {
                let next = lanes.len();
                self.ways[index] = Way::Below(*lanes.entry((edge.from, edge.kind)).or_insert(next));
                continue;
            }
            bends += passed;
            let chain = chains.entry((edge.from, edge.kind)).or_default();
            while chain.len() < passed {
                let end = chain.last().copied().unwrap_or(edge.from);
                chain.push(self.bend_after(end));
            }
            let chain = chain[..passed].to_vec();
            // Levels leave no edge within a column or backwards; should there be one, it does not steer the layout.
            if span > 0 {
                self.join(chain.last().copied().unwrap_or(edge.from), edge.to);
            }
            self.ways[index] = Way::Through(chain);
        }
        self.lanes = lanes.len();
    }

    fn bend_after(&mut self, slot: usize) -> usize {
        let bend = self.slots.len();
        let column = self.slots[slot].column + 1;
        self.slots.push(Slot { column, ..Slot::default() });
        self.columns[column].push(bend);
        self.join(slot, bend);
        bend
    }

    fn join(&mut self, before: usize, after: usize) {
        self.slots[before].after.push(after);
        self.slots[after].before.push(before);
    }

    /// What hangs together stands together, in the order of the run; what hangs on nothing comes last.
    fn order_by_component(&mut self) {
        let mut component = vec![usize::MAX; self.slots.len()];
        let mut open = Vec::new();
        for start in 0..self.boxes {
            let slot = &self.slots[start];
            if component[start] != usize::MAX || slot.before.is_empty() && slot.after.is_empty() {
                continue;
            }
            component[start] = start;
            open.push(start);
            while let Some(slot) = open.pop() {
                for next in self.slots[slot].before.iter().chain(&self.slots[slot].after) {
                    if component[*next] == usize::MAX {
                        component[*next] = start;
                        open.push(*next);
                    }
                }
            }
        }
        for column in &mut self.columns {
            column.sort_by_key(|slot| component[*slot]);
        }
    }
}

/// Rows before a level is broken into several columns, such that one level of everything is about as wide as high.
fn rows_max(states: usize) -> usize {
    // A column with its gap is about four rows wide.
    ROWS_MIN.max(states.saturating_mul(4).isqrt())
}

#[cfg(test)]
mod tests {
    use super::super::samples::{chain, picture};
    use super::*;

    #[test]
    fn an_edge_over_two_levels_bends_once_in_the_level_between() {
        let layers = Layers::of(&picture(&[0, 1, 2], &[(0, 1), (1, 2), (0, 2)]));
        assert_eq!(layers.ways[2], Way::Through(vec![3]));
        assert_eq!(layers.slots[3].column, 1);
        assert_eq!(layers.columns[1], [1, 3]);
        assert_eq!(layers.segments(), 4);
    }

    #[test]
    fn edges_of_one_kind_from_one_state_share_their_bends() {
        let layers = Layers::of(&picture(&[0, 1, 2, 3], &[(0, 1), (1, 2), (2, 3), (0, 2), (0, 3)]));
        assert_eq!(layers.ways[3], Way::Through(vec![4]));
        assert_eq!(layers.ways[4], Way::Through(vec![4, 5]));
    }

    #[test]
    fn a_level_of_many_states_takes_several_columns_side_by_side() {
        let layers = Layers::of(&picture(&[0; 100], &[]));
        assert_eq!(layers.levels, [Level { number: 0, first_column: 0, last_column: 4, states: 100 }]);
        assert!(layers.columns.iter().all(|column| column.len() == 20));
    }

    #[test]
    fn very_long_edges_take_a_lane_below() {
        let mut picture = chain(50);
        picture.edges.push(super::super::PictureEdge { from: 0, to: 49, kind: EdgeKind::Watch });
        let layers = Layers::of(&picture);
        assert_eq!(layers.ways[49], Way::Below(0));
        assert_eq!((layers.lanes, layers.slots.len()), (1, 50));
    }

    #[test]
    fn bends_stay_within_their_limit() {
        let mut picture = chain(4_000);
        for from in 0..3_970 {
            picture.edges.push(super::super::PictureEdge { from, to: from + 30, kind: EdgeKind::Watch });
        }
        let layers = Layers::of(&picture);
        assert!(layers.slots.len() - layers.boxes <= BENDS_MAX);
        assert!(layers.lanes > 0 && !layers.ways.contains(&Way::Nowhere));
    }

    #[test]
    fn an_edge_to_nowhere_is_left_out() {
        assert_eq!(Layers::of(&picture(&[0], &[(0, 7)])).ways, [Way::Nowhere]);
    }
}
