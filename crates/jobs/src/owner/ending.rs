//! How a job ends: by its returns, by a cancel, by a stop of its master, or without ever having run.

use super::{End, Owner, Stage};
use crate::command::{CancelEffect, Command};
use crate::limits::CANCELED_BY_MAX;
use crate::status;
use zester_wire::{Job, JobStatus, Refusal, RefusalKind, UnixMillis};

/// The reason of a job that nobody was asked to do begins so.
const NEVER_RAN: &str = "it never ran";
const UNRECORDED: &str = "it could not be recorded in the time that whoever asked for it waited";

/// Whether the record says that the job is over and nobody was ever asked to do it.
pub fn never_ran(job: &Job) -> bool {
    job.status == JobStatus::Failed && job.reason.starts_with(NEVER_RAN)
}

impl Owner {
    /// Takes a cancel that the stream has, and says what is true then (J-11).
    pub(super) fn cancel(&mut self, by: String, now: UnixMillis, out: &mut Vec<Command>) {
        let effect = match self.stage {
            stage if stage.is_written() => CancelEffect::Over,
            // Nothing is left to stop.
            Stage::Flushing(End::Ran { .. }) if self.canceled.is_none() && self.targets.all_returned() => {
                CancelEffect::Ending
            }
            Stage::Flushing(End::NotSent { .. } | End::NeverRan | End::GivenUp)
                if self.canceled.is_none() =>
            {
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
            // Its end was under way and no try was made to write it: another master may have said that it stops.
            Stage::Flushing(End::Ran { .. }) => {
                self.stage = Stage::Flushing(End::Ran { cut_short: self.is_cut_short() });
            }
            // The step that is open is answered first; what follows, or who adopts the job, sees the cancel.
            _ => {}
        }
    }

    /// A stop of the master leaves the job to the next (J-12), except where nothing is left to wait for.
    pub(super) fn detach(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Checking | Stage::Flushing(_) => self.stopping = true,
            Stage::Finalizing(_) | Stage::Reporting => {}
            Stage::Withdrawing { .. } | Stage::Purging | Stage::Done | Stage::Detaching { .. } => {}
            stage => {
                let answer_due = stage.reads_history() && self.retry_at.is_none();
                self.stage = Stage::Detaching { answer_due, informed: stage == Stage::Watching };
                self.retry_at = None;
                self.advance(now, false, out);
            }
        }
    }

    /// Goes on as far as it can with what is known. `up_to_date`: the stream was read this very moment.
    pub(super) fn advance(&mut self, now: UnixMillis, up_to_date: bool, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Watching => {
                self.targets.give_up_absent(now);
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
            Stage::Flushing(End::Ran { .. }) if self.unpersisted == 0 && self.is_to_go_on(now) => {
                self.watch_again(now, out);
            }
            Stage::Flushing(end) if self.unpersisted == 0 => self.finalize(end, now, out),
            _ => {}
        }
    }

    /// Ends a job that ran. What the stream kept and did not reach this master is looked for first.
    pub(super) fn end(&mut self, now: UnixMillis, up_to_date: bool, out: &mut Vec<Command>) {
        if !up_to_date && !self.targets.all_returned() {
            return self.enter(Stage::Checking, out);
        }
        self.flush(End::Ran { cut_short: self.is_cut_short() }, now, out);
    }

    /// Canceled before all had returned.
    pub(super) fn is_cut_short(&self) -> bool {
        self.canceled.is_some() && (!self.targets.all_returned() || self.targets.any_canceled())
    }

    /// Ends a job that nobody was sent. Its record says at most `running`, and no request followed.
    pub(super) fn end_unsent(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.job.status = JobStatus::Claimed;
        if self.canceled.is_none() && now >= self.job.deadline() && !self.recalled {
            // Somebody may have been told that it stops, while this master could not hear of it.
            return self.enter(Stage::Recalling, out);
        }
        if !self.marked {
            return self.enter(Stage::Marking, out);
        }
        // A reaction must know that nothing came of it.
        let never_ran = now < self.job.deadline() || self.job.jid.is_reaction();
        let end = match self.canceled.is_none() && never_ran {
            true => End::NeverRan,
            false => End::NotSent { cut_short: self.canceled.is_some() },
        };
        self.flush(end, now, out);
    }

    /// Takes the place of a claim that may have been written.
    pub(super) fn withdraw(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.job.status = JobStatus::Failed;
        self.job.reason = format!("{NEVER_RAN}: {UNRECORDED}");
        self.job.missing = self.targets.missing();
        self.job.updated = now;
        self.enter(Stage::Withdrawing { marked: false }, out);
    }

    pub(super) fn flush(&mut self, end: End, now: UnixMillis, out: &mut Vec<Command>) {
        self.enter(Stage::Flushing(end), out);
        self.advance(now, false, out);
    }

    pub(super) fn finalize(&mut self, end: End, now: UnixMillis, out: &mut Vec<Command>) {
        let cut_short = matches!(end, End::Ran { cut_short: true } | End::NotSent { cut_short: true });
        let tally = self.targets.tally(cut_short);
        self.job.status = status::conclude(tally);
        self.job.return_count = tally.returned;
        self.job.success_count = tally.succeeded;
        self.job.missing = self.targets.missing();
        self.job.updated = now;
        if let Some(by) = self.canceled.as_ref().filter(|_| cut_short) {
            // A stranger chose the name, and the record must not grow too large to be written.
            let by: String = by.chars().take(CANCELED_BY_MAX).collect();
            self.job.reason = format!("canceled by {by}");
        }
        if end == End::NeverRan {
            self.job.status = JobStatus::Failed;
            self.job.reason = format!("{NEVER_RAN}: {UNRECORDED}");
        }
        self.enter(Stage::Finalizing(end), out);
    }

    /// The terminal status is written: whoever still waits is told.
    pub(super) fn has_ended(&mut self, end: End, out: &mut Vec<Command>) {
        match end {
            End::Ran { .. } => {}
            // A client looks how its job ended; a rule would take it for done.
            End::GivenUp if self.job.jid.is_reaction() && never_ran(&self.job) => {
                out.push(Command::Refuse(Refusal::new(RefusalKind::NeverRan, self.job.reason.clone())));
            }
            End::NotSent { .. } | End::GivenUp => out.push(Command::Accept),
            End::NeverRan => {
                out.push(Command::Refuse(Refusal::new(RefusalKind::NeverRan, self.job.reason.clone())));
            }
        }
        out.push(Command::PublishStatus);
        self.enter(Stage::Reporting, out);
    }

    /// Ends a job that nobody can go on with.
    pub(super) fn give_up(&mut self, why: &str, now: UnixMillis, out: &mut Vec<Command>) {
        self.job.reason = match self.job.jid.is_reaction() && self.job.status != JobStatus::Running {
            true => format!("{NEVER_RAN} and is given up: {why}"),
            false => format!("given up: {why}"),
        };
        self.job.status = JobStatus::Failed;
        self.job.updated = now;
        self.enter(Stage::Finalizing(End::GivenUp), out);
    }

    /// It changed owners too often (J-13).
    pub(super) fn is_given_up(&self) -> bool {
        self.job.reclaim_count > self.timing.reclaims_max
    }
}
