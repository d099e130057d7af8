//! Names and records for the tests, and an owner whose commands are answered well at once unless a test says otherwise.

#![allow(dead_code, reason = "each test binary uses its own part")]

use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zester_jobs::{Command, Event, History, Owner, Stage, Timing, Written};
use zester_wire::*;

pub const T0: u64 = 1_700_000_000_000;

pub fn at(millis: u64) -> UnixMillis {
    UnixMillis(T0 + millis)
}

pub fn jid() -> Jid {
    Jid::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap()
}

pub fn peel(number: usize) -> PeelId {
    PeelId::parse(&format!("web-{number}")).unwrap()
}

pub fn master(name: &str) -> MasterId {
    MasterId::new(name, "boot1").unwrap()
}

pub fn job(peels: usize, timeout_s: u64) -> Job {
    Job {
        v: 1,
        jid: jid(),
        function: "state.apply".into(),
        args: Map::new(),
        state_id: "web".into(),
        targets: (1..=peels).map(peel).collect(),
        target_expr: "web*".into(),
        timeout: Duration::from_secs(timeout_s),
        // What a client may claim and nobody believes.
        deadline: UnixMillis(1),
        status: JobStatus::Complete,
        created: UnixMillis(0),
        updated: UnixMillis(0),
        user: "alice".into(),
        owner: master("client"),
        epoch: 77,
        dispatch_epoch: 78,
        reclaim_count: 0,
        return_count: 0,
        success_count: 0,
        metadata: Map::new(),
        positionals: Vec::new(),
        test: false,
        reason: String::new(),
        missing: BTreeMap::new(),
        unknown_peels: Vec::new(),
        request: Vec::new(),
        claim_until: UnixMillis(0),
        target_digest: None,
        target_list: None,
        rest: BTreeMap::new(),
    }
}

pub fn ret(number: usize, epoch: u64, success: bool) -> Return {
    let mut ret = Return::refusing(jid(), peel(number), epoch, Cause::Finished, "");
    ret.success = success;
    ret.answer = Value::Bool(success);
    ret
}

pub fn ret_of(number: usize, epoch: u64, cause: Cause) -> Return {
    Return::refusing(jid(), peel(number), epoch, cause, "why")
}

/// An owner, and everything it asked for.
pub struct Watched {
    pub owner: Owner,
    pub now: UnixMillis,
    pub log: Vec<Command>,
    pub revision: u64,
    pub record: Option<Job>,
    /// Persists are answered only when this is off.
    pub slow_disk: bool,
    pub unpersisted: Vec<Return>,
    pub loaded: Vec<Return>,
    pub history: Vec<History>,
}

impl Watched {
    pub fn new(owner: Owner) -> Watched {
        Watched {
            owner,
            now: at(0),
            log: Vec::new(),
            revision: 0,
            record: None,
            slow_disk: false,
            unpersisted: Vec::new(),
            loaded: Vec::new(),
            history: Vec::new(),
        }
    }

    pub fn dispatched(peels: usize, timeout_s: u64, absent: &[usize]) -> Watched {
        let owner = Owner::dispatch(job(peels, timeout_s), master("m1"), Timing::default());
        let mut watched = Watched::new(owner);
        watched.begin(absent);
        watched
    }

    pub fn begin(&mut self, absent: &[usize]) -> Vec<Command> {
        let absent: BTreeSet<PeelId> = absent.iter().copied().map(peel).collect();
        self.send(Event::Begin { absent })
    }

    /// Sends an event and answers what it asks for, until nothing is open. Returns all commands that came of it.
    pub fn send(&mut self, event: Event) -> Vec<Command> {
        let mut events = vec![event];
        let mut all = Vec::new();
        while !events.is_empty() {
            let commands = self.owner.step(events.remove(0), self.now).unwrap();
            for command in commands {
                events.extend(self.answer(&command));
                all.push(command);
            }
        }
        self.log.extend(all.clone());
        all
    }

    fn answer(&mut self, command: &Command) -> Option<Event> {
        let event = match command {
            Command::CreateRecord(job) | Command::WriteRecord { job, .. } => {
                let before = self.record.replace((**job).clone());
                assert!(
                    !before.is_some_and(|job| job.status.is_terminal()),
                    "J-1: a terminal status changed"
                );
                self.revision += 1;
                Event::Record(Written::Done { revision: self.revision })
            }
            Command::MarkActive => Event::Marked(Ok(())),
            Command::PublishDispatch => Event::Announced(Ok(())),
            Command::LoadReturns => Event::Loaded(Ok(self.loaded.clone())),
            Command::Replay => {
                let history =
                    if self.history.is_empty() { History::default() } else { self.history.remove(0) };
                Event::Replayed(Ok(history))
            }
            Command::Persist { ret, .. } if self.slow_disk => {
                self.unpersisted.push((**ret).clone());
                return None;
            }
            Command::Persist { ret, .. } => Event::Persisted { peel: ret.peel.clone() },
            Command::EmitFinalized => Event::Emitted(Ok(())),
            Command::PurgeActive => Event::Purged(Ok(())),
            _ => return None,
        };
        Some(event)
    }

    pub fn ack(&mut self, number: usize) -> Vec<Command> {
        let dispatch_epoch = self.owner.job().dispatch_epoch;
        self.send(Event::Ack { peel: peel(number), dispatch_epoch })
    }

    pub fn ret(&mut self, number: usize, success: bool) -> Vec<Command> {
        let epoch = self.owner.job().dispatch_epoch;
        self.send(Event::Return(Box::new(ret(number, epoch, success))))
    }

    pub fn tick(&mut self, millis: u64) -> Vec<Command> {
        self.now = at(millis);
        self.send(Event::Tick)
    }

    pub fn cancel(&mut self) -> Vec<Command> {
        self.send(Event::Cancel { by: "alice".into() })
    }

    #[track_caller]
    pub fn ended(&self, status: JobStatus) {
        assert_eq!(self.owner.stage(), Stage::Done);
        assert_eq!(self.record.as_ref().map(|job| job.status), Some(status));
    }
}

/// Commands by name, those that only inform left out.
pub fn names(commands: &[Command]) -> Vec<&'static str> {
    commands
        .iter()
        .map(|command| match command {
            Command::CreateRecord(_) => "create",
            Command::WriteRecord { job, .. } => job.status.as_str(),
            Command::MarkActive => "mark",
            Command::PublishDispatch => "announce",
            Command::Accept => "accept",
            Command::Existing { .. } => "existing",
            Command::SendExec { .. } => "exec",
            Command::LoadReturns => "load",
            Command::Replay => "replay",
            Command::Persist { .. } => "persist",
            Command::Refuse(_) => "refuse",
            Command::CancelTaken(_) => "taken",
            Command::SendCancel { .. } => "send cancel",
            Command::PublishStatus => "status",
            Command::EmitFinalized => "emit",
            Command::PurgeActive => "purge",
            Command::Stop => "stop",
            Command::Note(_) => "note",
        })
        .collect()
}

pub fn sent_to(commands: &[Command]) -> Vec<PeelId> {
    commands
        .iter()
        .filter_map(|command| match command {
            Command::SendExec { peels, .. } => Some(peels.clone()),
            _ => None,
        })
        .flatten()
        .collect()
}
