//! Wall time, CPU time and peak memory of a process.

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

#[derive(Copy, Clone, Debug, Default)]
pub struct Cost {
    pub wall_ms: f64,
    pub cpu_ms: f64,
    pub peak_mb: f64,
}

/// Runs a command and prints what it cost; a process of its own, so that the peak is that of one child alone.
#[allow(clippy::print_stdout)] // its parent reads it
pub fn child(words: &[String]) -> Result<(), String> {
    let (program, rest) = words.split_first().ok_or("nothing to measure")?;
    let started = Instant::now();
    let status = Command::new(program)
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let wall_ms = started.elapsed().as_secs_f64() * 1000.0;
    let status = status.map_err(|error| format!("{program}: {error}"))?;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let millis =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 * 1000.0 + time.tv_usec() as f64 / 1000.0;
    let cpu_ms = millis(usage.user_time()) + millis(usage.system_time());
    let peak_mb = usage.max_rss() as f64 / 1024.0;
    println!(
        "{}",
        json!({ "wall_ms": wall_ms, "cpu_ms": cpu_ms, "peak_mb": peak_mb, "ok": status.success() })
    );
    Ok(())
}

/// The median cost of several runs of a command.
pub fn median(runs: usize, program: &Path, words: &[&str]) -> Result<Cost, String> {
    median_with(runs, program, words, &[])
}

/// The same with more variables in its environment.
pub fn median_with(
    runs: usize,
    program: &Path,
    words: &[&str],
    environment: &[(&str, &str)],
) -> Result<Cost, String> {
    let mut costs: Vec<Cost> = Vec::new();
    for _ in 0..runs {
        costs.push(once(program, words, environment)?);
    }
    Ok(middle(&costs))
}

/// The median of each figure.
pub fn middle(costs: &[Cost]) -> Cost {
    let middle = |pick: fn(&Cost) -> f64| {
        let mut values: Vec<f64> = costs.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Cost { wall_ms: middle(|c| c.wall_ms), cpu_ms: middle(|c| c.cpu_ms), peak_mb: middle(|c| c.peak_mb) }
}

fn once(program: &Path, words: &[&str], environment: &[(&str, &str)]) -> Result<Cost, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(me)
        .arg("measure")
        .arg(program)
        .args(words)
        .envs(environment.iter().copied())
        .output()
        .map_err(|error| error.to_string())?;
    let read: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| {
        format!("no measurement of {}: {}", program.display(), String::from_utf8_lossy(&output.stderr))
    })?;
    if read["ok"] != true {
        return Err(format!("{} {} failed", program.display(), words.join(" ")));
    }
    let number = |key: &str| read[key].as_f64().unwrap_or_default();
    Ok(Cost { wall_ms: number("wall_ms"), cpu_ms: number("cpu_ms"), peak_mb: number("peak_mb") })
}
