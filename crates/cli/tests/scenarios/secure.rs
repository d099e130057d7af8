//! Fleets whose members have keys: from nothing as the README says it, and what happens to who is not wanted any more.

use crate::daemon::{Daemon, PATIENCE};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use zester_rule::rule;
use zester_testkit::wait_for;

const README: &str = include_str!("../../../../README.md");

/// A shell's words, in a directory of its own, with the binary under test and a server on the path.
struct Shell {
    dir: tempfile::TempDir,
    exported: Vec<(String, String)>,
    port: u16,
    background: Vec<Child>,
}

impl Shell {
    fn new() -> Shell {
        let dir = tempfile::Builder::new().prefix("zester-keys-").tempdir().unwrap();
        std::fs::create_dir(dir.path().join("states")).unwrap();
        let hello = dir.path().join("hello");
        let state = format!("{}:\n  file.managed:\n    - content: hi\n", hello.display());
        std::fs::write(dir.path().join("states/hello.zy"), state).unwrap();
        Shell { dir, exported: Vec::new(), port: free_port(), background: Vec::new() }
    }

    fn command(&self, line: &str) -> Command {
        let line = line.replace("4222", &self.port.to_string());
        let line = match line.starts_with("zester auth init") {
            true => format!("{line} --port {}", self.port),
            false => line,
        };
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
    fn succeeds(&self, line: &str) -> String {
        let mut last = String::new();
        let end = std::time::Instant::now() + PATIENCE;
        loop {
            let output = self.command(line).output().unwrap();
            if output.status.success() {
                return String::from_utf8_lossy(&output.stdout).into_owned();
            }
            last.clear();
            last.push_str(&String::from_utf8_lossy(&output.stderr));
            assert!(std::time::Instant::now() < end, "{line}: {last}\n{}", self.logs());
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    fn begins(&mut self, line: &str) {
        let log = self.dir.path().join(format!("{}.log", self.background.len()));
        let log = std::fs::File::create(log).unwrap();
        let mut command = self.command(line);
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.background.push(command.spawn().unwrap());
    }

    fn log(&self, number: usize) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("{number}.log"))).unwrap_or_default()
    }

    fn logs(&self) -> String {
        (0..self.background.len()).map(|number| format!("--- {number}\n{}\n", self.log(number))).collect()
    }

    /// Does what a block of shell says.
    fn follow(&mut self, block: &str) {
        for line in block.lines() {
            if let Some(words) = line.strip_prefix("export ") {
                let words = words.replace("4222", &self.port.to_string());
                let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.into(), value.into()));
                self.exported.extend(words.split(' ').filter_map(pair));
            } else if let Some(line) = line.strip_suffix(" &") {
                self.begins(line);
            } else {
                self.succeeds(line);
            }
        }
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

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The commands of a section of the README.
fn block(section: &str) -> &'static str {
    let (_, rest) = README.split_once(section).unwrap();
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
#[rule("I-1", "I-3", "I-8")]
fn i1_from_nothing_to_a_fleet_with_keys_as_the_readme_says_it() {
    let mut shell = Shell::new();
    shell.follow(block("## In production"));
    assert_eq!(std::fs::read_to_string(shell.dir.path().join("hello")).unwrap(), "hi");
    for (number, who) in [(1, "master"), (2, "peel")] {
        let said = shell.log(number);
        assert!(said.contains("messages are signed"), "{who}: {said}");
        assert!(!said.contains("dropped a message"), "{who}: {said}");
    }
    // Every secret is its owner's alone.
    assert!(shell.succeeds("zester auth lint --dir keys").contains("nothing is wrong"));
    // Without the CA, without credentials, and in plaintext nobody gets in.
    let url = "--nats tls://localhost:4222";
    for words in [
        format!("zester peel list {url} --creds keys/creds/admin.creds"),
        format!("zester peel list {url} --ca keys/tls/ca.pem"),
    ] {
        let mut command = shell.command(&words);
        for name in ["ZESTER_CA", "ZESTER_CREDS", "ZESTER_NATS_URL"] {
            command.env_remove(name);
        }
        assert!(!command.output().unwrap().status.success(), "{words}");
    }
    // Somebody else's name with these credentials.
    let other = shell.run("zester peel run --id web-02 --creds keys/creds/web-01.creds --data-dir other");
    assert!(String::from_utf8_lossy(&other.stderr).contains("the credentials are of `web-01`"));
}

#[test]
#[rule("I-5", "I-15")]
fn i5_a_revoked_peel_is_out_at_once_and_a_master_gets_a_new_key_without_a_stop() {
    let mut shell = Shell::new();
    shell.follow(block("## In production"));
    let shell = &mut shell;
    // This one makes its key itself: what is issued for it holds no secret.
    let key = shell.succeeds("zester auth key web-02.nk");
    assert_eq!(key, shell.succeeds("zester auth key web-02.nk"), "made once");
    shell.succeeds(&format!("zester auth issue web-02 --key {} --dir keys", key.trim()));
    let issued = std::fs::read_to_string(shell.dir.path().join("keys/creds/web-02.creds")).unwrap();
    assert!(!issued.contains("SEED"));
    std::fs::rename(shell.dir.path().join("keys/creds/web-02.creds"), shell.dir.path().join("web-02.creds"))
        .unwrap();
    shell.begins(
        "zester peel run --id web-02 --nats tls://localhost:4222 --ca keys/tls/ca.pem --creds web-02.creds --data-dir web-02",
    );
    shell.succeeds("zester web-02 test.ping");
    shell.succeeds("zester auth revoke web-01 --dir keys");
    wait_for("the end of the revoked connection", PATIENCE, || {
        let answer = shell.run("zester web-01 test.ping --direct --timeout 2s");
        (answer.status.code() == Some(3)).then_some(())
    });
    shell.succeeds("zester web-02 test.ping");
    // The master goes on with its old key while a second one starts with the new.
    shell.succeeds("zester auth rotate master --dir keys");
    shell.succeeds("zester auth push --dir keys");
    shell.succeeds("zester web-02 test.ping");
    shell.begins(
        "zester master run --id second --nats tls://localhost:4222 --ca keys/tls/ca.pem --creds keys/creds/master.creds --data-dir second",
    );
    let second = shell.background.len() - 1;
    wait_for("the second master", PATIENCE, || {
        shell.log(second).contains("the index of peels is complete").then_some(())
    });
    for _ in 0..5 {
        shell.succeeds("zester web-02 test.ping");
    }
    assert!(!shell.log(second).contains("dropped a message"), "{}", shell.log(second));
    let shown = shell.succeeds("zester auth show --dir keys");
    assert_eq!(shown.matches("master   master").count(), 2, "{shown}");
    assert!(shown.lines().any(|line| line.contains("web-01") && line.contains("revoked")), "{shown}");
}

#[test]
#[rule("I-8")]
fn i8_a_whole_fleet_with_keys_on_one_machine() {
    let dir = tempfile::tempdir().unwrap();
    let (place, log) = (dir.path().join("up"), dir.path().join("log"));
    let words =
        ["up", "--secure", "--peels", "2", "--name", "secure-test", "--data-dir", place.to_str().unwrap()];
    let mut up = Daemon::start(&log, &words);
    let config: PathBuf = place.join("auth/creds/admin.creds");
    let url = wait_for("the address of the server", PATIENCE, || {
        let mut files = std::fs::read_dir(&place).ok()?.flatten();
        let ports = files.find(|file| file.path().extension().is_some_and(|ending| ending == "ports"))?;
        let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(ports.path()).ok()?).ok()?;
        Some(ports["nats"][0].as_str()?.to_string())
    });
    let ask = |words: &[&str], creds: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zester"));
        command.args(words).args(["--nats", &url]).env_remove("ZESTER_NATS_URL").env_remove("ZESTER_CREDS");
        command.args(creds.iter().flat_map(|path| ["--creds", path.to_str().unwrap()]));
        command.output().unwrap()
    };
    wait_for("both peels", PATIENCE, || {
        let answer = ask(&["*", "test.ping"], Some(&config));
        let said = String::from_utf8_lossy(&answer.stdout).into_owned();
        (answer.status.success() && said.contains("peel-2")).then_some(())
    });
    assert!(!ask(&["*", "test.ping"], None).status.success(), "without credentials");
    // A peel may not ask for a job, whatever it tries.
    let peel = place.join("auth/creds/peel-1.creds");
    assert!(!ask(&["peel-2", "test.ping", "--timeout", "2s"], Some(&peel)).status.success());
    assert!(!ask(&["peel-2", "test.ping", "--direct", "--timeout", "2s"], Some(&peel)).status.success());
    assert!(up.stop().success());
}
