//! Writing the record, and what its answers mean: until it says `running`, a job may only begin while its client waits.

use super::{End, Owner, Stage};
use crate::command::{Command, Note, Written};
use crate::limits::REACTION_BEGINS_WITHIN;
use zester_wire::{Job, JobStatus, MasterId, UnixMillis};

impl Owner {
    /// The next step of a dispatch, unless the job must end before it went out.
    pub(super) fn go_on(&mut self, stage: Stage, now: UnixMillis, out: &mut Vec<Command>) {
        match self.must_not_begin(now) {
            true => self.end_unsent(now, out),
            false => {
                self.recalled = false;
                self.enter(stage, out);
            }
        }
    }

    /// Whether a job that is not recorded as running must not get there any more.
    pub(super) fn must_not_begin(&self, now: UnixMillis) -> bool {
        self.canceled.is_some() || self.is_out_of_time(now) || self.is_too_late(now)
    }

    /// Whether its time is over before it went out. That of a reaction begins when it goes out: nobody else asks for it again, and
    /// its id is used up when it ends. An event so old is not reacted to either.
    fn is_out_of_time(&self, now: UnixMillis) -> bool {
        let may_wait = self.job.jid.is_reaction() && now.since(self.job.created) < REACTION_BEGINS_WITHIN;
        now >= self.job.deadline() && !may_wait
    }

    /// The time of a reaction begins.
    pub(super) fn begin_time(&mut self, now: UnixMillis) {
        if self.job.jid.is_reaction() && !self.must_not_begin(now) {
            self.job.deadline = now.plus(self.job.timeout());
        }
    }

    /// Whether the client no longer waits to hear that the job runs (J-28).
    pub(super) fn is_too_late(&self, now: UnixMillis) -> bool {
        !self.job.claim_until.is_zero() && now >= self.job.claim_until
    }

    pub(super) fn written(&mut self, written: Written, now: UnixMillis, out: &mut Vec<Command>) {
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

    pub(super) fn has_written(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        match self.stage {
            Stage::Claiming { .. } => self.go_on(Stage::Marking, now, out),
            Stage::Adopting if self.job.status == JobStatus::Claimed => self.enter(Stage::Recalling, out),
            Stage::Adopting => self.enter(Stage::Loading, out),
            Stage::Starting if self.must_not_begin(now) => self.end_unsent(now, out),
            // It took longer to say so than it may run. Nothing was sent.
            Stage::Starting if now >= self.job.deadline() => {
                self.begin_time(now);
                self.ask(out);
            }
            Stage::Starting => {
                out.push(Command::Accept);
                self.enter(Stage::Watching, out);
                out.push(Command::PublishStatus);
                self.send_to_silent(now, out);
            }
            Stage::Withdrawing { .. } => self.has_ended(End::NeverRan, out),
            Stage::Finalizing(end) => self.has_ended(end, out),
            _ => {}
        }
    }

    /// Somebody wrote in between: this master with an answer that was lost, or another that owns the job now.
    pub(super) fn conflicted(&mut self, found: Job, revision: u64, now: UnixMillis, out: &mut Vec<Command>) {
        let mine = found.owner == self.job.owner && found.epoch == self.job.epoch;
        let claims = matches!(self.stage, Stage::Claiming { .. } | Stage::Withdrawing { .. });
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
        } else if matches!(self.stage, Stage::Withdrawing { .. }) {
            self.enter(Stage::Finalizing(End::NeverRan), out);
        } else {
            self.ask(out);
        }
    }

    /// Whether a record of that owner and epoch takes the job from this master (J-10). An adopter is ahead of the record until
    /// it has written; of a claim only its own write tells whose the jid is.
    pub(super) fn is_superseded_by(&self, owner: &MasterId, epoch: u64) -> bool {
        let claims = matches!(self.stage, Stage::Claiming { .. } | Stage::Withdrawing { .. } | Stage::Done);
        let later = epoch > self.job.epoch || (epoch == self.job.epoch && *owner != self.job.owner);
        later && !claims
    }

    pub(super) fn lose(&mut self, out: &mut Vec<Command>) {
        out.push(Command::Note(Note::Superseded));
        self.enter(Stage::Lost, out);
    }
}
