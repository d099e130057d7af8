//! A peel whose credentials are good and whose will is not, against real daemons on a real server. What it tries comes from the table
//! of grants: everything that a master or another peel hears. A new subject that nobody forges here does not compile, or panics.

use crate::daemon::PATIENCE;
use crate::forgeries::{broker, credentials, join, sealed, touching};
use crate::shell::Shell;
use async_nats::{Client, HeaderMap, Subscriber};
use futures_util::StreamExt;
use serde_json::Map;
use std::path::Path;
use zester_identity::grants::{Act, TABLE};
use zester_identity::{Credentials, Role};
use zester_link::{Clock, SystemClock};
use zester_rule::rule;
use zester_testkit::{wait_for, wait_until};
use zester_wire::{
    Ack, AdminRequest, Cause, DispatchRequest, Event, Jid, JobEvent, JobEventKind, Notice, Origin,
    PeelCommand, PeelHeartbeat, PeelId, PublishRequest, ResolveRequest, Return, Signer, Subject, Tag, Token,
    Unsigned, VERSION,
};

const MASTER: usize = 1;
/// The peel that is attacked, as the shell numbers what it began.
const VICTIM: usize = 2;
const VICTIM_NAME: &str = "web-02";
const SPOOFS: &str = "zester_messages_dropped{reason=\"spoof\"}";

const RULES: &str = "reactor:
  - '*/forged': [reactor.touch]
  - 'web-01/go': [reactor.tell]
";
const TELL: &str = "tell:\n  event.send:\n    tag: told\n";

/// A server, a master with rules, the victim web-02, and credentials for the adversary, web-01. The reaction `touch` makes the
/// file `fired`.
pub fn fleet(rules: &str) -> Shell {
    let mut shell = Shell::new();
    std::fs::create_dir(shell.path("reactor")).unwrap();
    std::fs::write(shell.path("reactor/top.zy"), rules).unwrap();
    std::fs::write(shell.path("reactor/tell.zy"), TELL).unwrap();
    let touch = format!(
        "touch:\n  dispatch.module:\n    target: web-02\n    function: cmd.run\n    args: {{name: 'touch {}'}}\n",
        shell.path("fired").display()
    );
    std::fs::write(shell.path("reactor/touch.zy"), touch).unwrap();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         zester auth issue web-02 --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --reactor reactor --health 0 &\n\
         zester peel run --id web-02 --creds keys/creds/web-02.creds --data-dir web-02 --health 0 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester web-02 test.ping --timeout 5s",
    );
    shell
}

fn count(shell: &Shell, number: usize, metric: &str) -> u64 {
    let text = shell.metrics(number);
    text.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok()).unwrap_or(0)
}

/// What the reactor took for a forgery.
fn forged_events(shell: &Shell) -> u64 {
    let text = shell.metrics(MASTER);
    let dropped = text.lines().filter(|line| line.starts_with("zester_reactor_events_dropped_total"));
    let spoofs = dropped.filter(|line| line.contains("spoof"));
    spoofs.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// Who hears a subject, and whom it believes there.
#[derive(Copy, Clone, PartialEq)]
enum Believes {
    /// Not this peel.
    Another,
    /// Every member: whoever is none is dropped.
    Members,
    /// Nobody: it only says where to look, and is not opened.
    Nobody,
}

/// A subject of a pattern in the table, about the victim and its job.
fn concrete(pattern: &str, jid: &Jid) -> Subject {
    let text = match pattern {
        "zester.admin.*" => "zester.admin.kill".to_string(),
        "zester.holder.*.*" => "zester.holder.publisher.publish".to_string(),
        "zester.notify.*" => "zester.notify.trust".to_string(),
        of_job => of_job.replacen("zester.job.*", &format!("zester.job.{jid}"), 1).replace('*', VICTIM_NAME),
    };
    Subject::parse(&text).unwrap_or_else(|bad| panic!("nobody forges {pattern}, which somebody hears: {bad}"))
}

/// What would do most harm on a subject, if it were believed.
fn forged(subject: &Subject, made: &Path, by: &dyn Signer) -> (Vec<u8>, Believes) {
    let (to, ts) = (subject.to_string(), SystemClock.wall());
    let notice = || Notice { v: VERSION, bucket: Token::parse("trust").unwrap(), revision: 9 };
    match subject {
        Subject::Dispatch => (sealed(&to, &dispatch(made), by), Believes::Another),
        Subject::Command { .. } => (sealed(&to, &touching(made, false), by), Believes::Another),
        Subject::Admin { .. } => {
            let jid = Jid::parse(JID).unwrap();
            let kill = AdminRequest::Kill { jid, user: "admin".into(), reason: "forged".into() };
            (sealed(&to, &kill, by), Believes::Another)
        }
        Subject::Holder { .. } => {
            let publish = AdminRequest::Publish(PublishRequest { allow_empty: true, ..Default::default() });
            (sealed(&to, &publish, by), Believes::Another)
        }
        Subject::ReactorTest => (sealed(&to, &notice(), by), Believes::Another),
        Subject::JobCancel { jid } => {
            let event = JobEventKind::Canceled { data: String::new(), by: "forged".into() };
            let event = JobEvent { v: VERSION, jid: jid.clone(), ts, event };
            (sealed(&to, &event, by), Believes::Another)
        }
        Subject::JobAck { jid, peel } => {
            let ack =
                Ack { v: VERSION, jid: jid.clone(), peel: peel.clone(), dispatch_epoch: 1, ts, ahead: 0 };
            (sealed(&to, &ack, by), Believes::Another)
        }
        Subject::JobReturn { jid, peel } => {
            let answer = "forged".into();
            let said = Return::refusing(jid.clone(), peel.clone(), 1, Cause::Finished, "");
            (sealed(&to, &Return { success: true, answer, ..said }, by), Believes::Another)
        }
        Subject::Heartbeat { peel } => {
            let boot = Token::parse("forged").unwrap();
            let beat = PeelHeartbeat { stopped: true, ..PeelHeartbeat::new(peel.clone(), boot, 1, ts) };
            (sealed(&to, &beat, by), Believes::Another)
        }
        Subject::TargetResolve | Subject::PeelList => {
            (sealed(&to, &ResolveRequest::of("*"), by), Believes::Members)
        }
        Subject::Notify { .. } => (sealed(&to, &notice(), by), Believes::Nobody),
        // What a stream keeps and no daemon hears: events are below, the others are read by who asks.
        Subject::JobDispatch { .. }
        | Subject::JobStatus { .. }
        | Subject::JobProgress { .. }
        | Subject::JobSchedule { .. }
        | Subject::Ledger { .. }
        | Subject::Audit { .. }
        | Subject::Event(_) => panic!("a daemon hears {to} now: say what it believes"),
    }
}

const JID: &str = "2hPx2Kd8VnR7YmWqTz4PLsCfNjA";

fn dispatch(made: &Path) -> DispatchRequest {
    DispatchRequest {
        v: VERSION,
        jid: Jid::parse(JID).unwrap(),
        function: "cmd.run".into(),
        args: Map::new(),
        state_id: String::new(),
        targets: Vec::new(),
        target_expr: VICTIM_NAME.into(),
        timeout: PATIENCE,
        user: "admin".into(),
        metadata: Map::new(),
        positionals: vec![format!("touch {}", made.display()).into()],
        test: false,
        wait: None,
        target_digest: None,
    }
}

fn event(id: &str, tag: &str) -> Event {
    let tag = Tag::parse(tag).unwrap();
    Event {
        id: id.into(),
        tag,
        data: Map::new(),
        ts: SystemClock.wall(),
        v: VERSION,
        origin: String::new(),
        depth: 0,
    }
}

async fn listen(client: &Client, subject: &str) -> Subscriber {
    let subscriber = client.subscribe(subject.to_string()).await.unwrap();
    client.flush().await.unwrap();
    subscriber
}

async fn heard(subscriber: &mut Subscriber) -> async_nats::Message {
    tokio::time::timeout(PATIENCE, subscriber.next()).await.unwrap().unwrap()
}

/// The job that the victim works on.
fn running(shell: &Shell) -> Jid {
    wait_for("the job", PATIENCE, || {
        let listed = shell.run("zester job list --format json");
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).ok()?;
        let jobs = listed["jobs"].as_array()?.iter();
        let mut jobs = jobs.filter(|job| job["status"] == "running");
        Jid::parse(jobs.next()?["jid"].as_str()?).ok()
    })
}

#[tokio::test(flavor = "multi_thread")]
#[rule("I-7", "I-8")]
async fn i7_nothing_that_a_master_or_a_peel_hears_is_believed_from_another_peel() {
    let mut shell = fleet(RULES);
    let adversary = credentials(&shell, "web-01");
    // The server denies the adversary all of these; who could make it deliver them shows what the readers do by themselves.
    let broker = join(&shell, &broker(&shell, &adversary)).await;
    let (made, gate) = (shell.path("forged"), shell.path("gate"));
    // Somebody follows a job meanwhile, and hears what is said on its subjects.
    let waiting = format!("while [ ! -e {} ]; do sleep 0.1; done; echo done", gate.display());
    shell.begins(&format!("zester web-02 cmd.run \"{waiting}\" --timeout 120s"));
    let jid = running(&shell);
    let rows = TABLE.iter().filter(|grant| grant.act == Act::Subscribe);
    let rows = rows.filter(|grant| matches!(grant.role, Role::Master | Role::Peel));
    let (mut tried, mut at_master, mut at_victim) =
        (0, count(&shell, MASTER, SPOOFS), count(&shell, VICTIM, SPOOFS));
    for (role, pattern) in rows.map(|grant| (grant.role, grant.subject(VICTIM_NAME))) {
        if pattern.starts_with("_INBOX") {
            continue;
        }
        let subject = concrete(&pattern, &jid);
        let mut expected = 0;
        for by in [&adversary as &dyn Signer, &Unsigned] {
            let (bytes, believes) = forged(&subject, &made, by);
            expected += match believes {
                Believes::Another => 1,
                Believes::Members => u64::from(by.key().is_empty()),
                Believes::Nobody => 0,
            };
            broker.publish(subject.to_string(), bytes.into()).await.unwrap();
        }
        broker.flush().await.unwrap();
        let (number, before) = match role {
            Role::Master => (MASTER, &mut at_master),
            _ => (VICTIM, &mut at_victim),
        };
        *before += expected;
        wait_for(&format!("the end of what was forged on {subject}"), PATIENCE, || {
            (count(&shell, number, SPOOFS) >= *before).then_some(())
        });
        tried += 1;
    }
    assert!(tried >= 12, "{tried}");
    // Facts and signs of life in the words of another: whoever watches the buckets drops them.
    for (bucket, record) in [("facts", "$KV.facts.web-02"), ("enrollments", "$KV.enrollments.peel.web-02")] {
        let bytes = sealed(record, &event("forged", "forged"), &adversary);
        broker.publish(record.to_string(), bytes.into()).await.unwrap();
        at_master += 1;
        wait_for(&format!("the end of a forged record of {bucket}"), PATIENCE, || {
            (count(&shell, MASTER, SPOOFS) >= at_master).then_some(())
        });
    }
    // Each was counted, and nothing is other than it was: the job runs, its peel is there, nothing was done.
    assert_eq!((count(&shell, MASTER, SPOOFS), count(&shell, VICTIM, SPOOFS)), (at_master, at_victim));
    let shown = shell.succeeds(&format!("zester job show {jid} --format json"));
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["status"], &shown["return_count"]), (&"running".into(), &0.into()), "{shown:#}");
    std::fs::write(&gate, "").unwrap();
    wait_for("the end of the job that was followed", PATIENCE, || {
        shell.background.last_mut().unwrap().try_wait().unwrap()
    });
    let followed = shell.log(shell.background.len() - 1);
    assert!(followed.contains("done") && !followed.contains("forged"), "{followed}");
    assert!(!made.exists());
    shell.succeeds("zester web-02 test.ping --timeout 10s");
    assert!(!shell.log(VICTIM).contains("panicked") && !shell.log(MASTER).contains("panicked"));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("I-7", "R-3", "R-9")]
async fn i7_a_real_peel_cannot_mistag_squat_or_move_what_it_says_itself() {
    let shell = fleet(RULES);
    let adversary = credentials(&shell, "web-01");
    let client = join(&shell, &adversary).await;
    let publish = async |subject: &str, event: &Event| {
        let said =
            client.request(subject.to_string(), sealed(subject, event, &adversary).into()).await.unwrap();
        assert!(
            String::from_utf8_lossy(&said.payload).contains("\"seq\""),
            "the stream keeps what is its own"
        );
    };
    // A tag that is not its subject's: the rule means the one, the subject says the other, and the other way round.
    publish("zester.event.web-01.send.harmless", &event("e-tag", "forged")).await;
    publish("zester.event.web-01.send.forged", &event("e-tag-2", "harmless")).await;
    publish("zester.event.web-01.beacon.load", &event("e-tag-3", "forged")).await;
    wait_for("the mistagged events to be dropped", PATIENCE, || (forged_events(&shell) >= 3).then_some(()));
    // What it signed for one of its subjects counts on no other of them.
    let elsewhere = sealed("zester.event.web-01.send.harmless", &event("e-moved", "forged"), &adversary);
    client.request("zester.event.web-01.send.forged", elsewhere.into()).await.unwrap();
    wait_for("the moved event to be dropped", PATIENCE, || (forged_events(&shell) >= 4).then_some(()));
    // It knows the id that the master will use, and takes it first. The master tells all the same.
    let origin = Origin::Peel(PeelId::parse("web-01").unwrap());
    let cause =
        zester_reactor::Cause { origin: &origin, event_id: "e-go", rule: "reactor.tell", block: "tell" };
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", cause.event().as_str());
    let squat = "zester.event.web-01.send.squat";
    let bytes = sealed(squat, &event("e-squat", "squat"), &adversary);
    client.publish_with_headers(squat, headers, bytes.into()).await.unwrap();
    client.flush().await.unwrap();
    let core = join(&shell, &broker(&shell, &adversary)).await;
    let mut told = listen(&core, "zester.event._master.reaction.told").await;
    publish("zester.event.web-01.send.go", &event("e-go", "go")).await;
    heard(&mut told).await;
    assert_eq!(forged_events(&shell), 4);
    assert!(!shell.path("fired").exists());
    // The rule could have fired.
    publish("zester.event.web-01.send.forged", &event("e-good", "forged")).await;
    wait_for("the rule for a good event", PATIENCE, || shell.path("fired").exists().then_some(()));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("I-7", "I-8", "J-7")]
async fn i7_what_was_said_once_counts_at_its_place_and_once() {
    let shell = fleet(RULES);
    let adversary = credentials(&shell, "web-01");
    let (client, core) = (join(&shell, &adversary).await, join(&shell, &broker(&shell, &adversary)).await);
    let counter = shell.path("counter");
    let mut everything = listen(&core, "zester.>").await;
    shell.succeeds(&format!("zester web-02 cmd.run 'echo x >> {}' --timeout 30s", counter.display()));
    let (mut command, mut request, mut beat) = (None, None, None);
    while command.is_none() || request.is_none() || beat.is_none() {
        let message = heard(&mut everything).await;
        match message.subject.as_str() {
            "zester.cmd.web-02" if is_exec(&message.payload) => command = Some(message.payload),
            "zester.dispatch" => request = Some(message.payload),
            "zester.heartbeat.web-02" => beat = Some(message.payload),
            _ => {}
        }
    }
    let (command, request, beat) = (command.unwrap(), request.unwrap(), beat.unwrap());
    // Across time: the very command and the very request again, and again.
    for _ in 0..3 {
        core.publish("zester.cmd.web-02", command.clone()).await.unwrap();
        core.request("zester.dispatch", request.clone()).await.unwrap();
    }
    // Across subjects: what the victim said as what the adversary says, and what a master said to one as said to another.
    let (at_master, at_victim) = (count(&shell, MASTER, SPOOFS), count(&shell, VICTIM, SPOOFS));
    client.publish("zester.heartbeat.web-01", beat).await.unwrap();
    client.flush().await.unwrap();
    let touch = shell.path("forged");
    let master = credentials(&shell, "master");
    let to_another = sealed("zester.cmd.web-01", &touching(&touch, false), &master);
    core.publish("zester.cmd.web-02", to_another.into()).await.unwrap();
    core.flush().await.unwrap();
    wait_for("what was moved to be dropped", PATIENCE, || {
        (count(&shell, MASTER, SPOOFS) > at_master && count(&shell, VICTIM, SPOOFS) > at_victim).then_some(())
    });
    // A job that came after all of these is done, so they were looked at before.
    shell.succeeds("zester web-02 cmd.run true --timeout 30s");
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), "x\n", "it was done again");
    assert!(!touch.exists());
}

fn is_exec(payload: &[u8]) -> bool {
    let envelope: zester_wire::Envelope = zester_wire::decode(payload).unwrap();
    matches!(envelope.open::<PeelCommand>(), Ok(PeelCommand::Exec(_)))
}

#[tokio::test(flavor = "multi_thread")]
#[rule("I-7", "I-5", "I-8")]
async fn i7_stolen_credentials_and_an_old_roster_are_of_no_use_once_they_were_revoked() {
    let shell = fleet(RULES);
    let adversary = credentials(&shell, "web-01");
    let core = join(&shell, &broker(&shell, &adversary)).await;
    let before =
        core.request("$JS.API.DIRECT.GET.KV_trust.$KV.trust.roster", "".into()).await.unwrap().payload;
    let live = join(&shell, &adversary).await;
    live.publish("zester.event.web-01.send.forged", "".into()).await.unwrap();
    shell.succeeds("zester auth revoke web-01 --dir keys");
    wait_for("the end of the live connection", PATIENCE, || {
        (live.connection_state() != async_nats::connection::State::Connected).then_some(())
    });
    // The file was copied before: it opens nothing.
    assert!(is_refused(&shell, Some(&adversary)).await, "with the stolen file");
    assert!(is_refused(&shell, None).await, "without any");
    wait_for("the new roster at the master", PATIENCE, || {
        shell.log(MASTER).contains("a new roster counts").then_some(())
    });
    // What its key signed, then and now, counts for nobody, although the server still delivers it.
    let counts = |shell: &Shell| (forged_events(shell), count(shell, MASTER, SPOOFS));
    let said = |subject: &str| sealed(subject, &event("late", "forged"), &adversary);
    let (events, spoofs) = counts(&shell);
    for subject in ["zester.event.web-01.send.forged", "zester.heartbeat.web-01"] {
        core.publish(subject, said(subject).into()).await.unwrap();
    }
    core.flush().await.unwrap();
    wait_for("what the revoked key signed to be dropped", PATIENCE, || {
        let (now_events, now_spoofs) = counts(&shell);
        (now_events > events && now_spoofs > spoofs).then_some(())
    });
    // Somebody puts the roster back in which it counted. It is good, and old.
    let (at_master, at_victim) = (count(&shell, MASTER, SPOOFS), count(&shell, VICTIM, SPOOFS));
    core.request("$KV.trust.roster", before).await.unwrap();
    let notice = Notice { v: VERSION, bucket: Token::parse("trust").unwrap(), revision: 9 };
    let bytes = sealed("zester.notify.trust", &notice, &credentials(&shell, "admin"));
    core.publish("zester.notify.trust", bytes.into()).await.unwrap();
    wait_for("the old roster to be refused", PATIENCE, || {
        (count(&shell, MASTER, SPOOFS) > at_master && count(&shell, VICTIM, SPOOFS) > at_victim).then_some(())
    });
    let events = forged_events(&shell);
    let subject = "zester.event.web-01.send.forged";
    core.publish(subject, said(subject).into()).await.unwrap();
    wait_for("the revoked key to count no more", PATIENCE, || (forged_events(&shell) > events).then_some(()));
    assert!(!shell.path("fired").exists());
    shell.succeeds("zester web-02 test.ping --timeout 10s");
}

async fn is_refused(shell: &Shell, who: Option<&Credentials>) -> bool {
    let options = match who {
        Some(who) => async_nats::ConnectOptions::with_credentials(&who.to_text().unwrap()).unwrap(),
        None => async_nats::ConnectOptions::new(),
    };
    let options = options.add_root_certificates(shell.path("keys/tls/ca.pem")).require_tls(true);
    let refused = options.connect(shell.url()).await.map_err(|error| error.kind());
    matches!(
        refused,
        Err(async_nats::ConnectErrorKind::AuthorizationViolation
            | async_nats::ConnectErrorKind::Authentication)
    )
}

const ROLES: &str = "everything:
  - allow: ['*']
    direct: true
  - verbs: [kill, retry, publish, forget, event, enroll, breaker_close, audit]
";

/// What no daemon changes by itself: the newest record of each of these buckets, and how every stream begins and is made.
async fn standing(core: &Client) -> Vec<(String, Option<serde_json::Value>)> {
    let mut all = Vec::new();
    for store in zester_bus::storage::table() {
        let (stream, quiet) = (store.stream_name(), !MOVING.contains(&store.name.as_str()));
        let info = core.request(format!("$JS.API.STREAM.INFO.{stream}"), "".into()).await.unwrap().payload;
        let mut info: serde_json::Value = serde_json::from_slice(&info).unwrap();
        let first = info["state"]["first_seq"].clone();
        // What lives for a while goes by itself.
        let first = Some(first).filter(|_| store.max_age.is_none() && quiet);
        all.push((format!("{stream} begins"), first));
        all.push((format!("{stream} is made so"), info.get_mut("config").map(serde_json::Value::take)));
        if quiet && store.is_bucket {
            let newest =
                core.request(format!("$JS.API.DIRECT.GET.{stream}"), r#"{"last_by_subj":">"}"#.into());
            let newest = newest.await.unwrap();
            let place = newest.headers.and_then(|headers| Some(headers.get("Nats-Sequence")?.to_string()));
            all.push((format!("{stream} holds"), Some(serde_json::json!([place, newest.payload.to_vec()]))));
        }
    }
    all
}

/// Buckets that daemons write to all the time.
const MOVING: [&str; 8] =
    ["facts", "peel-seen", "leases", "master-heartbeat", "jobs", "job-returns", "job-targets", "enrollments"];

/// The server answers a read where its asker says. In an account of their own that is nowhere (I-14).
#[tokio::test(flavor = "multi_thread")]
#[rule("I-7", "I-14")]
async fn i7_an_operator_has_the_server_write_purge_and_remove_nothing_by_the_reply_subject_of_its_questions()
{
    let shell = fleet(RULES);
    std::fs::write(shell.path("roles.yaml"), ROLES).unwrap();
    shell.succeeds("zester auth roles roles.yaml --dir keys --no-push");
    shell.succeeds("zester auth admin bob --role everything --dir keys");
    shell.succeeds("zester auth push --dir keys");
    let bob = credentials(&shell, "bob");
    let (client, core) = (join(&shell, &bob).await, join(&shell, &broker(&shell, &bob)).await);
    // Something in stores that would else be empty; and what the master writes by itself when it starts is there.
    for bucket in ["state-files", "settings-files"] {
        core.request(format!("$KV.{bucket}.kept"), "kept".into()).await.unwrap();
    }
    wait_until("the rules of the master", PATIENCE, || async {
        let revision = "$JS.API.DIRECT.GET.KV_reactor-files.$KV.reactor-files._revision";
        let found = core.request(revision, "".into()).await.ok()?;
        (!found.payload.is_empty()).then_some(())
    })
    .await;
    let made = shell.path("forged");
    let before = standing(&core).await;
    let mut targets = vec!["zester.cmd.web-02".to_string(), "zester.event._master.forged".into()];
    for store in zester_bus::storage::table() {
        let stream = store.stream_name();
        for verb in ["STREAM.PURGE", "STREAM.DELETE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "CONSUMER.CREATE"]
        {
            targets.push(format!("$JS.API.{verb}.{stream}"));
        }
        if store.is_bucket {
            let keys = ["kept", "_manifest", "_revision", "roster", "web-02", "publisher"];
            targets.extend(keys.map(|key| format!("$KV.{}.{key}", store.name)));
        }
    }
    // What nobody may say there who is no master, said by one who may read it and by one who may not.
    let forged = sealed("zester.cmd.web-02", &touching(&made, false), &bob);
    let mut tried = 0;
    let rows = TABLE.iter().filter(|grant| grant.role == Role::Operator && grant.act == Act::Publish);
    for pattern in rows.map(|grant| grant.subject("bob")) {
        let through = pattern
            .replace("zester.admin.*", "zester.admin.forged")
            .replace('*', "web-02")
            .replace('>', "forged");
        let bodies: Vec<Vec<u8>> = match pattern.starts_with("$JS.API.DIRECT.GET.") {
            true => vec![br#"{"last_by_subj":">"}"#.to_vec(), br#"{"seq":1}"#.to_vec()],
            false => vec![forged.clone(), Vec::new()],
        };
        for (target, body) in targets.iter().flat_map(|target| bodies.iter().map(move |body| (target, body)))
        {
            client.publish_with_reply(through.clone(), target.clone(), body.clone().into()).await.unwrap();
            tried += 1;
        }
        client.flush().await.unwrap();
    }
    assert!(tried > 5_000, "{tried}");
    // The server and the daemons have looked at all of it, when what came behind it is done.
    client.request("$JS.API.DIRECT.GET.KV_trust", r#"{"seq":1}"#.into()).await.unwrap();
    shell.succeeds("zester web-02 test.ping --timeout 30s --creds keys/creds/bob.creds");
    shell.succeeds("zester web-02 cmd.run true --timeout 30s");
    for (was, is) in before.iter().zip(standing(&core).await) {
        assert_eq!(*was, is);
    }
    assert!(!made.exists());
    assert!(!shell.path("fired").exists());
    assert!(!shell.log(VICTIM).contains("panicked") && !shell.log(MASTER).contains("panicked"));
}
