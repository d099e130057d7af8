//! What it takes to run a command, and what comes back.
//!
//! [`Runner`] runs commands on this machine; [`fake::Scripted`] answers from recorded output. What becomes of
//! the processes that a command starts is told in [`tree`].

mod cgroup;
mod commands;
mod descriptors;
pub mod fake;
mod find;
mod leftovers;
mod output;
pub mod query;
pub mod read_tools;
mod reaper;
mod runner;
mod setup;
mod spawn;
mod table;
pub mod tree;

pub use leftovers::{kill_leftovers, scratch_name};
pub use query::{Query, Question};
pub use runner::Runner;

use crate::fault::{Fault, FaultKind};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_model::limits::{OUTPUT_BYTES_KEPT, STDERR_TAIL_LINES};
use zester_secret::Secrets;

/// How the words of a command become a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// `/bin/sh -c TEXT`
    Shell(String),
    /// A program, looked up in PATH unless it holds a slash, and its arguments. No shell.
    Argv(Vec<String>),
}

/// One command to run.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: Program,
    pub cwd: Option<PathBuf>,
    /// Added to the inherited environment.
    pub environment: Vec<(String, String)>,
    /// PATH for the look-up and for the child.
    pub path: Option<String>,
    pub stdin: Option<Vec<u8>>,
    pub umask: Option<u32>,
    /// Run as this user, with its groups.
    pub user: Option<String>,
    pub timeout: Option<Duration>,
    /// A transaction that must not be cut (a package manager): cancel and timeout wait for its end.
    pub uninterruptible: bool,
    /// Bytes of each output that are kept; of more, the head and the tail.
    pub output_kept: usize,
    /// What it leaves in the background is ended with it, instead of living on.
    pub leaves_nothing: bool,
    /// What the placeholders in its environment and input stand for: the child gets the secrets, nobody else does.
    pub secrets: Option<Arc<Secrets>>,
    /// Its output is shown to people, without a trace of the secrets; otherwise their placeholders are in it again.
    pub hides_secrets: bool,
}

impl Launch {
    pub fn new(program: Program) -> Launch {
        Launch {
            program,
            cwd: None,
            environment: Vec::new(),
            path: None,
            stdin: None,
            umask: None,
            user: None,
            timeout: None,
            uninterruptible: false,
            output_kept: OUTPUT_BYTES_KEPT,
            leaves_nothing: false,
            secrets: None,
            hides_secrets: false,
        }
    }

    pub fn argv<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Launch {
        Launch::new(Program::Argv(words.into_iter().map(Into::into).collect()))
    }

    pub fn shell(text: impl Into<String>) -> Launch {
        Launch::new(Program::Shell(text.into()))
    }
}

/// Output that was kept: head and tail, with a mark where something was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    pub text: String,
    /// It was not UTF-8 and had to be mended.
    pub lossy: bool,
    pub truncated: bool,
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub pid: u32,
    /// `None` when a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Captured,
    pub stderr: Captured,
    pub timed_out: bool,
    /// We were told to stop; the process tree is gone (or, uninterruptible, ran to its end).
    pub canceled: bool,
    /// Processes that outlived even SIGKILL, because the kernel holds them (a dead NFS server). Empty but for
    /// that.
    pub survivors: Vec<u32>,
}

impl Exit {
    /// The failure of a command that ended, but not as it should: how it ended, and its last words.
    pub fn failure(&self, command: &str) -> Fault {
        let text = if self.stderr.text.trim().is_empty() { &self.stdout.text } else { &self.stderr.text };
        let lines: Vec<&str> = text.trim_end().lines().collect();
        let tail = lines[lines.len().saturating_sub(STDERR_TAIL_LINES)..].join("\n");
        let ended = match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, signal) => format!("signal {}", signal.unwrap_or_default()),
        };
        let words = if tail.is_empty() { String::new() } else { format!(": {tail}") };
        Fault::new(FaultKind::CommandFailed, format!("{command} failed with {ended}{words}"))
    }
}

/// Takes each line of output as it comes, for the log and the live view.
pub type OutputSink = Arc<dyn Fn(&str) + Send + Sync>;

/// A future that may be moved between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Runs commands. A command waits without holding a thread.
pub trait Processes: Send + Sync {
    /// Runs one command to its end. What keeps it from starting (no such program, directory or user) is a
    /// fault; however it ends once started is an [`Exit`]. Cancelled before it started: a fault of kind
    /// `Canceled`.
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>>;

    /// For the end of a cancelled run, after every `run` has come back: ends what slipped out of its
    /// command's tree, and returns the processes that could not be ended. See [`tree`].
    fn kill_everything(&self) -> BoxFuture<'_, Vec<u32>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}
