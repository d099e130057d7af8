//! Whom `zester job retry` asks again (J-18). Nothing is ever retried by itself.

use std::collections::BTreeMap;
use zester_wire::{Job, Missing, PeelId, Refusal, RefusalKind, RetryPart, Return};

/// Refuses a job that is not over: whoever works on it would do everything twice.
pub fn may_retry(job: &Job) -> Result<(), Refusal> {
    if job.status.is_terminal() {
        return Ok(());
    }
    let message = format!("job {} is still {}", job.jid, job.status.as_str());
    let hint = format!("kill it with `zester job kill {}`, or wait for its end", job.jid);
    Err(Refusal { hint, ..Refusal::new(RefusalKind::Conflict, message) })
}

/// The targets of a new job with the same work, in the order of the old. Each target has either returned in time or is missing;
/// of the missing only those are left out that came back with success after all. Returns are kept in a store of their own, which
/// may have lost the oldest: who is not missing by the record has returned, whether or not its return is still there.
pub fn targets(job: &Job, returns: &BTreeMap<PeelId, Return>, part: RetryPart) -> Vec<PeelId> {
    let is_told = tells_of_all(job);
    let wanted = |peel: &&PeelId| {
        let ret = returns.get(*peel);
        // An interrupted one has returned: that it was interrupted.
        let named = job.missing.get(*peel).is_some_and(|why| *why != Missing::Interrupted);
        let settled = match ret {
            Some(ret) => ret.success || (ret.settles() && !named),
            None => is_told && !job.missing.contains_key(*peel),
        };
        match part {
            RetryPart::All => true,
            RetryPart::Missing => !settled,
            RetryPart::Failed => settled && ret.is_some_and(|ret| !ret.success),
            // A part that this release does not know is no reason to repeat everything.
            RetryPart::Unknown => false,
        }
    };
    job.targets.iter().filter(wanted).cloned().collect()
}

/// How many have returned what is not kept any more.
pub fn forgotten(job: &Job, returns: &BTreeMap<PeelId, Return>) -> usize {
    let lost = |peel: &&PeelId| !returns.contains_key(*peel) && !job.missing.contains_key(*peel);
    if tells_of_all(job) { job.targets.iter().filter(lost).count() } else { 0 }
}

/// Whether the record accounts for each target: it returned, or it is named as missing. An interrupted one is both.
fn tells_of_all(job: &Job) -> bool {
    let absent = job.missing.values().filter(|why| **why != Missing::Interrupted).count() as u64;
    job.return_count + absent == job.target_count()
}
