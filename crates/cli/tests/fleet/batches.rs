//! A fleet in parts.

use crate::up::up;
use serde_json::json;

#[test]
fn a_batch_begins_when_the_last_has_ended_and_too_many_failures_stop_the_rest() {
    let up = up(3, &[]);
    let all = up.json(&["*", "test.ping", "--batch", "2"], 0);
    assert_eq!(all["jids"].as_array().unwrap().len(), 2);
    assert_eq!(all["jids"][1], all["jid"]);
    assert_eq!((all["peels"].as_object().unwrap().len(), &all["status"]), (3, &"complete".into()));

    // Two that did not succeed are enough; whoever was never asked is not missing.
    let words = ["*", "cmd.run", "exit 3", "--batch", "1", "--max-fail", "2"];
    let stopped = up.json(&words, 2);
    assert_eq!(stopped["jids"].as_array().unwrap().len(), 2, "{stopped}");
    assert_eq!((&stopped["status"], &stopped["not_asked"]), (&"failed".into(), &json!(["peel-3"])));
    assert_eq!(stopped["peels"].as_object().unwrap().len(), 2, "{stopped}");
    let said = up.zester(&words).exits(2).stdout;
    assert!(said.contains("2 failed") && said.contains("1 not asked: --max-fail was reached"), "{said}");
    assert!(said.contains("--max-fail was reached\n  peel-3\n"), "by name: {said}");
    assert_eq!(stopped["not_asked_why"], "--max-fail was reached");
    assert!(!said.contains("missing"), "{said}");
    let one = up.json(&["*", "cmd.run", "exit 3", "--batch", "1", "--max-fail", "1"], 2);
    assert_eq!(one["jids"].as_array().unwrap().len(), 1, "{one}");
    let none = up.zester(&["*", "test.ping", "--batch", "1", "--max-fail", "0"]).exits(1);
    assert!(none.stderr.contains("at least 1"), "{}", none.stderr);
}
