//! The schedule as a state machine: what happened goes in, runs to start and things to tell come out.

use crate::entry::Entry;
use crate::limits::{ERROR_BYTES_KEPT, LATE_MAX, SET_BACK_NOTICED, SET_BACK_TOLERATED};
use crate::memory::{Last, Memory, Remembered, Running};
use crate::when::When;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zester_model::suggest::did_you_mean;
use zester_wire::{Jid, UnixMillis, time::as_millis};

/// Where chance comes from.
pub trait Dice {
    /// A number below `bound`; zero where that is zero.
    fn below(&mut self, bound: u64) -> u64;
    /// The id of a new run.
    fn jid(&mut self) -> Jid;
}

/// What happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The peel starts, with what it remembers. `awaited`: a source has not spoken yet, so what is remembered of entries that
    /// are not here stays.
    Start {
        entries: Vec<Entry>,
        memory: Memory,
        awaited: bool,
    },
    /// The schedule is another one now. `late`: names of entries whose source speaks for the first time since the start; for
    /// these it is the start.
    Replaced {
        entries: Vec<Entry>,
        awaited: bool,
        late: BTreeSet<String>,
    },
    Time,
    /// A run ended, whichever way.
    Ended {
        jid: Jid,
        success: bool,
        error: String,
    },
}

/// What is to be done outside, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Write [`Schedule::memory`] before anything that stands behind this.
    Save,
    Run(Box<Run>),
    /// Runs that did not happen; told once. `made_up`: one run makes up for them.
    Missed {
        name: String,
        first: UnixMillis,
        last: UnixMillis,
        count: u64,
        more: bool,
        made_up: bool,
    },
    /// Due, but as many of it are under way as may be.
    Skipped {
        name: String,
        due: UnixMillis,
        running: usize,
    },
    /// An earlier life of the peel began it, and it did not end.
    Interrupted {
        name: String,
        run: Running,
    },
}

/// One run of one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    pub jid: Jid,
    pub name: String,
    pub due: UnixMillis,
    pub function: String,
    pub args: Vec<Value>,
    pub kwargs: Map<String, Value>,
    pub timeout: Duration,
    pub return_job: bool,
}

/// Why an entry was not run by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRun {
    NoSuch(String),
    Busy(String),
}

/// One entry as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub name: String,
    pub function: String,
    pub when: String,
    pub source: String,
    pub enabled: bool,
    /// When its next run begins; none where there is none to come.
    pub next: Option<UnixMillis>,
    pub running: Vec<Running>,
    pub last: Option<Last>,
    pub missed: u64,
    pub last_missed: Option<UnixMillis>,
    pub return_job: bool,
}

/// A schedule at work.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    entries: BTreeMap<String, Entry>,
    memory: Memory,
    /// The time at the last step.
    seen: UnixMillis,
    /// Not every source has spoken.
    awaited: bool,
    /// Entries for which this start of the peel is over: they were here, and ran if they run on start.
    started: BTreeSet<String>,
}

impl Schedule {
    /// What must be remembered.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// When the next [`Event::Time`] is due.
    pub fn next_wake(&self) -> Option<UnixMillis> {
        self.entries.keys().filter_map(|name| self.memory.entries.get(name)?.begins()).min()
    }

    pub fn rows(&self) -> Vec<Row> {
        self.entries.values().map(|entry| self.row(entry)).collect()
    }

    /// That there is no entry of this name, and which may have been meant.
    pub fn no_such(&self, name: &str) -> String {
        let hint = did_you_mean(name, self.entries.keys().map(String::as_str));
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        format!("the schedule has no entry `{name}`{hint}")
    }

    fn row(&self, entry: &Entry) -> Row {
        let known = self.memory.entries.get(&entry.name).cloned().unwrap_or_default();
        Row {
            name: entry.name.clone(),
            function: entry.function.clone(),
            when: entry.when.text(),
            source: entry.source.clone(),
            enabled: entry.enabled,
            next: known.begins(),
            running: known.running,
            last: known.last,
            missed: known.missed,
            last_missed: known.last_missed,
            return_job: entry.return_job,
        }
    }

    /// The only place that decides.
    pub fn step(&mut self, event: Event, now: UnixMillis, dice: &mut dyn Dice) -> Vec<Command> {
        let before = self.memory.clone();
        let mut out = Vec::new();
        match event {
            Event::Start { entries, memory, awaited } => {
                self.awaited = awaited;
                self.start(entries, memory, now, dice, &mut out);
            }
            Event::Replaced { entries, awaited, late } => {
                self.awaited = awaited;
                self.look_at_clock(now, dice);
                self.replace(entries, now, dice);
                // What comes late was remembered by the clock of an earlier life.
                self.put_right(now, Duration::ZERO, dice);
                self.run_on_start(|name| late.contains(name), now, dice, &mut out);
            }
            Event::Time => {
                self.look_at_clock(now, dice);
                self.time(now, dice, &mut out);
            }
            Event::Ended { jid, success, error } => self.ended(&jid, success, error, now),
        }
        self.seen = now;
        if self.memory != before {
            out.insert(0, Command::Save);
        }
        out
    }

    /// Starts an entry now, whatever its times are, unless it is under way already.
    pub fn run_now(
        &mut self,
        name: &str,
        now: UnixMillis,
        dice: &mut dyn Dice,
    ) -> Result<(Jid, Vec<Command>), NotRun> {
        let Some(entry) = self.entries.get(name).cloned() else {
            return Err(NotRun::NoSuch(self.no_such(name)));
        };
        let known = self.memory.entries.entry(name.to_string()).or_default();
        match begin(&entry, known, now, now, dice) {
            Ok(run) => Ok((run.jid.clone(), vec![Command::Save, Command::Run(run)])),
            Err(running) => {
                let why = format!("`{name}` runs already ({running} under way, maxrunning {running})");
                Err(NotRun::Busy(why))
            }
        }
    }

    /// A run that had to wait until it could be written down. By now it may be too late for it, or its entry may be another:
    /// then it was missed like any other that did not begin in time.
    pub fn release(&mut self, run: Box<Run>, now: UnixMillis) -> Vec<Command> {
        let entry = self.entries.get(&run.name).filter(|entry| entry.enabled && is_of(entry, &run));
        let Some(known) = self.memory.entries.get_mut(&run.name) else { return Vec::new() };
        let Some(place) = known.running.iter().position(|running| running.jid == run.jid) else {
            return Vec::new();
        };
        let late = now.since(known.running[place].started) > LATE_MAX;
        if entry.is_some_and(|entry| !late || entry.catch_up) {
            return vec![Command::Run(run)];
        }
        let due = known.running.remove(place).due;
        known.missed = known.missed.saturating_add(1);
        known.last_missed = Some(due);
        if !self.awaited {
            self.forget_gone();
        }
        let (first, last) = (due, due);
        let missed = Command::Missed { name: run.name, first, last, count: 1, more: false, made_up: false };
        vec![Command::Save, missed]
    }

    fn start(
        &mut self,
        entries: Vec<Entry>,
        memory: Memory,
        now: UnixMillis,
        dice: &mut dyn Dice,
        out: &mut Vec<Command>,
    ) {
        self.memory = memory;
        for (name, known) in &mut self.memory.entries {
            for run in std::mem::take(&mut known.running) {
                known.last = Some(Last {
                    jid: run.jid.clone(),
                    due: run.due,
                    started: run.started,
                    ended: now,
                    success: false,
                    error: "interrupted: the peel restarted".into(),
                });
                out.push(Command::Interrupted { name: name.clone(), run });
            }
        }
        self.replace(entries, now, dice);
        self.put_right(now, Duration::ZERO, dice);
        self.run_on_start(|_| true, now, dice, out);
        self.time(now, dice, out);
    }

    /// Once for each entry of this life, and only where it was to be here at the start.
    fn run_on_start(
        &mut self,
        is_due: impl Fn(&str) -> bool,
        now: UnixMillis,
        dice: &mut dyn Dice,
        out: &mut Vec<Command>,
    ) {
        for (name, entry) in &self.entries {
            let is_new = self.started.insert(name.clone());
            let runs = entry.run_on_start && entry.enabled && is_within(entry, now);
            if !is_new || !runs || !is_due(name) {
                continue;
            }
            let known = self.memory.entries.entry(name.clone()).or_default();
            if let Ok(run) = begin(entry, known, now, now, dice) {
                out.push(Command::Run(run));
            }
        }
    }

    /// What has kept its name and its times goes on; anything else begins anew.
    fn replace(&mut self, entries: Vec<Entry>, now: UnixMillis, dice: &mut dyn Dice) {
        self.entries = entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        if !self.awaited {
            self.forget_gone();
            let names = &self.entries;
            for known in self.memory.entries.iter_mut().filter(|(name, _)| !names.contains_key(*name)) {
                (known.1.due, known.1.when) = (None, String::new());
            }
        }
        for (name, entry) in &self.entries {
            let known = self.memory.entries.entry(name.clone()).or_default();
            let when = entry.when.text();
            if !entry.enabled {
                (known.due, known.when) = (None, String::new());
                continue;
            }
            let fits = known.due.is_some_and(|due| entry.until.is_none_or(|until| due <= until))
                && known.due.is_some_and(|due| entry.after.is_none_or(|after| due >= after));
            if known.when != when || !fits {
                known.when = when;
                set_due(entry, known, first(entry, now), dice);
            }
        }
    }

    /// What is remembered of an entry goes with it, and with the last of its runs.
    fn forget_gone(&mut self) {
        let names = &self.entries;
        self.memory.entries.retain(|name, known| names.contains_key(name) || !known.running.is_empty());
    }

    /// Notices that the clock was set back since the last step.
    fn look_at_clock(&mut self, now: UnixMillis, dice: &mut dyn Dice) {
        if now.plus(SET_BACK_NOTICED) < self.seen {
            self.put_right(now, self.seen.since(now), dice);
        }
    }

    /// No occurrence may lie further ahead than its times allow: the clock that it was found by was wrong.
    fn put_right(&mut self, now: UnixMillis, set_back: Duration, dice: &mut dyn Dice) {
        for (name, entry) in &self.entries {
            let Some(known) = self.memory.entries.get_mut(name) else { continue };
            let Some(due) = known.due else { continue };
            match &entry.when {
                When::Every(span) => {
                    // As much later as the clock was set back.
                    let shifted = UnixMillis(due.0.saturating_sub(as_millis(set_back)));
                    let latest = now.plus(*span).max(entry.after.unwrap_or_default());
                    if shifted.min(latest) != due {
                        set_due(entry, known, Some(shifted.min(latest)), dice);
                    }
                }
                When::Cron(_) => {
                    // What ran a moment ago by a clock that was a little fast does not run again.
                    let ran =
                        known.last_due.filter(|last| *last > now && last.since(now) <= SET_BACK_TOLERATED);
                    let next = first(entry, ran.unwrap_or(now));
                    if next.is_some_and(|next| next < due) {
                        set_due(entry, known, next, dice);
                    }
                }
            }
        }
    }

    fn time(&mut self, now: UnixMillis, dice: &mut dyn Dice, out: &mut Vec<Command>) {
        for (name, entry) in &self.entries {
            let Some(known) = self.memory.entries.get_mut(name) else { continue };
            let Some(due) = known.due else { continue };
            if known.begins().is_none_or(|begins| begins > now) {
                continue;
            }
            let passed = entry.when.passed(due, entry.until.map_or(now, |until| until.min(now)).max(due));
            if passed.count > 1 {
                set_due(entry, known, Some(passed.latest), dice);
            }
            let begins = known.begins().unwrap_or(now);
            let late = now.since(begins) > LATE_MAX;
            let missed = if late { passed.count } else { passed.count - 1 };
            let made_up = late && entry.catch_up;
            if missed > 0 {
                let last = if late { passed.latest } else { passed.before };
                let (first, more) = (due, passed.more);
                known.missed = known.missed.saturating_add(missed);
                known.last_missed = Some(last);
                out.push(Command::Missed { name: name.clone(), first, last, count: missed, more, made_up });
            }
            if begins > now {
                continue;
            }
            known.last_due = Some(passed.latest);
            if !late || made_up {
                match begin(entry, known, passed.latest, now, dice) {
                    Ok(run) => out.push(Command::Run(run)),
                    Err(running) => {
                        let due = passed.latest;
                        out.push(Command::Skipped { name: name.clone(), due, running });
                    }
                }
            }
            let next = entry.when.following(passed.latest, now);
            set_due(entry, known, within(entry, next), dice);
        }
    }

    fn ended(&mut self, jid: &Jid, success: bool, mut error: String, now: UnixMillis) {
        let known = self.memory.entries.values_mut();
        let holder = known
            .filter_map(|known| {
                let place = known.running.iter().position(|run| run.jid == *jid)?;
                Some((known, place))
            })
            .next();
        let Some((known, place)) = holder else { return };
        let run = known.running.remove(place);
        if error.len() > ERROR_BYTES_KEPT {
            let end = (0..=ERROR_BYTES_KEPT).rev().find(|end| error.is_char_boundary(*end)).unwrap_or(0);
            error.truncate(end);
            error.push('…');
        }
        let Running { jid, due, started } = run;
        known.last = Some(Last { jid, due, started, ended: now, success, error });
        if !self.awaited {
            self.forget_gone();
        }
    }
}

impl Remembered {
    fn begins(&self) -> Option<UnixMillis> {
        self.due.map(|due| due.plus(Duration::from_millis(self.delay_ms)))
    }
}

/// The first occurrence of an entry after a moment, of those that it allows.
fn first(entry: &Entry, now: UnixMillis) -> Option<UnixMillis> {
    let next = match (entry.after.filter(|after| *after > now), &entry.when) {
        (Some(after), When::Every(_)) => Some(after),
        (Some(after), when) => when.first(UnixMillis(after.0.saturating_sub(1))),
        (None, when) => when.first(now),
    };
    within(entry, next)
}

fn within(entry: &Entry, due: Option<UnixMillis>) -> Option<UnixMillis> {
    due.filter(|due| entry.until.is_none_or(|until| *due <= until))
}

fn is_within(entry: &Entry, now: UnixMillis) -> bool {
    entry.after.is_none_or(|after| after <= now) && entry.until.is_none_or(|until| now <= until)
}

/// Puts a run off by chance, and never as far as to the next occurrence.
fn set_due(entry: &Entry, known: &mut Remembered, due: Option<UnixMillis>, dice: &mut dyn Dice) {
    known.due = due;
    known.delay_ms = 0;
    let Some(due) = due.filter(|_| !entry.splay.to.is_zero()) else { return };
    let gap = entry.when.following(due, due).map_or(u64::MAX, |next| next.0.saturating_sub(due.0));
    let to = as_millis(entry.splay.to).min(gap.saturating_sub(1));
    let from = as_millis(entry.splay.from).min(to);
    known.delay_ms = from + dice.below(to - from + 1);
}

/// A new run, or how many are under way.
/// Whether this is what the entry says now.
fn is_of(entry: &Entry, run: &Run) -> bool {
    entry.function == run.function && entry.args == run.args && entry.kwargs == run.kwargs
}

fn begin(
    entry: &Entry,
    known: &mut Remembered,
    due: UnixMillis,
    now: UnixMillis,
    dice: &mut dyn Dice,
) -> Result<Box<Run>, usize> {
    if known.running.len() >= entry.maxrunning {
        return Err(known.running.len());
    }
    let jid = dice.jid();
    known.running.push(Running { jid: jid.clone(), due, started: now });
    Ok(Box::new(Run {
        jid,
        name: entry.name.clone(),
        due,
        function: entry.function.clone(),
        args: entry.args.clone(),
        kwargs: entry.kwargs.clone(),
        timeout: entry.timeout,
        return_job: entry.return_job,
    }))
}
