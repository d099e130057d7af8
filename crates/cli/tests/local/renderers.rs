//! Files that begin with `#!py` or `#!yaml|gpg` (S-54), and `module.run` of functions (S-20).

use crate::scratch::{Done, Scratch, wait_for};
use std::io::Write;
use std::process::{Command, Stdio};
use zester_rule::rule;
use zester_testkit::skip;

const PROGRAM: &str = r#"#!py
def run():
    print("what it prints disturbs nobody")
    name = __salt__["pillar.get"]("who", "nobody")
    said = __salt__["cmd.run"]("echo called")
    merged = __salt__["slsutil.merge"]({"a": 1}, {"b": 2})
    if "nope.x" in __salt__:
        raise KeyError("there is no such function")
    return {
        "@T@/" + name: {
            "file.managed": [
                {"contents": "%s %s %d %s" % (said, __grains__["kernel"], len(merged), __sls__)},
            ]
        }
    }
"#;

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[test]
#[rule("S-54")]
fn s54_a_python_file_is_run_where_the_configuration_says_so() {
    if !has("python3") {
        skip!("there is no python3");
    }
    let scratch = Scratch::new();
    scratch.write("states/c.sls", PROGRAM);
    scratch.write("settings/s.sls", "who: somebody\n");
    scratch.write("on.yaml", "renderers: {py: true}\n");
    scratch.write("off.yaml", "renderers: {py: false}\n");
    let refused = scratch.zester(&["apply", "c", "--settings", "settings", "--config", "off.yaml"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    assert!(
        refused.stderr.contains("c.sls:1:1") && refused.stderr.contains("renderers"),
        "{}",
        refused.stderr
    );
    let done = scratch.zester(&["apply", "c", "--settings", "settings", "--config", "on.yaml"]);
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    assert_eq!(scratch.read("somebody").as_deref(), Some("called Linux 2 c\n"));
}

#[test]
#[rule("S-54")]
fn s54_what_is_wrong_with_a_python_file_is_told_with_its_line() {
    if !has("python3") {
        skip!("there is no python3");
    }
    let scratch = Scratch::new();
    scratch.write("on.yaml", "renderers: {py: true}\n");
    for (text, wanted) in [
        ("#!py\ndef run():\n    return 1 / 0\n", "line 3: ZeroDivisionError"),
        ("#!py\ndef run(:\n", "line 2: SyntaxError"),
        ("#!py\nx = 1\n", "there is no function run()"),
        ("#!py\ndef run():\n    __salt__['cmd.run']()\n", "line 3: RuntimeError"),
        ("#!py\nimport os\ndef run():\n    os._exit(3)\n", "ended without an answer"),
    ] {
        scratch.write("states/c.sls", text);
        let done = scratch.zester(&["check", "c", "--config", "on.yaml"]);
        assert_eq!(done.code, Some(1), "{text}");
        assert!(done.stderr.contains(wanted), "{text}: {}", done.stderr);
    }
}

#[test]
#[rule("S-54", "S-46")]
fn s54_a_python_file_ends_with_the_run_that_read_it() {
    if !has("python3") {
        skip!("there is no python3");
    }
    let scratch = Scratch::new();
    scratch.write("on.yaml", "renderers: {py: true}\n");
    let text = "#!py\nimport os, time\ndef run():\n    open('@T@/pid.new', 'w').write(str(os.getpid()))\n    os.rename('@T@/pid.new', '@T@/pid')\n    time.sleep(600)\n";
    scratch.write("states/c.sls", text);
    let child = scratch.spawn(&["apply", "c", "--config", "on.yaml"]);
    wait_for("python to run", || scratch.path("pid").exists());
    let pid: i32 = scratch.read("pid").unwrap().parse().unwrap();
    let ours = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
    nix::sys::signal::kill(ours, nix::sys::signal::Signal::SIGINT).unwrap();
    let done: Done = child.wait_with_output().unwrap().into();
    assert_ne!(done.code, Some(0), "{}", done.stdout);
    let lives = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    };
    wait_for("python to end", || !lives());
}

/// A key ring of the test's own, and a message for its key.
fn message(scratch: &Scratch, text: &str) -> Option<String> {
    let gpg = |words: &[&str], input: &str| {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", scratch.path("ring")).args(["--batch", "--no-tty", "--quiet"]).args(words);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
        child.stdin.take()?.write_all(input.as_bytes()).ok()?;
        let output = child.wait_with_output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(scratch.path("ring"))
        .ok()?;
    let me = "test@example.net";
    gpg(&["--passphrase", "", "--quick-generate-key", me, "default", "default", "never"], "")?;
    gpg(&["--armor", "--trust-model", "always", "--recipient", me, "--encrypt"], text)
}

#[test]
#[rule("S-54", "D-15")]
fn s54_messages_for_gpg_in_settings_are_opened_by_the_systems_gpg_and_shown_nowhere() {
    let scratch = Scratch::new();
    // A socket of the agent must fit into 108 letters, and some machines make no keys in time.
    let Some(armored) = message(&scratch, "correct-horse-battery") else {
        skip!("gpg makes no key here");
    };
    let block: String = armored.lines().map(|line| format!("  {line}\n")).collect();
    scratch.write("settings/s.sls", &format!("#!yaml|gpg\nplain: 1\npassword: |\n{block}"));
    let state = "@T@/conf:\n  file.managed:\n    - contents: \"p = {{ pillar.password | string | trim }}\"\n";
    scratch.write("states/c.sls", &state.replace(" | string | trim", ""));
    let run = |ring: &str, words: &[&str]| -> Done {
        let mut command = scratch.command(words);
        command.env("GNUPGHOME", scratch.path(ring)).output().unwrap().into()
    };
    let done = run("ring", &["apply", "c", "--settings", "settings"]);
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    assert!(scratch.read("conf").unwrap().starts_with("p = correct-horse-battery"));
    assert!(!done.stdout.contains("correct-horse"), "{}", done.stdout);
    // Without the key nothing runs, and the message is told where it stands.
    let other = run("nowhere", &["apply", "c", "--settings", "settings"]);
    assert_eq!(other.code, Some(1), "{}", other.stdout);
    assert!(
        other.stderr.contains("s.sls:4:") && other.stderr.contains("gpg cannot open"),
        "{}",
        other.stderr
    );
    // Its agent would outlive the directory.
    let _ = Command::new("gpgconf").env("GNUPGHOME", scratch.path("ring")).args(["--kill", "all"]).status();
}

#[test]
#[rule("S-20")]
fn s20_module_run_calls_functions_in_both_of_salts_forms() {
    let scratch = Scratch::new();
    scratch.write("old/a.log", "");
    scratch.write("old/b.txt", "");
    scratch.write(
        "states/c.sls",
        "named:\n  module.run:\n    - name: cmd.shell\n    - cmd: echo hello > @T@/said\n\
         dotted:\n  module.run:\n    - test.echo:\n      - text: one\n    - test.true: []\n\
         acting:\n  module.run:\n    - name: file.makedirs\n    - path: @T@/made/below\n\
         sweep:\n  module.run:\n    - name: file.remove\n    - path: @T@/old/a.log\n\
         waits:\n  module.wait:\n    - name: cmd.shell\n    - cmd: touch @T@/waited\n",
    );
    let checked = scratch.zester(&["check", "c"]);
    assert!(checked.stdout.contains("would call cmd.shell"), "{} {}", checked.stdout, checked.stderr);
    assert!(scratch.read("said").is_none());
    let done = scratch.zester(&["apply", "c"]);
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    assert_eq!(scratch.read("said").as_deref(), Some("hello\n"));
    assert!(done.stdout.contains("test.echo(text=one): one"), "{}", done.stdout);
    assert!(scratch.path("made/below").is_dir());
    assert!(scratch.read("old/a.log").is_none() && scratch.read("old/b.txt").is_some());
    assert!(scratch.read("waited").is_none(), "nothing that it watches has changed");
    // What acts is a kind, and is undone as one.
    let reverted = scratch.zester(&["revert", "c"]);
    assert_eq!(reverted.code, Some(0), "{} {}", reverted.stdout, reverted.stderr);
    assert!(!scratch.path("made").exists());
}

#[test]
#[rule("S-20", "S-55")]
fn s20_a_function_that_fails_fails_its_state_and_one_that_is_not_there_is_refused() {
    let scratch = Scratch::new();
    scratch.write("states/c.sls", "a:\n  module.run:\n    - name: test.false\n");
    let done = scratch.zester(&["apply", "c"]);
    assert_eq!(done.code, Some(2), "{} {}", done.stdout, done.stderr);
    assert!(done.stdout.contains("it answered false"), "{}", done.stdout);
    scratch.write("states/c.sls", "a:\n  module.run:\n    - name: service.restrat\n    - m_name: x\n");
    let refused = scratch.zester(&["check", "c"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("c.sls:3:13") && refused.stderr.contains("service.restart"),
        "{}",
        refused.stderr
    );
}
