//! What goes into a peel's machine, and what comes out of it.

use crate::command::Failed;
use crate::dedup::{Dispatch, Entry};
use std::time::Duration;
use zester_wire::{Cause, ExecRequest, Jid, Return, ScheduledRun, UnixMillis};

/// Both clocks of the peel. `run` counts from any fixed moment and never goes back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    pub wall: UnixMillis,
    pub run: Duration,
}

/// What the policy of the machine says of a request. It is asked about what is new: a copy of what was taken on is a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// It is not done, and why.
    pub refused: Option<String>,
    /// An operator's own word stands behind it, which counts once whatever a master makes of it, and until then (I-8).
    pub once_until: Option<UnixMillis>,
}

/// What happened outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The peel starts, with what its disk remembers.
    Start {
        entries: Vec<Entry>,
    },
    /// Answers [`Command::KillLeftovers`].
    LeftoversGone,
    /// A request that was verified, with the time it was signed.
    Exec {
        request: Box<ExecRequest>,
        signed: UnixMillis,
        terms: Terms,
    },
    /// The peel's own schedule wants a run of it (D-10). `direct`: the result stays on the peel.
    Scheduled {
        request: Box<ExecRequest>,
        schedule: ScheduledRun,
    },
    /// A cancel that was verified.
    Cancel {
        jid: Jid,
        dispatch_epoch: u64,
    },
    /// Answers [`Command::StoreEntry`] of an accepted dispatch.
    Stored {
        dispatch: Dispatch,
        result: Result<(), Failed>,
    },
    /// Answers [`Command::Execute`], also after an abort. Who and which dispatch is filled in here.
    Finished {
        dispatch: Dispatch,
        ret: Box<Return>,
    },
    /// Answers [`Command::StoreReturn`].
    ReturnStored {
        dispatch: Dispatch,
    },
    /// Answers [`Command::StoreReturn`]; gives the return back.
    ReturnStoreFailed {
        ret: Box<Return>,
    },
    /// A master has the return.
    Delivered {
        dispatch: Dispatch,
    },
    /// The bus is there (again).
    Connected,
    Disconnected,
    Tick,
}

/// What is to be done outside, in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Kill what is left of the processes of these. Answered by [`Event::LeftoversGone`].
    KillLeftovers {
        dispatches: Vec<Dispatch>,
    },
    /// Write and sync a line of the ledger. Answered by [`Event::Stored`] if it is an accepted one.
    StoreEntry(Entry),
    SendAck {
        dispatch: Dispatch,
        ahead: u32,
    },
    /// Do it. Answered by [`Event::Finished`].
    Execute {
        request: Box<ExecRequest>,
    },
    /// Stop it (S-32), unless it has ended meanwhile. It still answers with what it has.
    Abort {
        dispatch: Dispatch,
        cause: Cause,
    },
    /// Write and sync a return and, with it, that its dispatch has returned; after that pause. Answered.
    StoreReturn {
        ret: Box<Return>,
        pause: Duration,
    },
    /// Send the stored return. [`Event::Delivered`] once a master has it.
    SendReturn {
        dispatch: Dispatch,
    },
    /// Send a return that is not stored.
    SendUnstored {
        ret: Box<Return>,
    },
    /// Answer a direct request (J-21).
    Reply {
        ret: Box<Return>,
    },
    /// A run of the schedule has ended, whichever way.
    ScheduleEnded {
        ret: Box<Return>,
    },
    /// These and their returns may go from the disk.
    Forget {
        dispatches: Vec<Dispatch>,
    },
    Note(Note),
}

/// Something that was noticed and changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A request of an epoch below one that is known: refused (J-7).
    LowerEpoch(Dispatch),
    /// A return that no master took in all the time that masters keep jobs.
    Undelivered(Dispatch),
    /// A result of the schedule that made room for later ones before a server had it.
    Dropped(Dispatch),
}

impl Event {
    /// Which dispatch it speaks of, where it answers for one.
    pub(super) fn dispatch(&self) -> Option<Dispatch> {
        match self {
            Event::Stored { dispatch, .. }
            | Event::Finished { dispatch, .. }
            | Event::ReturnStored { dispatch }
            | Event::Delivered { dispatch } => Some(dispatch.clone()),
            Event::ReturnStoreFailed { ret } => {
                Some(Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch })
            }
            Event::Start { .. }
            | Event::LeftoversGone
            | Event::Exec { .. }
            | Event::Scheduled { .. }
            | Event::Cancel { .. }
            | Event::Connected
            | Event::Disconnected
            | Event::Tick => None,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Event::Start { .. } => "start",
            Event::LeftoversGone => "leftovers gone",
            Event::Exec { .. } => "exec",
            Event::Scheduled { .. } => "scheduled",
            Event::Cancel { .. } => "cancel",
            Event::Stored { .. } => "stored",
            Event::Finished { .. } => "finished",
            Event::ReturnStored { .. } => "return stored",
            Event::ReturnStoreFailed { .. } => "return store failed",
            Event::Delivered { .. } => "delivered",
            Event::Connected => "connected",
            Event::Disconnected => "disconnected",
            Event::Tick => "tick",
        }
    }
}
