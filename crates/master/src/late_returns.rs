//! Returns that came when nobody watched their job (J-9).
//!
//! The stream keeps every return, and one durable reader, shared by all masters, goes through them: whatever happened to a
//! master, and however many come at once, each return is met by one of them and acknowledged once it needs nothing more. Most
//! need nothing at all, because the owner of the job has them: a batch waits a moment before it is looked at, and then a job
//! that is over is read once for all its returns.

use crate::core::Core;
use crate::limits::{
    LATE_AGAIN_MAX, LATE_BATCH, LATE_BATCHES_IN_FLIGHT, LATE_FLOOD_PAUSE, LATE_GATHER, LATE_JOB_FRESH,
    LATE_JOBS_KNOWN, LATE_LOOKS_IN_FLIGHT, LATE_LOOKS_PER_SECOND, LATE_MISSING_LOOKS, LATE_REST, LATE_WAIT,
    LATE_WARN_AFTER,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_bus::storage;
use zester_bus::{Acknowledge, Kind, Taken};
use zester_identity::limits::{LATE_SHARE, SOURCES_MAX};
use zester_identity::source_rate::SourceRate;
use zester_link::Found;
use zester_wire::{Jid, Job, Key, Missing, PeelId, Return, Subject, UnixMillis};

/// What the record of a job said.
#[derive(Clone, Debug)]
enum Looked {
    /// It is not over: its owner takes what comes, unless it has just ended the job and not written that yet.
    Running,
    Over(Arc<Over>),
    /// There is no such job, or none that can be read.
    None,
}

/// A job that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Over {
    dispatch_epoch: u64,
    /// Who may still return: all others have, and all that counted was stored before the end was written.
    awaited: HashSet<PeelId>,
    /// Who has no return that the end counts.
    uncounted: HashSet<PeelId>,
    /// When the end was written, by the clock of the server.
    ended: UnixMillis,
}

impl Over {
    /// Whether the record names all who have not returned.
    fn names_missing(job: &Job) -> bool {
        job.return_count + job.missing.len() as u64 == job.target_count()
    }

    fn new(found: &Found<Job>) -> Over {
        let job = &found.value;
        let awaited = if Over::names_missing(job) {
            job.missing.keys().cloned().collect()
        } else {
            // Who is missing was not written down: anybody may be.
            job.targets.iter().cloned().collect()
        };
        let missing = job.missing.iter().filter(|(_, why)| **why != Missing::Interrupted);
        let uncounted = missing.map(|(peel, _)| peel.clone()).collect();
        Over { dispatch_epoch: job.dispatch_epoch, awaited, uncounted, ended: found.stored }
    }
}

/// What a return of a job that is not watched here needs.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Need {
    /// To be stored, unless it is.
    Store,
    /// A look whether its owner has stored it.
    Check,
    /// Another look at the job, later.
    Wait,
    Nothing,
}

fn need(looked: &Looked, peel: &PeelId, deliveries: u64) -> Need {
    match looked {
        Looked::Over(over) if over.awaited.contains(peel) => Need::Store,
        Looked::Over(_) => Need::Nothing,
        Looked::Running if deliveries > 1 => Need::Check,
        Looked::Running => Need::Wait,
        // What was read may have been behind.
        Looked::None if deliveries < LATE_MISSING_LOOKS => Need::Wait,
        Looked::None => Need::Nothing,
    }
}

/// How long until a return that needs more is met again.
fn again(core: &Core, deliveries: u64) -> Duration {
    let times = u32::try_from(deliveries).unwrap_or(u32::MAX);
    core.timing.retry_pause.saturating_mul(times).min(LATE_AGAIN_MAX)
}

pub struct LateReturns {
    core: Arc<Core>,
    known: Mutex<BTreeMap<Jid, (Instant, Looked)>>,
    pace: Mutex<Pace>,
    /// Who had records read: one that invents jobs takes half of the looks at most (I-13).
    sources: Mutex<SourceRate<PeelId>>,
    begun: Instant,
}

/// Records that were read in the current second.
struct Pace {
    second: Instant,
    reads: u32,
}

impl Pace {
    /// How long the next read has to wait.
    fn wait(&mut self, now: Instant) -> Duration {
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            *self = Pace { second: now, reads: 0 };
        }
        self.reads += 1;
        let seconds = (self.reads - 1) / LATE_LOOKS_PER_SECOND;
        (self.second + Duration::from_secs(seconds.into())).saturating_duration_since(now)
    }
}

impl LateReturns {
    pub fn new(core: Arc<Core>) -> LateReturns {
        let pace = Pace { second: Instant::now(), reads: 0 };
        let sources = Mutex::new(SourceRate::new(LATE_SHARE, SOURCES_MAX));
        LateReturns { core, known: Mutex::default(), pace: Mutex::new(pace), sources, begun: Instant::now() }
    }

    /// Ends when the bus is closed.
    pub async fn run(self) {
        let reader = storage::late_returns();
        let bus = self.core.link.bus().clone();
        let (mut ready, mut rest) = (false, Duration::ZERO);
        let mut batches: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            let (is_new, pause) = (!ready, rest);
            let take = async {
                if is_new {
                    bus.ensure_reader(&reader).await?;
                }
                sleep(pause).await;
                bus.take(&reader, LATE_BATCH, LATE_WAIT).await
            };
            let mut take = std::pin::pin!(take);
            let taken = loop {
                let room = batches.len() < LATE_BATCHES_IN_FLIGHT;
                tokio::select! {
                    biased;
                    Some(()) = batches.next() => {}
                    taken = &mut take, if room => break taken,
                }
            };
            match taken {
                Ok(taken) => {
                    ready = true;
                    // They are given as they come. Each batch waits, so each is to hold what came in a while.
                    let partial = (1..LATE_BATCH).contains(&taken.len());
                    rest = if partial { LATE_GATHER } else { Duration::ZERO };
                    if !taken.is_empty() {
                        batches.push(Box::pin(self.batch(taken)));
                    }
                }
                Err(error) if error.kind() == Kind::Closed => return,
                Err(error) => {
                    // The reader may be gone with the disk of a server.
                    ready = false;
                    tracing::debug!("late returns cannot be read now: {error}");
                    sleep(self.core.timing.retry_pause).await;
                }
            }
        }
    }

    async fn batch(&self, taken: Vec<Taken>) {
        // Owners write what they heard within a moment. Asking before that would ask for each.
        sleep(LATE_REST).await;
        let mut by_job: BTreeMap<Jid, Vec<(PeelId, Taken)>> = BTreeMap::new();
        for one in taken {
            match Subject::parse(&one.record.subject) {
                Ok(Subject::JobReturn { jid, peel }) => by_job.entry(jid).or_default().push((peel, one)),
                _ => self.acknowledge(&one, Acknowledge::Done).await,
            }
        }
        let jobs = stream::iter(by_job).map(|(jid, returns)| self.of_job(jid, returns));
        jobs.buffer_unordered(LATE_LOOKS_IN_FLIGHT).collect::<()>().await;
    }

    async fn of_job(&self, jid: Jid, returns: Vec<(PeelId, Taken)>) {
        let mut left = Vec::new();
        for (peel, taken) in returns {
            match self.watched_here(&jid, &peel, &taken) {
                Some(acknowledge) => self.acknowledge(&taken, acknowledge).await,
                None => left.push((peel, taken)),
            }
        }
        if left.is_empty() {
            return;
        }
        if self.core.ended.has_all(&jid) {
            for (_, taken) in &left {
                self.core.metrics.stray_returns.inc();
                self.acknowledge(taken, Acknowledge::Done).await;
            }
            return;
        }
        let left = self.within_share(&jid, left).await;
        if left.is_empty() {
            return;
        }
        // Before a return is let go because there is no such job, the leader is asked: a server may be behind.
        let is_last = left.iter().any(|(_, taken)| taken.deliveries >= LATE_MISSING_LOOKS);
        let looked = self.look(&jid, is_last).await;
        let each = stream::iter(left).map(|(peel, taken)| {
            let (jid, looked) = (&jid, looked.as_ref());
            async move {
                let acknowledge = match looked {
                    Some(looked) => self.unwatched(jid, &peel, looked, &taken).await,
                    None => Acknowledge::Later(again(&self.core, taken.deliveries)),
                };
                self.acknowledge(&taken, acknowledge).await;
            }
        });
        each.buffer_unordered(LATE_LOOKS_IN_FLIGHT).collect::<()>().await;
    }

    /// Those whose job may be looked up. What a peel sends beyond its share, of jobs that nobody watches and nobody has looked up, is
    /// handed back for a while: no rate of returns loses one. Which of them are of no job at all is known once they had their turn.
    async fn within_share(&self, jid: &Jid, left: Vec<(PeelId, Taken)>) -> Vec<(PeelId, Taken)> {
        if self.known().get(jid).is_some_and(|(until, _)| *until > Instant::now()) {
            return left;
        }
        let mut within = Vec::with_capacity(left.len());
        for (peel, taken) in left {
            if self.has_room_for(&peel) {
                within.push((peel, taken));
            } else {
                // Once, however often it waits.
                if taken.deliveries <= 1 {
                    self.core.link.dropped().add(zester_link::Reason::Flood, 1);
                }
                self.acknowledge(&taken, Acknowledge::Later(LATE_FLOOD_PAUSE)).await;
            }
        }
        within
    }

    fn has_room_for(&self, peel: &PeelId) -> bool {
        let since_start = self.begun.elapsed();
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).takes(peel, since_start)
    }

    /// A return of a job that has its task here. None if it has none.
    fn watched_here(&self, jid: &Jid, peel: &PeelId, taken: &Taken) -> Option<Acknowledge> {
        let handle = self.core.running.get(jid)?;
        if handle.targets().is_stored(peel) != Some(false) {
            // It is stored, or its sender is no target.
            return Some(Acknowledge::Done);
        }
        if taken.deliveries > 1
            && let Some(ret) = self.open(jid, peel, taken)
        {
            // It should have been heard long ago.
            let bytes = zester_wire::encode(&ret).map_or(0, |bytes| bytes.len());
            handle.leave_return(ret, bytes);
        }
        Some(Acknowledge::Later(again(&self.core, taken.deliveries)))
    }

    async fn unwatched(&self, jid: &Jid, peel: &PeelId, looked: &Looked, taken: &Taken) -> Acknowledge {
        let later = Acknowledge::Later(again(&self.core, taken.deliveries));
        match need(looked, peel, taken.deliveries) {
            Need::Nothing => {
                self.core.metrics.stray_returns.inc();
                Acknowledge::Done
            }
            Need::Wait => later,
            Need::Check => match self.is_stored(jid, peel).await {
                true => Acknowledge::Done,
                false => later,
            },
            Need::Store => {
                let Looked::Over(over) = looked else { return later };
                let ret = self.open(jid, peel, taken);
                let Some(ret) = ret.filter(|ret| ret.dispatch_epoch == over.dispatch_epoch) else {
                    self.core.metrics.stray_returns.inc();
                    return Acknowledge::Done;
                };
                if self.store(Return { late: true, ..ret }, over, taken.deliveries).await {
                    Acknowledge::Done
                } else {
                    later
                }
            }
        }
    }

    fn open(&self, jid: &Jid, peel: &PeelId, taken: &Taken) -> Option<Return> {
        let subject = Subject::JobReturn { jid: jid.clone(), peel: peel.clone() };
        self.core.link.open_return(&subject, &taken.record)
    }

    /// What the record says; none where it could not be read now.
    async fn look(&self, jid: &Jid, from_leader: bool) -> Option<Looked> {
        let known = self.known().get(jid).filter(|(until, _)| *until > Instant::now()).cloned();
        if let Some((_, looked)) = known {
            return Some(looked);
        }
        let wait = self.pace.lock().unwrap_or_else(PoisonError::into_inner).wait(Instant::now());
        if !wait.is_zero() {
            sleep(wait).await;
        }
        let key = Key::Job(jid.clone());
        let found = match from_leader {
            true => self.core.link.get_latest::<Job>(&key).await,
            false => self.core.link.get::<Job>(&key).await,
        };
        let looked = match found {
            Ok(Some(found)) if found.value.status.is_terminal() => self.over(found).await?,
            Ok(Some(_)) => Looked::Running,
            Ok(None) => Looked::None,
            Err(zester_link::Error::Decode(error)) => {
                tracing::debug!(%jid, "the job of a return cannot be read: {error}");
                Looked::None
            }
            Err(error) => {
                tracing::debug!(%jid, "the job of a return could not be read: {error}");
                return None;
            }
        };
        // Only an end stays what it is; what is not there may come into sight.
        if matches!(looked, Looked::Over(_)) {
            self.remember(jid, &looked);
        }
        Some(looked)
    }

    /// Reads the targets only where the record does not say who is missing.
    async fn over(&self, mut found: Found<Job>) -> Option<Looked> {
        if !Over::names_missing(&found.value) {
            found = self.core.link.with_targets(found).await.ok()?;
        }
        Some(Looked::Over(Arc::new(Over::new(&found))))
    }

    fn remember(&self, jid: &Jid, looked: &Looked) {
        let now = Instant::now();
        let mut known = self.known();
        if known.len() >= LATE_JOBS_KNOWN {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() >= LATE_JOBS_KNOWN {
            known.pop_first();
        }
        known.insert(jid.clone(), (now + LATE_JOB_FRESH, looked.clone()));
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Jid, (Instant, Looked)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn is_stored(&self, jid: &Jid, peel: &PeelId) -> bool {
        let key = Key::Return(jid.clone(), peel.clone());
        let found = self.core.link.bus().get(key.bucket().as_str(), &key.to_string()).await;
        found.is_ok_and(|found| found.is_some())
    }

    /// Whether it is stored now, by whomever.
    async fn store(&self, ret: Return, over: &Over, deliveries: u64) -> bool {
        let key = Key::Return(ret.jid.clone(), ret.peel.clone());
        let link = &self.core.link;
        let stored = match crate::job::store_return(link, &ret).await {
            Ok(false) => {
                let uncounted = over.uncounted.contains(&ret.peel);
                crate::job::mark_late(link, &ret, uncounted, over.ended).await.map(|()| false)
            }
            other => other,
        };
        match stored {
            Ok(true) => {
                self.core.metrics.late_returns.inc();
                true
            }
            Ok(false) => true,
            Err(error) => {
                if deliveries == LATE_WARN_AFTER {
                    tracing::warn!(%key, "a late return waits, because it cannot be stored: {error}");
                }
                false
            }
        }
    }

    async fn acknowledge(&self, taken: &Taken, what: Acknowledge) {
        // One that is lost comes again, and finds everything done.
        if let Err(error) = self.core.link.bus().acknowledge(taken, what).await {
            tracing::debug!("a return was not acknowledged: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use zester_rule::rule;

    fn peel(name: &str) -> PeelId {
        PeelId::parse(name).unwrap()
    }

    #[test]
    #[rule("J-9")]
    fn j9_what_a_return_of_a_job_that_nobody_watches_needs_by_this_table() {
        let awaited = HashSet::from([peel("web-1")]);
        let uncounted = HashSet::new();
        let ended = UnixMillis(0);
        let over = Looked::Over(Arc::new(Over { dispatch_epoch: 1, awaited, uncounted, ended }));
        let table = [
            (&over, "web-1", 1, Need::Store),
            (&over, "web-1", 99, Need::Store),
            // It had returned in time, and all that counted is stored: nothing is amiss.
            (&over, "web-2", 1, Need::Nothing),
            (&Looked::Running, "web-1", 1, Need::Wait),
            (&Looked::Running, "web-1", 2, Need::Check),
            (&Looked::None, "web-1", 1, Need::Wait),
            (&Looked::None, "web-1", LATE_MISSING_LOOKS, Need::Nothing),
        ];
        for (looked, name, deliveries, wanted) in table {
            assert_eq!(need(looked, &peel(name), deliveries), wanted, "{looked:?} {name} {deliveries}");
        }
    }
}
