//! One peel with work that does what its request says, and a master's view of the bus.

use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::{Bus, Listen, Subscription, storage};
use zester_health::Health;
use zester_jobs::Timing;
use zester_jobs::dedup::{Dispatch, Entry};
use zester_link::{Clock, Link, OsDice};
use zester_peel::store::{BoxFuture, MemoryStore, StoreError};
use zester_peel::work::{FunctionAsked, StartupFailure, StateEnded, Tell};
use zester_peel::{Error, Outcome, OwnWork, Setup, Store, Work, run_with, schedule};
use zester_wire::*;

pub const PEEL: &str = "web-1";
/// Longer than anything here takes; time is paused, so it costs nothing.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the peel did, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Did {
    Began(Jid),
    Ended(Jid),
    KilledLeftovers,
}

/// Functions: `test.ping` answers at once, `test.hold` and `cmd.run` wait for `release` or a cancel, `test.crash` panics.
#[derive(Clone)]
pub struct Fake {
    pub did: Arc<Mutex<Vec<Did>>>,
    pub release: Arc<Semaphore>,
    pub facts: Arc<Mutex<Value>>,
    pub gathered: Arc<AtomicUsize>,
    /// What it does at its start, once `states` are there.
    pub startup: Option<FunctionAsked>,
    pub states: Arc<Semaphore>,
    /// Every request as it came.
    pub asked: Arc<Mutex<Vec<ExecRequest>>>,
    pub settings: Arc<Mutex<Result<Value, String>>>,
    /// Settings that are never rendered.
    pub settings_hang: Arc<AtomicBool>,
    /// Nobody has said yet which settings there are.
    pub settings_unknown: Arc<AtomicBool>,
    pub startup_failures: Arc<Mutex<Vec<StartupFailure>>>,
}

impl Fake {
    fn new() -> Fake {
        Fake {
            did: Arc::default(),
            release: Arc::new(Semaphore::new(0)),
            facts: Arc::new(Mutex::new(json!({"id": PEEL, "os": "Debian"}))),
            gathered: Arc::default(),
            startup: None,
            states: Arc::new(Semaphore::new(0)),
            asked: Arc::default(),
            settings: Arc::new(Mutex::new(Ok(json!({})))),
            settings_hang: Arc::default(),
            settings_unknown: Arc::default(),
            startup_failures: Arc::default(),
        }
    }

    pub fn did(&self) -> Vec<Did> {
        self.did.lock().unwrap().clone()
    }

    fn note(&self, did: Did) {
        self.did.lock().unwrap().push(did);
    }
}

impl Work for Fake {
    fn execute(&self, request: ExecRequest, tell: Tell, cancel: CancellationToken) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(request.clone());
            self.note(Did::Began(request.jid.clone()));
            tell(StateEnded { ended: 1, total: 1, state: json!({"name": request.function}) });
            let canceled = match request.function.as_str() {
                "test.crash" => panic!("a bug"),
                "test.hold" | "cmd.run" => tokio::select! {
                    biased;
                    () = cancel.cancelled() => true,
                    permit = self.release.acquire() => { permit.unwrap().forget(); false }
                },
                _ => false,
            };
            self.note(Did::Ended(request.jid.clone()));
            let error = if canceled { "it was stopped".into() } else { String::new() };
            let answer = request.args.get("answer").cloned().unwrap_or(json!(true));
            Outcome { success: !canceled, error, answer, canceled, revision: None }
        })
    }

    fn kill_leftovers(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.note(Did::KilledLeftovers) })
    }

    fn startup(&self) -> Option<FunctionAsked> {
        self.startup.clone()
    }

    fn states_appear(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.states.acquire().await.unwrap()) })
    }

    fn settings(&self) -> BoxFuture<'_, Result<Value, String>> {
        let settings = self.settings.lock().unwrap().clone();
        match self.settings_hang.load(Ordering::Relaxed) {
            true => Box::pin(std::future::pending()),
            false => Box::pin(std::future::ready(settings)),
        }
    }

    fn settings_are_known(&self) -> bool {
        !self.settings_unknown.load(Ordering::Relaxed)
    }

    fn startup_failed(&self, failure: StartupFailure) -> BoxFuture<'_, ()> {
        self.startup_failures.lock().unwrap().push(failure);
        Box::pin(async {})
    }

    fn facts(&self) -> BoxFuture<'_, Map<String, Value>> {
        self.gathered.fetch_add(1, Ordering::Relaxed);
        let facts = self.facts.lock().unwrap().as_object().unwrap().clone();
        Box::pin(std::future::ready(facts))
    }
}

/// A disk that can be full.
#[derive(Clone, Default)]
pub struct Disk {
    pub store: MemoryStore,
    pub full: Arc<AtomicBool>,
}

impl Disk {
    fn write<'a>(
        &self,
        write: impl FnOnce() -> BoxFuture<'a, Result<(), StoreError>>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        if self.full.load(Ordering::Relaxed) {
            return Box::pin(std::future::ready(Err(StoreError("no space left on device".into()))));
        }
        write()
    }
}

impl Store for Disk {
    fn load(&self) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        self.store.load()
    }

    fn put_entry(&self, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(|| self.store.put_entry(entry))
    }

    fn put_return(&self, ret: Return) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(|| self.store.put_return(ret))
    }

    fn get_return(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<Option<Return>, StoreError>> {
        self.store.get_return(dispatch)
    }

    fn forget(&self, dispatches: Vec<Dispatch>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(|| self.store.forget(dispatches))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.write(|| self.store.check())
    }
}

/// A wall that moves with tokio's time.
struct Wall(Instant);

impl Clock for Wall {
    fn wall(&self) -> UnixMillis {
        UnixMillis(1_700_000_000_000).plus(self.0.elapsed())
    }
}

pub struct World {
    pub net: Net,
    pub master: Link,
    pub disk: Disk,
    pub work: Fake,
    pub health: Arc<Health>,
    pub dropped: Arc<zester_link::Dropped>,
    wall: Arc<Wall>,
    acks: Subscription,
    returns: Subscription,
    /// The heartbeats, and the last that was read.
    heartbeats: tokio::sync::Mutex<(Subscription, Option<PeelHeartbeat>)>,
    life: Option<(CancellationToken, JoinHandle<Result<(), Error>>)>,
}

pub fn peel_id() -> PeelId {
    PeelId::parse(PEEL).unwrap()
}

impl World {
    pub async fn new() -> World {
        let net = Net::new(Arc::new(TokioClock::new()));
        let wall = Arc::new(Wall(Instant::now()));
        let bus: Arc<dyn Bus> = Arc::new(net.connect("master"));
        storage::ensure_all(bus.as_ref(), &storage::table(), 1).await.unwrap();
        let master = Link::with(bus, wall.clone(), Arc::new(OsDice));
        let acks = master.bus().subscribe(subject::ALL_ACKS, Listen::alone(1_000)).await.unwrap();
        let returns = master.bus().subscribe(subject::ALL_RETURNS, Listen::alone(1_000)).await.unwrap();
        let heartbeats =
            master.bus().subscribe(subject::ALL_HEARTBEATS, Listen::alone(100_000)).await.unwrap();
        World {
            net,
            disk: Disk::default(),
            work: Fake::new(),
            health: Arc::default(),
            dropped: master.dropped().clone(),
            master,
            wall,
            acks,
            returns,
            heartbeats: tokio::sync::Mutex::new((heartbeats, None)),
            life: None,
        }
    }

    /// A world in which the peel is there and known to be.
    pub async fn started() -> World {
        let mut world = World::new().await;
        world.start();
        world.heartbeat(|_| true).await;
        world
    }

    pub fn start(&mut self) {
        self.start_with(None);
    }

    pub fn start_with(&mut self, schedule: Option<schedule::Options>) {
        self.start_own(OwnWork { schedule, ..OwnWork::default() });
    }

    pub fn start_own(&mut self, own: OwnWork) {
        let link = Link::with(Arc::new(self.net.connect(PEEL)), self.wall.clone(), Arc::new(OsDice));
        self.dropped = link.dropped().clone();
        let setup = Setup {
            id: peel_id(),
            boot: link.new_token().unwrap(),
            timing: Timing::default(),
            version: "1.2.3".into(),
        };
        self.health = Arc::default();
        let (store, work) = (Arc::new(self.disk.clone()), Arc::new(self.work.clone()));
        let stop = CancellationToken::new();
        let (health, ending) = (self.health.clone(), stop.clone());
        let life = tokio::spawn(run_with(link, store, work, setup, own, health, ending));
        self.life = Some((stop, life));
    }

    /// As kill -9.
    pub async fn crash(&mut self) {
        let (_, life) = self.life.take().unwrap();
        life.abort();
        assert!(life.await.unwrap_err().is_cancelled());
    }

    pub async fn stop(&mut self) {
        let (stop, life) = self.life.take().unwrap();
        stop.cancel();
        patient(life).await.unwrap().unwrap();
    }

    pub fn request(&self, function: &str) -> ExecRequest {
        crate::fixture::request(self.master.new_jid(), function)
    }

    pub async fn send(&self, request: &ExecRequest) {
        self.tell(&PeelCommand::Exec(request.clone())).await;
    }

    pub async fn cancel(&self, request: &ExecRequest) {
        let (jid, dispatch_epoch) = (request.jid.clone(), request.dispatch_epoch);
        let cancel = Cancel { v: VERSION, jid, dispatch_epoch, reason: "cancelled by user".into() };
        self.tell(&PeelCommand::Cancel(cancel)).await;
    }

    pub async fn tell(&self, command: &PeelCommand) {
        self.master.publish(&Subject::Command { peel: peel_id() }, command).await.unwrap();
    }

    pub async fn ack(&mut self) -> Ack {
        let raw = self.master.delivered(patient(self.acks.next()).await.unwrap()).unwrap();
        let subject = self.master.subject_of(&raw).unwrap();
        self.master.open_addressed::<Ack>(&subject, &raw.payload).unwrap().message
    }

    pub async fn returned(&mut self) -> Return {
        let raw = self.master.delivered(patient(self.returns.next()).await.unwrap()).unwrap();
        let subject = self.master.subject_of(&raw).unwrap();
        self.master.open_addressed::<Return>(&subject, &raw.payload).unwrap().message
    }

    /// Nothing was returned although everybody had time to.
    pub async fn nothing_returned(&mut self) {
        let waited = tokio::time::timeout(Duration::from_secs(20), self.returns.next()).await;
        assert!(waited.is_err(), "{waited:?}");
    }

    pub async fn heartbeat(&self, fits: impl Fn(&PeelHeartbeat) -> bool) -> PeelHeartbeat {
        let mut heard = self.heartbeats.lock().await;
        // Whatever was sent meanwhile; only the last of it counts.
        while let Ok(raw) = tokio::time::timeout(Duration::ZERO, heard.0.next()).await {
            heard.1 = Some(self.opened(raw));
        }
        patient(async {
            loop {
                if let Some(last) = heard.1.as_ref().filter(|last| fits(last)) {
                    return last.clone();
                }
                let raw = heard.0.next().await;
                heard.1 = Some(self.opened(raw));
            }
        })
        .await
    }

    fn opened(&self, delivery: Option<zester_bus::Delivery>) -> PeelHeartbeat {
        let raw = self.master.delivered(delivery.unwrap()).unwrap();
        let subject = self.master.subject_of(&raw).unwrap();
        self.master.open_addressed::<PeelHeartbeat>(&subject, &raw.payload).unwrap().message
    }

    /// The record of when the peel was last there.
    pub async fn seen(&self, fits: impl Fn(&PeelHeartbeat) -> bool) -> PeelHeartbeat {
        self.record(Key::Peel(peel_id()), fits).await
    }

    pub async fn facts(&self, fits: impl Fn(&FactsRecord) -> bool) -> FactsRecord {
        self.record(Key::Facts(peel_id()), fits).await
    }

    async fn record<T: Message>(&self, key: Key, fits: impl Fn(&T) -> bool) -> T {
        patient(async {
            loop {
                if let Some(found) = self.master.get::<T>(&key).await.unwrap()
                    && fits(&found.value)
                {
                    return found.value;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }

    pub async fn until_did(&self, did: Did) {
        patient(async {
            while !self.work.did().contains(&did) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
}

pub async fn patient<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("it did not happen")
}
