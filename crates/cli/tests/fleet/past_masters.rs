//! `--direct`.

use crate::up::{SOON, up};
use zester_rule::rule;
use zester_testkit::wait_for;

#[test]
#[rule("J-21")]
fn j21_direct_works_with_every_master_down() {
    let up = up(2, &[]);
    up.kill("master");
    wait_for("up to say that the master ended", SOON, || up.said().contains("master ended").then_some(()));
    let ping = up.json(&["G@id:peel-*", "test.ping", "--direct"], 0);
    assert_eq!((&ping["status"], ping["peels"].as_object().unwrap().len()), (&"complete".into(), 2));
    let failed = up.json(&["peel-1", "cmd.run", "exit 3", "--direct"], 2);
    assert_eq!(failed["peels"]["peel-1"]["status"], "failed");
    up.zester(&["nobody", "test.ping", "--direct"]).exits(1);

    // Whoever needs one is told what is waited for, and how to start one that fits.
    let alone = up.zester(&["peel-1", "test.ping"]).exits(1);
    assert_eq!(alone.stderr.matches("waiting for a master\n").count(), 1, "{}", alone.stderr);
    let hint = format!("zester master run --nats \"$(cat {})\"", up.path("zester/up.url").display());
    assert!(alone.stderr.contains(&hint) && alone.stderr.contains("--direct"), "{}", alone.stderr);
}
