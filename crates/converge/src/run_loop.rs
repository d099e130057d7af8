//! The loop between the engine's state machine and the executor: commands out, events in, results collected.
//!
//! Nothing is decided here. The machine says what to do, [`Executor`] do it as tasks, and what they report becomes the next
//! event and a part of that state's result.

mod hung;

use hung::{PollTimer, TimedTask};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use zester_engine::{Command, Event, Failed, Force, Graph, NodeId, Outcome, Run};
use zester_host::Fault;
use zester_host::process::BoxFuture;
use zester_model::outcome::{Details, Mode, SkipReason, StateResult};

/// The words of S-16 for a guard that said no.
pub const GUARD_UNMET: &str = "skipped: guard condition not met";

/// Said of a try that finds nothing left to do after one that did something and failed (S-43).
const DONE_BEFORE: &str = "changed by an earlier try";

/// What a task did, in words for the result and in a verdict for the machine.
pub struct Report {
    pub verdict: Result<bool, Fault>,
    pub diff: String,
    pub details: Details,
}

impl Report {
    pub fn plain(verdict: Result<bool, Fault>) -> Report {
        Report { verdict, diff: String::new(), details: Details::new() }
    }
}

/// Carries out one command of the machine for one node.
pub trait Executor: Send + Sync + 'static {
    fn execute(self: Arc<Self>, command: Command) -> BoxFuture<'static, Report>;
    /// A node ended: the place to clear what depends on it.
    fn ended(&self, run: &Run, node: NodeId, outcome: Outcome);
    /// A node gets no more commands, however it ended.
    fn left(&self, _node: NodeId) {}
    /// A node hangs, and nobody waits for it any more: the place to let go those who wait for it.
    fn given_up(&self, _node: NodeId) {}
    /// All commands that could be given out have been.
    fn settled(&self) {}
}

/// Tells what happens while it happens. Called from the loop, one after the other.
pub trait Observer: Send + Sync {
    fn level(&self, _level: usize, _states: usize) {}
    fn started(&self, _name: &str, _doing: &'static str) {}
    fn ended(&self, _result: &StateResult) {}
    /// A line of output of a running state.
    fn output(&self, _name: &str, _line: &str) {}
    /// Anything else worth a line: whom we wait for, what was repaired.
    fn notice(&self, _text: &str) {}
}

/// Nobody watches.
pub struct NoObserver;
impl Observer for NoObserver {}

/// What the loop leaves behind.
pub struct LoopEnd {
    pub run: Run,
    /// In the order of the run.
    pub states: Vec<StateResult>,
    /// Somebody hangs and may still be at work.
    pub given_up: bool,
}

struct Cell {
    result: StateResult,
    started: Option<Instant>,
}

struct RunLoop<'a> {
    graph: Arc<Graph>,
    executor: Arc<dyn Executor>,
    observer: &'a dyn Observer,
    tasks: JoinSet<Report>,
    /// Which command each task carries out, to name the event it answers with, even if it panics.
    under_way: HashMap<Id, (Command, PollTimer)>,
    /// Tasks that hang, each on a thread, and that nobody waits for any more.
    given_up: usize,
    /// Tasks that nobody waits for any more, those included that no thread was left for.
    left: usize,
    cells: Vec<Cell>,
}

/// Runs the machine to its end.
pub async fn run_to_end(
    mut run: Run,
    executor: Arc<dyn Executor>,
    observer: &dyn Observer,
    cancel: &CancellationToken,
) -> Result<LoopEnd, crate::Error> {
    let graph = run.graph().clone();
    let cells = (0..graph.len() as u32)
        .map(|index| Cell { result: blank(&graph, NodeId(index)), started: None })
        .collect();
    let mut this = RunLoop {
        graph: graph.clone(),
        executor,
        observer,
        tasks: JoinSet::new(),
        under_way: HashMap::new(),
        given_up: 0,
        left: 0,
        cells,
    };
    // With as many tasks stuck as there are threads, no other can go on either.
    let threads = tokio::runtime::Handle::current().metrics().num_workers();
    let mut told: Option<Instant> = None;
    let mut look_again = hung::LOOKED_AT_EVERY;
    let illegal =
        |error: zester_engine::IllegalTransition| crate::Error::other(format!("a bug in zester: {error}"));
    let commands = run.step(Event::Start).map_err(illegal)?;
    this.execute(&run, commands);
    while !run.is_finished() {
        let event = tokio::select! {
            biased;
            _ = cancel.cancelled(), if told.is_none() => {
                told = Some(Instant::now());
                Event::Cancel
            }
            Some(joined) = this.tasks.join_next_with_id() => match this.take(joined) {
                Some(event) => event,
                None => continue,
            },
            () = hung::wait(look_again), if told.is_some() && !this.under_way.is_empty() => {
                let over = told.is_some_and(|told| told.elapsed() >= hung::GRACE);
                let given_up = over.then(|| this.give_up(threads)).flatten();
                // Where one hangs there may be more, and nothing to wait for.
                look_again = if given_up.is_some() { Duration::ZERO } else { hung::LOOKED_AT_EVERY };
                match given_up {
                    Some(event) => event,
                    None => continue,
                }
            }
            else => return Err(crate::Error::other("a bug in zester: nothing is under way and the run has not ended")),
        };
        let commands = run.step(event).map_err(illegal)?;
        this.execute(&run, commands);
    }
    let given_up = this.left > 0;
    let mut cells = this.cells;
    let mut take = |node: &NodeId| cells.get_mut(node.index()).map(|cell| std::mem::take(&mut cell.result));
    let states = graph.ranked().iter().filter_map(&mut take).collect();
    Ok(LoopEnd { run, states, given_up })
}

fn blank(graph: &Graph, node: NodeId) -> StateResult {
    StateResult { name: graph.name(node).to_string(), level: graph.level_of(node), ..StateResult::default() }
}

impl RunLoop<'_> {
    fn execute(&mut self, run: &Run, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::Level(level) => self.observer.level(level, self.graph.level(level).len()),
                Command::Skip { node, reason, because } => self.skip(node, reason, &because),
                Command::Done { node, outcome } => self.done(run, node, outcome),
                Command::Finish => {}
                command => self.begin(command),
            }
        }
        self.executor.settled();
    }

    fn begin(&mut self, command: Command) {
        let (node, doing, forced) = match &command {
            Command::Probe { node, .. } => (*node, "asking", None),
            Command::Guard(node) => (*node, "guard", None),
            Command::Check { node, forced } => (*node, "check", forced.as_ref()),
            Command::Apply { node, forced } => (*node, "apply", forced.as_ref()),
            Command::Revert(node) => (*node, "revert", None),
            Command::Wait { node, .. } => (*node, "waiting to try again", None),
            Command::Level(_) | Command::Skip { .. } | Command::Done { .. } | Command::Finish => return,
        };
        let note = forced.map(|force| self.describe(force));
        if let Some(cell) = self.cells.get_mut(node.index()) {
            cell.started.get_or_insert_with(Instant::now);
            if let Some((how, by)) = note {
                cell.result.details.insert("forced".into(), json!(how));
                cell.result.details.insert("forced_by".into(), json!(by));
            }
            self.observer.started(&cell.result.name, doing);
        }
        let poll_timer = PollTimer::new();
        let work = self.executor.clone().execute(command.clone());
        let task = self.tasks.spawn(TimedTask { work, poll_timer: poll_timer.clone() });
        self.under_way.insert(task.id(), (command, poll_timer));
    }

    fn describe(&self, force: &Force) -> (&'static str, Vec<String>) {
        let name = |node: &NodeId| self.graph.name(*node).to_string();
        match force {
            Force::Watch { changed } => ("watch", changed.iter().map(name).collect()),
            Force::PendingRefresh => ("pending_refresh", Vec::new()),
            Force::Prereq { target } => ("prereq", vec![name(target)]),
        }
    }

    /// A task ended: its words go into the result, its verdict to the machine.
    fn take(&mut self, joined: Result<(Id, Report), JoinError>) -> Option<Event> {
        let (id, report) = match joined {
            Ok((id, report)) => (id, Ok(report)),
            Err(error) => (error.id(), Err(panicked(error))),
        };
        let (command, _) = self.under_way.remove(&id)?;
        // Where a module that panicked had got to, nobody knows: who watches it is not to be left out.
        let report = report.unwrap_or_else(|fault| Report::plain(Err(fault.touched())));
        self.report(command, report)
    }

    /// After a cancel and its grace: one task that hangs in a call which does not return. Who watches it is told, for
    /// what it still does nobody will know.
    fn give_up(&mut self, threads: usize) -> Option<Event> {
        let hanging = self.under_way.values().filter(|(_, poll_timer)| poll_timer.hangs()).count();
        let all = self.given_up + hanging >= threads;
        let id = *self.under_way.iter().find(|(_, (_, poll_timer))| all || poll_timer.hangs())?.0;
        let (command, poll_timer) = self.under_way.remove(&id)?;
        self.left += 1;
        let node = node_of(&command)?;
        self.executor.given_up(node);
        let mut fault = Fault::canceled().touched();
        if poll_timer.hangs() {
            self.given_up += 1;
            fault.message =
                "canceled; it could not be interrupted: a call to the system does not return".into();
            fault.details.insert("uninterruptible".into(), json!(true));
            self.observer.notice(&format!("{} could not be interrupted", self.graph.name(node)));
        }
        self.report(command, Report::plain(Err(fault)))
    }

    /// What a command came to: its words go into the result, its verdict to the machine.
    fn report(&mut self, command: Command, report: Report) -> Option<Event> {
        let acting = matches!(command, Command::Apply { .. } | Command::Revert(_));
        if let Command::Probe { node, target, .. } = command {
            let would_change = matches!(report.verdict, Ok(true));
            return Some(Event::Probed { node, target, would_change });
        }
        let node = node_of(&command)?;
        let failed = |fault: &Fault| Failed { touched: acting && fault.touched };
        let result = report.verdict.as_ref().map(|met| *met).map_err(failed);
        self.note(node, &command, report);
        Some(match command {
            Command::Guard(_) => Event::Guarded { node, result },
            Command::Check { .. } => Event::Checked { node, result },
            Command::Apply { .. } => Event::Applied { node, result },
            Command::Revert(_) => Event::Reverted { node, result },
            _ => Event::Waited { node },
        })
    }

    fn note(&mut self, node: NodeId, command: &Command, report: Report) {
        if matches!(command, Command::Wait { .. }) {
            return;
        }
        let Some(cell) = self.cells.get_mut(node.index()) else { return };
        let result = &mut cell.result;
        result.details.extend(report.details);
        match report.verdict {
            Ok(_) => {
                result.error.clear();
                if !report.diff.is_empty() {
                    result.diff = report.diff;
                }
            }
            Err(fault) => {
                result.error = fault.to_string();
                result.details.extend(*fault.details);
            }
        }
    }

    fn skip(&mut self, node: NodeId, reason: SkipReason, because: &[NodeId]) {
        let names: Vec<String> = because.iter().map(|node| self.graph.name(*node).to_string()).collect();
        self.executor.left(node);
        let Some(cell) = self.cells.get_mut(node.index()) else { return };
        cell.result.skipped = true;
        cell.result.skip_reason = reason.to_string();
        if !names.is_empty() {
            cell.result.details.insert("because".into(), json!(names));
        }
        self.observer.ended(&cell.result);
    }

    fn done(&mut self, run: &Run, node: NodeId, outcome: Outcome) {
        let attempts = run.attempts(node);
        let Some(cell) = self.cells.get_mut(node.index()) else { return };
        let result = &mut cell.result;
        result.changed = outcome.changed();
        match outcome {
            Outcome::GuardUnmet => result.diff = GUARD_UNMET.into(),
            Outcome::Interrupted { .. } => result.error = "canceled".into(),
            Outcome::Failed { .. } if result.error.is_empty() => result.error = "failed".into(),
            _ => {}
        }
        if !result.error.is_empty() && !result.changed {
            result.diff.clear();
        }
        if outcome.failed() && outcome.altered() {
            result.details.insert("touched".into(), json!(true));
        }
        if result.changed && result.diff.is_empty() && attempts > 1 {
            result.diff = DONE_BEFORE.into();
        }
        if attempts > 0 && run.mode() != Mode::Check && self.graph.retries(node) {
            result.details.insert("attempts".into(), json!(attempts));
        }
        result.duration_ms = cell.started.map_or(0, |started| started.elapsed().as_millis() as u64);
        self.executor.ended(run, node, outcome);
        self.executor.left(node);
        self.observer.ended(&cell.result);
    }
}

/// Whom a command that takes time is for.
pub(crate) fn node_of(command: &Command) -> Option<NodeId> {
    match command {
        Command::Guard(node) | Command::Revert(node) => Some(*node),
        Command::Probe { node, .. }
        | Command::Check { node, .. }
        | Command::Apply { node, .. }
        | Command::Wait { node, .. } => Some(*node),
        Command::Level(_) | Command::Skip { .. } | Command::Done { .. } | Command::Finish => None,
    }
}

/// A panic in a module is that state's failure, not the run's (S-33).
fn panicked(error: JoinError) -> Fault {
    let what = match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
            text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
        }
        Err(error) => error.to_string(),
    };
    Fault::new(zester_host::FaultKind::Io, format!("the module panicked: {what}; this is a bug in zester"))
}

/// The word of a mode for people.
pub fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Apply => "apply",
        Mode::Check => "check",
        Mode::Revert => "revert",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_engine::NodeSpec;
    use zester_model::name::StateName;
    use zester_model::requisite::EdgeKind;
    use zester_rule::rule;

    /// The module of the first state has a bug; the others are fine.
    struct Buggy;

    impl Executor for Buggy {
        fn execute(self: Arc<Self>, command: Command) -> BoxFuture<'static, Report> {
            Box::pin(async move {
                match command {
                    Command::Apply { node: NodeId(0), .. } => panic!("index 7 of 3"),
                    _ => Report::plain(Ok(true)),
                }
            })
        }

        fn ended(&self, _: &Run, _: NodeId, _: Outcome) {}
    }

    #[tokio::test]
    #[rule("S-33")]
    async fn s33_a_panic_is_the_failure_of_its_state_and_the_run_goes_on() {
        let node = |id: &str, edges: Vec<(usize, EdgeKind)>| NodeSpec {
            edges,
            ..NodeSpec::new(StateName::new("test.nop", id))
        };
        let graph = Graph::build(vec![
            node("bug", vec![]),
            node("beside", vec![]),
            node("behind", vec![(0, EdgeKind::Require)]),
            node("handler", vec![(0, EdgeKind::Onfail)]),
        ])
        .unwrap();
        let run = Run::new(Arc::new(graph), Mode::Apply, 8);
        let cancel = CancellationToken::new();
        let ended_loop = run_to_end(run, Arc::new(Buggy), &NoObserver, &cancel).await.unwrap();
        let of = |id: &str| {
            let name = format!("test.nop:{id}");
            ended_loop.states.iter().find(|state| state.name == name).cloned().unwrap()
        };
        assert_eq!(of("bug").error, "the module panicked: index 7 of 3; this is a bug in zester");
        assert!(!of("bug").changed);
        assert!(of("beside").changed);
        assert_eq!(of("behind").skip_reason, "require_failed");
        assert!(of("handler").changed);
    }

    /// A state and who watches it.
    fn watched() -> Arc<Graph> {
        let first = NodeSpec::new(StateName::new("test.nop", "first"));
        let edges = vec![(0, EdgeKind::Watch)];
        let watcher = NodeSpec { edges, ..NodeSpec::new(StateName::new("test.nop", "watcher")) };
        Arc::new(Graph::build(vec![first, watcher]).unwrap())
    }

    #[tokio::test]
    #[rule("S-33", "S-43")]
    async fn s43_where_a_module_panicked_nobody_knows_what_it_did_and_its_watcher_stays_pending() {
        let run = Run::new(watched(), Mode::Apply, 8);
        let ended_loop =
            run_to_end(run, Arc::new(Buggy), &NoObserver, &CancellationToken::new()).await.unwrap();
        assert_eq!(ended_loop.states[0].details["touched"], true);
        assert_eq!(ended_loop.run.pending_refreshes(), [NodeId(1)]);
    }

    /// The first state hangs in a call that does not return, until its test is over.
    struct Hanging {
        begun: CancellationToken,
        until: std::sync::Mutex<Option<std::sync::mpsc::Receiver<()>>>,
    }

    impl Executor for Hanging {
        fn execute(self: Arc<Self>, command: Command) -> BoxFuture<'static, Report> {
            Box::pin(async move {
                if matches!(command, Command::Apply { node: NodeId(0), .. }) {
                    let until = self.until.lock().unwrap().take();
                    self.begun.cancel();
                    let _ = until.map(|until| until.recv());
                }
                Report::plain(Ok(true))
            })
        }

        fn ended(&self, _: &Run, _: NodeId, _: Outcome) {}
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[rule("S-32", "S-43")]
    async fn s43_what_a_state_that_was_given_up_does_nobody_knows_and_its_watcher_stays_pending() {
        let (over, until) = std::sync::mpsc::sync_channel(1);
        // Canceled once it hangs.
        let cancel = CancellationToken::new();
        let until = std::sync::Mutex::new(Some(until));
        let executor = Arc::new(Hanging { begun: cancel.clone(), until });
        let run = Run::new(watched(), Mode::Apply, 8);
        let ended_loop = run_to_end(run, executor, &NoObserver, &cancel).await.unwrap();
        drop(over);
        assert_eq!(ended_loop.states[0].details["uninterruptible"], true);
        assert_eq!(ended_loop.states[0].details["touched"], true);
        assert_eq!(ended_loop.run.pending_refreshes(), [NodeId(1)]);
    }
}
