//! Undoing what apply did here before, as recorded (S-31).

use crate::error::Error;
use crate::gathering::{Gathering, Staged};
use crate::journal::{Intent, Journal, Origin, RefreshCause, Undo};
use crate::local_host::LocalHost;
use crate::plan::Plan;
use crate::run_loop::{Executor, Report};
use crate::scope;
use crate::secrets::SealedImages;
use indexmap::IndexMap;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;
use zester_engine::{Command, Graph, NodeId, NodeSpec, Outcome, Run};
use zester_host::process::BoxFuture;
use zester_host::{ChangeTracker, Fault, FaultKind, HostWrite};
use zester_model::name::StateName;
use zester_model::requisite::EdgeKind;
use zester_resources::Bound;
use zester_resources::context::{Change, LeftDirs, Reverting};
use zester_secret::PrivateKey;

/// Said of a state that apply has left alone.
pub const NOTHING: &str = "nothing to revert";

/// Which records a revert uses, and the order to use them in.
pub struct Selection {
    pub graph: Arc<Graph>,
    /// The records of one run for each state, newest first: more than one where it was retried.
    pub undos: HashMap<NodeId, Vec<Undo>>,
    /// Of what the journal says and this revert does not use.
    pub notices: Vec<String>,
}

impl Selection {
    /// The newest unused record of each state of a plan, one step back; with `run`, only that run's.
    pub fn of_plan(plan: &Plan, journal: &Journal, run: Option<&str>) -> Result<Selection, Error> {
        let mut newest: HashMap<String, Vec<Undo>> = HashMap::new();
        let (mut notices, scope) = (Vec::new(), plan.scope());
        let bound: HashMap<&str, &Arc<dyn Bound>> =
            plan.program.states.iter().map(|state| state.name.as_str()).zip(&plan.bound).collect();
        for undo in journal.undos()?.into_iter().filter(|undo| run.is_none_or(|id| undo.run_id == id)) {
            let state = bound.get(undo.intent.state.as_str());
            if state.is_some_and(|bound| !scope::is_own(&undo, bound.as_ref(), &scope)) {
                notices.push(not_own(&undo));
                continue;
            }
            let records = newest.entry(undo.intent.state.clone()).or_default();
            if records.first().is_none_or(|first| first.run_id == undo.run_id) {
                records.push(undo);
            }
        }
        let nodes = plan.program.states.iter().enumerate();
        let undos = nodes
            .filter_map(|(index, state)| Some((NodeId(index as u32), newest.remove(state.name.as_str())?)))
            .collect();
        notices.dedup();
        Ok(Selection { graph: plan.graph.clone(), undos, notices })
    }

    /// Everything one run did, from its records alone: the state files may have changed or gone since. The order is that
    /// of the whole graph of the run, through whatever changed nothing. `force` does without a graph that is damaged.
    pub fn of_run(journal: &Journal, run: &str, force: bool) -> Result<Selection, Error> {
        let mut by_state: IndexMap<String, Vec<Undo>> = IndexMap::new();
        for undo in journal.undos()?.into_iter().filter(|undo| undo.run_id == run) {
            by_state.entry(undo.intent.state.clone()).or_default().push(undo);
        }
        let Some(any) = by_state.values().flatten().next() else {
            let unread = journal.damage(Some(run))?.into_iter().map(|damage| format!("; {damage}"));
            let unread: String = unread.collect();
            return Err(Error::other(format!("run {run} has left nothing to revert{unread}")));
        };
        let names: Vec<&str> = by_state.keys().map(String::as_str).collect();
        let edges = match journal.graph_of(any) {
            Ok(Some(graph)) => graph.among(&names),
            Ok(None) => direct_edges(&by_state),
            Err(_) if force => direct_edges(&by_state),
            Err(error) => return Err(Error::other(format!("{error}; --force reverts without it"))),
        };
        let specs = names.iter().zip(edges).map(|(state, edges)| {
            let name = StateName::parse(state).unwrap_or_else(|| StateName::new("state", state));
            NodeSpec { edges, ..NodeSpec::new(name) }
        });
        let graph = Graph::build(specs.collect()).map_err(|error| Error::other(error.to_string()))?;
        let undos =
            by_state.into_values().enumerate().map(|(at, undos)| (NodeId(at as u32), undos)).collect();
        Ok(Selection { graph: Arc::new(graph), undos, notices: Vec::new() })
    }

    /// Who is to be refreshed if these reverts change something.
    pub fn causes(&self) -> Vec<RefreshCause> {
        let of = |undo: &Undo| {
            let cause = |watcher: &String| RefreshCause {
                watcher: watcher.clone(),
                changed: undo.intent.state.clone(),
                origin: Origin { scope: undo.scope.clone(), graph: undo.graph.clone() },
            };
            undo.intent.watchers.iter().map(cause).collect::<Vec<_>>()
        };
        let mut causes: Vec<RefreshCause> = self.undos.values().flatten().flat_map(of).collect();
        causes.sort();
        causes.dedup();
        causes
    }
}

/// Said of a record that a state of the same name left in another tree.
fn not_own(undo: &Undo) -> String {
    let (state, run) = (&undo.intent.state, &undo.run_id);
    let tree = undo.scope.as_deref().and_then(scope::tree_of).unwrap_or_default();
    format!(
        "{state}: what run {run} did was for a state of that name in {}, and stays; `zester revert --run {run}` undoes it",
        tree.display()
    )
}

/// What the records themselves name: all that journals of earlier versions hold.
fn direct_edges(by_state: &IndexMap<String, Vec<Undo>>) -> Vec<Vec<(usize, EdgeKind)>> {
    let of = |undos: &Vec<Undo>| {
        let needs = undos.iter().flat_map(|undo| &undo.intent.depends_on);
        needs.filter_map(|name| Some((by_state.get_index_of(name)?, EdgeKind::Require))).collect()
    };
    by_state.values().map(of).collect()
}

pub struct RevertExecutor {
    pub undos: HashMap<NodeId, Vec<Undo>>,
    pub local_host: LocalHost,
    pub journal: Arc<Journal>,
    /// Of the machine, for before-images.
    pub key: Option<Arc<PrivateKey>>,
    pub cancel: CancellationToken,
    pub force: bool,
    pub left: LeftDirs,
    /// Reverts that were done and could not be noted.
    pub unnoted: Mutex<Vec<String>>,
    /// Where the package states of a level meet.
    pub packages: Gathering<PackageRecords, Vec<Result<Change, Fault>>>,
}

/// What package states of one level did, each with the records of its tries: taken back in one transaction, because what
/// several brought goes only with all of them.
pub struct PackageRecords(Vec<(String, serde_json::Value)>);

impl Staged for PackageRecords {
    fn stage(&self) -> usize {
        0
    }
}

impl Executor for RevertExecutor {
    fn execute(self: Arc<Self>, command: Command) -> BoxFuture<'static, Report> {
        if let Command::Revert(node) | Command::Wait { node, .. } = command
            && self.is_about_packages(node)
        {
            match command {
                Command::Revert(_) => self.packages.begin(node),
                _ => self.packages.leave(node),
            }
        }
        Box::pin(async move {
            match command {
                Command::Revert(node) => self.revert(node).await,
                Command::Wait { interval, .. } => {
                    tokio::select! {
                        _ = self.cancel.cancelled() => {}
                        _ = tokio::time::sleep(interval) => {}
                    }
                    Report::plain(Ok(true))
                }
                _ => Report::plain(Err(Fault::new(FaultKind::Unsupported, "a revert only reverts"))),
            }
        })
    }

    fn ended(&self, _: &Run, _: NodeId, _: Outcome) {}

    fn left(&self, node: NodeId) {
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
}

impl RevertExecutor {
    fn is_about_packages(&self, node: NodeId) -> bool {
        let undos = self.undos.get(&node);
        undos.is_some_and(|undos| {
            undos.iter().all(|undo| zester_resources::is_about_packages(&undo.intent.kind))
        })
    }

    fn reverting<'a>(&'a self, host: &'a dyn HostWrite, blobs: &'a SealedImages<'a>) -> Reverting<'a> {
        Reverting {
            host,
            processes: self.local_host.processes.as_ref(),
            blobs,
            cancel: &self.cancel,
            force: self.force,
            left: &self.left,
        }
    }

    /// What became of each record of a state, in their order; a failure is the last of them.
    async fn take_back(
        &self,
        node: NodeId,
        undos: &[Undo],
        cx: &Reverting<'_>,
    ) -> Vec<Result<Change, Fault>> {
        if self.is_about_packages(node) {
            let own = undos.iter().map(|undo| (undo.intent.kind.clone(), undo.value.clone())).collect();
            let met =
                self.packages.meet(node, PackageRecords(own), &self.cancel, |all| self.serve(all)).await;
            return met.unwrap_or_else(|unserved| vec![Err(unserved.fault())]);
        }
        let mut reverted = Vec::new();
        for undo in undos {
            let one = zester_resources::revert(&undo.intent.kind, &undo.value, cx).await;
            let failed = one.is_err();
            reverted.push(one);
            if failed {
                break;
            }
        }
        reverted
    }

    async fn serve(&self, all: Vec<PackageRecords>) -> Vec<Vec<Result<Change, Fault>>> {
        let records: Vec<(&str, &serde_json::Value)> =
            all.iter().flat_map(|one| &one.0).map(|(kind, value)| (kind.as_str(), value)).collect();
        let blobs = SealedImages { store: self.journal.blobs().as_ref(), key: self.key.as_deref() };
        let cx = self.reverting(self.local_host.files.as_ref(), &blobs);
        let mut reverted = zester_resources::revert_together(&records, &cx).await.into_iter();
        all.iter().map(|one| reverted.by_ref().take(one.0.len()).collect()).collect()
    }

    async fn revert(&self, node: NodeId) -> Report {
        let Some(undos) = self.undos.get(&node) else {
            return Report { diff: NOTHING.into(), ..Report::plain(Ok(false)) };
        };
        let (files, canceled_before) =
            (ChangeTracker::new(self.local_host.files.as_ref()), self.cancel.is_cancelled());
        let blobs = SealedImages { store: self.journal.blobs().as_ref(), key: self.key.as_deref() };
        let reverting = self.reverting(&files, &blobs);
        let mut report = Report::plain(Ok(false));
        for reverted in self.take_back(node, undos, &reverting).await {
            match reverted {
                Ok(change) => {
                    report.verdict = report.verdict.map(|changed| changed || change.changed);
                    report.diff.push_str(&change.diff);
                    report.details.extend(change.details);
                }
                // Its records stay: once what stands in the way is gone, it can be asked for again.
                Err(fault) => {
                    // Where a program had got to, nobody knows.
                    let unknown = match fault.kind {
                        FaultKind::CommandFailed | FaultKind::TimedOut => true,
                        FaultKind::Canceled => !canceled_before,
                        _ => false,
                    };
                    let before = !matches!(report.verdict, Ok(false));
                    let touched = fault.touched || files.touched() || before || unknown;
                    return Report::plain(Err(Fault { touched, ..fault }));
                }
            }
        }
        // One note uses up all records of the state in that run. Without it they would be used again, and find nothing to
        // do.
        if let Some(Err(error)) = undos.first().map(|undo| self.journal.reverted(undo)) {
            self.unnoted.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
        }
        // What its `check_cmd` said was of what is gone now (S-43).
        if let Some(Err(error)) = undos.last().map(|undo| {
            let Intent { state, unconfirmed, .. } = &undo.intent;
            self.journal.set_unconfirmed(state, *unconfirmed)
        }) {
            self.unnoted.lock().unwrap_or_else(PoisonError::into_inner).push(error.to_string());
        }
        if report.diff.is_empty() {
            report.diff = NOTHING.into();
        }
        report
    }
}
