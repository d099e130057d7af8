//! Records and whoever writes them: J-1, J-2, J-7, J-10, J-13.

use super::evidence::{Evidence, JobEvidence, boot_of};
use super::{Invariant, Violation, Violations};
use std::time::Duration;
use zester_jobs::Timing;
use zester_wire::{Jid, JobStatus};

/// What an adopter may need beyond the time to live and the looks: the last of them may just have begun.
const ADOPTION_SLACK: Duration = Duration::from_secs(4);

impl Evidence {
    /// A terminal status never changes, epochs never fall, and nobody writes for another epoch's owner.
    pub(super) fn check_records(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        for pair in job.versions.windows(2) {
            let [before, after] = pair else { continue };
            let (before, after) = (&before.record, &after.record);
            if before.status.is_terminal() && before.status != after.status {
                let what = format!("{jid} went from {} to {}", before.status.as_str(), after.status.as_str());
                violations.push(Violation::new(Invariant::TerminalStays, what));
            }
            let stolen = before.epoch == after.epoch && before.owner != after.owner;
            if after.epoch < before.epoch || stolen {
                let what = format!(
                    "{jid}: {} wrote epoch {} after {} had written epoch {}",
                    after.owner, after.epoch, before.owner, before.epoch
                );
                violations.push(Violation::new(Invariant::SupersededWritesNothing, what));
            }
            let ran = before.status == JobStatus::Running;
            if ran && before.dispatch_epoch != after.dispatch_epoch {
                let what = format!("{jid}: {} became {}", before.dispatch_epoch, after.dispatch_epoch);
                violations.push(Violation::new(Invariant::DispatchEpochStays, what));
            }
        }
        let running = job.versions.iter().find(|version| version.record.status == JobStatus::Running);
        let seen = self.environment.observed.lock();
        for ((of, boot), (first, _)) in &seen.sent_work {
            if of == jid && running.is_none_or(|running| running.at > *first) {
                let what = format!("{boot} sent work of {jid} before its record said running");
                violations.push(Violation::new(Invariant::RunningBeforeSent, what));
            }
        }
    }

    /// A job changes hands when its owner is gone, soon, and not before.
    pub(super) fn check_owners(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let timing = Timing::default();
        let gone_within = timing.master_ttl + timing.orphan_scan * (timing.orphan_misses + 1);
        for pair in job.versions.windows(2) {
            let [before, after] = pair else { continue };
            if before.record.owner == after.record.owner {
                continue;
            }
            let owner = boot_of(&before.record);
            if let Some(from) = after.at.checked_sub(gone_within)
                && self.no_excuse(owner, from, after.at)
            {
                let what = format!("{jid}: {} took it from {owner}, which was there", after.record.owner);
                violations.push(Violation::new(Invariant::LiveOwnerKeepsItsJob, what));
            }
        }
        self.check_adoption(jid, job, gone_within + ADOPTION_SLACK, violations);
    }

    /// A running job whose owner is gone for good is another's before long, where another is there.
    fn check_adoption(&self, jid: &Jid, job: &JobEvidence, within: Duration, violations: &mut Violations) {
        for (index, version) in job.versions.iter().enumerate() {
            let next = job.versions.get(index + 1).map(|next| next.at);
            let owner = boot_of(&version.record);
            if version.record.status != JobStatus::Running {
                continue;
            }
            let left = {
                let seen = self.environment.observed.lock();
                seen.present.get(owner).and_then(|spans| spans.last()).and_then(|(_, end)| *end)
            };
            let Some(left) = left.map(|left| left.max(version.at)) else { continue };
            let until = left + within;
            // A heartbeat of the dead that came late makes it look alive for as long as one lives.
            if self.environment.observed.lock().writes_came_late(left, until) {
                continue;
            }
            let helped =
                (0..3).map(|number| format!("m{number}")).any(|name| self.no_excuse(&name, left, until));
            if helped && next.is_none_or(|next| next > until) {
                let what =
                    format!("{jid}: {owner} was gone, and nobody had the job {} s later", within.as_secs());
                violations.push(Violation::new(Invariant::OrphanIsAdopted, what));
            }
        }
    }
}
