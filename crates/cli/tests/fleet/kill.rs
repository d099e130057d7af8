//! A job that somebody else ends.

use crate::up::{Done, SOON, processes, up};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use zester_rule::rule;
use zester_testkit::wait_for;

#[test]
#[rule("J-11")]
fn j11_a_kill_from_another_process_ends_the_job_and_leaves_no_process() {
    let up = up(2, &[]);
    let nap = "3117";
    let view = up.spawn(&["*", "cmd.run", "exec sleep 3117", "--format", "json"]);
    wait_for("two naps", SOON, || (processes(nap).len() == 2).then_some(()));
    let active = up.json(&["job", "active"], 0);
    let jid = active["jobs"][0]["jid"].as_str().unwrap().to_string();
    assert_eq!(
        up.json(&["job", "show", &jid], 0)["missing"],
        json!({"peel-1": "running", "peel-2": "running"})
    );

    let killed = up.json(&["job", "kill", &jid], 0);
    assert_eq!(killed, json!({"jid": jid, "killed": true, "status": "canceled"}));
    let view = Done::from(view.wait_with_output().unwrap()).exits(2);
    assert_eq!(view.json()["status"], "canceled");
    wait_for("the end of both naps", SOON, || processes(nap).is_empty().then_some(()));

    let again = up.json(&["job", "kill", &jid], 0);
    assert_eq!((&again["killed"], &again["status"]), (&json!(false), &json!("canceled")));
    assert!(up.zester(&["job", "kill", &jid]).exits(0).stdout.contains("over already"));

    // Whoever watches or looks afterwards reads one word for it, and how long the job took, not the look.
    for look in ["watch", "show"] {
        let seen = up.zester(&["job", look, &jid]);
        assert!(seen.stdout.contains(" ! peel-1  canceled "), "{look}: {}", seen.stdout);
        for other in ["failed", "after the job had ended"] {
            assert!(!seen.stdout.contains(other), "{look}: {}", seen.stdout);
        }
    }
}

#[test]
#[rule("J-11")]
fn j11_a_kill_says_who_was_told_and_who_has_confirmed() {
    let up = up(1, &[]);
    let nap = "3121";
    let view = up.spawn(&["*", "cmd.run", "exec sleep 3121"]);
    wait_for("the nap", SOON, || (processes(nap).len() == 1).then_some(()));
    let active = up.json(&["job", "active"], 0);
    let jid = active["jobs"][0]["jid"].as_str().unwrap();
    let said = up.zester(&["job", "kill", jid]).exits(0).stdout;
    assert!(said.contains("is canceled; 1 peel was told to stop\nconfirmed by "), "{said}");
    Done::from(view.wait_with_output().unwrap()).exits(2);
}

#[test]
#[rule("C-6")]
fn c6_ctrl_c_leaves_the_view_and_says_what_goes_on() {
    let up = up(1, &[]);
    let nap = "3118";
    let view = up.spawn(&["*", "cmd.run", "exec sleep 3118"]);
    wait_for("the nap", SOON, || (processes(nap).len() == 1).then_some(()));
    kill(Pid::from_raw(view.id().cast_signed()), Signal::SIGINT).unwrap();
    let view = Done::from(view.wait_with_output().unwrap()).exits(130);
    assert!(
        view.stderr.contains("the job goes on") && view.stderr.contains("zester job kill"),
        "{}",
        view.stderr
    );
    assert_eq!(processes(nap).len(), 1);
    let active = up.json(&["job", "active"], 0);
    let jid = active["jobs"][0]["jid"].as_str().unwrap();
    up.zester(&["job", "kill", jid]).exits(0);
    wait_for("the end of the nap", SOON, || processes(nap).is_empty().then_some(()));
}
