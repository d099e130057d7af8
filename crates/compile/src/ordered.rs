//! `order` edges (S-38, S-40): states of one file wait for the one declared before them.
//!
//! Requisites win over the order on the page, as they do in Salt: the states are first sorted so that requisites hold
//! and, where they leave a choice, the declaration decides; the chain of each file follows that sort. So an order edge
//! never closes a cycle that the requisites did not close themselves. `order: first` and `order: last` go before and
//! after all others of their file, as far as requisites let them.

use crate::attributes::{ORDER_FIRST, ORDER_LAST};
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
    for index in sorted(states, &ranks(states)) {
        let Some(draft) = drafts.get(index).filter(|draft| draft.ordered) else { continue };
        if let (Some(before), Some(state)) = (last.insert(draft.file, index), states.get_mut(index)) {
            let span = state.span;
            if !state.edges.iter().any(|edge| edge.target == before) {
                state.edges.push(Edge { target: before, kind: EdgeKind::Order, span });
            }
        }
    }
}

/// Who goes early and who goes late. What a state waits for is no later than the state itself: something that has to
/// be last cannot hold up what has not.
fn ranks(states: &[State]) -> Vec<i8> {
    let wish = |state: &State| match state.attributes.order {
        ORDER_FIRST => -1,
        ORDER_LAST => 1,
        _ => 0,
    };
    let mut ranks: Vec<i8> = states.iter().map(wish).collect();
    if ranks.iter().all(|rank| *rank == 0) {
        return ranks;
    }
    for index in sorted(states, &vec![0; states.len()]).into_iter().rev() {
        let (Some(state), Some(rank)) = (states.get(index), ranks.get(index).copied()) else { continue };
        for edge in &state.edges {
            if let Some(before) = ranks.get_mut(edge.target) {
                *before = rank.min(*before);
            }
        }
    }
    ranks
}

/// All states in an order that their edges allow, by rank and then as declared; what a cycle holds back comes last.
fn sorted(states: &[State], ranks: &[i8]) -> Vec<usize> {
    let place = |index: usize| Reverse((ranks.get(index).copied().unwrap_or(0), index));
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
    let mut heap: BinaryHeap<Reverse<(i8, usize)>> = ready.map(|(index, _)| place(index)).collect();
    let mut order = Vec::with_capacity(states.len());
    while let Some(Reverse((_, index))) = heap.pop() {
        order.push(index);
        for dependent in dependents.get(index).into_iter().flatten() {
            if let Some(count) = waits.get_mut(*dependent) {
                *count -= 1;
                if *count == 0 {
                    heap.push(place(*dependent));
                }
            }
        }
    }
    let held = waits.iter().enumerate().filter(|(_, count)| **count > 0).map(|(index, _)| index);
    order.extend(held.collect::<Vec<_>>());
    order
}
