//! Events of those whom only a newer roster names (R-3, I-8).

use crate::fleet::{Fleet, eventually};
use crate::reactor::{decided, event, ledger, publish, reacting};
use crate::signed::{Members, joined};
use serde_json::json;
use zester_bus::Bytes;
use zester_identity::{Role, authority};
use zester_jobs::Timing;
use zester_link::Link;
use zester_reactor::Guards;
use zester_rule::rule;
use zester_wire::*;

async fn send(link: &Link, id: &str) {
    let event = event(id, "x", json!({}));
    let subject = Subject::Event(EventSubject::Admin { tag: event.tag.clone() });
    link.publish_stored(&subject, &link.new_message_id().unwrap(), &event).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[rule("R-1", "R-3")]
async fn r3_whoever_only_a_newer_roster_names_is_waited_for_and_no_forger() {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards::default());
    let mut members = Members::new();
    let (other, late) = (members.join(Role::Master, "m0", 11), members.join(Role::Master, "m1", 12));
    let late = joined(&fleet, "m1", members.credentials(late));
    fleet.link = joined(&fleet, "m0", members.credentials(other));
    publish(&fleet, &[("top.zy", json!([{"*/x": ["reactor.a"]}])), ("a.zy", json!({"say": {"log": "x"}}))])
        .await;
    let master = fleet.start_with("m1", late, Timing::default());
    eventually("it reacts", async || {
        (master.metric("zester_reactor_rules_loaded") > 0 && master.health.report().0).then_some(())
    })
    .await;
    members.roster = authority::renewed(&members.roster, members.now);
    let ann = members.join(Role::Admin, "ann", 13);
    let ann = joined(&fleet, "ann", members.credentials(ann));
    // No roster names her yet.
    send(&ann, "e0").await;
    eventually("what nobody signed that counts is dropped", async || {
        ledger(&fleet).await.into_iter().find(|entry| entry.decision == "spoof")
    })
    .await;
    // Now one does, and this master has not taken it up.
    let newest = authority::signed(&authority::renewed(&members.roster, members.now), &members.secrets.core);
    let newest = Bytes::from(newest.unwrap());
    fleet.link.bus().put("trust", "roster", newest).await.unwrap();
    send(&ann, "e1").await;
    eventually("the event waits", async || {
        (master.metric("zester_reactor_events_dropped_total{reason=\"backpressure\"}") > 0).then_some(())
    })
    .await;
    // Longer than an event is given that took whoever worked on it with it.
    tokio::time::sleep(std::time::Duration::from_secs(1_000)).await;
    master.link.refresh_trust().await.unwrap();
    decided(&fleet, "e1", "logged").await;
    let forged = ledger(&fleet).await.into_iter().filter(|entry| entry.decision == "spoof").count();
    assert_eq!(forged, 1);
    master.stop().await;
}
