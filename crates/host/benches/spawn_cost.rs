//! running `/bin/true` costs at most 1.5 times a bare spawn and wait of it, measured in one run.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops at what it did not expect"
)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::{Launch, Processes};

const ROUNDS: u32 = 300;

fn bare() -> Duration {
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        let status = Command::new("/bin/true").stdin(Stdio::null()).status().unwrap();
        assert!(status.success());
    }
    begun.elapsed()
}

async fn ours(runner: &Runner) -> Duration {
    let cancel = CancellationToken::new();
    let launch = Launch::argv(["/bin/true"]);
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        assert_eq!(runner.run(&launch, None, &cancel).await.unwrap().code, Some(0));
    }
    begun.elapsed()
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runner = Runner::new();
    for _ in 0..5 {
        let (bare, ours) = (bare(), runtime.block_on(ours(&runner)));
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!("bare {:?}, ours {:?}, ratio {ratio:.2}", bare / ROUNDS, ours / ROUNDS);
    }
}
