//! `zester-sim --seeds 10000`: many lives, on all cores, and the seeds that broke a rule.

use clap::Parser;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use zester_sim::{Mutation, Tally, Violation, explain, live};

/// Lives of a simulated fleet, each from its seed
#[derive(Parser)]
struct Arguments {
    /// How many lives
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Tell what happened in the life of this seed, and do nothing else
    #[arg(long, value_name = "SEED")]
    explain: Option<u64>,
    /// Take one safeguard away: drop-dedup-write, finalize-without-cas, skip-second-replay, adopt-without-resend,
    /// same-owner-id
    #[arg(long, value_parser = mutation)]
    mutate: Option<Mutation>,
}

fn mutation(name: &str) -> Result<Mutation, String> {
    Mutation::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Mutation::ALL.iter().map(|mutation| mutation.name()).collect();
        format!("there is {}", known.join(", "))
    })
}

/// Violations that are printed; the rest are counted.
const SHOWN_MAX: usize = 20;

#[allow(clippy::print_stdout, reason = "printing is what this program does")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mutation = arguments.mutate.unwrap_or_default();
    if let Some(seed) = arguments.explain {
        print!("{}", explain(seed, mutation));
        return ExitCode::SUCCESS;
    }
    let (next, began) = (AtomicU64::new(arguments.from), Instant::now());
    let end = arguments.from.saturating_add(arguments.seeds);
    let tally = Mutex::new((Tally::default(), Vec::<(u64, Violation)>::new()));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let lived = live(seed, mutation);
                    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match lived {
                        Ok(one) => tally.0.add(one),
                        Err(violation) => tally.1.push((seed, violation)),
                    }
                }
            });
        }
    });
    let (tally, mut violations) = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    violations.sort_by_key(|(seed, _)| *seed);
    for (seed, violation) in violations.iter().take(SHOWN_MAX) {
        println!("seed {seed}: {violation}");
    }
    let statuses: Vec<String> =
        tally.statuses.iter().map(|(status, count)| format!("{count} {status}")).collect();
    println!(
        "{} seeds in {:.1} s: {} executions, {} adoptions, {} late returns; jobs: {}",
        arguments.seeds,
        began.elapsed().as_secs_f64(),
        tally.executions,
        tally.adoptions,
        tally.late_returns,
        statuses.join(", ")
    );
    println!("{} violations", violations.len());
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
