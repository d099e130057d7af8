//! Nothing ends before its time without a reason: J-5, J-6, J-8, J-11.

use super::evidence::{Evidence, JobEvidence};
use super::{CLOCKS_APART, Invariant, Violation, Violations};
use crate::node::lives;
use std::time::Duration;
use tokio::time::Instant;
use zester_jobs::Timing;
use zester_wire::{Jid, JobStatus, PeelId};

/// A heartbeat may be on its way, and a clock of a second's ticks may have just ticked.
const SLACK: Duration = Duration::from_secs(2);

impl Evidence {
    pub(super) fn check_early(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let Some(last) = job.versions.last() else { return };
        let deadline = self.instant_of(last.record.deadline()) - CLOCKS_APART;
        if self.clocks_jumped() {
            return;
        }
        self.check_early_end(jid, job, deadline, violations);
        let seen = self.environment.observed.lock();
        if seen.asked_to_kill.contains(jid) {
            return;
        }
        for ((_, boot), at) in seen.sent_cancel.iter().filter(|((of, _), at)| of == jid && **at < deadline) {
            let early = deadline.duration_since(*at).as_secs();
            let what = format!("{boot} sent a cancel of {jid} {early} s before its deadline");
            violations.push(Violation::new(Invariant::NobodyIsCanceledEarly, what));
        }
    }

    /// Only somebody who is really away, or has stopped, is given up.
    fn check_early_end(&self, jid: &Jid, job: &JobEvidence, deadline: Instant, violations: &mut Violations) {
        let (Some(first), Some(end)) = (job.versions.first(), job.end()) else { return };
        let record = &end.record;
        let ran = self.environment.observed.lock().sent_work.keys().any(|(of, _)| of == jid);
        let for_another_reason =
            record.status == JobStatus::Canceled || record.reason.starts_with("given up");
        let timing = Timing::default();
        // In a storm any message may be lost, heartbeats too.
        let before = first.at.checked_sub(timing.peel_ttl + timing.peel_heartbeat).unwrap_or(first.at);
        // Nobody was there before everything began.
        let from = before.max(self.environment.begin + SLACK);
        let calm = self.environment.observed.lock().was_calm(from, end.at);
        if end.at >= deadline || !ran || for_another_reason || !calm {
            return;
        }
        let in_time = self.in_time(job);
        for peel in record.targets.iter().filter(|peel| !in_time.iter().any(|ret| ret.peel == **peel)) {
            if !self.was_away(peel, job, from, end.at) {
                let early = deadline.duration_since(end.at).as_secs();
                let what = format!("{jid} ended {early} s too early, without {peel}, which was not away");
                violations.push(Violation::new(Invariant::EndsEarlyForAReason, what));
            }
        }
    }

    /// Whether a peel stopped, was away when the work went out, or was away for as long as one that comes back is waited for.
    /// While the server itself stands still nobody is away.
    fn was_away(&self, peel: &PeelId, job: &JobEvidence, from: Instant, end: Instant) -> bool {
        let timing = Timing::default();
        let seen = self.environment.observed.lock();
        if !seen.was_there(&lives(peel.as_str()), from, end) {
            return true;
        }
        let unheard = timing.peel_ttl - timing.peel_heartbeat - SLACK;
        let lost = unheard + timing.lost_patience();
        let sent = || job.versions.iter().filter(|version| version.record.status == JobStatus::Running);
        let away = seen.breaks(peel.as_str(), end);
        let mut away = away.iter().filter(|(_, until)| *until >= from);
        away.any(|(left, back)| {
            let absent =
                |at: Instant| *left + unheard <= at && *back + SLACK >= at + timing.absent_patience();
            let alone: Duration =
                seen.breaks("server", end).iter().map(|span| overlap(*span, (*left, *back))).sum();
            sent().any(|version| absent(version.at)) || back.duration_since(*left) >= lost + alone
        })
    }
}

/// For how long both last.
fn overlap(one: (Instant, Instant), other: (Instant, Instant)) -> Duration {
    one.1.min(other.1).saturating_duration_since(one.0.max(other.0))
}
