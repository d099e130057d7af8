//! What happened, for a person who looks for the reason.

use super::evidence::Evidence;
use tokio::time::Instant;
use zester_wire::PeelId;

impl Evidence {
    /// What the bus knows of each job and what the simulator saw, in order.
    pub fn story(&self) -> String {
        let mut lines: Vec<(Instant, String)> = Vec::new();
        for (jid, job) in &self.jobs {
            for version in &job.versions {
                let record = &version.record;
                let targets: Vec<&str> = record.targets.iter().map(PeelId::as_str).collect();
                let what = format!(
                    "{jid} record: {} owner {} epoch {} dispatch {} reclaims {} targets {} deadline {:.1} \
                     returned {} succeeded {} missing {:?} {}",
                    record.status.as_str(),
                    record.owner,
                    record.epoch,
                    record.dispatch_epoch,
                    record.reclaim_count,
                    targets.join(" "),
                    self.seconds(self.instant_of(record.deadline())),
                    record.return_count,
                    record.success_count,
                    record.missing,
                    record.reason,
                );
                lines.push((version.at, what));
            }
            for (ack, at) in &job.acks {
                lines.push((*at, format!("{jid} ack of {} epoch {}", ack.peel, ack.dispatch_epoch)));
            }
            for (ret, at) in &job.returned {
                lines.push((*at, format!("{jid} return of {}: {:?} {}", ret.peel, ret.cause, ret.success)));
            }
            for (peel, (ret, at)) in &job.stored {
                lines.push((*at, format!("{jid} stored return of {peel}, late: {}", ret.late)));
            }
            lines.extend(job.canceled_at.map(|at| (at, format!("{jid} cancel"))));
        }
        self.observed_lines(&mut lines);
        lines.sort();
        lines.into_iter().map(|(at, what)| format!("{:8.2}  {what}\n", self.seconds(at))).collect()
    }

    fn observed_lines(&self, lines: &mut Vec<(Instant, String)>) {
        let seen = self.environment.observed.lock();
        for ((jid, boot), (first, last)) in &seen.sent_work {
            lines.push((*first, format!("{jid} work sent first by {boot}")));
            lines.push((*last, format!("{jid} work sent last by {boot}")));
        }
        for ((jid, boot), at) in &seen.sent_cancel {
            lines.push((*at, format!("{jid} cancel sent to a peel by {boot}")));
        }
        for one in &seen.executions {
            lines.push((one.began, format!("{} {} begins", one.dispatch.jid, one.peel)));
            let how = if one.crashed { "dies" } else { "ends" };
            lines.extend(one.ended.map(|at| (at, format!("{} {} {how}", one.dispatch.jid, one.peel))));
        }
        for (jid, at) in &seen.accepted {
            lines.push((*at, format!("{jid} its client is told that it runs")));
        }
        for (jid, (at, said)) in &seen.refused {
            lines.push((*at, format!("{jid} its client is told: {said}")));
        }
        for (jid, at, reply) in &seen.kills {
            lines.push((*at, format!("{jid} whoever kills it is told: {reply:?}")));
        }
        for (name, spans) in &seen.present {
            for (from, until) in spans {
                lines.push((*from, format!("{name} is there")));
                lines.extend(until.map(|until| (until, format!("{name} is gone"))));
            }
        }
        for (name, from, until) in &seen.disturbed {
            lines.push((*from, format!("{name} begins")));
            lines.extend(until.map(|until| (until, format!("{name} ends"))));
        }
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.duration_since(self.environment.begin).as_secs_f64()
    }
}
