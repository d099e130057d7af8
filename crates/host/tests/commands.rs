//! What a command gets, what it gives, and what is said when it cannot start.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests, their helpers included")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::{Exit, Fault, FaultKind, Launch, OutputSink, Processes};
use zester_rule::rule;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

async fn run(launch: Launch) -> Result<Exit, Fault> {
    Runner::new().run(&launch, None, &CancellationToken::new()).await
}

async fn shell(text: &str) -> Exit {
    run(Launch::shell(text)).await.unwrap()
}

#[tokio::test]
#[rule("X-4")]
async fn x4_code_signal_output_and_pid_come_back() {
    let exit = shell("echo out; echo err >&2; echo $$ >&2; exit 7").await;
    assert_eq!((exit.code, exit.signal, exit.stdout.text.as_str()), (Some(7), None, "out\n"));
    assert_eq!(exit.stderr.text, format!("err\n{}\n", exit.pid));
    let exit = shell("kill -TERM $$").await;
    assert_eq!((exit.code, exit.signal), (None, Some(15)));
}

#[tokio::test]
#[rule("X-7")]
async fn x7_gigabytes_go_through_in_bounded_memory() {
    let exit = shell("head -c 300000000 /dev/zero | tr '\\0' a; echo END").await;
    assert!(exit.stdout.truncated && exit.stdout.text.len() < 70_000);
    assert!(exit.stdout.text.starts_with("aaa") && exit.stdout.text.ends_with("aaaEND\n"));
}

#[tokio::test]
#[rule("X-5")]
async fn x5_stdin_is_empty_unless_given_and_may_be_ignored() {
    assert_eq!(shell("cat; echo end").await.stdout.text, "end\n");
    let mut launch = Launch::argv(["cat"]);
    launch.stdin = Some("x".repeat(1_000_000).into_bytes());
    assert!(run(launch).await.unwrap().stdout.truncated);
    let mut launch = Launch::argv(["true"]);
    launch.stdin = Some(vec![b'x'; 1_000_000]);
    assert_eq!(run(launch).await.unwrap().code, Some(0));
}

#[tokio::test]
#[rule("X-5")]
async fn x5_the_environment_is_inherited_and_added_to() {
    let mut launch = Launch::shell("echo $ADDED $PATH; test -n \"$HOME$USER$PWD\"");
    launch.environment = vec![("ADDED".into(), "a b".into())];
    launch.path = Some("/usr/bin:/bin".into());
    let exit = run(launch).await.unwrap();
    assert_eq!((exit.stdout.text.as_str(), exit.code), ("a b /usr/bin:/bin\n", Some(0)));
}

#[tokio::test]
#[rule("X-5")]
async fn x5_a_command_runs_as_another_user_with_its_groups() {
    if !rustix::process::geteuid().is_root() {
        zester_testkit::skip!("only root can become another user");
    }
    let mut launch = Launch::shell("id -un; id -gn; echo $HOME $LOGNAME; umask");
    launch.user = Some("nobody".into());
    launch.umask = Some(0o037);
    let exit = run(launch).await.unwrap();
    let lines: Vec<&str> = exit.stdout.text.lines().collect();
    assert_eq!((lines[0], lines[1], lines[3]), ("nobody", "nogroup", "0037"));
    assert!(lines[2].ends_with(" nobody"), "{lines:?}");
}

#[tokio::test]
#[rule("X-5")]
async fn x5_what_keeps_a_command_from_starting_is_said_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let mut launch = Launch::argv(["/bin/true"]);
    launch.cwd = Some(dir.path().join("nowhere"));
    assert!(run(launch.clone()).await.unwrap_err().message.ends_with("nowhere does not exist"));
    launch.cwd = Some(script.clone());
    assert!(run(launch.clone()).await.unwrap_err().message.ends_with("is not a directory"));
    launch.cwd = None;
    launch.user = Some("nobody-by-this-name".into());
    assert_eq!(run(launch).await.unwrap_err().message, "user `nobody-by-this-name` does not exist");
    let script = script.to_str().unwrap();
    assert_eq!(run(Launch::argv([script])).await.unwrap_err().kind, FaultKind::Denied);
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let fault = run(Launch::argv([script])).await.unwrap_err();
    assert!(fault.hint.as_ref().unwrap().contains("interpreter"), "{fault}");
    assert_eq!(run(Launch::argv([""])).await.unwrap_err().message, "the command is empty");
}

#[tokio::test]
#[rule("X-5")]
async fn x5_a_script_that_is_still_open_for_writing_starts_as_soon_as_it_is_not() {
    use std::os::unix::fs::OpenOptionsExt;
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o755).open(&script).unwrap();
    std::io::Write::write_all(&mut file, b"#!/bin/sh\necho started\n").unwrap();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(60));
        drop(file);
    });
    let exit = run(Launch::argv([script.to_str().unwrap()])).await.unwrap();
    assert_eq!(exit.stdout.text, "started\n");
    writer.join().unwrap();
}

#[tokio::test]
#[rule("X-1")]
async fn x1_lines_can_be_watched_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let heard = dir.path().join("heard");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (sink, touched) = (Arc::clone(&seen), heard.clone());
    let live: OutputSink = Arc::new(move |line: &str| {
        std::fs::write(&touched, "").unwrap();
        sink.lock().unwrap().push(line.to_string());
    });
    // It goes on when its first line was heard, and not before.
    let mut launch = Launch::shell(format!(
        "echo one; until test -e {}; do sleep 0.02; done; echo two >&2; printf three",
        heard.display()
    ));
    launch.timeout = Some(PATIENCE);
    let exit = Runner::new().run(&launch, Some(live), &CancellationToken::new()).await.unwrap();
    assert!(!exit.timed_out, "nothing came while the command ran");
    let lines = seen.lock().unwrap().clone();
    assert_eq!(lines[0], "one");
    assert!(lines.iter().any(|line| line == "two") && lines.iter().any(|line| line == "three"), "{lines:?}");
}

#[tokio::test]
#[rule("S-32")]
async fn s32_nothing_starts_once_cancelled() {
    let cancel = CancellationToken::new();
    cancel.cancel();
    let dir = tempfile::tempdir().unwrap();
    let never = dir.path().join("never");
    let launch = Launch::shell(format!("touch {}", never.display()));
    let fault = Runner::new().run(&launch, None, &cancel).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Canceled);
    // Had it been started, it would have had this long.
    shell("true").await;
    assert!(!never.exists());
}

#[tokio::test]
#[rule("X-6")]
async fn x6_a_child_that_cleans_up_on_sigterm_is_heard() {
    let mut quickest = Duration::MAX;
    // One may find the machine busy.
    for _ in 0..3 {
        let cancel = CancellationToken::new();
        let told = Arc::new(Mutex::new(None));
        let (canceler, telling) = (cancel.clone(), Arc::clone(&told));
        let live: OutputSink = Arc::new(move |_: &str| {
            telling.lock().unwrap().get_or_insert_with(Instant::now);
            canceler.cancel();
        });
        let launch =
            Launch::shell("trap 'echo cleaned; exit 3' TERM; echo ready; while :; do sleep 0.05; done");
        let exit = Runner::new().run(&launch, Some(live), &cancel).await.unwrap();
        let (text, took) = (exit.stdout.text.as_str(), told.lock().unwrap().unwrap().elapsed());
        assert_eq!((text, exit.code, exit.canceled), ("ready\ncleaned\n", Some(3), true));
        quickest = quickest.min(took);
    }
    assert!(quickest < Duration::from_secs(4), "no need to wait for the grace to pass");
}

#[tokio::test]
#[rule("D-15", "I-10")]
async fn d15_a_child_gets_its_secret_and_nothing_that_is_kept_or_shown_does() {
    let mut secrets = zester_secret::Secrets::default();
    let placeholder = secrets.add("correct-horse".to_string().into(), &mut |bytes| bytes.fill(7));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let live: OutputSink = Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_string()));
    // Written in pieces, so that no read holds all of it.
    let pieces =
        "read it; test \"$it\" = \"$PW\" && echo same; printf correct-; sleep 0.2; echo horse; echo $PW >&2";
    let mut launch = Launch::shell(pieces);
    launch.environment = vec![("PW".into(), placeholder.clone())];
    launch.stdin = Some(format!("{placeholder}\n").into_bytes());
    launch.secrets = Some(Arc::new(secrets));
    launch.hides_secrets = true;
    let exit = Runner::new().run(&launch, Some(live), &CancellationToken::new()).await.unwrap();
    assert_eq!((exit.stdout.text.as_str(), exit.stderr.text.as_str()), ("same\n<secret>\n", "<secret>\n"));
    assert_eq!(lines.lock().unwrap().iter().filter(|line| *line == "<secret>").count(), 2);
    assert!(!format!("{launch:?}").contains("correct-horse"));
    // A template goes on with what a command prints: a secret is one again.
    launch.hides_secrets = false;
    assert_eq!(run(launch.clone()).await.unwrap().stderr.text, format!("{placeholder}\n"));
    launch.program = zester_host::Program::Shell(format!("echo {placeholder}"));
    let fault = run(launch).await.unwrap_err();
    assert!(fault.message.contains("a secret cannot be part of a command"), "{fault}");
}
