//! `zester-sim --seeds 10000`: many simulations, on all cores, and the seeds that broke a rule.

use clap::Parser;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use zester_sim::script::FaultKind;
use zester_sim::{Mutation, Tally, Violation, simulate_with};

/// Simulations of a fleet, each from its seed
#[derive(Parser)]
struct Arguments {
    /// How many
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Tell what happened under this seed, and do nothing else
    #[arg(long, value_name = "SEED")]
    explain: Option<u64>,
    /// Take one safeguard away
    #[arg(long, value_parser = mutation)]
    mutate: Option<Mutation>,
    /// Only these kinds of fault beside crashes, cuts and storms; `none` for no others
    #[arg(long, value_delimiter = ',', value_name = "KINDS")]
    faults: Option<Vec<String>>,
    /// Hold the product to what it does not hold yet, too
    #[arg(long)]
    open: bool,
}

fn mutation(name: &str) -> Result<Mutation, String> {
    Mutation::parse(name).ok_or_else(|| {
        let known: Vec<&str> = Mutation::ALL.iter().map(|mutation| mutation.name()).collect();
        format!("there is {}", known.join(", "))
    })
}

fn kinds(names: Option<&[String]>) -> Result<Vec<FaultKind>, String> {
    let Some(names) = names else { return Ok(FaultKind::ALL.to_vec()) };
    let wanted = names.iter().filter(|name| *name != "none");
    wanted
        .map(|name| {
            FaultKind::parse(name).ok_or_else(|| {
                let known: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
                format!("there is no fault `{name}`; there is {}", known.join(", "))
            })
        })
        .collect()
}

/// Violations that are printed; the rest are counted.
const SHOWN_MAX: usize = 40;

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is what this program does")]
fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mutation = arguments.mutate.unwrap_or_default();
    let kinds = match kinds(arguments.faults.as_deref()) {
        Ok(kinds) => kinds,
        Err(words) => {
            eprintln!("{words}");
            return ExitCode::FAILURE;
        }
    };
    if let Some(seed) = arguments.explain {
        let report = simulate_with(seed, mutation, &kinds);
        print!("{}\n{}", report.story, report.verdict());
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
                    let report = simulate_with(seed, mutation, &kinds);
                    let mut tally = tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    tally.0.add(report.tally);
                    let open = report.open.into_iter().filter(|_| arguments.open);
                    let broken = report.violations.into_iter().chain(open);
                    tally.1.extend(broken.map(|violation| (seed, violation)));
                }
            });
        }
    });
    let (tally, mut violations) = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    violations.sort_by_key(|(seed, _)| *seed);
    for (seed, violation) in violations.iter().take(SHOWN_MAX) {
        println!("seed {seed}: {violation}");
    }
    let mut by_invariant: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, violation) in &violations {
        *by_invariant.entry(violation.invariant.text()).or_insert(0) += 1;
    }
    for (invariant, count) in by_invariant {
        println!("{count:8}  {invariant}");
    }
    let listed = |counts: &BTreeMap<&'static str, u64>| -> String {
        let listed: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        listed.join(", ")
    };
    println!(
        "{} seeds in {:.1} s: {} executions, {} adoptions, {} late returns, {} reactions",
        arguments.seeds,
        began.elapsed().as_secs_f64(),
        tally.executions,
        tally.adoptions,
        tally.late_returns,
        tally.reactions,
    );
    println!("jobs: {}", listed(&tally.statuses));
    println!("faults: {}", listed(&tally.faults));
    println!("{} violations", violations.len());
    if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
