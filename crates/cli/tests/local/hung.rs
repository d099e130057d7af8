//! A read that never returns, as of a file server that is gone, does not stop Ctrl-C.

use crate::scratch::{Done, Scratch, wait_for};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use zester_rule::rule;

/// Opening a pipe in this way works only while somebody waits at its other end.
const O_NONBLOCK: i32 = 0o4000;

/// A run with that many states whose source is a pipe that nobody writes to; then Ctrl-C.
fn interrupted(pipes: usize) -> (Scratch, Done) {
    let states = (0..pipes).map(|n| {
        format!("f{n}:\n  file.managed: [{{path: \"@T@/f{n}\"}}, {{source: \"salt://pipe{n}\"}}]\n")
    });
    let scratch =
        Scratch::with(&(states.collect::<String>() + "later:\n  test.nop: [{require: [{file: f0}]}]\n"));
    for n in 0..pipes {
        assert!(
            Command::new("mkfifo").arg(scratch.path(&format!("states/pipe{n}"))).status().unwrap().success()
        );
    }
    let child = scratch.spawn(&["apply", "c", "--format", "json"]);
    let mut held = None;
    wait_for("a reader", || {
        let open = |n| {
            OpenOptions::new()
                .write(true)
                .custom_flags(O_NONBLOCK)
                .open(scratch.path(&format!("states/pipe{n}")))
        };
        held = (0..pipes).find_map(|n| open(n).ok());
        held.is_some()
    });
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let done: Done = child.wait_with_output().unwrap().into();
    (scratch, done)
}

#[test]
#[rule("S-32", "C-6")]
fn s32_a_hung_read_does_not_stop_ctrl_c() {
    let (scratch, done) = interrupted(1);
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    let result = done.json();
    let hung = &result["states"]["file.managed:f0"];
    assert!(hung["error"].as_str().unwrap().starts_with("canceled; it could not be interrupted"), "{hung}");
    assert_eq!(hung["details"]["uninterruptible"], true);
    assert_eq!(
        (&result["canceled"], &result["states"]["test.nop:later"]["skip_reason"]),
        (&true.into(), &"canceled".into())
    );
    assert!(done.stderr.contains("file.managed:f0 could not be interrupted"), "{}", done.stderr);
    assert_eq!(scratch.json(&["status"])["runs"][0]["canceled"], true, "the run is on record");
}

#[test]
#[rule("S-32", "C-6")]
fn s32_not_even_where_every_thread_hangs() {
    let (scratch, done) = interrupted(20);
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    let result = done.json();
    assert_eq!((&result["canceled"], &result["failed"]), (&true.into(), &20.into()), "{result}");
    assert_eq!(scratch.json(&["status"])["runs"][0]["canceled"], true);
}
