//! One job at the master that owns it.
//!
//! ```text
//! dispatch: fresh -> claiming -> marking -> announcing -> starting -> watching
//! adopt:    fresh -> adopting -> loading -> replaying -> watching         (it was running)
//!           fresh -> adopting -> recalling -> marking -> …                (it was still claimed)
//! end:      watching -> checking -> flushing -> finalizing -> reporting -> purging -> done
//! ```
//!
//! The order of the first line is J-2: what is still `claimed` was never published. Its master listens to acks, returns and
//! cancels of all jobs before it begins one, so that replaying the stream once leaves no gap. Recalling asks
//! whether a claim that was left behind was canceled meanwhile. Checking is for a job that ends without
//! all returns: the stream is read once more, because a return that it kept may not have reached this master. Flushing
//! waits until every return that came is on disk, and only then the terminal status is written, by compare-and-set; whoever finds another owner there
//! writes nothing more. A step that fails is tried again after a pause; a lost answer is resolved by what the next try
//! finds.

mod stage;

use self::stage::{Path, Stage};
use crate::command::{Command, Event, Failed, History, Illegal, Note, Written};
use crate::status;
use crate::targets::Targets;
use crate::timing::Timing;
use std::collections::BTreeSet;
use std::time::Duration;
use zester_wire::{Job, JobStatus, MasterId, PeelId, Return, UnixMillis};

/// A record that must be left alone: a newer release wrote its status.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Unadoptable;

/// One job at its owner.
#[derive(Clone, Debug)]
pub struct Owner {
    stage: Stage,
    /// As it was last written, or is being written.
    job: Job,
    revision: u64,
    targets: Targets,
    timing: Timing,
    /// Returns on their way to the disk.
    unpersisted: usize,
    canceled: Option<String>,
    /// Canceled before all had returned.
    cut_short: bool,
    accepted: bool,
    /// A stop came while history was being read, and the answer is still to come.
    left_open: bool,
    /// The stop came when everything that had happened was known.
    knows_all: bool,
    /// The stream was read this very moment.
    up_to_date: bool,
    /// When the step that failed is tried again.
    retry_at: Option<UnixMillis>,
    /// When silent targets are asked once more (J-6).
    resend_at: Option<UnixMillis>,
}

impl Owner {
    /// A new job. The client's deadline, status, owner and epochs are ignored (J-4).
    pub fn dispatch(job: Job, me: MasterId, timing: Timing) -> Owner {
        let fresh = Job { owner: me, epoch: 1, dispatch_epoch: 1, reclaim_count: 0, ..job };
        Owner::new(Path::Dispatch, fresh, 0, timing)
    }

    /// This master's own record that is still `claimed`, for a client that asks again (J-3). Its time begins anew.
    pub fn resume(job: Job, revision: u64, timing: Timing) -> Owner {
        Owner::new(Path::Resume, job, revision, timing)
    }

    /// The job of a master that is dead, as read from the bucket (J-13, J-14).
    pub fn adopt(job: Job, revision: u64, me: MasterId, timing: Timing) -> Result<Owner, Unadoptable> {
        match job.status {
            JobStatus::Unknown => return Err(Unadoptable),
            status if status.is_terminal() => return Ok(Owner::new(Path::Adopt, job, revision, timing)),
            _ => {}
        }
        let mut job = Job { owner: me, epoch: job.epoch + 1, reclaim_count: job.reclaim_count + 1, ..job };
        if job.status != JobStatus::Running {
            // It was never published, so nobody can have deduplicated by the old one (J-7).
            job.status = JobStatus::Claimed;
            job.dispatch_epoch = job.epoch;
        }
        Ok(Owner::new(Path::Adopt, job, revision, timing))
    }

    fn new(path: Path, job: Job, revision: u64, timing: Timing) -> Owner {
        Owner {
            stage: Stage::Fresh(path),
            targets: Targets::new(&job.targets),
            job,
            revision,
            timing,
            unpersisted: 0,
            canceled: None,
            cut_short: false,
            accepted: false,
            left_open: false,
            knows_all: false,
            up_to_date: false,
            retry_at: None,
            resend_at: None,
        }
    }

    /// The record as it was last written, or is being written.
    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn state(&self) -> &'static str {
        self.stage.name()
    }

    /// Whether nothing is left to do here. Late returns may still come.
    pub fn is_finished(&self) -> bool {
        self.stage.is_gone() || self.stage == Stage::Done
    }

    /// When the next [`Event::Tick`] is due.
    pub fn next_wake(&self) -> Option<UnixMillis> {
        let watching = self.stage == Stage::Watching;
        let deadline = watching.then(|| self.job.deadline());
        let resend = self.resend_at.filter(|_| watching);
        let given_up = self.targets.next_given_up().filter(|_| watching);
        [self.retry_at, deadline, resend, given_up].into_iter().flatten().min()
    }

    /// The only place that decides. This `match` lists every legal transition; anything else changes nothing.
    pub fn step(&mut self, event: Event, now: UnixMillis) -> Result<Vec<Command>, Illegal> {
        let mut out = Vec::new();
        match (self.stage, event) {
            (Stage::Fresh(path), Event::Begin { absent }) => self.begin(path, &absent, now, &mut out),
            // Whoever is gone lets the answers to what it asked, and everything else, pass by.
            (stage, event) if stage.is_gone() && !matches!(event, Event::Begin { .. }) => {}
            (Stage::Done, Event::Superseded) => {}
            (stage, Event::Superseded) if !matches!(stage, Stage::Fresh(_)) => self.lose(&mut out),
            (stage, Event::Tick) if !matches!(stage, Stage::Fresh(_)) => self.tick(now, &mut out),
            (
                Stage::Claiming | Stage::Starting | Stage::Adopting | Stage::Finalizing,
                Event::Record(written),
            ) => self.written(written, now, &mut out),
            (Stage::Marking, Event::Marked(result)) => self.answered(result, now, &mut out),
            (Stage::Announcing, Event::Announced(result)) => self.answered(result, now, &mut out),
            (Stage::Reporting, Event::Emitted(result)) => self.answered(result, now, &mut out),
            (Stage::Purging, Event::Purged(result)) => self.answered(result, now, &mut out),
            (Stage::Loading, Event::Loaded(result)) => self.loaded(result, now, &mut out),
            (Stage::Replaying, Event::Replayed(result)) => self.replayed(result, now, &mut out),
            (Stage::Recalling, Event::Replayed(result)) => self.recalled(result, now, &mut out),
            (Stage::Checking, Event::Replayed(result)) => self.checked(result, now, &mut out),
            (_, Event::Loaded(_) | Event::Replayed(_)) if self.left_open => {
                self.left_open = false;
            }
            (stage, Event::Ack { peel, dispatch_epoch }) if !matches!(stage, Stage::Fresh(_)) => {
                self.acked(peel, dispatch_epoch, &mut out);
            }
            (stage, Event::Return(ret)) if !matches!(stage, Stage::Fresh(_)) => {
                self.returned(*ret, now, &mut out);
            }
            (_, Event::Persisted { .. }) if self.unpersisted > 0 => {
                self.unpersisted -= 1;
                self.settle(now, &mut out);
            }
            (_, Event::PersistFailed { ret }) if self.unpersisted > 0 => {
                out.push(Command::Persist { ret, pause: self.timing.retry_pause });
            }
            (stage, Event::Connected { peel }) if !matches!(stage, Stage::Fresh(_)) => {
                self.connected(peel, now, &mut out);
            }
            (stage, Event::Gone { peel }) if !matches!(stage, Stage::Fresh(_)) => {
                self.targets.went(&peel, self.patience(), now);
            }
            (stage, Event::AskAgain) if !matches!(stage, Stage::Fresh(_)) => self.ask_again(now, &mut out),
            (stage, Event::Cancel { by, seen }) if !matches!(stage, Stage::Fresh(_)) => {
                self.cancel(by, seen, now, &mut out);
            }
            (stage, Event::Detach) if !matches!(stage, Stage::Fresh(_)) => self.detach(now, &mut out),
            (stage, event) => return Err(Illegal { state: stage.name(), event: event.name() }),
        }
        Ok(out)
    }

    fn begin(&mut self, path: Path, absent: &BTreeSet<PeelId>, now: UnixMillis, out: &mut Vec<Command>) {
        self.targets.set_absent(absent);
        match path {
            Path::Dispatch => {
                self.job.status = JobStatus::Claimed;
                (self.job.created, self.job.updated) = (now, now);
                self.job.deadline = now.plus(self.job.timeout());
                (self.job.return_count, self.job.success_count) = (0, 0);
                self.enter(Stage::Claiming, out);
            }
            Path::Resume => {
                self.job.deadline = now.plus(self.job.timeout());
                self.enter(Stage::Recalling, out);
            }
            // Its owner died between the terminal status and the purge.
            Path::Adopt if self.job.status.is_terminal() => self.enter(Stage::Reporting, out),
            Path::Adopt if self.is_given_up() => {
                // Written at once, before anything is read: what killed so many owners must not kill the next.
                self.job.status = JobStatus::Failed;
                self.job.reason =
                    format!("given up: its owner was lost more than {} times", self.timing.reclaims_max);
                self.job.updated = now;
                self.enter(Stage::Finalizing, out);
            }
            Path::Adopt => {
                self.job.updated = now;
                self.job.deadline = self.job.deadline();
                self.enter(Stage::Adopting, out);
            }
        }
    }

    /// What a stage asks for when it begins, and again after a failure.
    fn ask(&self, out: &mut Vec<Command>) {
        let write = || Command::WriteRecord { job: Box::new(self.job.clone()), revision: self.revision };
        match self.stage {
            Stage::Claiming => out.push(Command::CreateRecord(Box::new(self.job.clone()))),
            Stage::Starting | Stage::Adopting | Stage::Finalizing => out.push(write()),
            Stage::Marking => out.push(Command::MarkActive),
            Stage::Announcing => out.push(Command::PublishDispatch),
            Stage::Loading => out.push(Command::LoadReturns),
            Stage::Recalling | Stage::Replaying | Stage::Checking => out.push(Command::Replay),
            Stage::Reporting => out.push(Command::EmitFinalized),
            Stage::Purging => out.push(Command::PurgeActive),
            Stage::Done | Stage::Detached | Stage::Lost => out.push(Command::Stop),
            Stage::Fresh(_) | Stage::Watching | Stage::Detaching | Stage::Flushing => {}
        }
    }

    fn enter(&mut self, stage: Stage, out: &mut Vec<Command>) {
        self.stage = stage;
        self.retry_at = None;
        self.ask(out);
    }

    fn fail(&mut self, now: UnixMillis) {
        self.retry_at = Some(now.plus(self.timing.retry_pause));
    }

    /// The step that the stage waited for is done, or is to be tried again.
    fn answered(&mut self, result: Result<(), Failed>, now: UnixMillis, out: &mut Vec<Command>) {
        if result.is_err() {
            return self.fail(now);
        }
        match self.stage {
            Stage::Marking => self.go_on(Stage::Announcing, now, out),
            Stage::Announcing => {
                self.job.status = JobStatus::Running;
                self.job.updated = now;
                self.go_on(Stage::Starting, now, out);
            }
            Stage::Reporting => self.enter(Stage::Purging, out),
            Stage::Purging => self.enter(Stage::Done, out),
            _ => {}
        }
    }

    /// The next step of a dispatch, unless the job must end before it went out.
    fn go_on(&mut self, stage: Stage, now: UnixMillis, out: &mut Vec<Command>) {
        if self.canceled.is_some() || now >= self.job.deadline() {
            return self.end(now, out);
        }
        self.enter(stage, out);
    }

    fn written(&mut self, written: Written, now: UnixMillis, out: &mut Vec<Command>) {
        match written {
            Written::Failed => self.fail(now),
            Written::Done { revision } => {
                self.revision = revision;
                self.has_written(now, out);
            }
            Written::Conflict { found: None } => self.lose(out),
            Written::Conflict { found: Some((found, revision)) } => {
                self.conflicted(*found, revision, now, out)
            }
        }
    }

    fn has_written(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Claiming => self.go_on(Stage::Marking, now, out),
            Stage::Adopting if self.job.status == JobStatus::Claimed => self.enter(Stage::Recalling, out),
            Stage::Adopting => self.enter(Stage::Loading, out),
            Stage::Starting => {
                self.accept(out);
                if self.canceled.is_some() || now >= self.job.deadline() {
                    return self.end(now, out);
                }
                self.enter(Stage::Watching, out);
                out.push(Command::PublishStatus);
                self.send_to_silent(now, out);
            }
            Stage::Finalizing => {
                self.accept(out);
                out.push(Command::PublishStatus);
                self.enter(Stage::Reporting, out);
            }
            _ => {}
        }
    }

    /// Somebody wrote in between: this master with an answer that was lost, or another that owns the job now.
    fn conflicted(&mut self, found: Job, revision: u64, now: UnixMillis, out: &mut Vec<Command>) {
        let mine = found.owner == self.job.owner && found.epoch == self.job.epoch;
        if self.stage == Stage::Claiming && !(mine && found.created == self.job.created) {
            out.push(Command::Existing { job: Box::new(found), revision });
            return self.lose(out);
        }
        if !mine {
            return self.lose(out);
        }
        self.revision = revision;
        if found.status == self.job.status {
            self.job = found;
            self.has_written(now, out);
        } else if found.status.is_terminal() {
            // An earlier try got through with what was known then. A terminal status never changes.
            self.job = found;
            self.stage = Stage::Finalizing;
            self.has_written(now, out);
        } else {
            self.ask(out);
        }
    }

    fn accept(&mut self, out: &mut Vec<Command>) {
        if !std::mem::replace(&mut self.accepted, true) {
            out.push(Command::Accept);
        }
    }

    fn lose(&mut self, out: &mut Vec<Command>) {
        out.push(Command::Note(Note::Superseded));
        self.enter(Stage::Lost, out);
    }

    fn loaded(&mut self, result: Result<Vec<Return>, Failed>, now: UnixMillis, out: &mut Vec<Command>) {
        let Ok(returns) = result else { return self.fail(now) };
        for ret in returns.iter().filter(|ret| ret.dispatch_epoch == self.job.dispatch_epoch) {
            self.targets.take(ret);
        }
        self.enter(Stage::Replaying, out);
    }

    fn replayed(&mut self, result: Result<History, Failed>, now: UnixMillis, out: &mut Vec<Command>) {
        let Ok(history) = result else { return self.fail(now) };
        self.learn(history, now, out);
        self.enter(Stage::Watching, out);
        self.accept(out);
        if self.canceled.is_some() {
            self.send_cancel(out);
        }
        self.up_to_date = true;
        self.settle(now, out);
        self.up_to_date = false;
        if self.stage == Stage::Watching {
            self.send_to_silent(now, out);
        }
    }

    /// Nobody had the work, so acks and returns of it would be forged; but it may have been canceled.
    fn recalled(&mut self, result: Result<History, Failed>, now: UnixMillis, out: &mut Vec<Command>) {
        let Ok(history) = result else { return self.fail(now) };
        if self.canceled.is_none() {
            self.canceled = history.canceled;
        }
        self.go_on(Stage::Marking, now, out);
    }

    /// The last look before a job ends without all returns.
    fn checked(&mut self, result: Result<History, Failed>, now: UnixMillis, out: &mut Vec<Command>) {
        let Ok(history) = result else { return self.fail(now) };
        self.learn(history, now, out);
        self.flush(now, out);
    }

    fn learn(&mut self, history: History, now: UnixMillis, out: &mut Vec<Command>) {
        history.acks.iter().for_each(|peel| self.targets.acked_before(peel));
        for ret in history.returns {
            // What the disk had is met again here; only what is new is worth a note elsewhere.
            if !self.targets.has_returned(&ret.peel) {
                self.returned(ret, now, out);
            }
        }
        if self.canceled.is_none() {
            self.canceled = history.canceled;
        }
    }

    /// Sends the work to all who neither acked nor returned, and arms the ack window.
    fn send_to_silent(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.resend_at = Some(now.plus(self.timing.ack_window));
        self.send_exec(self.targets.silent(), now, out);
    }

    fn send_exec(&mut self, peels: Vec<PeelId>, now: UnixMillis, out: &mut Vec<Command>) {
        if peels.is_empty() {
            return;
        }
        self.targets.ask(&peels, self.patience(), now);
        out.push(Command::SendExec { peels, budget: self.job.deadline().since(now) });
    }

    fn send_cancel(&mut self, out: &mut Vec<Command>) {
        let peels = self.targets.without_return();
        if !peels.is_empty() {
            out.push(Command::SendCancel { peels });
        }
    }

    fn patience(&self) -> Duration {
        self.timing.ack_window + self.timing.unreachable_grace
    }

    fn tick(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry(now, out);
        }
        if self.stage != Stage::Watching {
            return;
        }
        self.settle(now, out);
        if self.stage == Stage::Watching && self.resend_at.is_some_and(|at| now >= at) {
            self.resend_at = None;
            self.ask_again(now, out);
        }
    }

    /// Asks the silent once more. That does not prolong how long the absent are waited for.
    fn ask_again(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        if self.stage != Stage::Watching || now >= self.job.deadline() {
            return;
        }
        let peels = self.targets.silent();
        if !peels.is_empty() {
            out.push(Command::SendExec { peels, budget: self.job.deadline().since(now) });
        }
    }

    fn retry(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.retry_at = None;
        let out_of_time = self.canceled.is_some() || now >= self.job.deadline();
        match self.stage {
            Stage::Recalling | Stage::Marking | Stage::Announcing | Stage::Starting if out_of_time => {
                self.end(now, out);
            }
            // Returns may have come since the last look; the end that is written is of the latest.
            Stage::Finalizing if !self.targets.all_returned() && !self.is_given_up() => {
                self.enter(Stage::Checking, out);
            }
            // Also a claim whose time is over: an earlier try may have been written, and must not be left behind.
            _ => self.ask(out),
        }
    }

    /// It changed owners too often (J-13).
    fn is_given_up(&self) -> bool {
        self.job.reclaim_count > self.timing.reclaims_max
    }

    fn acked(&mut self, peel: PeelId, dispatch_epoch: u64, out: &mut Vec<Command>) {
        if !self.targets.contains(&peel) {
            out.push(Command::Note(Note::NotATarget(peel)));
        } else if dispatch_epoch != self.job.dispatch_epoch {
            out.push(Command::Note(Note::OtherEpoch { peel, dispatch_epoch }));
        } else if self.stage.is_out() {
            self.targets.ack(&peel);
        }
    }

    /// A return counts only for a target and for this dispatch; after the end it is late (J-9).
    fn returned(&mut self, ret: Return, now: UnixMillis, out: &mut Vec<Command>) {
        let (peel, dispatch_epoch) = (ret.peel.clone(), ret.dispatch_epoch);
        let late = self.stage.is_over();
        if !self.targets.contains(&peel) {
            return out.push(Command::Note(Note::NotATarget(peel)));
        }
        if dispatch_epoch != self.job.dispatch_epoch {
            return out.push(Command::Note(Note::OtherEpoch { peel, dispatch_epoch }));
        }
        if !late && !self.stage.is_out() {
            // Nothing of this dispatch is out, or the job is not ours yet and its events will be replayed.
            return out.push(Command::Note(Note::TooEarly(peel)));
        }
        if !self.targets.take(&ret) {
            return out.push(Command::Note(Note::Duplicate(peel)));
        }
        self.unpersisted += 1;
        out.push(Command::Persist { ret: Box::new(Return { late, ..ret }), pause: Duration::ZERO });
        self.settle(now, out);
    }

    fn connected(&mut self, peel: PeelId, now: UnixMillis, out: &mut Vec<Command>) {
        if self.stage == Stage::Watching && now < self.job.deadline() {
            if self.targets.came_back(&peel) {
                self.send_exec(vec![peel], now, out);
            }
        } else if self.canceled.is_some() && self.stage.is_over() {
            // It may still work on it: the cancel that it missed is told again.
            if self.targets.contains(&peel) && !self.targets.has_returned(&peel) {
                out.push(Command::SendCancel { peels: vec![peel] });
            }
        } else if !self.stage.is_over() {
            self.targets.is_present(&peel);
        }
    }

    fn cancel(&mut self, by: String, seen: bool, now: UnixMillis, out: &mut Vec<Command>) {
        if self.stage.is_over() || matches!(self.stage, Stage::Checking | Stage::Flushing) {
            return out.push(Command::Note(Note::AlreadyOver));
        }
        if self.canceled.is_some() {
            return;
        }
        self.canceled = Some(by.clone());
        if !seen {
            out.push(Command::PublishCancel { by });
        }
        if self.stage.is_out() {
            self.send_cancel(out);
        }
        match self.stage {
            Stage::Watching => self.end(now, out),
            Stage::Detaching if self.knows_all => self.end(now, out),
            // The step that is open is answered first; what follows, or who adopts the job, sees the cancel.
            _ => {}
        }
    }

    /// A stop of the master leaves the job to the next (J-12), except where nothing is left to wait for.
    fn detach(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Checking | Stage::Flushing | Stage::Finalizing | Stage::Reporting => {}
            Stage::Purging | Stage::Done | Stage::Detaching => {}
            stage => {
                self.left_open = stage.reads_history() && self.retry_at.is_none();
                self.knows_all = stage == Stage::Watching;
                self.stage = Stage::Detaching;
                self.retry_at = None;
                self.settle(now, out);
            }
        }
    }

    /// Goes on as far as it can with what is known.
    fn settle(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Watching => {
                self.targets.give_up_absent(self.patience(), now);
                let over = self.canceled.is_some() || now >= self.job.deadline() || self.targets.is_settled();
                if over {
                    self.end(now, out);
                }
            }
            Stage::Detaching if self.job.status == JobStatus::Running && self.targets.all_returned() => {
                self.end(now, out);
            }
            Stage::Detaching if self.unpersisted == 0 => self.enter(Stage::Detached, out),
            Stage::Flushing if self.unpersisted == 0 => self.finalize(now, out),
            _ => {}
        }
    }

    fn end(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        let may_have_missed = self.job.status == JobStatus::Running && !self.up_to_date;
        if may_have_missed && !self.targets.all_returned() {
            return self.enter(Stage::Checking, out);
        }
        self.flush(now, out);
    }

    fn flush(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        let unfinished = !self.targets.all_returned() || self.targets.any_canceled();
        self.cut_short = self.canceled.is_some() && unfinished;
        self.enter(Stage::Flushing, out);
        self.settle(now, out);
    }

    fn finalize(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        let tally = self.targets.tally(self.cut_short);
        self.job.status = status::conclude(tally);
        self.job.return_count = tally.returned;
        self.job.success_count = tally.succeeded;
        self.job.missing = self.targets.missing();
        self.job.updated = now;
        if let Some(by) = self.canceled.as_ref().filter(|_| self.cut_short) {
            self.job.reason = format!("canceled by {by}");
        }
        self.enter(Stage::Finalizing, out);
    }
}
