//! A peel on a real server: what only that can show.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;

use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_bus::nats::{self, Options};
use zester_bus::{Bus, Listen, storage};
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_peel::store::{BoxFuture, MemoryStore};
use zester_peel::work::Tell;
use zester_peel::{Outcome, Setup, Work, run};
use zester_testkit::Server;
use zester_wire::*;

const PATIENCE: Duration = Duration::from_secs(60);

struct Pong;

impl Work for Pong {
    fn execute(&self, _: ExecRequest, _: Tell, _: CancellationToken) -> BoxFuture<'_, Outcome> {
        let outcome = Outcome {
            success: true,
            error: String::new(),
            answer: json!(true),
            canceled: false,
            revision: None,
        };
        Box::pin(std::future::ready(outcome))
    }

    fn kill_leftovers(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn facts(&self) -> BoxFuture<'_, Map<String, Value>> {
        Box::pin(std::future::ready(Map::from_iter([("os".to_string(), json!("Debian"))])))
    }
}

fn peel_id() -> PeelId {
    PeelId::parse("web-1").unwrap()
}

async fn link(server: &Server, name: &str, keep_trying: bool) -> Link {
    let options = Options { keep_trying, ..Options::new(vec![server.url()], name) };
    Link::new(Arc::new(nats::connect(options).await.unwrap()))
}

async fn heartbeat(master: &Link, connects: u64) {
    let mut heard =
        master.bus().subscribe(zester_wire::subject::ALL_HEARTBEATS, Listen::alone(64)).await.unwrap();
    let heartbeat = async {
        loop {
            let Some(raw) = master.delivered(heard.next().await.unwrap()) else { continue };
            let subject = master.subject_of(&raw).unwrap();
            let found = master.open_addressed::<PeelHeartbeat>(&subject, &raw.payload).unwrap().message;
            if found.connects >= connects && found.os == "Debian" {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heartbeat).await.unwrap();
}

async fn ping(master: &Link) {
    let request = ExecRequest { direct: true, ..fixture::request(master.new_jid(), "test.ping") };
    let subject = Subject::Command { peel: peel_id() };
    let ret: Return = master.request(&subject, &PeelCommand::Exec(request), PATIENCE).await.unwrap();
    assert!(ret.success, "{ret:?}");
}

async fn consumers(bus: &dyn Bus) -> usize {
    let mut count = 0;
    for store in storage::table() {
        count += bus.usage(&store).await.unwrap().consumers;
    }
    count
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peel_holds_no_consumer_and_comes_back_with_its_server() {
    let mut server = Server::start();
    let master = link(&server, "master", false).await;
    storage::ensure_all(master.bus().as_ref(), &storage::table(), 1).await.unwrap();
    let mine = link(&server, "web-1", true).await;
    let setup = Setup {
        id: peel_id(),
        boot: mine.new_token().unwrap(),
        timing: Timing::default(),
        version: "1".into(),
    };
    let (stop, health) = (CancellationToken::new(), Arc::new(Health::new()));
    let store = Arc::new(MemoryStore::new());
    let life = tokio::spawn(run(mine, store, Arc::new(Pong), setup, health, stop.clone()));
    heartbeat(&master, 1).await;
    ping(&master).await;
    assert_eq!(consumers(master.bus().as_ref()).await, 0);

    server.restart();
    heartbeat(&master, 2).await;
    ping(&master).await;
    assert_eq!(consumers(master.bus().as_ref()).await, 0);
    stop.cancel();
    life.await.unwrap().unwrap();
}
