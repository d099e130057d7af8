//! A schedule, a clock and dice that a test holds in its hands.

use std::time::Duration;
use zester_compile::parse_yaml;
use zester_model::source::{FileId, Sources};
use zester_schedule::{Command, Dice, Entry, Event, Memory, Reading, Schedule, ScheduleError, read};
use zester_wire::{Jid, UnixMillis};

pub const SECOND: u64 = 1_000;
pub const MINUTE: u64 = 60 * SECOND;
pub const HOUR: u64 = 60 * MINUTE;
/// 2026-11-17 12:00:00 UTC, a Tuesday.
pub const NOON: u64 = 1_794_916_800_000;

/// Dice that always fall alike.
pub struct Fixed {
    pub share: f64,
    pub rolled: u64,
}

impl Dice for Fixed {
    fn below(&mut self, bound: u64) -> u64 {
        ((bound as f64 * self.share) as u64).min(bound.saturating_sub(1))
    }

    fn jid(&mut self) -> Jid {
        self.rolled += 1;
        Jid::parse(&format!("rxn-{:032x}", self.rolled)).unwrap()
    }
}

pub fn reading<'a>(zone: &'a str) -> Reading<'a> {
    Reading {
        source: "schedule.yaml",
        local_zone: zone,
        check: &|function, _, _| match function {
            "no.such" => Err("there is no function `no.such`; did you mean `test.ping`?".into()),
            _ => Ok(()),
        },
    }
}

pub fn try_read(text: &str) -> Result<Vec<Entry>, Vec<ScheduleError>> {
    let node = parse_yaml(FileId(0), text).unwrap();
    read(&node, &reading("UTC"))
}

pub fn entries(text: &str) -> Vec<Entry> {
    try_read(text).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// Where each problem stands, and what it is.
pub fn told(text: &str) -> Vec<String> {
    let mut sources = Sources::default();
    let file = sources.add("s.yaml", text);
    let node = parse_yaml(file, text).unwrap();
    let problems = read(&node, &reading("UTC")).err().unwrap_or_default();
    problems.iter().map(|one| format!("{}: {}", sources.place(one.span), one.sentence())).collect()
}

pub struct World {
    pub schedule: Schedule,
    pub now: UnixMillis,
    pub dice: Fixed,
}

impl World {
    /// A peel that starts at noon for the first time.
    pub fn new(text: &str) -> World {
        World::starting(text, Memory::default(), NOON).0
    }

    pub fn starting(text: &str, memory: Memory, now: u64) -> (World, Vec<Command>) {
        let mut world = World {
            schedule: Schedule::default(),
            now: UnixMillis(now),
            dice: Fixed { share: 0.0, rolled: 0 },
        };
        let commands = world.step(Event::Start { entries: entries(text), memory, awaited: false });
        (world, commands)
    }

    /// Another schedule, of which every source has spoken before.
    pub fn replaced(&mut self, text: &str) -> Vec<Command> {
        self.step(Event::Replaced { entries: entries(text), awaited: false, late: Default::default() })
    }

    pub fn step(&mut self, event: Event) -> Vec<Command> {
        self.schedule.step(event, self.now, &mut self.dice)
    }

    pub fn at(&mut self, now: u64) -> Vec<Command> {
        self.now = UnixMillis(now);
        self.step(Event::Time)
    }

    /// Wakes whenever the machine wants to, until then, ends each run at once, and says when each began.
    pub fn runs_until(&mut self, end: u64) -> Vec<u64> {
        let mut began = Vec::new();
        while let Some(wake) = self.schedule.next_wake().filter(|wake| wake.0 <= end) {
            let commands = self.at(wake.0.max(self.now.0));
            for command in commands {
                if let Command::Run(run) = command {
                    began.push(self.now.0);
                    self.step(Event::Ended { jid: run.jid, success: true, error: String::new() });
                }
            }
        }
        self.now = UnixMillis(end.max(self.now.0));
        began
    }
}

/// How many runs are started.
pub fn runs(commands: &[Command]) -> usize {
    commands.iter().filter(|command| matches!(command, Command::Run(_))).count()
}

/// How many runs are told as missed.
pub fn missed(commands: &[Command]) -> u64 {
    let count = |command: &Command| match command {
        Command::Missed { count, .. } => *count,
        _ => 0,
    };
    commands.iter().map(count).sum()
}

pub fn minutes(count: u64) -> Duration {
    Duration::from_millis(count * MINUTE)
}
