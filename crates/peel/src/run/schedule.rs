//! The peel's own schedule: what is due goes through the same queue as jobs, bus or no bus (D-9, D-10).

use super::actor::{Actor, Running};
use super::tasks::{self, Done};
use crate::schedule::{Document, Given, Kept, Looker, Options, SourceUpdate, given_again};
use crate::store::StoreError;
use crate::work::Outcome;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_health::State;
use zester_jobs::dedup::Dispatch;
use zester_jobs::peel::Event;
use zester_link::Link;
use zester_schedule::limits::ENTRIES_MAX;
use zester_schedule::{
    Command, Dice, Entry, Event as ScheduleEvent, NotRun, Run, Running as Begun, Schedule,
};
use zester_wire::{Cause, ExecRequest, Jid, Return, ScheduledRun, VERSION};

/// A schedule is looked at this often at least, so that a clock that is set is noticed.
const TICK_MAX: Duration = Duration::from_secs(30);
/// Who asked, for a run of the schedule.
const USER: &str = "schedule";
/// What is answered in the first moments of a peel.
const UNREAD: &str = "the peel has just started and has not read its schedule yet; ask again";
/// The line of `readyz`.
const HEALTH: &str = "schedule";

/// What one source says, and what is wrong with it now.
#[derive(Default)]
struct Source {
    given: Given,
    problem: Option<String>,
}

pub(super) struct Scheduler {
    options: Options,
    kept: Kept,
    machine: Schedule,
    /// What was kept on disk, until the machine has it.
    remembered: Option<Document>,
    file: Source,
    settings: Source,
    /// Runs that begin when it is on disk that they do.
    starting: Vec<Run>,
    results: Vec<Return>,
    saving: bool,
    save_again: bool,
    told: Option<String>,
}

/// What one write to disk was about.
pub(super) struct Saved {
    runs: Vec<Run>,
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
        Ok(Scheduler {
            remembered: Some(kept.document()),
            kept,
            options,
            machine: Schedule::default(),
            file: Source::default(),
            settings: Source::default(),
            starting: Vec::new(),
            results: Vec::new(),
            saving: false,
            save_again: false,
            told: None,
        })
    }

    pub(super) fn looker(&self) -> Looker {
        Looker::new(self.options.clone())
    }

    fn document(&self) -> Document {
        Document {
            memory: self.machine.memory().clone(),
            file: self.file.given.value.clone(),
            settings: self.settings.given.value.clone(),
        }
    }

    /// Takes what a look found. What is broken leaves what was; at the start, what was kept.
    fn take(&mut self, look: SourceUpdate) {
        let zone = &self.options.local_zone;
        let kept = self.remembered.as_ref();
        let again = |value: Option<&Value>, source: &str| {
            value.and_then(|value| given_again(value, source, zone).ok()).unwrap_or_default()
        };
        for (source, found, before, name) in [
            (&mut self.file, look.file, kept.map(|kept| &kept.file), "file"),
            (&mut self.settings, look.settings, kept.map(|kept| &kept.settings), "settings"),
        ] {
            match found {
                Some(Ok(given)) => (source.given, source.problem) = (given, None),
                Some(Err(why)) => {
                    if before.is_some() {
                        source.given = again(before, name);
                    }
                    source.problem = Some(why);
                }
                None => {}
            }
        }
    }

    /// Both sources as one; of two entries of one name that of the settings counts.
    fn joined(&mut self) -> Option<Vec<Entry>> {
        let both = self.file.given.entries.iter().chain(&self.settings.given.entries);
        let by_name: BTreeMap<&str, &Entry> = both.map(|entry| (entry.name.as_str(), entry)).collect();
        if by_name.len() > ENTRIES_MAX {
            let count = by_name.len();
            self.settings.problem =
                Some(format!("file and settings together have {count} entries; {ENTRIES_MAX} are the most"));
            return None;
        }
        Some(by_name.into_values().cloned().collect())
    }

    fn problem(&self) -> Option<String> {
        let told: Vec<&str> =
            [&self.file, &self.settings].into_iter().filter_map(|source| source.problem.as_deref()).collect();
        (!told.is_empty()).then(|| told.join("; "))
    }
}

impl Actor {
    /// When the schedule must be looked at.
    pub(super) fn schedule_wake(&self) -> Option<Instant> {
        let scheduler = self.schedule.as_ref().filter(|_| !self.stopping)?;
        let wake = scheduler.machine.next_wake()?;
        let ahead = wake.since(self.link.now()).min(TICK_MAX);
        // Not a moment too early: a clock that counts milliseconds would be asked again and again.
        Some(Instant::now() + ahead + Duration::from_millis(1))
    }

    pub(super) fn look_at_schedule(&mut self, looker: Looker) {
        let work = self.work.clone();
        self.background.spawn(async move {
            let (looker, look) = looker.look(work.as_ref()).await;
            super::presence::BackgroundDone::Schedule(Box::new((looker, look)))
        });
    }

    pub(super) fn schedule_looked(&mut self, looker: Looker, look: SourceUpdate) {
        self.look_at_schedule(looker);
        let Some(scheduler) = &mut self.schedule else { return };
        let news = look.file.is_some() || look.settings.is_some();
        if !news && scheduler.remembered.is_none() {
            return;
        }
        scheduler.take(look);
        let entries = scheduler.joined();
        let remembered = scheduler.remembered.take();
        let happening = match (remembered, entries) {
            (Some(document), entries) => {
                let (entries, memory) = (entries.unwrap_or_default(), document.memory);
                Some(ScheduleEvent::Start { entries, memory })
            }
            (None, Some(entries)) => Some(ScheduleEvent::Replaced { entries }),
            (None, None) => None,
        };
        self.tell_schedule_health();
        if let Some(happening) = happening {
            if let Some(scheduler) = &mut self.schedule {
                // What the sources say is kept with it.
                scheduler.save_again = true;
            }
            self.schedule_step(happening);
            self.save_schedule();
        }
    }

    /// In the log once for each problem, and in `readyz` for as long as it lasts.
    fn tell_schedule_health(&mut self) {
        let Some(scheduler) = &mut self.schedule else { return };
        let problem = scheduler.problem();
        if problem == scheduler.told {
            return;
        }
        match &problem {
            Some(why) => {
                tracing::error!("the schedule is broken, and the last good one stays in force: {why}");
                let state = State::Degraded(format!("the last good one stays in force: {why}"));
                self.gauges.health().set(HEALTH, state);
            }
            None => {
                tracing::info!("the schedule is good again");
                self.gauges.health().set(HEALTH, State::Up);
            }
        }
        scheduler.told = problem;
    }

    pub(super) fn schedule_time(&mut self) {
        let started = self.schedule.as_ref().is_some_and(|scheduler| scheduler.remembered.is_none());
        if started && !self.stopping {
            self.schedule_step(ScheduleEvent::Time);
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
        if scheduler.saving || !wanted {
            return;
        }
        (scheduler.saving, scheduler.save_again) = (true, false);
        let (kept, document) = (scheduler.kept.clone(), scheduler.document());
        let (runs, results) =
            (std::mem::take(&mut scheduler.starting), std::mem::take(&mut scheduler.results));
        self.tasks.spawn(async move {
            let written = tokio::task::spawn_blocking(move || kept.save(&document, &results)).await;
            let result = written.unwrap_or_else(|error| Err(StoreError(error.to_string())));
            Done::ScheduleSaved(Saved { runs, result })
        });
    }

    pub(super) fn schedule_saved(&mut self, saved: Saved) {
        if let Some(scheduler) = &mut self.schedule {
            scheduler.saving = false;
        }
        if let Err(why) = &saved.result {
            // The ledger decides whether a run may begin: it must be on disk there as well.
            tracing::error!("what the schedule must remember is not on disk: {why}");
        }
        if self.stopping {
            return self.save_schedule();
        }
        for run in saved.runs {
            let schedule =
                ScheduledRun { name: run.name.clone(), function: run.function.clone(), due: run.due };
            tracing::info!(jid = %run.jid, function = run.function, "`{}` is due", run.name);
            self.feed(Event::Scheduled { request: Box::new(request(run)), schedule });
        }
        self.save_schedule();
    }

    /// A run has ended, whichever way.
    pub(super) fn schedule_ended(&mut self, ret: Return) {
        let happening =
            ScheduleEvent::Ended { jid: ret.jid.clone(), success: ret.success, error: ret.error.clone() };
        if let Some(scheduler) = &mut self.schedule {
            scheduler.results.push(ret);
        }
        let started = self.schedule.as_ref().is_some_and(|scheduler| scheduler.remembered.is_none());
        if started {
            self.schedule_step(happening);
            self.save_schedule();
        }
    }

    /// `schedule.list`, `schedule.show` and `schedule.run` are for this actor to answer.
    pub(super) fn answers_itself(&self, request: &ExecRequest) -> bool {
        self.schedule.is_some() && request.function.starts_with("schedule.")
    }

    pub(super) fn schedule_asked(&mut self, request: ExecRequest) {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let names = names(&request);
        let is_read = self.schedule.as_ref().is_some_and(|scheduler| scheduler.remembered.is_none());
        let answer = match request.function.as_str() {
            _ if !is_read => Err(UNREAD.to_string()),
            "schedule.list" => Ok(Ask::Rows(false)),
            "schedule.show" => Ok(Ask::Rows(true)),
            "schedule.run" => self.run_by_hand(&names).map(Ask::Told),
            other => Err(zester_converge::call::unknown(other)),
        };
        let Some(scheduler) = &self.schedule else { return };
        let problem = scheduler.problem();
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
                (Ok(Ask::Rows(with_results)), None) => Ok(listed(kept, rows, problem, with_results).await),
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
        let running = Running { cancel: CancellationToken::new(), task: task.id(), aborted: None };
        self.running.insert(dispatch, running);
    }

    fn run_by_hand(&mut self, names: &[String]) -> Result<Value, String> {
        let [name] = names else { return Err("schedule.run: name one entry of the schedule".into()) };
        let now = self.link.now();
        let Some(scheduler) = &mut self.schedule else { return Err("there is no schedule".into()) };
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

async fn listed(kept: Kept, rows: Vec<Value>, problem: Option<String>, with_results: bool) -> Value {
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
    json!({ "entries": entries, "problem": problem })
}

/// The names that a request gives: bare words, or `name=`, one or a list.
fn names(request: &ExecRequest) -> Vec<String> {
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
    zester_schedule::shown(zester_wire::UnixMillis(millis))
}
