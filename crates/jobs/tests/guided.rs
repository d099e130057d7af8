//! Random events that answer what the owner asked for, most of the time: so that they get to where it is interesting, which is
//! counted. The store behaves like one: writes are done, refused, or done without anybody knowing. The same cases each time,
//! so that the counts are the same too.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fleet;

use fleet::{T0, job, master, peel, ret, ret_of};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use zester_jobs::{Command, Event, Failed, History, Owner, Timing, Written};
use zester_rule::rule;
use zester_wire::*;

const CASES: u32 = 600;
/// When the client of a job goes away: early enough that many dispatches are not done.
const CLAIM_UNTIL: UnixMillis = UnixMillis(T0 + 3_000);

/// What happens next: an answer to what was asked first, or something that nobody asked for.
#[derive(Clone, Debug)]
enum Next {
    Answer { how: u8 },
    Message { which: u8, number: usize, good: bool },
}

fn next() -> impl Strategy<Value = (Next, u64)> {
    let answer = (0u8..20).prop_map(|how| Next::Answer { how });
    let message = (0u8..16, 1usize..4, any::<bool>()).prop_map(|(which, number, good)| Next::Message {
        which,
        number,
        good,
    });
    let what = prop_oneof![3 => answer, 1 => message];
    (what, prop_oneof![4 => 0u64..400, 1 => 0u64..20_000])
}

/// How the job came to this master.
#[derive(Copy, Clone, Debug)]
enum Start {
    Dispatched,
    /// Its client waits for a while only.
    Waited,
    /// Its own claim, which its client asks for again.
    Resumed,
    /// What another left: still claimed, or running.
    AdoptedClaim,
    Adopted,
}

/// What chance alone hardly ever does, done when the time has come.
#[derive(Copy, Clone, Debug)]
enum Aim {
    Nothing,
    /// The master stops as soon as the job is there.
    DetachAt(&'static str),
    /// Somebody kills the job as soon as it is there.
    CancelAt(&'static str),
    /// The master stops while a return is on its way to the disk.
    DetachUnpersisted,
    /// The answer to the claim is lost, and nobody waits any more when it is tried again.
    LoseClaim,
}

fn start() -> impl Strategy<Value = Start> {
    prop_oneof![
        3 => Just(Start::Dispatched),
        3 => Just(Start::Waited),
        1 => Just(Start::Resumed),
        1 => Just(Start::AdoptedClaim),
        4 => Just(Start::Adopted),
    ]
}

fn aim() -> impl Strategy<Value = Aim> {
    let stages =
        ["claiming", "marking", "starting", "adopting", "recalling", "loading", "replaying", "checking"];
    prop_oneof![
        6 => Just(Aim::Nothing),
        2 => proptest::sample::select(stages.to_vec()).prop_map(Aim::DetachAt),
        1 => proptest::sample::select(stages.to_vec()).prop_map(Aim::CancelAt),
        2 => Just(Aim::DetachUnpersisted),
        2 => Just(Aim::LoseClaim),
    ]
}

/// The bucket and the stream, as far as one job is concerned.
#[derive(Default)]
struct Stores {
    record: Option<(Job, u64)>,
    open: VecDeque<Command>,
    returns: Vec<Return>,
    /// Until when its client waits for a job that was not yet sent to anybody.
    begins_until: Option<UnixMillis>,
    refused: bool,
}

impl Stores {
    /// Writes a record if it has the revision; tells, or leaves the writer in the dark.
    fn write(&mut self, job: &Job, expected: u64, how: u8) -> Result<Written, TestCaseError> {
        if how == 0 {
            return Ok(Written::Failed);
        }
        let found = self.record.as_ref().map_or(0, |(_, revision)| *revision);
        if found != expected {
            let found = self.record.clone().map(|(job, revision)| (Box::new(job), revision));
            return Ok(Written::Conflict { found });
        }
        let before = self.record.as_ref().map(|(job, _)| job.status).filter(|status| status.is_terminal());
        prop_assert!(before.is_none_or(|before| before == job.status), "J-1: a terminal status changed");
        self.record = Some((job.clone(), found + 1));
        Ok(if how == 1 { Written::Failed } else { Written::Done { revision: found + 1 } })
    }

    fn answer(&mut self, how: u8) -> Result<Option<Event>, TestCaseError> {
        let Some(command) = self.open.pop_front() else { return Ok(None) };
        let result = if how < 2 { Err(Failed) } else { Ok(()) };
        Ok(Some(match command {
            Command::CreateRecord(job) => Event::Record(self.write(&job, 0, how)?),
            Command::WriteRecord { job, revision } => Event::Record(self.write(&job, revision, how)?),
            Command::MarkActive => Event::Marked(result),
            Command::PublishDispatch => Event::Announced(result),
            Command::LoadReturns => Event::Loaded(result.map(|()| self.returns.clone())),
            Command::Replay => {
                let canceled = (how == 2).then(|| "alice".to_owned());
                let history = History { acks: vec![peel(1)], returns: Vec::new(), canceled };
                Event::Replayed(result.map(|()| if how < 8 { history } else { History::default() }))
            }
            Command::Persist { ret, .. } if result.is_err() => Event::PersistFailed { ret },
            Command::Persist { ret, .. } => {
                let peel = ret.peel.clone();
                self.returns.push(*ret);
                Event::Persisted { peel }
            }
            Command::EmitFinalized => Event::Emitted(result),
            Command::PurgeActive => Event::Purged(result),
            _ => return Ok(None),
        }))
    }

    fn take(&mut self, commands: Vec<Command>, now: UnixMillis) -> Result<(), TestCaseError> {
        for command in commands {
            self.refused |= matches!(command, Command::Refuse(_));
            if matches!(command, Command::SendExec { .. }) {
                prop_assert!(!self.refused, "J-28: what was refused runs");
                let until = self.begins_until.take();
                prop_assert!(until.is_none_or(|until| now < until), "J-28: it begins when nobody waits");
                let status = self.record.as_ref().map(|(job, _)| job.status);
                prop_assert_eq!(status, Some(JobStatus::Running), "J-2: work is sent before the job runs");
            }
            let answered = matches!(
                command,
                Command::CreateRecord(_)
                    | Command::WriteRecord { .. }
                    | Command::MarkActive
                    | Command::PublishDispatch
                    | Command::LoadReturns
                    | Command::Replay
                    | Command::Persist { .. }
                    | Command::EmitFinalized
                    | Command::PurgeActive
            );
            if answered {
                self.open.push_back(command);
            }
        }
        Ok(())
    }
}

fn message(which: u8, number: usize, good: bool) -> Event {
    match which {
        0..3 => Event::Ack { peel: peel(number), dispatch_epoch: 1 },
        3..8 => Event::Return(Box::new(ret(number, 1, good))),
        8 => Event::Return(Box::new(ret_of(number, 1, Cause::Deadline))),
        9 => Event::Return(Box::new(ret(number, 2, good))),
        10 if good => Event::Connected { peel: peel(number) },
        10 => Event::Gone { peel: peel(number), stopped: number == 1 },
        11 if number == 1 => Event::Hearing(good),
        11 => Event::AskAgain,
        12 if number == 1 => Event::Cancel { by: "alice".into() },
        13 if number == 1 && good => Event::Detach,
        14 if number == 1 && good => Event::Superseded,
        _ => Event::Tick,
    }
}

/// The owner of a job, and what the stores know of it.
fn begin(start: Start) -> (Owner, Stores) {
    let running = Job { status: JobStatus::Running, epoch: 1, dispatch_epoch: 1, ..job(2, 60) };
    let running = Job { owner: master("m0"), deadline: UnixMillis(T0 + 60_000), ..running };
    let mut stores = Stores::default();
    let owner = match start {
        Start::Dispatched => Owner::dispatch(running, master("m1"), Timing::default()),
        Start::Waited => {
            stores.begins_until = Some(CLAIM_UNTIL);
            let record = Job { claim_until: CLAIM_UNTIL, ..running };
            Owner::dispatch(record, master("m1"), Timing::default())
        }
        Start::Resumed => {
            stores.begins_until = Some(CLAIM_UNTIL);
            let record = Job { status: JobStatus::Claimed, owner: master("m1"), ..running };
            stores.record = Some((record.clone(), 3));
            Owner::resume(record, 3, CLAIM_UNTIL, Timing::default())
        }
        Start::AdoptedClaim => {
            let record = Job { status: JobStatus::Claimed, claim_until: CLAIM_UNTIL, ..running };
            stores.begins_until = Some(CLAIM_UNTIL);
            stores.record = Some((record.clone(), 3));
            Owner::adopt(record, 3, master("m1"), Timing::default()).unwrap()
        }
        Start::Adopted => {
            stores.record = Some((running.clone(), 3));
            Owner::adopt(running, 3, master("m1"), Timing::default()).unwrap()
        }
    };
    (owner, stores)
}

impl Aim {
    /// What is done now for it, and how much later; then it is reached.
    fn take(&mut self, owner: &Owner, stores: &mut Stores) -> Result<Option<(Event, u64)>, TestCaseError> {
        let stage = owner.stage().name();
        let unpersisted = stores.open.iter().any(|command| matches!(command, Command::Persist { .. }));
        let event = match *self {
            Aim::DetachAt(at) if at == stage => Event::Detach,
            Aim::CancelAt(at) if at == stage => Event::Cancel { by: "alice".into() },
            Aim::DetachUnpersisted if stage == "watching" && unpersisted => Event::Detach,
            Aim::LoseClaim if stage == "claiming" => match owner.next_wake() {
                None => return Ok(stores.answer(1)?.map(|lost| (lost, 0))),
                Some(_) => {
                    *self = Aim::Nothing;
                    return Ok(Some((Event::Tick, CLAIM_UNTIL.0 - T0)));
                }
            },
            _ => return Ok(None),
        };
        *self = Aim::Nothing;
        Ok(Some((event, 0)))
    }
}

/// One job; notes every stage it came to.
fn live(
    start: Start,
    mut aim: Aim,
    steps: Vec<(Next, u64)>,
    reached: &mut BTreeSet<&'static str>,
) -> Result<(), TestCaseError> {
    let (mut owner, mut stores) = begin(start);
    let mut now = UnixMillis(T0);
    let begun = owner.step(Event::Begin { absent: BTreeSet::new() }, now).unwrap();
    stores.take(begun, now)?;
    for (next, pause) in steps {
        reached.insert(owner.stage().name());
        let (event, pause) = match (aim.take(&owner, &mut stores)?, next) {
            (Some(aimed), _) => aimed,
            (None, Next::Answer { how }) => (stores.answer(how)?.unwrap_or(Event::Tick), pause),
            (None, Next::Message { which, number, good }) => (message(which, number, good), pause),
        };
        now = now.plus(Duration::from_millis(pause));
        let before = format!("{owner:?}");
        match owner.step(event, now) {
            Err(_) => prop_assert_eq!(before, format!("{owner:?}"), "what is refused changes nothing"),
            Ok(commands) => stores.take(commands, now)?,
        }
        prop_assert!(!owner.is_finished() || owner.next_wake().is_none());
    }
    reached.insert(owner.stage().name());
    Ok(())
}

#[test]
#[rule("J-20")]
#[rule("J-1")]
#[rule("J-28")]
fn j20_an_owner_that_gets_its_answers_keeps_the_rules_wherever_it_comes_to() {
    let counts: RefCell<BTreeMap<&'static str, u32>> = RefCell::default();
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let strategy = (start(), aim(), proptest::collection::vec(next(), 20..90));
    let held = runner.run(&strategy, |(start, aim, steps)| {
        let mut reached = BTreeSet::new();
        let held = live(start, aim, steps, &mut reached);
        for stage in reached {
            *counts.borrow_mut().entry(stage).or_insert(0) += 1;
        }
        held
    });
    if let Err(error) = held {
        panic!("{error}");
    }
    // A generator that does not get there shows nothing.
    let counts = counts.into_inner();
    let reached = |stage: &str| counts.get(stage).copied().unwrap_or(0);
    for (stage, percent) in [
        ("claiming", 40),
        ("marking", 45),
        ("announcing", 30),
        ("starting", 25),
        ("withdrawing", 3),
        ("adopting", 25),
        ("recalling", 12),
        ("loading", 20),
        ("replaying", 18),
        ("watching", 40),
        ("checking", 20),
        ("flushing", 6),
        ("finalizing", 50),
        ("reporting", 50),
        ("purging", 50),
        ("done", 50),
        ("detaching", 3),
        ("detached", 10),
        ("lost", 3),
    ] {
        assert!(reached(stage) * 100 >= CASES * percent, "{stage}: {counts:?}");
    }
}
