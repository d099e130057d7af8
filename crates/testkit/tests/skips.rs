//! A skipped test is recorded by its name.
#![allow(clippy::unwrap_used)]

use std::process::Command;

/// Set in the child, which is the test that is skipped.
const CHILD: &str = "ZESTER_TESTKIT_SKIPS";

#[test]
fn a_skipped_test_leaves_its_name_and_the_reason() {
    if std::env::var_os(CHILD).is_some() {
        zester_testkit::skip!("needs {}", "a moon");
    }
    recorded("a_skipped_test_leaves_its_name_and_the_reason");
}

mod below {
    #[tokio::test]
    async fn an_asynchronous_one_too() {
        if std::env::var_os(super::CHILD).is_some() {
            zester_testkit::skip!("needs {}", "a moon");
        }
        super::recorded("below::an_asynchronous_one_too");
    }
}

/// Runs the test again in a child where it is skipped, and reads what that wrote.
fn recorded(test: &str) {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("skipped");
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(CHILD, "1")
        .env("ZESTER_SKIPPED", &record)
        .output()
        .unwrap();
    assert!(ended.status.success());
    assert_eq!(std::fs::read_to_string(&record).unwrap(), format!("skips::{test}\tneeds a moon\n"));
}
