//! A fleet in parts.

use crate::up::up;

#[test]
fn a_batch_begins_when_the_last_has_ended_and_too_many_failures_stop_the_rest() {
    let up = up(3, &[]);
    let all = up.json(&["*", "test.ping", "--batch", "2"], 0);
    assert_eq!(all["jids"].as_array().unwrap().len(), 2);
    assert_eq!(all["jids"][1], all["jid"]);
    assert_eq!((all["peels"].as_object().unwrap().len(), &all["status"]), (3, &"complete".into()));

    let stopped = up.json(&["*", "cmd.run", "exit 3", "--batch", "1", "--max-fail", "1"], 4);
    assert_eq!(stopped["jids"].as_array().unwrap().len(), 2, "{stopped}");
    assert_eq!(stopped["peels"]["peel-3"]["status"], "missing");
}
