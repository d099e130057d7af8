//! `event.send` on a peel: under its own name, stored, or failed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fixture;

use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::storage::EVENTS;
use zester_bus::{Bus, storage};
use zester_link::Link;
use zester_peel::events::EventOutlet;
use zester_peel::work::{Local, Options};
use zester_peel::{Outcome, Work};
use zester_rule::rule;
use zester_wire::{Event, ExecRequest, PeelId, Subject, subject};

struct Place {
    _dir: tempfile::TempDir,
    local: Local,
    net: Net,
    master: Link,
}

impl Place {
    async fn new(connected: bool) -> Place {
        let net = Net::new(Arc::new(TokioClock::new()));
        let bus: Arc<dyn Bus> = Arc::new(net.connect("master"));
        storage::ensure_all(bus.as_ref(), &storage::table(), 1).await.unwrap();
        let outlet = EventOutlet {
            link: Link::new(Arc::new(net.connect("web-1"))),
            peel: PeelId::parse("web-1").unwrap(),
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("states")).unwrap();
        let state = "done:\n  event.send:\n    - tag: deploy/web\n    - data: {version: 7}\n";
        std::fs::write(dir.path().join("states/web.zy"), state).unwrap();
        let local = Local::open(Options {
            id: "web-1".into(),
            states: Some(dir.path().join("states")),
            states_cache: None,
            settings_cache: None,
            states_freshness: None,
            settings_freshness: None,
            settings: None,
            settings_merge: Default::default(),
            renderers: Default::default(),
            facts: None,
            data_dir: dir.path().join("data"),
            concurrency: 4,
            turns: None,
            environment: None,
            startup: None,
            events: connected.then_some(outlet),
        });
        Place { local: local.unwrap(), net, master: Link::new(bus), _dir: dir }
    }

    async fn execute(&self, request: ExecRequest) -> Outcome {
        self.local.execute(request, Arc::new(|_| {}), CancellationToken::new()).await
    }

    async fn events(&self) -> Vec<(String, Event)> {
        let mut found = Vec::new();
        let each = self.master.each_message(EVENTS, subject::EVENTS, |record| {
            let subject = Subject::parse(&record.subject).unwrap();
            let event = self.master.open_addressed::<Event>(&subject, &record.payload).unwrap().message;
            found.push((record.subject.clone(), event));
        });
        each.await.unwrap();
        found
    }
}

fn asked(word: &str, args: serde_json::Value) -> ExecRequest {
    let mut request = fixture::request(fixture::some_jid(), "event.send");
    request.state_id = word.into();
    request.args = args.as_object().unwrap().clone();
    ExecRequest { rdepth: 2, ..request }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("R-18", "R-9")]
async fn r18_an_event_is_sent_under_the_name_of_the_peel_with_the_depth_of_its_job() {
    let place = Place::new(true).await;
    for args in [json!({"data": {"version": 7}}), json!({"version": "7"})] {
        let outcome = place.execute(asked("deploy/web", args)).await;
        assert!(outcome.success, "{}", outcome.error);
    }
    let second = ExecRequest { positionals: vec![json!("{version: 7}")], ..asked("deploy/web", json!({})) };
    assert!(place.execute(second).await.success);
    let events = place.events().await;
    assert_eq!(events.len(), 3);
    for (subject, event) in events {
        assert_eq!(subject, "zester.event.web-1.send.deploy.web");
        assert_eq!(event.tag.as_str(), "deploy/web");
        assert_eq!(json!(event.data), json!({"version": 7}));
        assert_eq!((event.depth, event.origin), (2, format!("job:{}", fixture::some_jid())));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("R-18")]
async fn r18_a_state_sends_when_it_is_applied_and_would_send_in_a_dry_run() {
    let place = Place::new(true).await;
    let mut request = fixture::request(fixture::some_jid(), "state.apply");
    request.state_id = "web".into();
    let dry = place.execute(ExecRequest { test: true, ..request.clone() }).await;
    let state = &dry.answer["states"]["event.send:done"];
    assert_eq!(state["diff"], json!("would send the event deploy/web"), "{}", dry.answer);
    assert!(place.events().await.is_empty());
    let applied = place.execute(request).await;
    assert!(applied.success, "{}", applied.error);
    let events = place.events().await;
    assert_eq!(events.len(), 1);
    assert_eq!(applied.answer["states"]["event.send:done"]["details"]["id"], json!(events[0].1.id));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("R-18")]
async fn r18_without_a_bus_it_fails_and_nothing_is_kept_for_later() {
    let place = Place::new(true).await;
    place.net.cut("web-1");
    let outcome = place.execute(asked("deploy/web", json!({}))).await;
    assert!(!outcome.success);
    assert!(outcome.error.contains("the event `deploy/web` was not sent"), "{}", outcome.error);
    place.net.heal("web-1");
    assert!(place.execute(asked("deploy/other", json!({}))).await.success);
    let events = place.events().await;
    assert_eq!(events.len(), 1, "only the second");
    let nowhere = Place::new(false).await.execute(asked("deploy/web", json!({}))).await;
    assert!(nowhere.error.contains("there is no bus here"), "{}", nowhere.error);
}
