//! Several processes put the same paths at once, as peels that share a machine do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use zester_host::real::Real;
use zester_host::{HostRead, HostWrite, NewFile};

/// Where the processes work, and which of them this is.
const DIRECTORY: &str = "ZESTER_TEST_DIRECTORY";
const NUMBER: &str = "ZESTER_TEST_NUMBER";
const PROCESSES: usize = 4;
const ROUNDS: usize = 100;

fn put_all(top: &Path, number: &str) {
    let host = Real::new();
    for _ in 0..ROUNDS {
        // Long enough for a mixture to be seen.
        let content = number.repeat(20_000);
        let file = NewFile { content: content.as_bytes(), mode: 0o644, owner: host.me() };
        host.put_file(&top.join("f"), &file).unwrap();
        host.put_link(&top.join("l"), Path::new(number), host.me()).unwrap();
        // Only one of them makes it each time; the others must say that it is there, or gone again.
        let _ = host.make_directory(&top.join("d"), 0o755, host.me());
        let _ = host.remove_directory(&top.join("d"));
        let seen = host.read(&top.join("f"), 1 << 20).unwrap();
        assert!(seen.len() == content.len() && seen.iter().all(|byte| *byte == seen[0]));
    }
}

#[test]
fn processes_that_put_the_same_paths_do_not_disturb_each_other() {
    if let (Ok(directory), Ok(number)) = (std::env::var(DIRECTORY), std::env::var(NUMBER)) {
        return put_all(Path::new(&directory), &number);
    }
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let start = |number: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes_that_put_the_same_paths_do_not_disturb_each_other"])
            .env(DIRECTORY, &top)
            .env(NUMBER, number.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = (0..PROCESSES).map(start).collect();
    let mut failed = Vec::new();
    for child in children {
        let ended = child.wait_with_output().unwrap();
        if !ended.status.success() {
            failed.push(String::from_utf8_lossy(&ended.stdout).into_owned());
        }
    }
    assert!(failed.is_empty(), "{}", failed.concat());
    let _ = std::fs::remove_dir(top.join("d"));
    let host = Real::new();
    assert_eq!(host.list(&top).unwrap(), ["f", "l"]);
}
