//! What a peel has already taken on (J-7): one dispatch of a job is executed at most once, also across a crash.

use crate::limits::LEDGER_MAX;
use crate::timing::Timing;
use std::collections::BTreeMap;
use zester_wire::{ExecRequest, Jid, ScheduledRun, UnixMillis};

/// One dispatch of one job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dispatch {
    pub jid: Jid,
    pub epoch: u64,
}

/// How far one dispatch is, as the disk has it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum DispatchState {
    /// Taken on. After a restart: interrupted.
    Accepted,
    /// Its return is stored; `delivered` once a master has it.
    Returned { delivered: bool },
    /// Canceled before it came: it must never start. The epoch is the highest that was canceled.
    Canceled,
}

/// One line of the ledger: what goes to disk and comes back at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub dispatch: Dispatch,
    pub state: DispatchState,
    /// Until when a copy of its request may still be believed.
    pub keep_until: UnixMillis,
    /// It bypassed the masters (J-21), or its schedule keeps its results here (D-10): nobody waits for a stored return.
    pub direct: bool,
    /// The peel's own schedule asked for it.
    pub schedule: Option<ScheduledRun>,
}

/// What to do with a request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// New: write it down, then ack, then execute.
    Accept,
    /// Taken on before: ack again.
    AckAgain,
    /// Done before: send the stored return again.
    ReturnAgain,
    /// A cancel came first.
    Canceled,
    Refuse(Refused),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A later dispatch of the job is known.
    LowerEpoch,
    /// Signed time + budget has passed.
    Expired,
    /// A direct request whose id was seen.
    Seen,
    /// There is no room to remember it.
    Full,
}

/// The ledger in memory.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: BTreeMap<Dispatch, Entry>,
}

impl Ledger {
    pub fn new(entries: Vec<Entry>) -> Ledger {
        Ledger { entries: entries.into_iter().map(|entry| (entry.dispatch.clone(), entry)).collect() }
    }

    /// Decides without changing anything. What is known is answered before the time is looked at: a copy that comes late is
    /// still a copy.
    pub fn decide(
        &self,
        request: &ExecRequest,
        signed: UnixMillis,
        now: UnixMillis,
        timing: &Timing,
    ) -> Decision {
        let wanted = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let newest = self.of_job(&request.jid).next_back();
        if request.direct && newest.is_some() {
            return Decision::Refuse(Refused::Seen);
        }
        // A canceled job starts nothing new, whatever the epoch.
        if self.of_job(&request.jid).any(|entry| entry.state == DispatchState::Canceled) {
            return Decision::Canceled;
        }
        match newest {
            Some(entry) if entry.dispatch.epoch > wanted.epoch => {
                return Decision::Refuse(Refused::LowerEpoch);
            }
            Some(entry) if entry.dispatch == wanted => {
                let accepted = entry.state == DispatchState::Accepted;
                return if accepted { Decision::AckAgain } else { Decision::ReturnAgain };
            }
            _ => {}
        }
        let too_old = request.direct && now > signed.plus(timing.direct_age);
        if too_old || now > signed.plus(request.budget) {
            return Decision::Refuse(Refused::Expired);
        }
        if self.entries.len() >= LEDGER_MAX {
            return Decision::Refuse(Refused::Full);
        }
        Decision::Accept
    }

    pub fn insert(&mut self, entry: Entry) {
        self.entries.insert(entry.dispatch.clone(), entry);
    }

    pub fn get(&self, dispatch: &Dispatch) -> Option<&Entry> {
        self.entries.get(dispatch)
    }

    pub fn set(&mut self, dispatch: &Dispatch, state: DispatchState) {
        if let Some(entry) = self.entries.get_mut(dispatch) {
            entry.state = state;
        }
    }

    pub fn remove(&mut self, dispatch: &Dispatch) {
        self.entries.remove(dispatch);
    }

    /// All dispatches of one job, the lowest epoch first.
    pub fn of_job<'a>(&'a self, jid: &Jid) -> impl DoubleEndedIterator<Item = &'a Entry> {
        let from = Dispatch { jid: jid.clone(), epoch: 0 };
        let to = Dispatch { jid: jid.clone(), epoch: u64::MAX };
        self.entries.range(from..=to).map(|(_, entry)| entry)
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Forgets what can no longer come again, and says what: never what is under way or still waits for a master.
    pub fn prune(&mut self, now: UnixMillis) -> Vec<Dispatch> {
        let over = |entry: &&Entry| {
            let idle =
                matches!(entry.state, DispatchState::Returned { delivered: true } | DispatchState::Canceled);
            idle && now > entry.keep_until
        };
        let gone: Vec<Dispatch> =
            self.entries.values().filter(over).map(|entry| entry.dispatch.clone()).collect();
        gone.iter().for_each(|dispatch| self.remove(dispatch));
        gone
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
