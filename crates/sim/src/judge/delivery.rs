//! Work reaches its targets and is done once: J-5, J-6, J-7, J-22.

use super::evidence::{Evidence, JobEvidence, boot_of};
use super::{CLOCKS_APART, HEARD_WITHIN, Invariant, Violation, Violations};
use crate::disk::Disk;
use std::collections::BTreeMap;
use std::time::Duration;
use zester_jobs::dedup::Dispatch;
use zester_wire::{Jid, JobStatus, Return};

/// What a peel may take beyond its budget: the grace of J-5, and what its work needs to stop.
const STOP_TAKES: Duration = Duration::from_secs(1);

impl Evidence {
    /// Nothing runs twice, nothing runs for ever, and whatever ran has a return.
    pub(super) fn check_executions(&self, violations: &mut Violations) {
        let seen = self.environment.observed.lock();
        let mut counts = BTreeMap::new();
        for one in &seen.executions {
            *counts.entry((&one.peel, &one.dispatch)).or_insert(0) += 1;
            let Some(job) = self.jobs.get(&one.dispatch.jid) else { continue };
            let Some(last) = job.versions.last() else { continue };
            let bound = one.began + last.record.timeout() + STOP_TAKES;
            if one.ended.is_none_or(|ended| ended > bound) && !one.crashed {
                let what = format!("{} worked on {} beyond its budget", one.peel, one.dispatch.jid);
                violations.push(Violation::new(Invariant::PeelEndsByItself, what));
            }
            let returned = job
                .returned
                .iter()
                .any(|(ret, _)| ret.peel == one.peel && ret.dispatch_epoch == one.dispatch.epoch);
            if !returned {
                let what = format!("{} ran {} and the stream has no return", one.peel, one.dispatch.jid);
                violations.push(Violation::new(Invariant::EveryExecutionReturns, what));
            }
        }
        for ((peel, dispatch), count) in counts.into_iter().filter(|(_, count)| *count > 1) {
            let what = format!("{peel} ran {} epoch {} {count} times", dispatch.jid, dispatch.epoch);
            violations.push(Violation::new(Invariant::AtMostOnce, what));
        }
    }

    pub(super) fn check_outboxes(&self, violations: &mut Violations) {
        for (name, dispatch) in self.undelivered() {
            let what = format!("{name} still has the return of {}", dispatch.jid);
            violations.push(Violation::new(Invariant::OutboxEmpties, what));
        }
    }

    /// Returns in an outbox that no stream has. One that was delivered may stand there when the disk would not take a note of
    /// it; the next start delivers it again.
    pub(super) fn undelivered(&self) -> Vec<(String, Dispatch)> {
        let kept = |name: &str, dispatch: &Dispatch| {
            let job = self.jobs.get(&dispatch.jid);
            job.is_some_and(|job| {
                let same = |ret: &Return| ret.peel.as_str() == name && ret.dispatch_epoch == dispatch.epoch;
                job.returned.iter().any(|(ret, _)| same(ret))
            })
        };
        let of_disk = |(name, disk): (&String, &Disk)| -> Vec<(String, Dispatch)> {
            let waiting = disk.undelivered().into_iter().filter(|dispatch| !kept(name, dispatch));
            waiting.map(|dispatch| (name.clone(), dispatch)).collect()
        };
        self.disks.iter().flat_map(of_disk).collect()
    }

    /// For each owner in turn: a target that was there with it for a while has got the job.
    pub(super) fn check_delivery(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let Some(last) = job.versions.last() else { return };
        if job.canceled_at.is_some() || last.record.reclaim_count > 3 || self.clocks_jumped() {
            return;
        }
        let deadline = self.instant_of(last.record.deadline()) - CLOCKS_APART;
        for (index, version) in job.versions.iter().enumerate() {
            let next = job.versions.get(index + 1).map_or(deadline, |next| next.at);
            let until = next.min(deadline);
            if version.record.status != JobStatus::Running || until < version.at {
                continue;
            }
            for peel in &version.record.targets {
                let had = self.disks.get(peel.as_str()).is_some_and(|disk| disk.ever_had(jid));
                let answered = job.returned.iter().any(|(ret, _)| ret.peel == *peel);
                let lost = self.network.lost_every_command(peel.as_str(), version.at, deadline);
                // A peel whose disk fails takes nothing on, and is asked again only when it announces itself.
                let on_bad_disk = self.disks_failed(version.at, deadline);
                if had || answered || lost || on_bad_disk {
                    continue;
                }
                let both = [peel.as_str(), boot_of(&version.record)];
                if let Some(from) = self.together(&both, version.at, until, HEARD_WITHIN) {
                    let what = format!(
                        "{peel} never got {jid} although it was connected with {} {} s into the simulation",
                        version.record.owner,
                        from.duration_since(self.environment.begin).as_secs()
                    );
                    violations.push(Violation::new(Invariant::TargetsGetTheJob, what));
                }
            }
        }
    }
}
