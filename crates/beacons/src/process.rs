//! `process`: processes that are there or not.

use crate::level::{Condition, LevelKind, Levels, When};
use crate::limits::FILE_BYTES_MAX;
use crate::params::Names;
use crate::{Data, Eyes, Kind, Moment, Seen, blocking, plain};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The programs to watch, by the name of their file.
    processes: Names,
}

pub(crate) struct Process {
    processes: Vec<String>,
    levels: Levels,
}

impl Kind for Process {
    const NAME: &'static str = "process";
    const ALIASES: &'static [&'static str] = &["ps"];
    const INTERVAL: Duration = Duration::from_secs(10);
    type Config = Config;
    /// How many there are of each.
    type Sample = BTreeMap<String, usize>;

    fn new(config: Config, when: When) -> Result<Process, String> {
        let processes = config.processes.0;
        match processes.iter().find(|name| name.is_empty() || name.contains('/')) {
            Some(name) => Err(format!("`{name}` cannot name a process; write the last part of its program")),
            None => Ok(Process { processes, levels: Levels::new("running", LevelKind::State, when) }),
        }
    }

    async fn look(&mut self, eyes: &Eyes) -> Result<Seen<Self::Sample>, String> {
        let (names, root) = (self.processes.clone(), eyes.root.join("proc"));
        blocking(move || count(&root, names).map(Seen::all)).await
    }

    fn decide(&mut self, sample: &Self::Sample, now: Moment) -> Vec<Data> {
        let conditions = sample.iter().map(|(name, count)| Condition {
            key: name.clone(),
            on: *count > 0,
            data: Data::from_iter([
                ("process".to_string(), json!(name)),
                ("count".to_string(), json!(count)),
            ]),
        });
        self.levels.observe(conditions.collect(), now.run)
    }
}

fn count(proc: &Path, names: Vec<String>) -> Result<BTreeMap<String, usize>, String> {
    let wrong = |error: std::io::Error| format!("cannot read {}: {}", proc.display(), plain(&error));
    let mut counts: BTreeMap<String, usize> = names.into_iter().map(|name| (name, 0)).collect();
    for entry in std::fs::read_dir(proc).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if !entry.file_name().to_string_lossy().bytes().all(|letter| letter.is_ascii_digit()) {
            continue;
        }
        // One that ended meanwhile is not there.
        for name in program(&entry.path()) {
            if let Some(count) = counts.get_mut(&name) {
                *count += 1;
                break;
            }
        }
    }
    Ok(counts)
}

/// What a process is called: by its first word, and by the kernel, which keeps 15 letters. A zombie does not run.
fn program(directory: &Path) -> Vec<String> {
    let read = |name: &str| -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(directory.join(name)).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    };
    let stat = read("stat").unwrap_or_default();
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|at| stat.get(at + 2));
    if matches!(state, Some(b'Z' | b'X') | None) {
        return Vec::new();
    }
    let line = read("cmdline").unwrap_or_default();
    let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
    let first = String::from_utf8_lossy(first).into_owned();
    // `nginx: master process /usr/sbin/nginx`
    let first =
        first.split(':').next().unwrap_or_default().rsplit('/').next().unwrap_or_default().to_string();
    let comm = String::from_utf8_lossy(&read("comm").unwrap_or_default()).trim_end().to_string();
    let mut names = vec![first, comm];
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn process(root: &Path, pid: u32, comm: &str, state: char, line: &str) {
        let directory = root.join(pid.to_string());
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("comm"), format!("{comm}\n")).unwrap();
        std::fs::write(directory.join("stat"), format!("{pid} ({comm}) {state} 1 1")).unwrap();
        std::fs::write(directory.join("cmdline"), line.replace(' ', "\0")).unwrap();
    }

    #[test]
    fn processes_are_counted_by_their_program() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("sys")).unwrap();
        process(root.path(), 1, "nginx", 'S', "nginx: master");
        process(root.path(), 2, "nginx", 'S', "nginx: worker");
        process(root.path(), 3, "a-program-with-", 'S', "/usr/bin/a-program-with-a-long-name --x");
        process(root.path(), 4, "db", 'Z', "");
        process(root.path(), 5, "a) Z (b", 'R', "/opt/odd");
        process(root.path(), 6, "kworker/0:1", 'I', "");
        let names = ["nginx", "a-program-with-a-long-name", "db", "odd"].map(String::from).to_vec();
        let counts = count(root.path(), names).unwrap();
        let wanted = [("a-program-with-a-long-name", 1), ("db", 0), ("nginx", 2), ("odd", 1)];
        assert_eq!(counts, wanted.map(|(name, count)| (name.to_string(), count)).into());
        assert!(count(&root.path().join("none"), Vec::new()).is_err());
    }

    #[test]
    #[rule("R-21")]
    fn r21_a_process_is_there_or_not_however_many_there_are() {
        let config = Config { processes: Names(vec!["nginx".into()]) };
        let mut process = Process::new(config, When::default()).ok().unwrap();
        let mut told = Vec::new();
        for count in [2, 5, 0, 0, 1] {
            let sample = BTreeMap::from([("nginx".to_string(), count)]);
            told.extend(process.decide(&sample, Moment::default()).into_iter().map(|event| json!(event)));
        }
        let event = |running: bool, count: usize| json!({"process": "nginx", "count": count, "running": running, "previous": !running});
        assert_eq!(told, [event(false, 0), event(true, 1)]);
    }
}
