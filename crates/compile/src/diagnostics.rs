//! The problems of one compile, up to a bound, each line of the user's once.

use crate::differences;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::source::{FileId, Span};

#[derive(Debug, Default)]
pub struct Diagnostics {
    list: Vec<Counted>,
    more: usize,
    /// What runs all the same and is seldom meant, or means something else than in Salt.
    advice: Vec<Diagnostic>,
    /// What runs all the same and means something else than in Salt, by a row of the table.
    differing: Vec<Diagnostic>,
}

#[derive(Debug)]
struct Counted {
    diagnostic: Diagnostic,
    /// How often it came again: a loop or `names` makes many states of one line.
    again: usize,
}

impl Counted {
    /// Whether this is the same mistake: of the graph, also when it concerns another state of the same line.
    fn is(&self, other: &Diagnostic) -> bool {
        let here = &self.diagnostic;
        let place = here.span.is_some()
            && here.span == other.span
            && here.kind == other.kind
            && here.hint == other.hint;
        place && (here.message == other.message || here.kind == Kind::Dag)
    }
}

impl Diagnostics {
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if let Some(known) = self.list.iter_mut().find(|known| known.is(&diagnostic)) {
            known.again += 1;
        } else if self.list.len() >= limits::DIAGNOSTICS_MAX {
            self.more += 1;
        } else {
            self.list.push(Counted { diagnostic, again: 0 });
        }
    }

    /// Notes what stops nothing; each place once.
    pub fn advise(&mut self, diagnostic: Diagnostic) {
        let known =
            self.advice.iter().any(|known| known.span == diagnostic.span && known.code == diagnostic.code);
        if !known && self.advice.len() < limits::DIAGNOSTICS_MAX {
            self.advice.push(Diagnostic { kind: Kind::Lint, ..diagnostic });
        }
    }

    /// Notes a construct that means something else than in Salt; each place once for each row.
    pub fn differs(&mut self, row: &'static str, at: Span) {
        let known = self.differing.iter().any(|known| known.span == Some(at) && known.code == Some(row));
        if let Some(row) =
            differences::find(row).filter(|_| !known && self.differing.len() < limits::DIAGNOSTICS_MAX)
        {
            let message = format!("{} means something else here", row.about);
            self.differing.push(Diagnostic::new(Kind::Lint, message).at(at).hint(row.instead).code(row.id));
        }
    }

    pub fn take_differing(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.differing)
    }

    pub fn take_advice(&mut self) -> Vec<Diagnostic> {
        std::mem::take(&mut self.advice)
    }

    pub fn extend(&mut self, diagnostics: Vec<Diagnostic>) {
        diagnostics.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }

    /// Whether looking for further details (suggestions) still pays.
    pub fn is_full(&self) -> bool {
        self.list.len() >= limits::DIAGNOSTICS_MAX
    }

    /// Whether a file was told that it has a key twice.
    pub fn has_key_twice(&self, key: &str, file: FileId) -> bool {
        let message = format!("duplicate key `{key}`");
        let told = self.list.iter().map(|found| &found.diagnostic);
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

    pub fn finish(self) -> Vec<Diagnostic> {
        let mut list: Vec<Diagnostic> = self.list.into_iter().map(noted).collect();
        if self.more > 0 {
            let kind = list.last().map_or(Kind::State, |last| last.kind);
            list.push(Diagnostic::new(kind, format!("and {} more problems", self.more)));
        }
        list
    }
}

fn noted(found: Counted) -> Diagnostic {
    match found.again {
        0 => found.diagnostic,
        1 => found.diagnostic.note("the same for 1 more state from this line"),
        again => found.diagnostic.note(format!("the same for {again} more states from this line")),
    }
}
