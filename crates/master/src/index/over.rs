//! Peels name the jobs they work on; of those that are over they get the cancel (J-11): a peel that was away when a job was
//! canceled stops when it is back. Of a job that nobody canceled a peel may have the work all the same, given up or not: it
//! keeps it until the deadline, and its return is kept as late. What a look at a record found out is remembered, so that the many
//! peels of one job cost one look.

use crate::core::Core;
use crate::limits::{OVER_FRESH, OVER_KNOWN, OVER_LOOKS, OVER_SENDS, OVER_WAITING, RUNNING_FRESH};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_wire::{
    Cancel, Jid, Job, JobAtPeel, JobStatus, Key, PeelCommand, PeelId, Subject, UnixMillis, VERSION,
};

/// What a record said of a job.
#[derive(Copy, Clone, Debug)]
enum Verdict {
    /// It runs, or nobody knows.
    Running,
    Over {
        status: JobStatus,
        deadline: UnixMillis,
    },
}

impl Verdict {
    /// How it ended, where nobody is to work on it any more.
    fn stops_work(self, now: UnixMillis) -> Option<JobStatus> {
        match self {
            Verdict::Over { status: JobStatus::Canceled, .. } => Some(JobStatus::Canceled),
            Verdict::Over { status, deadline } if now >= deadline => Some(status),
            Verdict::Over { .. } | Verdict::Running => None,
        }
    }
}

struct Known {
    verdict: Verdict,
    until: Instant,
}

enum Done {
    Looked(Jid, Verdict),
    Sent,
}

pub(super) struct Over {
    core: Arc<Core>,
    known: HashMap<Jid, Known>,
    /// Who named a job that is being looked at.
    waiting: HashMap<Jid, Vec<(PeelId, u64)>>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
}

impl Over {
    pub fn new(core: Arc<Core>) -> Over {
        Over { core, known: HashMap::new(), waiting: HashMap::new(), under_way: FuturesUnordered::new() }
    }

    /// A peel works on this job.
    pub fn ask(&mut self, peel: &PeelId, job: JobAtPeel) {
        // A job that is under way here speaks for itself.
        if self.core.running.contains(&job.jid) {
            return;
        }
        if let Some(known) = self.known.get(&job.jid).filter(|known| known.until > Instant::now()) {
            return self.answer(known.verdict, peel, &job.jid, job.dispatch_epoch);
        }
        let looks = self.waiting.len();
        match self.waiting.get_mut(&job.jid) {
            Some(waiting) if waiting.len() < OVER_WAITING => waiting.push((peel.clone(), job.dispatch_epoch)),
            // Named again by the next heartbeat.
            Some(_) => {}
            None if looks >= OVER_LOOKS => {}
            None => {
                self.waiting.insert(job.jid.clone(), vec![(peel.clone(), job.dispatch_epoch)]);
                let core = self.core.clone();
                self.under_way.push(Box::pin(async move {
                    let verdict = look(&core, &job.jid).await;
                    Done::Looked(job.jid, verdict)
                }));
            }
        }
    }

    /// Sends a command, unless too many are on their way.
    pub fn send(&mut self, subject: Subject, command: PeelCommand) {
        if self.under_way.len() >= OVER_LOOKS + OVER_SENDS {
            return;
        }
        let core = self.core.clone();
        self.under_way.push(Box::pin(async move {
            if let Err(error) = core.link.publish(&subject, &command).await {
                tracing::debug!("a command was not sent: {error}");
            }
            Done::Sent
        }));
    }

    /// Takes what has ended; pending while nothing is under way.
    pub async fn next(&mut self) {
        let Some(done) = self.under_way.next().await else { return std::future::pending().await };
        let Done::Looked(jid, verdict) = done else { return };
        for (peel, epoch) in self.waiting.remove(&jid).unwrap_or_default() {
            self.answer(verdict, &peel, &jid, epoch);
        }
        let fresh = if matches!(verdict, Verdict::Running) { RUNNING_FRESH } else { OVER_FRESH };
        self.remember(jid, verdict, fresh);
    }

    fn remember(&mut self, jid: Jid, verdict: Verdict, fresh: Duration) {
        if self.known.len() >= OVER_KNOWN {
            let now = Instant::now();
            self.known.retain(|_, known| known.until > now);
        }
        if self.known.len() < OVER_KNOWN {
            self.known.insert(jid, Known { verdict, until: Instant::now() + fresh });
        }
    }

    fn answer(&mut self, verdict: Verdict, peel: &PeelId, jid: &Jid, dispatch_epoch: u64) {
        let Some(status) = verdict.stops_work(self.core.link.now()) else { return };
        let reason = format!("the job is over: {}", status.as_str());
        let cancel = Cancel { v: VERSION, jid: jid.clone(), dispatch_epoch, reason };
        self.send(Subject::Command { peel: peel.clone() }, PeelCommand::Cancel(cancel));
    }
}

/// A record that cannot be read, or is not there, ends nothing.
async fn look(core: &Core, jid: &Jid) -> Verdict {
    match core.link.get::<Job>(&Key::Job(jid.clone())).await {
        Ok(Some(found)) if found.value.status.is_terminal() => {
            Verdict::Over { status: found.value.status, deadline: found.value.deadline() }
        }
        Ok(_) => Verdict::Running,
        Err(error) => {
            tracing::debug!(%jid, "whether a job is over could not be read: {error}");
            Verdict::Running
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    /// Whether the record could keep who was missing makes no difference.
    #[test]
    #[rule("J-11")]
    fn j11_only_a_cancel_stops_work_before_the_deadline_of_its_job() {
        let (early, deadline) = (UnixMillis(59_999), UnixMillis(60_000));
        let ended = |status| Verdict::Over { status, deadline };
        assert_eq!(ended(JobStatus::Canceled).stops_work(early), Some(JobStatus::Canceled));
        for status in [JobStatus::Complete, JobStatus::Failed, JobStatus::Partial, JobStatus::Timeout] {
            assert_eq!(ended(status).stops_work(early), None, "{status:?}");
            assert_eq!(ended(status).stops_work(deadline), Some(status), "{status:?}");
        }
        assert_eq!(Verdict::Running.stops_work(deadline), None);
    }
}
