//! What comes back when everybody answers.

use crate::up::up;
use serde_json::{Value as Json, json};
use zester_rule::rule;

const HELLO: &str = "hello:\n  file.managed: [{path: \"@T@/hello-{{ grains.id }}\"}, {content: \"hi\\n\"}]\n";
const MIXED: &str = "x:\n{% if grains.id == 'peel-1' %}\n  cmd.run: [{command: \"echo sorry >&2; exit 7\"}]\n{% else %}\n  test.nop: []\n{% endif %}\n";

#[test]
#[rule("C-2", "C-3")]
fn c2_c3_a_fleet_answers_in_text_and_in_json() {
    let up = up(3, &[("hello", HELLO), ("mixed", MIXED)]);
    let ping = up.zester(&["*", "test.ping"]).exits(0);
    for wanted in ["3 peels  timeout 1m", " ✓ peel-1", " ✓ peel-2", " ✓ peel-3", "3 succeeded"] {
        assert!(ping.stdout.contains(wanted), "{wanted:?} is missing from\n{}", ping.stdout);
    }
    assert!(ping.stderr.contains("zester up"), "it says whose fleet it asked: {}", ping.stderr);

    let document = up.json(&["*", "test.ping"], 0);
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["jid", "status", "peels"]);
    assert_eq!(document["status"], "complete");
    let peel = document["peels"]["peel-2"].as_object().unwrap();
    assert_eq!(peel.keys().collect::<Vec<_>>(), ["status", "duration_ms", "error", "return"]);
    assert_eq!(peel["status"], "success");

    let uname = up.zester(&["peel-1 or peel-3", "cmd.run", "echo one; echo two"]).exits(0);
    assert!(
        uname.stdout.contains("2 peels") && uname.stdout.contains("\n     one\n     two\n"),
        "{}",
        uname.stdout
    );

    // States: looked at, changed, and nothing left to do.
    let dry = up.json(&["*", "state.apply", "hello", "test=true"], 0);
    assert_eq!(dry["peels"]["peel-1"]["return"]["mode"], "check");
    assert!(!up.path("hello-peel-1").exists());
    let applied = up.zester(&["*", "state.apply", "hello"]).exits(0);
    assert!(
        applied.stdout.contains("1 changed") && applied.stdout.contains("timeout 5m"),
        "{}",
        applied.stdout
    );
    assert_eq!(std::fs::read_to_string(up.path("hello-peel-2")).unwrap(), "hi\n");
    assert!(up.zester(&["*", "state.apply", "hello"]).exits(0).stdout.contains("nothing to do"));

    // What would change is named, and shown where there is room.
    let dry = up.zester(&["peel-*", "state.apply", "hello", "--test"]).exits(0).stdout;
    assert!(dry.contains("nothing to do"), "{dry}");
    std::fs::remove_file(up.path("hello-peel-1")).unwrap();
    let dry = up.zester(&["*", "state.apply", "hello", "--test"]).exits(0).stdout;
    assert!(dry.contains("1 would change") && dry.contains("  file.managed:hello\n"), "{dry}");
    let details = dry.lines().last().unwrap().strip_prefix("details: zester job show ").unwrap();
    let shown = up.zester(&["job", "show", details]).exits(0).stdout;
    assert!(shown.contains("file.managed:hello  ") && shown.contains("         +hi\n"), "{shown}");
    assert!(shown.contains("'*' state.apply hello --test\n") && shown.contains("owner: up\n"), "{shown}");
    let graph = up.zester(&["peel-1", "state.graph", "hello"]).exits(0).stdout;
    assert!(graph.contains("     level 0\n       file.managed:hello\n"), "{graph}");

    // One fails.
    let mixed = up.zester(&["*", "state.apply", "mixed"]).exits(2);
    assert!(mixed.stdout.contains(" ✗ peel-1") && mixed.stdout.contains("exit code 7"), "{}", mixed.stdout);
    assert!(mixed.stdout.trim_end().ends_with(" --failed"), "what to do next: {}", mixed.stdout);
    let wrong = up.zester(&["peel-1", "state.apply", "nosuch"]).exits(2);
    assert!(wrong.stdout.contains(" ✗ peel-1  error "), "{}", wrong.stdout);
    let mixed = up.json(&["*", "state.apply", "mixed"], 2);
    assert_eq!((&mixed["status"], &mixed["peels"]["peel-1"]["status"]), (&json!("failed"), &json!("failed")));

    // Nobody.
    let nobody = up.zester(&["nobody*", "test.ping"]).exits(1);
    assert!(nobody.stderr.contains("no peel matches"), "{}", nobody.stderr);
    for direct in [&[][..], &["--direct"]] {
        let typo = up.zester(&[&["pel-1", "test.ping"][..], direct].concat()).exits(1);
        assert!(typo.stderr.contains("no peel matches `pel-1`; did you mean `peel-1`?"), "{}", typo.stderr);
        assert!(!typo.stderr.contains("is called"), "once is enough: {}", typo.stderr);
    }
    let wrong = up.zester(&["peel-1 and", "test.ping"]).exits(1);
    assert!(wrong.stderr.contains('^') && wrong.stderr.contains("peel-1 and"), "{}", wrong.stderr);
}

#[test]
#[rule("C-11")]
fn c11_jobs_and_peels_are_listed_and_shown() {
    let up = up(2, &[]);
    let jid = up.json(&["*", "test.ping", "--async"], 0);
    let jid = jid["jid"].as_str().unwrap();
    let watched = up.zester(&["job", "watch", jid, "--format", "json"]).exits(0).stdout;
    let objects: Vec<Json> = watched.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [one, other, whole] = objects.as_slice() else { panic!("C-1: one object a line: {watched}") };
    assert!(one["peel"] != other["peel"] && one["status"] == "success", "{watched}");
    assert_eq!((whole["jid"].as_str(), &whole["status"]), (Some(jid), &json!("complete")));
    let typo = up.zester(&["*", "test.pign"]).exits(1);
    assert!(typo.stderr.contains("did you mean `test.ping`?"), "{}", typo.stderr);

    let jobs = up.json(&["job", "list"], 0);
    assert_eq!(jobs["jobs"][0]["jid"].as_str(), Some(jid));
    assert_eq!(up.json(&["job", "active"], 0), json!({ "jobs": [] }));
    let shown = up.json(&["job", "show", &jid[..25]], 0);
    assert_eq!((shown["jid"].as_str(), &shown["missing"]), (Some(jid), &json!({})));
    assert_eq!(shown["returns"]["peel-1"]["success"], true);
    assert!(up.zester(&["job", "show", jid]).exits(0).stdout.contains("complete"));
    assert!(up.zester(&["job", "show", "nope"]).exits(1).stderr.contains("there is no job `nope`"));

    let again = up.json(&["job", "retry", jid], 0);
    assert_ne!(again["jid"].as_str(), Some(jid));
    assert_eq!(again["peels"].as_object().unwrap().len(), 2);

    let peels = up.json(&["peel", "list"], 0);
    let first = peels["peels"][0].as_object().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["id", "online", "last_seen", "os", "version"]);
    assert_eq!((&first["id"], &first["online"]), (&json!("peel-1"), &json!(true)));
    assert_eq!(up.json(&["peel", "show", "peel-2"], 0)["facts"]["id"], "peel-2");
    assert!(up.zester(&["peel", "show", "peel-9"]).exits(1).stderr.contains("there is no peel `peel-9`"));
}
