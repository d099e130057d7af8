//! What a command comes back with.

use crate::exit::Exit;
use serde_json::Value as Json;
use std::sync::Arc;
pub use zester_converge::document::diagnostics as problems_document;
use zester_converge::plan::Plan;
use zester_converge::{Error, document};
use zester_model::diagnostic::Diagnostic;
use zester_model::outcome::RunResult;
use zester_model::source::Sources;

/// The answer of a command, before anybody decided how it looks.
pub enum Answer {
    /// A run ended; the live view has already shown its states where there was one.
    /// `undoable`: it left something that a revert could undo.
    Run { result: Box<RunResult>, plan: Option<Arc<Plan>>, undoable: bool },
    /// A document for machines, and the same for people.
    Document { json: Json, text: String },
    /// Text in every format: a picture, a script, a page.
    Text(String),
    /// Problems that `lint` found; `checked` says in how much.
    Diagnostics { diagnostics: Vec<Diagnostic>, sources: Box<Sources>, checked: usize },
}

/// Why there is no answer.
#[derive(Debug)]
pub struct Failure {
    pub error: Error,
    pub exit: Exit,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        // A deadline is a failure of the run, not of its words (C-3).
        let exit = if matches!(error, Error::TimedOut { .. }) { Exit::Failed } else { Exit::Usage };
        Failure { error, exit }
    }
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Failure {
        Error::other(message).into()
    }

    /// The error document of C-3.
    pub fn document(&self) -> Json {
        document::of_error(&self.error)
    }
}

/// What every command returns: its answer, and how the process ends.
pub type Result = std::result::Result<(Answer, Exit), Failure>;
