//! The peel's own schedule: what is due goes through the same queue as jobs, bus or no bus (D-9, D-10).

use super::actor::{Actor, Running};
use super::tasks::{self, Done};
use crate::schedule::{Document, Joined, Kept, Looker, Options, SETTINGS_SOURCE, SourceUpdate, Sources};
use crate::store::StoreError;
use crate::work::Outcome;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_health::State;
use zester_jobs::dedup::Dispatch;
use zester_jobs::peel::Event;
use zester_link::Link;
use zester_schedule::{
    Command, Dice, Event as ScheduleEvent, Memory, NotRun, Run, Running as Begun, Schedule,
};
use zester_wire::{Cause, ExecRequest, Jid, Return, ScheduledRun, UnixMillis, VERSION};

/// A schedule is looked at this often at least, so that a clock that is set is noticed.
const TICK_MAX: Duration = Duration::from_secs(30);
/// How long a peel that starts waits for a source of its schedule before it begins with the other.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How soon what could not be written is tried again.
const SAVE_AGAIN: Duration = Duration::from_secs(5);
/// Who asked, for a run of the schedule.
const USER: &str = "schedule";
/// What is answered in the first moments of a peel.
const UNREAD: &str = "the peel has just started and has not read its schedule yet; ask again";
/// The line of `readyz`.
const HEALTH: &str = "schedule";

pub(super) struct Scheduler {
    options: Options,
    kept: Kept,
    machine: Schedule,
    sources: Sources,
    /// What was kept on disk, until the machine has it.
    remembered: Option<Memory>,
    /// When the machine begins, though not every source has spoken.
    start_by: Instant,
    /// Runs that begin when it is on disk that they do.
    starting: Vec<Run>,
    /// Results that are not on disk yet, the oldest first.
    results: Vec<Return>,
    saving: bool,
    save_again: bool,
    /// Why the last write failed, and when the next is tried.
    unsaved: Option<(String, Instant)>,
    told: Option<String>,
}

/// What one write to disk was about.
pub(super) struct Saved {
    runs: Vec<Run>,
    results: Vec<Return>,
    result: Result<(), StoreError>,
}

struct LinkDice<'a>(&'a Link);

impl Dice for LinkDice<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        // A share of a span, to the millisecond: 64 bits of chance are more than enough.
        let token = self.0.new_token().map(|token| token.as_str().to_string()).unwrap_or_default();
        let rolled = token.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0);
        rolled.checked_rem(bound).unwrap_or(0)
    }

    fn jid(&mut self) -> Jid {
        self.0.new_jid()
    }
}

impl Scheduler {
    pub(super) fn open(options: Options) -> Result<Scheduler, StoreError> {
        let kept = Kept::open(&options.dir)?;
        let Document { memory, file, settings } = kept.document();
        let sources = Sources::new(file, settings, &options.local_zone);
        Ok(Scheduler {
            sources: if options.file.is_some() { sources } else { sources.without_file() },
            remembered: Some(memory),
            start_by: Instant::now() + START_PATIENCE,
            kept,
            options,
            machine: Schedule::default(),
            starting: Vec::new(),
            results: Vec::new(),
            saving: false,
            save_again: false,
            unsaved: None,
            told: None,
        })
    }

    pub(super) fn lookers(&self) -> [Looker; 2] {
        Looker::both(&self.options)
    }

    fn document(&self) -> Document {
        let (file, settings) = self.sources.kept();
        Document { memory: self.machine.memory().clone(), file, settings }
    }

    /// It has begun.
    fn is_read(&self) -> bool {
        self.remembered.is_none()
    }

    /// When it must be looked at again, by the clock of the wall.
    fn next_run(&self, now: UnixMillis) -> Option<Instant> {
        let ahead = self.machine.next_wake()?.since(now).min(TICK_MAX);
        // Not a moment too early: a clock that counts milliseconds would be asked again and again.
        Some(Instant::now() + ahead + Duration::from_millis(1))
    }

    /// What keeps it from starting anything.
    fn unsaved(&self) -> Option<String> {
        self.unsaved.as_ref().map(|(why, _)| {
            format!("what the schedule must remember cannot be written, and nothing is started before it is: {why}")
        })
    }
}

impl Actor {
    /// When the schedule must be looked at.
    pub(super) fn schedule_wake(&self) -> Option<Instant> {
        let scheduler = self.schedule.as_ref().filter(|_| !self.stopping)?;
        if !scheduler.is_read() {
            return Some(scheduler.start_by);
        }
        let retry = scheduler.unsaved.as_ref().filter(|_| !scheduler.saving).map(|(_, at)| *at);
        scheduler.next_run(self.link.now()).into_iter().chain(retry).min()
    }

    pub(super) fn look_at_schedule(&mut self, looker: Looker) {
        let work = self.work.clone();
        self.background.spawn(async move {
            let (looker, look) = looker.look(work.as_ref()).await;
            super::presence::BackgroundDone::Schedule(Box::new((looker, look)))
        });
    }

    pub(super) fn schedule_looked(&mut self, looker: Looker, update: Option<SourceUpdate>) {
        self.look_at_schedule(looker);
        let (Some(scheduler), Some(update)) = (&mut self.schedule, update) else { return };
        let joined = scheduler.sources.take(update);
        let (is_read, all_spoke) = (scheduler.is_read(), scheduler.sources.all_spoke());
        self.tell_schedule_health();
        match (is_read, all_spoke) {
            (true, _) => {
                let Joined { entries, awaited, late } = joined;
                self.schedule_begins(ScheduleEvent::Replaced { entries, awaited, late });
            }
            (false, true) => self.start_schedule(),
            // The other one has a moment.
            (false, false) => {}
        }
    }

    /// Begins with what the sources have said so far.
    fn start_schedule(&mut self) {
        let Some(scheduler) = &mut self.schedule else { return };
        let Some(memory) = scheduler.remembered.take() else { return };
        let Joined { entries, awaited, .. } = scheduler.sources.joined();
        self.schedule_begins(ScheduleEvent::Start { entries, memory, awaited });
    }

    /// What the sources say is kept with what is remembered.
    fn schedule_begins(&mut self, event: ScheduleEvent) {
        if let Some(scheduler) = &mut self.schedule {
            scheduler.save_again = true;
        }
        self.schedule_step(event);
    }

    /// In the log once for each problem, and in `readyz` for as long as it lasts.
    fn tell_schedule_health(&mut self) {
        let Some(scheduler) = &mut self.schedule else { return };
        let broken =
            scheduler.sources.problem().map(|why| format!("the last good one stays in force: {why}"));
        let told: Vec<String> = broken.into_iter().chain(scheduler.unsaved()).collect();
        let problem = Some(told.join("; ")).filter(|told| !told.is_empty());
        if problem == scheduler.told {
            return;
        }
        match &problem {
            Some(why) => {
                tracing::error!("something is wrong with the schedule: {why}");
                self.gauges.health().set(HEALTH, State::Degraded(why.clone()));
            }
            None => {
                tracing::info!("the schedule is good again");
                self.gauges.health().set(HEALTH, State::Up);
            }
        }
        scheduler.told = problem;
    }

    pub(super) fn schedule_time(&mut self) {
        let Some(scheduler) = self.schedule.as_ref().filter(|_| !self.stopping) else { return };
        match scheduler.is_read() {
            true => self.schedule_step(ScheduleEvent::Time),
            false if Instant::now() >= scheduler.start_by => self.start_schedule(),
            false => {}
        }
    }

    fn schedule_step(&mut self, happening: ScheduleEvent) {
        let now = self.link.now();
        let Some(scheduler) = &mut self.schedule else { return };
        let commands = scheduler.machine.step(happening, now, &mut LinkDice(&self.link));
        self.carry_schedule(commands);
    }

    fn carry_schedule(&mut self, commands: Vec<Command>) {
        let Some(scheduler) = &mut self.schedule else { return };
        for command in commands {
            match command {
                Command::Save => scheduler.save_again = true,
                Command::Run(run) => scheduler.starting.push(*run),
                Command::Missed { name, first, last, count, more, made_up } => {
                    let or_more = if more { " or more" } else { "" };
                    let then = if made_up { "; one run makes up for them" } else { "" };
                    let (from, to) = (shown(first.0), shown(last.0));
                    tracing::warn!(
                        "the schedule missed {count}{or_more} of `{name}`, from {from} to {to}{then}"
                    );
                }
                Command::Skipped { name, running, .. } => {
                    tracing::warn!(
                        "`{name}` is due and not run: {running} of it under way, and no more may be"
                    );
                }
                Command::Interrupted { name, run } => {
                    tracing::warn!(jid = %run.jid, "`{name}` was interrupted: the peel restarted");
                    let result = interrupted(&scheduler.machine, self.setup.id.clone(), &name, &run);
                    scheduler.results.push(result);
                }
            }
        }
        self.save_schedule();
    }

    /// One write at a time; what comes meanwhile goes with the next.
    fn save_schedule(&mut self) {
        let Some(scheduler) = &mut self.schedule else { return };
        let wanted = scheduler.save_again || !scheduler.results.is_empty() || !scheduler.starting.is_empty();
        let waits = scheduler.unsaved.as_ref().is_some_and(|(_, at)| Instant::now() < *at);
        // A peel that stops has no later.
        if !scheduler.is_read() || scheduler.saving || !wanted || (waits && !self.stopping) {
            return;
        }
        (scheduler.saving, scheduler.save_again) = (true, false);
        let (kept, document) = (scheduler.kept.clone(), scheduler.document());
        let (runs, results) =
            (std::mem::take(&mut scheduler.starting), std::mem::take(&mut scheduler.results));
        self.tasks.spawn(async move {
            let saving = results.clone();
            let written = tokio::task::spawn_blocking(move || kept.save(&document, &saving)).await;
            let result = written.unwrap_or_else(|error| Err(StoreError(error.to_string())));
            Done::ScheduleSaved(Saved { runs, results, result })
        });
    }

    pub(super) fn schedule_saved(&mut self, saved: Saved) {
        let Some(scheduler) = &mut self.schedule else { return };
        let Saved { runs, results, result } = saved;
        scheduler.saving = false;
        if let Err(why) = result {
            // Nothing of it is lost, and none of the runs begins: before what came meanwhile.
            scheduler.starting.splice(0..0, runs);
            scheduler.results.splice(0..0, results);
            Kept::drop_surplus(&mut scheduler.results);
            scheduler.save_again = true;
            scheduler.unsaved = Some((why.to_string(), Instant::now() + SAVE_AGAIN));
            return self.tell_schedule_health();
        }
        scheduler.unsaved = None;
        self.tell_schedule_health();
        // What was to begin in a stop is interrupted, as the next life tells.
        let begins = !self.stopping;
        for run in runs.into_iter().filter(|_| begins) {
            self.begin_scheduled(run);
        }
        self.save_schedule();
    }

    /// It is written down that it begins. That may have taken long.
    fn begin_scheduled(&mut self, run: Run) {
        let now = self.link.now();
        let Some(scheduler) = &mut self.schedule else { return };
        let mut commands = scheduler.machine.release(Box::new(run), now);
        let begins = commands.extract_if(.., |command| matches!(command, Command::Run(_)));
        for command in begins.collect::<Vec<_>>() {
            let Command::Run(run) = command else { continue };
            let schedule =
                ScheduledRun { name: run.name.clone(), function: run.function.clone(), due: run.due };
            tracing::info!(jid = %run.jid, function = run.function, "`{}` is due", run.name);
            let is_published = self.is_published(&run.name);
            let request = request(*run);
            match is_published.then(|| self.schedule_refused(&request)).flatten() {
                Some(why) => {
                    let (peel, epoch) = (self.setup.id.clone(), request.dispatch_epoch);
                    let ret = Return::refusing(request.jid, peel, epoch, Cause::Refused, &why);
                    self.schedule_ended(Return { schedule: Some(schedule), ts: now, ..ret });
                }
                None => self.feed(Event::Scheduled { request: Box::new(request), schedule }),
            }
        }
        self.carry_schedule(commands);
    }

    /// Whether an entry is of the settings, which masters publish: not of a file of this machine.
    fn is_published(&self, name: &str) -> bool {
        let entry = self.schedule.as_ref().and_then(|scheduler| scheduler.machine.entry(name));
        entry.is_none_or(|entry| entry.source == SETTINGS_SOURCE)
    }

    /// A run has ended, whichever way.
    pub(super) fn schedule_ended(&mut self, ret: Return) {
        let happening =
            ScheduleEvent::Ended { jid: ret.jid.clone(), success: ret.success, error: ret.error.clone() };
        let Some(scheduler) = &mut self.schedule else { return };
        scheduler.results.push(ret);
        Kept::drop_surplus(&mut scheduler.results);
        if scheduler.is_read() {
            self.schedule_step(happening);
        }
    }

    /// `schedule.list`, `schedule.show` and `schedule.run` are for this actor to answer.
    pub(super) fn answers_itself(&self, request: &ExecRequest) -> bool {
        self.schedule.is_some() && request.function.starts_with("schedule.")
    }

    pub(super) fn schedule_asked(&mut self, request: ExecRequest) {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let names = names(&request);
        let is_read = self.schedule.as_ref().is_some_and(Scheduler::is_read);
        let answer = match request.function.as_str() {
            _ if !is_read => Err(UNREAD.to_string()),
            "schedule.list" => Ok(Ask::Rows(false)),
            "schedule.show" => Ok(Ask::Rows(true)),
            "schedule.run" => self.run_by_hand(&names).map(Ask::Told),
            other => Err(zester_converge::call::unknown(other)),
        };
        let Some(scheduler) = &self.schedule else { return };
        let (problem, unsaved) = (scheduler.sources.problem(), scheduler.unsaved());
        let rows: Vec<Value> = scheduler
            .machine
            .rows()
            .iter()
            .filter(|row| names.is_empty() || names.contains(&row.name))
            .map(|row| serde_json::to_value(row).unwrap_or_default())
            .collect();
        // Of several names each peel tells of those that it has.
        let missing = names.first().filter(|_| rows.is_empty()).map(|name| scheduler.machine.no_such(name));
        let (kept, peel, link) = (scheduler.kept.clone(), self.setup.id.clone(), self.link.clone());
        let began = Instant::now();
        let asked = dispatch.clone();
        let task = self.tasks.spawn(async move {
            let answer = match (answer, missing) {
                (Ok(Ask::Rows(_)), Some(why)) => Err(why),
                (Ok(Ask::Rows(with_results)), None) => {
                    let entries = listed(kept, rows, with_results).await;
                    Ok(json!({ "entries": entries, "problem": problem, "unsaved": unsaved }))
                }
                (Ok(Ask::Told(answer)), _) => Ok(answer),
                (Err(why), _) => Err(why),
            };
            let outcome = match answer {
                Ok(answer) => {
                    Outcome { success: true, error: String::new(), answer, canceled: false, revision: None }
                }
                Err(error) => {
                    Outcome { success: false, error, answer: Value::Null, canceled: false, revision: None }
                }
            };
            let ret = tasks::returned(outcome, &asked, peel, began.elapsed(), link.now());
            Done::Ran { dispatch: asked, ret: Box::new(ret) }
        });
        let running =
            Running { cancel: CancellationToken::new(), task: task.id(), aborted: None, mutating: false };
        self.running.insert(dispatch, running);
    }

    fn run_by_hand(&mut self, names: &[String]) -> Result<Value, String> {
        let [name] = names else { return Err("schedule.run: name one entry of the schedule".into()) };
        let now = self.link.now();
        let Some(scheduler) = &mut self.schedule else { return Err("there is no schedule".into()) };
        if let Some(why) = scheduler.unsaved() {
            return Err(why);
        }
        match scheduler.machine.run_now(name, now, &mut LinkDice(&self.link)) {
            Ok((jid, commands)) => {
                self.carry_schedule(commands);
                Ok(json!({ "name": name, "started": true, "jid": jid.as_str() }))
            }
            Err(NotRun::NoSuch(why) | NotRun::Busy(why)) => Err(why),
        }
    }
}

/// What is asked about a schedule.
enum Ask {
    /// The entries; with their last results or without.
    Rows(bool),
    Told(Value),
}

async fn listed(kept: Kept, rows: Vec<Value>, with_results: bool) -> Vec<Value> {
    let mut entries = rows;
    if with_results {
        let read = tokio::task::spawn_blocking(move || {
            for entry in &mut entries {
                let name = entry.get("name").and_then(Value::as_str).unwrap_or_default().to_string();
                let results: Vec<Value> = kept
                    .results(&name)
                    .into_iter()
                    .map(|result| serde_json::to_value(result).unwrap_or_default())
                    .collect();
                if let Some(map) = entry.as_object_mut() {
                    map.insert("results".into(), Value::Array(results));
                }
            }
            entries
        });
        entries = read.await.unwrap_or_default();
    }
    entries
}

/// The names that a request gives: bare words, or `name=`, one or a list.
pub(super) fn names(request: &ExecRequest) -> Vec<String> {
    let first = Some(request.state_id.clone()).filter(|word| !word.is_empty()).map(Value::String);
    let given =
        first.into_iter().chain(request.positionals.iter().cloned()).chain(request.args.get("name").cloned());
    given
        .flat_map(|value| match value {
            Value::Array(items) => items,
            one => vec![one],
        })
        .filter(|value| !value.is_null())
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_string))
        .collect()
}

fn request(run: Run) -> ExecRequest {
    let kwargs: Map<String, Value> = run.kwargs;
    ExecRequest {
        v: VERSION,
        jid: run.jid,
        function: run.function,
        args: kwargs,
        state_id: String::new(),
        dispatch_epoch: 1,
        budget: run.timeout,
        user: USER.into(),
        rdepth: 0,
        positionals: run.args,
        test: false,
        // Nobody waits for it: it stays here.
        direct: !run.return_job,
        request: Vec::new(),
        proof: None,
    }
}

/// What is kept of a run that an earlier life began.
fn interrupted(machine: &Schedule, peel: zester_wire::PeelId, name: &str, run: &Begun) -> Return {
    let function = machine.entry(name).map(|entry| entry.function.clone()).unwrap_or_default();
    let schedule = ScheduledRun { name: name.into(), function, due: run.due };
    let words = zester_jobs::peel::INTERRUPTED;
    let ret = Return::refusing(run.jid.clone(), peel, 1, Cause::Interrupted, words);
    Return { schedule: Some(schedule), ts: run.started, ..ret }
}

/// A moment of the wall for the log.
fn shown(millis: u64) -> String {
    zester_schedule::shown(UnixMillis(millis))
}
