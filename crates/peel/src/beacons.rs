//! What a peel watches by itself: its beacons, each in a task of its own, and the events that wait for the bus.
//!
//! The settings say which there are. A beacon whose words have not changed goes on with what it knows when others come; a
//! configuration that is wrong changes nothing. No beacon looks while an execution changes the machine, none looks again
//! before it has rested as long as its last look took, and one that hangs holds up only itself.

mod board;
mod follow;
mod outbox;
mod watch;

pub(crate) use board::Board;

use crate::published::DiskCache;
use crate::work::Work;
use follow::Follower;
use outbox::Outbox;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch as signal;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio::time::Instant;
use watch::Watch;
use zester_beacons::{Entry, Eyes};
use zester_health::prometheus_client::encoding::EncodeLabelSet;
use zester_health::prometheus_client::metrics::counter::Counter;
use zester_health::prometheus_client::metrics::family::Family;
use zester_health::{Health, State};
use zester_link::Link;
use zester_wire::PeelId;

/// The line of `readyz`.
const HEALTH: &str = "beacons";
/// How soon a beacon that crashed begins anew.
const CRASH_PAUSE: Duration = Duration::from_secs(60);

/// What beacons look with, and who says which there are.
#[derive(Clone)]
pub struct Options {
    pub eyes: Eyes,
    /// Published settings, to notice that they are others.
    pub settings_cache: Option<Arc<DiskCache>>,
}

/// The label of the events that were made.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Made {
    beacon: String,
}

/// What all beacons of a peel share.
struct Shared {
    eyes: Eyes,
    link: Link,
    peel: PeelId,
    since: Instant,
    /// Whether an execution changes the machine now.
    busy: signal::Receiver<bool>,
    board: Arc<Board>,
    outbox: Outbox,
    made: Family<Made, Counter>,
}

/// Runs the beacons of a peel; ends only with its task.
pub(crate) async fn run(
    options: Options,
    link: Link,
    peel: PeelId,
    work: Arc<dyn Work>,
    busy: signal::Receiver<bool>,
    board: Arc<Board>,
    health: Arc<Health>,
) {
    let (made, dropped) = (Family::<Made, Counter>::default(), Counter::default());
    health.register(|registry| {
        registry.register("zester_peel_beacon_events", "Events that beacons made", made.clone());
        let words = "Events of beacons that were dropped while there was no bus";
        registry.register("zester_peel_beacon_events_dropped", words, dropped.clone());
    });
    let outbox = Outbox::new(dropped);
    let shared =
        Arc::new(Shared { eyes: options.eyes, since: Instant::now(), outbox, link, peel, busy, board, made });
    let mut tasks = JoinSet::new();
    let sender = shared.clone();
    tasks.spawn(async move { sender.outbox.drain(&sender.link).await });
    let follower = Follower::new(options.settings_cache);
    Beacons { shared, tasks, running: BTreeMap::new(), health, told: None }.live(follower, work).await;
}

struct Running {
    entry: Entry,
    task: AbortHandle,
}

struct Beacons {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    running: BTreeMap<String, Running>,
    health: Arc<Health>,
    /// What is wrong with the configuration, as it was last told.
    told: Option<String>,
}

impl Beacons {
    async fn live(mut self, mut follower: Follower, work: Arc<dyn Work>) {
        loop {
            tokio::select! {
                found = follower.next(work.as_ref()) => self.configured(found),
                Some(joined) = self.tasks.join_next_with_id() => {
                    if let Err(error) = joined && error.is_panic() {
                        self.crashed(error.id());
                    }
                }
            }
        }
    }

    fn configured(&mut self, found: Result<Vec<Entry>, String>) {
        let problem = match found {
            Ok(entries) => {
                self.replace(entries);
                None
            }
            Err(why) => Some(format!("the last good ones stay in force: {why}")),
        };
        if problem == self.told {
            return;
        }
        match &problem {
            Some(why) => {
                tracing::error!("something is wrong with the beacons: {why}");
                self.health.set(HEALTH, State::Degraded(why.clone()));
            }
            None => {
                tracing::info!("the beacons are good again");
                self.health.set(HEALTH, State::Up);
            }
        }
        self.shared.board.wrong(problem.clone());
        self.told = problem;
    }

    /// What is as it was goes on.
    fn replace(&mut self, entries: Vec<Entry>) {
        let mut before = std::mem::take(&mut self.running);
        for entry in entries {
            match before.remove(&entry.name) {
                Some(running) if is_same(&running.entry, &entry) => {
                    self.running.insert(entry.name.clone(), running);
                }
                Some(running) => {
                    running.task.abort();
                    self.begin(entry, Duration::ZERO);
                }
                None => self.begin(entry, Duration::ZERO),
            }
        }
        for (name, running) in before {
            tracing::info!("the beacon `{name}` is no more");
            running.task.abort();
            self.shared.board.forget(&name);
        }
    }

    fn begin(&mut self, entry: Entry, pause: Duration) {
        let beacon = match entry.build() {
            Ok(beacon) => beacon,
            // It was tried out when it was read.
            Err(why) => return tracing::error!("the beacon `{}` cannot begin: {why}", entry.name),
        };
        tracing::info!("the beacon `{}` looks every {:?}", entry.name, entry.interval);
        self.shared.board.begins(&entry);
        let watch = Watch { shared: self.shared.clone(), entry: entry.clone(), beacon };
        let task = self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            watch.live().await;
        });
        if let Some(earlier) = self.running.insert(entry.name.clone(), Running { entry, task }) {
            earlier.task.abort();
        }
    }

    fn crashed(&mut self, task: Id) {
        let Some(name) =
            self.running.iter().find(|(_, one)| one.task.id() == task).map(|(name, _)| name.clone())
        else {
            return;
        };
        tracing::error!("the beacon `{name}` crashed; it begins anew in {CRASH_PAUSE:?}");
        if let Some(crashed) = self.running.remove(&name) {
            self.begin(crashed.entry, CRASH_PAUSE);
        }
    }
}

fn is_same(one: &Entry, other: &Entry) -> bool {
    one.kind == other.kind && one.value == other.value
}
