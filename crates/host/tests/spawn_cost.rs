//! running `/bin/true` costs at most 1.5 times a bare spawn and wait of it. Timing, so run by hand:
//! `cargo test --release -p zester-host --test spawn_cost -- --ignored --nocapture`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests, their helpers included")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::{Launch, Processes};

const ROUNDS: usize = 300;

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

#[tokio::test]
#[ignore = "timing"]
async fn x8_a_command_costs_little_more_than_its_bare_spawn() {
    let runner = Runner::new();
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let (bare, ours) = (bare(), ours(&runner).await);
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!("bare {:?}, ours {:?}, ratio {ratio:.2}", bare / ROUNDS as u32, ours / ROUNDS as u32);
        ratios.push(ratio);
    }
    let best = ratios.into_iter().fold(f64::MAX, f64::min);
    assert!(best <= 1.5, "ratio {best:.2}");
}
