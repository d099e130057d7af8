//! Start, life and stop of a master.

use crate::audit::Audit;
use crate::catch_up::CatchUp;
use crate::core::{Core, Orphans};
use crate::enroll::{self, Desk, DoorSetup, Enrollments, Revokes};
use crate::events::Tells;
use crate::external::{self, ExternalSettings};
use crate::heartbeat::{self, Beats};
use crate::index::{ForgetByAge, Heartbeats, Index, Keeper, PresenceEvents};
use crate::job::{EndedJobs, RunningJobs, Start};
use crate::late_returns::LateReturns;
use crate::limits::{
    DETACH_LIMIT, INDEX_POLL, INDEX_WAIT, PRESENCE_WAITING, REQUESTS_END_LIMIT, STARTS_WAITING,
};
use crate::metrics::{self, Metrics};
use crate::pruner::Pruner;
use crate::publisher::{Order, Orders, PublisherTask, Publishing};
use crate::reactor::{self, Reacting, Reactor};
use crate::router::Router;
use crate::scan::Scanner;
use crate::services::Services;
use crate::start::{self, Stores};
use crate::stores::{self, StoreHealth};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use zester_health::{Health, State};
use zester_jobs::Timing;
use zester_link::Link;
use zester_wire::{MasterId, PeelId};

/// The settings of a peel, secrets sealed, for `I@` targets (D-8).
pub trait SettingsOf: Send + Sync {
    /// Or why they do not render: then nobody knows whether an `I@` holds.
    fn settings(&self, peel: &PeelId, facts: &Value) -> Result<Value, String>;

    /// Why nobody's settings can be told now: which are published is not known yet. What must not take that for "nobody" asks
    /// here first.
    fn unknown(&self) -> Option<String> {
        None
    }

    /// Who knows more of each peel, and has to be asked for it.
    fn external(&self) -> Option<Arc<dyn ExternalSettings>> {
        None
    }
}

/// A fleet without settings.
pub struct NoSettings;

impl SettingsOf for NoSettings {
    fn settings(&self, _: &PeelId, _: &Value) -> Result<Value, String> {
        Ok(Value::Object(Map::new()))
    }
}

pub struct Setup {
    /// `<master id>.<boot id>`, new at every start (J-13).
    pub id: MasterId,
    pub timing: Timing,
    /// Copies of each stream; none: as many as the servers allow, up to three.
    pub replicas: Option<usize>,
    pub version: String,
    pub settings: Arc<dyn SettingsOf>,
    /// What this master publishes while it holds the lease for that (D-2).
    pub publishing: Publishing,
    /// How it reacts to events.
    pub reacting: Reacting,
    /// Where this master lets peels in; none: elsewhere.
    pub door: Option<DoorSetup>,
    /// How it has the server keep somebody out; none: it may not.
    pub revoker: Option<Arc<dyn Revokes>>,
}

/// Why a master cannot go on.
#[derive(Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Lives until `stop`, then detaches from its jobs (J-12). Dropping the future is a crash: every task of it ends at once.
pub async fn run(
    link: Link,
    setup: Setup,
    health: Arc<Health>,
    stop: CancellationToken,
) -> Result<(), Error> {
    health.set("bus", State::Down("the bus was not reached yet".into()));
    health.set("index", State::Down("the peels are not known yet".into()));
    health.set("jobs", State::Down("the master has just begun".into()));
    let stores = Stores::new(&setup.timing, setup.replicas, setup.reacting.ack_wait);
    let reactor = Reactor::new(setup.reacting, &health, link.now());
    match stop.run_until_cancelled(start::prepare(&link, &stores, &health)).await {
        Some(Ok(())) => {}
        Some(Err(error)) => return Err(Error(error.to_string())),
        None => return Ok(()),
    }
    let (starts, started) = mpsc::channel(STARTS_WAITING);
    let (orders, ordered) = Orders::new(!setup.publishing.sources.is_empty());
    let external = setup.settings.external();
    let (events, told) = Tells::new();
    let (enrollments, seen) = Enrollments::new(setup.revoker.is_some());
    let (audit, writer) = Audit::new();
    let core = Arc::new(Core {
        stores: StoreHealth::new(&link),
        beats: Beats::default(),
        index: Arc::new(Index::new(setup.timing.peel_ttl, setup.settings)),
        link,
        id: setup.id,
        version: setup.version,
        timing: setup.timing,
        running: RunningJobs::default(),
        ended: EndedJobs::default(),
        metrics: Metrics::default(),
        health: health.clone(),
        starts,
        detach: CancellationToken::new(),
        orphans: Orphans::default(),
        losses: Arc::default(),
        shares: crate::shares::Shares::new(),
        events,
        enrollments,
        audit,
        orders,
        reactor,
        jobs_elsewhere: AtomicUsize::new(0),
    });
    metrics::register(&core, &health);
    // Before any part of it reads or hears anything that is signed.
    if stop.run_until_cancelled(enroll::know_who_was_revoked(&core)).await.is_none() {
        return Ok(());
    }
    let publishing = Some((setup.publishing, ordered));
    let mut master = Master { core, started, publishing, actors: JoinSet::new(), jobs: JoinSet::new() };
    master.actors.spawn(stores.keep(master.core.link.clone()));
    master.actors.spawn(told.run(master.core.clone()));
    master.actors.spawn(enroll::Keeper::new(master.core.clone(), seen).run());
    if let Some(revoker) = setup.revoker {
        master.actors.spawn(enroll::run_revoker(master.core.clone(), revoker));
    }
    if let Some(setup) = setup.door {
        let (desk, door) = Desk::new(master.core.clone(), setup)
            .ok_or_else(|| Error("a door needs credentials: who signs nothing can let nobody in".into()))?;
        tracing::info!(address = %door.address(), "peels enroll here");
        let stop = stop.clone();
        master.actors.spawn(async move {
            door.open(desk, stop.clone()).await;
            // It ends with the master, which lets go of its jobs first.
            std::future::pending().await
        });
    }
    master.actors.spawn(writer.run(master.core.clone()));
    if let Some(external) = external {
        master.actors.spawn(external::run(master.core.clone(), external));
    }
    master.live(stop).await
}

/// The tasks of a master. They live here and nowhere deeper, so that they end with it.
struct Master {
    core: Arc<Core>,
    started: mpsc::Receiver<Start>,
    /// Until the task has them that publishes.
    publishing: Option<(Publishing, mpsc::Receiver<Order>)>,
    /// Each ends only when the bus is closed, or when it broke.
    actors: JoinSet<()>,
    jobs: JoinSet<()>,
}

impl Master {
    async fn live(mut self, stop: CancellationToken) -> Result<(), Error> {
        let core = self.core.clone();
        let (services_end, heartbeat_end) = (CancellationToken::new(), CancellationToken::new());
        let mut heartbeat = JoinSet::new();
        heartbeat.spawn(heartbeat::run(core.clone(), heartbeat_end.clone()));
        self.actors.spawn(Keeper::new(core.clone()).run());
        let (noticed, presence) = mpsc::channel(PRESENCE_WAITING);
        let presence = PresenceEvents::new(core.clone(), presence).map_err(|bad| Error(bad.to_string()))?;
        self.actors.spawn(Heartbeats::new(core.clone(), noticed).run());
        self.actors.spawn(presence.run());
        self.actors.spawn(ForgetByAge::new(core.clone()).run());
        let listening = async { (Router::listen(core.clone()).await, CatchUp::begin(core.clone()).await) };
        let listening = stop.run_until_cancelled(listening).await;
        let mut services = JoinSet::new();
        if let Some((router, catch_up)) = listening {
            self.actors.spawn(router.run());
            self.actors.spawn(catch_up.run());
            self.actors.spawn(LateReturns::new(core.clone()).run());
            services.spawn(serve(core.clone(), services_end.clone()));
            self.actors.spawn(Scanner::new(core.clone()).run());
            self.actors.spawn(stores::run(core.clone()));
            let pruner = Pruner::new(core.clone()).map_err(|bad| Error(bad.to_string()))?;
            self.actors.spawn(pruner.run());
            if let Some((publishing, ordered)) = self.publishing.take() {
                let publisher = PublisherTask::new(core.clone(), publishing, ordered);
                let (publisher, lease) = publisher.map_err(|bad| Error(bad.to_string()))?;
                self.actors.spawn(lease.run());
                self.actors.spawn(publisher.run());
            }
            if let Some(reactor) = core.reactor.clone() {
                self.actors.spawn(reactor::run(core.clone(), reactor));
            }
            self.work(&mut services, &stop).await?;
        }
        // First nothing new, then every job is let go, then nobody is here any more.
        services_end.cancel();
        self.wind_up(&mut services, REQUESTS_END_LIMIT.saturating_mul(2)).await;
        core.detach.cancel();
        self.let_go().await;
        core.events.settle().await;
        core.audit.settle().await;
        if let Some(reactor) = &core.reactor {
            reactor.settle(&core).await;
        }
        heartbeat_end.cancel();
        while heartbeat.join_next().await.is_some() {}
        core.health.set("jobs", State::Down("the master has stopped".into()));
        Ok(())
    }

    /// Until `stop`.
    async fn work(&mut self, services: &mut JoinSet<()>, stop: &CancellationToken) -> Result<(), Error> {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(start) = self.started.recv() => {
                    self.jobs.spawn(start.task.run());
                }
                Some(ended) = self.jobs.join_next() => self.job_ended(ended),
                ended = any_of(&mut self.actors, services) => {
                    let why = match ended {
                        Some(Err(error)) if error.is_panic() => "a part of the master broke",
                        _ => "the bus is closed",
                    };
                    return Err(Error(why.into()));
                }
            }
        }
    }

    /// A job whose task broke is adopted like that of a dead master.
    fn job_ended(&self, ended: Result<(), JoinError>) {
        if let Err(error) = ended {
            tracing::error!("the task of a job broke: {error}");
        }
    }

    /// Waits for tasks to end; jobs that are started meanwhile get theirs.
    async fn wind_up(&mut self, tasks: &mut JoinSet<()>, limit: Duration) {
        let end = async {
            loop {
                tokio::select! {
                    biased;
                    ended = tasks.join_next() => if ended.is_none() { return },
                    Some(start) = self.started.recv() => {
                        self.jobs.spawn(start.task.run());
                    }
                }
            }
        };
        let _out_of_time = timeout(limit, end).await;
    }

    async fn let_go(&mut self) {
        self.started.close();
        while let Some(start) = self.started.recv().await {
            self.jobs.spawn(start.task.run());
        }
        let end = async { while self.jobs.join_next().await.is_some() {} };
        if timeout(DETACH_LIMIT, end).await.is_err() {
            tracing::warn!(
                jobs = self.jobs.len(),
                "some jobs could not be let go in time; others will adopt them"
            );
        }
    }
}

/// Whichever of them ends first: none of them should.
async fn any_of(actors: &mut JoinSet<()>, services: &mut JoinSet<()>) -> Option<Result<(), JoinError>> {
    tokio::select! {
        biased;
        ended = actors.join_next() => ended,
        ended = services.join_next() => ended,
    }
}

/// Takes requests once the index is complete, or has taken too long to be.
async fn serve(core: Arc<Core>, end: CancellationToken) {
    let complete = async {
        while !core.index.is_current() {
            sleep(INDEX_POLL).await;
        }
    };
    if end.run_until_cancelled(timeout(INDEX_WAIT, complete)).await.is_some() {
        Services::listen(core).await.run(end).await;
    }
}
