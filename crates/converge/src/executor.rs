//! What executes an apply or a check: guards, checks, applies, each as a task.
//!
//! In check mode the resources look through an overlay, so that what a state of an earlier level would create counts as
//! there (S-30), and nothing they are given can write.

mod append_path;
mod check_cmd;
mod function_guards;
mod launch_tracker;
pub(crate) mod packages;
mod predictions;
mod undo_records;
mod unknowns;

use crate::gathering::Gathering;
use crate::inputs::StateFiles;
use crate::journal::{Ended, Intent, Journal};
use crate::local_host::LocalHost;
use crate::plan::Plan;
use crate::run_loop::{Executor, Observer, Report};
use crate::secrets::SealedImages;
use crate::turns::Turns;
use check_cmd::{CheckCmd, Confirmed};
use packages::{Answered, Asked};
use predictions::Predictions;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use undo_records::UndoRecords;
use unknowns::Unknowns;
use zester_engine::{Command, Force, Graph, NodeId, Outcome, Run};
use zester_host::blocking;
use zester_host::overlay::Overlay;
use zester_host::process::BoxFuture;
use zester_host::{ChangeTracker, Exit, Fault, FaultKind, HostRead, Launch, MissTracker, OutputSink, Query};
use zester_model::limits;
use zester_model::outcome::Mode;
use zester_model::program::State;
use zester_resources::context::{Applying, CandidateCheck, Change, Checking, Forced};
use zester_resources::{Bound, Drift};
use zester_secret::PrivateKey;

/// How a shell says that there is no such program.
const NO_SUCH_PROGRAM: i32 = 127;

/// Everything the tasks of one run share.
pub struct StateExecutor {
    pub plan: Arc<Plan>,
    pub graph: Arc<Graph>,
    pub local_host: LocalHost,
    pub state_files: StateFiles,
    /// In check mode: the machine as it would be.
    pub overlay: Option<Arc<Overlay>>,
    /// In apply mode.
    pub journal: Option<Arc<Journal>>,
    /// Of the machine, for before-images.
    pub key: Option<Arc<PrivateKey>>,
    pub cancel: CancellationToken,
    pub observer: Arc<dyn Observer>,
    /// What each check found, until its apply takes it.
    pub due: Mutex<HashMap<NodeId, Due>>,
    /// In check mode: states whose last `check_cmd` did not pass. An apply asks its journal.
    pub unconfirmed: BTreeSet<String>,
    /// In check mode: whose effects nobody can predict.
    pub unknowns: Unknowns,
    /// In check mode: what the states of this level would do.
    pub predictions: Predictions,
    /// Where the package states of a level meet.
    pub packages: Gathering<Asked, Answered>,
    /// Among the peels of this machine, where there are several.
    pub turns: Turns,
}

/// What an apply has to do.
pub enum Due {
    Drift(Drift),
    /// Nothing differs, but its `check_cmd` has not passed yet.
    Confirmation,
}

impl Executor for StateExecutor {
    fn execute(self: Arc<Self>, command: Command) -> BoxFuture<'static, Report> {
        self.show_earlier_levels(&command);
        self.expect_packages(&command);
        // A box for each: thousands of checks need not have the size of an apply.
        match command {
            Command::Check { node, forced } => {
                Box::pin(async move { self.check_in_turn(node, forced.as_ref()).await })
            }
            Command::Probe { node, target, forced } => {
                Box::pin(async move { self.probe(node, target, forced.as_ref()).await })
            }
            Command::Guard(node) => Box::pin(async move { Report::plain(self.guard(node).await) }),
            Command::Apply { node, .. } => Box::pin(async move { self.apply(node).await }),
            Command::Wait { node, interval, .. } => Box::pin(async move {
                self.turns.leave(node);
                tokio::select! {
                    _ = self.cancel.cancelled() => {}
                    _ = tokio::time::sleep(interval + self.splay(node)) => {}
                }
                Report::plain(Ok(true))
            }),
            _ => Box::pin(async {
                Report::plain(Err(Fault::new(FaultKind::Unsupported, "a run of states cannot do this")))
            }),
        }
    }

    fn left(&self, node: NodeId) {
        self.turns.leave(node);
        if self.is_about_packages(node) {
            self.packages.leave(node);
        }
    }

    fn given_up(&self, node: NodeId) {
        self.packages.give_up(node);
    }

    fn settled(&self) {
        self.packages.settled();
    }

    /// A watcher that ran has no pending refresh any more (S-39).
    fn ended(&self, run: &Run, node: NodeId, outcome: Outcome) {
        let Some(journal) = &self.journal else { return };
        self.forget_check_cmd(journal, node, outcome);
        if outcome.failed() || run.has_pending_refresh(node) {
            return;
        }
        let name = self.graph.name(node).as_str();
        let noted = match run.forced(node) {
            Some(Force::Watch { .. }) => journal
                .ended(Ended { state: name.into(), changed: outcome.changed(), ..Ended::default() })
                .and_then(|_| journal.refreshed(name).map(drop)),
            Some(Force::PendingRefresh) => journal.refreshed(name).map(drop),
            Some(Force::Prereq { .. }) | None => Ok(()),
        };
        if let Err(error) = noted {
            self.observer
                .notice(&format!("{name} was refreshed, but the journal could not note it: {error}"));
        }
    }
}

impl StateExecutor {
    fn parts(&self, node: NodeId) -> Result<(&State, &Arc<dyn Bound>), Fault> {
        let found = self.plan.program.states.get(node.index()).zip(self.plan.bound.get(node.index()));
        found.ok_or_else(|| Fault::new(FaultKind::Unsupported, "the run names a state that does not exist"))
    }

    fn view(&self) -> &dyn HostRead {
        match &self.overlay {
            Some(overlay) => overlay.as_ref(),
            None => self.local_host.files.as_ref(),
        }
    }

    fn checking<'a>(&'a self, host: &'a dyn HostRead, forced: Option<&Force>, dry_run: bool) -> Checking<'a> {
        let forced = forced.map(|force| match force {
            Force::Watch { .. } | Force::PendingRefresh => Forced::Watch,
            Force::Prereq { .. } => Forced::Prereq,
        });
        Checking {
            host,
            query: Query::through(self.local_host.processes.as_ref()),
            files: &self.state_files,
            forced,
            dry_run,
            cancel: &self.cancel,
        }
    }

    /// Whether a target of a prereq would change: its guard and its check, as things stand (S-15). What is not known yet
    /// counts as a change (S-44).
    async fn probe(&self, node: NodeId, target: NodeId, forced: Option<&Force>) -> Report {
        let verdict = async {
            if !self.guard(target).await? {
                return Ok(false);
            }
            let (state, bound) = self.parts(target)?;
            match bound.check(&self.checking(self.view(), forced, true)).await {
                Ok(found) => Ok(found.is_some() || self.is_unconfirmed(state, bound.as_ref())),
                Err(fault) if fault.kind == FaultKind::NotFound && self.cause(node).is_some() => Ok(true),
                Err(fault) => Err(fault),
            }
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
        self.unknowns.take_unsure(node);
        let mut unsure = false;
        if !self.answers_fit(node, &attributes.asks, &mut unsure)? {
            return Ok(false);
        }
        let shells = !attributes.onlyif.is_empty() || !attributes.unless.is_empty();
        let behind = self.changes_before(node).filter(|_| shells);
        for (command, wanted) in attributes
            .onlyif
            .iter()
            .map(|command| (command, true))
            .chain(attributes.unless.iter().map(|c| (c, false)))
        {
            match self.ask("guard", command, bound.as_ref()).await {
                // A shell sees the machine as it is, not as it would be by then (S-30, S-44).
                Ok(_) if behind.is_some() => {}
                // A program that is not there may come with an earlier state of this dry run (S-44).
                Ok(exit) if exit.code == Some(NO_SUCH_PROGRAM) && self.cause(node).is_some() => unsure = true,
                Ok(exit) if (exit.code == Some(0)) == wanted => {}
                Ok(_) => return Ok(false),
                // Its directory or user may be what an earlier state of this dry run would create (S-30).
                Err(fault) if self.overlay.is_some() && fault.kind == FaultKind::NotFound => unsure = true,
                Err(fault) => return Err(fault),
            }
        }
        if let Some(cause) = behind.or_else(|| self.cause(node).filter(|_| unsure)) {
            self.unknowns.unsure(node, cause);
        }
        Ok(true)
    }

    /// Runs a shell command on behalf of a state: where its own would run, and with what.
    async fn ask(&self, what: &str, command: &str, bound: &dyn Bound) -> Result<Exit, Fault> {
        let setting = bound.guard_setting();
        let mut launch = Launch::shell(command);
        launch.timeout = Some(setting.timeout.unwrap_or(limits::GUARD_TIMEOUT));
        launch.cwd = setting.cwd;
        launch.environment = setting.environment;
        launch.path = setting.path;
        launch.user = setting.user;
        let exit = self.local_host.processes.run(&launch, None, &self.cancel).await;
        match exit {
            Ok(exit) if exit.canceled => Err(Fault::canceled()),
            Ok(exit) if exit.timed_out => {
                Err(Fault::new(FaultKind::TimedOut, format!("the {what} `{command}` did not end in time")))
            }
            Ok(exit) => Ok(exit),
            Err(fault) => Err(Fault {
                message: format!("the {what} `{command}` could not run: {}", fault.message),
                ..fault
            }),
        }
    }

    /// What it finds is to be so until it has acted on it.
    async fn check_in_turn(&self, node: NodeId, forced: Option<&Force>) -> Report {
        if let (Ok((_, bound)), None) = (self.parts(node), &self.overlay)
            && let Err(fault) = self.turns.take(node, bound.kind(), &self.cancel).await
        {
            return Report::plain(Err(fault));
        }
        self.check(node, forced).await
    }

    async fn check(&self, node: NodeId, forced: Option<&Force>) -> Report {
        let (state, bound) = match self.parts(node) {
            Ok(parts) => parts,
            Err(fault) => return Report::plain(Err(fault)),
        };
        let host = MissTracker::new(self.view());
        let found = match bound.packages() {
            Some(_) => self.check_packages(node, bound).await,
            None => bound.check(&self.checking(&host, forced, self.overlay.is_some())).await,
        };
        if let Some(cause) = self.unknowns.take_unsure(node) {
            // Whatever its guard says, there is nothing to do.
            let in_place = matches!(found, Ok(None)) && !host.missed();
            return match in_place && !self.is_unconfirmed(state, bound.as_ref()) {
                true => Report::plain(Ok(false)),
                false => self.unknown(node, cause),
            };
        }
        let due = match found {
            Ok(Some(found)) => match Self::refuse_check_cmd(state, bound.as_ref()) {
                Ok(()) => Due::Drift(found),
                Err(fault) => return Report::plain(Err(fault)),
            },
            Ok(None) if self.is_unconfirmed(state, bound.as_ref()) => Due::Confirmation,
            // Found nothing to do because it found nothing: that may be different by then.
            Ok(None) => {
                return match self.cause(node).filter(|_| host.missed()) {
                    Some(cause) => self.unknown(node, cause),
                    None => Report { diff: bound.note().unwrap_or_default(), ..Report::plain(Ok(false)) },
                };
            }
            Err(fault) => return self.failed_check(node, fault),
        };
        match &self.overlay {
            Some(overlay) => self.predict(node, bound, due, overlay),
            None => {
                self.due.lock().unwrap_or_else(PoisonError::into_inner).insert(node, due);
                Report::plain(Ok(true))
            }
        }
    }

    /// Says what would be done, and makes it visible to the checks of later levels.
    fn predict(&self, node: NodeId, bound: &Arc<dyn Bound>, due: Due, overlay: &Arc<Overlay>) -> Report {
        let explanation = match due {
            Due::Confirmation => check_cmd::explain(false),
            Due::Drift(found) => {
                // Tried out beside the others of its level, who must not see it.
                if let Err(fault) = bound.predict(&found, &Overlay::over(overlay.clone())) {
                    return self.failed_check(node, fault);
                }
                if bound.unpredictable() {
                    self.unknowns.will_act(&self.graph, node);
                }
                let explanation = bound.explain(&found, false);
                self.predictions.add(node, bound.clone(), found);
                explanation
            }
        };
        self.will_change(node);
        Report { verdict: Ok(true), diff: explanation.diff, details: explanation.details }
    }

    async fn apply(&self, node: NodeId) -> Report {
        let taken = self.due.lock().unwrap_or_else(PoisonError::into_inner).remove(&node);
        let (Ok((state, bound)), Some(mut due)) = (self.parts(node), taken) else {
            return Report::plain(Err(Fault::new(
                FaultKind::Unsupported,
                "nothing was checked before this apply",
            )));
        };
        let announced = match blocking::in_place(|| self.announce(node, state, bound.as_ref(), &mut due)) {
            Ok(announced) => announced,
            Err(fault) => return Report::plain(Err(fault)),
        };
        let applied = match due {
            Due::Drift(drift) if bound.packages().is_some() => {
                self.apply_packages(node, bound, Arc::new(drift)).await
            }
            Due::Drift(drift) => self.act(state, bound.as_ref(), &drift).await,
            Due::Confirmation => Ok(Change { diff: check_cmd::explain(true).diff, ..Change::default() }),
        };
        let confirmed = self.confirmed(state, bound.as_ref(), applied).await;
        if announced {
            self.note_end(state, &confirmed);
        }
        match confirmed.applied {
            Ok(change) => Report { verdict: Ok(change.changed), diff: change.diff, details: change.details },
            Err(fault) => Report::plain(Err(fault)),
        }
    }

    /// Before-images and intent are safe on disk before anything is touched.
    fn announce(&self, node: NodeId, state: &State, bound: &dyn Bound, due: &mut Due) -> Result<bool, Fault> {
        let Some(journal) = &self.journal else { return Ok(false) };
        journal.usable().map_err(|error| Fault::new(FaultKind::Io, error.to_string()))?;
        let watchers = self.plan.watchers(node);
        let confirms = Self::confirms(state, bound);
        if !bound.undoable() && watchers.is_empty() && !confirms {
            return Ok(false);
        }
        journal.begin().map_err(|error| undo_records::unsaved(&error.to_string()))?;
        let mut undo = None;
        if let Due::Drift(drift) = due {
            let images = SealedImages { store: journal.blobs().as_ref(), key: self.key.as_deref() };
            let blobs = UndoRecords(&images);
            bound.save_before_image(drift, self.local_host.files.as_ref(), &blobs)?;
            undo = bound.undoable().then(|| bound.undo_record(drift)).transpose()?;
        }
        let depends_on = self.graph.needs(node).iter().filter(|edge| !edge.kind.only_sequences());
        let intent = Intent {
            state: self.graph.name(node).to_string(),
            kind: bound.kind().to_string(),
            objects: undo.as_ref().map(objects_named).unwrap_or_default(),
            undo,
            depends_on: depends_on.map(|edge| self.graph.name(edge.node).to_string()).collect(),
            watchers,
            confirms,
            unconfirmed: journal.is_unconfirmed(state.name.as_str()),
        };
        journal.announce(intent).map(|()| true).map_err(|error| undo_records::unsaved(&error.to_string()))
    }

    async fn act(&self, state: &State, bound: &dyn Bound, drift: &Drift) -> Result<Change, Fault> {
        let (observer, name) = (self.observer.clone(), state.name.clone());
        let live: OutputSink = Arc::new(move |line| observer.output(name.as_str(), line));
        let (observer, name) = (self.observer.clone(), state.name.clone());
        let log: OutputSink = Arc::new(move |line| observer.notice(&format!("{name}: {}", line.trim_end())));
        let files = ChangeTracker::new(self.local_host.files.as_ref());
        let first = bound.check_cmd_first() && !state.attributes.check_cmd.is_empty();
        let candidate_check = first.then_some(CheckCmd { executor: self, state, bound });
        let applying = Applying {
            scratch: self.local_host.files.as_ref(),
            candidate_check: candidate_check
                .as_ref()
                .map(|candidate_check| candidate_check as &dyn CandidateCheck),
            live: Some(live),
            log: Some(log),
            events: self.local_host.events.as_deref(),
            ..Applying::new(&files, self.local_host.processes.as_ref(), &self.cancel)
        };
        let applied = bound.apply(drift, &applying).await;
        applied.map_err(|fault| Fault { touched: fault.touched || files.touched(), ..fault })
    }

    fn note_end(&self, state: &State, Confirmed { applied, unconfirmed }: &Confirmed) {
        let Some(journal) = &self.journal else { return };
        let unconfirmed = *unconfirmed;
        let mut ended = Ended { state: state.name.to_string(), unconfirmed, ..Ended::default() };
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

/// Whether a program needs the run lock: everything that may change the machine does.
pub fn mutates(mode: Mode) -> bool {
    mode != Mode::Check
}
