//! What a picture has in it, for headings and legends.

use super::palette::{KINDS, OUTCOMES};
use super::{Picture, StateOutcome};
use zester_model::requisite::EdgeKind;

pub struct Census {
    pub states: usize,
    pub levels: usize,
    pub edges: usize,
    /// Those present, in the order of legends.
    pub fates: Vec<(StateOutcome, usize)>,
    /// Those present, in the order of legends.
    pub kinds: Vec<EdgeKind>,
}

impl Census {
    pub fn of(picture: &Picture) -> Census {
        let mut levels: Vec<usize> = picture.nodes.iter().map(|node| node.level).collect();
        levels.sort_unstable();
        levels.dedup();
        let with =
            |outcome: StateOutcome| picture.nodes.iter().filter(|node| node.outcome == outcome).count();
        Census {
            states: picture.nodes.len(),
            levels: levels.len(),
            edges: picture.edges.len(),
            fates: OUTCOMES
                .into_iter()
                .map(|outcome| (outcome, with(outcome)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            kinds: KINDS
                .into_iter()
                .filter(|kind| picture.edges.iter().any(|edge| edge.kind == *kind))
                .collect(),
        }
    }

    /// Whether any state met its fate; without a run there is nothing to explain about colours.
    pub fn has_run(&self) -> bool {
        self.fates.iter().any(|(outcome, _)| *outcome != StateOutcome::Unknown)
    }

    /// `25 states, 6 levels, 31 edges`
    pub fn sentence(&self) -> String {
        if self.states == 0 {
            return "no states".into();
        }
        [counted(self.states, "state"), counted(self.levels, "level"), counted(self.edges, "edge")].join(", ")
    }
}

pub fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// What a legend calls a fate.
pub fn outcome_name(outcome: StateOutcome) -> &'static str {
    match outcome {
        StateOutcome::Unknown => "not in the run",
        known => super::palette::outcome_word(known),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::picture;
    use super::*;

    #[test]
    fn only_what_is_present_is_counted() {
        let mut sample = picture(&[0, 0, 1], &[(0, 2)]);
        assert!(!Census::of(&sample).has_run());
        sample.nodes[1].outcome = StateOutcome::Failed;
        let census = Census::of(&sample);
        assert_eq!(census.sentence(), "3 states, 2 levels, 1 edge");
        assert_eq!(census.fates, [(StateOutcome::Failed, 1), (StateOutcome::Unknown, 2)]);
        assert_eq!(census.kinds, [EdgeKind::Require]);
        assert!(census.has_run());
    }
}
