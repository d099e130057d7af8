//! A master or a peel as a process of its own.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use zester_testkit::wait_for;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// Ends with this value, and with the test process.
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub fn start(log: &Path, words: &[&str]) -> Daemon {
        Daemon::start_with_programs(log, words, None)
    }

    /// One that finds the programs of this directory before those of the machine.
    pub fn start_with_programs(log: &Path, words: &[&str], programs: Option<&Path>) -> Daemon {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_zester")]);
        command.args(words).env("NO_COLOR", "1").env_remove("ZESTER_NATS_URL");
        if let Some(programs) = programs {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", programs.display()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).process_group(0);
        Daemon { child: command.spawn().unwrap(), log: log.to_path_buf() }
    }

    /// What it has logged.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// As a crash.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// In its own order.
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        let said = self.log.clone();
        wait_for(&format!("the end of a daemon, see {}", said.display()), PATIENCE, || {
            self.child.try_wait().unwrap()
        })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _status = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.log.display(), self.said());
        }
    }
}
