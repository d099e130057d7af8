//! What keeps a run from taking place at all. What fails inside a run is a state's result, not one of these.

use std::fmt;
use std::path::Path;
use std::time::Duration;
use zester_model::diagnostic::Diagnostic;
use zester_model::source::Sources;

#[derive(Debug)]
pub enum Error {
    /// What the user wrote does not compile; every problem is here.
    Diagnostics { diagnostics: Vec<Diagnostic>, sources: Box<Sources> },
    /// Another run holds the data dir and we were told not to wait.
    Locked { holder: String },
    /// We were told to stop before anything ran.
    Canceled,
    /// Its time was over before anything ran: it may have waited for another run.
    TimedOut { after: Duration, waiting_for: String },
    /// Anything else: one sentence.
    Other(String),
}

impl Error {
    pub fn other(message: impl Into<String>) -> Error {
        Error::Other(message.into())
    }

    pub fn io(doing: &str, path: &Path, error: std::io::Error) -> Error {
        Error::Other(zester_host::Fault::io(doing, path, error).message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Diagnostics { diagnostics, .. } => write!(out, "{} problems", diagnostics.len()),
            Error::Locked { holder } => write!(out, "another run is under way: {holder}"),
            Error::Canceled => out.write_str("canceled"),
            Error::TimedOut { after, waiting_for } if waiting_for.is_empty() => {
                write!(out, "timeout: canceled after {after:?}")
            }
            Error::TimedOut { after, waiting_for } => {
                write!(out, "timeout: after {after:?} another run was still under way: {waiting_for}")
            }
            Error::Other(message) => out.write_str(message),
        }
    }
}

impl std::error::Error for Error {}
