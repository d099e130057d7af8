//! The processes of this machine at one moment, read from `/proc`.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Mutex;

/// The variable that marks every process of a command. A nested run adds its mark after a colon.
pub(super) const MARK: &str = "ZESTER_EXEC";
/// How the mark of a command ends that must not be interrupted: whoever finds it later does not know it otherwise.
pub(super) const UNINTERRUPTIBLE: &str = "!";
/// Environments are read up to here; a mark stands among the last variables, but an environment can be huge.
const ENVIRONMENT_MAX: u64 = 4 * 1024 * 1024;

/// A process that cannot be mistaken for a later one with the same number.
pub(super) type Key = (u32, u64);

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) ppid: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// Clock ticks since boot.
    pub(super) start: u64,
    pub(super) zombie: bool,
    /// The marks in its environment.
    pub(super) marks: Vec<String>,
}

impl Process {
    pub(super) fn key(&self) -> Key {
        (self.pid, self.start)
    }
}

/// All processes, and indices to walk them by.
pub(super) struct Snapshot {
    pub(super) processes: Vec<Process>,
    by_pid: HashMap<u32, usize>,
    children: HashMap<u32, Vec<usize>>,
}

impl Snapshot {
    /// Reads `/proc`. Environments are read only of processes born since `born`, in clock ticks.
    pub(super) fn take(born: u64) -> Snapshot {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let processes: Vec<Process> = pids.filter_map(|pid| read(pid, born)).collect();
        let by_pid = processes.iter().enumerate().map(|(index, process)| (process.pid, index)).collect();
        let mut children: HashMap<u32, Vec<usize>> = HashMap::new();
        for (index, process) in processes.iter().enumerate() {
            children.entry(process.ppid).or_default().push(index);
        }
        Snapshot { processes, by_pid, children }
    }

    pub(super) fn get(&self, pid: u32) -> Option<&Process> {
        self.by_pid.get(&pid).map(|index| &self.processes[*index])
    }

    pub(super) fn children_of(&self, pid: u32) -> impl Iterator<Item = &Process> {
        self.children.get(&pid).into_iter().flatten().map(|index| &self.processes[*index])
    }

    /// The given processes and all their descendants.
    pub(super) fn with_descendants(&self, roots: impl IntoIterator<Item = Key>) -> HashSet<Key> {
        let mut found = HashSet::new();
        let mut open: Vec<Key> = roots.into_iter().collect();
        while let Some(key) = open.pop() {
            let alive = self.get(key.0).is_some_and(|process| process.start == key.1);
            if alive && found.insert(key) {
                open.extend(self.children_of(key.0).map(Process::key));
            }
        }
        found
    }
}

/// One process, or `None` when it is gone by now.
pub(super) fn read(pid: u32, born: u64) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let mut process = parse(pid, &stat)?;
    if process.start >= born && !process.zombie {
        process.marks = marks(pid);
    }
    Some(process)
}

/// `pid (comm) state ppid pgrp session …`: the name may hold anything, so what follows its last parenthesis
/// counts.
fn parse(pid: u32, stat: &[u8]) -> Option<Process> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    Some(Process {
        pid,
        ppid: number(1)? as u32,
        group: number(2)? as u32,
        session: number(3)? as u32,
        start: number(19)? as u64,
        zombie: matches!(fields.first(), Some(&"Z" | &"X" | &"x")),
        marks: Vec::new(),
    })
}

fn marks(pid: u32) -> Vec<String> {
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/environ")) else { return Vec::new() };
    let mut environment = Vec::new();
    if file.take(ENVIRONMENT_MAX).read_to_end(&mut environment).is_err() {
        return Vec::new();
    }
    let variables = environment.split(|byte| *byte == 0);
    let value = variables
        .into_iter()
        .find_map(|variable| variable.strip_prefix(MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")));
    let text = String::from_utf8_lossy(value.unwrap_or_default());
    text.split(':').filter(|mark| !mark.is_empty()).map(str::to_string).collect()
}

/// Clock ticks since boot, as `/proc` counts the birth of processes.
pub(super) fn ticks_now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // USER_HZ is 100 on every Linux that Rust knows.
    now.tv_sec.unsigned_abs() * 100 + now.tv_nsec.unsigned_abs() / 10_000_000
}

/// Shares snapshots: a thousand commands cancelled at once do not read `/proc` a thousand times.
pub(super) struct Table {
    born: u64,
    last: Mutex<Option<(Instant, Arc<Snapshot>)>>,
}

impl Table {
    pub(super) fn new(born: u64) -> Table {
        Table { born, last: Mutex::new(None) }
    }

    /// A snapshot that was begun after this call was.
    pub(super) async fn fresh(&self) -> Arc<Snapshot> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some((begun, snapshot)) = &*last
            && *begun >= asked
        {
            return Arc::clone(snapshot);
        }
        let begun = Instant::now();
        let born = self.born;
        let taken = tokio::task::spawn_blocking(move || Snapshot::take(born)).await;
        let snapshot = Arc::new(taken.unwrap_or_else(|_| Snapshot::take(born)));
        *last = Some((begun, Arc::clone(&snapshot)));
        snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_whose_name_holds_parentheses_is_read_right() {
        let stat = b"7 (a) b) (c)) S 1 7 6 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1 1";
        let process = parse(7, stat).unwrap();
        assert_eq!((process.ppid, process.group, process.session, process.start), (1, 7, 6, 4242));
        assert!(!process.zombie);
    }

    #[test]
    fn we_find_ourselves_in_the_table() {
        let snapshot = Snapshot::take(0);
        let me = snapshot.get(std::process::id()).unwrap();
        assert!(me.start <= ticks_now() && !me.zombie);
    }
}
