//! What runs as another user has no terminal: through one it could type into the shell of whoever started the run.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests, their helpers included")]

use std::process::{Command, Stdio};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::{Launch, Processes};
use zester_rule::rule;

/// Set in the process that has a terminal of its own.
const INSIDE: &str = "ZESTER_TEST_TERMINAL";
const OPENS_IT: &str = "if (exec 3<>/dev/tty) 2>/dev/null; then echo open; else echo closed; fi";

/// What a command finds, run as this user.
async fn found_by(user: Option<&str>, text: &str) -> String {
    let launch = Launch { user: user.map(str::to_string), ..Launch::shell(text) };
    let exit = Runner::new().run(&launch, None, &CancellationToken::new()).await.unwrap();
    exit.stdout.text.trim().to_string()
}

#[tokio::test]
#[rule("X-5")]
async fn x5_a_command_of_another_user_has_no_terminal() {
    if std::env::var_os(INSIDE).is_some() {
        println!("ours: {}", found_by(None, OPENS_IT).await);
        println!("theirs: {}", found_by(Some("nobody"), OPENS_IT).await);
        // Nor does whatever it starts, in whatever session.
        println!(
            "behind: {}",
            found_by(Some("nobody"), &format!("(setsid --wait sh -c '{OPENS_IT}')")).await
        );
        return;
    }
    if !rustix::process::geteuid().is_root() {
        zester_testkit::skip!("only root can become another user");
    }
    let test = std::env::current_exe().unwrap();
    let words = "--exact x5_a_command_of_another_user_has_no_terminal --nocapture";
    // It runs itself on a terminal that was made for it.
    let ended = Command::new("script")
        .args(["-qec", &format!("'{}' {words}", test.display()), "/dev/null"])
        .env(INSIDE, "yes")
        .stdin(Stdio::null())
        .output();
    let Ok(ended) = ended else { zester_testkit::skip!("needs `script`, which makes a terminal") };
    let said = String::from_utf8_lossy(&ended.stdout);
    for line in ["ours: open", "theirs: closed", "behind: closed"] {
        assert!(said.lines().any(|found| found.trim().ends_with(line)), "{line}: {said}");
    }
}
