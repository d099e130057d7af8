//! One run from lock to history: the whole life of `apply`, `check` and `revert`.

use crate::data_dir::DataDir;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::executor::{StateExecutor, mutates};
use crate::history::{self, Summary};
use crate::inputs::StateFiles;
use crate::journal::{self, Journal, PendingRefresh, PendingWork};
use crate::local_host::LocalHost;
use crate::lock::{Note, RunLock};
use crate::plan::Plan;
use crate::pool::Pool;
use crate::refresh::{self, ForcedByObserver, MutedObserver, Refreshes};
use crate::revert::{NOTHING, RevertExecutor, Selection};
use crate::run_loop::{Observer, run_to_end};
use crate::secrets::{self, HidingObserver};
use crate::turns::Turns;
use crate::which_run;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use svix_ksuid::{Ksuid, KsuidLike};
use tokio_util::sync::CancellationToken;
use zester_engine::{Graph, Run};
use zester_host::overlay::Overlay;
use zester_host::process::Runner;
use zester_model::outcome::{Mode, RunResult, StateResult};
use zester_secret::PrivateKey;

/// How a run is to be carried out.
#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    pub data_dir: PathBuf,
    pub concurrency: usize,
    /// When the run is canceled.
    pub deadline: Deadline,
    /// Give up at once when another run is under way.
    pub no_wait: bool,
    /// Revert: overwrite what somebody changed since.
    pub force: bool,
    /// Revert: only what this run did.
    pub run: Option<String>,
    /// Shared with others that take this machine for theirs, who write in turns.
    pub turns: Option<PathBuf>,
}

/// A run's own name: sortable by time.
fn new_run_id() -> String {
    <Ksuid as KsuidLike>::new(Some(SystemTime::now()), None).to_string()
}

/// Runs a plan, or (revert of a run) what the journal says. `plan` is needed for everything but that. The work is done on
/// threads of its own: whoever waits here is never held up.
pub async fn run(
    plan: Option<Arc<Plan>>,
    options: &Options,
    local_host: &LocalHost,
    observer: Arc<dyn Observer>,
    cancel: &CancellationToken,
) -> Result<RunResult, Error> {
    let (options, local_host, token) = (options.clone(), local_host.clone(), cancel.clone());
    let work = async move { run_here(plan, &options, &local_host, observer, &token).await };
    Pool::start()?.carry(work, cancel).await
}

async fn run_here(
    plan: Option<Arc<Plan>>,
    options: &Options,
    local_host: &LocalHost,
    observer: Arc<dyn Observer>,
    cancel: &CancellationToken,
) -> Result<RunResult, Error> {
    let started = Instant::now();
    let mut options = with_whole_id(options)?;
    let secrets = plan.as_ref().map(|plan| plan.inputs.secrets.clone()).unwrap_or_default();
    let local_host = &local_host.with_secrets(&secrets, true);
    let observer: Arc<dyn Observer> = match secrets.is_empty() {
        true => observer,
        false => Arc::new(HidingObserver { inner: observer, secrets: secrets.clone() }),
    };
    let key = if mutates(options.mode) { secrets::key(&options.data_dir)?.map(Arc::new) } else { None };
    let asked = match (&plan, &options.run) {
        (Some(plan), _) => plan.typed(),
        (None, Some(run)) => of_run(run),
        (None, None) => "the last run".into(),
    };
    for warning in plan.iter().flat_map(|plan| &plan.warnings) {
        let place = plan.as_ref().zip(warning.span).map(|(plan, span)| plan.sources.place(span));
        let hint = warning.hint.as_deref().unwrap_or_default();
        observer.notice(&format!("{}: {}; {hint}", place.unwrap_or_default(), warning.message));
    }
    let (mode, pid) = (options.mode, std::process::id());
    let (run_id, life) = (new_run_id(), Runner::new().life());
    let call = plan.as_ref().is_some_and(|plan| plan.call);
    let before = Vec::new();
    let mut note = Note { run_id, mode, asked, call, before, pid, life, started_at: now() };
    let held = match mutates(mode) {
        true => Some(LockedJournal::take(&options, &note, observer.as_ref(), cancel).await?),
        false => None,
    };
    let journal = held.as_ref().map(|held| held.journal.clone());
    let chosen = match &held {
        Some(held) if mode == Mode::Revert && plan.is_none() && options.run.is_none() => {
            held.last_run(&mut note, observer.as_ref()).map(Some)
        }
        _ => Ok(options.run.take()),
    };
    let ran = async {
        options.run = chosen?;
        let context = RunContext { options: &options, local_host, observer: observer.clone(), cancel, key };
        match (mode, plan, journal) {
            (Mode::Revert, plan, Some(journal)) => context.revert(plan, journal).await,
            (Mode::Apply | Mode::Check, Some(plan), journal) => context.apply(plan, journal).await,
            _ => Err(Error::other("there is nothing to run")),
        }
    };
    let ran = match ran.await {
        Ok(ran) => ran,
        Err(error) => {
            held.into_iter().for_each(|held| held.lock.end());
            return Err(error);
        }
    };
    if ran.canceled {
        let left: Vec<String> =
            local_host.processes.kill_everything().await.iter().map(u32::to_string).collect();
        if !left.is_empty() {
            observer.notice(&format!("these processes could not be ended: {}", left.join(", ")));
        }
    }
    let elapsed_ms = started.elapsed().as_millis() as u64;
    let mut result = RunResult::new(mode, note.run_id.clone(), ran.canceled, elapsed_ms, ran.states);
    secrets::hide_in_result(&mut result, &secrets);
    let mut troubles = ran.troubles;
    if let Some(after) = options.deadline.passed().filter(|_| ran.canceled) {
        result.timed_out = true;
        troubles.insert(0, format!("timeout: canceled after {after:?}"));
    }
    if let Some(held) = held {
        // Whatever cannot be written: what was done is told.
        let written = match ran.given_up {
            true => held.journal.leave(ran.cleared, ran.pending),
            false => held.journal.finish(ran.cleared, ran.pending),
        };
        if let Err(error) = written {
            troubles.push(unwritten(&error));
        }
        result.error = troubles.join("; ");
        if let Err(error) = history::add(&held.data_dir, &Summary::of(&result, &note, now())) {
            observer.notice(&format!("the run could not be added to the history: {error}"));
        }
        match ran.given_up {
            true => held.lock.leave(&note),
            false => held.lock.end(),
        }
    }
    result.error = troubles.join("; ");
    Ok(result)
}

/// Said of a run that did something and could not note all of it.
fn unwritten(error: &Error) -> String {
    format!("what this run did could not be written down in full: {error}")
}

/// Said of a watcher that has no part in a run which changed what it watches.
fn still_pending(watcher: &str, changed: &[String]) -> String {
    let because = changed.join(", ");
    format!("{watcher} has a pending refresh, because {because} changed; the next run that holds it runs it")
}

/// Seconds since the epoch.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What a revert of a run is asked for, in words.
fn of_run(run: &str) -> String {
    format!("run {run}")
}

/// A run that is named is known by its whole id, before anybody waits.
fn with_whole_id(options: &Options) -> Result<Options, Error> {
    let mut options = options.clone();
    if let (Mode::Revert, Some(given)) = (options.mode, &options.run) {
        options.run = Some(which_run::named(&DataDir::open(&options.data_dir)?, given)?);
    }
    Ok(options)
}

/// What a mutating run holds while it lasts.
struct LockedJournal {
    data_dir: DataDir,
    lock: Arc<RunLock>,
    journal: Arc<Journal>,
}

impl LockedJournal {
    async fn take(
        options: &Options,
        note: &Note,
        observer: &dyn Observer,
        cancel: &CancellationToken,
    ) -> Result<LockedJournal, Error> {
        let data_dir = DataDir::open(&options.data_dir)?;
        let holder = Mutex::new(String::new());
        let waiting = |who: &str| {
            observer.notice(&format!("waiting for the lock held by {who}"));
            *holder.lock().unwrap_or_else(PoisonError::into_inner) = who.to_string();
        };
        let taken = RunLock::take(&data_dir, note, options.no_wait, cancel, waiting).await;
        let lock = taken.map_err(|error| match (error, options.deadline.passed()) {
            (Error::Canceled, Some(after)) => {
                let waiting_for = holder.lock().unwrap_or_else(PoisonError::into_inner).clone();
                Error::TimedOut { after, waiting_for }
            }
            (error, _) => error,
        })?;
        for notice in &lock.notices {
            observer.notice(notice);
        }
        if let Some(killed) = &lock.killed {
            observer.notice(&format!(
                "`zester {}` (pid {}) was killed; what was left of it has been ended",
                killed.command(),
                killed.pid
            ));
            if !lock.survivors.is_empty() {
                let left: Vec<String> = lock.survivors.iter().map(u32::to_string).collect();
                observer.notice(&format!("these processes of it could not be ended: {}", left.join(", ")));
            }
        }
        match Journal::open(&data_dir, &note.run_id) {
            Ok(journal) => {
                journal.notices().iter().for_each(|notice| observer.notice(notice));
                let lock = Arc::new(lock);
                let journal = Arc::new(journal.under(lock.clone()).asked_as(&note.command()));
                Ok(LockedJournal { data_dir, lock, journal })
            }
            Err(error) => {
                lock.release();
                Err(error)
            }
        }
    }

    /// The last run that can be undone, for a revert that names nothing. Only now is it known: the run that this one waited
    /// for may have been it.
    fn last_run(&self, note: &mut Note, observer: &dyn Observer) -> Result<String, Error> {
        let run = which_run::newest(&self.data_dir)?;
        note.asked = of_run(&run);
        if let Err(error) = self.lock.note(note) {
            observer.notice(&error.to_string());
        }
        Ok(run)
    }
}

/// What states did, and what is to be written down about it.
struct RunEnd {
    states: Vec<StateResult>,
    canceled: bool,
    /// Somebody hangs and may still be at work.
    given_up: bool,
    /// Watchers with no pending refresh any more.
    cleared: Vec<String>,
    /// Watchers whose refresh is pending, and by the change of what.
    pending: Vec<(String, Vec<String>)>,
    /// What went wrong beside the states.
    troubles: Vec<String>,
}

/// What every part of a run works with.
struct RunContext<'a> {
    options: &'a Options,
    local_host: &'a LocalHost,
    observer: Arc<dyn Observer>,
    cancel: &'a CancellationToken,
    /// Of the machine, for before-images.
    key: Option<Arc<PrivateKey>>,
}

impl RunContext<'_> {
    async fn apply(&self, plan: Arc<Plan>, journal: Option<Arc<Journal>>) -> Result<RunEnd, Error> {
        let (mut pending, unconfirmed, blobs) = match &journal {
            Some(journal) => (journal.pending(), Default::default(), Some(journal.blobs().clone())),
            // A dry run shows what is pending and what is not in place, without taking the lock.
            None => {
                let data_dir = DataDir::existing(&self.options.data_dir)?;
                let pending_work = data_dir.as_ref().map(PendingWork::read).transpose()?.unwrap_or_default();
                pending_work.notices.iter().for_each(|notice| self.observer.notice(notice));
                (pending_work.pending, pending_work.unconfirmed, pending_work.blobs)
            }
        };
        let beside = |refresh: &PendingRefresh| {
            blobs.as_ref().and_then(|blobs| journal::states_beside(blobs, refresh))
        };
        for handed_over in refresh::hand_over(&plan, &mut pending, beside) {
            if let Some(journal) = &journal {
                self.observer.notice(&handed_over.words());
                journal.transfer(&handed_over.watcher, &handed_over.successors)?;
            }
        }
        let graph = plan.graph_with_pending(&pending)?;
        if let Some(journal) = &journal {
            journal.describe(&plan.scope(), &graph);
        }
        let executor =
            self.executor(plan.clone(), graph.clone(), journal, unconfirmed, self.observer.clone());
        let run = Run::new(graph, self.options.mode, self.options.concurrency);
        let ended_loop = run_to_end(run, executor, self.observer.as_ref(), self.cancel).await?;
        let outside = match mutates(self.options.mode) {
            true => refresh::outside(&plan, &ended_loop),
            false => Vec::new(),
        };
        for (watcher, changed) in &outside {
            self.observer.notice(&still_pending(watcher, changed));
        }
        Ok(RunEnd {
            canceled: ended_loop.run.is_canceled(),
            given_up: ended_loop.given_up,
            cleared: refresh::cleared(&ended_loop, &pending),
            pending: [refresh::pending(&ended_loop), outside].concat(),
            states: ended_loop.states,
            troubles: Vec::new(),
        })
    }

    fn executor(
        &self,
        plan: Arc<Plan>,
        graph: Arc<Graph>,
        journal: Option<Arc<Journal>>,
        unconfirmed: BTreeSet<String>,
        observer: Arc<dyn Observer>,
    ) -> Arc<StateExecutor> {
        let local_host = self.local_host.clone();
        let overlay =
            (self.options.mode == Mode::Check).then(|| Arc::new(Overlay::over(local_host.files.clone())));
        Arc::new(StateExecutor {
            graph,
            state_files: StateFiles {
                inputs: plan.inputs.clone(),
                local_host: local_host.clone(),
                cancel: self.cancel.clone(),
                managed: plan.managed.clone(),
            },
            plan,
            local_host,
            overlay,
            journal,
            key: self.key.clone(),
            cancel: self.cancel.clone(),
            observer,
            due: Mutex::new(HashMap::new()),
            unconfirmed,
            unknowns: Default::default(),
            predictions: Default::default(),
            packages: Default::default(),
            turns: Turns::new(self.options.turns.clone()),
        })
    }

    async fn revert(&self, plan: Option<Arc<Plan>>, journal: Arc<Journal>) -> Result<RunEnd, Error> {
        let RunContext { options, local_host, observer, cancel, key } = self;
        let selection = match (&plan, &options.run) {
            (Some(plan), run) => Selection::of_plan(plan, &journal, run.as_deref())?,
            (None, Some(run)) => Selection::of_run(&journal, run, options.force)?,
            (None, None) => return Err(Error::other("there is nothing to revert")),
        };
        for notice in &selection.notices {
            observer.notice(notice);
        }
        // A line that cannot be read may be of any of these states.
        let unread = journal.damage(options.run.as_deref())?;
        // Noted as pending before it is done, as everywhere: a revert that is killed has told nobody.
        let causes = selection.causes();
        let taken_on = journal.add_pending(causes.clone())?;
        let executor = Arc::new(RevertExecutor {
            undos: selection.undos,
            local_host: (*local_host).clone(),
            journal: journal.clone(),
            key: key.clone(),
            cancel: (*cancel).clone(),
            force: options.force,
            left: Default::default(),
            unnoted: Mutex::default(),
            packages: Default::default(),
        });
        let names = plan.as_deref().map(|plan| refresh::candidates(plan, &causes)).unwrap_or_default();
        let quiet = MutedObserver { inner: observer.clone(), names };
        let machine_run = Run::new(selection.graph, Mode::Revert, options.concurrency);
        let ended_loop = run_to_end(machine_run, executor.clone(), &quiet, cancel).await?;
        let (canceled, given_up) = (ended_loop.run.is_canceled(), ended_loop.given_up);
        // From here on something may have been done: whatever goes wrong is told beside it.
        let mut troubles =
            std::mem::take(&mut *executor.unnoted.lock().unwrap_or_else(PoisonError::into_inner));
        for damage in unread {
            match options.force {
                true => observer.notice(&damage.to_string()),
                false => {
                    troubles.push(format!("{damage}, and may be left to revert (--force does without it)"))
                }
            }
        }
        let refreshes = Refreshes::after(&causes, &ended_loop.states);
        if let Err(error) = journal.withdraw(taken_on.iter().filter(|cause| !refreshes.hold(cause))) {
            troubles.push(unwritten(&error));
        }
        let mut ran = RunEnd {
            states: ended_loop.states,
            canceled,
            given_up,
            cleared: Vec::new(),
            pending: Vec::new(),
            troubles,
        };
        self.refresh(&mut ran, refreshes, plan.as_deref(), journal).await;
        for result in ran.states.iter().filter(|result| quiet.names.contains(&result.name)) {
            if result.diff == NOTHING || result.skipped {
                observer.ended(result);
            }
        }
        Ok(ran)
    }

    /// Runs the actions that watch what a revert changed (S-59), and those that watch them; says whose refresh is still pending.
    async fn refresh(
        &self,
        ran: &mut RunEnd,
        mut refreshes: Refreshes,
        plan: Option<&Plan>,
        journal: Arc<Journal>,
    ) {
        while let Some(plan) = plan.filter(|_| !ran.canceled) {
            match self.refresh_next(ran, &mut refreshes, plan, &journal).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    ran.troubles.push(error.to_string());
                    break;
                }
            }
        }
        for (watcher, changed) in refreshes.left() {
            self.observer.notice(&still_pending(&watcher, &changed));
            ran.pending.push((watcher, changed));
        }
    }

    /// Runs the actions whose turn it is; whether there were any.
    async fn refresh_next(
        &self,
        ran: &mut RunEnd,
        refreshes: &mut Refreshes,
        plan: &Plan,
        journal: &Arc<Journal>,
    ) -> Result<bool, Error> {
        let results: HashMap<&str, &StateResult> =
            ran.states.iter().map(|result| (result.name.as_str(), result)).collect();
        let next = refreshes.runnable(plan, &results);
        if next.is_empty() {
            return Ok(false);
        }
        let part = Arc::new(plan.refreshing(&next)?);
        let graph = part.graph.clone();
        journal.describe(&plan.scope(), &plan.graph);
        let explaining = Arc::new(ForcedByObserver::new(self.observer.clone(), &part, refreshes));
        let (journal, none) = (Some(journal.clone()), BTreeSet::new());
        let executor = self.executor(part, graph.clone(), journal, none, explaining.clone());
        let run = Run::new(graph, Mode::Apply, self.options.concurrency);
        let ended_loop = run_to_end(run, executor, explaining.as_ref(), self.cancel).await?;
        ran.canceled = ended_loop.run.is_canceled();
        ran.given_up |= ended_loop.given_up;
        let results = explaining.told();
        refreshes.ran(plan, &results);
        for result in results {
            match ran.states.iter_mut().find(|state| state.name == result.name) {
                Some(state) => *state = result,
                None => ran.states.push(result),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
