//! A rule that fails for the moment for as many events as may be out at once. R-10 acknowledges none of them, R-1 gives out no more
//! than 64, and one that was handed back keeps its place: so all others wait. That is told, ends, and costs nobody's event.

use crate::fleet::{Fleet, Losing, Master, eventually};
use crate::reactor::{all_done, decided, event, ledger, publish, reacting, ready, send};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_bus::memory::Perfect;
use zester_bus::storage::reactor;
use zester_health::State;
use zester_reactor::Guards;
use zester_rule::rule;

const SENT: &str = "zester.event._master.reaction.next";

/// A fleet whose rule for `*/x` cannot send its event, with as many of these as may be out, and behind them one for `*/y`.
async fn stuck_fleet() -> (Fleet, Master) {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards { source_rate_limit: 0, storm_rate: 0, ..Guards::default() });
    let top = json!([{"*/x": ["reactor.stuck"]}, {"*/y": ["reactor.quick"]}]);
    let stuck = json!({"tell": {"event.send": {"tag": "next"}}});
    let files = [("top.zy", top), ("stuck.zy", stuck), ("quick.zy", json!({"say": {"log": "hi"}}))];
    publish(&fleet, &files).await;
    let master = ready(&fleet, "m1").await;
    fleet.net.set_faults(Losing::new(usize::MAX, |leg| leg.from == "m1" && leg.subject == SENT));
    for number in 0..reactor().unacked_max {
        send(&fleet.link, &format!("web-{number}"), &event(&format!("x{number}"), "x", json!({}))).await;
    }
    send(&fleet.link, "db-1", &event("y", "y", json!({}))).await;
    (fleet, master)
}

async fn told(fleet: &Fleet, word: &str) -> usize {
    ledger(fleet).await.iter().filter(|entry| entry.decision == word).count()
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-10", "R-15")]
async fn r1_a_rule_that_holds_all_places_is_named_and_once_it_is_mended_everything_happens_once() {
    let (fleet, master) = stuck_fleet().await;
    let words = "reactor.stuck (64 events)";
    eventually("readiness names it", async || match master.health.state("reactor") {
        Some(State::Degraded(why)) if why.contains(words) => Some(()),
        _ => None,
    })
    .await;
    sleep(Duration::from_secs(60)).await;
    let pending = fleet.link.bus().pending(&reactor()).await.unwrap();
    assert_eq!(
        (pending.waiting, pending.unacked),
        (1, 64),
        "R-1 gives out no more, and R-10 lets go of none"
    );
    fleet.net.set_faults(Perfect);
    decided(&fleet, "y", "logged").await;
    all_done(&fleet).await;
    assert_eq!((told(&fleet, "sent").await, told(&fleet, "exhausted").await), (64, 0));
    assert_eq!(fleet.link.bus().replay("events", SENT, 0).await.unwrap().items.len(), 64);
    eventually("readiness is well", async || {
        (master.health.state("reactor") == Some(State::Up)).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-10")]
async fn r1_a_rule_that_nobody_mends_gives_its_places_back() {
    let (fleet, _master) = stuck_fleet().await;
    let begun = Instant::now();
    while told(&fleet, "logged").await == 0 {
        // Sixty tries, ten seconds apart, each of which waits five for an answer.
        assert!(begun.elapsed() < Duration::from_secs(1_200), "the other rule waits for too long");
        sleep(Duration::from_secs(5)).await;
    }
    all_done(&fleet).await;
    assert_eq!((told(&fleet, "sent").await, told(&fleet, "exhausted").await), (0, 64));
}
