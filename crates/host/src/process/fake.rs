//! Commands that answer from a script: recorded output of real tools, for tests of what shells out.

use super::{BoxFuture, Captured, Exit, Launch, OutputSink, Processes, Program};
use crate::fault::{Fault, FaultKind};
use std::sync::{Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

type Answer = Box<dyn Fn(&Launch) -> Option<Result<Exit, Fault>> + Send + Sync>;

/// Answers launches by rules, the first that fits; remembers what was run. A launch that no rule knows is a
/// fault.
#[derive(Default)]
pub struct Scripted {
    rules: Vec<Answer>,
    ran: Mutex<Vec<String>>,
}

impl Scripted {
    pub fn new() -> Scripted {
        Scripted::default()
    }

    /// A command line that begins with `words` (a shell text counts as its words) answers with this exit.
    pub fn on(self, words: &str, exit: Exit) -> Scripted {
        let words = words.to_string();
        self.with(move |launch| {
            let line = command_line(launch);
            let fits = line == words || line.strip_prefix(&words).is_some_and(|rest| rest.starts_with(' '));
            fits.then(|| Ok(exit.clone()))
        })
    }

    /// Any rule: `None` passes the launch on to the next one.
    pub fn with(
        mut self,
        rule: impl Fn(&Launch) -> Option<Result<Exit, Fault>> + Send + Sync + 'static,
    ) -> Scripted {
        self.rules.push(Box::new(rule));
        self
    }

    /// The command lines that were run, in order.
    pub fn ran(&self) -> Vec<String> {
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The words of a launch in one line, for rules and messages.
pub fn command_line(launch: &Launch) -> String {
    match &launch.program {
        Program::Shell(text) => text.clone(),
        Program::Argv(words) => words.join(" "),
    }
}

/// An exit with a code and what was printed.
pub fn exit(code: i32, stdout: &str, stderr: &str) -> Exit {
    let captured = |text: &str| Captured { text: text.to_string(), lossy: false, truncated: false };
    Exit { pid: 1, code: Some(code), stdout: captured(stdout), stderr: captured(stderr), ..Exit::default() }
}

impl Processes for Scripted {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        let line = command_line(launch);
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
        let answer = self.rules.iter().find_map(|rule| rule(launch));
        let answer = answer.unwrap_or_else(|| {
            Err(Fault::new(FaultKind::NotFound, format!("nothing is scripted for the command `{line}`")))
        });
        if let (Ok(exit), Some(live)) = (&answer, live) {
            exit.stdout.text.lines().chain(exit.stderr.text.lines()).for_each(|line| live(line));
        }
        Box::pin(std::future::ready(answer))
    }
}
