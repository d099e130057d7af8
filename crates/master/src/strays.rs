//! Returns for jobs that nobody here watches: late ones are stored (J-9), those of other masters are left to them.
//!
//! A return names its job, and looking the job up costs a read. Looks are remembered, bounded in number and in pace, so that
//! invented job ids cost the bus next to nothing.

use crate::core::Core;
use crate::limits::{
    STRAY_FRESH, STRAY_SECOND_LOOK, STRAYS_IN_FLIGHT, STRAYS_KNOWN, STRAYS_PER_SECOND, STRAYS_WAITING,
};
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::storage::JOB_EVENTS;
use zester_bus::{Kind, Record, Sequence};
use zester_jobs::messages::late_return;
use zester_wire::subject::ALL_RETURNS;
use zester_wire::{Jid, Job, Key, PeelId, Return, Subject};

/// Tries to store one late return. The pause between them is that of all retries.
const STORE_TRIES: u32 = 10;

/// What the last look at a job found.
#[derive(Clone)]
struct Look {
    until: Instant,
    /// It is not over: its owner takes what comes, unless it has just ended the job and not written that yet.
    running: bool,
    /// A job that is over; anything else is no concern of ours.
    over: Option<Arc<Over>>,
}

struct Over {
    /// Without its targets.
    job: Job,
    targets: HashSet<PeelId>,
}

enum Done {
    Looked {
        jid: Jid,
        found: Option<Look>,
    },
    Stored,
    /// A stretch of the stream that was read again.
    Read {
        returns: Vec<Return>,
        next: Option<Sequence>,
    },
}

pub struct Strays {
    core: Arc<Core>,
    looks: BTreeMap<Jid, Look>,
    /// Returns that wait for a look at their job.
    waiting: BTreeMap<Jid, Vec<(Instant, Return)>>,
    waiting_count: usize,
    to_store: VecDeque<Return>,
    under_way: FuturesUnordered<BoxFuture<'static, Done>>,
    /// Looks begun in the current second.
    second: Instant,
    looked: u32,
}

impl Strays {
    pub fn new(core: Arc<Core>) -> Strays {
        Strays {
            core,
            looks: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_count: 0,
            to_store: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            second: Instant::now(),
            looked: 0,
        }
    }

    /// Reads again what came while this master was away: a late return stands nowhere else.
    pub fn catch_up(&mut self) {
        let from = self.core.stream_at.load(Ordering::Relaxed);
        if from > 0 {
            self.under_way.push(Box::pin(read(self.core.clone(), from)));
        }
    }

    /// Takes a return of a job that has no task here.
    pub fn take(&mut self, ret: Return) {
        if self.waiting_count + self.to_store.len() >= STRAYS_WAITING {
            self.core.metrics.stray_returns.inc();
            return;
        }
        match self.looks.get(&ret.jid) {
            Some(look) if look.until > Instant::now() => {
                let look = look.clone();
                self.decide(&look, ret);
            }
            _ => self.look_for(ret),
        }
    }

    fn look_for(&mut self, ret: Return) {
        let jid = ret.jid.clone();
        if let Some(waiting) = self.waiting.get_mut(&jid) {
            waiting.push((Instant::now(), ret));
            self.waiting_count += 1;
            return;
        }
        if self.under_way.len() >= STRAYS_IN_FLIGHT || !self.may_look() {
            self.core.metrics.stray_returns.inc();
            return;
        }
        self.waiting.insert(jid.clone(), vec![(Instant::now(), ret)]);
        self.waiting_count += 1;
        self.under_way.push(Box::pin(look(self.core.clone(), jid, Duration::ZERO)));
    }

    fn may_look(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.looked) = (Instant::now(), 0);
        }
        self.looked += 1;
        self.looked <= STRAYS_PER_SECOND
    }

    /// One more of what is under way has ended. Pending while nothing is.
    pub async fn next(&mut self) {
        while self.under_way.len() < STRAYS_IN_FLIGHT
            && let Some(ret) = self.to_store.pop_front()
        {
            self.under_way.push(Box::pin(store(self.core.clone(), ret)));
        }
        match self.under_way.next().await {
            Some(Done::Looked { jid, found }) => self.looked_at(jid, found),
            Some(Done::Stored) => {}
            Some(Done::Read { returns, next }) => {
                for ret in returns {
                    if !self.core.roster.contains(&ret.jid) {
                        self.take(ret);
                    }
                }
                if let Some(next) = next {
                    self.under_way.push(Box::pin(read(self.core.clone(), next)));
                }
            }
            None => std::future::pending().await,
        }
    }

    fn looked_at(&mut self, jid: Jid, found: Option<Look>) {
        let waiting = self.waiting.remove(&jid).unwrap_or_default();
        self.waiting_count -= waiting.len();
        let Some(seen) = found else {
            self.core.metrics.stray_returns.inc_by(waiting.len() as u64);
            return;
        };
        let young = |since: &Instant| seen.running && since.elapsed() < STRAY_SECOND_LOOK;
        let (again, decided): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(since, _)| young(since));
        for (_, ret) in decided {
            self.decide(&seen, ret);
        }
        if !again.is_empty() {
            self.waiting_count += again.len();
            self.waiting.insert(jid.clone(), again);
            self.under_way.push(Box::pin(look(self.core.clone(), jid, STRAY_SECOND_LOOK)));
        } else if !seen.running {
            self.remember(jid, seen);
        }
    }

    fn remember(&mut self, jid: Jid, look: Look) {
        if self.looks.len() >= STRAYS_KNOWN {
            let now = Instant::now();
            self.looks.retain(|_, look| look.until > now);
        }
        if self.looks.len() >= STRAYS_KNOWN {
            self.looks.pop_first();
        }
        self.looks.insert(jid, look);
    }

    fn decide(&mut self, look: &Look, ret: Return) {
        let targeted = look.over.as_ref().filter(|over| over.targets.contains(&ret.peel));
        let late = targeted.and_then(|over| {
            let job = Job { targets: vec![ret.peel.clone()], ..over.job.clone() };
            late_return(&job, ret)
        });
        match late {
            Some(late) => self.to_store.push_back(late),
            None => {
                self.core.metrics.stray_returns.inc();
            }
        }
    }
}

async fn look(core: Arc<Core>, jid: Jid, after: Duration) -> Done {
    tokio::time::sleep(after).await;
    let found = match core.link.get::<Job>(&Key::Job(jid.clone())).await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%jid, "the job of a return could not be read: {error}");
            return Done::Looked { jid, found: None };
        }
    };
    let record = found.map(|found| found.value);
    let over = record.as_ref().is_some_and(|job| job.status.is_terminal());
    let running = record.is_some() && !over;
    let fresh = if running { Duration::ZERO } else { STRAY_FRESH };
    let over = record.filter(|_| over).map(|mut job| {
        let targets = std::mem::take(&mut job.targets).into_iter().collect();
        job.missing.clear();
        job.request.clear();
        job.args.clear();
        Arc::new(Over { job, targets })
    });
    Done::Looked { jid, found: Some(Look { until: Instant::now() + fresh, running, over }) }
}

async fn read(core: Arc<Core>, from: Sequence) -> Done {
    let link = &core.link;
    loop {
        match link.bus().replay(JOB_EVENTS, ALL_RETURNS, from).await {
            Ok(page) => {
                let open = |record: &Record| {
                    let subject = Subject::parse(&record.subject).ok()?;
                    Some(link.open_addressed::<Return>(&subject, &record.payload)?.message)
                };
                let returns = page.items.iter().filter_map(open).collect();
                return Done::Read { returns, next: page.next };
            }
            // The connection is gone again; when it is back, this is tried anew.
            Err(error) if error.kind() == Kind::Disconnected || error.kind() == Kind::Closed => {
                return Done::Stored;
            }
            Err(error) => tracing::debug!("the stream could not be read again: {error}"),
        }
        tokio::time::sleep(core.timing.retry_pause).await;
    }
}

async fn store(core: Arc<Core>, ret: Return) -> Done {
    let key = Key::Return(ret.jid.clone(), ret.peel.clone());
    for _ in 0..STORE_TRIES {
        match core.link.create(&key, &ret).await {
            Ok(_) => {
                core.metrics.late_returns.inc();
                return Done::Stored;
            }
            // It had returned, or another master was faster.
            Err(error) if error.is_conflict() => return Done::Stored,
            Err(error) => tracing::debug!(%key, "a late return was not stored: {error}"),
        }
        tokio::time::sleep(core.timing.retry_pause).await;
    }
    tracing::warn!(%key, "a late return was not stored");
    Done::Stored
}
