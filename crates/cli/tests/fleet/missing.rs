//! Peels that do not answer.

use crate::up::{SOON, up};
use serde_json::json;
use zester_rule::rule;
use zester_testkit::wait_for;

const SLOW: &str = "x:\n{% if grains.id == 'peel-2' %}\n  cmd.run: [{command: exec sleep 3119}]\n{% else %}\n  test.nop: []\n{% endif %}\n";
const BOTH: &str = "x:\n{% if grains.id == 'peel-1' %}\n  test.fail_without_changes: []\n{% else %}\n  test.nop: []\n{% endif %}\n";

#[test]
#[rule("C-3")]
fn c3_a_deadline_keeps_what_came_and_names_who_is_missing() {
    let up = up(3, &[("slow", SLOW)]);
    let late = up.json(&["*", "state.apply", "slow", "--timeout", "3s"], 3);
    assert_eq!(late["status"], "partial");
    assert_eq!(late["peels"]["peel-1"]["status"], "success");
    assert_eq!(late["peels"]["peel-2"]["status"], "missing");
    let late = up.zester(&["*", "state.apply", "slow", "--timeout", "3s"]).exits(3);
    assert!(late.stdout.contains("missing: peel-2"), "{}", late.stdout);
    assert!(late.stdout.ends_with(" --missing --timeout 10m\n"), "{}", late.stdout);
    assert!(late.stdout.lines().all(|line| line.chars().count() <= 80), "{}", late.stdout);
    let jid = late.stdout.split_whitespace().nth(1).unwrap();
    // Its return comes after the end, and says in one word what became of it.
    let shown = wait_for("the late return", SOON, || {
        let shown = up.zester(&["job", "show", jid]).exits(0).stdout;
        shown.contains(" ! peel-2  stopped at the deadline ").then_some(shown)
    });
    assert!(!shown.contains("after the job had ended") && !shown.contains("failed"), "{shown}");
    assert!(shown.contains("'*' state.apply slow\n"), "{shown}");

    let direct = up.zester(&["peel-2", "cmd.run", "exec sleep 3120", "--timeout", "1s", "--direct"]).exits(3);
    assert!(direct.stdout.contains(" ! peel-2  timeout after 1s "), "{}", direct.stdout);
    assert!(direct.stdout.ends_with("missing: peel-2  timeout after 1s\n"), "{}", direct.stdout);
    assert!(!direct.stdout.contains("cancel"), "{}", direct.stdout);
}

#[test]
#[rule("J-8")]
fn j8_a_dead_peel_is_unreachable_and_exit_4_is_both() {
    let up = up(3, &[("both", BOTH)]);
    up.kill("peel-3");
    wait_for("up to say that a peel ended", SOON, || up.said().contains("peel-3 ended").then_some(()));
    wait_for("the heartbeat to expire", SOON, || {
        let peels = up.json(&["peel", "list"], 0);
        (peels["peels"][2]["online"] == false).then_some(())
    });
    let ping = up.json(&["*", "test.ping"], 3);
    assert_eq!(
        (&ping["status"], &ping["peels"]["peel-3"]["status"]),
        (&json!("partial"), &json!("unreachable"))
    );
    let both = up.json(&["*", "state.apply", "both"], 4);
    assert_eq!(both["peels"]["peel-1"]["status"], "failed");
    assert_eq!(both["peels"]["peel-3"]["status"], "unreachable");
}
