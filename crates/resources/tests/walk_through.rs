//! The walk-through of CONTRIBUTING.md for a new kind, followed to the letter in a copy of the workspace. `make soak` does it: the
//! copy is compiled anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, their helpers included")]

use std::path::{Path, PathBuf};
use std::process::Command;
use zester_testkit::skip;

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// Runs a command there, and gives back what it printed.
fn run(directory: &Path, words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).current_dir(directory).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{words:?}: {told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// The command that the guide names, word by word.
fn command_of_guide() -> Vec<String> {
    let guide = std::fs::read_to_string(workspace().join("CONTRIBUTING.md")).unwrap();
    let start = guide.find("`cargo xtask new-kind ").unwrap() + 1;
    let command = guide[start..].split('`').next().unwrap();
    command.split(' ').map(str::to_string).collect()
}

#[test]
fn one_command_makes_a_kind_that_compiles_and_obeys_the_laws() {
    if std::env::var_os("ZESTER_SOAK").is_none() {
        skip!("a copy of the workspace takes minutes to compile; `make soak` does it");
    }
    let temp = tempfile::tempdir().unwrap();
    let copy = temp.path().join("copy");
    for path in run(&workspace(), &["git", "ls-files"]).lines() {
        let to = copy.join(path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(workspace().join(path), to).unwrap();
    }
    let command = command_of_guide();
    let told = run(&copy, &command.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(told.contains("wrote crates/resources/src/ntp_managed.rs"), "{told}");
    let laws =
        ["cargo", "test", "--quiet", "--offline", "-p", "zester-resources", "--lib", "lawful::ntp_managed"];
    assert!(run(&copy, &laws).contains(" 2 passed"));
}
