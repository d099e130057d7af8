//! Machines that are gone for good (J-25).

use crate::fleet::{Fleet, peel};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_jobs::Timing;
use zester_link::{Clock, Link, OsDice};
use zester_rule::rule;
use zester_wire::*;

/// One that was there once: its facts stand, and when it was last seen.
async fn gone(fleet: &Fleet, name: &str) {
    let was = fleet.silent_peel(name).await;
    was.publish_facts(json!({"os": "Debian"})).await;
    let seen = PeelHeartbeat::new(peel(name), Token::parse("boot").unwrap(), 1, fleet.link.now());
    fleet.link.put(&Key::Peel(peel(name)), &seen).await.unwrap();
}

async fn stands(fleet: &Fleet, name: &str) -> (bool, bool) {
    let facts = fleet.link.get::<FactsRecord>(&Key::Facts(peel(name))).await.unwrap();
    let seen = fleet.link.get::<PeelHeartbeat>(&Key::Peel(peel(name))).await.unwrap();
    (facts.is_some(), seen.is_some())
}

async fn forget(fleet: &Fleet, names: &[&str]) -> AdminReply {
    let peels = names.iter().copied().map(peel).collect();
    fleet.admin(&AdminRequest::Forget { peels, user: "ann".into() }).await
}

#[tokio::test(start_paused = true)]
#[rule("J-25")]
async fn j25_a_peel_that_is_forgotten_is_no_target_any_more() {
    let fleet = Fleet::new().await;
    let _masters = [fleet.master("m1").await, fleet.master("m2").await];
    let _web = fleet.peel("web-1").await;
    gone(&fleet, "db-1").await;
    fleet.known("*", 2).await;
    let refusal = forget(&fleet, &["db-1", "web-1"]).await.error.unwrap();
    assert!(refusal.message.starts_with("web-1 is online"), "{refusal}");
    let refusal = forget(&fleet, &["db-1", "nobody"]).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::NoTargets);
    assert_eq!(stands(&fleet, "db-1").await, (true, true), "all or none");
    let reply = forget(&fleet, &["db-1"]).await;
    assert_eq!((reply.message.as_str(), reply.error), ("forgot 1 peel", None));
    assert_eq!(stands(&fleet, "db-1").await, (false, false));
    // Whichever master is asked.
    for _ in 0..8 {
        fleet.known("*", 1).await;
    }
}

/// A wall clock on which time passes as for the server.
struct Wall {
    start: UnixMillis,
    begin: Instant,
}

impl Clock for Wall {
    fn wall(&self) -> UnixMillis {
        self.start.plus(self.begin.elapsed())
    }
}

/// Who beats goes on beating; time passes.
async fn an_hour_later(fleet: &Fleet, forget_peels: Duration) {
    let timing = Timing { forget_peels, ..Timing::default() };
    let clock = Wall { start: fleet.link.now(), begin: Instant::now() };
    let link = Link::with(Arc::new(fleet.net.connect("m1")), Arc::new(clock), Arc::new(OsDice));
    let _master = fleet.start_with("m1", link, timing);
    let mut web = fleet.peel("web-1").await;
    gone(fleet, "db-1").await;
    fleet.known("*", 2).await;
    for _ in 0..370 {
        web.beat().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-25")]
async fn j25_who_was_not_seen_for_long_enough_is_forgotten_unless_it_is_there() {
    let fleet = Fleet::new().await;
    an_hour_later(&fleet, Duration::from_secs(1_800)).await;
    assert_eq!(stands(&fleet, "db-1").await, (false, false));
    assert!(stands(&fleet, "web-1").await.0, "it is there");
    for (forget_peels, why) in [(Duration::from_secs(7_200), "seen lately"), (Duration::ZERO, "0 is never")] {
        let fleet = Fleet::new().await;
        an_hour_later(&fleet, forget_peels).await;
        assert_eq!(stands(&fleet, "db-1").await, (true, true), "{why}");
    }
}
