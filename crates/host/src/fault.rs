//! What went wrong with the machine: a kind to branch on, a sentence, a hint.

use std::fmt;
use std::path::Path;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    NotFound,
    Denied,
    /// Something of another sort is in the way.
    InTheWay,
    /// What is there is not what we left: somebody changed it since.
    ChangedSince,
    /// A command ended, but not as it should.
    CommandFailed,
    TimedOut,
    Canceled,
    /// The parameters cannot be carried out on this machine.
    Unsupported,
    Io,
}

/// A failure of one state, in words for its user.
#[derive(Debug)]
pub struct Fault {
    pub kind: FaultKind,
    /// One sentence in lower case, no full stop, naming the thing.
    pub message: String,
    pub hint: Option<String>,
    pub source: Option<std::io::Error>,
    /// What is known all the same: output of a command that failed, its exit code.
    /// Boxed, because every `Result` of the host carries room for one of these.
    pub details: Box<zester_model::outcome::Details>,
    /// The machine was altered before it failed: a change to whoever watches the state (S-43).
    pub touched: bool,
    /// What was really done, where it is not what the drift had announced: takes its place in the undo record.
    pub undo: Option<Box<serde_json::Value>>,
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Fault {
        Fault {
            kind,
            message: message.into(),
            hint: None,
            source: None,
            details: Default::default(),
            touched: false,
            undo: None,
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }

    pub fn details(mut self, details: zester_model::outcome::Details) -> Fault {
        self.details = Box::new(details);
        self
    }

    /// Something was done before it failed. Writing files through a `HostWrite` is noticed by itself; who acts by commands
    /// says so.
    pub fn touched(mut self) -> Fault {
        self.touched = true;
        self
    }

    /// Something was done before it failed, and this is what it takes to undo it.
    pub fn having_done(mut self, undo: serde_json::Value) -> Fault {
        self.undo = Some(Box::new(undo));
        self.touched()
    }

    /// What was looked at is not what is there now.
    pub fn changed_meanwhile(path: &Path) -> Fault {
        let message = format!("{} changed while it was looked at", path.display());
        Fault::new(FaultKind::ChangedSince, message).hint("run it again")
    }

    /// Wraps an IO error: what we were doing ("write", "read the link") and to which path.
    pub fn io(doing: &str, path: &Path, error: std::io::Error) -> Fault {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => FaultKind::NotFound,
            std::io::ErrorKind::PermissionDenied => FaultKind::Denied,
            _ => FaultKind::Io,
        };
        let message = format!("cannot {doing} {}: {}", path.display(), plain(&error));
        Fault { source: Some(error), ..Fault::new(kind, message) }
    }

    /// The same, for one more state that it stops: what several wanted at once fails for all of them.
    pub fn shared(&self) -> Fault {
        Fault {
            kind: self.kind,
            message: self.message.clone(),
            hint: self.hint.clone(),
            source: None,
            details: self.details.clone(),
            touched: self.touched,
            undo: self.undo.clone(),
        }
    }

    pub fn canceled() -> Fault {
        Fault::new(FaultKind::Canceled, "canceled")
    }
}

/// The system's words without the `(os error 2)`.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(out, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Fault {}
