//! Pictures for tests.

use super::{Picture, PictureEdge, PictureNode, StateOutcome};
use zester_model::requisite::EdgeKind;

pub fn node(name: &str, level: usize) -> PictureNode {
    let place = format!("states/web/init.zy:{}", level + 1);
    PictureNode {
        name: name.to_string(),
        level,
        place,
        outcome: StateOutcome::Unknown,
        remark: String::new(),
    }
}

/// States at these levels, joined by `require`.
pub fn picture(levels: &[usize], edges: &[(usize, usize)]) -> Picture {
    Picture {
        title: "web".into(),
        nodes: levels
            .iter()
            .enumerate()
            .map(|(at, level)| node(&format!("test.nop:state {at}"), *level))
            .collect(),
        edges: edges
            .iter()
            .map(|(from, to)| PictureEdge { from: *from, to: *to, kind: EdgeKind::Require })
            .collect(),
    }
}

pub fn chain(length: usize) -> Picture {
    let levels: Vec<usize> = (0..length).collect();
    let edges: Vec<(usize, usize)> = (1..length).map(|to| (to - 1, to)).collect();
    picture(&levels, &edges)
}

/// A graph without a plan behind it: the same for the same arguments, of several kinds and spans.
pub fn tangle(states: usize, levels: usize, edges_each: usize) -> Picture {
    const KINDS: [EdgeKind; 4] = [EdgeKind::Require, EdgeKind::Watch, EdgeKind::Onchanges, EdgeKind::Order];
    let mut seed = 12_345_u64;
    let mut draw = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap_or(0) % below.max(1)
    };
    let level_of = |state: usize| state * levels / states;
    let mut sample = picture(&(0..states).map(level_of).collect::<Vec<_>>(), &[]);
    for to in 0..states {
        let earlier = (level_of(to) * states).div_ceil(levels);
        for _ in 0..if earlier > 0 { edges_each } else { 0 } {
            // Mostly from nearby, as people write it, and sometimes from anywhere before.
            let from = if draw(5) == 0 {
                draw(earlier)
            } else {
                earlier - 1 - draw(earlier.min(2 * states / levels))
            };
            sample.edges.push(PictureEdge { from, to, kind: KINDS[draw(KINDS.len())] });
        }
    }
    sample
}
