//! A peel that watches its machine and tells what it sees.

use crate::world::{PEEL, World, patient};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_beacons::Eyes;
use zester_bus::storage::EVENTS;
use zester_health::State;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::{BoxFuture, Exit, Fault, HostWrite, Launch, OutputSink, Owner, Processes};
use zester_peel::OwnWork;
use zester_peel::beacons::Options;
use zester_rule::rule;
use zester_wire::{Event, Return, Subject, subject};

/// A machine whose services a test starts and stops.
#[derive(Clone, Default)]
struct Services {
    running: Arc<Mutex<BTreeMap<String, bool>>>,
    looks: Arc<AtomicUsize>,
    /// Flips all of them after each look.
    flapping: Arc<Mutex<bool>>,
}

impl Services {
    fn set(&self, service: &str, running: bool) {
        self.running.lock().unwrap().insert(service.into(), running);
    }

    fn eyes(&self) -> Eyes {
        let files = Overlay::empty();
        for path in ["/run", "/run/systemd", "/run/systemd/system"] {
            files.make_directory(Path::new(path), 0o755, Owner { uid: 0, gid: 0 }).unwrap();
        }
        let services = self.clone();
        let processes = Scripted::new().with(move |launch| {
            services.looks.fetch_add(1, Ordering::Relaxed);
            let line = command_line(launch);
            let name = line.split(' ').next_back().unwrap_or_default();
            let mut running = services.running.lock().unwrap();
            let active = if running.get(name).copied()? { "active" } else { "inactive" };
            if *services.flapping.lock().unwrap() {
                running.values_mut().for_each(|running| *running = !*running);
            }
            Some(Ok(exit(0, &format!("LoadState=loaded\nActiveState={active}\nSubState=x\n"), "")))
        });
        Eyes { files: Arc::new(files), processes: Arc::new(processes), root: "/".into() }
    }

    /// Waits for so many more looks.
    async fn looked(&self, more: usize) {
        let wanted = self.looks.load(Ordering::Relaxed) + more;
        patient(async {
            while self.looks.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await;
    }
}

/// Programs that take their time, and one that never ends.
struct Slow {
    inner: Arc<dyn Processes>,
    took: Duration,
    begun: Arc<AtomicUsize>,
}

impl Processes for Slow {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::Relaxed);
            match command_line(launch).ends_with(" stuck") {
                true => std::future::pending().await,
                false => tokio::time::sleep(self.took).await,
            }
            self.inner.run(launch, live, cancel).await
        })
    }
}

struct Watching {
    world: World,
    services: Services,
}

impl Watching {
    /// A peel with these beacons, whose first look is over; `nginx` runs.
    async fn started(beacons: Value) -> Watching {
        let mut one = Watching { world: World::new().await, services: Services::default() };
        one.services.set("nginx", true);
        one.configure(beacons);
        one.start();
        one.services.looked(1).await;
        one.world.heartbeat(|beat| !beat.stopped).await;
        one
    }

    fn start(&mut self) {
        self.start_with(self.services.eyes());
    }

    fn start_with(&mut self, eyes: Eyes) {
        let beacons = Some(Options { eyes, settings_cache: None });
        self.world.start_own(OwnWork { beacons, ..OwnWork::default() });
    }

    fn configure(&self, beacons: Value) {
        *self.world.work.settings.lock().unwrap() = Ok(json!({ "beacons": beacons }));
    }

    /// All events that the stream has, by their subjects.
    async fn events(&self) -> Vec<(String, Event)> {
        let (mut found, link) = (Vec::new(), &self.world.master);
        link.each_message(EVENTS, subject::EVENTS, |record| {
            let subject = Subject::parse(&record.subject).unwrap();
            let event = link.open_addressed::<Event>(&subject, &record.payload).unwrap().message;
            found.push((record.subject.clone(), event));
        })
        .await
        .unwrap();
        found
    }

    async fn until_events(&self, count: usize) -> Vec<(String, Event)> {
        patient(async {
            loop {
                let events = self.events().await;
                if events.len() >= count {
                    return events;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        })
        .await
    }

    async fn ask(&mut self, name: &str) -> Return {
        let mut request = self.world.request("beacons.list");
        request.state_id = name.into();
        self.world.send(&request).await;
        loop {
            let ret = self.world.returned().await;
            if ret.jid == request.jid {
                return ret;
            }
        }
    }

    async fn health(&self, fits: impl Fn(&State) -> bool) {
        patient(async {
            while !self.world.health.state("beacons").is_some_and(|state| fits(&state)) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .await;
    }
}

fn nginx() -> Value {
    json!({"service": [{"services": {"nginx": {}}}, {"interval": 5}]})
}

#[tokio::test(start_paused = true)]
#[rule("R-17")]
async fn r17_a_service_that_stops_is_one_event_under_the_name_of_the_peel() {
    let one = Watching::started(nginx()).await;
    one.services.looked(3).await;
    assert!(one.events().await.is_empty(), "the first look is the baseline");
    one.services.set("nginx", false);
    one.services.looked(5).await;
    let events = one.until_events(1).await;
    assert_eq!(events.len(), 1);
    let (subject, event) = &events[0];
    assert_eq!(subject, "zester.event.web-1.beacon.service");
    assert_eq!(event.tag.as_str(), "beacon/web-1/service");
    assert_eq!(json!(event.data), json!({"service": "nginx", "running": false, "previous": true}));
    assert_eq!((event.depth, event.origin.as_str()), (0, ""));
    let metrics = one.world.health.metrics().unwrap();
    assert!(metrics.contains("zester_peel_beacon_events_total{beacon=\"service\"} 1"), "{metrics}");
}

#[tokio::test(start_paused = true)]
#[rule("R-17", "R-21")]
async fn r21_flapping_inside_its_time_is_no_event() {
    let one =
        Watching::started(json!({"service": {"services": ["nginx"], "interval": "5s", "for": "30s"}})).await;
    *one.services.flapping.lock().unwrap() = true;
    one.services.looked(40).await;
    *one.services.flapping.lock().unwrap() = false;
    one.services.set("nginx", true);
    one.services.looked(2).await;
    assert!(one.events().await.is_empty());
    one.services.set("nginx", false);
    one.services.looked(5).await;
    assert!(one.events().await.is_empty(), "25 s are not enough");
    one.services.looked(4).await;
    assert_eq!(one.until_events(1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
#[rule("R-17")]
async fn r17_no_beacon_looks_while_an_execution_changes_the_machine() {
    let mut one = Watching::started(nginx()).await;
    let request = one.world.request("cmd.run");
    one.world.send(&request).await;
    one.world.until_did(crate::world::Did::Began(request.jid.clone())).await;
    // One look may have begun before.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let looks = one.services.looks.load(Ordering::Relaxed);
    one.services.set("nginx", false);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(one.services.looks.load(Ordering::Relaxed), looks);
    assert_eq!(one.ask("").await.answer["beacons"][0]["state"], json!("paused"));
    one.services.set("nginx", true);
    one.world.work.release.add_permits(1);
    one.services.looked(3).await;
    assert!(one.events().await.is_empty(), "what the execution did meanwhile is its own");
    // What only looks holds up nobody.
    one.world.send(&one.world.request("test.ping")).await;
    one.services.set("nginx", false);
    assert_eq!(one.until_events(1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
#[rule("R-17")]
async fn r17_events_wait_for_the_bus_in_their_order_and_the_oldest_goes() {
    let one = Watching::started(json!({"service": {"services": ["nginx"], "interval": 1}})).await;
    one.world.net.cut(PEEL);
    *one.services.flapping.lock().unwrap() = true;
    // The first of these looks still sees what was.
    one.services.looked(301).await;
    *one.services.flapping.lock().unwrap() = false;
    one.services.looked(3).await;
    assert!(one.events().await.is_empty());
    one.world.net.heal(PEEL);
    let events = one.until_events(256).await;
    one.services.looked(3).await;
    assert_eq!(one.events().await.len(), 256);
    let times: Vec<u64> = events.iter().map(|(_, event)| event.ts.0).collect();
    assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
    let told: Vec<&Value> = events.iter().map(|(_, event)| &event.data["running"]).collect();
    assert!(told.windows(2).all(|pair| pair[0] != pair[1]), "none is missing between two that are there");
    let metrics = one.world.health.metrics().unwrap();
    let number = |name: &str| -> u64 {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    let (made, dropped) =
        (number("zester_peel_beacon_events_total"), number("zester_peel_beacon_events_dropped_total"));
    assert_eq!(made - dropped, 256);
    assert!(dropped > 0);
}

#[tokio::test(start_paused = true)]
#[rule("R-17")]
async fn r17_beacons_that_are_wrong_change_nothing_and_are_told_until_they_are_right() {
    let mut one = Watching::started(nginx()).await;
    one.configure(json!({"serivce": {"services": ["nginx"]}}));
    let wanted = "the last good ones stay in force: `beacons:serivce`: there is no beacon `serivce`; did you mean `service`?";
    one.health(|state| *state == State::Degraded(wanted.into())).await;
    one.services.set("nginx", false);
    assert_eq!(one.until_events(1).await.len(), 1);
    let listed = one.ask("service").await.answer;
    assert_eq!(listed["problem"], json!(wanted));
    assert_eq!(listed["beacons"][0]["sample"], json!({"nginx": false}));
    assert_eq!(
        one.ask("disk").await.error,
        "there is no beacon `disk`; `beacons.list` shows those there are"
    );
    // Others take their place; what is as it was goes on with what it knows.
    one.services.set("db", true);
    let both = json!({"service": [{"services": {"nginx": {}}}, {"interval": 5}],
                      "more": {"beacon": "service", "services": "db", "interval": 5, "emit_at_start": true}});
    one.configure(both);
    one.health(|state| *state == State::Up).await;
    let events = one.until_events(2).await;
    assert_eq!(events[1].0, "zester.event.web-1.beacon.more");
    assert_eq!(json!(events[1].1.data), json!({"service": "db", "running": true, "previous": null}));
    one.configure(json!(null));
    patient(async {
        while one.ask("").await.answer["beacons"] != json!([]) {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
    })
    .await;
    one.services.set("nginx", true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(one.events().await.len(), 2, "a beacon that is no more tells nothing");
}

#[tokio::test(start_paused = true)]
#[rule("R-17")]
async fn r17_settings_that_cannot_be_read_leave_the_beacons_as_they_are() {
    let one = Watching::started(nginx()).await;
    *one.world.work.settings.lock().unwrap() = Err("no such file".into());
    one.health(|state| matches!(state, State::Degraded(why) if why.contains("the settings cannot be read")))
        .await;
    one.services.set("nginx", false);
    assert_eq!(one.until_events(1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
#[rule("R-21")]
async fn r21_a_beacon_that_hangs_holds_up_only_itself_and_a_slow_one_rests_as_long_as_it_works() {
    let mut one = Watching { world: World::new().await, services: Services::default() };
    one.services.set("nginx", true);
    one.configure(json!({"hangs": {"beacon": "service", "services": ["stuck"], "interval": 1},
                         "service": {"services": ["nginx"], "interval": 1}}));
    let (eyes, begun) = (one.services.eyes(), Arc::<AtomicUsize>::default());
    let slow = Slow { inner: eyes.processes.clone(), took: Duration::from_secs(10), begun: begun.clone() };
    one.start_with(Eyes { processes: Arc::new(slow), ..eyes });
    one.world.heartbeat(|beat| !beat.stopped).await;
    one.services.looked(1).await;
    let before = begun.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let looks = begun.load(Ordering::Relaxed) - before;
    assert!(
        (4..=6).contains(&looks),
        "10 s of work and 10 s of rest, and nothing more of the other: {looks}"
    );
    one.world.send(&one.world.request("test.ping")).await;
    assert!(one.world.returned().await.success);
    let listed = one.ask("hangs").await.answer;
    assert_eq!(listed["beacons"][0]["state"], json!("looking"));
    one.services.set("nginx", false);
    assert_eq!(one.until_events(1).await.len(), 1);
}
