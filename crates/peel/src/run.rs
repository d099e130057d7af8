//! Starting the actor, and the values that it is given.

mod actor;
mod carry;
mod facts;
mod gauges;
mod intake;
mod limits;
mod outage;
mod presence;
mod schedule;
mod seen;
mod startup;
mod tasks;

use self::actor::Actor;
use crate::schedule::Options;
use crate::store::Store;
use crate::work::Work;
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

/// The same for a peel that also does what its own schedule says (D-10).
pub async fn run_scheduled(
    link: Link,
    store: Arc<dyn Store>,
    work: Arc<dyn Work>,
    setup: Setup,
    schedule: Options,
    health: Arc<Health>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let opened = tokio::task::spawn_blocking(move || schedule::Scheduler::open(schedule)).await;
    let opened = opened.map_err(|error| Error(error.to_string()))?;
    let mut actor = Actor::new(link, store, work, setup, health);
    actor.schedule = Some(opened.map_err(|error| Error(error.to_string()))?);
    actor.live(stop).await
}
