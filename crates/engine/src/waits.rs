//! Who declares a prereq also waits for what its target waits for, so that the gate sees what the target will see
//! (S-15). Order only, and only as far as that makes no cycle.

use crate::graph::NodeSpec;
use std::collections::HashSet;
use zester_model::requisite::EdgeKind;

/// Adds the order edges. Looks at nothing where there is no prereq.
pub(crate) fn add(specs: &mut [NodeSpec]) {
    if specs.iter().all(|spec| spec.prereq.is_empty()) {
        return;
    }
    let mut needed_by: Vec<Vec<usize>> = vec![Vec::new(); specs.len()];
    for (node, spec) in specs.iter().enumerate() {
        spec.edges.iter().for_each(|(target, _)| needed_by[*target].push(node));
    }
    for node in ends_first(specs) {
        let behind = dependents(node, &needed_by);
        let mut known: HashSet<usize> = specs[node].edges.iter().map(|(target, _)| *target).collect();
        let targets = specs[node].prereq.clone();
        let wanted: Vec<usize> = targets
            .iter()
            .flat_map(|target| specs[*target].edges.iter().map(|(needed, _)| *needed))
            .collect();
        for needed in wanted {
            if !behind.contains(&needed) && known.insert(needed) {
                specs[node].edges.push((needed, EdgeKind::Order));
                needed_by[needed].push(node);
            }
        }
    }
}

/// Those that declare a prereq, each after its targets: what a target came to wait for is passed on.
fn ends_first(specs: &[NodeSpec]) -> Vec<usize> {
    let mut order = Vec::new();
    let mut seen = vec![false; specs.len()];
    for start in (0..specs.len()).filter(|node| !specs[*node].prereq.is_empty()) {
        let mut path = Vec::new();
        if !std::mem::replace(&mut seen[start], true) {
            path.push((start, 0));
        }
        while let Some((node, next)) = path.last_mut() {
            match specs[*node].prereq.get(*next).copied() {
                Some(target) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[target], true) {
                        path.push((target, 0));
                    }
                }
                None => order.extend(path.pop().map(|(node, _)| node)),
            }
        }
    }
    order
}

/// The node itself and all that wait for it, directly or not: to wait for one of these would be a cycle.
fn dependents(node: usize, needed_by: &[Vec<usize>]) -> HashSet<usize> {
    let mut found = HashSet::from([node]);
    let mut rest = vec![node];
    while let Some(node) = rest.pop() {
        rest.extend(needed_by[node].iter().copied().filter(|next| found.insert(*next)));
    }
    found
}
