//! Measures zester against bare loops, in one run on one machine, so that the ratios mean something anywhere.
//!
//! `make bench` runs it and prints a line a claim. The bare loops and the measuring are subcommands of this very program,
//! so that both sides pay for a process start.

mod bare;
mod claims;
mod fleet;
mod kinds;
mod measure;
mod packages;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

#[allow(clippy::print_stderr)] // it is a tool for a terminal
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let named =
        |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1)).cloned();
    let done = match words.first().map(String::as_str) {
        Some("bare-files") => bare::files(words.get(1).map_or("", String::as_str)),
        Some("bare-new-files") => bare::new_files(words.get(1).map_or("", String::as_str), claims::NEW_FILES),
        Some("bare-spawns") => bare::spawns(words.get(1).and_then(|count| count.parse().ok()).unwrap_or(0)),
        Some("bare-sleepers") => {
            bare::sleepers(words.get(1).and_then(|count| count.parse().ok()).unwrap_or(0))
        }
        Some("bare-graph") => bare::graph(words.get(1).and_then(|count| count.parse().ok()).unwrap_or(0)),
        Some("measure") => measure::child(words.get(1..).unwrap_or_default()),
        _ => {
            let zester = PathBuf::from(named("--zester").unwrap_or("target/release/zester".into()));
            let out = PathBuf::from(named("--out").unwrap_or("target/bench.json".into()));
            claims::run(&zester, &out, named("--only").as_deref(), named("--before").as_deref())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bench: {why}");
            ExitCode::FAILURE
        }
    }
}
