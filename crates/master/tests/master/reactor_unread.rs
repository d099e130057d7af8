//! Events that leave the stream before any master takes them.

use crate::fleet::{Fleet, Master, eventually};
use crate::reactor::{all_done, decided, event, ledger, publish, reacting, ready, send};
use serde_json::{Value, json};
use zester_bus::Store;
use zester_bus::storage::{EVENTS, table};
use zester_health::State;
use zester_reactor::Guards;
use zester_rule::rule;

/// Events that the stream of these tests keeps.
const KEPT: u64 = 5;

/// A fleet whose stream of events is small, and whose rule for `*/x` logs.
async fn small_fleet() -> Fleet {
    let events = table().into_iter().find(|store| store.name == EVENTS).unwrap();
    let mut fleet = Fleet::with(&[Store { max_messages: Some(KEPT), ..events }]).await;
    fleet.reacting = reacting(Guards { source_rate_limit: 0, ..Guards::default() });
    let say: Value = json!({"say": {"log": "hi"}});
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.a"]}])), ("a.zy", say)]).await;
    fleet
}

async fn flood(fleet: &Fleet, from: usize, count: usize) {
    for number in from..from + count {
        send(&fleet.link, "web-1", &event(&format!("e{number}"), "x", json!({}))).await;
    }
}

/// How many the ledger knows to have been lost.
async fn lost_in_ledger(fleet: &Fleet) -> u64 {
    let entries = ledger(fleet).await.into_iter().filter(|entry| entry.decision == "unread");
    entries.map(|entry| 1 + entry.unwritten).sum()
}

fn lost(master: &Master) -> u64 {
    master.metric("zester_reactor_events_dropped_total{reason=\"unread\"}")
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-16", "R-22")]
async fn r1_a_flood_that_pushes_out_what_nobody_read_is_told_with_its_count() {
    let fleet = small_fleet().await;
    let master = ready(&fleet, "m1").await;
    flood(&fleet, 0, 1).await;
    decided(&fleet, "e0", "logged").await;
    all_done(&fleet).await;
    assert_eq!(master.health.state("reactor"), Some(State::Up));
    // It is cut off for a moment, and is given nothing meanwhile.
    fleet.net.cut("m1");
    flood(&fleet, 1, 12).await;
    fleet.net.heal("m1");
    decided(&fleet, "e12", "logged").await;
    all_done(&fleet).await;
    assert_eq!(lost(&master), 12 - KEPT);
    let words = "7 events left the stream before any master took them";
    let told = master.health.state("reactor");
    assert!(matches!(&told, Some(State::Degraded(why)) if why.contains(words)), "{told:?}");
    eventually("the ledger knows", async || (lost_in_ledger(&fleet).await == 7).then_some(())).await;
    let entry = ledger(&fleet).await.into_iter().find(|entry| entry.decision == "unread").unwrap();
    assert_eq!((entry.origin.as_str(), entry.rule.as_str()), ("_unknown", ""));
    assert!(entry.reason.starts_with("it left the stream before any master took it"), "{}", entry.reason);
    tokio::time::sleep(std::time::Duration::from_secs(3_700)).await;
    assert_eq!(master.health.state("reactor"), Some(State::Up), "it is not told for ever");
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-22")]
async fn r1_what_was_pushed_out_while_no_master_was_there_is_told_by_the_next() {
    let fleet = small_fleet().await;
    let master = ready(&fleet, "m1").await;
    flood(&fleet, 0, 1).await;
    decided(&fleet, "e0", "logged").await;
    all_done(&fleet).await;
    master.stop().await;
    flood(&fleet, 1, 25).await;
    let master = ready(&fleet, "m2").await;
    decided(&fleet, "e25", "logged").await;
    all_done(&fleet).await;
    assert_eq!(lost(&master), 25 - KEPT);
    assert_eq!(lost_in_ledger(&fleet).await, 25 - KEPT);
}

#[tokio::test(start_paused = true)]
#[rule("R-1")]
async fn r1_two_masters_that_share_all_events_miss_none() {
    let fleet = small_fleet().await;
    let masters = [ready(&fleet, "m1").await, ready(&fleet, "m2").await];
    for number in 0..40 {
        flood(&fleet, number, 1).await;
        decided(&fleet, &format!("e{number}"), "logged").await;
        all_done(&fleet).await;
    }
    assert_eq!(masters.each_ref().map(lost), [0, 0]);
    assert_eq!(lost_in_ledger(&fleet).await, 0);
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-22")]
async fn r22_a_loss_that_two_masters_see_is_one_in_the_ledger() {
    let fleet = small_fleet().await;
    let masters = [ready(&fleet, "m1").await, ready(&fleet, "m2").await];
    let mut number = 0;
    for round in 1..=3 {
        ["m1", "m2"].iter().for_each(|name| fleet.net.cut(name));
        flood(&fleet, number, 12).await;
        number += 12;
        ["m1", "m2"].iter().for_each(|name| fleet.net.heal(name));
        decided(&fleet, &format!("e{}", number - 1), "logged").await;
        all_done(&fleet).await;
        // Whoever was given nothing behind the loss is the only one there for a while.
        for (other, master) in [("m2", &masters[0]), ("m1", &masters[1])] {
            if lost(master) == 7 * round {
                continue;
            }
            fleet.net.cut(other);
            flood(&fleet, number, 1).await;
            decided(&fleet, &format!("e{number}"), "logged").await;
            number += 1;
            all_done(&fleet).await;
            fleet.net.heal(other);
        }
        assert_eq!(masters.each_ref().map(lost), [7 * round; 2], "each counts what it sees");
        eventually("the ledger knows", async || (lost_in_ledger(&fleet).await >= 7 * round).then_some(()))
            .await;
    }
    for master in masters {
        master.stop().await;
    }
    assert_eq!(lost_in_ledger(&fleet).await, 21, "each loss once: {:?}", ledger(&fleet).await);
}
