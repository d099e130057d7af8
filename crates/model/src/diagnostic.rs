//! What is wrong with what the user wrote, and where.

use crate::source::{Sources, Span};
use serde::Serialize;

/// What sort of problem it is, to branch on and to print in JSON.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file, reference, include or import that cannot be found, read or may not be reached.
    Reference,
    /// The template could not be rendered.
    Template,
    /// The rendered text is not the YAML we read.
    Yaml,
    /// A module, parameter, type or value that a state may not have.
    State,
    /// A requisite target, a duplicate name or a cycle.
    Dag,
    /// A target expression.
    Target,
    /// Settings or facts given on the command line.
    Settings,
    /// A configuration file.
    Config,
    /// A template asks something of its own machine, and is rendered on another: nobody can tell here.
    Elsewhere,
    /// Advice of `lint`; never stops a run.
    Lint,
}

/// A second place that belongs to a problem, with what it has to do with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Label {
    pub span: Span,
    pub text: String,
}

/// One problem: a sentence, the place it points at, and what to do about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    pub kind: Kind,
    /// One sentence, lower case, no full stop, without the hint.
    pub message: String,
    pub span: Option<Span>,
    /// Stands under the caret: short, often "did you mean `content`?".
    pub hint: Option<String>,
    // Boxed slices: an error travels through every step of the compiler, and is to be small.
    pub labels: Box<[Label]>,
    /// Further lines under the snippet: where it was rendered from, which command helps.
    pub notes: Box<[String]>,
    /// Which difference from Salt it is about: a row of `compile::differences` (S-56).
    pub code: Option<&'static str>,
}

/// One more at the end.
fn and<T>(slice: Box<[T]>, one: T) -> Box<[T]> {
    slice.into_iter().chain([one]).collect()
}

impl Diagnostic {
    pub fn new(kind: Kind, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            kind,
            message: message.into(),
            span: None,
            hint: None,
            labels: Box::default(),
            notes: Box::default(),
            code: None,
        }
    }

    pub fn at(mut self, span: Span) -> Diagnostic {
        self.span = Some(span);
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Diagnostic {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint where there is one.
    pub fn maybe_hint(mut self, hint: Option<String>) -> Diagnostic {
        if hint.is_some() {
            self.hint = hint;
        }
        self
    }

    pub fn label(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels = and(self.labels, Label { span, text: text.into() });
        self
    }

    pub fn code(mut self, code: &'static str) -> Diagnostic {
        self.code = Some(code);
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes = and(self.notes, note.into());
        self
    }

    /// The JSON form of C-3: the message there contains the hint.
    pub fn report(&self, sources: &Sources) -> Report {
        let labels =
            self.labels.iter().map(|label| format!("{} ({})", label.text, sources.place(label.span)));
        let mut message = self.message.clone();
        for extra in self.hint.iter().cloned().chain(labels).chain(self.notes.iter().cloned()) {
            message.push_str("; ");
            message.push_str(&extra);
        }
        Report {
            kind: self.kind,
            message,
            file: self.span.map(|span| sources.path(span.file).to_string()),
            line: self.span.map(|span| span.line),
            column: self.span.map(|span| span.column),
            hint: self.hint.clone(),
            code: self.code,
        }
    }
}

/// A problem as machines read it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub kind: Kind,
    pub message: String,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub hint: Option<String>,
    /// Which difference from Salt it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
}
