//! The same on a real server.

use crate::fleet::{Fleet, Peel};
use crate::reactor::{asked_once, event, ledger, ping, publish, reacting, send};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::nats::{Options, connect};
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::Reacting;
use zester_reactor::Guards;
use zester_rule::rule;
use zester_testkit::{Server, wait_until};
use zester_wire::*;

/// How long a busy machine may take; nothing waits so long when all is well.
const PATIENCE: Duration = Duration::from_secs(60);

async fn link(server: &Server, name: &str) -> Link {
    let options = Options::new(vec![server.url()], name);
    Link::new(Arc::new(connect(options).await.unwrap()))
}

fn quick() -> Timing {
    Timing {
        master_heartbeat: Duration::from_millis(500),
        master_ttl: Duration::from_secs(2),
        orphan_scan: Duration::from_secs(1),
        ..Timing::default()
    }
}

/// A fleet whose client speaks to a server; the memory bus of it is not used.
pub async fn fleet(server: &Server) -> Fleet {
    let (net, link) = (Net::new(Arc::new(TokioClock::new())), link(server, "client").await);
    Fleet { net, link, reacting: Reacting::default() }
}

pub async fn master(fleet: &Fleet, server: &Server, name: &str) -> crate::fleet::Master {
    let bus = link(server, name).await.bus().clone();
    fleet.start_on(name, bus, quick())
}

/// One that asks nobody again, however busy the machine is.
async fn patient(fleet: &Fleet, server: &Server, name: &str) -> crate::fleet::Master {
    let bus = link(server, name).await.bus().clone();
    fleet.start_on(name, bus, Timing { ack_window: PATIENCE, ..quick() })
}

async fn peel(server: &Server, name: &str) -> Peel {
    let mut peel = Peel::new(link(server, name).await, name).await;
    peel.publish_facts(json!({"os": "Debian"})).await;
    peel.beat().await;
    peel
}

pub async fn known(fleet: &Fleet, count: usize) {
    wait_until("the peels are known", PATIENCE, async || {
        let reply = fleet.resolve("*").await.ok()?;
        (reply.peels.len() == count).then_some(())
    })
    .await;
}

async fn over(fleet: &Fleet, jid: &Jid) -> Job {
    wait_until("the job is over", PATIENCE, async || {
        let found = fleet.link.get::<Job>(&Key::Job(jid.clone())).await.ok()??;
        let marked = fleet.link.bus().get("jobs", &Key::Active(jid.clone()).to_string()).await.ok()?;
        (found.value.status.is_terminal() && marked.is_none()).then_some(found.value)
    })
    .await
}

fn job(fleet: &Fleet) -> DispatchRequest {
    DispatchRequest { timeout: Duration::from_secs(300), ..fleet.request("*") }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("J-14")]
async fn j14_a_job_survives_its_master() {
    let server = Server::start();
    let fleet = fleet(&server).await;
    let first = master(&fleet, &server, "m1").await;
    wait_until("the master is ready", PATIENCE, async || first.health.report().0.then_some(())).await;
    let (mut web, mut db) = (peel(&server, "web-1").await, peel(&server, "db-1").await);
    known(&fleet, 2).await;
    let jid = fleet.ask(&job(&fleet)).await.jid.unwrap();
    web.serve(true).await;
    let exec = db.exec().await;
    db.ack(&exec).await;
    first.stop().await;
    let second = master(&fleet, &server, "m1").await;
    db.ret(&exec, true).await;
    let job = over(&fleet, &jid).await;
    assert_eq!((job.status, job.return_count), (JobStatus::Complete, 2));
    assert_eq!((job.owner, job.epoch), (second.id.clone(), 2));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_under_a_job_loses_nothing() {
    let mut server = Server::start();
    let fleet = fleet(&server).await;
    let master = master(&fleet, &server, "m1").await;
    wait_until("the master is ready", PATIENCE, async || master.health.report().0.then_some(())).await;
    let (mut web, mut db) = (peel(&server, "web-1").await, peel(&server, "db-1").await);
    known(&fleet, 2).await;
    let jid = fleet.ask(&job(&fleet)).await.jid.unwrap();
    web.serve(true).await;
    let exec = db.exec().await;
    db.ack(&exec).await;
    server.kill();
    server.restart();
    // The peel is back before the master is, or after it.
    let ret = db.returning(&exec, true);
    let subject = Subject::JobReturn { jid: jid.clone(), peel: db.id.clone() };
    let id = db.link.new_message_id().unwrap();
    wait_until("the return is kept", PATIENCE, async || {
        db.link.publish_stored(&subject, &id, &ret).await.ok()
    })
    .await;
    let job = over(&fleet, &jid).await;
    assert_eq!((job.status, job.return_count, job.epoch), (JobStatus::Complete, 2, 1));
    master.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
#[rule("R-1", "R-10")]
async fn r10_events_become_jobs_once_while_a_master_dies() {
    let server = Server::start();
    let mut fleet = fleet(&server).await;
    fleet.reacting = reacting(Guards { source_rate_limit: 0, storm_rate: 0, ..Guards::default() });
    // A crash gives its events back soon.
    fleet.reacting.ack_wait = Duration::from_secs(2);
    let first = patient(&fleet, &server, "m1").await;
    wait_until("the master is ready", PATIENCE, async || first.health.report().0.then_some(())).await;
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.a"]}])), ("a.zy", ping())]).await;
    let second = patient(&fleet, &server, "m2").await;
    for one in [&first, &second] {
        wait_until("the rules are loaded", PATIENCE, async || {
            (one.metric("zester_reactor_rules_loaded") == 1).then_some(())
        })
        .await;
    }
    let mut web = peel(&server, "web-1").await;
    known(&fleet, 1).await;
    let (total, mut asked) = (100, Vec::new());
    for number in 0..total {
        send(&web.link, "web-1", &event(&format!("e{number}"), "x", json!({}))).await;
    }
    let mut first = Some(first);
    // They are asked for until nothing is left to ask for, and a while longer.
    let is_done = async || {
        let pending = fleet.link.bus().pending(&zester_bus::storage::reactor()).await;
        pending.is_ok_and(|pending| pending.total() == 0)
    };
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE * 2, "{} of {total} came", asked.len());
        let Ok(request) = tokio::time::timeout(Duration::from_secs(3), web.exec()).await else {
            web.beat().await;
            if asked.len() >= total && is_done().await {
                break;
            }
            continue;
        };
        web.ack(&request).await;
        web.ret(&request, true).await;
        web.beat().await;
        asked.push((request.jid, request.dispatch_epoch));
        if asked.len() == 20 {
            drop(first.take());
            // Whoever sent these did not hear that they came, and sends them again: the stream has them twice.
            for number in 0..10 {
                send(&web.link, "web-1", &event(&format!("e{number}"), "x", json!({}))).await;
            }
        }
    }
    asked_once(&asked, total);
    wait_until("what came twice is a duplicate", PATIENCE, async || {
        let duplicates = ledger(&fleet).await.iter().filter(|entry| entry.decision == "duplicate").count();
        (duplicates >= 10).then_some(())
    })
    .await;
    second.stop().await;
}
