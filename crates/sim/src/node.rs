//! One machine of the fleet: a master or a peel that can be started, stopped, crashed and cut off.

use crate::Mutation;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::journal::Journal;
use crate::meddler::Meddler;
use crate::script::Who;
use crate::work::Labour;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_bus::Bus;
use zester_bus::memory::Net;
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::{Clock, Link};
use zester_master::NoSettings;
use zester_wire::{BadName, Jid, MasterId, PeelId, UnixMillis};

/// When every life begins, for people who read the records.
pub const BIRTH: u64 = 1_800_000_000_000;

/// A clock that is off by the same amount all its life.
pub struct Skewed {
    pub begin: Instant,
    pub skew_ms: i64,
}

impl Clock for Skewed {
    fn wall(&self) -> UnixMillis {
        let elapsed = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        UnixMillis(BIRTH.saturating_add(elapsed).saturating_add_signed(self.skew_ms))
    }
}

/// What all nodes share.
#[derive(Clone)]
pub struct Ground {
    pub seed: u64,
    pub mutation: Mutation,
    pub work: Option<Duration>,
    pub net: Net,
    pub begin: Instant,
    pub journal: Journal,
    pub doomed: Arc<Mutex<BTreeSet<Jid>>>,
    /// Somebody asks for its own end.
    pub dying: Arc<Notify>,
}

pub struct Node {
    pub who: Who,
    pub name: String,
    pub disk: Disk,
    skew_ms: i64,
    boots: u64,
    cut: bool,
    life: Option<Life>,
}

struct Life {
    task: JoinHandle<()>,
    stop: CancellationToken,
    /// The master asks for its own end.
    wants_to_die: Arc<AtomicBool>,
}

impl Node {
    pub fn new(who: Who, skew_ms: i64, mutation: Mutation) -> Node {
        let name = match who {
            Who::Master(number) => format!("m{number}"),
            Who::Peel(number) => format!("p{number}"),
        };
        let disk = Disk::new(mutation == Mutation::DropDedupWrite);
        Node { who, name, disk, skew_ms, boots: 0, cut: false, life: None }
    }

    pub fn start(&mut self, ground: &Ground) -> Result<(), BadName> {
        if self.life.as_ref().is_some_and(|life| !life.task.is_finished()) {
            return Ok(());
        }
        self.boots += 1;
        let boot = self.boot();
        let bus: Arc<dyn Bus> = Arc::new(ground.net.connect(&self.name));
        if self.cut {
            ground.net.cut(&self.name);
        }
        let clock = Arc::new(Skewed { begin: ground.begin, skew_ms: self.skew_ms });
        let dice = Arc::new(Dice::new(ground.seed, &boot));
        let stop = CancellationToken::new();
        let wants_to_die = Arc::new(AtomicBool::new(false));
        let health = Arc::new(Health::new());
        let task = match self.who {
            Who::Master(_) => {
                let meddler = Meddler {
                    bus,
                    mutation: ground.mutation,
                    journal: ground.journal.clone(),
                    boot: boot.clone(),
                    doomed: ground.doomed.clone(),
                    wants_to_die: wants_to_die.clone(),
                    dying: ground.dying.clone(),
                    memory: Mutex::default(),
                };
                let same = ground.mutation == Mutation::SameOwnerId;
                let setup = zester_master::Setup {
                    id: MasterId::new(&self.name, if same { "always" } else { &boot })?,
                    timing: Timing::default(),
                    replicas: Some(1),
                    version: "sim".into(),
                    settings: Arc::new(NoSettings),
                };
                let link = Link::with(Arc::new(meddler), clock, dice);
                let stop = stop.clone();
                tokio::spawn(async move {
                    let _ended = zester_master::run(link, setup, health, stop).await;
                })
            }
            Who::Peel(_) => {
                let link = Link::with(bus, clock, dice);
                let peel = PeelId::parse(&self.name)?;
                let labour = Labour {
                    seed: ground.seed,
                    takes: ground.work,
                    peel: peel.clone(),
                    disk: self.disk.clone(),
                    journal: ground.journal.clone(),
                };
                let setup = zester_peel::Setup {
                    id: peel,
                    boot: zester_wire::Token::parse(&boot)?,
                    timing: Timing::default(),
                    version: "sim".into(),
                };
                let (store, stop) = (Arc::new(self.disk.clone()), stop.clone());
                tokio::spawn(async move {
                    let _ended = zester_peel::run(link, store, Arc::new(labour), setup, health, stop).await;
                })
            }
        };
        self.life = Some(Life { task, stop, wants_to_die });
        self.tell_presence(ground);
        Ok(())
    }

    /// Everything it was doing is gone at once.
    pub async fn crash(&mut self, ground: &Ground) {
        if let Some(life) = self.life.take() {
            life.task.abort();
            // Its connection ends with it, before anything else happens.
            let _aborted = life.task.await;
        }
        self.tell_presence(ground);
    }

    /// Asks it to end, and waits; what does not end in time is killed, as an init system would.
    pub async fn stop(&mut self, ground: &Ground) {
        if let Some(life) = &mut self.life {
            life.stop.cancel();
            if tokio::time::timeout(STOP_PATIENCE, &mut life.task).await.is_ok() {
                self.life = None;
            }
        }
        self.crash(ground).await;
    }

    pub fn set_cut(&mut self, cut: bool, ground: &Ground) {
        self.cut = cut;
        if cut {
            ground.net.cut(&self.name);
        } else {
            ground.net.heal(&self.name);
        }
        self.tell_presence(ground);
    }

    /// Whether it asked for its end.
    pub fn wants_to_die(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.wants_to_die.load(Ordering::Relaxed))
    }

    /// Which life this is: an owner is one life of a master.
    fn boot(&self) -> String {
        format!("{}x{}", self.name, self.boots)
    }

    fn tell_presence(&self, ground: &Ground) {
        let present = self.life.is_some() && !self.cut;
        ground.journal.presence(&self.name, present);
        ground.journal.presence(&self.boot(), present);
    }
}

const STOP_PATIENCE: Duration = Duration::from_secs(60);
