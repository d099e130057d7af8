//! A memory bus with masters on it, clients, and peels that answer by hand.

use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_bus::memory::{Fate, Faults, Leg, Net, TokioClock};
use zester_bus::{Bus, Delivery, Listen, Store, Subscription, storage};
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::{Error, NoSettings, Publishing, Reacting, Setup, run};
use zester_wire::*;

/// Longer than anything takes that happens at all; time is paused, so it costs nothing.
pub const LONG: Duration = Duration::from_secs(600);

/// Between two looks. Time is paused: what matters is how many looks there are.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks until the answer is a value; ends the test when the deadline passes.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(start.elapsed() < LONG, "waited for this to happen: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

pub fn peel(name: &str) -> PeelId {
    PeelId::parse(name).unwrap()
}

pub struct Fleet {
    pub net: Net,
    /// A client's.
    pub link: Link,
    /// How masters react that are started from now on.
    pub reacting: Reacting,
}

/// One start of a master. Dropping it is a crash.
pub struct Master {
    pub id: MasterId,
    pub health: Arc<Health>,
    pub stop: CancellationToken,
    pub link: Link,
    task: JoinSet<Result<(), Error>>,
}

impl Master {
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.task.join_next().await.unwrap().unwrap().unwrap();
    }

    pub fn metric(&self, line: &str) -> u64 {
        let text = self.health.metrics().unwrap();
        let found = text.lines().find_map(|one| one.strip_prefix(line)?.strip_prefix(' '));
        found.map_or(0, |value| value.parse().unwrap())
    }
}

impl Fleet {
    pub async fn new() -> Fleet {
        Fleet::with(&[]).await
    }

    /// Some stores are other than a master would make them.
    pub async fn with(stores: &[Store]) -> Fleet {
        let net = Net::new(Arc::new(TokioClock::new()));
        let link = Link::new(Arc::new(net.connect("client")));
        storage::ensure_all(link.bus().as_ref(), stores, 1).await.unwrap();
        storage::ensure_all(link.bus().as_ref(), &storage::table(), 1).await.unwrap();
        Fleet { net, link, reacting: Reacting::default() }
    }

    pub async fn master(&self, name: &str) -> Master {
        let master = self.start(name);
        eventually("the master is ready", async || master.health.report().0.then_some(())).await;
        // Ready is not yet listening.
        eventually("the master listens", async || {
            let asked: Result<ResolveReply, _> = self.resolve("nobody").await;
            asked.is_ok_and(|reply| reply.error.is_none()).then_some(())
        })
        .await;
        master
    }

    /// A master that has just begun.
    pub fn start(&self, name: &str) -> Master {
        self.start_on(name, Arc::new(self.net.connect(name)), Timing::default())
    }

    pub fn start_on(&self, name: &str, bus: Arc<dyn Bus>, timing: Timing) -> Master {
        self.start_with(name, Link::new(bus), timing)
    }

    pub fn start_with(&self, name: &str, link: Link, timing: Timing) -> Master {
        self.start_publishing(name, link, timing, Publishing::default())
    }

    /// One that publishes while it holds the lease for that.
    pub fn start_publishing(&self, name: &str, link: Link, timing: Timing, publishing: Publishing) -> Master {
        let id = MasterId::new(name, link.new_token().unwrap().as_str()).unwrap();
        let setup = Setup {
            id: id.clone(),
            timing,
            replicas: None,
            version: "0.0.0".into(),
            settings: Arc::new(NoSettings),
            publishing,
            reacting: self.reacting.clone(),
            door: None,
            revoker: None,
        };
        let (health, stop) = (Arc::new(Health::new()), CancellationToken::new());
        let mut task = JoinSet::new();
        task.spawn(run(link.clone(), setup, health.clone(), stop.clone()));
        Master { id, health, stop, link, task }
    }

    pub async fn peel(&self, name: &str) -> Peel {
        let mut peel = self.silent_peel(name).await;
        peel.publish_facts(json!({"os": "Debian", "name": name})).await;
        peel.beat().await;
        peel
    }

    /// One that listens and has never said anything.
    pub async fn silent_peel(&self, name: &str) -> Peel {
        let link = Link::new(Arc::new(self.net.connect(name)));
        Peel::new(link, name).await
    }

    pub async fn known(&self, expression: &str, count: usize) {
        eventually("the peels are known", async || {
            let reply = self.resolve(expression).await.ok()?;
            (reply.peels.len() == count).then_some(())
        })
        .await;
    }

    pub async fn resolve(&self, expression: &str) -> Result<ResolveReply, zester_link::Error> {
        let question = ResolveRequest::of(expression);
        self.link.request(&Subject::TargetResolve, &question, Duration::from_secs(5)).await
    }

    pub fn request(&self, expression: &str) -> DispatchRequest {
        DispatchRequest {
            v: 1,
            jid: self.link.new_jid(),
            function: "test.ping".into(),
            args: Map::new(),
            state_id: String::new(),
            targets: Vec::new(),
            target_expr: expression.into(),
            timeout: Duration::from_secs(60),
            user: "ann".into(),
            metadata: Map::new(),
            positionals: Vec::new(),
            test: false,
            wait: None,
            target_digest: None,
        }
    }

    pub async fn ask(&self, request: &DispatchRequest) -> DispatchReply {
        self.link.request(&Subject::Dispatch, request, LONG).await.unwrap()
    }

    /// Dispatches to all that an expression names.
    pub async fn dispatch(&self, expression: &str) -> Jid {
        let reply = self.ask(&self.request(expression)).await;
        assert_eq!(reply.error, None);
        reply.jid.unwrap()
    }

    pub async fn admin(&self, request: &AdminRequest) -> AdminReply {
        let verb = Token::parse(request.verb().unwrap()).unwrap();
        self.link.request(&Subject::Admin { verb }, request, LONG).await.unwrap()
    }

    pub async fn kill(&self, jid: &Jid) -> AdminReply {
        let (user, reason) = ("ann".into(), String::new());
        self.admin(&AdminRequest::Kill { jid: jid.clone(), user, reason }).await
    }

    pub async fn record(&self, jid: &Jid) -> Option<Job> {
        self.link.get::<Job>(&Key::Job(jid.clone())).await.unwrap().map(|found| found.value)
    }

    pub async fn is_active(&self, jid: &Jid) -> bool {
        self.link.bus().get("jobs", &Key::Active(jid.clone()).to_string()).await.unwrap().is_some()
    }

    /// Waits until the job is over and its mark is gone.
    pub async fn over(&self, jid: &Jid) -> Job {
        eventually("the job is over", async || {
            let job = self.record(jid).await?;
            (job.status.is_terminal() && !self.is_active(jid).await).then_some(job)
        })
        .await
    }

    pub async fn stored(&self, jid: &Jid, name: &str) -> Option<Return> {
        let key = Key::Return(jid.clone(), peel(name));
        let found = self.link.get::<Return>(&key).await.unwrap();
        found.map(|found| Return { own: Vec::new(), ..found.value })
    }

    pub async fn stored_eventually(&self, jid: &Jid, name: &str) -> Return {
        eventually("the return is stored", async || self.stored(jid, name).await).await
    }
}

/// One peel that does what the test says.
pub struct Peel {
    pub id: PeelId,
    pub link: Link,
    boot: Token,
    connects: u64,
    commands: Subscription,
}

impl Peel {
    pub async fn new(link: Link, name: &str) -> Peel {
        let id = peel(name);
        let subject = Subject::Command { peel: id.clone() }.to_string();
        let commands = link.bus().subscribe(&subject, Listen::alone(1024)).await.unwrap();
        Peel { id, boot: link.new_token().unwrap(), connects: 1, commands, link }
    }

    pub async fn publish_facts(&self, facts: Value) {
        let Value::Object(facts) = facts else { panic!("facts are an object") };
        let record =
            FactsRecord { v: 1, peel: self.id.clone(), ts: self.link.now(), hash: "x".into(), facts };
        self.link.put(&Key::Facts(self.id.clone()), &record).await.unwrap();
    }

    pub async fn beat(&mut self) {
        self.write_beat().await.unwrap();
    }

    /// Writes down that it is there, as peels do when they connect.
    pub async fn record_seen(&self) {
        let heartbeat =
            PeelHeartbeat::new(self.id.clone(), self.boot.clone(), self.connects, self.link.now());
        self.link.put(&Key::Peel(self.id.clone()), &heartbeat).await.unwrap();
    }

    /// On a bus that may lose it.
    pub async fn try_beat(&mut self) {
        let _lost = self.write_beat().await;
    }

    async fn write_beat(&mut self) -> Result<(), zester_link::Error> {
        let heartbeat =
            PeelHeartbeat::new(self.id.clone(), self.boot.clone(), self.connects, self.link.now());
        self.link.publish(&Subject::Heartbeat { peel: self.id.clone() }, &heartbeat).await
    }

    /// A heartbeat that says when the next one comes.
    pub async fn beat_promising(&mut self, next: Duration) {
        let heartbeat =
            PeelHeartbeat::new(self.id.clone(), self.boot.clone(), self.connects, self.link.now());
        let heartbeat = PeelHeartbeat { next: Some(next), ..heartbeat };
        self.link.publish(&Subject::Heartbeat { peel: self.id.clone() }, &heartbeat).await.unwrap();
    }

    /// A heartbeat that names a job.
    pub async fn beat_with(&mut self, request: &ExecRequest) {
        let job = JobAtPeel { jid: request.jid.clone(), dispatch_epoch: request.dispatch_epoch };
        let heartbeat =
            PeelHeartbeat::new(self.id.clone(), self.boot.clone(), self.connects, self.link.now());
        let heartbeat = PeelHeartbeat { jobs: vec![job], ..heartbeat };
        self.link.publish(&Subject::Heartbeat { peel: self.id.clone() }, &heartbeat).await.unwrap();
    }

    /// Its last heartbeat: it stops.
    pub async fn say_stopped(&mut self) {
        let heartbeat =
            PeelHeartbeat::new(self.id.clone(), self.boot.clone(), self.connects, self.link.now());
        let heartbeat = PeelHeartbeat { stopped: true, ..heartbeat };
        self.link.publish(&Subject::Heartbeat { peel: self.id.clone() }, &heartbeat).await.unwrap();
    }

    /// Announces that it connected once more.
    pub async fn reconnect(&mut self) {
        self.connects += 1;
        self.beat().await;
    }

    pub async fn command(&mut self) -> PeelCommand {
        let delivery = tokio::time::timeout(LONG, self.commands.next()).await.unwrap().unwrap();
        let Delivery::Message(message) = delivery else { panic!("missed commands") };
        self.link.open::<PeelCommand>(&message.subject, &message.payload).unwrap().message
    }

    pub async fn exec(&mut self) -> ExecRequest {
        match self.command().await {
            PeelCommand::Exec(request) => request,
            other => panic!("not an exec: {other:?}"),
        }
    }

    /// Whether nothing was sent within this time.
    pub async fn hears_nothing(&mut self, within: Duration) -> bool {
        tokio::time::timeout(within, self.commands.next()).await.is_err()
    }

    pub async fn ack(&self, request: &ExecRequest) {
        let ack = Ack {
            v: 1,
            jid: request.jid.clone(),
            peel: self.id.clone(),
            dispatch_epoch: request.dispatch_epoch,
            ts: self.link.now(),
            ahead: 0,
        };
        let subject = Subject::JobAck { jid: request.jid.clone(), peel: self.id.clone() };
        let id = self.link.new_message_id().unwrap();
        self.link.publish_stored(&subject, &id, &ack).await.unwrap();
    }

    pub fn returning(&self, request: &ExecRequest, success: bool) -> Return {
        Return {
            success,
            error: String::new(),
            answer: json!(success),
            ts: self.link.now(),
            ..Return::refusing(
                request.jid.clone(),
                self.id.clone(),
                request.dispatch_epoch,
                Cause::Finished,
                "",
            )
        }
    }

    pub async fn ret(&self, request: &ExecRequest, success: bool) {
        self.send(&self.returning(request, success)).await;
    }

    pub async fn send(&self, ret: &Return) {
        let subject = Subject::JobReturn { jid: ret.jid.clone(), peel: self.id.clone() };
        let id = self.link.new_message_id().unwrap();
        self.link.publish_stored(&subject, &id, ret).await.unwrap();
    }

    /// Takes one request, acks it and returns.
    pub async fn serve(&mut self, success: bool) -> ExecRequest {
        let request = self.exec().await;
        self.ack(&request).await;
        self.ret(&request, success).await;
        request
    }
}

type Choice = Box<dyn FnMut(Leg<'_>) -> bool + Send>;

/// Loses the first so many messages that somebody chose; all others arrive.
pub struct Losing {
    left: usize,
    choose: Choice,
}

impl Losing {
    pub fn new(count: usize, choose: impl FnMut(Leg<'_>) -> bool + Send + 'static) -> Losing {
        Losing { left: count, choose: Box::new(choose) }
    }
}

impl Faults for Losing {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if self.left > 0 && (self.choose)(leg) {
            self.left -= 1;
            return Vec::new();
        }
        vec![Duration::ZERO]
    }
}
