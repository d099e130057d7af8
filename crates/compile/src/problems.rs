//! The problems of one compile, up to a bound, each line of the user's once.

use zester_model::limits;
use zester_model::problem::{Kind, Problem};
use zester_model::source::FileId;

#[derive(Debug, Default)]
pub struct Problems {
    list: Vec<Found>,
    more: usize,
}

#[derive(Debug)]
struct Found {
    problem: Problem,
    /// How often it came again: a loop or `names` makes many states of one line.
    again: usize,
}

impl Found {
    /// Whether this is the same mistake: of the graph, also when it concerns another state of the same line.
    fn is(&self, other: &Problem) -> bool {
        let here = &self.problem;
        let place = here.span.is_some()
            && here.span == other.span
            && here.kind == other.kind
            && here.hint == other.hint;
        place && (here.message == other.message || here.kind == Kind::Dag)
    }
}

impl Problems {
    pub fn push(&mut self, problem: Problem) {
        if let Some(known) = self.list.iter_mut().find(|known| known.is(&problem)) {
            known.again += 1;
        } else if self.list.len() >= limits::PROBLEMS_MAX {
            self.more += 1;
        } else {
            self.list.push(Found { problem, again: 0 });
        }
    }

    pub fn extend(&mut self, problems: Vec<Problem>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Whether looking for further details (suggestions) still pays.
    pub fn is_full(&self) -> bool {
        self.list.len() >= limits::PROBLEMS_MAX
    }

    /// Whether a file was told that it has a key twice.
    pub fn has_key_twice(&self, key: &str, file: FileId) -> bool {
        let message = format!("duplicate key `{key}`");
        let told = self.list.iter().map(|found| &found.problem);
        told.filter(|it| it.kind == Kind::Yaml && it.message == message)
            .any(|it| it.span.is_some_and(|at| at.file == file))
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there were, those past the bound and those that came again included.
    pub fn count(&self) -> usize {
        self.list.iter().map(|found| 1 + found.again).sum::<usize>() + self.more
    }

    pub fn finish(self) -> Vec<Problem> {
        let mut list: Vec<Problem> = self.list.into_iter().map(noted).collect();
        if self.more > 0 {
            let kind = list.last().map_or(Kind::State, |last| last.kind);
            list.push(Problem::new(kind, format!("and {} more problems", self.more)));
        }
        list
    }
}

fn noted(found: Found) -> Problem {
    match found.again {
        0 => found.problem,
        1 => found.problem.note("the same for 1 more state from this line"),
        again => found.problem.note(format!("the same for {again} more states from this line")),
    }
}
