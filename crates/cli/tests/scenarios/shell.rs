//! Lines of a shell as a document says them, run in a directory of their own.

use crate::daemon::PATIENCE;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use zester_testkit::wait_for;

/// A shell's words, in a directory of its own, with the binary under test and a server on the path.
pub struct Shell {
    pub dir: tempfile::TempDir,
    exported: Vec<(String, String)>,
    /// What the server chose, once it runs.
    port: Option<u16>,
    /// What the door of the first master chose.
    door: Option<u16>,
    pub background: Vec<Child>,
}

impl Shell {
    pub fn new() -> Shell {
        let dir = tempfile::Builder::new().prefix("zester-keys-").tempdir().unwrap();
        std::fs::create_dir(dir.path().join("states")).unwrap();
        let hello = dir.path().join("hello");
        let state = format!("{}:\n  file.managed:\n    - content: hi\n", hello.display());
        std::fs::write(dir.path().join("states/hello.zy"), state).unwrap();
        Shell { dir, exported: Vec::new(), port: None, door: None, background: Vec::new() }
    }

    pub fn command(&self, line: &str) -> Command {
        let line = self.with_port(line);
        let binary = Path::new(env!("CARGO_BIN_EXE_zester")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "bash", "-c"]).arg(format!("exec {line}"));
        command.current_dir(self.dir.path()).env("NO_COLOR", "1").env_remove("ZESTER_NATS_URL");
        command.env("PATH", format!("{}:{path}:/usr/sbin", binary.display()));
        command.env("HOME", self.dir.path()).envs(self.exported.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Runs a line, again and again until it succeeds: what it needs may just be starting.
    pub fn succeeds(&self, line: &str) -> String {
        let mut last = String::new();
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let output = self.command(line).output().unwrap();
            if output.status.success() {
                return String::from_utf8_lossy(&output.stdout).into_owned();
            }
            last.clear();
            for said in [&output.stdout, &output.stderr] {
                last.push_str(&String::from_utf8_lossy(said));
            }
            assert!(std::time::Instant::now() < end, "{line}: {last}\n{}", self.logs());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    pub fn begins(&mut self, line: &str) {
        let log = self.dir.path().join(format!("{}.log", self.background.len()));
        let log = std::fs::File::create(log).unwrap();
        let mut command = self.command(line);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.background.push(command.spawn().unwrap());
    }

    /// Ends what runs in the background as a terminal would, and waits for that.
    pub fn stop(&mut self, number: usize) {
        let child = &mut self.background[number];
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
        wait_for("the end of a daemon", PATIENCE, || child.try_wait().unwrap());
    }

    pub fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("{number}.log"))).unwrap_or_default()
    }

    fn logs(&self) -> String {
        (0..self.background.len()).map(|number| format!("--- {number}\n{}\n", self.log(number))).collect()
    }

    /// Does what a block of shell says.
    pub fn follow(&mut self, block: &str) {
        for line in block.lines() {
            if let Some(words) = line.strip_prefix("export ") {
                let words = self.with_port(words);
                let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.into(), value.into()));
                self.exported.extend(words.split(' ').filter_map(pair));
            } else if let Some(line) = line.strip_suffix(" &") {
                if line.starts_with("nats-server") {
                    self.serve(line);
                } else if line.contains("--listen") {
                    self.open_door(line);
                } else {
                    self.begins(line);
                    // A server of 2.9 that loads two accounts for two clients at once may join them badly for good.
                    if line.starts_with("zester master run") {
                        self.wait_for_master();
                    }
                }
            } else {
                self.succeeds(line);
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Documents say 4222; a test takes the port that its own server chose.
    fn with_port(&self, line: &str) -> String {
        let mut line = line.to_string();
        for (said, chosen) in [("4222", self.port), ("4443", self.door)] {
            line = chosen.map_or(line.clone(), |port| line.replace(said, &port.to_string()));
        }
        line
    }

    /// Starts a master whose door is at a port that it chooses itself. Its data directory is `master`.
    pub fn open_door(&mut self, line: &str) {
        let chosen = line.replace(":4443", ":0");
        assert_ne!(chosen, line, "the door is at 4443");
        self.begins(&chosen);
        self.door = Some(wait_for("the door of the master", PATIENCE, || {
            let address = std::fs::read_to_string(self.path("master/door.address")).ok()?;
            address.trim().rsplit_once(':')?.1.parse().ok()
        }));
        self.wait_for_master();
    }

    /// Until the one that began last has its stores.
    fn wait_for_master(&self) {
        let number = self.background.len() - 1;
        wait_for("the master", PATIENCE, || {
            self.log(number).contains("the index of peels is complete").then_some(())
        });
    }

    /// Where the door is.
    pub fn door(&self) -> u16 {
        self.door.unwrap()
    }

    /// Starts the server on a port that it chooses itself, so that two tests never want the same one.
    fn serve(&mut self, line: &str) {
        let file = self.path("keys/nats-server.conf");
        let config = std::fs::read_to_string(&file).unwrap();
        let chosen = config.replace(":4222\"", ":-1\"");
        assert_ne!(chosen, config, "the server listens at 4222");
        let ports = format!("ports_file_dir: {:?}\n", self.dir.path().display().to_string());
        std::fs::write(&file, format!("{ports}{chosen}")).unwrap();
        self.begins(line);
        self.port = Some(wait_for("the port of the server", PATIENCE, || {
            let mut files = std::fs::read_dir(self.dir.path()).ok()?.flatten();
            let ports = files.find(|file| file.path().extension().is_some_and(|ending| ending == "ports"))?;
            let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(ports.path()).ok()?).ok()?;
            ports["nats"][0].as_str()?.rsplit_once(':')?.1.parse().ok()
        }));
    }

    /// Starts the server again that ended, on the port that it had.
    pub fn restart_server(&mut self) {
        let file = self.path("keys/nats-server.conf");
        let config = std::fs::read_to_string(&file).unwrap();
        let port = self.port.unwrap();
        std::fs::write(&file, config.replace(":-1\"", &format!(":{port}\""))).unwrap();
        let mut command = self.command("nats-server -c keys/nats-server.conf");
        let log = std::fs::OpenOptions::new().append(true).open(self.path("0.log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.background[0] = command.spawn().unwrap();
    }

    /// Where a daemon that was begun with `--health 0` tells how it is, and what it tells there.
    pub fn metrics(&self, number: usize) -> String {
        self.health(number, "/metrics")
    }

    /// The same at another path.
    pub fn health(&self, number: usize, path: &str) -> String {
        let log = self.log(number);
        let Some((_, rest)) = log.split_once("health is served address=") else { return String::new() };
        let address = rest.split_whitespace().next().unwrap();
        let Ok(mut stream) = std::net::TcpStream::connect(address) else { return String::new() };
        let asked = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(asked.as_bytes()).unwrap();
        let mut text = String::new();
        let _read = stream.read_to_string(&mut text);
        text
    }

    /// What runs the server, for who connects past the binary.
    pub fn url(&self) -> String {
        format!("tls://localhost:{}", self.port.unwrap())
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        for child in &mut self.background {
            let _gone_already = child.kill();
            let _status = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
    }
}
