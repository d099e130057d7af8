//! Whom `zester job retry` asks again (J-18). Nothing is ever retried by itself.

use std::collections::BTreeMap;
use zester_wire::{Job, PeelId, RetryPart, Return};

/// The targets of a new job with the same work, in the order of the old.
pub fn targets(job: &Job, returns: &BTreeMap<PeelId, Return>, part: RetryPart) -> Vec<PeelId> {
    let wanted = |peel: &&PeelId| {
        let ret = returns.get(*peel);
        let missing = ret.is_none_or(|ret| !ret.counts());
        match part {
            RetryPart::All => true,
            RetryPart::Missing => missing,
            RetryPart::Failed => !missing && ret.is_some_and(|ret| !ret.success),
            // A part that this release does not know is no reason to repeat everything.
            RetryPart::Unknown => false,
        }
    };
    job.targets.iter().filter(wanted).cloned().collect()
}
