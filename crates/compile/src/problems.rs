//! The problems of one compile, up to a bound.

use zester_model::limits;
use zester_model::problem::{Kind, Problem};

#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Problem>,
    more: usize,
}

impl Problems {
    pub fn push(&mut self, problem: Problem) {
        if self.list.len() >= limits::PROBLEMS_MAX {
            self.more += 1;
        } else if !self.list.contains(&problem) {
            // One declaration that `names` expands says the same thing only once.
            self.list.push(problem);
        }
    }

    pub fn extend(&mut self, problems: Vec<Problem>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Whether looking for further details (suggestions) still pays.
    pub fn is_full(&self) -> bool {
        self.list.len() >= limits::PROBLEMS_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there were, those past the bound included.
    pub fn count(&self) -> usize {
        self.list.len() + self.more
    }

    pub fn finish(mut self) -> Vec<Problem> {
        if self.more > 0 {
            let kind = self.list.last().map_or(Kind::State, |last| last.kind);
            self.list.push(Problem::new(kind, format!("and {} more problems", self.more)));
        }
        self.list
    }
}
