//! Peels that say more than their share, and what the others notice of it: nothing (I-13).

use crate::again::record;
use crate::fleet::{Fleet, eventually, peel};
use crate::signed::{Members, joined};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use zester_identity::Role;
use zester_identity::limits::{FACTS_SHARE, LATE_SHARE, MEMBER_SHARE, PEEL_SHARE};
use zester_jobs::Timing;
use zester_rule::rule;
use zester_wire::*;

const FLOODS: &str = "zester_messages_dropped{reason=\"flood\"}";

#[tokio::test(start_paused = true)]
#[rule("I-13")]
async fn i13_facts_that_are_written_without_end_are_taken_up_now_and_then_and_the_newest_counts() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let (web, db) = (fleet.peel("web-1").await, fleet.peel("db-1").await);
    fleet.known("*", 2).await;
    for number in 0..500 {
        web.publish_facts(json!({"n": number})).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    db.publish_facts(json!({"n": 7})).await;
    fleet.known("G@n:7", 1).await;
    fleet.known("G@n:499", 1).await;
    let floods = master.metric(FLOODS);
    assert!(floods >= 500 - 2 * FACTS_SHARE.burst, "{floods}");
}

#[tokio::test(start_paused = true)]
#[rule("I-13")]
async fn i13_a_peel_that_floods_with_returns_and_beats_keeps_no_other_from_ending_its_job() {
    let fleet = Fleet::new().await;
    let master = fleet.master("m1").await;
    let (mut web, mut db) = (fleet.peel("web-1").await, fleet.peel("db-1").await);
    fleet.known("*", 2).await;
    let jid = fleet.dispatch("*").await;
    let request = web.exec().await;
    let (subject, boot) = (Subject::Heartbeat { peel: peel("web-1") }, Token::parse("boot").unwrap());
    for number in 0..PEEL_SHARE.burst + 2_000 {
        let beat = PeelHeartbeat::new(peel("web-1"), boot.clone(), number, UnixMillis(1));
        web.link.publish(&subject, &beat).await.unwrap();
        if number % 1_000 == 0 {
            tokio::task::yield_now().await;
        }
    }
    eventually("the flood to be noticed", async || (master.metric(FLOODS) > 0).then_some(())).await;
    db.serve(true).await;
    assert!(fleet.stored_eventually(&jid, "db-1").await.success);
    // Its own return is not lost either: it comes by the stream, once it has calmed down.
    web.ret(&request, true).await;
    assert!(fleet.stored_eventually(&jid, "web-1").await.success);
    assert_eq!(fleet.over(&jid).await.status, JobStatus::Complete);
}

#[tokio::test(start_paused = true)]
#[rule("J-9", "I-13")]
async fn j9_late_returns_beyond_the_share_of_their_peel_wait_and_none_is_lost() {
    let fleet = Fleet::new().await;
    let web = fleet.silent_peel("web-1").await;
    let owner = MasterId::new("gone", "boot").unwrap();
    let missing = BTreeMap::from([(peel("web-1"), Missing::Running)]);
    let template = record(&fleet.request("web-1"), &owner, JobStatus::Timeout, fleet.link.now());
    let returning = |jid: &Jid| {
        let ret = Return::refusing(jid.clone(), peel("web-1"), 1, Cause::Finished, "");
        Return { success: true, ..ret }
    };
    // A whole share goes to a job that is none.
    let invented = fleet.link.new_jid();
    for _ in 0..LATE_SHARE.burst {
        web.send(&returning(&invented)).await;
    }
    let mut jids = Vec::new();
    for _ in 0..2 * LATE_SHARE.per_second {
        let jid = fleet.link.new_jid();
        let job = Job { jid: jid.clone(), missing: missing.clone(), ..template.clone() };
        fleet.link.put(&Key::Job(jid.clone()), &job).await.unwrap();
        web.send(&returning(&jid)).await;
        jids.push(jid);
    }
    // All are there at once for the master that comes now.
    let master = fleet.master("m1").await;
    eventually("the flood to be noticed", async || (master.metric(FLOODS) > 0).then_some(())).await;
    let all = jids.len() as u64;
    eventually("all are counted", async || (master.metric("zester_returns_late_total") == all).then_some(()))
        .await;
    for jid in &jids {
        assert!(fleet.stored(jid, "web-1").await.is_some_and(|stored| stored.late), "{jid}");
    }
    eventually("what is of no job is let go", async || {
        (master.metric("zester_returns_stray_total") >= LATE_SHARE.burst).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
#[rule("I-13")]
async fn i13_an_operator_that_floods_the_masters_is_refused_and_others_are_not() {
    let mut members = Members::new();
    let unsealed = [(Role::Master, "m1", 11), (Role::Admin, "ann", 12), (Role::Admin, "bob", 13)]
        .map(|(role, name, seed)| (name, members.join(role, name, seed)));
    let fleet = Fleet::new().await;
    let mut links = unsealed.map(|(name, one)| joined(&fleet, name, members.credentials(one))).into_iter();
    let (m1, ann, bob) = (links.next().unwrap(), links.next().unwrap(), links.next().unwrap());
    let master = fleet.start_with("m1", m1, Timing::default());
    let ask = async |link: &zester_link::Link| {
        let question = ResolveRequest::of("*");
        link.request::<_, ResolveReply>(&Subject::TargetResolve, &question, Duration::from_secs(5)).await
    };
    eventually("a master", async || ask(&bob).await.ok().filter(|reply| reply.error.is_none())).await;
    let mut refused = None;
    for _ in 0..=MEMBER_SHARE.burst {
        let reply = ask(&ann).await.unwrap();
        refused = refused.or(reply.error);
    }
    let refusal = refused.unwrap();
    assert!(refusal.kind.is_retryable() && refusal.message.contains("more than its share"), "{refusal}");
    assert!(master.metric(FLOODS) > 0);
    assert!(ask(&bob).await.unwrap().error.is_none());
}
