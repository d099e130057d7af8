//! What goes into the life of a job, and what comes out of it.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;
use zester_wire::{Job, MasterId, PeelId, Refusal, Return};

/// A step outside that failed and may succeed later. Its words are the driver's.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Failed;

/// How a write of the job record ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    Done {
        revision: u64,
    },
    /// Somebody else wrote in between. What stands there now, with its revision; none if the record is gone.
    Conflict {
        found: Option<(Box<Job>, u64)>,
    },
    /// Nobody knows whether it was written: a lost answer is not a lost write.
    Failed,
    /// It was not written: the store is full, has no leader, or takes no record of that size. The words are for whoever asked.
    Refused(Refusal),
}

/// What a cancel met (J-11).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum CancelEffect {
    /// The job ends because of it, or of one before; so many peels had not returned.
    Stopping { peels: usize },
    /// The job was ending by itself; its status is not written yet.
    Ending,
    /// The job was over.
    Over,
}

/// What the stream `job-events` tells of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Peels that acked this dispatch epoch.
    pub acks: Vec<PeelId>,
    pub returns: Vec<Return>,
    /// In whose name it was canceled, if it was.
    pub canceled: Option<String>,
}

/// What happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Go. `absent`: the targets without a heartbeat at this moment (J-8).
    Begin { absent: BTreeSet<PeelId> },
    /// Answers [`Command::CreateRecord`] and [`Command::WriteRecord`].
    Record(Written),
    /// Answers [`Command::MarkActive`]. A key that is there already is as good as a new one.
    Marked(Result<(), Failed>),
    /// Answers [`Command::PublishDispatch`].
    Announced(Result<(), Failed>),
    /// Answers [`Command::LoadReturns`].
    Loaded(Result<Vec<Return>, Failed>),
    /// Answers [`Command::Replay`].
    Replayed(Result<History, Failed>),
    /// A peel has it. The peel is the subject's.
    Ack { peel: PeelId, dispatch_epoch: u64 },
    /// A peel has done it. Its peel and jid were compared with the subject.
    Return(Box<Return>),
    /// Answers [`Command::Persist`].
    Persisted { peel: PeelId },
    /// Answers [`Command::Persist`]; gives the return back.
    PersistFailed { ret: Box<Return> },
    /// A peel announces that it (re)connected.
    Connected { peel: PeelId },
    /// The heartbeat of a peel ended: it said that it `stopped`, or was not heard for as long as a heartbeat lives.
    Gone { peel: PeelId, stopped: bool },
    /// Whether this master hears anybody. Also told where it does again after it missed something.
    Hearing(bool),
    /// What was sent may be lost: whoever neither acked nor returned gets the work once more.
    AskAgain,
    /// Somebody wants it stopped, and the stream has the event that says so. Answered by [`Command::CancelTaken`].
    Cancel { by: String },
    /// This master stops (J-12).
    Detach,
    /// Another master owns the job.
    Superseded,
    /// Who owns the job by its record, as the leader of the bucket has it.
    OwnedBy { owner: MasterId, epoch: u64 },
    /// Answers [`Command::EmitFinalized`].
    Emitted(Result<(), Failed>),
    /// Answers [`Command::PurgeActive`].
    Purged(Result<(), Failed>),
    /// Time has passed.
    Tick,
}

/// What is to be done outside, in this order. Whoever carries it out listens to acks, returns and cancels of the job, and to
/// connecting peels, before it begins. What is answered says so; at most one of those but [`Command::Persist`] is
/// open at a time.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Create `<jid>`, only if it is not there. Answered by [`Event::Record`].
    CreateRecord(Box<Job>),
    /// Replace `<jid>`, only if it has this revision. Answered by [`Event::Record`].
    WriteRecord { job: Box<Job>, revision: u64 },
    /// Create `active.<jid>`. Answered.
    MarkActive,
    /// Publish the dispatch event. Answered.
    PublishDispatch,
    /// The job runs, or has ended: tell the client its jid.
    Accept,
    /// The job does not run and never will: tell the client why.
    Refuse(Refusal),
    /// The jid is taken: judge it by [`crate::intake::judge`].
    Existing { job: Box<Job>, revision: u64 },
    /// Send the work to these, with what is left of the time. Not answered: acks are.
    SendExec { peels: Vec<PeelId>, budget: Duration },
    /// Read `job-returns` of the job. Answered by [`Event::Loaded`].
    LoadReturns,
    /// Read `job-events` of the job. Answered by [`Event::Replayed`].
    Replay,
    /// Create `<jid>.<peel>` in `job-returns`, off the receive path. A key that is there already is as good as a new one:
    /// the first return stands; but one that came in time takes the place of one that stands there as late. Wait that long
    /// first. Answered.
    Persist { ret: Box<Return>, pause: Duration },
    /// What a cancel met, for whoever asked for it.
    CancelTaken(CancelEffect),
    /// Send a cancel to these.
    SendCancel { peels: Vec<PeelId> },
    /// Publish the status event, for whoever watches.
    PublishStatus,
    /// Emit `job/<jid>/finalized` (J-19). Answered. The stream keeps the first: one that is there is as good as a new one.
    EmitFinalized,
    /// Purge `active.<jid>`. Answered.
    PurgeActive,
    /// Nothing more will be asked for, late returns excepted.
    Stop,
    /// For logs and counters.
    Note(Note),
}

/// Something that was noticed and changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A message of a peel that the job does not target.
    NotATarget(PeelId),
    /// A message of another dispatch.
    OtherEpoch { peel: PeelId, dispatch_epoch: u64 },
    /// A return of a peel that had returned.
    Duplicate(PeelId),
    /// A message before anything was sent.
    TooEarly(PeelId),
    /// Another master owns the job: this one writes nothing more (J-10).
    Superseded,
}

/// An event that the machine cannot take in its state. It is as it was before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Illegal {
    pub state: &'static str,
    pub event: &'static str,
}

impl fmt::Display for Illegal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "event {} while {}", self.event, self.state)
    }
}

impl std::error::Error for Illegal {}

impl Event {
    pub fn name(&self) -> &'static str {
        match self {
            Event::Begin { .. } => "begin",
            Event::Record(_) => "record",
            Event::Marked(_) => "marked",
            Event::Announced(_) => "announced",
            Event::Loaded(_) => "loaded",
            Event::Replayed(_) => "replayed",
            Event::Ack { .. } => "ack",
            Event::Return(_) => "return",
            Event::Persisted { .. } => "persisted",
            Event::PersistFailed { .. } => "persist failed",
            Event::Connected { .. } => "connected",
            Event::Gone { .. } => "gone",
            Event::Hearing(_) => "hearing",
            Event::AskAgain => "ask again",
            Event::Cancel { .. } => "cancel",
            Event::Detach => "detach",
            Event::Superseded => "superseded",
            Event::OwnedBy { .. } => "owned by",
            Event::Emitted(_) => "emitted",
            Event::Purged(_) => "purged",
            Event::Tick => "tick",
        }
    }
}
