//! One mutating run per data dir (S-42).

use crate::scratch::{Scratch, wait_for};
use zester_rule::rule;

const STATES: &str = "slow:\n  cmd.run: [{command: \"touch @T@/begun; n=0; until test -e @T@/go || test $((n += 1)) -gt 1500; do sleep 0.02; done\"}]\nquick:\n  test.nop: []\n";

#[test]
#[rule("S-42")]
fn s42_a_second_run_waits_and_says_for_whom_and_no_wait_gives_up() {
    let scratch = Scratch::with(STATES);
    scratch.write("states/other.zy", "other:\n  test.succeed_with_changes: []\n");
    let first = scratch.spawn(&["apply", "c"]);
    wait_for("the first run", || scratch.path("begun").exists());
    let refused = scratch.zester(&["apply", "other", "--no-wait"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains(&format!("pid {}", first.id())) && refused.stderr.contains("zester apply c"),
        "{}",
        refused.stderr
    );
    assert_eq!(scratch.zester(&["check", "other"]).code, Some(0), "a dry run needs no lock");

    let errors = scratch.path("second.err");
    let mut command = scratch.command(&["apply", "other"]);
    let mut second = command
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    wait_for("the notice", || {
        scratch.read("second.err").is_some_and(|text| text.contains("waiting for the lock held by pid"))
    });
    assert!(second.try_wait().unwrap().is_none());
    scratch.write("go", "");
    assert_eq!(second.wait().unwrap().code(), Some(0));
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(0));
}

#[test]
#[rule("S-42")]
fn s42_a_run_does_not_wait_for_the_run_whose_command_it_is() {
    let scratch = Scratch::new();
    for (through, function, code, words) in [
        ("", "test.nop x", 2, "whose own command this is"),
        ("timeout 50", "test.nop x", 2, "whose own command this is"),
        ("setsid --wait", "test.nop x", 2, "whose own command this is"),
        ("setsid --wait timeout 50 env -i", "test.nop x", 2, "whose own command this is"),
        ("", "file.file_exists /etc/passwd", 0, "true"),
        ("", "file.file_exists /", 0, "false"),
    ] {
        let data_dir = scratch.path("data");
        let call = format!("{through} $ZESTER call --data-dir {} {function}", data_dir.display());
        scratch.write("states/c.zy", &format!("c:\n  cmd.run: [{{command: \"{call} > @T@/inner 2>&1\"}}]\n"));
        let mut outer = scratch.command(&["apply", "c", "--timeout", "60"]);
        let done: crate::scratch::Done =
            outer.env("ZESTER", env!("CARGO_BIN_EXE_zester")).output().unwrap().into();
        let inner = scratch.read("inner").unwrap_or_default();
        assert!(inner.contains(words), "{function}: {inner} {}", done.stderr);
        assert_eq!(done.code, Some(code), "{function}: {} {}", done.stdout, done.stderr);
    }
}

#[test]
#[rule("S-42")]
fn s42_a_run_that_a_command_leaves_in_the_background_waits_like_anybody() {
    let scratch = Scratch::new();
    scratch.write("states/other.zy", "other:\n  file.managed: [{path: \"@T@/done\"}, {content: x}]\n");
    // Longer than it takes until a run that waits for itself is refused.
    scratch.write(
        "states/c.zy",
        "left:\n  cmd.run: [{command: \"nohup $ZESTER apply other > @T@/inner 2>&1 &\"}]\n\
         slow:\n  cmd.run: [{command: \"sleep 4; test ! -e @T@/done\"}, {require: [{cmd: left}]}]\n",
    );
    let mut outer = scratch.command(&["apply", "c", "--timeout", "60"]);
    let done: crate::scratch::Done =
        outer.env("ZESTER", env!("CARGO_BIN_EXE_zester")).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    wait_for("the run in the background", || scratch.path("done").exists());
    let inner = scratch.read("inner").unwrap_or_default();
    assert!(!inner.contains("whose own command this is"), "{inner}");
}

#[test]
#[rule("S-42")]
fn s42_the_lock_dies_with_its_holder() {
    let scratch = Scratch::with(STATES);
    let mut first = scratch.spawn(&["apply", "c"]);
    wait_for("the first run", || scratch.path("begun").exists());
    first.kill().unwrap();
    first.wait().unwrap();
    scratch.write("go", "");
    assert_eq!(scratch.zester(&["apply", "c", "--no-wait"]).code, Some(0));
}

#[test]
#[rule("C-14")]
fn c14_a_run_is_in_status_from_its_start_and_a_killed_one_is_shown_as_killed() {
    let scratch = Scratch::with(STATES);
    let mut first = scratch.spawn(&["apply", "c"]);
    wait_for("the first run", || scratch.path("begun").exists());
    let during = scratch.json(&["status"]);
    assert_eq!(
        (during["runs"][0]["state"].as_str(), during["runs"][0]["asked"].as_str()),
        (Some("running"), Some("c"))
    );
    let run_id = during["runs"][0]["run_id"].clone();
    first.kill().unwrap();
    first.wait().unwrap();
    let after = scratch.json(&["status"]);
    assert_eq!((&after["runs"][0]["state"], &after["runs"][0]["run_id"]), (&"killed".into(), &run_id));
    assert!(scratch.zester(&["status"]).stdout.contains("apply c  killed before its end"));
    // It is remembered when others have run.
    scratch.write("go", "");
    scratch.write("states/other.zy", "other:\n  test.succeed_with_changes: []\n");
    assert_eq!(scratch.zester(&["apply", "other"]).code, Some(0));
    let later = scratch.json(&["status"]);
    let states: Vec<_> =
        later["runs"].as_array().unwrap().iter().map(|run| run["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["ended", "killed"], "{later}");
}

#[test]
#[rule("C-3", "S-42")]
fn s42_a_timeout_bounds_the_wait_for_another_run() {
    let scratch = Scratch::with(STATES);
    let mut first = scratch.spawn(&["apply", "c"]);
    wait_for("the first run", || scratch.path("begun").exists());
    let late = scratch.zester(&["apply", "c", "--timeout", "3s"]);
    assert_eq!(late.code, Some(2), "{}", late.stderr);
    assert!(
        late.stderr.contains("timeout: after 3s another run was still under way: pid "),
        "{}",
        late.stderr
    );
    scratch.write("go", "");
    assert_eq!(first.wait().unwrap().code(), Some(0));
}

#[test]
#[rule("C-6", "S-42")]
fn c6_who_only_waits_for_another_run_has_nothing_to_stop() {
    let scratch = Scratch::with(STATES);
    let mut first = scratch.spawn(&["apply", "c"]);
    wait_for("the first run", || scratch.path("begun").exists());
    let errors = scratch.path("second.err");
    let mut command = scratch.command(&["apply", "c"]);
    let mut second = command
        .stdout(std::process::Stdio::null())
        .stderr(std::fs::File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    wait_for("the notice", || {
        scratch.read("second.err").is_some_and(|text| text.contains("waiting for the lock held by pid"))
    });
    let pid = nix::unistd::Pid::from_raw(second.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert_eq!(second.wait().unwrap().code(), Some(130));
    let said = scratch.read("second.err").unwrap();
    assert!(said.ends_with("error: canceled while waiting for the lock; nothing was run\n"), "{said}");
    assert!(!said.contains("told to stop"), "{said}");
    scratch.write("go", "");
    assert_eq!(first.wait().unwrap().code(), Some(0));
}

#[test]
#[rule("S-42", "S-46")]
fn s46_what_a_killed_run_left_running_is_gone_before_the_next_one_begins() {
    let scratch = Scratch::with(
        "slow:\n  cmd.run: [{command: \"echo $$ > @T@/pid.new; mv @T@/pid.new @T@/pid; while sleep 0.05; do :; done\"}]\n",
    );
    // One that has ended and was not collected yet has no command line any more.
    scratch.write(
        "states/next.zy",
        "next:\n  cmd.run: [{command: \"if grep -qs . /proc/$(cat @T@/pid)/cmdline; then touch @T@/beside; fi; touch @T@/ran\"}]\n",
    );
    let mut first = scratch.spawn(&["apply", "c"]);
    wait_for("the first run", || scratch.path("pid").exists());
    first.kill().unwrap();
    first.wait().unwrap();
    let pid = scratch.read("pid").unwrap();
    let running =
        || std::fs::read(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|line| !line.is_empty());
    assert!(running(), "nobody has ended it yet");
    let next = scratch.zester(&["apply", "next"]);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert!(scratch.path("ran").exists() && !scratch.path("beside").exists(), "{}", next.stdout);
    assert!(
        next.stderr.contains("`zester apply c`") && next.stderr.contains("was killed"),
        "{}",
        next.stderr
    );
    assert!(!running());
}

#[test]
#[rule("C-14")]
fn c14_a_call_is_shown_as_it_was_typed() {
    let scratch = Scratch::new();
    let command = "touch @T@/begun; until test -e @T@/go; do sleep 0.02; done";
    let first = scratch.spawn(&["call", "cmd.run", command, "timeout=60s"]);
    wait_for("the call", || scratch.path("begun").exists());
    let refused = scratch.zester(&["call", "test.succeed_with_changes", "--no-wait"]);
    assert!(refused.stderr.contains("(zester call cmd.run 'touch "), "{}", refused.stderr);
    scratch.write("go", "");
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(0));
    let status = scratch.zester(&["status"]).stdout;
    assert!(status.contains("  call cmd.run 'touch "), "{status}");
}
