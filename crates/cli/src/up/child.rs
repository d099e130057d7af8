//! One process of the fleet. It ends with us, whatever becomes of us.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::time::Instant;

/// How long a process may take to stop in order. A peel first ends what it runs.
const STOP_WAIT: Duration = Duration::from_secs(15);
const LOOK_PAUSE: Duration = Duration::from_millis(10);

pub struct Child {
    name: String,
    log: PathBuf,
    process: std::process::Child,
    /// Its end was told already.
    reported: bool,
}

impl Child {
    /// Starts a program by way of `zester with-parent`. A group of its own: Ctrl-C is for us, who take it down in order.
    pub fn start(
        name: &str,
        binary: &Path,
        program: &Path,
        words: &[OsString],
        environment: &[(&str, &str)],
        log: &Path,
        kill: bool,
    ) -> Result<Child, String> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
        let file = file.map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let mut command = Command::new(binary);
        command.arg("with-parent").arg(format!("--parent={}", std::process::id()));
        if kill {
            command.arg("--kill");
        }
        command.arg("--").arg(program).args(words);
        // What is meant for this command is not meant for its children.
        for name in [
            "ZESTER_ID",
            "ZESTER_CREDS",
            "ZESTER_CA",
            "ZESTER_DATA_DIR",
            "ZESTER_HEALTH",
            "ZESTER_FORMAT",
            "ZESTER_MASTER",
            "ZESTER_PIN",
            "ZESTER_JOIN_TOKEN",
        ] {
            command.env_remove(name);
        }
        command.envs(environment.iter().copied());
        let output = file.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(output).stderr(file).process_group(0);
        let process = command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?;
        Ok(Child { name: name.to_string(), log: log.to_path_buf(), process, reported: false })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// How it ended, once.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let how = self.process.try_wait().ok().flatten().filter(|_| !self.reported)?;
        self.reported = true;
        Some(how)
    }

    pub fn exit_message(&self, how: &ExitStatus) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        format!("{} ended ({how}): {last}; its log: {}", self.name, self.log.display())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _gone_already = rustix::process::kill_process(pid, signal);
        }
    }

    fn is_over(&mut self) -> bool {
        !matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_over() {
            let _gone_already = self.process.kill();
            let _status = self.process.wait();
        }
    }
}

/// Asks all of them to stop, and makes those who do not.
pub async fn stop(children: &mut [Child]) {
    for child in children.iter_mut().filter_map(|child| (!child.is_over()).then_some(child)) {
        child.signal(rustix::process::Signal::TERM);
        // One that was stopped by a debugger or a test must hear it too.
        child.signal(rustix::process::Signal::CONT);
    }
    let end = Instant::now() + STOP_WAIT;
    while Instant::now() < end && !children.iter_mut().all(Child::is_over) {
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    for child in children.iter_mut().filter_map(|child| (!child.is_over()).then_some(child)) {
        let _gone_already = child.process.kill();
        let _status = child.process.wait();
    }
}
