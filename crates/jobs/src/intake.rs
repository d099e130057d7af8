//! What to do with a jid that is there already (J-3), and with a wish to cancel (J-11).

use zester_wire::{DispatchRequest, Job, JobStatus, MasterId, Refusal, RefusalKind};

/// What a record that exists means for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Our own claim that was never published: [`crate::Owner::resume`].
    Resume,
    /// Its owner is dead: [`crate::Owner::adopt`], and tell the client its jid when that owner says so.
    Adopt,
    /// Nothing new: tell the client its jid.
    Same,
    Refuse(Refusal),
}

/// Judges by the record, who we are and whether its owner is known to be dead.
pub fn judge(existing: &Job, request: &DispatchRequest, me: &MasterId, owner_is_dead: bool) -> Verdict {
    let refuse = |kind, message: &str| Verdict::Refuse(Refusal::new(kind, message));
    if !request.is_intent_of(existing) {
        return refuse(RefusalKind::Conflict, "this job id is taken by another job");
    }
    match existing.status {
        JobStatus::Pending | JobStatus::Claimed if existing.owner == *me => Verdict::Resume,
        // A claim without `active.<jid>` is found by no scan; the client that asks again is what finds it.
        JobStatus::Pending | JobStatus::Claimed | JobStatus::Running if owner_is_dead => Verdict::Adopt,
        JobStatus::Pending | JobStatus::Claimed => {
            refuse(RefusalKind::ClaimPending, "claim pending: another master is about to dispatch this job")
        }
        JobStatus::Running
        | JobStatus::Complete
        | JobStatus::Failed
        | JobStatus::Partial
        | JobStatus::Timeout
        | JobStatus::Canceled
        | JobStatus::Unknown => Verdict::Same,
    }
}

/// Whether there is something to cancel: any master may then publish the cancel, and the owner will see it.
pub fn may_cancel(job: &Job) -> Result<(), Refusal> {
    if job.status.is_terminal() {
        let message = format!("the job is over: {}", job.status.as_str());
        return Err(Refusal::new(RefusalKind::AlreadyOver, message));
    }
    Ok(())
}
