//! The claims, each measured against its bare loop.

use crate::bare;
use crate::fleet;
use crate::kinds;
use crate::measure::{Cost, median, middle};
use crate::packages;
use crate::report::Report;
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Files that a run makes, and the bare loop beside it.
pub const NEW_FILES: usize = 1000;

/// A dry run of what is in place costs no more than this, beside the apply of the same.
const CHECK_PER_APPLY: f64 = 1.2;

/// What a run that makes new files may take, beside the version of before this.
const NEW_FILES_PER_BEFORE: f64 = 0.3;

struct Bench<'a> {
    zester: &'a Path,
    /// Another version of it, for what is measured beside that.
    before: Option<PathBuf>,
    me: PathBuf,
    scratch: PathBuf,
    report: Report,
}

/// `only`: `no-op` for runs that find nothing to do, `reactor` for the claims about events, `sustained` for the minute of reactions among them, `kinds` for the cost of each kind, `packages`, `new-files`; else all.
/// `before`: the binary of another version, beside which new files are measured.
pub fn run(zester: &Path, out: &Path, only: Option<&str>, before: Option<&str>) -> Result<(), String> {
    let zester = zester
        .canonicalize()
        .map_err(|error| format!("{}: {error}; run `make release`", zester.display()))?;
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let before =
        before.map(|path| Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}")));
    let before = before.transpose()?;
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut bench =
        Bench { zester: &zester, before, me, scratch: scratch.path().to_path_buf(), report: Report::new() };
    match only {
        None => bench.all()?,
        Some("no-op") => {
            bench.unchanged_files()?;
            bench.dry_run()?;
        }
        Some("new-files") => bench.new_files()?,
        Some("reactor") => fleet::reactor(&zester, scratch.path(), &mut bench.report)?,
        Some("sustained") => fleet::sustained(&zester, scratch.path(), &mut bench.report)?,
        Some("packages") => packages::claims(&zester, scratch.path(), &mut bench.report)?,
        Some("kinds") => kinds::claims(&zester, scratch.path(), &mut bench.report)?,
        Some(other) => {
            let known = "`kinds`, `new-files`, `no-op`, `packages`, `reactor` and `sustained`";
            return Err(format!("--only {other}: there are {known}"));
        }
    }
    bench.report.write(out)?;
    if bench.report.all_hold() { Ok(()) } else { Err("a claim does not hold".into()) }
}

impl Bench<'_> {
    fn all(&mut self) -> Result<(), String> {
        self.unchanged_files()?;
        self.new_files()?;
        self.dry_run()?;
        self.start_up()?;
        self.commands()?;
        self.sleepers()?;
        self.compile()?;
        self.settings()?;
        self.graph()?;
        kinds::claims(self.zester, &self.scratch, &mut self.report)?;
        packages::claims(self.zester, &self.scratch, &mut self.report)?;
        fleet::claims(self.zester, &self.scratch, &mut self.report)
    }

    fn states(&self, name: &str, text: &str) -> Result<(), String> {
        let directory = self.scratch.join("states");
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        std::fs::write(directory.join(format!("{name}.zy")), text).map_err(|error| error.to_string())
    }

    /// Measures `zester VERB NAME`.
    fn zester(&self, runs: usize, verb: &str, name: &str) -> Result<Cost, String> {
        let at = |part: &str| self.scratch.join(part).display().to_string();
        let (states, data) = (at("states"), at("data"));
        median(runs, self.zester, &[verb, name, "--states", &states, "--data-dir", &data])
    }

    fn bare(&self, runs: usize, words: &[&str]) -> Result<Cost, String> {
        median(runs, &self.me, words)
    }

    /// A run that finds nothing to do, against a loop that opens, reads, stats and compares the same files.
    fn unchanged_files(&mut self) -> Result<(), String> {
        let files = self.scratch.join("files");
        std::fs::create_dir_all(&files).map_err(|error| error.to_string())?;
        self.states("files", &file_states(&files, 1000)?)?;
        self.zester(1, "apply", "files")?;
        let directory = files.display().to_string();
        let ours = self.zester(11, "apply", "files")?;
        let bare = self.bare(11, &["bare-files", &directory])?;
        let notes = json!({ "zester_ms": ours.wall_ms, "bare_ms": bare.wall_ms, "zester_cpu_ms": ours.cpu_ms, "peak_mb": ours.peak_mb });
        self.report.claim(
            "no-op apply of 1,000 file.managed / bare loop",
            ours.wall_ms / bare.wall_ms,
            "x",
            3.0,
            notes,
        );
        Ok(())
    }

    /// A run that makes new files, each undoable and safe from a power cut, against a loop that writes, syncs and renames
    /// them one by one. Every run has a directory of its own: names and inodes that were just removed cost extra. What others
    /// have left unwritten, such as the build of this very program, is written before.
    fn new_files(&mut self) -> Result<(), String> {
        nix::unistd::sync();
        let (mut ours, mut bare, mut before) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..7 {
            let make = |name: &str| -> Result<PathBuf, String> {
                let directory = self.scratch.join(format!("{name}-{run}"));
                std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
                Ok(directory)
            };
            let (new, by_hand) = (make("new")?, make("bare-new")?);
            self.states("new", &file_states(&new, NEW_FILES)?)?;
            ours.push(self.zester(1, "apply", "new")?);
            bare.push(self.bare(1, &["bare-new-files", &by_hand.display().to_string()])?);
            if let Some(other) = &self.before {
                self.states("new-before", &file_states(&make("new-before")?, NEW_FILES)?)?;
                let at = |part: &str| self.scratch.join(part).display().to_string();
                let (states, data) = (at("states"), at("data-before"));
                before.push(median(
                    1,
                    other,
                    &["apply", "new-before", "--states", &states, "--data-dir", &data],
                )?);
            }
        }
        if !before.is_empty() {
            let (ours, before) = (middle(&ours), middle(&before));
            let notes = json!({ "zester_ms": ours.wall_ms, "before_ms": before.wall_ms });
            let ratio = ours.wall_ms / before.wall_ms;
            self.report.claim(
                "1,000 new files / the version of before",
                ratio,
                "x",
                NEW_FILES_PER_BEFORE,
                notes,
            );
        }
        let (ours, bare) = (middle(&ours), middle(&bare));
        let notes = json!({ "zester_ms": ours.wall_ms, "bare_ms": bare.wall_ms, "zester_cpu_ms": ours.cpu_ms, "bare_cpu_ms": bare.cpu_ms });
        let ratio = ours.wall_ms / bare.wall_ms;
        self.report.claim("1,000 new files / bare write, sync and rename", ratio, "x", 1.0, notes);
        Ok(())
    }

    /// A dry run in which nothing differs, against the apply of the same.
    fn dry_run(&mut self) -> Result<(), String> {
        let chain = |n: usize| match n {
            0 => "nop-0:\n  test.nop: []\n".to_string(),
            _ => format!("nop-{n}:\n  test.nop:\n    - require: [{{test: nop-{}}}]\n", n - 1),
        };
        self.states("chain", &(0..200).map(chain).collect::<String>())?;
        for (name, what) in [("files", "1,000 unchanged files"), ("chain", "200 chained no-ops")] {
            let apply = self.zester(21, "apply", name)?;
            let check = self.zester(21, "check", name)?;
            let notes = json!({ "check_ms": check.wall_ms, "apply_ms": apply.wall_ms });
            let claim = format!("check / apply of {what}");
            self.report.claim(&claim, check.wall_ms / apply.wall_ms, "x", CHECK_PER_APPLY, notes);
            let notes = json!({ "check_mb": check.peak_mb, "apply_mb": apply.peak_mb });
            let claim = format!("check / apply of {what}, memory");
            self.report.claim(&claim, check.peak_mb / apply.peak_mb, "x", CHECK_PER_APPLY, notes);
        }
        Ok(())
    }

    /// Settings of 200 keys over 10 files: what their rendering adds to a run.
    fn settings(&mut self) -> Result<(), String> {
        let directory = self.scratch.join("settings");
        std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
        let put = |name: &str, text: &str| {
            std::fs::write(directory.join(name), text).map_err(|error| error.to_string())
        };
        let names: Vec<String> = (0..10).map(|file| format!("part-{file}")).collect();
        put("top.zy", &format!("'*': [{}]\n", names.join(", ")))?;
        for (file, name) in names.iter().enumerate() {
            let keys: String = (0..20)
                .map(|key| format!("  key-{file}-{key}: {{os: {{{{ facts.os }}}}, number: {key}}}\n"))
                .collect();
            put(&format!("{name}.zy"), &format!("all:\n{keys}"))?;
        }
        let at = |part: &str| self.scratch.join(part).display().to_string();
        let (with, none) = (at("settings"), at("no-settings"));
        std::fs::create_dir_all(&none).map_err(|error| error.to_string())?;
        let look = |settings: &str| {
            let words = ["call", "settings.get", "all:key-9-19:number", "--settings", settings];
            median(21, self.zester, &words)
        };
        let (with, none) = (look(&with)?, look(&none)?);
        let notes = json!({ "with_ms": with.wall_ms, "without_ms": none.wall_ms });
        let cost = (with.cpu_ms - none.cpu_ms).max(0.0);
        self.report.claim("settings of 200 keys over 10 files rendered, CPU", cost, "ms", 10.0, notes);
        Ok(())
    }

    fn start_up(&mut self) -> Result<(), String> {
        self.states("one", "one:\n  test.nop: []\n")?;
        let cost = self.zester(21, "apply", "one")?;
        let notes = json!({ "wall_ms": cost.wall_ms, "peak_mb": cost.peak_mb });
        self.report.claim("start-up to the end of the first state, CPU", cost.cpu_ms, "ms", 10.0, notes);
        Ok(())
    }

    fn commands(&mut self) -> Result<(), String> {
        let text: String =
            (0..50).map(|n| format!("true-{n}:\n  exec.run:\n    - command: /bin/true\n")).collect();
        self.states("commands", &text)?;
        let ours = self.zester(11, "apply", "commands")?;
        let bare = self.bare(11, &["bare-spawns", "50"])?;
        let notes = json!({ "zester_ms": ours.wall_ms, "bare_ms": bare.wall_ms, "zester_cpu_ms": ours.cpu_ms, "bare_cpu_ms": bare.cpu_ms, "peak_mb": ours.peak_mb });
        self.report.claim(
            "50 x /bin/true as states / bare spawn and wait",
            ours.wall_ms / bare.wall_ms,
            "x",
            1.5,
            notes,
        );
        Ok(())
    }

    fn sleepers(&mut self) -> Result<(), String> {
        let text: String =
            (0..1000).map(|n| format!("sleep-{n}:\n  exec.run:\n    - command: sleep 0.5\n")).collect();
        self.states("sleepers", &text)?;
        let cost = self.zester(5, "apply", "sleepers")?;
        let bare = self.bare(5, &["bare-sleepers", "1000"])?;
        let notes = json!({ "cpu_ms": cost.cpu_ms, "bare_ms": bare.wall_ms, "bare_cpu_ms": bare.cpu_ms });
        self.report.claim("1,000 x sleep 0.5 in one level", cost.wall_ms / 1000.0, "s", 1.5, notes);
        self.report.claim(
            "1,000 x sleep 0.5 in one level, peak memory",
            cost.peak_mb,
            "MB",
            150.0,
            json!({}),
        );
        Ok(())
    }

    fn compile(&mut self) -> Result<(), String> {
        for (name, count) in [("small", 1_000), ("large", 10_000)] {
            let mut text = String::new();
            for index in 0..count {
                let requires = if index == 0 {
                    String::new()
                } else {
                    format!("    - require:\n      - file: state-{}\n", index - 1)
                };
                let wrote = write!(
                    text,
                    "state-{index}:\n  file.managed:\n    - path: /srv/app/{index}.conf\n    - content: \"value {index}\"\n    - mode: \"0644\"\n{requires}"
                );
                wrote.map_err(|error| error.to_string())?;
            }
            self.states(name, &text)?;
        }
        let small = self.zester(5, "graph", "small")?;
        let large = self.zester(5, "graph", "large")?;
        let notes = json!({ "1k_ms": small.wall_ms, "10k_ms": large.wall_ms, "1k_mb": small.peak_mb, "10k_mb": large.peak_mb });
        self.report.claim(
            "compile of 10,000 states / 10 x that of 1,000",
            large.wall_ms / (10.0 * small.wall_ms),
            "x",
            1.5,
            notes,
        );
        Ok(())
    }

    fn graph(&mut self) -> Result<(), String> {
        let small = self.bare(5, &["bare-graph", "10000"])?;
        let large = self.bare(5, &["bare-graph", "100000"])?;
        let notes = json!({ "10k_ms": small.wall_ms, "100k_ms": large.wall_ms, "10k_mb": small.peak_mb, "100k_mb": large.peak_mb });
        self.report.claim(
            "graph of 100,000 states, 300,000 edges",
            large.wall_ms / 1000.0,
            "s",
            1.0,
            json!({ "peak_mb": large.peak_mb }),
        );
        self.report.claim(
            "graph of 100,000 / 10 x that of 10,000",
            large.wall_ms / (10.0 * small.wall_ms),
            "x",
            2.0,
            notes,
        );
        Ok(())
    }
}

/// States of so many files in a directory.
fn file_states(directory: &Path, count: usize) -> Result<String, String> {
    let mut text = String::new();
    for index in 0..count {
        let path = directory.join(format!("file-{index}"));
        let content = serde_json::Value::String(bare::content(index));
        let wrote = writeln!(
            text,
            "{}:\n  file.managed:\n    - content: {content}\n    - mode: \"0644\"",
            path.display()
        );
        wrote.map_err(|error| error.to_string())?;
    }
    Ok(text)
}
