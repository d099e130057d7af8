//! What clients were told: J-1, J-2, J-28.

use super::evidence::Evidence;
use super::{Invariant, Violation, Violations};

impl Evidence {
    pub(super) fn check_clients(&self, violations: &mut Violations) {
        let seen = self.environment.observed.lock();
        for jid in seen.accepted.keys() {
            if self.jobs.get(jid).is_none_or(|job| job.versions.is_empty()) {
                violations.push(Violation::new(Invariant::AcceptedIsRecorded, jid.to_string()));
            }
        }
        for (jid, told) in &seen.told {
            let last = self.jobs.get(jid).and_then(|job| job.versions.last());
            let status = last.map(|last| last.record.status);
            if status != Some(*told) {
                let what = format!("{jid} is {status:?}, and its client was told {}", told.as_str());
                violations.push(Violation::new(Invariant::FollowerIsTold, what));
            }
        }
        for (jid, (at, said)) in &seen.refused {
            let ran = seen.executions.iter().find(|one| one.dispatch.jid == *jid);
            if let Some(ran) = ran {
                let when = if ran.began < *at { "before" } else { "after" };
                let what = format!("{} ran {jid} {when} its client was told: {said}", ran.peel);
                violations.push(Violation::new(Invariant::ExitOneRanNothing, what));
            }
        }
    }
}
