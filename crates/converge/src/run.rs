//! One run from lock to history: the whole life of `apply`, `check` and `revert`.

use crate::data_dir::DataDir;
use crate::drive::{Driven, Observer, drive, mode_word};
use crate::error::Error;
use crate::hands::{StateHands, mutates};
use crate::history::{self, Summary};
use crate::inputs::Shelf;
use crate::journal::Journal;
use crate::lock::RunLock;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::revert::{RevertHands, Selection};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use svix_ksuid::{Ksuid, KsuidLike};
use tokio_util::sync::CancellationToken;
use zester_engine::{Force, NodeId, Run};
use zester_host::overlay::Overlay;
use zester_model::outcome::{Mode, RunResult};

/// How a run is to be carried out.
#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    pub data_dir: PathBuf,
    pub concurrency: usize,
    /// The run is canceled when it has taken this long.
    pub timeout: Option<Duration>,
    /// Give up at once when another run is under way.
    pub no_wait: bool,
    /// Revert: overwrite what somebody changed since.
    pub force: bool,
    /// Revert: only what this run did.
    pub run: Option<String>,
}

/// A run's own name: sortable by time.
fn new_run_id() -> String {
    <Ksuid as KsuidLike>::new(Some(SystemTime::now()), None).to_string()
}

/// Runs a plan, or (revert of a run) what the journal says. `plan` is needed for everything but that.
pub async fn run(
    plan: Option<Arc<Plan>>,
    options: &Options,
    machine: &Machine,
    observer: Arc<dyn Observer>,
    cancel: &CancellationToken,
) -> Result<RunResult, Error> {
    let started = Instant::now();
    let run_id = new_run_id();
    let asked = match (&plan, &options.run) {
        (Some(plan), _) => plan.asked.clone(),
        (None, Some(run)) => format!("run {run}"),
        (None, None) => "everything".into(),
    };
    for warning in plan.iter().flat_map(|plan| &plan.warnings) {
        let place = plan.as_ref().zip(warning.span).map(|(plan, span)| plan.sources.place(span));
        let hint = warning.hint.as_deref().unwrap_or_default();
        observer.notice(&format!("{}: {}; {hint}", place.unwrap_or_default(), warning.message));
    }
    let locked = if mutates(options.mode) {
        let data_dir = DataDir::open(&options.data_dir)?;
        let purpose = format!("zester {} {asked}", mode_word(options.mode));
        let waiting = |holder: &str| observer.notice(&format!("waiting for another run to end: {holder}"));
        let lock = RunLock::take(&data_dir, &purpose, options.no_wait, cancel, waiting).await?;
        let journal = Arc::new(Journal::open(&data_dir, &run_id)?);
        Some((data_dir, lock, journal))
    } else {
        None
    };
    let journal = locked.as_ref().map(|(_, _, journal)| journal.clone());
    let deadline = watch_deadline(options.timeout, cancel);
    let driven = match options.mode {
        Mode::Revert => revert(plan, options, machine, observer.clone(), journal.clone(), cancel).await,
        Mode::Apply | Mode::Check => match plan {
            Some(plan) => apply(plan, options, machine, observer.clone(), journal.clone(), cancel).await,
            None => Err(Error::other("there is nothing to run")),
        },
    };
    if let Some(deadline) = deadline {
        deadline.abort();
    }
    let driven = driven?;
    let canceled = driven.run.is_canceled();
    if canceled {
        let left: Vec<String> =
            machine.processes.kill_everything().await.iter().map(u32::to_string).collect();
        if !left.is_empty() {
            observer.notice(&format!("these processes could not be ended: {}", left.join(", ")));
        }
    }
    if let Some(journal) = &journal {
        journal.finish(owed(&driven))?;
    }
    let elapsed_ms = started.elapsed().as_millis() as u64;
    let result = RunResult::new(options.mode, run_id, canceled, elapsed_ms, driven.states);
    if let Some((data_dir, _lock, _)) = &locked {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if let Err(error) = history::add(data_dir, &Summary::of(&result, &asked, now)) {
            observer.notice(&format!("the run could not be added to the history: {error}"));
        }
    }
    Ok(result)
}

/// A run past its time is canceled like any other.
fn watch_deadline(
    timeout: Option<Duration>,
    cancel: &CancellationToken,
) -> Option<tokio::task::JoinHandle<()>> {
    let (timeout, cancel) = (timeout?, cancel.clone());
    Some(tokio::spawn(async move {
        tokio::time::sleep(timeout).await;
        cancel.cancel();
    }))
}

async fn apply(
    plan: Arc<Plan>,
    options: &Options,
    machine: &Machine,
    observer: Arc<dyn Observer>,
    journal: Option<Arc<Journal>>,
    cancel: &CancellationToken,
) -> Result<Driven, Error> {
    let (owed, unconfirmed) = match &journal {
        Some(journal) => (journal.owed(), Default::default()),
        // A dry run shows what is owed and what is not in place, without taking the lock.
        None if options.data_dir.is_dir() => {
            let glance = crate::journal::Glance::read(&DataDir::open(&options.data_dir)?)?;
            (glance.owed, glance.unconfirmed)
        }
        None => Default::default(),
    };
    let graph = plan.graph_owing(&owed)?;
    let overlay = (options.mode == Mode::Check).then(|| Arc::new(Overlay::above(machine.files.clone())));
    let hands = Arc::new(StateHands {
        graph: graph.clone(),
        shelf: Shelf { inputs: plan.inputs.clone(), machine: machine.clone(), cancel: cancel.clone() },
        plan,
        machine: machine.clone(),
        overlay,
        journal,
        cancel: cancel.clone(),
        observer: observer.clone(),
        due: Mutex::new(HashMap::new()),
        unconfirmed,
        foresight: Default::default(),
    });
    drive(Run::new(graph, options.mode, options.concurrency), hands, observer.as_ref(), cancel).await
}

async fn revert(
    plan: Option<Arc<Plan>>,
    options: &Options,
    machine: &Machine,
    observer: Arc<dyn Observer>,
    journal: Option<Arc<Journal>>,
    cancel: &CancellationToken,
) -> Result<Driven, Error> {
    let journal = journal.ok_or_else(|| Error::other("a revert needs the journal"))?;
    let selection = match (plan, &options.run) {
        (Some(plan), run) => Selection::of_plan(&plan, &journal, run.as_deref())?,
        (None, Some(run)) => Selection::of_run(&journal, run)?,
        (None, None) => return Err(Error::other("say what to revert: a reference, or --run ID")),
    };
    let hands = Arc::new(RevertHands {
        undos: selection.undos,
        machine: machine.clone(),
        journal,
        cancel: cancel.clone(),
        force: options.force,
        left: Default::default(),
    });
    let machine_run = Run::new(selection.graph, Mode::Revert, options.concurrency);
    drive(machine_run, hands, observer.as_ref(), cancel).await
}

/// Who is still owed a refresh, and by the change of what. Debts of earlier runs are on disk already.
fn owed(driven: &Driven) -> Vec<(String, Vec<String>)> {
    let graph = driven.run.graph();
    let name = |node: NodeId| graph.name(node).to_string();
    driven
        .run
        .owed_refresh()
        .into_iter()
        .filter_map(|node| match driven.run.forced(node) {
            Some(Force::Watch { changed }) => Some((name(node), changed.into_iter().map(name).collect())),
            _ => None,
        })
        .collect()
}
