//! The hands of an apply or a check: guards, checks, applies, each as a task.
//!
//! In check mode the resources look through an overlay, so that what an earlier state would create counts as there
//! (S-30), and nothing they are given can write.

use crate::drive::{Hands, Observer, Report};
use crate::inputs::Shelf;
use crate::journal::{Ended, Intent, Journal};
use crate::machine::Machine;
use crate::plan::Plan;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use zester_engine::{Command, Force, Graph, NodeId, Outcome, Run};
use zester_host::overlay::Overlay;
use zester_host::process::Later;
use zester_host::{Fault, FaultKind, Launch, Live, Look, Noting};
use zester_model::limits;
use zester_model::outcome::Mode;
use zester_model::program::State;
use zester_resources::resource::{Applying, Change, Checking, Forced};
use zester_resources::{Bound, Drift};

/// Everything the tasks of one run share.
pub struct StateHands {
    pub plan: Arc<Plan>,
    pub graph: Arc<Graph>,
    pub machine: Machine,
    pub shelf: Shelf,
    /// In check mode: the machine as it would be.
    pub overlay: Option<Arc<Overlay>>,
    /// In apply mode.
    pub journal: Option<Arc<Journal>>,
    pub cancel: CancellationToken,
    pub observer: Arc<dyn Observer>,
    /// What each check found, until its apply takes it.
    pub drifts: Mutex<HashMap<NodeId, Drift>>,
    /// In check mode: the commands that would have run, whose effects nobody can foresee.
    pub unforeseen: Mutex<HashSet<NodeId>>,
}

impl Hands for StateHands {
    fn carry_out(self: Arc<Self>, command: Command) -> Later<'static, Report> {
        Box::pin(async move {
            match command {
                Command::Probe { target, .. } => self.probe(target).await,
                Command::Guard(node) => Report::plain(self.guard(node).await),
                Command::Check { node, forced } => self.check(node, forced.as_ref()).await,
                Command::Apply { node, .. } => self.apply(node).await,
                Command::Wait { interval, .. } => {
                    tokio::select! {
                        _ = self.cancel.cancelled() => {}
                        _ = tokio::time::sleep(interval) => {}
                    }
                    Report::plain(Ok(true))
                }
                _ => Report::plain(Err(Fault::new(FaultKind::Unsupported, "a run of states cannot do this"))),
            }
        })
    }

    /// A watcher that ran is owed nothing any more (S-39).
    fn ended(&self, run: &Run, node: NodeId, outcome: Outcome) {
        let Some(journal) = &self.journal else { return };
        if outcome.failed() || run.owes_refresh(node) {
            return;
        }
        let name = self.graph.name(node).as_str();
        let noted = match run.forced(node) {
            Some(Force::Watch { .. }) => journal
                .ended(Ended { state: name.into(), changed: outcome.changed(), ..Ended::default() })
                .and_then(|_| journal.refreshed(name)),
            Some(Force::PendingRefresh) => journal.refreshed(name),
            Some(Force::Prereq { .. }) | None => Ok(()),
        };
        if let Err(error) = noted {
            self.observer
                .notice(&format!("{name} was refreshed, but the journal could not note it: {error}"));
        }
    }
}

impl StateHands {
    fn parts(&self, node: NodeId) -> Result<(&State, &Arc<dyn Bound>), Fault> {
        let found = self.plan.program.states.get(node.index()).zip(self.plan.bound.get(node.index()));
        found.ok_or_else(|| Fault::new(FaultKind::Unsupported, "the run names a state that does not exist"))
    }

    fn look(&self) -> &dyn Look {
        match &self.overlay {
            Some(overlay) => overlay.as_ref(),
            None => self.machine.files.as_ref(),
        }
    }

    fn checking(&self, forced: Option<Forced>, rehearsal: bool) -> Checking<'_> {
        Checking {
            look: self.look(),
            query: self.machine.processes.as_ref(),
            files: &self.shelf,
            forced,
            rehearsal,
            cancel: &self.cancel,
        }
    }

    /// Whether a target of a prereq would change: its guard and its check, as things stand (S-15).
    async fn probe(&self, target: NodeId) -> Report {
        let verdict = async {
            if !self.guard(target).await? {
                return Ok(false);
            }
            let (_, bound) = self.parts(target)?;
            Ok(bound.check(&self.checking(None, true)).await?.is_some())
        };
        let verdict: Result<bool, Fault> = verdict.await;
        if let Err(fault) = &verdict {
            let name = self.graph.name(target);
            self.observer
                .notice(&format!("prereq: the check of {name} failed, so it counts as unchanged: {fault}"));
        }
        Report::plain(verdict)
    }

    /// `onlyif` needs every command to exit 0, `unless` none (S-16).
    async fn guard(&self, node: NodeId) -> Result<bool, Fault> {
        let (state, bound) = self.parts(node)?;
        let attributes = &state.attributes;
        for (command, wanted) in attributes
            .onlyif
            .iter()
            .map(|command| (command, true))
            .chain(attributes.unless.iter().map(|c| (c, false)))
        {
            match self.exits_zero(command, bound.as_ref()).await {
                Ok(zero) if zero == wanted => {}
                Ok(_) => return Ok(false),
                // Its directory or user may be what an earlier state of this dry run would create (S-30).
                Err(fault) if self.overlay.is_some() && fault.kind == FaultKind::NotFound => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(true)
    }

    async fn exits_zero(&self, command: &str, bound: &dyn Bound) -> Result<bool, Fault> {
        let setting = bound.guard_setting();
        let mut launch = Launch::shell(command);
        launch.timeout = Some(setting.timeout.unwrap_or(limits::GUARD_TIMEOUT));
        launch.cwd = setting.cwd;
        launch.environment = setting.environment;
        launch.path = setting.path;
        launch.user = setting.user;
        let exit = self.machine.processes.run(&launch, None, &self.cancel).await;
        match exit {
            Ok(exit) if exit.canceled => Err(Fault::canceled()),
            Ok(exit) if exit.timed_out => {
                Err(Fault::new(FaultKind::TimedOut, format!("the guard `{command}` did not end in time")))
            }
            Ok(exit) => Ok(exit.code == Some(0)),
            Err(fault) => Err(Fault {
                message: format!("the guard `{command}` could not run: {}", fault.message),
                ..fault
            }),
        }
    }

    async fn check(&self, node: NodeId, forced: Option<&Force>) -> Report {
        let forced = forced.map(|force| match force {
            Force::Watch { .. } | Force::PendingRefresh => Forced::Watch,
            Force::Prereq { .. } => Forced::Prereq,
        });
        let (_, bound) = match self.parts(node) {
            Ok(parts) => parts,
            Err(fault) => return Report::plain(Err(fault)),
        };
        let found = match bound.check(&self.checking(forced, self.overlay.is_some())).await {
            Ok(Some(found)) => found,
            Ok(None) => return Report::plain(Ok(false)),
            Err(fault) => return self.unknown(node, fault),
        };
        let Some(overlay) = &self.overlay else {
            self.drifts.lock().unwrap_or_else(PoisonError::into_inner).insert(node, found);
            return Report::plain(Ok(true));
        };
        match bound.foresee(&found, overlay) {
            Ok(()) => {
                if is_command(bound.kind()) {
                    self.unforeseen.lock().unwrap_or_else(PoisonError::into_inner).insert(node);
                }
                let explanation = bound.explain(&found, false);
                Report { verdict: Ok(true), diff: explanation.diff, details: explanation.details }
            }
            Err(fault) => Report::plain(Err(fault)),
        }
    }

    /// A check that failed. Behind a command that would have run, what is missing or in the way may be that command's
    /// work, so that the dry run does not know (S-30); anywhere else it is a failure.
    fn unknown(&self, node: NodeId, fault: Fault) -> Report {
        let may_change = matches!(fault.kind, FaultKind::NotFound | FaultKind::InTheWay);
        match self.overlay.as_ref().filter(|_| may_change).and_then(|_| self.command_before(node)) {
            None => Report::plain(Err(fault)),
            Some(command) => {
                let diff = format!("cannot be foreseen before {} has run: {fault}", self.graph.name(command));
                Report { diff, ..Report::plain(Ok(true)) }
            }
        }
    }

    /// A command of this dry run that a state waits for, directly or not.
    fn command_before(&self, node: NodeId) -> Option<NodeId> {
        let commands = self.unforeseen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashSet::new();
        let mut rest: Vec<NodeId> = vec![node];
        while let Some(node) = rest.pop() {
            for before in self.graph.needs(node).iter().map(|edge| edge.node) {
                if commands.contains(&before) {
                    return Some(before);
                }
                if seen.insert(before) {
                    rest.push(before);
                }
            }
        }
        None
    }

    async fn apply(&self, node: NodeId) -> Report {
        let taken = self.drifts.lock().unwrap_or_else(PoisonError::into_inner).remove(&node);
        let (Ok((state, bound)), Some(mut drift)) = (self.parts(node), taken) else {
            return Report::plain(Err(Fault::new(
                FaultKind::Unsupported,
                "nothing was checked before this apply",
            )));
        };
        let announced = match self.announce(node, bound.as_ref(), &mut drift) {
            Ok(announced) => announced,
            Err(fault) => return Report::plain(Err(fault)),
        };
        let mut applied = self.act(state, bound.as_ref(), &drift).await;
        if let Ok(change) = &mut applied
            && change.changed
        {
            applied = self.confirm(state, bound.as_ref(), std::mem::take(change)).await;
        }
        if announced {
            self.note_end(state, &applied);
        }
        match applied {
            Ok(change) => Report { verdict: Ok(change.changed), diff: change.diff, details: change.details },
            Err(fault) => Report::plain(Err(fault)),
        }
    }

    /// Before-images and intent are safe on disk before anything is touched.
    fn announce(&self, node: NodeId, bound: &dyn Bound, drift: &mut Drift) -> Result<bool, Fault> {
        let Some(journal) = &self.journal else { return Ok(false) };
        let watchers: Vec<String> =
            self.graph.watchers(node).map(|node| self.graph.name(node).to_string()).collect();
        if !bound.undoable() && watchers.is_empty() {
            return Ok(false);
        }
        journal.begin().map_err(|error| Fault::new(FaultKind::Io, error.to_string()))?;
        bound.preserve(drift, self.machine.files.as_ref(), journal.vault().as_ref())?;
        let depends_on = self.graph.needs(node).iter().filter(|edge| !edge.kind.only_sequences());
        let undo = bound.undoable().then(|| bound.undo_record(drift)).transpose()?;
        let intent = Intent {
            state: self.graph.name(node).to_string(),
            kind: bound.kind().to_string(),
            objects: undo.as_ref().map(objects_named).unwrap_or_default(),
            undo,
            depends_on: depends_on.map(|edge| self.graph.name(edge.node).to_string()).collect(),
            watchers,
        };
        journal.announce(intent).map(|()| true).map_err(|error| Fault::new(FaultKind::Io, error.to_string()))
    }

    async fn act(&self, state: &State, bound: &dyn Bound, drift: &Drift) -> Result<Change, Fault> {
        let (observer, name) = (self.observer.clone(), state.name.clone());
        let live: Live = Arc::new(move |line| observer.output(name.as_str(), line));
        let (observer, name) = (self.observer.clone(), state.name.clone());
        let log: Live = Arc::new(move |line| observer.notice(&format!("{name}: {}", line.trim_end())));
        let files = Noting::new(self.machine.files.as_ref());
        let applying = Applying {
            live: Some(live),
            log: Some(log),
            ..Applying::new(&files, self.machine.processes.as_ref(), &self.cancel)
        };
        let applied = bound.apply(drift, &applying).await;
        applied.map_err(|fault| Fault { touched: fault.touched || files.touched(), ..fault })
    }

    /// `check_cmd`: a change counts only if these commands agree.
    async fn confirm(&self, state: &State, bound: &dyn Bound, change: Change) -> Result<Change, Fault> {
        for command in &state.attributes.check_cmd {
            if !self.exits_zero(command, bound).await? {
                let message = format!("check_cmd `{command}` did not exit 0 after the change");
                let fault = Fault::new(FaultKind::CommandFailed, message).details(change.details);
                return Err(match change.undo {
                    Some(undo) => fault.having_done(undo),
                    None => fault.touched(),
                });
            }
        }
        Ok(change)
    }

    fn note_end(&self, state: &State, applied: &Result<Change, Fault>) {
        let Some(journal) = &self.journal else { return };
        let mut ended = Ended { state: state.name.to_string(), ..Ended::default() };
        match applied {
            Ok(change) => (ended.changed, ended.undo) = (change.changed, change.undo.clone()),
            Err(fault) => {
                (ended.failed, ended.touched) = (true, fault.touched);
                ended.undo = fault.undo.as_deref().cloned();
            }
        }
        if let Err(error) = journal.ended(ended) {
            self.observer.notice(&format!("the journal could not note the end of {}: {error}", state.name));
        }
    }
}

/// The names of before-images inside an undo value: its strings of 64 hexadecimal digits. Naming one too many only keeps
/// an object longer.
fn objects_named(undo: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = vec![undo];
    while let Some(value) = rest.pop() {
        match value {
            serde_json::Value::String(text)
                if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) =>
            {
                found.push(text.clone());
            }
            serde_json::Value::Array(items) => rest.extend(items),
            serde_json::Value::Object(map) => rest.extend(map.values()),
            _ => {}
        }
    }
    found
}

/// Whether a kind runs what its user wrote, of which only its user knows what it does.
fn is_command(kind: &str) -> bool {
    kind.starts_with("cmd.") || kind.starts_with("exec.") || kind.starts_with("module.")
}

/// Whether a program needs the run lock: everything that may change the machine does.
pub fn mutates(mode: Mode) -> bool {
    mode != Mode::Check
}
