//! `order` edges (S-38, S-40): states of one file wait for the one declared before them.
//!
//! Requisites win over the order on the page, as they do in Salt: the states are first sorted so that requisites hold
//! and, where they leave a choice, the declaration decides; the chain of each file follows that sort. So an order edge
//! never closes a cycle that the requisites did not close themselves.

use crate::declare::Draft;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use zester_model::program::{Edge, State};
use zester_model::requisite::EdgeKind;

/// Adds the order edges. `drafts` and `states` run in step.
pub fn chain(drafts: &[Draft], states: &mut [State]) {
    if !drafts.iter().any(|draft| draft.ordered) {
        return;
    }
    let mut last: HashMap<usize, usize> = HashMap::new();
    for index in sorted(states) {
        let Some(draft) = drafts.get(index).filter(|draft| draft.ordered) else { continue };
        if let (Some(before), Some(state)) = (last.insert(draft.file, index), states.get_mut(index)) {
            let span = state.span;
            if !state.edges.iter().any(|edge| edge.target == before) {
                state.edges.push(Edge { target: before, kind: EdgeKind::Order, span });
            }
        }
    }
}

/// All states in an order that their edges allow; what a cycle holds back comes last, as declared.
fn sorted(states: &[State]) -> Vec<usize> {
    let mut waits: Vec<usize> = states.iter().map(|state| state.edges.len()).collect();
    let mut dependents: Vec<Vec<usize>> = vec![Vec::new(); states.len()];
    for (index, state) in states.iter().enumerate() {
        for edge in &state.edges {
            if let Some(list) = dependents.get_mut(edge.target) {
                list.push(index);
            }
        }
    }
    let ready = waits.iter().enumerate().filter(|(_, count)| **count == 0);
    let mut heap: BinaryHeap<Reverse<usize>> = ready.map(|(index, _)| Reverse(index)).collect();
    let mut order = Vec::with_capacity(states.len());
    while let Some(Reverse(index)) = heap.pop() {
        order.push(index);
        for dependent in dependents.get(index).into_iter().flatten() {
            if let Some(count) = waits.get_mut(*dependent) {
                *count -= 1;
                if *count == 0 {
                    heap.push(Reverse(*dependent));
                }
            }
        }
    }
    let held = waits.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, _)| index);
    order.extend(held.collect::<Vec<_>>());
    order
}
