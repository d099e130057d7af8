//! What the commands of a process that was killed left running.
//!
//! A process that ends by SIGKILL cannot end its commands. Whoever takes its place knows its [`life`](super::Runner::life) and
//! ends what is left: the tree of every command whose first process still runs. A command that had ended by itself is over,
//! and what it left in the background on purpose (`server &`, X-6) is left alone here too.
//!
//! Files that were there for a command to read, scripts above all, bear the name of that life and are removed.

use super::Runner;
use super::table::{Key, Process, Snapshot, UNINTERRUPTIBLE};
use super::tree::signal;
use rustix::process::Signal;
use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;

/// How long SIGKILL may take before we stop waiting: only a process that the kernel holds needs more.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a transaction of a package manager is waited for that an earlier life began.
const TRANSACTION_WAIT_MAX: Duration = Duration::from_secs(30 * 60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// How a file is called in the temp directory that is there only for as long as a command of ours reads it.
pub fn scratch_name(name: &str) -> String {
    format!("{}{name}", scratch_prefix(&Runner::new().life()))
}

fn scratch_prefix(life: &str) -> String {
    format!("zester-{life}-")
}

/// Ends the commands of an earlier life and waits until they are gone; returns what could not be ended. Removes the files
/// that they read.
pub async fn kill_leftovers(life: &str) -> Vec<u32> {
    let mut parts = life.splitn(2, '-').map(str::parse);
    let (Some(Ok(_pid)), Some(Ok(born))) = (parts.next(), parts.next()) else { return Vec::new() };
    let survivors = end_commands(life, born).await;
    let prefix = scratch_prefix(life);
    // If it cannot be looked at or removed, it is where all temp files end.
    let _ = tokio::task::spawn_blocking(move || remove_scratch(&std::env::temp_dir(), &prefix)).await;
    survivors
}

fn remove_scratch(directory: &Path, prefix: &str) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes())) {
        let _ = std::fs::remove_file(entry.path());
    }
}

async fn end_commands(life: &str, born: u64) -> Vec<u32> {
    let prefix = format!("{life}-");
    let begun = Instant::now();
    let mut until = begun + WAIT_MAX;
    let (mut marks, mut quiet) = (BTreeSet::new(), 0);
    loop {
        let taken = tokio::task::spawn_blocking(move || Snapshot::take(born)).await;
        let Ok(snapshot) = taken else { return Vec::new() };
        // A transaction of a package manager is never signalled (S-32): it is waited for.
        let (transactions, commands): (Vec<String>, Vec<String>) =
            unfinished(&snapshot, &prefix).into_iter().partition(|mark| mark.ends_with(UNINTERRUPTIBLE));
        if !transactions.is_empty() {
            until = until.max(Instant::now() + WAIT_MAX).min(begun + TRANSACTION_WAIT_MAX);
        }
        marks.extend(commands);
        let working = members(&snapshot, &transactions.into_iter().collect());
        let mut alive = members(&snapshot, &marks);
        alive.retain(|key| !working.contains(key));
        // A child may have been born between the look and the signal.
        quiet = if alive.is_empty() && working.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 || Instant::now() >= until {
            return alive.into_iter().chain(working).map(|(pid, _)| pid).collect();
        }
        alive.into_iter().for_each(|key| signal(key, Signal::KILL));
        tokio::time::sleep(PAUSE).await;
    }
}

/// The marks of commands whose first process lives: it leads a group in a session that is not its own.
fn unfinished(snapshot: &Snapshot, prefix: &str) -> Vec<String> {
    let leads = |process: &&Process| process.pid == process.group && process.session != process.pid;
    let living = snapshot.processes.iter().filter(leads).filter(|process| !process.zombie);
    living.flat_map(|process| &process.marks).filter(|mark| mark.starts_with(prefix)).cloned().collect()
}

/// Whoever carries one of the marks, with descendants; but never this process and what it started, which may itself have
/// been started by a command of that life.
fn members(snapshot: &Snapshot, marks: &BTreeSet<String>) -> HashSet<Key> {
    let marked = |process: &&Process| process.marks.iter().any(|mark| marks.contains(mark));
    let roots = snapshot.processes.iter().filter(marked).map(Process::key);
    let ours = snapshot.get(std::process::id()).map(Process::key);
    let ours = snapshot.with_descendants(ours);
    let alive = |key: &Key| snapshot.get(key.0).is_some_and(|process| !process.zombie);
    let mut found = snapshot.with_descendants(roots.filter(|key| !ours.contains(key)));
    found.retain(|key| !ours.contains(key) && alive(key));
    found
}
