//! One machine of the fleet: a master or a peel that can be started, stopped, crashed and cut off.

use crate::Mutation;
use crate::crash::{Caller, CrashPoints};
use crate::dice::Dice;
use crate::disk::{Disk, DiskTap};
use crate::observed::Observed;
use crate::publishing::{self, MasterTree, PeelCache};
use crate::reactions;
use crate::script::Who;
use crate::tap::BusTap;
use crate::work::SimulatedWork;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_bus::Bus;
use zester_bus::memory::Net;
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::{Clock, Link};
use zester_master::{NoSettings, Publishing, Source};
use zester_wire::{BadName, Jid, MasterId, PeelId, UnixMillis};

/// When every simulation begins, for people who read the records.
pub const BEGIN: u64 = 1_800_000_000_000;

/// A wall clock that is off, and may be set.
#[derive(Clone)]
pub struct SkewedClock {
    pub begin: Instant,
    pub skew_ms: Arc<AtomicI64>,
}

impl SkewedClock {
    pub fn new(begin: Instant, skew_ms: i64) -> SkewedClock {
        SkewedClock { begin, skew_ms: Arc::new(AtomicI64::new(skew_ms)) }
    }
}

impl Clock for SkewedClock {
    fn wall(&self) -> UnixMillis {
        let elapsed = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let skew = self.skew_ms.load(Ordering::Relaxed);
        UnixMillis(BEGIN.saturating_add(elapsed).saturating_add_signed(skew))
    }
}

/// What all nodes share.
#[derive(Clone)]
pub struct Environment {
    pub seed: u64,
    pub mutation: Mutation,
    pub work: Option<Duration>,
    pub net: Net,
    pub begin: Instant,
    pub observed: Observed,
    pub doomed: Arc<Mutex<BTreeSet<Jid>>>,
    pub crash_points: CrashPoints,
    /// Whether masters have something to publish.
    pub publishes: bool,
    /// Whether they react to events.
    pub reacts: bool,
}

pub struct Node {
    pub who: Who,
    pub name: String,
    pub disk: Disk,
    /// What a master publishes.
    pub tree: MasterTree,
    /// What a peel has of it.
    pub cache: Arc<PeelCache>,
    clock: SkewedClock,
    boots: u64,
    line: Line,
    process: Option<Process>,
}

/// Its connection to the bus.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Line {
    Up,
    Cut,
    Silent,
}

struct Process {
    task: JoinHandle<()>,
    stop: CancellationToken,
    /// It asks for its own end.
    wants_to_die: Arc<AtomicBool>,
}

impl Node {
    pub fn new(who: Who, skew_ms: i64, environment: &Environment) -> Node {
        let name = who.name();
        let disk = Disk::new(environment.seed, &name, environment.mutation);
        let clock = SkewedClock::new(environment.begin, skew_ms);
        let (tree, cache) = (MasterTree::default(), Arc::new(PeelCache::new(&name, environment)));
        Node { who, name, disk, tree, cache, clock, boots: 0, line: Line::Up, process: None }
    }

    pub fn start(&mut self, environment: &Environment) -> Result<(), BadName> {
        if self.process.as_ref().is_some_and(|process| !process.task.is_finished()) {
            return Ok(());
        }
        self.boots += 1;
        let boot = self.boot();
        let bus: Arc<dyn Bus> = Arc::new(environment.net.connect(&self.name));
        if self.line != Line::Up {
            // Whoever starts on a dead line has no connection, and knows it.
            environment.net.cut(&self.name);
            self.line = Line::Cut;
        }
        let dice = Arc::new(Dice::new(environment.seed, &boot));
        let wants_to_die = Arc::new(AtomicBool::new(false));
        let caller = Caller {
            node: self.name.clone(),
            points: environment.crash_points.clone(),
            wants_to_die: wants_to_die.clone(),
        };
        let tap = BusTap {
            bus,
            mutation: environment.mutation,
            observed: environment.observed.clone(),
            boot: boot.clone(),
            doomed: environment.doomed.clone(),
            caller: caller.clone(),
            dice: Dice::new(environment.seed, &format!("tap {boot}")),
            memory: Mutex::default(),
        };
        let link = Link::with(Arc::new(tap), Arc::new(self.clock.clone()), dice);
        let stop = CancellationToken::new();
        let task = match self.who {
            Who::Master(_) => self.start_master(environment, link, &boot, stop.clone())?,
            Who::Peel(_) => self.start_peel(environment, link, &boot, caller, stop.clone())?,
        };
        self.process = Some(Process { task, stop, wants_to_die });
        self.tell_presence(environment);
        Ok(())
    }

    fn start_master(
        &self,
        environment: &Environment,
        link: Link,
        boot: &str,
        stop: CancellationToken,
    ) -> Result<JoinHandle<()>, BadName> {
        let setup = zester_master::Setup {
            id: MasterId::new(&self.name, boot)?,
            timing: match environment.mutation {
                Mutation::NoPatience => Timing {
                    silence_noticed: Duration::ZERO,
                    reconnect_spread: Duration::ZERO,
                    ..Timing::default()
                },
                _ => Timing::default(),
            },
            replicas: Some(1),
            version: "sim".into(),
            settings: Arc::new(NoSettings),
            reacting: reactions::reacting(environment, boot),
            door: None,
            revoker: None,
            publishing: Publishing {
                sources: match environment.publishes {
                    true => vec![Source {
                        published: publishing::WHAT,
                        origin: Arc::new(self.tree.clone()),
                        over: None,
                    }],
                    false => Vec::new(),
                },
                ..Publishing::default()
            },
        };
        let health = Arc::new(Health::new());
        Ok(tokio::spawn(async move {
            let _ended = zester_master::run(link, setup, health, stop).await;
        }))
    }

    fn start_peel(
        &self,
        environment: &Environment,
        link: Link,
        boot: &str,
        caller: Caller,
        stop: CancellationToken,
    ) -> Result<JoinHandle<()>, BadName> {
        let peel = PeelId::parse(&self.name)?;
        let observed = environment.observed.clone();
        let work = SimulatedWork {
            seed: environment.seed,
            begin: environment.begin,
            takes: environment.work,
            peel: peel.clone(),
            disk: self.disk.clone(),
            observed: observed.clone(),
        };
        let boot = zester_wire::Token::parse(boot)?;
        let setup = move || zester_peel::Setup {
            id: peel.clone(),
            boot: boot.clone(),
            timing: Timing::default(),
            version: "sim".into(),
        };
        let store = Arc::new(DiskTap { disk: self.disk.clone(), caller, observed });
        let health = Arc::new(Health::new());
        let follows = environment.publishes && environment.mutation != Mutation::DeafToRevisions;
        let following = {
            let (link, cache, health) = (link.clone(), self.cache.clone(), health.clone());
            async move {
                if follows {
                    // A peel whose disk fails at the start ends, and its init system starts it again.
                    let opened = loop {
                        match cache.open() {
                            Ok(opened) => break Arc::new(opened),
                            Err(_) => tokio::time::sleep(RESTART_PAUSE).await,
                        }
                    };
                    zester_peel::published::follow(link, publishing::WHAT, opened, health).await;
                }
                std::future::pending::<()>().await;
            }
        };
        let living = async move {
            // A peel whose disk fails at the start ends, and its init system starts it again.
            loop {
                let (link, store, work) = (link.clone(), store.clone(), Arc::new(work.clone()));
                let ended = zester_peel::run(link, store, work, setup(), health.clone(), stop.clone()).await;
                if ended.is_ok() || stop.is_cancelled() {
                    return;
                }
                tokio::time::sleep(RESTART_PAUSE).await;
            }
        };
        Ok(tokio::spawn(async move {
            tokio::select! {
                biased;
                () = living => {}
                () = following => {}
            }
        }))
    }

    /// Everything it was doing is gone at once.
    pub async fn crash(&mut self, environment: &Environment) {
        if let Some(process) = self.process.take() {
            process.task.abort();
            // Its connection ends with it, before anything else happens.
            let _aborted = process.task.await;
        }
        self.tell_presence(environment);
    }

    /// Asks it to end, and waits; what does not end in time is killed, as an init system would.
    pub async fn stop(&mut self, environment: &Environment) {
        if let Some(process) = &mut self.process {
            process.stop.cancel();
            if tokio::time::timeout(STOP_PATIENCE, &mut process.task).await.is_ok() {
                self.process = None;
            }
        }
        self.crash(environment).await;
    }

    pub fn cut(&mut self, environment: &Environment) {
        environment.net.cut(&self.name);
        self.set_line(Line::Cut, environment);
    }

    pub fn silence(&mut self, keeps_unsent: bool, environment: &Environment) {
        if self.line == Line::Up {
            environment.net.silence(&self.name, keeps_unsent);
            self.set_line(Line::Silent, environment);
        }
    }

    pub fn heal(&mut self, environment: &Environment) {
        environment.net.heal(&self.name);
        self.set_line(Line::Up, environment);
    }

    fn set_line(&mut self, line: Line, environment: &Environment) {
        self.line = line;
        self.tell_presence(environment);
    }

    pub fn jump_clock(&self, by_ms: i64) {
        self.clock.skew_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Whether it asked for its end.
    pub fn wants_to_die(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.wants_to_die.load(Ordering::Relaxed))
    }

    /// Which start this is: an owner is one start of a master.
    fn boot(&self) -> String {
        format!("{}x{}", self.name, self.boots)
    }

    fn tell_presence(&self, environment: &Environment) {
        let present = self.process.is_some() && self.line == Line::Up;
        environment.observed.presence(&self.name, present);
        environment.observed.presence(&self.boot(), present);
        environment.observed.presence(&lives(&self.name), self.process.is_some());
    }
}

/// What the process of a node is called beside its connection, where only that counts whether it runs.
pub fn lives(name: &str) -> String {
    format!("{name} lives")
}

const STOP_PATIENCE: Duration = Duration::from_secs(60);
const RESTART_PAUSE: Duration = Duration::from_secs(1);
