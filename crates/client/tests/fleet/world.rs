//! A bus, an operator, and somebody who plays master and peels.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::{Listen, storage};
use zester_client::Client;
use zester_link::{Clock, Link, OsDice};
use zester_wire::subject::MASTERS;
use zester_wire::*;

/// When every world begins, for the bus and for those on it.
const EPOCH: UnixMillis = UnixMillis(1_800_000_000_000);

/// A wall clock that stands still while tokio's time is paused.
struct Wall(Instant);

impl Clock for Wall {
    fn wall(&self) -> UnixMillis {
        EPOCH.plus(self.0.elapsed())
    }
}

pub struct World {
    pub net: Net,
    pub client: Client,
    /// The other side's connection.
    pub other: Link,
    pub tasks: JoinSet<()>,
}

pub async fn world() -> World {
    let net = Net::new(Arc::new(TokioClock::starting_at(Duration::from_millis(EPOCH.0))));
    let clock = Arc::new(Wall(Instant::now()));
    let link = |name: &str| Link::with(Arc::new(net.connect(name)), clock.clone(), Arc::new(OsDice));
    let (client, other) = (Client::new(link("operator")), link("other"));
    storage::ensure_all(other.bus().as_ref(), &storage::table(), 1).await.unwrap();
    World { client, other, net, tasks: JoinSet::new() }
}

impl World {
    /// Answers requests on a subject, one by one.
    pub async fn serve<Q, A, F, Fut>(&mut self, subject: &str, mut answer: F)
    where
        Q: Message + Send + 'static,
        A: Message + Send + Sync + 'static,
        F: FnMut(Link, Q) -> Fut + Send + 'static,
        Fut: Future<Output = Option<A>> + Send,
    {
        let link = self.other.clone();
        let mut asked = link.bus().subscribe(subject, Listen::shared(MASTERS, 64)).await.unwrap();
        self.tasks.spawn(async move {
            while let Some(delivery) = asked.next().await {
                let Some(raw) = link.delivered(delivery) else { continue };
                let Some(question) = link.open::<Q>(&raw.subject, &raw.payload) else { continue };
                if let Some(reply) = answer(link.clone(), question.message).await {
                    link.answer(raw.reply.as_deref(), &reply).await.unwrap();
                }
            }
        });
    }

    pub fn request(&self, function: &str) -> DispatchRequest {
        DispatchRequest {
            v: 1,
            jid: self.client.link().new_jid(),
            function: function.into(),
            args: Map::new(),
            state_id: String::new(),
            targets: Vec::new(),
            target_expr: "*".into(),
            timeout: Duration::from_secs(60),
            user: "me".into(),
            metadata: Map::new(),
            positionals: Vec::new(),
            test: false,
            wait: None,
            target_digest: None,
        }
    }
}

pub fn peel(name: &str) -> PeelId {
    PeelId::parse(name).unwrap()
}

pub fn job(link: &Link, jid: &Jid, targets: &[&str], status: JobStatus) -> Job {
    let now = link.now();
    Job {
        v: 1,
        jid: jid.clone(),
        function: "test.ping".into(),
        args: Map::new(),
        state_id: String::new(),
        targets: targets.iter().map(|name| peel(name)).collect(),
        target_expr: "*".into(),
        timeout: Duration::from_secs(60),
        deadline: now.plus(Duration::from_secs(60)),
        status,
        created: now,
        updated: now,
        user: "me".into(),
        owner: MasterId::new("m-1", "boot").unwrap(),
        epoch: 1,
        dispatch_epoch: 1,
        reclaim_count: 0,
        return_count: 0,
        success_count: 0,
        metadata: Map::new(),
        positionals: Vec::new(),
        test: false,
        reason: String::new(),
        missing: BTreeMap::new(),
        unknown_peels: Vec::new(),
        request: Vec::new(),
        claim_until: UnixMillis(0),
        target_digest: None,
        target_list: None,
        rest: BTreeMap::new(),
    }
}

pub fn ret(jid: &Jid, name: &str) -> Return {
    let mut ret = Return::refusing(jid.clone(), peel(name), 1, Cause::Finished, "");
    (ret.success, ret.answer) = (true, json!(true));
    ret
}

pub fn ack(jid: &Jid, name: &str, ahead: u32) -> Ack {
    Ack { v: 1, jid: jid.clone(), peel: peel(name), dispatch_epoch: 1, ts: UnixMillis(0), ahead }
}

pub fn granted(jid: &Jid, targets: &[&str]) -> DispatchReply {
    let targets = targets.iter().map(|name| peel(name)).collect();
    DispatchReply { v: 1, jid: Some(jid.clone()), targets, error: None, offline: None }
}

pub async fn put_facts(link: &Link, name: &str, facts: Value) {
    let Value::Object(facts) = facts else { panic!("facts are a map") };
    let record = FactsRecord { v: 1, peel: peel(name), ts: link.now(), hash: String::new(), facts };
    link.put(&Key::Facts(peel(name)), &record).await.unwrap();
}

pub async fn put_heartbeat(link: &Link, name: &str) {
    let boot = Token::parse("boot").unwrap();
    let (version, os) = ("0.1.0".into(), "Debian".into());
    let heartbeat = PeelHeartbeat { version, os, ..PeelHeartbeat::new(peel(name), boot, 1, link.now()) };
    link.put(&Key::Peel(peel(name)), &heartbeat).await.unwrap();
}

/// As a peel sends it: kept by the stream.
pub async fn send_ack(link: &Link, ack: &Ack) {
    let subject = Subject::JobAck { jid: ack.jid.clone(), peel: ack.peel.clone() };
    link.publish_stored(&subject, &link.new_message_id().unwrap(), ack).await.unwrap();
}

pub async fn send_return(link: &Link, ret: &Return) {
    let subject = Subject::JobReturn { jid: ret.jid.clone(), peel: ret.peel.clone() };
    link.publish_stored(&subject, &link.new_message_id().unwrap(), ret).await.unwrap();
}

pub async fn put_job(link: &Link, job: &Job) {
    link.put(&Key::Job(job.jid.clone()), job).await.unwrap();
}

pub async fn put_return(link: &Link, ret: &Return) {
    link.put(&Key::Return(ret.jid.clone(), ret.peel.clone()), ret).await.unwrap();
}
