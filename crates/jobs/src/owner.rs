//! One job at the master that owns it.
//!
//! ```text
//! dispatch: new -> claiming -> marking -> announcing -> starting -> watching
//! adopt:    new -> adopting -> loading -> replaying -> watching         (it was running)
//!           new -> adopting -> recalling -> marking -> …                (it was still claimed)
//! end:      watching -> checking -> flushing -> finalizing -> reporting -> purging -> done
//!           checking, flushing -> watching                              (somebody who was given up is there)
//! too late: claiming -> withdrawing -> reporting -> …
//! ```
//!
//! The order of the first line is J-2: what is still `claimed` was never published. Its master listens to acks, returns and
//! cancels of all jobs before it begins one, so that replaying the stream once leaves no gap. Recalling asks
//! whether a claim that was left behind, or whose time is over, was canceled meanwhile. Checking is for a job that ends without
//! all returns: the stream is read once more, because a return that it kept may not have reached this master. Flushing
//! waits until every return that came is on disk, and only then the terminal status is written, by compare-and-set; whoever finds another owner there
//! writes nothing more. A step that fails is tried again after a pause; a lost answer is resolved by what the next try
//! finds. An end stays as it was first tried. A return that came meanwhile is stored as late, and an adopter, who finds the job
//! running, stores it again as in time.
//!
//! Every end is marked active before it is written, so that the next owner reports it if this one dies (J-19).
//!
//! Until it is recorded as running a job may only begin while its client waits (J-28): later it is ended as never run. A claim
//! whose answer was lost may be there, or come yet; withdrawing writes a terminal record under the same key, by create or by
//! compare-and-set, so that whichever comes second finds the other.

mod ending;
mod record;
mod stage;
mod watching;

pub use self::ending::never_ran;
use self::stage::Path;
pub use self::stage::{End, Stage};
use crate::command::{Command, Event, Failed, Illegal};

use crate::targets::Targets;
use crate::timing::Timing;
use std::collections::BTreeSet;

use zester_wire::{Job, JobStatus, MasterId, PeelId, Refusal, RefusalKind, UnixMillis};

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
    /// `active.<jid>` is there: whatever happens to this master, somebody brings the job to its end.
    marked: bool,
    /// In whose name it was canceled.
    canceled: Option<String>,
    /// The stream was asked whether it was canceled, since the job last went on.
    recalled: bool,
    /// When the step that failed is tried again.
    retry_at: Option<UnixMillis>,
    /// When silent targets are asked once more (J-6).
    resend_at: Option<UnixMillis>,
    /// The master stops, and was told so while the job seemed to end (J-12).
    stopping: bool,
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
            targets: Targets::new(&job.targets, &timing),
            // A record that says so was marked before.
            marked: path == Path::Adopt && job.status == JobStatus::Running,
            job,
            revision,
            timing,
            unpersisted: 0,
            canceled: None,
            recalled: false,
            retry_at: None,
            resend_at: None,
            stopping: false,
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
            (stage, Event::OwnedBy { owner, epoch }) if !matches!(stage, Stage::New(_)) => {
                if self.is_superseded_by(&owner, epoch) {
                    self.lose(&mut out);
                }
            }
            (stage, Event::Tick) if !matches!(stage, Stage::New(_)) => self.tick(now, &mut out),
            (
                Stage::Claiming { .. }
                | Stage::Withdrawing { marked: true }
                | Stage::Starting
                | Stage::Adopting
                | Stage::Finalizing(_),
                Event::Record(written),
            ) => self.written(written, now, &mut out),
            (Stage::Marking | Stage::Withdrawing { marked: false }, Event::Marked(result)) => {
                self.answered(result, now, &mut out);
            }
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
            (stage, Event::Gone { peel, stopped }) if !matches!(stage, Stage::New(_)) => {
                self.targets.went(&peel, stopped, now);
            }
            (_, Event::Hearing(hears)) => self.targets.set_hearing(hears, now),
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
                    // Nothing is recorded, and another master may have been asked before.
                    out.push(Command::Refuse(Refusal::new(RefusalKind::Unavailable, why)));
                    return self.enter(Stage::Lost, out);
                }
                self.enter(Stage::Claiming { unsure: false }, out);
            }
            // Its owner died between the terminal status and the purge.
            Path::Adopt if self.job.status.is_terminal() => self.enter(Stage::Reporting, out),
            // Whom it was for cannot be told any more, and nobody ever will.
            Path::Resume | Path::Adopt if !self.job.has_targets() => {
                self.give_up("the names of its targets are not kept any more", now, out);
            }
            Path::Resume => {
                self.job.deadline = now.plus(self.job.timeout());
                self.enter(Stage::Recalling, out);
            }
            Path::Adopt if self.is_given_up() => {
                // Written at once, before anything is read: what killed so many owners must not kill the next.
                let why = format!("its owner was lost more than {} times", self.timing.reclaims_max);
                self.give_up(&why, now, out);
            }
            Path::Adopt => {
                self.job.updated = now;
                // By the clock of another master: where the two disagree, nobody gets more than the whole time.
                self.job.deadline = self.job.deadline().min(now.plus(self.job.timeout()));
                self.enter(Stage::Adopting, out);
            }
        }
    }

    /// What a stage asks for when it begins, and again after a failure.
    fn ask(&self, out: &mut Vec<Command>) {
        let write = || Command::WriteRecord { job: Box::new(self.job.clone()), revision: self.revision };
        match self.stage {
            Stage::Claiming { .. } | Stage::Withdrawing { marked: true } => {
                out.push(Command::CreateRecord(Box::new(self.job.clone())));
            }
            Stage::Starting | Stage::Adopting | Stage::Finalizing(_) => out.push(write()),
            Stage::Marking | Stage::Withdrawing { marked: false } => out.push(Command::MarkActive),
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
            Stage::Marking => {
                self.marked = true;
                self.go_on(Stage::Announcing, now, out);
            }
            Stage::Withdrawing { .. } => self.enter(Stage::Withdrawing { marked: true }, out),
            Stage::Announcing => {
                self.job.status = JobStatus::Running;
                self.job.updated = now;
                self.begin_time(now);
                self.go_on(Stage::Starting, now, out);
            }
            Stage::Reporting => self.enter(Stage::Purging, out),
            Stage::Purging => self.enter(Stage::Done, out),
            _ => {}
        }
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

    fn retry(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.retry_at = None;
        match self.stage {
            Stage::Claiming { .. } if self.must_not_begin(now) => self.withdraw(now, out),
            Stage::Recalling | Stage::Marking | Stage::Announcing | Stage::Starting
                if self.must_not_begin(now) =>
            {
                self.end_unsent(now, out);
            }
            // A mark without a record is taken away after a while.
            Stage::Withdrawing { .. } => self.enter(Stage::Withdrawing { marked: false }, out),
            // The very same write, also of an end: the first try may have got through, or may yet, so what came since is late.
            _ => self.ask(out),
        }
    }
}
