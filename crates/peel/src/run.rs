//! Starting the actor, and the values that it is given.

mod actor;
mod beacons;
mod carry;
mod facts;
mod gauges;
mod heart;
mod intake;
pub(crate) mod judge;
pub(crate) mod limits;
mod outage;
mod presence;
mod schedule;
mod seen;
mod startup;
mod tasks;

use self::actor::Actor;
use crate::policy::PolicyFile;
use crate::store::Store;
use crate::work::Work;
use crate::{beacons as beacons_of_peel, schedule as schedule_of_peel};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_wire::{PeelId, Token};

pub struct Setup {
    pub id: PeelId,
    /// New at every start.
    pub boot: Token,
    pub timing: Timing,
    pub version: String,
}

/// Why a peel cannot go on.
#[derive(Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Lives until `stop`. Dropping the future is a crash: every task of it ends at once.
pub async fn run(
    link: Link,
    store: Arc<dyn Store>,
    work: Arc<dyn Work>,
    setup: Setup,
    health: Arc<Health>,
    stop: CancellationToken,
) -> Result<(), Error> {
    Actor::new(link, store, work, setup, health).live(stop).await
}

/// What a peel does beside its jobs, and what it does not do.
#[derive(Default)]
pub struct OwnWork {
    /// What it does by itself and when (D-10).
    pub schedule: Option<schedule_of_peel::Options>,
    /// What it watches.
    pub beacons: Option<beacons_of_peel::Options>,
    /// What it does for others; none: whatever masters and operators ask.
    pub policy: Option<PolicyFile>,
}

/// The same for a peel that also does something by itself.
pub async fn run_with(
    link: Link,
    store: Arc<dyn Store>,
    work: Arc<dyn Work>,
    setup: Setup,
    own: OwnWork,
    health: Arc<Health>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let mut actor = Actor::new(link, store, work, setup, health.clone());
    if let Some(options) = own.schedule {
        let opened = tokio::task::spawn_blocking(move || schedule::Scheduler::open(options)).await;
        let opened = opened.map_err(|error| Error(error.to_string()))?;
        actor.schedule = Some(opened.map_err(|error| Error(error.to_string()))?);
    }
    if let Some(file) = own.policy {
        actor.begin_policy(file);
    }
    if let Some(options) = own.beacons {
        actor.begin_beacons(options, health);
    }
    actor.live(stop).await
}
