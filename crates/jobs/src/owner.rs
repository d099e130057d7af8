//! One job at the master that owns it.
//!
//! ```text
//! dispatch: new -> claiming -> marking -> announcing -> starting -> watching
//! adopt:    new -> adopting -> loading -> replaying -> watching         (it was running)
//!           new -> adopting -> recalling -> marking -> …                (it was still claimed)
//! end:      watching -> checking -> flushing -> finalizing -> reporting -> purging -> done
//! too late: claiming -> withdrawing -> reporting -> …
//! ```
//!
//! The order of the first line is J-2: what is still `claimed` was never published. Its master listens to acks, returns and
//! cancels of all jobs before it begins one, so that replaying the stream once leaves no gap. Recalling asks
//! whether a claim that was left behind was canceled meanwhile. Checking is for a job that ends without
//! all returns: the stream is read once more, because a return that it kept may not have reached this master. Flushing
//! waits until every return that came is on disk, and only then the terminal status is written, by compare-and-set; whoever finds another owner there
//! writes nothing more. A step that fails is tried again after a pause; a lost answer is resolved by what the next try
//! finds.
//!
//! Until it is recorded as running a job may only begin while its client waits (J-28): later it is ended as never run. A claim
//! whose answer was lost may be there, or come yet; withdrawing writes a terminal record under the same key, by create or by
//! compare-and-set, so that whichever comes second finds the other.

mod stage;

use self::stage::Path;
pub use self::stage::{End, Stage};
use crate::command::{CancelEffect, Command, Event, Failed, History, Illegal, Note, Written};
use crate::status;
use crate::targets::Targets;
use crate::timing::Timing;
use std::collections::BTreeSet;
use std::time::Duration;
use zester_wire::{Job, JobStatus, MasterId, PeelId, Refusal, RefusalKind, Return, UnixMillis};

/// Why a job that was never sent ended.
const NEVER_RAN: &str = "it never ran: it could not be recorded in the time that its client waited";

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
    /// In whose name it was canceled.
    canceled: Option<String>,
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

    /// This master's own record that is still `claimed`, for a client that asks again (J-3) and waits until `claim_until`. Its
    /// time begins anew.
    pub fn resume(job: Job, revision: u64, claim_until: UnixMillis, timing: Timing) -> Owner {
        Owner::new(Path::Resume, Job { claim_until, ..job }, revision, timing)
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
            stage: Stage::New(path),
            targets: Targets::new(&job.targets),
            job,
            revision,
            timing,
            unpersisted: 0,
            canceled: None,
            retry_at: None,
            resend_at: None,
        }
    }

    /// The record as it was last written, or is being written.
    pub fn job(&self) -> &Job {
        &self.job
    }

    pub fn stage(&self) -> Stage {
        self.stage
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
            (Stage::New(path), Event::Begin { absent }) => self.begin(path, &absent, now, &mut out),
            // Whoever is gone lets the answers to what it asked, and everything else, pass by.
            (stage, event) if stage.is_gone() && !matches!(event, Event::Begin { .. }) => {}
            (Stage::Done, Event::Superseded) => {}
            (stage, Event::Superseded) if !matches!(stage, Stage::New(_)) => self.lose(&mut out),
            (stage, Event::Tick) if !matches!(stage, Stage::New(_)) => self.tick(now, &mut out),
            (
                Stage::Claiming { .. }
                | Stage::Withdrawing
                | Stage::Starting
                | Stage::Adopting
                | Stage::Finalizing(_),
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
            (Stage::Detaching { answer_due: true, informed }, Event::Loaded(_) | Event::Replayed(_)) => {
                self.stage = Stage::Detaching { answer_due: false, informed };
            }
            // Asked for before the last return came, which ended the job in the middle of a stop.
            (
                Stage::Flushing(_) | Stage::Finalizing(_) | Stage::Reporting | Stage::Purging | Stage::Done,
                Event::Loaded(_) | Event::Replayed(_),
            ) => {}
            (stage, Event::Ack { peel, dispatch_epoch }) if !matches!(stage, Stage::New(_)) => {
                self.acked(peel, dispatch_epoch, &mut out);
            }
            (stage, Event::Return(ret)) if !matches!(stage, Stage::New(_)) => {
                self.returned(*ret, now, &mut out);
            }
            (_, Event::Persisted { .. }) if self.unpersisted > 0 => {
                self.unpersisted -= 1;
                self.advance(now, false, &mut out);
            }
            (_, Event::PersistFailed { ret }) if self.unpersisted > 0 => {
                out.push(Command::Persist { ret, pause: self.timing.retry_pause });
            }
            (stage, Event::Connected { peel }) if !matches!(stage, Stage::New(_)) => {
                self.connected(peel, now, &mut out);
            }
            (stage, Event::Gone { peel }) if !matches!(stage, Stage::New(_)) => {
                self.targets.went(&peel, self.patience(), now);
            }
            (stage, Event::AskAgain) if !matches!(stage, Stage::New(_)) => self.ask_again(now, &mut out),
            (stage, Event::Cancel { by }) if !matches!(stage, Stage::New(_)) => {
                self.cancel(by, now, &mut out);
            }
            (stage, Event::Detach) if !matches!(stage, Stage::New(_)) => self.detach(now, &mut out),
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
                if self.is_too_late(now) {
                    let why = "the request came when its client no longer waited";
                    out.push(Command::Refuse(Refusal::new(RefusalKind::NeverRan, why)));
                    return self.enter(Stage::Lost, out);
                }
                self.enter(Stage::Claiming { unsure: false }, out);
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
                self.enter(Stage::Finalizing(End::GivenUp), out);
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
            Stage::Claiming { .. } | Stage::Withdrawing => {
                out.push(Command::CreateRecord(Box::new(self.job.clone())));
            }
            Stage::Starting | Stage::Adopting | Stage::Finalizing(_) => out.push(write()),
            Stage::Marking => out.push(Command::MarkActive),
            Stage::Announcing => out.push(Command::PublishDispatch),
            Stage::Loading => out.push(Command::LoadReturns),
            Stage::Recalling | Stage::Replaying | Stage::Checking => out.push(Command::Replay),
            Stage::Reporting => out.push(Command::EmitFinalized),
            Stage::Purging => out.push(Command::PurgeActive),
            Stage::Done | Stage::Detached | Stage::Lost => out.push(Command::Stop),
            Stage::New(_) | Stage::Watching | Stage::Detaching { .. } | Stage::Flushing(_) => {}
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
        match self.must_not_begin(now) {
            true => self.end_unsent(now, out),
            false => self.enter(stage, out),
        }
    }

    /// Whether a job that is not recorded as running must not get there any more.
    fn must_not_begin(&self, now: UnixMillis) -> bool {
        self.canceled.is_some() || now >= self.job.deadline() || self.is_too_late(now)
    }

    /// Whether the client no longer waits to hear that the job runs (J-28).
    fn is_too_late(&self, now: UnixMillis) -> bool {
        !self.job.claim_until.is_zero() && now >= self.job.claim_until
    }

    /// Ends a job that nobody was sent. Its record says at most `running`, and no request followed.
    fn end_unsent(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.job.status = JobStatus::Claimed;
        let end = match self.canceled.is_none() && now < self.job.deadline() {
            true => End::NeverRan,
            false => End::NotSent { cut_short: self.canceled.is_some() },
        };
        self.flush(end, now, out);
    }

    fn written(&mut self, written: Written, now: UnixMillis, out: &mut Vec<Command>) {
        match written {
            // Nothing was written, and nothing is left to find out: whoever asked hears it at once.
            Written::Refused(refusal) if self.stage == (Stage::Claiming { unsure: false }) => {
                out.push(Command::Refuse(refusal));
                self.enter(Stage::Lost, out);
            }
            Written::Failed if matches!(self.stage, Stage::Claiming { .. }) => {
                self.stage = Stage::Claiming { unsure: true };
                self.fail(now);
            }
            Written::Failed | Written::Refused(_) => self.fail(now),
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
            Stage::Claiming { .. } => self.go_on(Stage::Marking, now, out),
            Stage::Adopting if self.job.status == JobStatus::Claimed => self.enter(Stage::Recalling, out),
            Stage::Adopting => self.enter(Stage::Loading, out),
            Stage::Starting if self.must_not_begin(now) => self.end_unsent(now, out),
            Stage::Starting => {
                out.push(Command::Accept);
                self.enter(Stage::Watching, out);
                out.push(Command::PublishStatus);
                self.send_to_silent(now, out);
            }
            Stage::Withdrawing => self.has_ended(End::NeverRan, out),
            Stage::Finalizing(end) => self.has_ended(end, out),
            _ => {}
        }
    }

    /// The terminal status is written: whoever still waits is told.
    fn has_ended(&mut self, end: End, out: &mut Vec<Command>) {
        match end {
            End::Ran { .. } => {}
            End::NotSent { .. } | End::GivenUp => out.push(Command::Accept),
            End::NeverRan => {
                out.push(Command::Refuse(Refusal::new(RefusalKind::NeverRan, self.job.reason.clone())));
            }
        }
        out.push(Command::PublishStatus);
        self.enter(Stage::Reporting, out);
    }

    /// Somebody wrote in between: this master with an answer that was lost, or another that owns the job now.
    fn conflicted(&mut self, found: Job, revision: u64, now: UnixMillis, out: &mut Vec<Command>) {
        let mine = found.owner == self.job.owner && found.epoch == self.job.epoch;
        let claims = matches!(self.stage, Stage::Claiming { .. } | Stage::Withdrawing);
        if claims && !(mine && found.created == self.job.created) {
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
            match self.stage {
                Stage::Finalizing(end) => self.has_ended(end, out),
                _ => self.has_ended(End::NotSent { cut_short: false }, out),
            }
        } else if self.stage == Stage::Withdrawing {
            self.enter(Stage::Finalizing(End::NeverRan), out);
        } else {
            self.ask(out);
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
        out.push(Command::Accept);
        if self.canceled.is_some() {
            self.send_cancel(out);
        }
        self.advance(now, true, out);
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
        self.flush(End::Ran { cut_short: self.is_cut_short() }, now, out);
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
        self.advance(now, false, out);
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
        match self.stage {
            Stage::Claiming { .. } if self.must_not_begin(now) => self.withdraw(now, out),
            Stage::Recalling | Stage::Marking | Stage::Announcing | Stage::Starting
                if self.must_not_begin(now) =>
            {
                self.end_unsent(now, out);
            }
            // Returns may have come since the last look; the end that is written is of the latest.
            Stage::Finalizing(End::Ran { .. }) if !self.targets.all_returned() => {
                self.enter(Stage::Checking, out);
            }
            _ => self.ask(out),
        }
    }

    /// Takes the place of a claim that may have been written.
    fn withdraw(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.job.status = JobStatus::Failed;
        self.job.reason = NEVER_RAN.into();
        self.job.missing = self.targets.missing();
        self.job.updated = now;
        self.enter(Stage::Withdrawing, out);
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
        self.advance(now, false, out);
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

    /// Takes a cancel that the stream has, and says what is true then (J-11).
    fn cancel(&mut self, by: String, now: UnixMillis, out: &mut Vec<Command>) {
        let effect = match self.stage {
            stage if stage.is_written() => CancelEffect::Over,
            // Its end is under way. Whoever still works is told to stop all the same.
            Stage::Checking | Stage::Flushing(_) if self.canceled.is_none() => {
                self.send_cancel(out);
                CancelEffect::Ending
            }
            stage if stage.is_over() && self.canceled.is_none() => CancelEffect::Ending,
            _ => CancelEffect::Stopping { peels: self.targets.without_return().len() },
        };
        out.push(Command::CancelTaken(effect));
        if self.canceled.is_some() || !matches!(effect, CancelEffect::Stopping { .. }) {
            return;
        }
        self.canceled = Some(by);
        if self.stage.is_out() {
            self.send_cancel(out);
        }
        match self.stage {
            Stage::Watching | Stage::Detaching { informed: true, .. } => self.end(now, false, out),
            // The step that is open is answered first; what follows, or who adopts the job, sees the cancel.
            _ => {}
        }
    }

    /// A stop of the master leaves the job to the next (J-12), except where nothing is left to wait for.
    fn detach(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Checking | Stage::Flushing(_) | Stage::Finalizing(_) | Stage::Reporting => {}
            Stage::Withdrawing | Stage::Purging | Stage::Done | Stage::Detaching { .. } => {}
            stage => {
                let answer_due = stage.reads_history() && self.retry_at.is_none();
                self.stage = Stage::Detaching { answer_due, informed: stage == Stage::Watching };
                self.retry_at = None;
                self.advance(now, false, out);
            }
        }
    }

    /// Goes on as far as it can with what is known. `up_to_date`: the stream was read this very moment.
    fn advance(&mut self, now: UnixMillis, up_to_date: bool, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Watching => {
                self.targets.give_up_absent(self.patience(), now);
                let over = self.canceled.is_some() || now >= self.job.deadline() || self.targets.is_settled();
                if over {
                    self.end(now, up_to_date, out);
                }
            }
            Stage::Detaching { .. }
                if self.job.status == JobStatus::Running && self.targets.all_returned() =>
            {
                self.end(now, up_to_date, out);
            }
            Stage::Detaching { .. } if self.unpersisted == 0 => self.enter(Stage::Detached, out),
            Stage::Flushing(end) if self.unpersisted == 0 => self.finalize(end, now, out),
            _ => {}
        }
    }

    /// Ends a job that ran. What the stream kept and did not reach this master is looked for first.
    fn end(&mut self, now: UnixMillis, up_to_date: bool, out: &mut Vec<Command>) {
        if !up_to_date && !self.targets.all_returned() {
            return self.enter(Stage::Checking, out);
        }
        self.flush(End::Ran { cut_short: self.is_cut_short() }, now, out);
    }

    /// Canceled before all had returned.
    fn is_cut_short(&self) -> bool {
        self.canceled.is_some() && (!self.targets.all_returned() || self.targets.any_canceled())
    }

    fn flush(&mut self, end: End, now: UnixMillis, out: &mut Vec<Command>) {
        self.enter(Stage::Flushing(end), out);
        self.advance(now, false, out);
    }

    fn finalize(&mut self, end: End, now: UnixMillis, out: &mut Vec<Command>) {
        let cut_short = matches!(end, End::Ran { cut_short: true } | End::NotSent { cut_short: true });
        let tally = self.targets.tally(cut_short);
        self.job.status = status::conclude(tally);
        self.job.return_count = tally.returned;
        self.job.success_count = tally.succeeded;
        self.job.missing = self.targets.missing();
        self.job.updated = now;
        if let Some(by) = self.canceled.as_ref().filter(|_| cut_short) {
            self.job.reason = format!("canceled by {by}");
        }
        if end == End::NeverRan {
            self.job.status = JobStatus::Failed;
            self.job.reason = NEVER_RAN.into();
        }
        self.enter(Stage::Finalizing(end), out);
    }
}
