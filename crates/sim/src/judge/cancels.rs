//! What is canceled stops, and whoever asked was told the truth: J-11.

use super::evidence::{Evidence, JobEvidence, boot_of};
use super::{CLOCKS_APART, HEARD_WITHIN, Invariant, Violation, Violations};
use crate::observed::KillReply;
use std::time::Duration;
use tokio::time::Instant;
use zester_wire::{Jid, JobStatus};

/// A cancel reaches a peel that is there, and its work stops, well within this time.
const STOPPED_AT_ONCE: Duration = Duration::from_secs(3);
/// A peel that is back tells what it works on with its next heartbeat, and is answered; then its work needs a moment to stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(15);

impl Evidence {
    pub(super) fn check_cancels(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        self.check_nothing_new(jid, job, violations);
        self.check_work_stops(jid, job, violations);
        self.check_replies(jid, job, violations);
    }

    /// No master sends work that it has canceled, or that it must have heard to be canceled.
    fn check_nothing_new(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let seen = self.environment.observed.lock();
        for ((_, boot), (_, at)) in seen.sent_work.iter().filter(|((of, _), _)| of == jid) {
            let canceled = seen.sent_cancel.get(&(jid.clone(), boot.clone()));
            // Of one that the stream had no room for whoever asked was told so, and an adopter cannot know.
            let canceled = canceled.filter(|_| job.canceled_at.is_some());
            if canceled.is_some_and(|canceled| canceled < at) {
                let what = format!("{boot} sent work of {jid} after it had sent the cancel");
                violations.push(Violation::new(Invariant::CanceledStartsNothing, what));
            }
            let Some(when) = job.canceled_at else { continue };
            let there = seen.was_there(boot, when, *at) && seen.was_there("server", when, *at);
            if *at > when + HEARD_WITHIN && there && seen.was_calm(when, *at) {
                let what = format!("{boot} sent work of {jid} long after its cancel was published");
                violations.push(Violation::new(Invariant::CanceledStartsNothing, what));
            }
        }
    }

    /// Whoever works on a canceled job hears of it, at the latest when it is back.
    fn check_work_stops(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let (Some(canceled), Some(end)) = (job.canceled_at, job.end()) else { return };
        if end.record.status != JobStatus::Canceled {
            return;
        }
        let executions: Vec<(String, Instant, Instant)> = {
            let seen = self.environment.observed.lock();
            let theirs = seen.executions.iter().filter(|one| one.dispatch.jid == *jid && !one.crashed);
            let span = |one: &crate::observed::Execution| {
                let ended = one.ended.unwrap_or_else(Instant::now);
                (one.peel.to_string(), one.began, ended)
            };
            theirs.map(span).collect()
        };
        for (peel, began, ended) in executions {
            let soon = end.at + STOPPED_AT_ONCE;
            let there = |name: &str| self.no_excuse(name, canceled, soon);
            if began < canceled && ended > soon && there(&peel) && there(boot_of(&end.record)) {
                let what = format!("{peel} heard of the cancel of {jid}, and worked on");
                violations.push(Violation::new(Invariant::CanceledWorkStops, what));
                continue;
            }
            let from = canceled.max(began).max(end.at);
            for number in 0..3 {
                let both = [peel.as_str(), &format!("m{number}")];
                if self.together(&both, from, ended, STOPPED_WITHIN).is_some() {
                    let what = format!(
                        "{peel} worked on {jid} for {} s after its cancel",
                        ended.duration_since(from).as_secs()
                    );
                    violations.push(Violation::new(Invariant::CanceledWorkStops, what));
                    break;
                }
            }
        }
    }

    fn check_replies(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations) {
        let Some(last) = job.versions.last() else { return };
        let kills = self.environment.observed.lock().kills.clone();
        for (_, at, reply) in kills.iter().filter(|(of, _, _)| of == jid) {
            let over = job.end().is_some_and(|end| end.at <= *at);
            let what = match reply {
                KillReply::WasOver if !over => format!("{jid}: told that it was over, and it was not"),
                KillReply::Ending if job.canceled_at.is_none_or(|canceled| canceled > *at) => {
                    format!("{jid}: told that it is ending, and no cancel stood in the stream")
                }
                KillReply::Stopping if !self.was_stopped(job, *at) => format!(
                    "{jid}: told that it stops, and it is {}; a cancel stands in the stream: {}",
                    last.record.status.as_str(),
                    job.canceled_at.is_some()
                ),
                _ => continue,
            };
            violations.push(Violation::new(Invariant::KillReplyIsTrue, what));
        }
    }

    /// Canceled, or everybody had returned by then; or it was at its end when somebody asked.
    fn was_stopped(&self, job: &JobEvidence, at: Instant) -> bool {
        let Some(last) = job.versions.last() else { return true };
        let status = last.record.status;
        let all_returned = matches!(status, JobStatus::Complete | JobStatus::Failed);
        let ending = at + CLOCKS_APART > self.instant_of(last.record.deadline()) || self.clocks_jumped();
        let durable = job.canceled_at.is_some_and(|canceled| canceled <= at);
        status == JobStatus::Canceled || all_returned || (ending && durable)
    }
}
