//! Machines that are gone for good.

use crate::up::{SOON, up};
use serde_json::json;
use zester_rule::rule;
use zester_testkit::wait_for;

#[test]
#[rule("J-25")]
fn j25_a_machine_that_is_gone_is_told_of_and_forgotten() {
    let up = up(3, &[]);
    let refused = up.zester(&["peel", "forget", "peel-3"]).exits(1);
    assert!(refused.stderr.contains("peel-3 is online; stop its peel first"), "{}", refused.stderr);
    let unknown = up.zester(&["peel", "forget", "ghost"]).exits(1);
    assert!(
        unknown.stderr.contains("no peel `ghost`") && unknown.stderr.contains("zester peel list"),
        "{}",
        unknown.stderr
    );
    up.kill("peel-3");
    wait_for("the heartbeat to expire", SOON, || {
        let peels = up.json(&["peel", "list"], 0);
        (peels["peels"][2]["online"] == false).then_some(())
    });
    // A target that meets it says so, whatever the format.
    let ping = up.zester(&["*", "test.ping", "--format", "json"]).exits(3);
    let told = "1 of 3 peels is offline: peel-3, last seen ";
    assert!(ping.stderr.contains(told), "{}", ping.stderr);
    assert_eq!(ping.json()["status"], "partial");
    // All of those that are named, or none.
    up.zester(&["peel", "forget", "peel-3", "peel-1"]).exits(1);
    assert_eq!(up.json(&["peel", "list"], 0)["peels"].as_array().unwrap().len(), 3);
    assert_eq!(up.json(&["peel", "forget", "peel-3"], 0), json!({ "forgotten": ["peel-3"] }));
    let peels = up.json(&["peel", "list"], 0);
    assert_eq!(peels["peels"].as_array().unwrap().len(), 2, "{peels:#}");
    up.zester(&["peel", "show", "peel-3"]).exits(1);
    let ping = up.zester(&["*", "test.ping", "--format", "json"]).exits(0);
    assert_eq!(ping.json()["status"], "complete");
    assert!(!ping.stderr.contains("offline"), "{}", ping.stderr);
}
