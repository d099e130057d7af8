//! A `zester up` of a test's own.

use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use zester_testkit::wait_for;

/// Generous: a busy machine is slow, and nothing here is about time.
pub const SOON: Duration = Duration::from_secs(60);

/// Short spans, so that what is dead is known to be within seconds.
const TIMINGS: &[&str] = &[
    "timing.peel_heartbeat=500ms",
    "timing.peel_ttl=3s",
    "timing.ack_window=1s",
    "timing.unreachable_grace=1s",
    "timing.kill_grace=1s",
];

pub struct Up {
    temp: Arc<tempfile::TempDir>,
    /// What it says beside its answer.
    log: PathBuf,
    pub process: Child,
    pub directory: PathBuf,
    pub url: String,
}

/// What one call printed and how it ended.
pub struct Done {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    #[track_caller]
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {:?} / {:?}", self.stdout, self.stderr))
    }

    #[track_caller]
    pub fn exits(self, code: i32) -> Done {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Done {
        Done {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A fleet of so many peels with these state files. Without a nats-server `zester up` says so, and the test fails with it.
pub fn up(peels: usize, states: &[(&str, &str)]) -> Up {
    let temp = tempfile::Builder::new().prefix("zester-fleet-").tempdir().unwrap();
    std::fs::create_dir(temp.path().join("states")).unwrap();
    for (name, text) in states {
        let text = text.replace("@T@", &temp.path().display().to_string());
        std::fs::write(temp.path().join(format!("states/{name}.zy")), text).unwrap();
    }
    start(Arc::new(temp), peels, None)
}

fn start(temp: Arc<tempfile::TempDir>, peels: usize, name: Option<&str>) -> Up {
    let log = temp.path().join(format!("up{}.err", name.unwrap_or_default()));
    let mut command = zester(temp.path());
    command.args(["up", "--format", "json", "--peels", &peels.to_string()]);
    command.args(name.iter().flat_map(|name| ["--name", name]));
    for timing in TIMINGS {
        command.args(["--set", timing]);
    }
    let said = std::fs::File::create(&log).unwrap();
    let mut process = command.stdout(Stdio::piped()).stderr(said).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Json = serde_json::from_str(&line).unwrap_or_else(|error| {
        let why = std::fs::read_to_string(&log).unwrap_or_default();
        panic!("up did not come up ({error}): {line:?} {why}")
    });
    assert_eq!(said["peels"].as_array().unwrap().len(), peels);
    let directory = PathBuf::from(said["directory"].as_str().unwrap());
    let url = said["url"].as_str().unwrap().to_string();
    Up { temp, log, process, directory, url }
}

/// The binary, with directories of its own and nothing of the environment.
fn zester(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zester"));
    command.current_dir(root).env("XDG_RUNTIME_DIR", root).env("XDG_STATE_HOME", root).env("HOME", root);
    for name in ["ZESTER_NATS_URL", "ZESTER_CREDS", "ZESTER_ID", "ZESTER_DATA_DIR", "ZESTER_STATES"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}

impl Up {
    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Another fleet of the same user, under a name.
    pub fn beside(&self, name: &str, peels: usize) -> Up {
        start(self.temp.clone(), peels, Some(name))
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = zester(self.temp.path());
        command.args(words);
        command
    }

    pub fn zester(&self, words: &[&str]) -> Done {
        self.command(words).output().unwrap().into()
    }

    #[track_caller]
    pub fn json(&self, words: &[&str], code: i32) -> Json {
        let mut words = words.to_vec();
        words.extend(["--format", "json"]);
        self.zester(&words).exits(code).json()
    }

    pub fn spawn(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The process of one of its daemons.
    pub fn pid_of(&self, name: &str) -> i32 {
        let home = self.directory.join(name).display().to_string();
        let found = processes(&home);
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0]
    }

    /// Ends a daemon as a crash would.
    pub fn kill(&self, name: &str) {
        let pid = nix::unistd::Pid::from_raw(self.pid_of(name));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    }

    /// Takes it down and waits for the end.
    pub fn take_down(&mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.process.id().cast_signed());
        let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let process = &mut self.process;
        wait_for("the end of up", SOON, || process.try_wait().unwrap()).code()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) && !std::thread::panicking() {
            self.take_down();
        }
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Processes with a word of this text in their command line.
pub fn processes(text: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok());
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let holds = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == text.as_bytes())
    };
    pids.filter(holds).collect()
}
