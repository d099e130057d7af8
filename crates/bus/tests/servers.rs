//! What only a real server can show: grants, clusters, attacks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;
use zester_bus::nats::{Credentials, Nats, Options, connect};
use zester_bus::storage::{ensure_all, replicas, table};
use zester_bus::{Acknowledge, Bus, Bytes, DurableReader, Event, Kind, Listen, Start, Store};
use zester_testkit::{Cluster, Server, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// A master that may do everything, and a peel with the grants of its own keys only.
const TWO_USERS: &str = r#"
authorization { users: [
  { user: master, password: m }
  { user: web-01, password: p, permissions: {
      publish: [
        "$KV.facts.web-01", "$KV.peel-heartbeat.web-01", "zester.job.*.ack.web-01",
        "$JS.API.DIRECT.GET.KV_facts.$KV.facts.web-01", "$JS.API.DIRECT.GET.KV_state-files.$KV.state-files.>"
      ]
      subscribe: [ "_INBOX_web-01.>", "zester.cmd.web-01", "zester.notify.>" ]
      allow_responses: { max: 1, expires: "5s" }
  } }
] }
"#;

async fn user(server: &Server, user: &str, password: &str) -> Nats {
    let options = Options {
        credentials: Credentials::Password { user: user.into(), password: password.into() },
        inbox_prefix: format!("_INBOX_{user}"),
        answer_timeout: Duration::from_secs(2),
        ..Options::new(vec![server.url()], user)
    };
    connect(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peel_needs_grants_for_its_own_keys_only() {
    let server = Server::start_with(TWO_USERS);
    let master = user(&server, "master", "m").await;
    ensure_all(&master, &table(), 1).await.unwrap();
    let peel = user(&server, "web-01", "p").await;
    let mut events = peel.events();

    // A subscription stands although publishing to the own inbox is denied.
    let mut commands = peel.subscribe("zester.cmd.web-01", Listen::alone(10)).await.unwrap();
    let ask = master.request("zester.cmd.web-01", Bytes::from("ping"), PATIENCE);
    let answer = async {
        let Some(zester_bus::Delivery::Message(question)) = commands.next().await else { panic!() };
        peel.publish(&question.reply.unwrap(), Bytes::from("pong")).await.unwrap();
    };
    let (answered, ()) = tokio::join!(ask, answer);
    assert_eq!(answered.unwrap().payload, "pong");

    let revision = peel.create("facts", "web-01", Bytes::from("1")).await.unwrap();
    peel.update("facts", "web-01", Bytes::from("2"), revision).await.unwrap();
    assert_eq!(peel.get("facts", "web-01").await.unwrap().unwrap().value, "2");
    assert_eq!(peel.get("state-files", "_revision").await.unwrap(), None);
    peel.publish_stored("zester.job.x.ack.web-01", Bytes::from("ack"), Some("a")).await.unwrap();

    // A denial is a timeout to the caller; its reason comes as an event.
    assert_eq!(peel.put("facts", "web-02", Bytes::new()).await.unwrap_err().kind(), Kind::Timeout);
    assert_eq!(peel.get("facts", "web-02").await.unwrap_err().kind(), Kind::Timeout);
    let denied = async {
        loop {
            if let Some(Event::ServerSaid(words)) = events.next().await
                && words.contains("$KV.facts.web-02")
            {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, denied).await.unwrap();
    assert_eq!(master.get("facts", "web-02").await.unwrap(), None);
}

/// Whoever may write a key and not read it gets no answer to its look for a marker.
const NO_READER: &str = r#"
authorization { users: [
  { user: master, password: m }
  { user: writer, password: p, permissions: { publish: [ "$KV.jobs.a" ], subscribe: [ "_INBOX_writer.>" ] } }
] }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_is_a_conflict_also_where_it_cannot_be_read() {
    let server = Server::start_with(NO_READER);
    let master = user(&server, "master", "m").await;
    master.ensure(&Store::bucket("jobs", 1_000_000), 1).await.unwrap();
    master.create("jobs", "a", Bytes::from("1")).await.unwrap();
    let writer = user(&server, "writer", "p").await;
    let error = writer.create("jobs", "a", Bytes::from("2")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Conflict, "{error}");
    assert_eq!(master.get("jobs", "a").await.unwrap().unwrap().value, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_refused() {
    let server = Server::start_with(TWO_USERS);
    let wrong = Options {
        credentials: Credentials::Password { user: "master".into(), password: "x".into() },
        ..Options::new(vec![server.url()], "one")
    };
    assert_eq!(connect(wrong).await.err().unwrap().kind(), Kind::Refused);
}

/// With rollup, this would remove every other key of the bucket.
#[tokio::test(flavor = "multi_thread")]
async fn no_header_of_a_writer_wipes_a_bucket() {
    let server = Server::start();
    let bus = connect(Options::new(vec![server.url()], "one")).await.unwrap();
    ensure_all(&bus, &table(), 1).await.unwrap();
    let raw = async_nats::connect(server.url()).await.unwrap();
    for store in table().iter().filter(|store| store.is_bucket) {
        bus.put(&store.name, "a", Bytes::from("1")).await.unwrap();
        let mut headers = async_nats::HeaderMap::new();
        headers.insert("Nats-Rollup", "all");
        let subject = format!("$KV.{}.b", store.name);
        raw.request_with_headers(subject, headers, "2".into()).await.unwrap();
        assert!(bus.get(&store.name, "a").await.unwrap().is_some(), "{}", store.name);
    }
}

/// A marker that another tool left is no value, and does not stand in the way of one.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_another_tool_deleted_does_not_exist() {
    let server = Server::start();
    let bus = connect(Options::new(vec![server.url()], "one")).await.unwrap();
    bus.ensure(&Store::bucket("jobs", 1_000_000), 1).await.unwrap();
    bus.put("jobs", "a", Bytes::from("1")).await.unwrap();
    let raw = async_nats::connect(server.url()).await.unwrap();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("KV-Operation", "DEL");
    raw.request_with_headers("$KV.jobs.a", headers, Bytes::new()).await.unwrap();
    assert_eq!(bus.get("jobs", "a").await.unwrap(), None);
    assert_eq!(bus.scan("jobs", ">", 0).await.unwrap().items, []);
    bus.create("jobs", "a", Bytes::from("2")).await.unwrap();
    assert_eq!(bus.get("jobs", "a").await.unwrap().unwrap().value, "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_may_start_before_its_bus() {
    let mut server = Server::start();
    let url = server.url();
    server.kill();
    assert_eq!(
        connect(Options::new(vec![url.clone()], "one")).await.err().unwrap().kind(),
        Kind::Disconnected
    );
    let options = Options { keep_trying: true, ..Options::new(vec![url], "one") };
    let bus = connect(options).await.unwrap();
    assert!(!bus.info().connected);
    let mut events = bus.events();
    let mut heard = bus.subscribe("a", Listen::alone(1)).await.unwrap();
    server.restart();
    let connected = async { while events.next().await != Some(Event::Connected) {} };
    tokio::time::timeout(PATIENCE, connected).await.unwrap();
    wait_until("a round trip", PATIENCE, || async { bus.flush().await.ok() }).await;
    bus.publish("a", Bytes::from("1")).await.unwrap();
    assert!(tokio::time::timeout(PATIENCE, heard.next()).await.unwrap().is_some());
    assert!(!bus.info().version.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_keeps_three_copies_and_survives_its_leader() {
    let mut cluster = Cluster::start(3);
    let bus = connect(Options::new(cluster.urls(), "one")).await.unwrap();
    let servers = wait_until("three servers", PATIENCE, || async {
        let servers = bus.info().servers;
        (servers == 3).then_some(servers)
    })
    .await;
    let store = Store::bucket("jobs", 1_000_000);
    let copies = replicas(servers);
    assert_eq!(copies, 3);
    wait_until("a replicated bucket", PATIENCE, || async { bus.ensure(&store, copies).await.ok() }).await;
    let revision =
        wait_until("a write", PATIENCE, || async { bus.put("jobs", "a", Bytes::from("1")).await.ok() }).await;
    let leader = cluster.wait_for_leader();
    cluster.kill(leader);
    // Writes fail while a new leader is chosen. The bucket is never made again for that.
    let entry =
        wait_until("the value", PATIENCE, || async { bus.get("jobs", "a").await.ok().flatten() }).await;
    assert_eq!((entry.value, entry.revision), (Bytes::from("1"), revision));
    let second =
        wait_until("another write", PATIENCE, || async { bus.put("jobs", "a", Bytes::from("2")).await.ok() });
    assert!(second.await > revision);
    cluster.restart(leader);
}

/// As where a master was quicker than the third server of its cluster.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_made_with_too_few_copies_gets_the_rest() {
    let cluster = Cluster::start(3);
    let bus = connect(Options::new(cluster.urls(), "test")).await.unwrap();
    let store = Store::bucket("early", 1024 * 1024);
    wait_until("it is made", PATIENCE, || async { bus.ensure(&store, 1).await.ok() }).await;
    let raised = bus.ensure(&store, 3).await.unwrap();
    assert_eq!(raised, zester_bus::storage::Found::Existing(Vec::new()));
    let fewer = bus.ensure(&store, 2).await.unwrap();
    let zester_bus::storage::Found::Existing(drift) = fewer else { panic!("{fewer:?}") };
    assert_eq!(drift.len(), 1, "copies are never taken away: {drift:?}");
}

/// Whoever leads the reader dies: what was taken and not acknowledged comes again, the rest comes once it has a leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_a_cluster_goes_on_without_its_leader() {
    let mut cluster = Cluster::start(3);
    let bus = connect(Options::new(cluster.urls(), "one")).await.unwrap();
    let store = Store::stream("events", &["event.>"], 1_000_000);
    wait_until("a replicated stream", PATIENCE, || async { bus.ensure(&store, 3).await.ok() }).await;
    let reader = DurableReader {
        stream: "events".into(),
        name: "reactor".into(),
        pattern: "event.>".into(),
        start: Start::New,
        ack_wait: Duration::from_secs(2),
        unacked_max: 64,
        max_deliver: None,
    };
    wait_until("a reader", PATIENCE, || async { bus.ensure_reader(&reader).await.ok() }).await;
    for number in 0..20 {
        let id = number.to_string();
        let payload = Bytes::from(id.clone());
        wait_until("an event", PATIENCE, || async {
            bus.publish_stored("event.a", payload.clone(), Some(&id)).await.ok()
        })
        .await;
    }
    let taken = wait_until("some", PATIENCE, || async {
        bus.take(&reader, 5, Duration::from_secs(1)).await.ok().filter(|taken| !taken.is_empty())
    })
    .await;
    for one in &taken[1..] {
        bus.acknowledge(one, Acknowledge::Done).await.unwrap();
    }
    let leader = cluster.wait_for_leader_of("events");
    cluster.kill(leader);
    // What was acknowledged right before may come again; the first must, and all that nobody took.
    let mut missing: std::collections::BTreeSet<u64> = (taken.len() as u64 + 1..=20).collect();
    missing.insert(taken[0].record.sequence);
    while !missing.is_empty() {
        let more = wait_until("the rest", PATIENCE, || async {
            bus.take(&reader, 8, Duration::from_secs(1)).await.ok().filter(|more| !more.is_empty())
        })
        .await;
        for one in more {
            missing.remove(&one.record.sequence);
            wait_until("an acknowledgement", PATIENCE, || async {
                bus.acknowledge(&one, Acknowledge::Done).await.ok()
            })
            .await;
        }
    }
    wait_until("nothing left", PATIENCE, || async {
        bus.pending(&reader).await.ok().filter(|pending| pending.total() == 0)
    })
    .await;
    cluster.restart(leader);
}
