//! The peel's end of a job: execute once, in order, in time, and hand the return over whatever happens.
//!
//! ```text
//! request -> storing -> waiting -> running -> returning -> outbox -> over
//!                \__________\_________________^      (canceled or out of time before it started; queue full)
//! ```
//!
//! A dispatch is on disk before it is acked and before it starts (J-7), its return before it is sent (J-22). At start, what
//! was accepted and has no return becomes `interrupted`, after what is left of its processes is gone. Time is counted twice:
//! the wall clock judges how old a signed request is, a monotonic one how long an execution may still take, bus or no bus.

mod message;

pub use self::message::{Command, Event, Moment, Note, Terms};

use crate::command::{Failed, Illegal};
use crate::dedup::{Decision, Dispatch, DispatchState, Entry, Ledger, Refused};
use crate::limits::{LEDGER_MAX, OUTBOX_MAX, SCHEDULED_OUTBOX_MAX};
use crate::queue::{Lane, Queue};
use crate::refusals::{Refusal, Refusals};
use crate::timing::Timing;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zester_wire::{Cause, ExecRequest, Jid, PeelId, Return, ScheduledRun, UnixMillis};

pub const BUSY: &str = "peel busy: execution queue full";
pub const BUSY_OUTBOX: &str = "peel busy: too many returns wait for a master";
pub const BUSY_LEDGER: &str = "peel busy: it remembers as many executions as it can";
pub const UNWRITTEN: &str =
    "refused: the peel cannot write to its disk, and starts nothing that is not written down";
pub const INTERRUPTED: &str = "interrupted: the peel restarted";
pub const DEADLINE: &str = "canceled by the deadline";
pub const CANCELED: &str = "canceled";
pub const ONCE: &str = "refused: what its operator signed was asked for before, and counts once";

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    /// Takes requests, starts nothing: what an earlier life left may still run.
    Recovering,
    Working,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Phase {
    Storing,
    Waiting,
    Running,
}

/// What an event meets.
#[derive(Copy, Clone, Debug)]
enum State {
    Peel(Stage),
    Work(Phase),
    /// It has ended, and its return is on the way to disk.
    Returning,
    NoWork,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Peel(Stage::Fresh) => "not started",
            State::Peel(Stage::Recovering) => "recovering",
            State::Peel(Stage::Working) => "working",
            State::Work(Phase::Storing) => "storing",
            State::Work(Phase::Waiting) => "waiting",
            State::Work(Phase::Running) => "running",
            State::Returning => "returning",
            State::NoWork => "not under way",
        }
    }
}

#[derive(Clone, Debug)]
struct Work {
    phase: Phase,
    request: Box<ExecRequest>,
    ahead: u32,
    /// On the monotonic clock (J-5).
    abort_at: Duration,
    aborted: Option<Cause>,
    schedule: Option<ScheduledRun>,
}

#[derive(Copy, Clone, Debug)]
struct Waiting {
    next_try: Duration,
    pause: Duration,
    /// On the monotonic clock: a wall clock that is set right after the start must not make a return old at once.
    since: Duration,
}

/// One peel.
#[derive(Clone, Debug)]
pub struct Peel {
    id: PeelId,
    timing: Timing,
    stage: Stage,
    connected: bool,
    ledger: Ledger,
    queue: Queue<Dispatch>,
    works: BTreeMap<Dispatch, Work>,
    returning: BTreeSet<Dispatch>,
    outbox: BTreeMap<Dispatch, Waiting>,
    interrupted: Vec<Dispatch>,
    refusals: Refusals,
}

impl Peel {
    pub fn new(id: PeelId, timing: Timing) -> Peel {
        Peel {
            id,
            timing,
            stage: Stage::Fresh,
            connected: false,
            ledger: Ledger::default(),
            queue: Queue::default(),
            works: BTreeMap::new(),
            returning: BTreeSet::new(),
            outbox: BTreeMap::new(),
            interrupted: Vec::new(),
            refusals: Refusals::default(),
        }
    }

    /// Executions that run or wait, for the heartbeat.
    pub fn busy(&self) -> usize {
        self.queue.len()
    }

    /// The jobs that it runs or has queued, for the heartbeat (J-11). Direct requests and the schedule's runs belong to no job.
    pub fn executions(&self) -> impl Iterator<Item = &Dispatch> {
        let of_job = |work: &Work| !work.request.direct && work.schedule.is_none();
        self.works.iter().filter(move |(_, work)| of_job(work)).map(|(dispatch, _)| dispatch)
    }

    /// Returns that no master has yet, for the heartbeat.
    pub fn undelivered(&self) -> usize {
        self.outbox.len()
    }

    /// When the next [`Event::Tick`] is due, on the monotonic clock.
    pub fn next_wake(&self) -> Option<Duration> {
        let counted = |work: &&Work| work.aborted.is_none();
        let aborts = self.works.values().filter(counted).map(|work| work.abort_at).min();
        let sends = self.outbox.values().map(|waiting| waiting.next_try).min().filter(|_| self.connected);
        [aborts, sends].into_iter().flatten().min()
    }

    /// The only place that decides. This `match` lists every legal transition; anything else changes nothing.
    pub fn step(&mut self, event: Event, now: Moment) -> Result<Vec<Command>, Illegal> {
        let mut out = Vec::new();
        match (self.met_by(&event), event) {
            (State::Peel(Stage::Fresh), Event::Start { entries }) => self.start(entries, now, &mut out),
            (State::Peel(Stage::Recovering), Event::LeftoversGone) => self.recovered(now, &mut out),
            (State::Peel(Stage::Recovering | Stage::Working), Event::Exec { request, signed, terms }) => {
                self.exec(request, signed, terms, now, &mut out);
            }
            (State::Peel(Stage::Recovering | Stage::Working), Event::Scheduled { request, schedule }) => {
                self.scheduled(request, schedule, now, &mut out);
            }
            (State::Peel(Stage::Recovering | Stage::Working), Event::Cancel { jid, dispatch_epoch }) => {
                self.cancel(&jid, dispatch_epoch, now, &mut out);
            }
            (State::Peel(Stage::Recovering | Stage::Working), Event::Tick) => self.tick(now, &mut out),
            (State::Peel(Stage::Recovering | Stage::Working), Event::Connected) => {
                self.connected = true;
                self.outbox.values_mut().for_each(|waiting| waiting.next_try = now.run);
                self.send_due(now, &mut out);
            }
            (State::Peel(_), Event::Disconnected) => self.connected = false,
            (State::Work(Phase::Storing), Event::Stored { dispatch, result }) => {
                self.stored(dispatch, result, now, &mut out);
            }
            // It was canceled, or its time was over, while it was being written.
            (State::Returning | State::NoWork, Event::Stored { .. }) => {}
            (State::Work(Phase::Running), Event::Finished { dispatch, ret }) => {
                self.finished(dispatch, *ret, now, &mut out);
            }
            (State::Returning, Event::ReturnStored { dispatch }) => {
                self.return_stored(dispatch, now, &mut out);
            }
            (State::Returning, Event::ReturnStoreFailed { ret }) => {
                // A full disk is no reason for a master to wait; the copy on disk is still wanted.
                out.push(Command::SendUnstored { ret: ret.clone() });
                out.push(Command::StoreReturn { ret, pause: self.timing.retry_pause });
            }
            // A master may have it from the unstored copy before the disk has it, and may say so twice.
            (State::Returning | State::NoWork, Event::Delivered { dispatch }) => {
                self.delivered(&dispatch, &mut out);
            }
            (state, event) => return Err(Illegal { state: state.name(), event: event.name() }),
        }
        self.launch(now, &mut out);
        Ok(out)
    }

    fn met_by(&self, event: &Event) -> State {
        let Some(dispatch) = event.dispatch() else { return State::Peel(self.stage) };
        match self.works.get(&dispatch) {
            Some(work) => State::Work(work.phase),
            None if self.returning.contains(&dispatch) => State::Returning,
            None => State::NoWork,
        }
    }

    fn start(&mut self, entries: Vec<Entry>, now: Moment, out: &mut Vec<Command>) {
        for entry in &entries {
            match entry.state {
                DispatchState::Accepted => self.interrupted.push(entry.dispatch.clone()),
                DispatchState::Returned { delivered: false } if !entry.direct => {
                    self.outbox.insert(entry.dispatch.clone(), self.due_at_once(now));
                }
                DispatchState::Returned { .. } | DispatchState::Canceled => {}
            }
        }
        self.ledger = Ledger::new(entries);
        self.stage = Stage::Recovering;
        if self.interrupted.is_empty() {
            self.stage = Stage::Working;
        } else {
            out.push(Command::KillLeftovers { dispatches: self.interrupted.clone() });
        }
    }

    fn recovered(&mut self, now: Moment, out: &mut Vec<Command>) {
        self.stage = Stage::Working;
        for dispatch in std::mem::take(&mut self.interrupted) {
            let entry = self.ledger.get(&dispatch);
            let (direct, schedule) =
                entry.map_or((false, None), |entry| (entry.direct, entry.schedule.clone()));
            let ret = Return { schedule, ..self.say(&dispatch, Cause::Interrupted, INTERRUPTED, now) };
            if ret.schedule.is_some() {
                out.push(Command::ScheduleEnded { ret: Box::new(ret.clone()) });
            }
            if direct {
                self.close_direct(&dispatch, out);
                continue;
            }
            out.push(Command::StoreReturn { ret: Box::new(ret), pause: Duration::ZERO });
            self.ledger.set(&dispatch, DispatchState::Returned { delivered: false });
            self.returning.insert(dispatch);
        }
    }

    fn exec(
        &mut self,
        request: Box<ExecRequest>,
        signed: UnixMillis,
        terms: Terms,
        now: Moment,
        out: &mut Vec<Command>,
    ) {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        if let Some(Refusal { cause, why }) = self.refusals.get(&dispatch).cloned() {
            return self.refuse(&request, cause, &why, now, out);
        }
        match self.ledger.decide(&request, signed, now.wall, &self.timing) {
            Decision::Accept => {
                if let Some(why) = terms.refused {
                    return self.refuse_for_good(&request, Cause::Refused, &why, now, out);
                }
                // Another dispatch of a job is a master's word, and the operator gave one for one.
                if terms.once_until.is_some() && self.ledger.of_job(&request.jid).next().is_some() {
                    return self.refuse_for_good(&request, Cause::Refused, ONCE, now, out);
                }
                if self.outbox.len() + self.works.len() + self.returning.len() >= OUTBOX_MAX {
                    return self.refuse_for_good(&request, Cause::Busy, BUSY_OUTBOX, now, out);
                }
                let keep_until = signed.max(now.wall).plus(request.budget).plus(self.timing.dedup_margin);
                let keep_until = terms.once_until.map_or(keep_until, |until| until.max(keep_until));
                self.accept(dispatch, request, None, keep_until, now, out);
            }
            Decision::AckAgain => {
                // Not before it is on disk: the ack says that it is.
                if self.works.get(&dispatch).is_none_or(|work| work.phase != Phase::Storing) {
                    let ahead = self.works.get(&dispatch).map_or(0, |work| work.ahead);
                    out.push(Command::SendAck { dispatch, ahead });
                }
            }
            Decision::ReturnAgain => {
                // What is still on its way to disk is sent when it is there.
                if !self.returning.contains(&dispatch) {
                    out.push(Command::SendReturn { dispatch });
                }
            }
            Decision::Canceled => self.refuse(&request, Cause::Canceled, CANCELED, now, out),
            Decision::Refuse(Refused::LowerEpoch) => out.push(Command::Note(Note::LowerEpoch(dispatch))),
            Decision::Refuse(Refused::Expired) => {
                let late = now.wall.since(signed.plus(request.budget)).as_secs();
                let why = format!(
                    "refused: by this machine's clock the request ran out {late} s ago; compare the clocks of peel and master"
                );
                self.refuse_for_good(&request, Cause::Expired, &why, now, out);
            }
            Decision::Refuse(Refused::Seen) => {
                self.refuse(&request, Cause::Refused, "refused: this request was seen before", now, out);
            }
            Decision::Refuse(Refused::Full) => {
                self.refuse_for_good(&request, Cause::Busy, BUSY_LEDGER, now, out);
            }
        }
    }

    /// A run that the peel's own schedule wants: through the same queue as jobs, with the bus away too.
    fn scheduled(
        &mut self,
        request: Box<ExecRequest>,
        schedule: ScheduledRun,
        now: Moment,
        out: &mut Vec<Command>,
    ) {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        if self.ledger.len() >= LEDGER_MAX {
            return self.not_run(&dispatch, schedule, Cause::Busy, BUSY_LEDGER, now, out);
        }
        // Nobody sends it again: it need not be remembered any longer than it takes.
        self.accept(dispatch, request, Some(schedule), now.wall, now, out);
    }

    fn not_run(
        &self,
        dispatch: &Dispatch,
        schedule: ScheduledRun,
        cause: Cause,
        why: &str,
        now: Moment,
        out: &mut Vec<Command>,
    ) {
        let ret = Return { schedule: Some(schedule), ..self.say(dispatch, cause, why, now) };
        out.push(Command::ScheduleEnded { ret: Box::new(ret) });
    }

    fn accept(
        &mut self,
        dispatch: Dispatch,
        request: Box<ExecRequest>,
        schedule: Option<ScheduledRun>,
        keep_until: UnixMillis,
        now: Moment,
        out: &mut Vec<Command>,
    ) {
        let entry = Entry {
            dispatch: dispatch.clone(),
            state: DispatchState::Accepted,
            keep_until,
            direct: request.direct,
            schedule: schedule.clone(),
        };
        let placed = self.queue.place(dispatch.clone(), Lane::of(&request.function));
        let abort_at = now.run.saturating_add(request.budget).saturating_add(self.timing.abort_grace);
        let ahead = placed.map_or(0, |ahead| u32::try_from(ahead).unwrap_or(u32::MAX));
        let work = Work { phase: Phase::Storing, request, ahead, abort_at, aborted: None, schedule };
        self.ledger.insert(entry.clone());
        self.works.insert(dispatch.clone(), work);
        if placed.is_some() {
            out.push(Command::StoreEntry(entry));
        } else {
            // Remembered like any other: a copy of the request must not run once there is room.
            let ret = self.say(&dispatch, Cause::Busy, BUSY, now);
            self.end(dispatch, ret, out);
        }
    }

    fn stored(
        &mut self,
        dispatch: Dispatch,
        result: Result<(), Failed>,
        now: Moment,
        out: &mut Vec<Command>,
    ) {
        let Some(work) = self.works.get_mut(&dispatch) else { return };
        if result.is_err() {
            // What is not on disk is not executed: after a crash nobody would know of it.
            let (request, schedule) = (work.request.clone(), work.schedule.clone());
            self.queue.leave(&dispatch);
            self.works.remove(&dispatch);
            self.ledger.remove(&dispatch);
            if let Some(schedule) = schedule {
                return self.not_run(&dispatch, schedule, Cause::Refused, UNWRITTEN, now, out);
            }
            return self.refuse_for_good(&request, Cause::Refused, UNWRITTEN, now, out);
        }
        work.phase = Phase::Waiting;
        let ahead = work.ahead;
        if !work.request.direct && work.schedule.is_none() {
            out.push(Command::SendAck { dispatch: dispatch.clone(), ahead });
        }
        self.queue.ready(&dispatch);
    }

    /// Starts what may start.
    fn launch(&mut self, now: Moment, out: &mut Vec<Command>) {
        if self.stage != Stage::Working {
            return;
        }
        while let Some(dispatch) = self.queue.start_next() {
            let Some(work) = self.works.get_mut(&dispatch) else { continue };
            if now.run >= work.abort_at {
                let ret = self.say(&dispatch, Cause::Deadline, DEADLINE, now);
                self.end(dispatch, ret, out);
                continue;
            }
            work.phase = Phase::Running;
            out.push(Command::Execute { request: work.request.clone() });
        }
    }

    /// Whether it runs, waits or has not come yet (J-11).
    fn cancel(&mut self, jid: &Jid, dispatch_epoch: u64, now: Moment, out: &mut Vec<Command>) {
        let known: Vec<Dispatch> = self.ledger.of_job(jid).map(|entry| entry.dispatch.clone()).collect();
        for dispatch in &known {
            self.abort(dispatch, Cause::Canceled, CANCELED, now, out);
        }
        // With a full ledger the request is refused when it comes: it need not be remembered that it must be.
        if known.is_empty() && self.ledger.len() < LEDGER_MAX {
            // The request may be on its way, and this peel may restart before it comes.
            let keep_until = now.wall.plus(self.timing.outbox_keep);
            let dispatch = Dispatch { jid: jid.clone(), epoch: dispatch_epoch };
            let state = DispatchState::Canceled;
            let entry = Entry { dispatch, state, keep_until, direct: false, schedule: None };
            self.ledger.insert(entry.clone());
            out.push(Command::StoreEntry(entry));
        }
    }

    fn abort(&mut self, dispatch: &Dispatch, cause: Cause, words: &str, now: Moment, out: &mut Vec<Command>) {
        let Some(work) = self.works.get_mut(dispatch) else { return };
        match work.phase {
            Phase::Storing | Phase::Waiting => {
                let ret = self.say(dispatch, cause, words, now);
                self.end(dispatch.clone(), ret, out);
            }
            Phase::Running if work.aborted.is_none() => {
                work.aborted = Some(cause);
                out.push(Command::Abort { dispatch: dispatch.clone(), cause });
            }
            Phase::Running => {}
        }
    }

    fn finished(&mut self, dispatch: Dispatch, ret: Return, now: Moment, out: &mut Vec<Command>) {
        let aborted = self.works.get(&dispatch).and_then(|work| work.aborted);
        let mut ret = Return {
            jid: dispatch.jid.clone(),
            peel: self.id.clone(),
            dispatch_epoch: dispatch.epoch,
            ts: now.wall,
            ..ret
        };
        // What ended well in spite of the abort ended well.
        if let Some(cause) = aborted.filter(|_| !ret.success) {
            ret.cause = cause;
            ret.canceled = true;
        }
        self.end(dispatch, ret, out);
    }

    /// There is a return: its place is free, and the return goes to disk before anything else.
    fn end(&mut self, dispatch: Dispatch, ret: Return, out: &mut Vec<Command>) {
        self.queue.leave(&dispatch);
        let Some(work) = self.works.remove(&dispatch) else { return };
        let ret = Return { schedule: work.schedule, ..ret };
        let scheduled = ret.schedule.is_some();
        if scheduled {
            out.push(Command::ScheduleEnded { ret: Box::new(ret.clone()) });
        }
        if work.request.direct {
            if !scheduled {
                out.push(Command::Reply { ret: Box::new(ret) });
            }
            return self.close_direct(&dispatch, out);
        }
        self.ledger.set(&dispatch, DispatchState::Returned { delivered: false });
        self.returning.insert(dispatch);
        out.push(Command::StoreReturn { ret: Box::new(ret), pause: Duration::ZERO });
    }

    fn close_direct(&mut self, dispatch: &Dispatch, out: &mut Vec<Command>) {
        self.ledger.set(dispatch, DispatchState::Returned { delivered: true });
        out.extend(self.ledger.get(dispatch).cloned().map(Command::StoreEntry));
    }

    fn return_stored(&mut self, dispatch: Dispatch, now: Moment, out: &mut Vec<Command>) {
        self.returning.remove(&dispatch);
        let delivered = DispatchState::Returned { delivered: true };
        if self.ledger.get(&dispatch).is_some_and(|entry| entry.state == delivered) {
            return;
        }
        self.outbox.insert(dispatch, self.due_at_once(now));
        self.drop_scheduled(out);
        self.send_due(now, out);
    }

    /// A peel without a bus goes on with its schedule for as long as it takes; its results give way, the oldest first.
    fn drop_scheduled(&mut self, out: &mut Vec<Command>) {
        let is_scheduled =
            |dispatch: &&Dispatch| self.ledger.get(dispatch).is_some_and(|entry| entry.schedule.is_some());
        let scheduled: Vec<&Dispatch> = self.outbox.keys().filter(is_scheduled).collect();
        let surplus = scheduled.len().saturating_sub(SCHEDULED_OUTBOX_MAX);
        // Job ids begin with the time.
        let oldest: Vec<Dispatch> = scheduled.into_iter().take(surplus).cloned().collect();
        for dispatch in oldest {
            self.delivered(&dispatch, out);
            out.push(Command::Note(Note::Dropped(dispatch)));
        }
    }

    fn due_at_once(&self, now: Moment) -> Waiting {
        Waiting { next_try: now.run, pause: self.timing.outbox_pause, since: now.run }
    }

    fn delivered(&mut self, dispatch: &Dispatch, out: &mut Vec<Command>) {
        self.outbox.remove(dispatch);
        if let Some(entry) = self.ledger.get(dispatch).filter(|entry| entry.state != DispatchState::Canceled)
        {
            let entry = Entry { state: DispatchState::Returned { delivered: true }, ..entry.clone() };
            self.ledger.insert(entry.clone());
            out.push(Command::StoreEntry(entry));
        }
    }

    fn send_due(&mut self, now: Moment, out: &mut Vec<Command>) {
        if !self.connected {
            return;
        }
        let longest = self.timing.outbox_pause_max;
        for (dispatch, waiting) in self.outbox.iter_mut().filter(|(_, waiting)| now.run >= waiting.next_try) {
            waiting.next_try = now.run.saturating_add(waiting.pause);
            waiting.pause = waiting.pause.saturating_mul(2).min(longest);
            out.push(Command::SendReturn { dispatch: dispatch.clone() });
        }
    }

    fn tick(&mut self, now: Moment, out: &mut Vec<Command>) {
        let late = |work: &Work| now.run >= work.abort_at && work.aborted.is_none();
        let due: Vec<Dispatch> =
            self.works.iter().filter(|(_, work)| late(work)).map(|(dispatch, _)| dispatch.clone()).collect();
        for dispatch in due {
            self.abort(&dispatch, Cause::Deadline, DEADLINE, now, out);
        }
        let keep = self.timing.outbox_keep;
        let stale: Vec<Dispatch> = self
            .outbox
            .iter()
            .filter(|(_, waiting)| now.run.saturating_sub(waiting.since) > keep)
            .map(|(dispatch, _)| dispatch.clone())
            .collect();
        for dispatch in stale {
            self.delivered(&dispatch, out);
            out.push(Command::Note(Note::Undelivered(dispatch)));
        }
        self.send_due(now, out);
        let dispatches = self.ledger.prune(now.wall);
        if !dispatches.is_empty() {
            out.push(Command::Forget { dispatches });
        }
    }

    /// Says no, and says the same to every copy of the request: a master that has the refusal counts it as the answer.
    fn refuse_for_good(
        &mut self,
        request: &ExecRequest,
        cause: Cause,
        why: &str,
        now: Moment,
        out: &mut Vec<Command>,
    ) {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        self.refusals.insert(dispatch, Refusal { cause, why: why.into() });
        self.refuse(request, cause, why, now, out);
    }

    /// Says no without taking it on.
    fn refuse(&self, request: &ExecRequest, cause: Cause, why: &str, now: Moment, out: &mut Vec<Command>) {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let ret = Box::new(self.say(&dispatch, cause, why, now));
        out.push(if request.direct { Command::Reply { ret } } else { Command::SendUnstored { ret } });
    }

    fn say(&self, dispatch: &Dispatch, cause: Cause, words: &str, now: Moment) -> Return {
        let (jid, peel) = (dispatch.jid.clone(), self.id.clone());
        Return { ts: now.wall, ..Return::refusing(jid, peel, dispatch.epoch, cause, words) }
    }
}
