//! Signals from the first instruction to the last (S-46): whatever runs when one comes dies with the run, whoever started
//! it.

use crate::scratch::{Done, Scratch, wait_for};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};
use zester_rule::rule;

/// A command with children of its own and one that left its group; `@M@` makes them findable. All are there when it has begun,
/// and the shell waits for them itself, so that a signal finds nothing half started.
const COMMAND: &str = "(setsid sleep 61.@M@ &) ; sleep 61.@M@ & sleep 61.@M@ & touch @T@/begun; wait; true";

const SIGNALS: [(&str, i32); 3] = [("-INT", 130), ("-TERM", 143), ("-HUP", 143)];

struct Scene {
    scratch: Scratch,
}

impl Scene {
    fn new() -> Scene {
        Scene { scratch: Scratch::new() }
    }

    /// Digits that no other test has.
    fn mark(&self) -> String {
        let path = self.scratch.root().display().to_string();
        path.bytes().rev().take(6).map(|byte| char::from(b'0' + byte % 10)).collect()
    }

    fn fill(&self, text: &str) -> String {
        text.replace("@C@", COMMAND).replace("@M@", &self.mark())
    }

    fn write(&self, name: &str, text: &str) {
        self.scratch.write(name, &self.fill(text));
    }

    fn anybody_left(&self) -> bool {
        let pattern = format!("sleep 61[.]{}", self.mark());
        Command::new("pgrep").args(["-f", &pattern]).output().unwrap().status.success()
    }

    /// Starts it, waits until its command runs, and sends the signal.
    fn signalled(&self, words: &[&str], signal: &str) -> Done {
        let words: Vec<String> = words.iter().map(|word| self.fill(word)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let child = self.scratch.spawn(&words);
        wait_for("the command", || self.scratch.path("begun").exists());
        send(signal, &child);
        child.wait_with_output().unwrap().into()
    }
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
#[rule("S-46", "S-32", "C-14")]
fn s46_a_command_dies_with_the_run_whichever_door_it_came_through() {
    let template = "{% set x = salt['cmd.run']('@C@') %}\na:\n  test.nop: []\n";
    let doors: [(&str, &[&str]); 6] = [
        ("a template, applied", &["apply", "t"]),
        ("a template, checked", &["check", "t", "--format", "json"]),
        ("a template of the settings", &["apply", "plain", "--settings", "@T@/settings"]),
        ("a function", &["call", "cmd.shell", "@C@"]),
        ("a function that tells all", &["call", "cmd.run_all", "@C@", "--format", "json"]),
        ("a state that is called", &["call", "cmd.run", "@C@"]),
    ];
    for (door, words) in doors {
        for (signal, code) in SIGNALS {
            let scene = Scene::new();
            scene.write("states/t.zy", template);
            scene.write("states/plain.zy", "a:\n  test.nop: []\n");
            if words.contains(&"--settings") {
                scene.write("settings/s.zy", "x: {{ salt['cmd.run']('@C@') }}\n");
            }
            let done = scene.signalled(words, signal);
            assert_eq!(done.code, Some(code), "{door}, {signal}: {} {}", done.stdout, done.stderr);
            assert!(!scene.anybody_left(), "{door}, {signal}");
            assert!(done.stderr.contains("canceling"), "{door}, {signal}: {}", done.stderr);
        }
    }
}

#[test]
#[rule("S-46")]
fn s46_a_run_that_waits_for_another_ends_at_a_signal() {
    let scene = Scene::new();
    scene.write("states/c.zy", "slow:\n  cmd.run: [{command: \"@C@\"}]\n");
    let first = scene.scratch.spawn(&["apply", "c"]);
    wait_for("the first run", || scene.scratch.path("begun").exists());
    for (signal, code) in SIGNALS {
        let errors = scene.scratch.path("second.err");
        let mut second = scene.scratch.command(&["apply", "c"]);
        let second = second.stdout(Stdio::null()).stderr(std::fs::File::create(&errors).unwrap());
        let mut second = second.spawn().unwrap();
        wait_for("the second run to wait", || {
            scene
                .scratch
                .read("second.err")
                .is_some_and(|text| text.contains("waiting for the lock held by pid"))
        });
        send(signal, &second);
        assert_eq!(second.wait().unwrap().code(), Some(code), "{signal}");
    }
    send("-TERM", &first);
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(143));
    assert!(!scene.anybody_left());
}

#[test]
#[rule("S-46")]
fn s46_a_read_that_hangs_does_not_keep_a_signal_waiting() {
    let scene = Scene::new();
    scene.write("states/c.zy", "a:\n  test.nop: []\n");
    let fifo = scene.scratch.path("facts.yaml");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    for (signal, code) in SIGNALS {
        let mut child = scene.scratch.spawn(&["check", "c", "--facts", "@T@/facts.yaml"]);
        // A writer finds a FIFO open only once its reader is there, and keeps it waiting.
        let mut writer = None;
        wait_for("the reader", || {
            let opened = std::fs::OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&fifo);
            writer = opened.ok();
            writer.is_some()
        });
        assert!(child.try_wait().unwrap().is_none(), "it does not hang");
        send(signal, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
}

#[test]
#[rule("C-6")]
fn c6_the_second_signal_leaves_at_once_also_while_a_template_runs() {
    let scene = Scene::new();
    let stubborn = "trap '' TERM; touch @T@/begun; while :; do sleep 61.@M@; done";
    let template = "{% set x = salt['cmd.run'](\"@S@\") %}\na:\n  test.nop: []\n".replace("@S@", stubborn);
    scene.write("states/t.zy", &template);
    let mut child = scene.scratch.spawn(&["apply", "t"]);
    wait_for("the command", || scene.scratch.path("begun").exists());
    let mut ended = None;
    wait_for("the end", || {
        let _gone = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(130));
    wait_for("the end of its commands", || !scene.anybody_left());
}

#[test]
#[rule("C-6", "S-46")]
fn c6_a_quit_leaves_at_once_and_takes_the_commands_along() {
    let scene = Scene::new();
    scene.write("states/c.zy", "slow:\n  cmd.run: [{command: \"@C@\"}]\n");
    let zester = scene.scratch.command(&["apply", "c"]);
    // Whatever started the tests may ignore it, and so would its children.
    let mut command = Command::new("env");
    command.arg("--default-signal=QUIT").arg(zester.get_program()).args(zester.get_args());
    command.current_dir(scene.scratch.root()).env("ZESTER_DATA_DIR", scene.scratch.path("data"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the command", || scene.scratch.path("begun").exists());
    send("-QUIT", &child);
    let done: Done = child.wait_with_output().unwrap().into();
    assert_eq!(done.code, Some(130), "{}", done.stderr);
    wait_for("the end of its commands", || !scene.anybody_left());
}

#[test]
#[rule("C-14")]
fn c14_two_hangups_are_one_cancel_and_the_result_is_recorded() {
    let scene = Scene::new();
    let cleans_up = "trap 'touch @T@/told; until test -e @T@/go; do sleep 0.02; done' TERM; @C@";
    scene.write("states/c.zy", &format!("slow:\n  cmd.run: [{{command: \"{cleans_up}\"}}]\n"));
    let child = scene.scratch.spawn(&["apply", "c", "--format", "json"]);
    wait_for("the command", || scene.scratch.path("begun").exists());
    send("-HUP", &child);
    wait_for("the command to clean up", || scene.scratch.path("told").exists());
    send("-HUP", &child);
    scene.scratch.write("go", "");
    let done: Done = child.wait_with_output().unwrap().into();
    assert_eq!((done.code, done.json()["canceled"].as_bool()), (Some(143), Some(true)), "{}", done.stderr);
    assert!(!scene.anybody_left());
    assert_eq!(scene.scratch.json(&["status"])["runs"][0]["canceled"], true);
}

#[test]
#[rule("C-14")]
fn c14_a_run_that_is_to_outlive_its_terminal_does() {
    let scene = Scene::new();
    let until_go =
        "touch @T@/begun; n=0; until test -e @T@/go || test $((n += 1)) -gt 1500; do sleep 0.02; done";
    scene.write("states/c.zy", &format!("slow:\n  cmd.run: [{{command: \"{until_go}\"}}]\n"));
    let zester = scene.scratch.command(&["apply", "c"]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(zester.get_program()).args(zester.get_args());
    shell.current_dir(scene.scratch.root()).env("ZESTER_DATA_DIR", scene.scratch.path("data"));
    let mut child = shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the command", || scene.scratch.path("begun").exists());
    send("-HUP", &child);
    scene.scratch.write("go", "");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
#[rule("C-14")]
fn c14_a_terminal_that_closes_cancels_the_run_and_its_commands() {
    let scene = Scene::new();
    scene.write("states/c.zy", "slow:\n  cmd.run: [{command: \"@C@\"}]\n");
    let zester = scene.scratch.command(&["apply", "c"]);
    let line = format!("exec {} apply c", zester.get_program().display());
    let mut terminal = Command::new("script");
    terminal.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(scene.scratch.root());
    terminal.env("ZESTER_DATA_DIR", scene.scratch.path("data")).stdin(Stdio::piped());
    let mut terminal = terminal.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the command", || scene.scratch.path("begun").exists());
    let _written = terminal.stdin.as_mut().map(|stdin| stdin.write_all(b"x"));
    // Killed, not told: the kernel hangs the terminal up, and nothing can be written to it any more.
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    wait_for("the end of its commands", || !scene.anybody_left());
    wait_for("the record", || scene.scratch.json(&["status"])["runs"][0]["canceled"] == true);
}

#[test]
#[rule("C-3", "S-46")]
fn c3_a_deadline_also_ends_what_a_template_or_a_function_runs() {
    for words in
        [&["apply", "c"][..], &["check", "c"], &["call", "state.apply", "c"], &["call", "cmd.shell", "@C@"]]
    {
        let scene = Scene::new();
        scene.write("states/c.zy", "{{ salt['cmd.run']('@C@') }}\n");
        let words: Vec<String> = words.iter().map(|word| scene.scratch.fill(&scene.fill(word))).collect();
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        words.extend(["--timeout", "3s"]);
        let done = scene.scratch.zester(&words);
        assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
        assert!(done.stderr.contains("timeout: canceled after 3s"), "{words:?}: {}", done.stderr);
        assert!(scene.scratch.path("begun").exists());
        assert!(!scene.anybody_left(), "{words:?}");
    }
}
