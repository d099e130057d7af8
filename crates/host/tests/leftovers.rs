//! What a killed process left running is found and ended by the next one (J-22).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use zester_host::process::{Runner, kill_leftovers, scratch_name};
use zester_host::{Launch, Processes};
use zester_rule::rule;

/// Where the process that will be killed says that it is ready, and how long its commands sleep.
const DIRECTORY: &str = "ZESTER_TEST_LIFE";
const NUMBER: &str = "ZESTER_TEST_NUMBER";
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes whose command line holds the text.
fn alive(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let line = |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.filter(|pid| String::from_utf8_lossy(&line(pid)).contains(text)).collect()
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the process does that is killed.
async fn a_life_that_is_killed(dir: &str, number: &str) {
    let (runner, never) = (Runner::new(), CancellationToken::new());
    let service = format!("sleep {number}1 > /dev/null 2>&1 &");
    runner.run(&Launch::shell(service), None, &never).await.unwrap();
    std::fs::write(std::env::temp_dir().join(scratch_name("script")), "secret").unwrap();
    std::fs::write(Path::new(dir).join("life"), runner.life()).unwrap();
    let text = format!(
        "sleep {number}2 & setsid sleep {number}2 & (setsid sh -c 'sleep {number}2; true' &) ; sleep {number}2"
    );
    let _never_comes = runner.run(&Launch::shell(text), None, &never).await;
}

#[tokio::test(flavor = "multi_thread")]
#[rule("J-22")]
async fn j22_what_a_killed_process_left_running_is_ended_and_services_are_not() {
    // It runs itself: the child is the process that is killed.
    if let (Ok(dir), Ok(number)) = (std::env::var(DIRECTORY), std::env::var(NUMBER)) {
        return a_life_that_is_killed(&dir, &number).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let number = format!("4712.{}", std::process::id());
    let (service, work) = (format!("sleep {number}1"), format!("sleep {number}2"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "j22_what_a_killed_process_left_running_is_ended_and_services_are_not"])
        .env(DIRECTORY, dir.path())
        .env(NUMBER, &number)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let sleepers = || alive(&format!("{number}2")).iter().filter(|pid| is_sleep(**pid)).count();
    wait_for("the commands run", || dir.path().join("life").exists() && sleepers() == 4);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(sleepers(), 4, "nobody ended {work}");

    let life = std::fs::read_to_string(dir.path().join("life")).unwrap();
    assert!(kill_leftovers("1-1").await.is_empty());
    assert_eq!(sleepers(), 4);
    let scratch = std::env::temp_dir().join(format!("zester-{life}-script"));
    assert_eq!(std::fs::read(&scratch).unwrap(), b"secret");
    assert!(kill_leftovers(&life).await.is_empty());
    assert!(alive(&format!("{number}2")).is_empty());
    assert!(!scratch.exists(), "and so is what they read");

    let services = alive(&service.replace("sleep ", ""));
    assert_eq!(services.len(), 1, "what a command left behind on purpose stays");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(services[0]).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}

fn is_sleep(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
}

/// Where a transaction that nobody may interrupt works until a file is there.
const TRANSACTION: &str = "ZESTER_TEST_TRANSACTION";

async fn a_transaction_whose_process_is_killed(dir: &str) {
    let (runner, never) = (Runner::new(), CancellationToken::new());
    std::fs::write(Path::new(dir).join("life"), runner.life()).unwrap();
    let text = format!("touch {dir}/begun; until test -e {dir}/go; do sleep 0.02; done; touch {dir}/ended");
    let launch = Launch { uninterruptible: true, ..Launch::shell(text) };
    let _never_comes = runner.run(&launch, None, &never).await;
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-32")]
async fn s32_a_transaction_that_a_killed_process_began_is_waited_for_and_not_ended() {
    if let Ok(dir) = std::env::var(TRANSACTION) {
        return a_transaction_whose_process_is_killed(&dir).await;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "s32_a_transaction_that_a_killed_process_began_is_waited_for_and_not_ended"])
        .env(TRANSACTION, dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the transaction works", || dir.path().join("begun").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let life = std::fs::read_to_string(dir.path().join("life")).unwrap();
    let waiting = tokio::spawn(async move { kill_leftovers(&life).await });
    std::fs::write(dir.path().join("go"), "").unwrap();
    assert!(waiting.await.unwrap().is_empty());
    assert!(dir.path().join("ended").exists(), "it was ended half-way");
}
