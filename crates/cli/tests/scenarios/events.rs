//! Events as an operator sends, watches and looks back at them.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value as Json, json};
use std::fs::File;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

fn lines(fleet: &Fleet, file: &str) -> Vec<Json> {
    let text = std::fs::read_to_string(fleet.path(file)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
#[rule("C-11", "R-1", "C-6")]
fn c11_events_are_sent_and_watched_from_the_stream_and_then_live() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    fleet.start_master("m1");
    let sent = wait_for("a stream that keeps events", PATIENCE, || {
        let sent =
            fleet.zester(&["event", "send", "deploy/done", "version=1.4.2", "n=5", "--format", "json"]);
        serde_json::from_slice::<Json>(&sent.stdout).ok().filter(|sent| sent["id"].is_string())
    });
    assert_eq!(sent["key"], "_admin/deploy/done");
    fleet.zester(&["event", "send", "other", "--data", r#"{"x": [1]}"#]);
    let watch = |file: &str, words: &[&str]| {
        let out = File::create(fleet.path(file)).unwrap();
        let mut all = vec!["event", "watch", "--format", "json"];
        all.extend(words);
        fleet.command(&all).stdout(out).spawn().unwrap()
    };
    let mut all = watch("all", &["--since", "1h"]);
    let mut some = watch("some", &["_admin/deploy/*", "--since", "1h"]);
    let stored =
        wait_for("what was kept", PATIENCE, || Some(lines(&fleet, "all")).filter(|all| all.len() == 2));
    let mut keys: Vec<&String> = stored[0].as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["data", "depth", "id", "key", "origin", "tag", "ts"], "C-11 says what an object has");
    assert_eq!(stored[0]["data"], json!({"version": "1.4.2", "n": 5}));
    assert_eq!((&stored[0]["id"], &stored[0]["origin"]), (&sent["id"], &json!("_admin")));
    assert_eq!((&stored[1]["key"], &stored[1]["data"]), (&json!("_admin/other"), &json!({"x": [1]})));
    wait_for("the first of the other", PATIENCE, || (lines(&fleet, "some").len() == 1).then_some(()));
    for tag in ["deploy/failed", "else"] {
        assert!(fleet.zester(&["event", "send", tag]).status.success());
    }
    let tags = |file: &str| lines(&fleet, file).iter().map(|line| line["tag"].clone()).collect::<Vec<_>>();
    wait_for("what is sent meanwhile", PATIENCE, || (tags("all").len() == 4).then_some(()));
    wait_for("the one that matches", PATIENCE, || (tags("some").len() == 2).then_some(()));
    for child in [&mut all, &mut some] {
        kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130));
    }
    assert_eq!(tags("all"), ["deploy/done", "other", "deploy/failed", "else"]);
    assert_eq!(tags("some"), ["deploy/done", "deploy/failed"]);

    // One that no rule met is found by the beginning of its id all the same.
    let id = sent["id"].as_str().unwrap();
    let shown = fleet.json(&["reactor", "show", &id[..12]]);
    assert_eq!((&shown["id"], &shown["reactions"]), (&sent["id"], &json!([])));
}

#[test]
#[rule("C-3")]
fn c3_what_cannot_be_an_event_is_told_before_anybody_is_asked() {
    let fleet = Fleet::new("nats://127.0.0.1:1");
    for (words, why) in [
        (&["event", "send", "a b"][..], "`a b` is not a tag: "),
        (&["event", "send", "a", "word"], "`word` is not of the form k=v"),
        (&["event", "send", "a", "--data", "[1]"], "the data of an event is a JSON object"),
        (&["event", "watch", "[a"], "`[a` is not a glob: "),
        (&["reactor", "test", "x/y", "--data", "nothing"], "`nothing` is not of the form k=v"),
    ] {
        let output = fleet.zester(words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
}

const TOP: &str = "reactor:\n  - '_admin/deploy/*': [reactor.deploy]\n  - '*/broken': [reactor.broken]\n";
const DEPLOY: &str = "\
{% for host in data.hosts %}
start {{ host }}:
  dispatch.module:
    target: {{ host }}
    function: cmd.run
    args: {name: \"deploy {{ data.version }}\"}
{% endfor %}
tell:
  log: \"deploying {{ data.version }}\"
";

fn write_rules(fleet: &Fleet, files: &[(&str, &str)]) {
    std::fs::create_dir_all(fleet.path("reactor")).unwrap();
    for (name, text) in files {
        std::fs::write(fleet.path("reactor").join(name), text).unwrap();
    }
}

#[test]
#[rule("R-23", "R-5")]
fn r23_rules_are_tried_on_what_happened_and_nothing_is_executed() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    fleet.start_master("m1");
    let send = |words: &[&str]| fleet.zester(&[&["event", "send"], words].concat()).status.success();
    let hosts = r#"{"hosts": ["web-1", "web-2\nevil: 1"], "version": "1\nevil: {log: x}"}"#;
    wait_for("a stream that keeps events", PATIENCE, || {
        send(&["deploy/start", "--data", hosts]).then_some(())
    });
    for words in [&["deploy/none", "hosts=[]", "version=2"][..], &["broken"], &["other"]] {
        assert!(send(words));
    }
    let broken = "b:\n  log: {{ data.nothing }}\n";
    write_rules(&fleet, &[("top.zy", TOP), ("deploy.zy", DEPLOY), ("broken.zy", broken)]);
    let told = fleet.json(&["reactor", "replay", "--rules", "reactor", "--since", "1h"]);
    assert!(told["events"].as_u64() >= Some(4) && told["unmatched"].as_u64() >= Some(1), "{told:#}");
    // A target that says more than a name is refused with its whole file. Nothing that the data says is a block.
    let would = json!([
        {"rule": "reactor.broken", "decision": "render_error", "count": 1},
        {"rule": "reactor.deploy", "decision": "logged", "count": 1},
        {"rule": "reactor.deploy", "decision": "render_error", "count": 1},
    ]);
    assert_eq!((&told["would"], &told["same"]), (&would, &json!(0)), "{told:#}");
    let text = fleet.zester(&["reactor", "replay", "--rules", "reactor"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("would be render_error, and was not decided"), "{text}");
    assert!(text.ends_with("nothing was executed\n"), "{text}");
    assert_eq!(fleet.json(&["job", "list"])["jobs"], json!([]));
}

#[test]
#[rule("R-4", "C-7")]
fn r4_lint_reads_a_directory_of_rules_as_a_master_would() {
    let fleet = Fleet::new("nats://127.0.0.1:1");
    write_rules(&fleet, &[("top.zy", TOP), ("deploy.zy", DEPLOY), ("broken.zy", "b:\n  log: x\n")]);
    let good = fleet.zester(&["lint", "reactor"]);
    assert_eq!(good.status.code(), Some(0), "{}", String::from_utf8_lossy(&good.stdout));
    write_rules(
        &fleet,
        &[("broken.zy", "b:\n  log: {{ data.x }\n"), ("top.zy", &TOP.replace("broken]", "brokn]"))],
    );
    let bad = fleet.zester(&["lint", "reactor", "--format", "json"]);
    assert_eq!(bad.status.code(), Some(1));
    let told: Json = serde_json::from_slice(&bad.stdout).unwrap();
    let places: Vec<String> = told["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{}:{}", one["file"].as_str().unwrap_or_default(), one["line"]))
        .collect();
    assert_eq!(places, ["reactor/top.zy:3", "reactor/broken.zy:2"], "{told:#}");
}

#[test]
#[rule("R-14", "R-22", "R-9")]
fn r22_an_event_its_rules_jobs_returns_and_further_events_are_one_tree() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    let deploy = "\
run {{ data.version }}:
  dispatch.module: {target: p1, function: test.ping}
next:
  event.send: {tag: deployed, data: {v: {{ data.version }}}}
";
    let top = "- '_admin/deploy/*': [reactor.deploy]\n- '_master/reaction/*': [reactor.again]\n";
    let again = "again:\n  event.send: {tag: more}\n";
    write_rules(&fleet, &[("top.zy", top), ("deploy.zy", deploy), ("again.zy", again)]);
    let directory = fleet.path("reactor").display().to_string();
    fleet.start_master_with("m1", &["--reactor", &directory]);
    fleet.start_peel("p1");
    fleet.wait_online(1);
    wait_for("the rules to be in use", PATIENCE, || {
        let output = fleet.zester(&["reactor", "rules", "--format", "json"]);
        let list: Json = serde_json::from_slice(&output.stdout).ok()?;
        (list["rules"].as_array()?.len() == 2).then_some(())
    });
    let why = fleet.json(&["reactor", "rules", "--why", "_admin/deploy/x"]);
    assert_eq!(
        (&why["rules"][0]["rule"], &why["not_matching"][0]["rule"]),
        (&json!("reactor.deploy"), &json!("reactor.again"))
    );
    let tested = fleet.json(&["reactor", "test", "_admin/deploy/x", "--data", "version=7"]);
    let blocks = tested["rules"][0]["blocks"].as_array().unwrap();
    let named: Vec<&Json> = blocks.iter().map(|block| &block["block"]).collect();
    assert_eq!(named, ["run 7", "next"]);
    assert_eq!((&blocks[0]["targets"], &blocks[1]["rendered"]["data"]), (&json!(1), &json!({"v": 7})));

    let sent = fleet.json(&["event", "send", "deploy/x", "version=7"]);
    let id = sent["id"].as_str().unwrap();
    let tree = wait_for("all that comes of it", PATIENCE, || {
        let tree = fleet.json(&["reactor", "show", id]);
        let job = &tree["reactions"][0]["job"];
        let chain = &tree["reactions"][1]["event"]["reactions"][0]["event"]["reactions"][0];
        let whole = job["status"] == "complete" && job["events"].as_array()?.len() == 2;
        (whole && chain["decision"] == "refused").then_some(tree)
    });
    let run = &tree["reactions"][0];
    assert_eq!(
        (&run["rule"], &run["block"], &run["decision"]),
        (&json!("reactor.deploy"), &json!("run 7"), &json!("dispatched"))
    );
    assert_eq!(run["job"]["returns"]["p1"]["success"], true, "{tree:#}");
    let derived = &tree["reactions"][1]["event"];
    assert_eq!((&derived["key"], &derived["depth"]), (&json!("_master/reaction/deployed"), &json!(1)));
    let looped = &derived["reactions"][0]["event"]["reactions"][0];
    assert_eq!(
        (&looped["rule"], &looped["again"]),
        (&json!("reactor.again"), &json!(true)),
        "a loop is seen"
    );

    let history = fleet.json(&["reactor", "history", "--rule", "reactor.deploy", "--result", "dispatched"]);
    assert_eq!(history["decisions"][0]["event_id"], sent["id"], "{history:#}");
    let replayed = fleet.json(&["reactor", "replay", "--rules", "reactor", "--since", "1h"]);
    assert_eq!((&replayed["same"], &replayed["different"]), (&json!(4), &json!(0)), "{replayed:#}");
    let closed = fleet.zester(&["reactor", "breaker", "close", "reactor.again"]);
    assert!(closed.status.success(), "{}", String::from_utf8_lossy(&closed.stderr));
}
