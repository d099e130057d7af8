//! What masters tell of jobs, peels and published trees.

use crate::fleet::{Fleet, Losing, Peel, eventually};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::storage::EVENTS;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::{Publishing, Source};
use zester_rule::rule;
use zester_wire::*;

/// Longer than a peel that is gone takes to be told, and shorter than what the stream remembers an id for.
const TOLD: u64 = 90;

/// All events of masters whose tag begins so, in the order of the stream.
async fn events(fleet: &Fleet, prefix: &str) -> Vec<Event> {
    let page = fleet.link.bus().replay(EVENTS, "zester.event._master.>", 0).await.unwrap();
    let opened = page
        .items
        .iter()
        .map(|record| fleet.link.open::<Event>(&record.subject, &record.payload).unwrap().message);
    opened.filter(|event| event.tag.as_str().starts_with(prefix)).collect()
}

async fn tags(fleet: &Fleet, prefix: &str) -> Vec<String> {
    events(fleet, prefix).await.iter().map(|event| event.tag.to_string()).collect()
}

/// Lets time pass; these peels beat meanwhile.
async fn pass(peels: &mut [Peel], seconds: u64) {
    for _ in 0..seconds / 5 {
        for peel in &mut *peels {
            peel.try_beat().await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn peels(fleet: &Fleet, count: usize) -> Vec<Peel> {
    let mut peels = Vec::new();
    for number in 0..count {
        let peel = fleet.peel(&format!("p{number}")).await;
        peel.record_seen().await;
        peels.push(peel);
    }
    peels
}

#[tokio::test(start_paused = true)]
#[rule("R-24")]
async fn r24_a_peel_that_goes_and_comes_is_told_once_by_however_many_masters() {
    let fleet = Fleet::new().await;
    let mut all = peels(&fleet, 3).await;
    let _masters = [fleet.master("m1").await, fleet.master("m2").await];
    pass(&mut all, TOLD).await;
    assert!(tags(&fleet, "peel/").await.is_empty(), "who is there at the start is no news");
    // A restart is silent.
    all[0].say_stopped().await;
    pass(&mut all[1..], 20).await;
    pass(&mut all, TOLD).await;
    assert!(tags(&fleet, "").await.is_empty());
    pass(&mut all[1..], TOLD).await;
    assert_eq!(tags(&fleet, "").await, ["peel/p0/offline"]);
    pass(&mut all, TOLD).await;
    assert_eq!(tags(&fleet, "").await, ["peel/p0/offline", "peel/p0/online"]);
    let told = events(&fleet, "peel/").await;
    assert_eq!((told[0].data["peel"].as_str(), told[0].data["online"].as_bool()), (Some("p0"), Some(false)));
    assert_eq!((told[1].origin.as_str(), told[1].depth), ("_master", 0));
}

#[tokio::test(start_paused = true)]
#[rule("R-24")]
async fn r24_a_restart_of_the_server_or_of_a_master_is_no_news() {
    let fleet = Fleet::new().await;
    let mut all = peels(&fleet, 30).await;
    let first = fleet.master("m1").await;
    pass(&mut all, TOLD).await;
    fleet.net.crash();
    pass(&mut all, 300).await;
    fleet.net.restart();
    for peel in &mut all {
        peel.reconnect().await;
    }
    pass(&mut all, TOLD).await;
    drop(first);
    let _second = fleet.master("m2").await;
    pass(&mut all, TOLD).await;
    assert!(tags(&fleet, "").await.is_empty(), "{:?}", tags(&fleet, "").await);
}

#[tokio::test(start_paused = true)]
#[rule("R-24")]
async fn r24_a_part_of_the_fleet_that_goes_at_once_is_one_event_with_counts() {
    let fleet = Fleet::new().await;
    let mut all = peels(&fleet, 40).await;
    let _masters = [fleet.master("m1").await, fleet.master("m2").await];
    pass(&mut all, TOLD).await;
    pass(&mut all[3..], TOLD).await;
    assert_eq!(tags(&fleet, "").await, ["fleet/presence"]);
    let told = events(&fleet, "fleet/").await.remove(0);
    assert_eq!((told.data["went"].as_u64(), told.data["came"].as_u64()), (Some(3), Some(0)));
    assert_eq!((told.data["peels"].as_u64(), told.data["online"].as_u64()), (Some(40), Some(37)));
    assert_eq!(told.data["went_named"], serde_json::json!(["p0", "p1", "p2"]));
}

#[tokio::test(start_paused = true)]
#[rule("R-24")]
async fn r24_what_a_dying_master_did_not_tell_the_next_holder_of_the_lease_tells() {
    let fleet = Fleet::new().await;
    let mut all = peels(&fleet, 3).await;
    let first = fleet.master("m1").await;
    pass(&mut all, 30).await;
    let _second = fleet.master("m2").await;
    pass(&mut all, TOLD).await;
    // The first one has the lease, and what it tells is lost on its way; then it dies.
    fleet.net.set_faults(Losing::new(usize::MAX, |leg| {
        leg.from == "m1" && leg.subject.starts_with("zester.event.")
    }));
    pass(&mut all[1..], 70).await;
    assert!(tags(&fleet, "").await.is_empty());
    drop(first);
    pass(&mut all[1..], 40).await;
    assert_eq!(tags(&fleet, "").await, ["peel/p0/offline"]);
}

#[tokio::test(start_paused = true)]
#[rule("J-19")]
async fn j19_a_job_that_runs_is_told_once_also_where_it_is_adopted() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let mut request = fleet.request("*");
    request.metadata.insert("rule".into(), "reactor.a".into());
    request.metadata.insert("event_id".into(), "e1".into());
    request.metadata.insert("reactor_depth".into(), 2.into());
    let jid = fleet.ask(&request).await.jid.unwrap();
    let exec = web.exec().await;
    web.ack(&exec).await;
    eventually("it is told", async || (!tags(&fleet, "job/").await.is_empty()).then_some(())).await;
    drop(first);
    let second = fleet.master("m2").await;
    eventually("the job is adopted", async || fleet.record(&jid).await.filter(|job| job.owner == second.id))
        .await;
    web.ret(&exec, true).await;
    fleet.over(&jid).await;
    let told: BTreeMap<String, Event> =
        events(&fleet, "job/").await.into_iter().map(|event| (event.tag.to_string(), event)).collect();
    let wanted = [format!("job/{jid}/dispatched"), format!("job/{jid}/finalized")];
    assert_eq!(told.keys().cloned().collect::<Vec<_>>(), wanted);
    assert_eq!(events(&fleet, "job/").await.len(), 2);
    let dispatched = &told[&wanted[0]];
    assert_eq!(dispatched.depth, 2);
    let data = serde_json::json!({
        "jid": jid.as_str(), "function": "test.ping", "target_count": 1, "user": "ann",
        "target_expr": "*", "rule": "reactor.a", "event_id": "e1",
    });
    assert_eq!(serde_json::Value::Object(dispatched.data.clone()), data);
}

/// Its owner died before it took the mark away, and the stream has forgotten the ids of that time.
#[tokio::test(start_paused = true)]
#[rule("J-19")]
async fn j19_an_end_that_was_told_is_not_told_again_however_late_somebody_looks() {
    let fleet = Fleet::new().await;
    let first = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let jid = fleet.dispatch("*").await;
    web.serve(true).await;
    fleet.over(&jid).await;
    eventually("the mark is gone", async || (!fleet.is_active(&jid).await).then_some(())).await;
    drop(first);
    fleet.link.bus().create("jobs", &format!("active.{jid}"), "mark".into()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let _second = fleet.master("m2").await;
    eventually("the mark is gone again", async || (!fleet.is_active(&jid).await).then_some(())).await;
    let ends = tags(&fleet, "job/").await.into_iter().filter(|tag| tag.ends_with("/finalized")).count();
    assert_eq!(ends, 1);
}

#[tokio::test(start_paused = true)]
#[rule("R-9", "J-19")]
async fn r9_an_event_whose_id_somebody_else_used_first_is_told_all_the_same() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    let request = fleet.request("*");
    for what in ["dispatched", "finalized"] {
        let id = format!("job-{}-{what}", request.jid);
        let forged = b"forged".to_vec().into();
        fleet.link.bus().publish_stored("zester.event.web-1.send.a", forged, Some(&id)).await.unwrap();
    }
    let jid = fleet.ask(&request).await.jid.unwrap();
    web.serve(true).await;
    fleet.over(&jid).await;
    let mut told = tags(&fleet, "job/").await;
    told.sort_unstable();
    assert_eq!(told, [format!("job/{jid}/dispatched"), format!("job/{jid}/finalized")]);
}

#[tokio::test(start_paused = true)]
#[rule("J-19")]
async fn j19_a_revision_that_counts_is_told_of() {
    let fleet = Fleet::new().await;
    let states = tempfile::tempdir().unwrap();
    std::fs::write(states.path().join("a.zy"), "1").unwrap();
    let sources = vec![Source::directory(Published::States, states.path().to_path_buf())];
    let link = Link::new(Arc::new(fleet.net.connect("m1")));
    let publishing = Publishing { sources, ..Publishing::default() };
    let _master = fleet.start_publishing("m1", link, Timing::default(), publishing);
    eventually("it is told", async || (!tags(&fleet, "publish/").await.is_empty()).then_some(())).await;
    let told = events(&fleet, "publish/").await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].tag.as_str(), "publish/states/1");
    assert_eq!((told[0].data["revision"].as_u64(), told[0].depth), (Some(1), 0));
}
