//! A swarm on a real server: everybody answers, and nobody but the master has consumers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zester_bus::nats::{Options, connect};
use zester_bus::{Delivery, Listen, storage};
use zester_client::{Client, Ended, JobUpdate};
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::{NoSettings, Setup};
use zester_rule::rule;
use zester_testkit::{Server, wait_until};
use zester_wire::{DispatchRequest, Job, JobStatus, MasterId, VERSION};

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
        publishing: zester_master::Publishing::default(),
        reacting: zester_master::Reacting::default(),
        door: None,
        revoker: None,
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
        wait: None,
        target_digest: None,
    }
}

async fn ask(client: &Client) -> Ended {
    let mut follow = client.dispatch(ping(client.link())).await.unwrap().follow;
    loop {
        if let JobUpdate::Ended(ended) = follow.next().await.unwrap().unwrap() {
            return *ended;
        }
    }
}

/// Clients and peels of the test of many viewers; the long run has as many as the rule says.
fn viewers_and_peels() -> (usize, usize) {
    match std::env::var_os("ZESTER_SOAK") {
        Some(_) => (500, 200),
        None => (50, 40),
    }
}

/// The inboxes of those whose requests are counted.
const VIEWER: &str = "_INBOX_viewer";

async fn viewer(server: &Server) -> Client {
    let mut options = Options::new(vec![server.url()], "viewer");
    options.inbox_prefix = VIEWER.into();
    Client::new(Link::new(Arc::new(connect(options).await.unwrap()))).with_patience(PATIENCE)
}

/// Dispatches and follows. One in ten looks at its job again, as `job show` and `job watch` do.
async fn view(client: Client, number: usize, peels: usize) {
    let ended = ask(&client).await;
    let failed = ended.returns.values().find(|ret| !ret.success).map(|ret| ret.error.as_str());
    assert_eq!((ended.job.status, ended.returns.len(), failed), (JobStatus::Complete, peels, None));
    if number.is_multiple_of(10) {
        look_again(&client, ended).await;
    }
    client.link().bus().close().await.unwrap();
}

async fn look_again(client: &Client, ended: Ended) {
    assert_eq!(client.returns(&ended.job).await.unwrap(), ended.returns);
    let mut watch = client.follow(&ended.job.jid).await.unwrap();
    let mut returned = 0;
    while let Some(update) = watch.next().await.unwrap() {
        returned += usize::from(matches!(update, JobUpdate::Return(_)));
    }
    assert_eq!(returned, ended.returns.len());
    let running = Job { status: JobStatus::Running, ..ended.job };
    assert!(client.missing(&running, &Default::default()).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[rule("J-30")]
async fn j30_many_follow_at_once_and_ask_for_no_consumer() {
    let (viewers, peels) = viewers_and_peels();
    let server = Server::start();
    let mut tasks = JoinSet::new();
    master(&server, &mut tasks).await;
    let client = Client::new(link(&server, "client").await).with_patience(PATIENCE);
    let (urls, stop) = (vec![server.url()], CancellationToken::new());
    tasks.spawn({
        let stop = stop.clone();
        async move { zester_swarm::run(urls, 0..peels, Timing::default(), || {}, stop).await.unwrap() }
    });
    wait_until("the master knows all peels", PATIENCE, async || {
        (client.resolve("*").await.unwrap().len() == peels).then_some(())
    })
    .await;

    // Whoever asks for a consumer asks in a message, which anybody of the account may read.
    let asked = "$JS.API.CONSUMER.CREATE.>";
    let mut asked = client.link().bus().subscribe(asked, Listen::alone(4096)).await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..viewers {
        clients.push(viewer(&server).await);
    }
    let views: JoinSet<()> =
        clients.into_iter().enumerate().map(|(number, client)| view(client, number, peels)).collect();
    views.join_all().await;

    // One that does need a consumer shows that it would have been seen.
    let control = viewer(&server).await;
    control.link().bus().replay(storage::JOB_EVENTS, "zester.job.*.ack.*", 0).await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|subject: &String| subject.contains(storage::JOB_EVENTS)) {
        let next = tokio::time::timeout(PATIENCE, asked.next()).await.unwrap();
        let Some(Delivery::Message(message)) = next else { panic!("{next:?}") };
        if message.reply.is_some_and(|reply| reply.starts_with(VIEWER)) {
            seen.push(message.subject);
        }
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
    stop.cancel();
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
