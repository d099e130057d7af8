//! The grants on a real server in operator mode: what each role needs works, and an adversary with a real peel's credentials
//! gets nothing else done. The list of what it tries comes from the table of grants.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../fleet/mod.rs"]
mod fleet;
mod operators;

use async_nats::{Client, ConnectOptions, HeaderMap, Message, Request, Subscriber};
use fleet::{Keys, user};
use futures_util::StreamExt;
use std::time::Duration;
use zester_identity::accounts::{self, Revocations};
use zester_identity::grants::{self, Act, TABLE};
use zester_identity::{Credentials, Role};
use zester_rule::rule;
use zester_testkit::{Server, wait_until};

const JID: &str = "2hPx2Kd8VnR7YmWqTz4PLsCfNjA";
/// What should come, comes within this.
const SOON: Duration = Duration::from_secs(10);

struct World {
    keys: Keys,
    server: Server,
    _dir: tempfile::TempDir,
}

impl World {
    async fn start() -> World {
        let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
        let server = Server::start_with(&keys.server_config(&dir.path().join("jwt")));
        let world = World { keys, server, _dir: dir };
        let master = world.join(&world.keys.member(Role::Master, "m1")).await;
        for (name, subjects) in [
            ("events", vec!["zester.event.>"]),
            ("job-events", vec!["zester.job.*.ack.*", "zester.job.*.return.*", "zester.job.*.schedule.*"]),
            ("KV_jobs", vec!["$KV.jobs.>"]),
            ("KV_facts", vec!["$KV.facts.>"]),
            ("KV_peel-seen", vec!["$KV.peel-seen.>"]),
            ("KV_state-files", vec!["$KV.state-files.>"]),
            ("KV_settings-files", vec!["$KV.settings-files.>"]),
            ("KV_trust", vec!["$KV.trust.>"]),
        ] {
            let config = serde_json::json!({
                "name": name, "subjects": subjects, "retention": "limits", "storage": "file", "num_replicas": 1,
                "max_msgs_per_subject": if name.starts_with("KV_") { 1 } else { -1 }, "max_consumers": -1,
                "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msg_size": -1, "discard": "old", "allow_direct": true,
            });
            let made = ask(&master, &format!("$JS.API.STREAM.CREATE.{name}"), &config.to_string()).await;
            assert!(!made.contains("\"error\""), "{made}");
        }
        for record in ["$KV.jobs.kept", "$KV.state-files._manifest", "$KV.settings-files._manifest"] {
            assert!(ask(&master, record, "true").await.contains("\"seq\""));
        }
        world
    }

    async fn join(&self, who: &Credentials) -> Client {
        let options = ConnectOptions::with_credentials(&who.to_text().unwrap()).unwrap();
        let inbox = grants::inbox_prefix(&who.name);
        options.custom_inbox_prefix(inbox).connect(self.server.url()).await.unwrap()
    }

    /// Hears and may do everything in an account.
    async fn spy(&self, account: &zester_identity::KeyPair) -> Client {
        let pair = user("spy");
        let jwt = accounts::system_user(pair.public(), 1_700_000_000).issued_by(account);
        let like = self.keys.member(Role::Master, "m1");
        let text = Credentials { jwt, pair, ..like }.to_text().unwrap();
        ConnectOptions::with_credentials(&text).unwrap().connect(self.server.url()).await.unwrap()
    }
}

async fn ask(client: &Client, subject: &str, body: &str) -> String {
    let request = Request::new().payload(body.to_string().into()).timeout(Some(SOON));
    let answer = client.send_request(subject.to_string(), request).await;
    let answer = answer.unwrap_or_else(|error| panic!("{subject}: {error}"));
    String::from_utf8_lossy(&answer.payload).into_owned()
}

async fn heard(subscriber: &mut Subscriber) -> Message {
    tokio::time::timeout(SOON, subscriber.next()).await.unwrap().unwrap()
}

async fn listen(client: &Client, subject: &str) -> Subscriber {
    let subscriber = client.subscribe(subject.to_string()).await.unwrap();
    settle(client).await;
    subscriber
}

/// Waits until the server has done what this client asked before: it answers a question of this connection, if only with a denial.
async fn settle(client: &Client) {
    client.flush().await.unwrap();
    let request = Request::new().timeout(Some(Duration::from_millis(200)));
    let _denied_or_answered = client.send_request("zester.target.resolve", request).await;
}

/// A subject for each pattern.
fn concrete(pattern: &str) -> String {
    pattern
        .split('.')
        .map(|part| if part == "*" || part == ">" { JID } else { part })
        .collect::<Vec<_>>()
        .join(".")
}

#[tokio::test]
#[rule("I-2")]
async fn i2_what_a_peel_needs_crosses_between_the_accounts() {
    let world = World::start().await;
    let (keys, spy) = (&world.keys, world.spy(&world.keys.core).await);
    let peel = world.join(&keys.peel("web-1")).await;
    let admin = world.join(&keys.member(Role::Admin, "ann")).await;
    let master = world.join(&keys.member(Role::Master, "m1")).await;
    // What a stream keeps is acknowledged to the peel.
    for stored in [
        "zester.event.web-1.send.hello".to_string(),
        "zester.event.web-1.beacon.load".to_string(),
        format!("zester.job.{JID}.ack.web-1"),
        format!("zester.job.{JID}.return.web-1"),
        format!("zester.job.{JID}.schedule.web-1"),
        "$KV.facts.web-1".to_string(),
        "$KV.peel-seen.web-1".to_string(),
    ] {
        assert!(ask(&peel, &stored, "mine").await.contains("\"seq\""), "{stored}");
    }
    // What is published to everybody, and what is its own, is read.
    let mine = ask(&peel, "$JS.API.DIRECT.GET.KV_facts.$KV.facts.web-1", "").await;
    assert_eq!(mine, "mine");
    let manifest = "$JS.API.DIRECT.GET.KV_state-files.$KV.state-files._manifest";
    assert_eq!(ask(&peel, manifest, "").await, "true");
    // Messages that nobody keeps.
    for subject in ["zester.heartbeat.web-1".to_string(), format!("zester.job.{JID}.progress.web-1")] {
        let mut ears = listen(&spy, &subject).await;
        peel.publish(subject.clone(), "beat".into()).await.unwrap();
        assert_eq!(heard(&mut ears).await.subject.as_str(), subject);
    }
    // Notices reach every peel; commands reach one.
    let second = world.join(&keys.peel("web-2")).await;
    let mut notices = [listen(&peel, "zester.notify.*").await, listen(&second, "zester.notify.*").await];
    master.publish("zester.notify.state-files", "new".into()).await.unwrap();
    for ears in &mut notices {
        assert_eq!(heard(ears).await.subject.as_str(), "zester.notify.state-files");
    }
    let mut commands = listen(&peel, "zester.cmd.web-1").await;
    let mut others = listen(&second, "zester.cmd.web-2").await;
    master.publish("zester.cmd.web-1", "work".into()).await.unwrap();
    let command = heard(&mut commands).await;
    assert_eq!((command.subject.as_str(), &command.payload[..]), ("zester.cmd.web-1", &b"work"[..]));
    // Past the masters: the server gives the peel a reply subject of its own making, and one answer gets back.
    let asking = tokio::spawn({
        let admin = admin.clone();
        async move { ask(&admin, "zester.cmd.web-1", "direct").await }
    });
    let direct = heard(&mut commands).await;
    let reply = direct.reply.unwrap();
    assert!(reply.starts_with("_R_."), "{reply}");
    peel.publish(reply, "done".into()).await.unwrap();
    assert_eq!(asking.await.unwrap(), "done");
    assert!(tokio::time::timeout(Duration::from_millis(50), others.next()).await.is_err());
    // A question of a peel, answered by a master.
    let mut questions = listen(&master, "zester.target.resolve").await;
    let asking = tokio::spawn(async move { ask(&peel, "zester.target.resolve", "web-*").await });
    loop {
        let question = heard(&mut questions).await;
        if question.payload == "web-*" {
            let reply = question.reply.unwrap();
            assert!(reply.starts_with("_R_."), "{reply}");
            master.publish(reply, "web-1".into()).await.unwrap();
            break;
        }
    }
    assert_eq!(asking.await.unwrap(), "web-1");
}

#[tokio::test]
#[rule("I-7", "I-2", "I-9")]
async fn i7_a_peel_gets_nothing_through_that_is_not_its_own() {
    let world = World::start().await;
    let keys = &world.keys;
    let (core, peels) = (world.spy(&keys.core).await, world.spy(&keys.peels).await);
    let adversary = world.join(&keys.peel("web-1")).await;
    let (mut in_core, mut in_peels) = (listen(&core, ">").await, listen(&peels, ">").await);
    // Every subject that anybody may publish or hear, but its own; and those that only servers use.
    let rows =
        TABLE.iter().flat_map(|grant| [grant.subject("web-2"), grant.subject("m1"), grant.subject("ann")]);
    let more = [
        "$JS.API.STREAM.PURGE.KV_jobs",
        "$JS.API.STREAM.DELETE.KV_jobs",
        "$JS.API.CONSUMER.CREATE.KV_facts",
        "$JS.API.STREAM.MSG.GET.KV_jobs",
        "$JS.API.INFO",
        "$SYS.REQ.CLAIMS.UPDATE",
        "_INBOX.x",
        "_R_.x",
    ];
    let mut forbidden: Vec<String> =
        rows.chain(more.map(String::from)).map(|pattern| concrete(&pattern)).collect();
    forbidden.retain(|subject| !grants::allows(Role::Peel, Act::Publish, "web-1", subject));
    forbidden.sort_unstable();
    forbidden.dedup();
    assert!(forbidden.len() > 40, "{forbidden:?}");
    for subject in &forbidden {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Rollup", "all");
        adversary.publish(subject.clone(), "forged".into()).await.unwrap();
        adversary.publish_with_headers(subject.clone(), headers, "forged".into()).await.unwrap();
    }
    settle(&adversary).await;
    // The reply subject is not checked against the grants of who names it. Whatever answers must not answer there.
    let targets: Vec<String> = forbidden
        .iter()
        .filter(|subject| !subject.starts_with("_R_") && !subject.starts_with("_INBOX"))
        .cloned()
        .collect();
    let own = grants::subjects(Role::Peel, Act::Publish, "web-1");
    ask(&adversary, "$KV.facts.web-1", "chosen by the adversary").await;
    for through in own.iter().map(|pattern| concrete(pattern)) {
        for target in &targets {
            let reply = target.clone();
            adversary.publish_with_reply(through.clone(), reply, "forged".into()).await.unwrap();
        }
    }
    settle(&adversary).await;
    // Heard in CORE: its own subjects only, and the marks of its own questions.
    let own_of = |subject: &str| grants::allows(Role::Peel, Act::Publish, "web-1", subject);
    core.publish("spy.end", "".into()).await.unwrap();
    loop {
        let message = heard(&mut in_core).await;
        let subject = message.subject.as_str();
        if subject == "spy.end" {
            break;
        }
        let is_answer =
            subject.starts_with("_R_.") || subject.starts_with("_INBOX") || subject.starts_with("$JS.EVENT");
        assert!(own_of(subject) || is_answer, "CORE heard {subject}");
    }
    let mut redirected = Vec::new();
    peels.publish("spy.end", "".into()).await.unwrap();
    loop {
        let message = heard(&mut in_peels).await;
        let subject = message.subject.as_str();
        if subject == "spy.end" {
            break;
        }
        if !own_of(subject) && !subject.starts_with("_INBOX.web-1.") {
            redirected.push(subject.to_string());
        }
    }
    redirected.sort_unstable();
    redirected.dedup();
    // Inside its own account the server does deliver there: the signature is what a reader relies on.
    assert!(redirected.contains(&"zester.cmd.web-2".to_string()), "{redirected:?}");
    // Nothing is gone and nothing is other than it was.
    for (record, value) in
        [("jobs.kept", "true"), ("state-files._manifest", "true"), ("settings-files._manifest", "true")]
    {
        let bucket = record.split('.').next().unwrap();
        let found = ask(&core, &format!("$JS.API.DIRECT.GET.KV_{bucket}.$KV.{record}"), "").await;
        assert_eq!(found, value, "{record}");
    }
    let events = ask(&core, "$JS.API.STREAM.INFO.events", r#"{"subjects_filter":">"}"#).await;
    assert!(
        !events.contains("_master") && !events.contains("_admin") && !events.contains("web-2"),
        "{events}"
    );
}

#[tokio::test]
#[rule("I-7", "I-9")]
async fn i7_a_peel_hears_nothing_that_is_not_for_it() {
    let world = World::start().await;
    let keys = &world.keys;
    let adversary = world.join(&keys.peel("web-1")).await;
    let patterns = [
        "zester.>",
        "zester.cmd.*",
        "zester.cmd.web-2",
        "_INBOX.>",
        "_INBOX.web-2.>",
        "_R_.>",
        ">",
        "$KV.>",
        "$SYS.>",
    ];
    let mut ears = Vec::new();
    for pattern in patterns {
        ears.push(adversary.subscribe(pattern).await.unwrap());
    }
    settle(&adversary).await;
    let peel = world.join(&keys.peel("web-2")).await;
    let mut commands = listen(&peel, "zester.cmd.web-2").await;
    let admin = world.join(&keys.member(Role::Admin, "ann")).await;
    let asking = tokio::spawn(async move { ask(&admin, "zester.cmd.web-2", "secret").await });
    let command = heard(&mut commands).await;
    peel.publish(command.reply.unwrap(), "done".into()).await.unwrap();
    assert_eq!(asking.await.unwrap(), "done");
    assert!(ask(&peel, "$KV.facts.web-2", "mine").await.contains("\"seq\""));
    settle(&adversary).await;
    for (pattern, mut ears) in patterns.iter().zip(ears) {
        let nothing = tokio::time::timeout(Duration::from_millis(20), ears.next()).await;
        assert!(nothing.is_err() || nothing.unwrap().is_none(), "{pattern}");
    }
}

#[tokio::test]
#[rule("I-5")]
async fn i5_a_revoked_peel_is_gone_within_seconds_and_stays_out_after_a_restart() {
    let mut world = World::start().await;
    let (gone, stays) = (world.keys.peel("web-1"), world.keys.peel("web-2"));
    let options = ConnectOptions::with_credentials(&gone.to_text().unwrap()).unwrap();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let options = options.custom_inbox_prefix("_INBOX.web-1").event_callback(move |event| {
        let _gone = tell.send(event);
        std::future::ready(())
    });
    let _revoked = options.connect(world.server.url()).await.unwrap();
    let other = world.join(&stays).await;
    let system = ConnectOptions::with_credentials(&world.keys.system_user()).unwrap();
    let system = system.connect(world.server.url()).await.unwrap();
    let mut revocations = Revocations::default();
    revocations.add(gone.pair.public(), 1_790_000_000);
    // Later than what the configuration holds, which a server that restarts would else take up again.
    let account = world.keys.peels_account(&revocations, fleet::ISSUED + 1);
    let updated = ask(&system, "$SYS.REQ.CLAIMS.UPDATE", &account).await;
    assert!(updated.contains("200"), "{updated}");
    let disconnected = async {
        while let Some(event) = told.recv().await {
            if matches!(event, async_nats::Event::Disconnected) {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(2), disconnected).await.expect("the live connection is ended");
    let refused = || async {
        let again = ConnectOptions::with_credentials(&gone.to_text().unwrap()).unwrap();
        let again = again.custom_inbox_prefix("_INBOX.web-1").connect(world.server.url()).await;
        matches!(
            again.map_err(|error| error.kind()),
            Err(async_nats::ConnectErrorKind::AuthorizationViolation)
        )
    };
    assert!(refused().await);
    assert!(ask(&other, "$KV.facts.web-2", "mine").await.contains("\"seq\""), "others go on");
    world.server.restart();
    let refused = async {
        let again = ConnectOptions::with_credentials(&gone.to_text().unwrap()).unwrap();
        let again = again.custom_inbox_prefix("_INBOX.web-1").connect(world.server.url()).await;
        matches!(
            again.map_err(|error| error.kind()),
            Err(async_nats::ConnectErrorKind::AuthorizationViolation)
        )
    };
    assert!(refused.await, "the server forgot the revocation");
    world.join(&stays).await;
}

#[tokio::test]
#[rule("I-1", "I-4")]
async fn i1_the_signing_key_of_masters_makes_peels_and_nothing_else() {
    let world = World::start().await;
    let keys = &world.keys;
    let pair = user("intruder");
    let base = keys.member(Role::Master, "m1");
    let join = |jwt: String| {
        let text = Credentials { jwt, pair: pair.clone(), ..base.clone() }.to_text().unwrap();
        let url = world.server.url();
        async move { ConnectOptions::with_credentials(&text).unwrap().connect(url).await }
    };
    // A user that says what it may do, one of the other account, and one of nobody.
    let mut wide = accounts::member(Role::Master, "m1", pair.public(), 1_700_000_000);
    wide.nats.insert("issuer_account".into(), keys.peels.public().as_str().into());
    assert!(join(wide.issued_by(&keys.issuer)).await.is_err());
    wide.nats.insert("issuer_account".into(), keys.core.public().as_str().into());
    assert!(join(wide.issued_by(&keys.issuer)).await.is_err());
    let stranger = fleet::pair(zester_identity::KeyKind::Account, 99);
    assert!(
        join(accounts::member(Role::Admin, "ann", pair.public(), 1_700_000_000).issued_by(&stranger))
            .await
            .is_err()
    );
    assert!(async_nats::connect(world.server.url()).await.is_err(), "without credentials");
}

/// A client that tells what the server says of it.
async fn told_client(url: &str, who: &Credentials) -> (Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    let options = ConnectOptions::with_credentials(&who.to_text().unwrap()).unwrap();
    let options = options.custom_inbox_prefix(grants::inbox_prefix(&who.name)).event_callback(move |event| {
        let _gone = tell.send(event.to_string().to_lowercase());
        std::future::ready(())
    });
    (options.connect(url).await.unwrap(), told)
}

async fn hears(told: &mut tokio::sync::mpsc::UnboundedReceiver<String>, words: &str) {
    let heard = async {
        while let Some(said) = told.recv().await {
            if said.contains(words) {
                return;
            }
        }
        panic!("the server never said {words}");
    };
    tokio::time::timeout(SOON, heard).await.unwrap_or_else(|_| panic!("the server did not say {words}"));
}

#[tokio::test]
#[rule("I-13")]
async fn i13_a_peel_that_floods_meets_the_limits_of_its_user() {
    let (keys, dir) = (Keys::new(), tempfile::tempdir().unwrap());
    // The server itself would take four times as much.
    let config = format!("max_payload: 4194304\n{}", keys.server_config(&dir.path().join("jwt")));
    let server = Server::start_with(&config);
    let large = vec![b'x'; 2 * 1024 * 1024];
    let (peel, _told) = told_client(&server.url(), &keys.peel("web-1")).await;
    peel.publish("zester.heartbeat.web-1", large.clone().into()).await.unwrap();
    let _closed = peel.flush().await;
    // The server closes while the peel still writes, so the peel does not always read why.
    let refused = || async { server.said().contains("maximum payload exceeded").then_some(()) };
    wait_until("a refusal in the server's log", SOON, refused).await;
    let master = keys.member(Role::Master, "m1");
    let (master, mut told_master) = told_client(&server.url(), &master).await;
    master.publish("zester.notify.trust", large.into()).await.unwrap();
    master.flush().await.unwrap();
    while let Ok(said) = told_master.try_recv() {
        assert!(!said.contains("payload"), "{said}");
    }
    // Subscriptions: as many as a peel needs and some more, and no more than that.
    let (peel, mut told) = told_client(&server.url(), &keys.peel("web-2")).await;
    let mut ears = Vec::new();
    for number in 0..zester_identity::limits::PEEL_SUBSCRIPTIONS_MAX + 10 {
        ears.push(peel.subscribe(format!("_INBOX.web-2.{number}")).await.unwrap());
    }
    let _refused = peel.flush().await;
    hears(&mut told, "maximum subscriptions").await;
}

#[tokio::test]
#[rule("I-7", "I-13")]
async fn i7_a_peel_wipes_nothing_with_a_rollup_of_its_own_key() {
    let world = World::start().await;
    let keys = &world.keys;
    let (one, two) = (world.join(&keys.peel("web-1")).await, world.join(&keys.peel("web-2")).await);
    assert!(ask(&two, "$KV.facts.web-2", "mine").await.contains("\"seq\""));
    for scope in ["all", "sub"] {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Rollup", scope);
        let request = Request::new().headers(headers).payload("x".into()).timeout(Some(SOON));
        let answer = one.send_request("$KV.facts.web-1", request).await.unwrap();
        let said = String::from_utf8_lossy(&answer.payload).into_owned();
        assert!(said.contains("error"), "{scope}: {said}");
    }
    assert_eq!(ask(&two, "$JS.API.DIRECT.GET.KV_facts.$KV.facts.web-2", "").await, "mine");
}

/// What happens in an account that its own role did not do there: everything that was heard until the end.
async fn all_heard(spy: &Client, ears: &mut Subscriber) -> Vec<Message> {
    spy.publish("spy.end", "".into()).await.unwrap();
    let mut all = Vec::new();
    loop {
        let message = heard(ears).await;
        if message.subject.as_str() == "spy.end" {
            return all;
        }
        all.push(message);
    }
}

/// What JetStream holds: streams, with their messages and where they stand.
async fn kept(core: &Client) -> Vec<(String, serde_json::Value, serde_json::Value)> {
    let listed = ask(core, "$JS.API.STREAM.LIST", "{}").await;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let mut all = Vec::new();
    for stream in listed["streams"].as_array().unwrap() {
        let name = stream["config"]["name"].as_str().unwrap().to_string();
        let body = r#"{"subjects_filter":">"}"#;
        let info = ask(core, &format!("$JS.API.STREAM.INFO.{name}"), body).await;
        let info: serde_json::Value = serde_json::from_str(&info).unwrap();
        let mut state = info["state"].clone();
        // The stream of events takes what an operator may send.
        let consumers = state["consumer_count"].take();
        if name == "events" {
            state = serde_json::Value::Null;
        }
        all.push((name, state, consumers));
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}
