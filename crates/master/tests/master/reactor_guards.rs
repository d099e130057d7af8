//! Every drop reason, every result, and the guards that end loops.

use crate::fleet::{Fleet, Losing, eventually};
use crate::reactor::{
    all_done, decided, event, fleet_with, ledger, lose_ack, ping, publish, reacting, reaction_jid, ready,
    send,
};
use serde_json::json;
use std::time::Duration;
use zester_bus::memory::{Leg, Perfect};
use zester_health::State;
use zester_reactor::Guards;
use zester_rule::rule;
use zester_wire::*;

#[tokio::test(start_paused = true)]
#[rule("R-3", "R-16", "R-22")]
async fn r3_every_drop_is_counted_and_written() {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards { source_burst: 1, ..Guards::default() });
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.a"]}])), ("a.zy", ping())]).await;
    let master = ready(&fleet, "m1").await;
    let bus = fleet.link.bus();
    bus.publish_stored("zester.event.web-1.shout.x", "x".into(), None).await.unwrap();
    bus.publish_stored("zester.event.web-1.send.x", "garbage".into(), None).await.unwrap();
    let subject = |peel: &str, tag: &str| {
        let (peel, tag) = (PeelId::parse(peel).unwrap(), Tag::parse(tag).unwrap());
        Subject::Event(EventSubject::Send { peel, tag })
    };
    let put = async |peel: &str, tag: &str, event: Event, signed: u64| {
        let subject = subject(peel, tag).to_string();
        let id = fleet.link.new_message_id().unwrap();
        let envelope = Envelope::seal(&subject, id, UnixMillis(signed), &event, &Unsigned).unwrap();
        bus.publish_stored(&subject, encode(&envelope).unwrap().into(), None).await.unwrap();
    };
    let now = fleet.link.now().0;
    put("web-1", "x", event("spoof", "y", json!({})), now).await;
    put("web-1", "x", Event { depth: 3, ..event("deep", "x", json!({})) }, now).await;
    put("web-2", "x", event("old", "x", json!({})), now - 7_200_000).await;
    put("web-3", "z", event("first", "z", json!({})), now).await;
    put("web-3", "z", event("second", "z", json!({})), now).await;
    put("web-4", "x", event("future", "x", json!({})), now + 600_000).await;
    all_done(&fleet).await;
    for (reason, count) in
        [("malformed", 2), ("decode", 1), ("spoof", 1), ("depth", 1), ("ratelimit", 1), ("stale", 1)]
    {
        let name = format!("zester_reactor_events_dropped_total{{reason=\"{reason}\"}}");
        assert_eq!(master.metric(&name), count, "{reason}");
        eventually("it is in the ledger", async || {
            let found = ledger(&fleet).await.iter().filter(|entry| entry.decision == reason).count() as u64;
            (found == count).then_some(())
        })
        .await;
    }
    assert_eq!(master.metric("zester_reactor_events_unmatched_total"), 1);
    let entries = ledger(&fleet).await;
    assert!(entries.iter().any(|entry| entry.origin == "_unknown" && entry.decision == "malformed"));
    assert!(!entries.iter().any(|entry| entry.decision == "unmatched"));
}

#[tokio::test(start_paused = true)]
#[rule("R-22")]
async fn r22_a_master_that_stops_tells_how_many_drops_were_not_written() {
    let fleet = fleet_with(json!({"say": {"log": "hi"}})).await;
    let master = ready(&fleet, "m1").await;
    for _ in 0..25 {
        let bus = fleet.link.bus();
        bus.publish_stored("zester.event.web-1.send.x", "garbage".into(), None).await.unwrap();
    }
    all_done(&fleet).await;
    assert_eq!(master.metric("zester_reactor_events_dropped_total{reason=\"decode\"}"), 25);
    master.stop().await;
    let written = async || {
        let entries = ledger(&fleet).await;
        entries
            .iter()
            .filter(|entry| entry.decision == "decode")
            .map(|entry| 1 + entry.unwritten)
            .sum::<u64>()
    };
    eventually("all are in the ledger", async || (written().await == 25).then_some(())).await;
}

#[tokio::test(start_paused = true)]
#[rule("R-16")]
async fn r16_events_are_counted_by_who_sent_them() {
    let fleet = fleet_with(json!({"say": {"log": "hi"}})).await;
    let master = ready(&fleet, "m1").await;
    all_done(&fleet).await;
    let count =
        |origin: &str| master.metric(&format!("zester_reactor_events_total{{origin_type=\"{origin}\"}}"));
    let origins = ["peel", "master", "admin", "unknown"];
    let before = origins.map(count);
    let (peel, tag) = (PeelId::parse("web-1").unwrap(), Tag::parse("x").unwrap());
    let from_master = EventSubject::Master { tag: tag.clone() };
    let from_admin = EventSubject::Admin { tag: tag.clone() };
    let from_peel = EventSubject::Send { peel, tag };
    let subjects = [
        from_peel,
        from_master.clone(),
        from_master.clone(),
        from_admin.clone(),
        from_admin.clone(),
        from_admin,
    ];
    for (number, subject) in subjects.into_iter().enumerate() {
        let id = fleet.link.new_message_id().unwrap();
        let event = event(&format!("e{number}"), "x", json!({}));
        fleet.link.publish_stored(&Subject::Event(subject), &id, &event).await.unwrap();
    }
    fleet.link.bus().publish_stored("zester.event.web-1.shout.x", "x".into(), None).await.unwrap();
    decided(&fleet, "e5", "logged").await;
    all_done(&fleet).await;
    let after = origins.map(count);
    let came: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!(came, [1, 2, 3, 1]);
}

#[tokio::test(start_paused = true)]
#[rule("R-6", "R-16")]
async fn r16_every_result_is_produced() {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards { source_rate_limit: 0, storm_rate: 3, ..Guards::default() });
    let to = |target: &str| json!({"b": {"dispatch.module": {"target": target, "function": "test.ping"}}});
    let aborted =
        json!({"b": {"dispatch.module": {"target": "*", "function": "test.ping", "max_targets": 1}}});
    let enroll = json!({"b": {"enroll.revoke": {"id": "x", "require_peel": "web-*"}}});
    let top = json!([
        {"*/ok": ["reactor.ok"]},
        {"*/throttled": {"react": ["reactor.throttled"], "throttle": "1h"}},
        {"*/storm": ["reactor.log"]},
        {"*/broken": ["reactor.broken"]},
        {"*/invalid": ["reactor.invalid"]},
        {"*/many": ["reactor.many"]},
        {"*/enroll": ["reactor.enroll"]},
        {"*/nobody": ["reactor.nobody"]},
        {"*/empty": ["reactor.empty"]},
    ]);
    let log = json!({"b": {"log": "hi"}});
    publish(
        &fleet,
        &[
            ("top.zy", top),
            ("ok.zy", to("web-1")),
            ("throttled.zy", log.clone()),
            ("log.zy", log),
            ("broken.zy", json!("broken")),
            ("invalid.zy", json!({"b": {"dispatch.modul": {}}})),
            ("many.zy", aborted),
            ("enroll.zy", enroll),
            ("nobody.zy", to("nobody")),
            ("empty.zy", json!(null)),
        ],
    )
    .await;
    let master = ready(&fleet, "m1").await;
    let (mut web, mut db) = (fleet.peel("web-1").await, fleet.peel("db-1").await);
    fleet.known("*", 2).await;
    // A job of another has the id that this reaction would have.
    let taken = reaction_jid("taken", "reactor.ok", "b");
    let other = DispatchRequest { jid: taken.clone(), ..fleet.request("db-1") };
    assert_eq!(fleet.ask(&other).await.error, None);
    db.serve(true).await;
    fleet.over(&taken).await;
    for (id, tag, word) in [
        ("e1", "ok", "dispatched"),
        ("taken", "ok", "error"),
        ("t1", "throttled", "logged"),
        ("t2", "throttled", "throttled"),
        ("s1", "storm", "logged"),
        ("s2", "storm", "logged"),
        ("s3", "storm", "logged"),
        ("s4", "storm", "logged"),
        ("s5", "storm", "breaker_open"),
        ("b1", "broken", "render_error"),
        ("i1", "invalid", "validate_error"),
        ("m1", "many", "aborted"),
        ("r1", "enroll", "refused"),
        ("n1", "nobody", "no_targets"),
        ("x1", "empty", "nothing"),
    ] {
        send(&fleet.link, "web-1", &event(id, tag, json!({}))).await;
        if word == "dispatched" {
            web.serve(true).await;
        }
        decided(&fleet, id, word).await;
    }
    // Its ack is lost, so it comes again.
    fleet.net.set_faults(lose_ack());
    send(&fleet.link, "web-1", &event("e2", "ok", json!({}))).await;
    web.serve(true).await;
    decided(&fleet, "e2", "duplicate").await;
    all_done(&fleet).await;
    for (rule, result) in [
        ("ok", "dispatched"),
        ("ok", "duplicate"),
        ("ok", "error"),
        ("throttled", "throttled"),
        ("log", "breaker_open"),
        ("broken", "render_error"),
        ("invalid", "validate_error"),
        ("many", "aborted"),
        ("enroll", "refused"),
        ("nobody", "no_targets"),
    ] {
        let name = format!("zester_reactor_reactions_total{{rule=\"reactor.{rule}\",result=\"{result}\"}}");
        assert!(master.metric(&name) >= 1, "{name}");
    }
    assert!(master.metric("zester_reactor_render_duration_seconds_count") >= 10);
}

#[tokio::test(start_paused = true)]
#[rule("R-9", "R-12")]
async fn r12_a_rule_that_triggers_itself_by_event_send_ends_at_the_depth_cap() {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards::default());
    let top = json!([{"*/x": ["reactor.a"]}, {"_master/reaction/x": ["reactor.a"]}]);
    publish(&fleet, &[("top.zy", top), ("a.zy", json!({"again": {"event.send": {"tag": "x"}}}))]).await;
    let master = ready(&fleet, "m1").await;
    send(&fleet.link, "web-1", &event("e1", "x", json!({}))).await;
    let refused = eventually("the loop ends", async || {
        ledger(&fleet).await.into_iter().find(|entry| entry.decision == "refused")
    })
    .await;
    assert_eq!(refused.depth, 2);
    all_done(&fleet).await;
    let sent = fleet.link.bus().replay("events", "zester.event._master.reaction.x", 0).await.unwrap();
    // `*/x` matches what was sent too, under the same rule: one effect each.
    assert_eq!(sent.items.len(), 2);
    let refused = "zester_reactor_reactions_total{rule=\"reactor.a\",result=\"refused\"}";
    assert!(master.metric(refused) >= 1);
}

#[tokio::test(start_paused = true)]
#[rule("R-9", "R-12")]
async fn r12_a_loop_through_a_peel_that_stamps_the_depth_ends_at_the_depth_cap() {
    let fleet = fleet_with(ping()).await;
    let master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    send(&web.link, "web-1", &event("e0", "x", json!({}))).await;
    for depth in 1..4 {
        let request = web.serve(true).await;
        assert_eq!(request.rdepth, depth);
        let next = Event { depth: request.rdepth, ..event(&format!("e{depth}"), "x", json!({})) };
        send(&web.link, "web-1", &next).await;
    }
    decided(&fleet, "e3", "depth").await;
    all_done(&fleet).await;
    // What is told of the last job, its dispatch and its end, is as deep as the job.
    assert_eq!(master.metric("zester_reactor_events_dropped_total{reason=\"depth\"}"), 3);
}

#[tokio::test(start_paused = true)]
#[rule("R-12", "R-16")]
async fn r12_a_loop_of_organic_events_ends_in_the_breaker_which_is_told_and_swept() {
    let fleet = fleet_with(ping()).await;
    let master = ready(&fleet, "m1").await;
    let mut web = fleet.peel("web-1").await;
    fleet.known("web-1", 1).await;
    send(&web.link, "web-1", &event("e0", "x", json!({}))).await;
    // Whatever is done makes the machine do something that is told anew, without a depth.
    for number in 1..=61 {
        web.serve(true).await;
        send(&web.link, "web-1", &event(&format!("e{number}"), "x", json!({}))).await;
    }
    decided(&fleet, "e61", "breaker_open").await;
    let open = "zester_reactor_breaker_open{rule=\"reactor.a\"}";
    assert_eq!(master.metric(open), 1);
    assert!(
        matches!(master.health.state("reactor"), Some(State::Degraded(why)) if why.contains("reactor.a"))
    );
    assert!(web.hears_nothing(Duration::from_secs(60)).await);
    eventually("the breaker is swept", async || {
        (master.health.state("reactor") == Some(State::Up)).then_some(())
    })
    .await;
    assert_eq!(master.metric(open), 0);
}

#[tokio::test(start_paused = true)]
#[rule("R-12")]
async fn r12_an_operator_closes_the_breaker_of_every_master() {
    let mut fleet = fleet_with(json!({"say": {"log": "hi"}})).await;
    fleet.reacting.guards.storm_rate = 1;
    // Nobody else closes them within this test.
    fleet.reacting.guards.storm_cooldown = Duration::from_secs(36_000);
    let masters = [ready(&fleet, "m1").await, ready(&fleet, "m2").await];
    let open = "zester_reactor_breaker_open{rule=\"reactor.a\"}";
    for (number, other) in ["m2", "m1"].into_iter().enumerate() {
        // The other gets no events.
        let lost = move |leg: Leg<'_>| leg.from == other && leg.subject == "events";
        fleet.net.set_faults(Losing::new(usize::MAX, lost));
        for event_number in 0..5 {
            send(&fleet.link, "web-1", &event(&format!("e{number}-{event_number}"), "x", json!({}))).await;
        }
        eventually("its breaker is open", async || (masters[number].metric(open) == 1).then_some(())).await;
    }
    fleet.net.set_faults(Perfect);
    all_done(&fleet).await;
    assert!(masters.iter().all(|master| master.metric(open) == 1));
    let list = fleet.admin(&AdminRequest::ReactorRules).await.reactor.unwrap();
    assert_eq!((list.rules.len(), list.rules[0].rule.as_str()), (1, "reactor.a"));
    let close = |rule: &str| AdminRequest::BreakerClose { rule: rule.into(), user: "ann".into() };
    assert_eq!(fleet.admin(&close("reactor.a")).await.error, None);
    for master in &masters {
        eventually("it is closed", async || (master.metric(open) == 0).then_some(())).await;
        assert_eq!(master.health.state("reactor"), Some(State::Up));
    }
    let refused = fleet.admin(&close("reactor.nobody")).await.error.unwrap();
    assert!(refused.message.contains("there is no rule"), "{refused}");
}
