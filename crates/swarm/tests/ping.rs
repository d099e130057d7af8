//! A swarm on a real server: everybody answers, and nobody but the master has consumers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zester_bus::nats::{Options, connect};
use zester_bus::storage;
use zester_client::{Client, Ended, Happening};
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::{NoSettings, Setup};
use zester_testkit::{Server, wait_until};
use zester_wire::{DispatchRequest, JobStatus, MasterId, VERSION};

const PEELS: usize = 50;
/// How long a busy machine may take; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(120);

async fn link(server: &Server, name: &str) -> Link {
    Link::new(Arc::new(connect(Options::new(vec![server.url()], name)).await.unwrap()))
}

async fn master(server: &Server, tasks: &mut JoinSet<()>) {
    let link = link(server, "master").await;
    let id = MasterId::new("master", link.new_token().unwrap().as_str()).unwrap();
    let setup = Setup {
        id,
        timing: Timing::default(),
        replicas: None,
        version: "0.0.0".into(),
        settings: Arc::new(NoSettings),
    };
    tasks.spawn(async move {
        let never = CancellationToken::new();
        zester_master::run(link, setup, Arc::new(Health::new()), never).await.unwrap();
    });
}

fn ping(link: &Link) -> DispatchRequest {
    DispatchRequest {
        v: VERSION,
        jid: link.new_jid(),
        function: "test.ping".into(),
        args: Default::default(),
        state_id: String::new(),
        targets: Vec::new(),
        target_expr: "*".into(),
        timeout: PATIENCE,
        user: "test".into(),
        metadata: Default::default(),
        positionals: Vec::new(),
        test: false,
    }
}

async fn ask(client: &Client) -> Ended {
    let mut follow = client.dispatch(ping(client.link())).await.unwrap().follow;
    loop {
        if let Happening::Ended(ended) = follow.next().await.unwrap().unwrap() {
            return *ended;
        }
    }
}

async fn consumers(client: &Client) -> usize {
    let mut all = 0;
    for store in storage::table() {
        all += client.link().bus().usage(&store).await.unwrap().consumers;
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_peel_of_a_swarm_answers_and_none_has_a_consumer() {
    let server = Server::start();
    let mut tasks = JoinSet::new();
    master(&server, &mut tasks).await;
    let client = Client::new(link(&server, "client").await).with_patience(PATIENCE);
    assert!(client.resolve("*").await.unwrap().is_empty());
    let alone = consumers(&client).await;

    let (urls, stop) = (vec![server.url()], CancellationToken::new());
    let mut swarm = JoinSet::new();
    swarm.spawn(zester_swarm::run(urls, 0..PEELS, Timing::default(), || {}, stop.clone()));
    wait_until("the master knows all peels", PATIENCE, async || {
        (client.resolve("*").await.unwrap().len() == PEELS).then_some(())
    })
    .await;

    let ended = ask(&client).await;
    assert_eq!(ended.job.status, JobStatus::Complete);
    assert_eq!(ended.job.missing.len(), 0, "{:?}", ended.job.missing);
    assert_eq!(ended.returns.len(), PEELS);
    assert!(ended.returns.values().all(|ret| ret.success && ret.counts()));
    // A reading of the stream may have one for a moment; what stays is the master's.
    wait_until("only the master has consumers", PATIENCE, async || {
        (consumers(&client).await == alone).then_some(())
    })
    .await;

    stop.cancel();
    swarm.join_next().await.unwrap().unwrap().unwrap();
}
