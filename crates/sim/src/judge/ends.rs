//! How jobs end: J-5, J-10, J-19.

use super::evidence::{Evidence, JobEvidence, boot_of};
use super::{CLOCKS_APART, Invariant, Violation, Violations};
use std::time::Duration;
use zester_jobs::status::{Tally, conclude};
use zester_wire::{Cause, Jid, JobStatus, Missing, PeelId, Return};

/// When nothing is wrong, an owner that is there ends its job this soon after the deadline.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// A peel that was there for so long has a heartbeat that every master knows.
const HEARTBEAT_KNOWN: Duration = Duration::from_secs(35);

impl Evidence {
    /// False where the rest makes no sense because the job has not ended.
    pub(super) fn check_end(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) -> bool {
        let Some(last) = job.versions.last() else { return false };
        let status = last.record.status;
        if !status.is_terminal() {
            if self.is_claim_of_the_dead(job) {
                return false;
            }
            let what = format!("{jid} is {}", status.as_str());
            violations.push(Violation::new(Invariant::EveryJobEnds, what));
            return false;
        }
        if job.active {
            violations.push(Violation::new(Invariant::ActiveKeyGoes, jid.to_string()));
        }
        if job.finalized != 1 {
            let what = format!("{jid} has {}", job.finalized);
            violations.push(Violation::new(Invariant::OneFinalizedEvent, what));
        }
        self.check_deadline(jid, job, violations);
        self.check_status(jid, job, violations);
        self.check_missing(jid, job, violations);
        true
    }

    /// A claim that reached the server long after whoever sent it was gone, and after the last look for such: it never runs, and
    /// its client was not told that it would.
    fn is_claim_of_the_dead(&self, job: &JobEvidence) -> bool {
        let [only] = job.versions.as_slice() else { return false };
        let seen = self.environment.observed.lock();
        let alive = seen.was_there(boot_of(&only.record), only.at, only.at);
        only.record.status == JobStatus::Claimed
            && !job.active
            && !alive
            && !seen.accepted.contains_key(&only.record.jid)
            && seen.writes_came_late(only.at, only.at)
    }

    fn check_deadline(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let (Some(last), Some(end)) = (job.versions.last(), job.end()) else { return };
        // Not when the record was written: the server may have been away when the job began.
        let began = self.instant_of(last.record.created);
        let bound = self.instant_of(last.record.deadline()) + CLOCKS_APART + ENDED_WITHIN;
        // An adopter may have come too late to the job.
        let adopted = last.record.reclaim_count > 0;
        let excused = adopted || self.clocks_jumped() || !self.no_excuse(boot_of(&last.record), began, bound);
        if end.at > bound && !excused {
            let late = end.at.duration_since(bound).as_secs();
            let what = format!("{jid} ended {late} s too late although {} was there", last.record.owner);
            violations.push(Violation::new(Invariant::EndsByItsDeadline, what));
        }
    }

    /// The returns that the record was made of: those of its dispatch that were not late.
    pub(super) fn in_time<'a>(&self, job: &'a JobEvidence) -> Vec<&'a Return> {
        let Some(last) = job.versions.last() else { return Vec::new() };
        let ours = |ret: &&Return| {
            !ret.late
                && ret.dispatch_epoch == last.record.dispatch_epoch
                && last.record.targets.contains(&ret.peel)
        };
        job.stored.values().map(|(ret, _)| ret).filter(ours).collect()
    }

    fn check_status(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let Some(last) = job.versions.last() else { return };
        let record = &last.record;
        // Given up after too many owners: nothing was read any more.
        if record.reason.starts_with("given up") {
            return;
        }
        let in_time = self.in_time(job);
        let counted: Vec<&&Return> = in_time.iter().filter(|ret| ret.counts()).collect();
        let returned = counted.len() as u64;
        let succeeded = counted.iter().filter(|ret| ret.success).count() as u64;
        if (record.return_count, record.success_count) != (returned, succeeded) {
            let what = format!(
                "{jid}: the record says {} returned and {} succeeded, stored are {returned} and {succeeded}",
                record.return_count, record.success_count
            );
            violations.push(Violation::new(Invariant::CountsFollowReturns, what));
        }
        let targets = record.targets.len() as u64;
        let cut_short = record.status == JobStatus::Canceled;
        let concluded = conclude(Tally { targets, returned, succeeded, cut_short });
        // A claim that nobody waits for any more fails, and its reason says so.
        let ran = self.environment.observed.lock().sent_work.keys().any(|(of, _)| of == jid);
        let never_ran = !ran && record.status == JobStatus::Failed && !record.reason.is_empty();
        let asked = self.environment.observed.lock().asked_to_kill.contains(jid);
        let canceled_for_a_reason = !cut_short || asked;
        if (concluded != record.status && !never_ran) || !canceled_for_a_reason {
            let what = format!(
                "{jid} is {}, and {returned} of {targets} returned, {succeeded} well; canceled: {}",
                record.status.as_str(),
                job.canceled_at.is_some()
            );
            violations.push(Violation::new(Invariant::StatusFollowsReturns, what));
        }
    }

    /// Whether a target, and whoever ended the job, gave no excuse from before it ran until it was over.
    fn was_here(&self, peel: &PeelId, job: &JobEvidence) -> bool {
        let (Some(first), Some(end)) = (job.versions.first(), job.end()) else { return false };
        let Some(from) = first.at.checked_sub(HEARTBEAT_KNOWN) else { return false };
        let owner = boot_of(&end.record);
        self.no_excuse(peel.as_str(), from, end.at) && self.no_excuse(owner, from, end.at)
    }

    /// Who is missing, and why.
    fn check_missing(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let (Some(last), Some(end)) = (job.versions.last(), job.end()) else { return };
        if last.record.reason.starts_with("given up") {
            return;
        }
        let (in_time, deadline) = (self.in_time(job), self.instant_of(last.record.deadline()));
        // An ack reaches the owner also when the stream had no room for it; and what was taken on may wait for its turn.
        let took = |peel: &PeelId| self.disks.get(peel.as_str()).is_some_and(|disk| disk.ever_had(jid));
        let mut wrong = |peel: &PeelId, what: &str| {
            let what = format!("{jid}: {peel} {what}");
            violations.push(Violation::new(Invariant::MissingReasonIsTrue, what));
        };
        for peel in &last.record.targets {
            let ret = in_time.iter().find(|ret| ret.peel == *peel);
            let usable = ret.is_some_and(|ret| ret.counts() && ret.cause != Cause::Interrupted);
            // A cancel decides the end, and so does the deadline; what comes after may find it decided and not yet written.
            let acked = |(ack, at): &(zester_wire::Ack, _)| {
                ack.peel == *peel
                    && ack.dispatch_epoch == last.record.dispatch_epoch
                    && *at + super::END_TAKES < end.at
                    && *at + CLOCKS_APART < deadline
                    && job.canceled_at.is_none_or(|canceled| *at < canceled)
            };
            let acked = job.acks.iter().any(acked);
            match (last.record.missing.get(peel), usable) {
                (None, false) => wrong(peel, "has no usable return and is not called missing"),
                (Some(_), true) => wrong(peel, "has a usable return and is called missing"),
                (Some(Missing::NeverAcked), false) if acked => {
                    wrong(peel, "acked, and is called never acked")
                }
                (Some(Missing::Unreachable), false) if self.was_here(peel, job) => {
                    wrong(peel, "was there all the time, and is called unreachable");
                }
                (Some(Missing::Interrupted), false)
                    if !ret.is_some_and(|ret| ret.cause == Cause::Interrupted) =>
                {
                    wrong(peel, "is called interrupted, and no such return is stored");
                }
                (Some(Missing::Running), false)
                    if ret.is_none() && !job.acks.iter().any(|(ack, _)| ack.peel == *peel) && !took(peel) =>
                {
                    wrong(peel, "is called running, and neither acked nor took it on");
                }
                _ => {}
            }
        }
    }
}
