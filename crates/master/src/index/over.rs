//! Peels name the jobs they work on; of those that are over they get the cancel (J-11): a peel that was away when a job was
//! canceled stops when it is back. What a look at a record found out is remembered, so that the many peels of one job cost one look.

use crate::core::Core;
use crate::limits::{OVER_FRESH, OVER_KNOWN, OVER_LOOKS, OVER_SENDS, OVER_WAITING, RUNNING_FRESH};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_wire::{
    Cancel, Jid, Job, JobAtPeel, JobStatus, Key, Missing, PeelCommand, PeelId, Subject, UnixMillis, VERSION,
};

/// What a record said of a job.
#[derive(Clone)]
enum Verdict {
    /// It runs, or nobody knows.
    Running,
    Over(Arc<Ended>),
}

struct Ended {
    status: JobStatus,
    deadline: UnixMillis,
    /// Those that the job gave up. They may have the work all the same, and their returns are kept as late.
    given_up: BTreeSet<PeelId>,
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
            let verdict = known.verdict.clone();
            return self.answer(&verdict, peel, &job.jid, job.dispatch_epoch);
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
            self.answer(&verdict, &peel, &jid, epoch);
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

    fn answer(&mut self, verdict: &Verdict, peel: &PeelId, jid: &Jid, dispatch_epoch: u64) {
        let Verdict::Over(ended) = verdict else { return };
        if ended.given_up.contains(peel) && self.core.link.now() < ended.deadline {
            return;
        }
        let reason = format!("the job is over: {}", ended.status.as_str());
        let cancel = Cancel { v: VERSION, jid: jid.clone(), dispatch_epoch, reason };
        self.send(Subject::Command { peel: peel.clone() }, PeelCommand::Cancel(cancel));
    }
}

/// A record that cannot be read, or is not there, ends nothing.
async fn look(core: &Core, jid: &Jid) -> Verdict {
    match core.link.get::<Job>(&Key::Job(jid.clone())).await {
        Ok(Some(found)) if found.value.status.is_terminal() => {
            let job = found.value;
            let canceled = job.status == JobStatus::Canceled;
            let given_up = |(_, why): &(&PeelId, &Missing)| !canceled && **why == Missing::Unreachable;
            Verdict::Over(Arc::new(Ended {
                status: job.status,
                deadline: job.deadline(),
                given_up: job.missing.iter().filter(given_up).map(|(peel, _)| peel.clone()).collect(),
            }))
        }
        Ok(_) => Verdict::Running,
        Err(error) => {
            tracing::debug!(%jid, "whether a job is over could not be read: {error}");
            Verdict::Running
        }
    }
}
