//! A peel that does what its schedule says, with nobody there to tell it to.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use serde_json::Value as Json;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

/// How often the state has been applied on this machine.
fn applied(fleet: &Fleet) -> usize {
    std::fs::read_to_string(fleet.path("applied")).unwrap_or_default().lines().count()
}

/// A state that writes down each of its runs, and a file that must be there.
fn write_states(fleet: &Fleet) {
    let (applied, motd) = (fleet.path("applied"), fleet.path("motd"));
    let text = format!(
        "note:\n  cmd.run:\n    - command: date >> {}\n{}:\n  file.managed:\n    - content: hello\n",
        applied.display(),
        motd.display()
    );
    std::fs::write(fleet.path("states").join("web.zy"), text).unwrap();
}

#[test]
#[rule("D-9", "D-10")]
fn d9_a_peel_without_a_bus_enforces_its_schedule_from_disk_and_its_results_arrive_once() {
    let mut server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    server.kill();
    write_states(&fleet);
    let schedule = "web: {function: state.apply, args: [web], interval: 1s, run_on_start: true}\n";
    std::fs::write(fleet.path("schedule.yaml"), schedule).unwrap();
    fleet.start_scheduled_peel("p1", "schedule.yaml");
    wait_for("two runs without a bus", PATIENCE, || (applied(&fleet) >= 2).then_some(()));
    assert_eq!(std::fs::read_to_string(fleet.path("motd")).unwrap(), "hello");
    // What somebody breaks is put right again, and what runs when the peel is killed is no reason to stop for ever.
    std::fs::remove_file(fleet.path("motd")).unwrap();
    wait_for("the file to be back", PATIENCE, || fleet.path("motd").exists().then_some(()));
    fleet.peels.get_mut("p1").unwrap().kill();
    let before = applied(&fleet);
    fleet.start_scheduled_peel("p1", "schedule.yaml");
    wait_for("runs of the next life", PATIENCE, || (applied(&fleet) > before).then_some(()));
    // No further runs: whatever was applied by now has its result to deliver.
    std::fs::write(fleet.path("schedule.yaml"), schedule.replace("1s", "1h")).unwrap();
    wait_for("the schedule to be read again", PATIENCE, || {
        let kept = std::fs::read_to_string(fleet.path("p1/schedule/memory.json")).unwrap_or_default();
        let kept: Json = serde_json::from_str(&kept).ok()?;
        let entry = &kept["memory"]["entries"]["web"];
        (entry["when"] == "every 1h" && entry["running"] == serde_json::json!([])).then_some(())
    });
    let ran = applied(&fleet);
    // The server comes, and a master.
    server.restart();
    fleet.start_master("m1");
    fleet.wait_online(1);
    let listed = || {
        let listed = fleet.json(&["job", "list", "--scheduled", "--limit", "1000"]);
        listed["jobs"].as_array().unwrap().clone()
    };
    let succeeded = |jobs: &[Json]| jobs.iter().filter(|job| job["status"] == "complete").count();
    // What the kill cut short may have been applied, and is told as interrupted.
    let results = wait_for("the results of all runs to arrive", PATIENCE, || {
        Some(listed()).filter(|jobs| jobs.len() >= ran && succeeded(jobs) + 1 >= ran)
    });
    let mut jids: Vec<&str> = results.iter().filter_map(|job| job["jid"].as_str()).collect();
    let all = jids.len();
    jids.sort_unstable();
    jids.dedup();
    assert_eq!(jids.len(), all, "each of them once");
    assert!(all <= ran + 1 && succeeded(&results) <= ran, "{all} results of {ran} runs: {results:#?}");
    let good = results.iter().find(|job| job["status"] == "complete").expect("one that went well");
    assert_eq!((&good["schedule"]["name"], &good["targets"][0]), (&"web".into(), &"p1".into()), "{good:#}");
    let shown = fleet.json(&["job", "show", good["jid"].as_str().unwrap()]);
    assert_eq!(shown["returns"]["p1"]["success"], true, "{shown:#}");
}

#[test]
#[rule("D-10")]
fn d10_schedules_are_listed_shown_and_run_by_hand() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    write_states(&fleet);
    let schedule = "web: {function: state.apply, args: [web], interval: 1h}\n";
    std::fs::write(fleet.path("schedule.yaml"), schedule).unwrap();
    fleet.start_master("m1");
    fleet.start_scheduled_peel("p1", "schedule.yaml");
    fleet.wait_online(1);
    let entry = |listed: &Json| listed["peels"]["p1"]["return"]["entries"][0].clone();
    let listed = wait_for("the schedule to be read", PATIENCE, || {
        let listed = fleet.json(&["schedule", "list"]);
        (!entry(&listed).is_null()).then_some(listed)
    });
    assert_eq!((&entry(&listed)["name"], &entry(&listed)["when"]), (&"web".into(), &"every 1h".into()));
    let text = String::from_utf8(fleet.zester(&["schedule", "list", "p1"]).stdout).unwrap();
    assert!(text.starts_with("p1\n  web  state.apply  every 1h, next in "), "{text}");
    assert_eq!(applied(&fleet), 0);
    assert!(fleet.zester(&["schedule", "run", "web", "*"]).status.success());
    let shown = wait_for("the result", PATIENCE, || {
        let shown = fleet.json(&["schedule", "show", "web"]);
        (entry(&shown)["results"][0]["success"] == true).then_some(shown)
    });
    assert_eq!((applied(&fleet), &entry(&shown)["last"]["success"]), (1, &true.into()));
    let wrong = fleet.zester(&["schedule", "show", "wbe"]);
    assert_eq!(wrong.status.code(), Some(1));
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(said.contains("the schedule has no entry `wbe`; did you mean `web`?"), "{said}");
    // What is broken changes nothing, and is told.
    let broken = "web: {function: state.aply, interval: 1h}\n";
    std::fs::write(fleet.path("schedule.yaml"), broken).unwrap();
    wait_for("the broken schedule to be told", PATIENCE, || {
        let listed = fleet.json(&["schedule", "list"]);
        listed["peels"]["p1"]["return"]["problem"].as_str().map(str::to_string)
    });
    assert_eq!(entry(&fleet.json(&["schedule", "list"]))["function"], "state.apply");
}

#[test]
#[rule("S-37", "D-10")]
fn s37_a_scheduled_run_without_states_says_so_and_works_once_there_are_some() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    std::fs::remove_dir(fleet.path("states")).unwrap();
    let schedule = "web: {function: state.apply, args: [web], interval: 1s}\n";
    std::fs::write(fleet.path("schedule.yaml"), schedule).unwrap();
    fleet.start_master("m1");
    fleet.start_scheduled_peel("p1", "schedule.yaml");
    fleet.wait_online(1);
    let result = wait_for("a result", PATIENCE, || {
        let listed = fleet.json(&["job", "list", "--scheduled", "--limit", "1"]);
        listed["jobs"][0]["returns"]["p1"].as_object().cloned()
    });
    let error = result["error"].as_str().unwrap();
    assert!(error.starts_with("states engine unavailable: no states directory exists yet"), "{error}");
    std::fs::create_dir(fleet.path("states")).unwrap();
    write_states(&fleet);
    wait_for("a run with states", PATIENCE, || (applied(&fleet) > 0).then_some(()));
}
