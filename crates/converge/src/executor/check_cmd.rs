//! `check_cmd`: what must pass before a state counts as in place (S-43).
//!
//! A kind that can be tried beforehand (a file) gets the commands as a [`CandidateCheck`]. For every other kind they run after the
//! change. Until they have passed the state is *unconfirmed*: the journal remembers it, and the next try or run asks
//! again even where nothing differs any more.

use super::StateExecutor;
use super::append_path::append_path;
use crate::journal::Journal;
use std::path::Path;
use zester_engine::{NodeId, Outcome};
use zester_host::process::BoxFuture;
use zester_host::{Exit, Fault, FaultKind};
use zester_model::limits::STDERR_TAIL_LINES;
use zester_model::outcome::Details;
use zester_model::program::State;
use zester_resources::context::{CandidateCheck, Change};
use zester_resources::{Bound, Explanation, shell_words};

/// An apply, and whether the state is in place since, as far as that was found out.
pub(super) struct Confirmed {
    pub(super) applied: Result<Change, Fault>,
    pub(super) unconfirmed: Option<bool>,
}

impl StateExecutor {
    /// Whether `check_cmd` has its say after the change.
    pub(super) fn confirms(state: &State, bound: &dyn Bound) -> bool {
        !state.attributes.check_cmd.is_empty() && !bound.check_cmd_first()
    }

    /// A dry run says what an apply would be refused for: commands that cannot be given a path.
    pub(super) fn refuse_check_cmd(state: &State, bound: &dyn Bound) -> Result<(), Fault> {
        let mut commands = state.attributes.check_cmd.iter().filter(|_| bound.check_cmd_first());
        commands.try_for_each(|command| append_path(command, "FILE").map(drop))
    }

    /// Nothing differs, and yet it is not in place: its `check_cmd` did not pass the last time.
    pub(super) fn is_unconfirmed(&self, state: &State, bound: &dyn Bound) -> bool {
        Self::confirms(state, bound)
            && match &self.journal {
                Some(journal) => journal.is_unconfirmed(state.name.as_str()),
                None => self.unconfirmed.contains(state.name.as_str()),
            }
    }

    /// An apply stands once the commands agree. Where they do not, what it did remains done.
    pub(super) async fn confirmed(
        &self,
        state: &State,
        bound: &dyn Bound,
        applied: Result<Change, Fault>,
    ) -> Confirmed {
        if !Self::confirms(state, bound) {
            return Confirmed { applied, unconfirmed: None };
        }
        let change = match applied {
            Ok(change) if change.changed || self.is_unconfirmed(state, bound) => change,
            Ok(change) => return Confirmed { applied: Ok(change), unconfirmed: None },
            Err(fault) => {
                let unconfirmed = fault.touched.then_some(true);
                return Confirmed { applied: Err(fault), unconfirmed };
            }
        };
        for command in &state.attributes.check_cmd {
            if let Err(fault) = self.passes(command, command, bound).await {
                let mut details = change.details;
                details.extend(*fault.details);
                let undo = change.undo.map(Box::new);
                let fault = Fault { details: Box::new(details), touched: change.changed, undo, ..fault };
                return Confirmed { applied: Err(fault), unconfirmed: Some(true) };
            }
        }
        Confirmed { applied: Ok(Change { changed: true, ..change }), unconfirmed: Some(false) }
    }

    /// A state that came to its end without a `check_cmd` has nothing left to be confirmed by.
    pub(super) fn forget_check_cmd(&self, journal: &Journal, node: NodeId, outcome: Outcome) {
        let Ok((state, bound)) = self.parts(node) else { return };
        let name = state.name.as_str();
        if !outcome.blocks() && !Self::confirms(state, bound.as_ref()) && journal.is_unconfirmed(name) {
            let noted = journal.set_unconfirmed(name, false);
            if let Err(error) = noted {
                self.observer.notice(&format!("the journal could not note the end of {name}: {error}"));
            }
        }
    }

    /// `shown` is what the user wrote, `command` what runs.
    async fn passes(&self, shown: &str, command: &str, bound: &dyn Bound) -> Result<(), Fault> {
        let exit = self.ask("check_cmd", command, bound).await?;
        if exit.code == Some(0) {
            return Ok(());
        }
        let message = format!("check_cmd `{}` did not exit 0{}", shown.trim_end(), said(&exit));
        Err(Fault::new(FaultKind::CommandFailed, message))
    }
}

/// What a command said last, where its reason usually stands.
fn said(exit: &Exit) -> String {
    let text = if exit.stderr.text.trim().is_empty() { &exit.stdout.text } else { &exit.stderr.text };
    let lines: Vec<&str> = text.trim_end().lines().collect();
    match lines.get(lines.len().saturating_sub(STDERR_TAIL_LINES)..) {
        Some(tail) if !tail.is_empty() => format!("\n{}", tail.join("\n")),
        _ => String::new(),
    }
}

/// The words for a state that only its `check_cmd` keeps from being in place.
pub(super) fn explain(done: bool) -> Explanation {
    let diff = match done {
        true => "in place: check_cmd passes now",
        false => "not in place: check_cmd did not pass the last time and would be run again",
    };
    let mut details = Details::new();
    if !done {
        details.insert("unconfirmed".into(), true.into());
    }
    Explanation { diff: diff.into(), details }
}

/// The commands of one state, for a kind that has them pass before it puts anything in place.
pub(super) struct CheckCmd<'a> {
    pub(super) executor: &'a StateExecutor,
    pub(super) state: &'a State,
    pub(super) bound: &'a dyn Bound,
}

impl CandidateCheck for CheckCmd<'_> {
    fn pass<'a>(&'a self, candidate: &'a Path) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let path = shell_words::quoted(&candidate.to_string_lossy());
            for command in &self.state.attributes.check_cmd {
                self.executor.passes(command, &append_path(command, &path)?, self.bound).await?;
            }
            Ok(())
        })
    }
}
