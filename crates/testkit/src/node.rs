//! One `nats-server` process with its ports and its directory.

use crate::port::Port;
use crate::wait::wait_for;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Generous: a busy machine was seen to take half a second.
pub const READY: Duration = Duration::from_secs(30);
const STOPPED: Duration = Duration::from_secs(10);

pub struct Node {
    binary: PathBuf,
    dir: TempDir,
    pub port: Port,
    jetstream: bool,
    child: Option<Child>,
}

impl Node {
    /// A node that is not running yet. `config` is added to what every node has.
    pub fn new(binary: &Path, config: &str) -> Node {
        let dir = Node::directory();
        let store = dir.path().join("store");
        Node::in_dir(binary, dir, &format!("{}{config}", keep_in(&store)), true)
    }

    /// One that keeps everything below another directory, which may be smaller than all limits together.
    pub fn storing_in(binary: &Path, store: &Path) -> Node {
        Node::in_dir(binary, Node::directory(), &keep_in(store), true)
    }

    fn directory() -> TempDir {
        let dir = tempfile::Builder::new().prefix("zester-nats-").tempdir();
        dir.unwrap_or_else(|error| panic!("no directory for a server: {error}"))
    }

    /// One that keeps nothing.
    pub fn without_jetstream(binary: &Path) -> Node {
        Node::in_dir(binary, Node::directory(), "", false)
    }

    fn in_dir(binary: &Path, dir: TempDir, config: &str, jetstream: bool) -> Node {
        let port = Port::claim();
        let text = format!("listen: \"127.0.0.1:{}\"\n{config}\n", port.number);
        if let Err(error) = std::fs::write(dir.path().join("server.conf"), text) {
            panic!("the config of a server: {error}");
        }
        Node { binary: binary.into(), dir, port, jetstream, child: None }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port.number)
    }

    pub fn running(&self) -> bool {
        self.child.is_some()
    }

    /// Starts the process; [`Node::wait_ready`] says when it answers.
    pub fn spawn(&mut self) {
        if self.child.is_some() {
            return;
        }
        let log = File::create(self.log());
        let log = log.unwrap_or_else(|error| panic!("the log of a server: {error}"));
        let mut command = dies_with_us(&self.binary);
        command.arg("-c").arg(self.dir.path().join("server.conf"));
        // A group of its own: Ctrl-C in a terminal is for the test, which then ends the server by dying.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0);
        let child = command.spawn();
        self.child = Some(child.unwrap_or_else(|error| panic!("{}: {error}", self.binary.display())));
    }

    /// Waits until the server greets, with JetStream on where it has it.
    pub fn wait_ready(&mut self) {
        let (number, jetstream) = (self.port.number, self.jetstream);
        let log = self.log();
        let Some(child) = self.child.as_mut() else { panic!("the server is not running") };
        wait_for("a greeting of nats-server", READY, || {
            if let Ok(Some(status)) = child.try_wait() {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                panic!("nats-server ended with {status}:\n{said}");
            }
            greeting(number).filter(|info| !jetstream || info["jetstream"] == true)
        });
    }

    /// SIGKILL: what was not synced is lost, as in a crash.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _gone_already = child.kill();
            let _status = child.wait();
        }
    }

    pub fn signal(&self, signal: Signal) {
        if let Some(child) = &self.child {
            let _gone_already = kill(Pid::from_raw(child.id().cast_signed()), signal);
        }
    }

    /// SIGSTOP, and waits until every thread stands: the signal alone lets one that runs go on for a moment.
    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
        let Some(child) = &self.child else { return };
        let tasks = PathBuf::from(format!("/proc/{}/task", child.id()));
        let stands = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // `pid (name) state …`; a thread that has just ended has no state.
            stat.rsplit(") ")
                .next()
                .is_none_or(|rest| rest.is_empty() || rest.starts_with(['T', 't', 'Z', 'X']))
        };
        wait_for("a standstill of nats-server", STOPPED, || {
            std::fs::read_dir(&tasks).ok()?.flatten().all(stands).then_some(())
        });
    }

    /// SIGTERM: the server says goodbye to its clients.
    pub fn stop(&mut self) {
        let Some(child) = self.child.as_mut() else { return };
        let pid = Pid::from_raw(child.id().cast_signed());
        let _gone_already = kill(pid, Signal::SIGTERM);
        wait_for("the end of nats-server", STOPPED, || child.try_wait().ok().flatten());
        self.child = None;
    }

    /// Its log so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            eprintln!("--- nats-server on port {} (ended: {ended:?})\n{}", self.port.number, self.said());
        }
        self.kill();
    }
}

/// The limit is said, because a server that is not told takes what is free on the disk at this moment for it: then a disk
/// that a build has filled refuses the stores of a test that needs a few kilobytes.
fn keep_in(store: &Path) -> String {
    format!("jetstream {{ store_dir: \"{}\", max_file_store: 16G }}\n", store.display())
}

/// A command whose process gets SIGKILL when the thread that spawned it ends: no destructor runs when a test is killed.
fn dies_with_us(binary: &Path) -> Command {
    let setpriv = Path::new("/usr/bin/setpriv");
    if !setpriv.is_file() {
        return Command::new(binary);
    }
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(binary);
    command
}

/// What the server says first.
fn greeting(port: u16) -> Option<serde_json::Value> {
    let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(line.strip_prefix("INFO ")?).ok()
}
