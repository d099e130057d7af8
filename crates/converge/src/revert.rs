//! Undoing what apply did here before, as recorded (S-31).

use crate::drive::{Hands, Report};
use crate::error::Error;
use crate::journal::{Journal, Undo};
use crate::machine::Machine;
use crate::plan::Plan;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_engine::{Command, Graph, NodeId, NodeSpec, Outcome, Run};
use zester_host::process::Later;
use zester_host::{Fault, FaultKind};
use zester_model::name::StateName;
use zester_model::requisite::EdgeKind;
use zester_resources::resource::Reverting;

/// Said of a state that apply has left alone.
pub const NOTHING: &str = "nothing to revert";

/// Which records a revert uses, and the order to use them in.
pub struct Selection {
    pub graph: Arc<Graph>,
    pub undos: HashMap<NodeId, Undo>,
}

impl Selection {
    /// The newest unused record of each state of a plan, one step back; with `run`, only that run's.
    pub fn of_plan(plan: &Plan, journal: &Journal, run: Option<&str>) -> Result<Selection, Error> {
        let mut newest: HashMap<String, Undo> = HashMap::new();
        for undo in journal.undos()?.into_iter().filter(|undo| run.is_none_or(|id| undo.run_id == id)) {
            newest.entry(undo.intent.state.clone()).or_insert(undo);
        }
        let nodes = plan.program.states.iter().enumerate();
        let undos = nodes
            .filter_map(|(index, state)| Some((NodeId(index as u32), newest.remove(state.name.as_str())?)))
            .collect();
        Ok(Selection { graph: plan.graph.clone(), undos })
    }

    /// Everything one run did, from its records alone: the state files may have changed or gone since.
    pub fn of_run(journal: &Journal, run: &str) -> Result<Selection, Error> {
        let mut undos: Vec<Undo> = journal.undos()?.into_iter().filter(|undo| undo.run_id == run).collect();
        if undos.is_empty() {
            let message =
                format!("run {run} has nothing to revert; `zester status` lists the runs that have");
            return Err(Error::other(message));
        }
        undos.reverse();
        let index: BTreeMap<String, usize> =
            undos.iter().enumerate().map(|(at, undo)| (undo.intent.state.clone(), at)).collect();
        let specs = undos.iter().map(|undo| {
            let name = StateName::parse(&undo.intent.state)
                .unwrap_or_else(|| StateName::new(&undo.intent.kind, &undo.intent.state));
            let needs = undo.intent.depends_on.iter().filter_map(|name| index.get(name));
            NodeSpec { edges: needs.map(|at| (*at, EdgeKind::Require)).collect(), ..NodeSpec::new(name) }
        });
        let graph = Graph::build(specs.collect()).map_err(|error| Error::other(error.to_string()))?;
        let undos = undos.into_iter().enumerate().map(|(at, undo)| (NodeId(at as u32), undo)).collect();
        Ok(Selection { graph: Arc::new(graph), undos })
    }
}

pub struct RevertHands {
    pub undos: HashMap<NodeId, Undo>,
    pub machine: Machine,
    pub journal: Arc<Journal>,
    pub cancel: CancellationToken,
    pub force: bool,
}

impl Hands for RevertHands {
    fn carry_out(self: Arc<Self>, command: Command) -> Later<'static, Report> {
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
}

impl RevertHands {
    async fn revert(&self, node: NodeId) -> Report {
        let Some(undo) = self.undos.get(&node) else {
            return Report { diff: NOTHING.into(), ..Report::plain(Ok(false)) };
        };
        let reverting = Reverting {
            touch: self.machine.files.as_ref(),
            processes: self.machine.processes.as_ref(),
            vault: self.journal.vault().as_ref(),
            cancel: &self.cancel,
            force: self.force,
        };
        let change = match zester_resources::revert(&undo.intent.kind, &undo.value, &reverting).await {
            Ok(change) => change,
            Err(fault) if fault.kind == FaultKind::ChangedSince => {
                return Report::plain(Err(fault.hint("`--force` overwrites it")));
            }
            Err(fault) => return Report::plain(Err(fault)),
        };
        if let Err(error) = self.journal.reverted(undo) {
            return Report::plain(Err(Fault::new(FaultKind::Io, error.to_string())));
        }
        let diff = if change.diff.is_empty() && !change.changed { NOTHING.to_string() } else { change.diff };
        Report { verdict: Ok(change.changed), diff, details: change.details }
    }
}
