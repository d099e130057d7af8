//! A peel that does what its own schedule says, bus or no bus (D-9, D-10).

use crate::world::{Did, PEEL, World, patient, peel_id};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use zester_bus::{Listen, Subscription, storage::JOB_EVENTS};
use zester_health::State;
use zester_peel::schedule::Options;
use zester_rule::rule;
use zester_wire::{Cause, Jid, Return, Subject, subject};

struct Scheduled {
    world: World,
    dir: tempfile::TempDir,
    results: Subscription,
}

impl Scheduled {
    async fn new(file: &str) -> Scheduled {
        let world = World::new().await;
        let dir = tempfile::tempdir().unwrap();
        let results =
            world.master.bus().subscribe(subject::ALL_SCHEDULED, Listen::alone(1_000)).await.unwrap();
        let one = Scheduled { world, dir, results };
        one.write(file);
        one
    }

    /// One whose peel is there.
    async fn started(file: &str) -> Scheduled {
        let mut one = Scheduled::new(file).await;
        one.start();
        one.ready().await;
        one
    }

    /// Waits until the schedule was read.
    async fn ready(&mut self) {
        self.world.heartbeat(|beat| !beat.stopped).await;
        patient(async {
            while self.ask("schedule.list", "").await.answer["entries"][0].is_null() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("schedule.yaml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.file(), text).unwrap();
    }

    fn start(&mut self) {
        self.world.start_with(Some(Options {
            file: Some(self.file()),
            file_named: true,
            settings_cache: None,
            dir: self.dir.path().join("kept"),
            local_zone: "UTC".into(),
        }));
    }

    async fn result(&mut self) -> Return {
        let raw = self.world.master.delivered(patient(self.results.next()).await.unwrap()).unwrap();
        let subject = self.world.master.subject_of(&raw).unwrap();
        assert!(matches!(subject, Subject::JobSchedule { .. }), "{subject}");
        self.world.master.open_addressed::<Return>(&subject, &raw.payload).unwrap().message
    }

    /// Everything that the stream has, by entry and job.
    async fn stored(&self) -> Vec<(String, Jid)> {
        let mut found = Vec::new();
        let link = &self.world.master;
        link.each_message(JOB_EVENTS, subject::ALL_SCHEDULED, |record| {
            let subject = Subject::parse(&record.subject).unwrap();
            let ret = link.open_addressed::<Return>(&subject, &record.payload).unwrap().message;
            found.push((ret.schedule.unwrap().name, ret.jid));
        })
        .await
        .unwrap();
        found
    }

    async fn ask(&mut self, function: &str, name: &str) -> Return {
        let mut request = self.world.request(function);
        request.state_id = name.into();
        self.world.send(&request).await;
        loop {
            let ret = self.world.returned().await;
            if ret.jid == request.jid {
                return ret;
            }
        }
    }

    async fn began(&self, count: usize) {
        patient(async {
            while self.begun() < count {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .await;
    }

    fn begun(&self) -> usize {
        self.world.work.did().iter().filter(|did| matches!(did, Did::Began(_))).count()
    }

    async fn health(&self, fits: impl Fn(&State) -> bool) {
        patient(async {
            while !self.world.health.state("schedule").is_some_and(|state| fits(&state)) {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_results_travel_as_schedule_and_no_master_is_asked() {
    let mut one = Scheduled::started("ping: {function: test.ping, interval: 1m}").await;
    let result = one.result().await;
    let run = result.schedule.clone().unwrap();
    assert_eq!((run.name.as_str(), run.function.as_str(), result.success), ("ping", "test.ping", true));
    assert_eq!((&result.peel, &result.answer), (&peel_id(), &json!(true)));
    one.result().await;
    one.world.nothing_returned().await;
}

#[tokio::test(start_paused = true)]
#[rule("D-9")]
async fn d9_a_schedule_runs_without_a_bus_and_its_results_arrive_once_when_there_is_one() {
    let mut one = Scheduled::new("ping: {function: test.ping, interval: 1m}").await;
    one.start();
    one.world.net.cut(PEEL);
    one.began(3).await;
    assert_eq!(one.stored().await.len(), 0);
    // What waits survives the peel.
    one.world.crash().await;
    one.start();
    one.world.net.cut(PEEL);
    one.began(4).await;
    one.world.net.heal(PEEL);
    for _ in 0..4 {
        assert!(one.result().await.success);
    }
    // Whatever ran has its result there, each of them once, and nothing else has.
    one.world.stop().await;
    let mut ran: Vec<Jid> =
        one.world.work.asked.lock().unwrap().iter().map(|asked| asked.jid.clone()).collect();
    let mut stored: Vec<Jid> = one.stored().await.into_iter().map(|(_, jid)| jid).collect();
    ran.sort();
    stored.sort();
    assert_eq!(stored, ran);
}

/// Each entry that is listed, and when it runs.
fn whens(listed: &Value) -> Vec<String> {
    let entries = listed["entries"].as_array().cloned().unwrap_or_default();
    entries.iter().map(|entry| format!("{} {}", entry["name"], entry["when"]).replace('"', "")).collect()
}

fn schedule_of(entries: Value) -> Result<Value, String> {
    Ok(json!({ "schedule": entries }))
}

#[tokio::test(start_paused = true)]
#[rule("D-9", "D-10")]
async fn d9_settings_that_hang_hold_up_nothing_of_the_file_and_lose_nothing_of_their_own() {
    let mut one = Scheduled::new("a: {function: test.ping, interval: 1m}").await;
    let schedule = json!({"b": {"function": "test.ping", "interval": "2h"}});
    *one.world.work.settings.lock().unwrap() = schedule_of(schedule);
    one.start();
    one.ready().await;
    let due = one.ask("schedule.list", "b").await.answer["entries"][0]["next"].clone();
    one.world.stop().await;
    // From the start on.
    one.world.work.settings_hang.store(true, Ordering::Relaxed);
    one.start();
    one.ready().await;
    assert_eq!(whens(&one.ask("schedule.list", "").await.answer), ["a every 1m"]);
    let begun = one.begun();
    one.began(begun + 1).await;
    // It is told, and what they last said well comes into force.
    one.health(|state| matches!(state, State::Degraded(why) if why.contains("were not rendered in 120 s")))
        .await;
    let listed = one.ask("schedule.list", "").await.answer;
    assert_eq!(whens(&listed), ["a every 1m", "b every 2h"]);
    assert!(listed["problem"].as_str().unwrap().contains("were not rendered in 120 s"), "{listed:#}");
    assert_eq!(listed["entries"][1]["next"], due, "its interval did not begin anew");
    one.write("a: {function: test.ping, interval: 1m}\nc: {function: test.ping, interval: 1m}");
    patient(async {
        while whens(&one.ask("schedule.list", "").await.answer).len() < 3 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    one.world.work.settings_hang.store(false, Ordering::Relaxed);
    one.health(|state| *state == State::Up).await;
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_settings_that_arrive_after_the_very_first_start_run_on_start() {
    let mut one = Scheduled::new("{}").await;
    one.world.work.settings_unknown.store(true, Ordering::Relaxed);
    one.start();
    one.world.heartbeat(|_| true).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let entry = json!({"function": "test.ping", "interval": "1h", "run_on_start": true});
    *one.world.work.settings.lock().unwrap() = schedule_of(json!({ "b": entry }));
    one.world.work.settings_unknown.store(false, Ordering::Relaxed);
    assert_eq!(one.result().await.schedule.unwrap().name, "b");
    // What is written later is no start.
    *one.world.work.settings.lock().unwrap() = schedule_of(json!({ "b": entry, "c": entry }));
    patient(async {
        while whens(&one.ask("schedule.list", "").await.answer).len() < 2 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
    assert_eq!(one.begun(), 1);
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_nothing_begins_before_it_is_on_disk_and_nothing_is_forgotten() {
    let mut one = Scheduled::started(
        "ping: {function: test.ping, interval: 1m}\nhold: {function: cmd.run, args: [x], interval: 1h}",
    )
    .await;
    one.ask("schedule.run", "hold").await;
    one.began(1).await;
    // No file can take the place of a directory.
    let document = one.dir.path().join("kept/memory.json");
    std::fs::remove_file(&document).unwrap();
    std::fs::create_dir(&document).unwrap();
    let (results, aside) = (one.dir.path().join("kept/results"), one.dir.path().join("aside"));
    std::fs::rename(&results, &aside).unwrap();
    one.world.work.release.add_permits(1);
    one.health(|state| matches!(state, State::Degraded(why) if why.contains("cannot be written"))).await;
    let begun = one.begun();
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(one.begun(), begun, "what is due waits for the disk");
    let listed = one.ask("schedule.list", "").await.answer;
    assert!(listed["unsaved"].as_str().unwrap().contains("cannot be written"), "{listed:#}");
    let refused = one.ask("schedule.run", "hold").await;
    assert!(refused.error.contains("cannot be written"), "{refused:?}");
    std::fs::remove_dir(&document).unwrap();
    std::fs::rename(&aside, &results).unwrap();
    one.health(|state| *state == State::Up).await;
    let listed = one.ask("schedule.list", "ping").await.answer;
    assert_eq!(one.begun(), begun, "it is too late for what waited");
    assert_eq!(listed["entries"][0]["missed"], 1, "{listed:#}");
    one.began(begun + 1).await;
    let shown = one.ask("schedule.show", "hold").await.answer;
    assert_eq!(shown["entries"][0]["results"].as_array().map(Vec::len), Some(1), "{shown:#}");
    assert_eq!(shown["unsaved"], Value::Null);
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_too_many_entries_at_the_start_keep_those_of_the_last_life() {
    let many = |letter: char, count: usize| -> Value {
        let entry = json!({"function": "test.ping", "interval": "1h"});
        (0..count)
            .map(|number| (format!("{letter}{number}"), entry.clone()))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let mut one = Scheduled::new(&many('a', 200).to_string()).await;
    *one.world.work.settings.lock().unwrap() = schedule_of(many('b', 1));
    one.start();
    one.ready().await;
    one.ask("schedule.run", "b0").await;
    one.began(1).await;
    one.world.stop().await;
    *one.world.work.settings.lock().unwrap() = schedule_of(many('b', 100));
    one.start();
    one.health(|state| matches!(state, State::Degraded(why) if why.contains("together have 300 entries")))
        .await;
    one.ready().await;
    let shown = one.ask("schedule.show", "b0").await.answer;
    assert_eq!(shown["entries"][0]["last"]["success"], true, "{shown:#}");
    assert_eq!(whens(&one.ask("schedule.list", "").await.answer).len(), 201);
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_a_scheduled_run_waits_for_a_job_and_a_job_for_it() {
    let mut one = Scheduled::started("hold: {function: cmd.run, args: [x], interval: 1m}").await;
    let mut request = one.world.request("test.hold");
    request.budget = Duration::from_secs(3_600);
    one.world.send(&request).await;
    one.world.until_did(Did::Began(request.jid.clone())).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert_eq!(one.begun(), 1, "it is due, and waits");
    one.world.work.release.add_permits(1);
    one.began(2).await;
    let ping = one.world.request("test.succeed");
    one.world.send(&ping).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(one.begun(), 2, "the job waits for it");
    one.world.work.release.add_permits(1);
    one.world.until_did(Did::Ended(ping.jid.clone())).await;
    assert!(one.result().await.success);
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_what_was_running_in_a_crash_is_told_as_interrupted() {
    let mut one = Scheduled::started("hold: {function: cmd.run, args: [x], interval: 1m}").await;
    one.began(1).await;
    one.world.crash().await;
    one.start();
    let result = one.result().await;
    assert_eq!(
        (result.cause, result.error.as_str()),
        (Cause::Interrupted, "interrupted: the peel restarted")
    );
    assert_eq!(result.schedule.unwrap().name, "hold");
    one.ready().await;
    // Results are shown from the disk, which may be a moment behind.
    let entry = patient(async {
        loop {
            let entry = one.ask("schedule.show", "hold").await.answer["entries"][0].clone();
            if entry["results"].as_array().is_some_and(|results| !results.is_empty()) {
                return entry;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    assert_eq!(entry["last"]["error"], "interrupted: the peel restarted", "{entry:#}");
    assert_eq!(entry["results"].as_array().map(Vec::len), Some(1), "{entry:#}");
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_missed_runs_are_known_over_a_restart() {
    let mut one = Scheduled::started("ping: {function: test.ping, interval: 9m}").await;
    let _first = one.result().await;
    one.world.stop().await;
    tokio::time::sleep(Duration::from_secs(35 * 60)).await;
    one.start();
    one.world.heartbeat(|beat| !beat.stopped).await;
    let mut listed = serde_json::Value::Null;
    for _ in 0..60 {
        listed = one.ask("schedule.list", "").await.answer;
        if listed["entries"][0]["missed"] == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(listed["entries"][0]["missed"], 3, "{listed:#}");
    assert_eq!(one.begun(), 1, "they are not made up for");
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_a_broken_schedule_keeps_the_last_good_one_and_says_so() {
    let mut one = Scheduled::started("ping: {function: test.ping, interval: 1m}").await;
    one.result().await;
    one.write("ping: {function: test.pign, interval: 1m, nonsense: 1}");
    one.health(|state| {
        matches!(state, State::Degraded(why) if why.contains("schedule.yaml:1:43: unknown key `nonsense`"))
    })
    .await;
    one.result().await;
    // Also over a restart.
    one.world.stop().await;
    one.start();
    one.result().await;
    let problem = one.ask("schedule.list", "").await.answer["problem"].clone();
    assert!(problem.as_str().unwrap().contains("nonsense"), "{problem}");
    one.write("pong: {function: test.ping, interval: 1m}");
    one.health(|state| *state == State::Up).await;
    while one.result().await.schedule.unwrap().name != "pong" {}
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_the_settings_add_to_the_file_and_win() {
    let mut one =
        Scheduled::new("a: {function: test.ping, interval: 1h}\nb: {function: test.ping, interval: 1h}")
            .await;
    let schedule = json!({"b": {"function": "test.ping", "interval": "2h"}, "c": {"function": "test.ping", "minutes": 5}});
    *one.world.work.settings.lock().unwrap() = Ok(json!({ "schedule": schedule }));
    one.start();
    one.ready().await;
    let listed = one.ask("schedule.list", "").await.answer;
    assert_eq!(whens(&listed), ["a every 1h", "b every 2h", "c every 5m"]);
    // Settings that cannot be read change nothing, and others do.
    *one.world.work.settings.lock().unwrap() = Err("settings/web.zy:3: no".into());
    one.health(|state| matches!(state, State::Degraded(why) if why.contains("settings/web.zy:3: no"))).await;
    assert_eq!(whens(&one.ask("schedule.list", "").await.answer).len(), 3);
    *one.world.work.settings.lock().unwrap() = Ok(json!({}));
    one.health(|state| *state == State::Up).await;
    assert_eq!(whens(&one.ask("schedule.list", "").await.answer), ["a every 1h", "b every 1h"]);
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_without_return_job_the_result_stays_on_the_peel() {
    let mut one = Scheduled::started("ping: {function: test.ping, interval: 1m, return_job: false}").await;
    one.began(2).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let shown = one.ask("schedule.show", "ping").await.answer;
    assert_eq!(shown["entries"][0]["results"].as_array().map(Vec::len), Some(2), "{shown:#}");
    assert_eq!(shown["entries"][0]["results"][0]["return"], true);
    assert_eq!(one.stored().await.len(), 0);
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_an_entry_runs_by_hand_and_nothing_else_does() {
    let mut one = Scheduled::started("deploy: {function: test.ping, interval: 1h}").await;
    let told = one.ask("schedule.run", "deploy").await;
    let result = one.result().await;
    assert_eq!(told.answer["jid"], result.jid.as_str(), "{told:?}");
    let told = one.ask("schedule.run", "deplyo").await;
    assert_eq!(told.error, "the schedule has no entry `deplyo`; did you mean `deploy`?");
    let told = one.ask("schedule.show", "other").await;
    assert!(!told.success && told.error.contains("no entry `other`"), "{told:?}");
}

#[tokio::test(start_paused = true)]
#[rule("D-10")]
async fn d10_a_stop_ends_what_the_schedule_runs() {
    let mut one = Scheduled::started("hold: {function: cmd.run, args: [x], interval: 1m}").await;
    one.began(1).await;
    one.world.stop().await;
    let result = one.result().await;
    assert_eq!((result.cause, result.success), (Cause::Interrupted, false), "{result:?}");
}
