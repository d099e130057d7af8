//! No return is lost: J-9.

use super::evidence::{Evidence, JobEvidence, boot_of};
use super::{CLOCKS_APART, END_TAKES, Invariant, Violation, Violations};
use zester_wire::{Cause, Jid};

impl Evidence {
    /// What the stream kept stands in the bucket of returns at the end, in time or late.
    pub(super) fn check_returns(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let (Some(last), Some(end)) = (job.versions.last(), job.end()) else { return };
        let record = &last.record;
        for (ret, at) in &job.returned {
            let ours = record.targets.contains(&ret.peel) && ret.dispatch_epoch == record.dispatch_epoch;
            if !ours {
                continue;
            }
            if !job.stored.contains_key(&ret.peel) {
                let what = format!("{jid}: the return of {} was kept, and nobody stored it", ret.peel);
                violations.push(Violation::new(Invariant::NoReturnLost, what));
            }
            let deadline = self.instant_of(record.deadline()) - CLOCKS_APART;
            let in_time = *at + END_TAKES < end.at && *at < deadline && !self.clocks_jumped();
            let usable = ret.counts() && ret.cause != Cause::Interrupted;
            let overlooked = in_time && usable && record.missing.contains_key(&ret.peel);
            if overlooked && self.no_excuse(boot_of(record), *at, end.at) {
                let what = format!("{jid}: {} returned in time, and the record calls it missing", ret.peel);
                violations.push(Violation::new(Invariant::NoReturnOverlooked, what));
            }
        }
        for (peel, (ret, at)) in &job.stored {
            if !ret.late && *at > end.at {
                let what = format!("{jid}: the return of {peel} was stored after the end and is not late");
                violations.push(Violation::new(Invariant::LateReturnsAreMarked, what));
            }
        }
    }
}
