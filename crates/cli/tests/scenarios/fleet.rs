//! Masters and peels on one bus, quick to notice what happens, and the command line that asks them.

use crate::daemon::{Daemon, PATIENCE};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use zester_testkit::wait_for;

/// The timings of a fleet that does not let a test wait. Who lives is not taken for dead because the machine is busy for a
/// few seconds.
const QUICK: &[&str] = &[
    "timing.master_heartbeat=500ms",
    "timing.master_ttl=8s",
    "timing.orphan_scan=1s",
    "timing.ack_window=1s",
    "timing.unreachable_grace=1s",
    "timing.peel_heartbeat=1s",
    "timing.peel_ttl=4s",
    "timing.reconnect_spread=1s",
];

pub struct Fleet {
    pub urls: String,
    /// Settings of every daemon.
    timing: &'static [&'static str],
    pub masters: BTreeMap<String, Daemon>,
    pub peels: BTreeMap<String, Daemon>,
    /// Last, so that the logs can still be read when the daemons end.
    pub dir: tempfile::TempDir,
}

impl Fleet {
    pub fn new(urls: &str) -> Fleet {
        let dir = tempfile::Builder::new().prefix("zester-fleet-").tempdir().unwrap();
        std::fs::create_dir(dir.path().join("states")).unwrap();
        let (masters, peels) = (BTreeMap::new(), BTreeMap::new());
        Fleet { dir, urls: urls.to_string(), timing: QUICK, masters, peels }
    }

    /// One that takes its time as it would anywhere.
    pub fn with_default_timing(urls: &str) -> Fleet {
        Fleet { timing: &[], ..Fleet::new(urls) }
    }

    /// One with settings of its own for every daemon.
    pub fn with_timing(urls: &str, timing: &'static [&'static str]) -> Fleet {
        Fleet { timing, ..Fleet::new(urls) }
    }

    /// With so many of both, and all of them there.
    pub fn start(urls: &str, masters: usize, peels: usize) -> Fleet {
        Fleet::new(urls).started(masters, peels)
    }

    pub fn started(mut self, masters: usize, peels: usize) -> Fleet {
        let fleet = &mut self;
        (1..=masters).for_each(|number| fleet.start_master(&format!("m{number}")));
        (1..=peels).for_each(|number| fleet.start_peel(&format!("p{number}")));
        fleet.wait_online(peels);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn daemon(&self, role: &str, name: &str, urls: &str, more: &[&str]) -> Daemon {
        self.daemon_of(role, name, urls, more, None)
    }

    /// One that finds the programs of this directory before those of the machine.
    pub fn daemon_with_programs(&self, role: &str, name: &str, programs: &Path, more: &[&str]) -> Daemon {
        self.daemon_of(role, name, &self.urls, more, Some(programs))
    }

    fn daemon_of(
        &self,
        role: &str,
        name: &str,
        urls: &str,
        more: &[&str],
        programs: Option<&Path>,
    ) -> Daemon {
        let (data, states) = (self.path(name), self.path("states"));
        let (data, states) = (data.display().to_string(), states.display().to_string());
        let mut words =
            vec![role, "run", "--id", name, "--nats", urls, "--data-dir", &data, "--states", &states];
        words.extend(self.timing.iter().flat_map(|set| ["--set", set]));
        words.extend(more);
        Daemon::start_with_programs(&self.path(&format!("{name}.log")), &words, programs)
    }

    pub fn start_master(&mut self, name: &str) {
        let daemon = self.daemon("master", name, &self.urls, &[]);
        self.masters.insert(name.to_string(), daemon);
    }

    pub fn start_master_with(&mut self, name: &str, more: &[&str]) {
        let daemon = self.daemon("master", name, &self.urls, more);
        self.masters.insert(name.to_string(), daemon);
    }

    pub fn start_master_with_health(&mut self, name: &str, port: u16) {
        let daemon = self.daemon("master", name, &self.urls, &["--health", &format!("127.0.0.1:{port}")]);
        self.masters.insert(name.to_string(), daemon);
    }

    pub fn start_peel(&mut self, name: &str) {
        let urls = self.urls.clone();
        self.start_peel_by(name, &urls);
    }

    /// A peel that takes another way to the bus.
    pub fn start_peel_by(&mut self, name: &str, urls: &str) {
        let daemon = self.daemon("peel", name, urls, &[]);
        self.peels.insert(name.to_string(), daemon);
    }

    /// A peel that also does what a file says.
    pub fn start_scheduled_peel(&mut self, name: &str, file: &str) {
        let file = self.path(file).display().to_string();
        let daemon = self.daemon("peel", name, &self.urls, &["--schedule", &file]);
        self.peels.insert(name.to_string(), daemon);
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zester"));
        command
            .args(words)
            .env("NO_COLOR", "1")
            .env("ZESTER_NATS_URL", &self.urls)
            .env_remove("ZESTER_FORMAT");
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    pub fn zester(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    pub fn json(&self, words: &[&str]) -> Json {
        let mut all = words.to_vec();
        all.extend(["--format", "json"]);
        let output = self.zester(&all);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            panic!("{words:?}: not JSON ({error}): {:?} / {said}", String::from_utf8_lossy(&output.stdout))
        })
    }

    /// Waits until every master has heard so many peels. Which of them answers is chance, so they are asked until nobody
    /// can be left who has not.
    pub fn wait_online(&self, peels: usize) {
        let all_online = || {
            let output = self.zester(&["peel", "list", "--format", "json"]);
            let list: Json = serde_json::from_slice(&output.stdout).ok()?;
            let online = list["peels"].as_array()?.iter().filter(|peel| peel["online"] == true).count();
            (online >= peels).then_some(())
        };
        let answers = if self.masters.len() > 1 && peels > 0 { 24 } else { 1 };
        wait_for("all peels online", PATIENCE, || (0..answers).map(|_| all_online()).collect::<Option<()>>());
        // Nobody is there to answer, so nobody can tell whether a master does.
        if peels == 0 {
            return;
        }
        // The buckets say that they are there; masters say whom they know.
        wait_for("a master that knows them", PATIENCE, || {
            let output = self.zester(&["*", "test.ping", "--timeout", "10s", "--format", "json"]);
            let answer: Json = serde_json::from_slice(&output.stdout).ok()?;
            (answer["peels"].as_object()?.len() >= peels && answer["status"] == "complete").then_some(())
        });
    }

    /// Work that leaves a line per execution and ends when [`Fleet::open`] lets it. Returns the job's id.
    pub fn dispatch_gated(&self, target: &str, gate: &str) -> String {
        self.dispatch_gated_for(target, gate, "120s")
    }

    pub fn dispatch_gated_for(&self, target: &str, gate: &str, timeout: &str) -> String {
        let command = format!(
            "echo begun >> {lines}; while [ ! -e {gate} ]; do sleep 0.05; done; echo done",
            lines = self.path(&format!("{gate}.lines")).display(),
            gate = self.path(gate).display()
        );
        let words = [target, "cmd.run", &format!("name={command}"), "--timeout", timeout, "--async"];
        self.json(&words)["jid"].as_str().unwrap().to_string()
    }

    pub fn open(&self, gate: &str) {
        std::fs::write(self.path(gate), "").unwrap();
    }

    /// How many executions of gated work have begun, on all peels.
    pub fn begun(&self, gate: &str) -> usize {
        let lines = std::fs::read_to_string(self.path(&format!("{gate}.lines"))).unwrap_or_default();
        lines.lines().count()
    }

    pub fn wait_begun(&self, gate: &str, count: usize) {
        wait_for("the work to begin everywhere", PATIENCE, || (self.begun(gate) >= count).then_some(()));
    }

    /// How many shells wait for a gate, or have not seen yet that it is open.
    pub fn waiting_at(&self, gate: &str) -> usize {
        let gate = self.path(gate).display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let waits =
            |line: &Vec<u8>| line.starts_with(b"/bin/sh") && String::from_utf8_lossy(line).contains(&gate);
        lines.filter(waits).count()
    }

    /// Lets gated work end, and waits until it has.
    pub fn end(&self, gate: &str) {
        self.open(gate);
        wait_for("the end of the work", PATIENCE, || (self.waiting_at(gate) == 0).then_some(()));
    }

    pub fn job(&self, jid: &str) -> Json {
        self.json(&["job", "show", jid])
    }

    /// Waits until the job is over, and returns it.
    pub fn wait_over(&self, jid: &str) -> Json {
        wait_for("the end of the job", PATIENCE, || {
            let output = self.zester(&["job", "show", jid, "--format", "json"]);
            let job: Json = serde_json::from_slice(&output.stdout).ok()?;
            let open = ["pending", "claimed", "running"].contains(&job["status"].as_str()?);
            (!open).then_some(job)
        })
    }

    /// The name of the master that owns a job now.
    pub fn owner(&self, jid: &str) -> String {
        let job = self.job(jid);
        let owner = job["owner"].as_str().unwrap();
        owner.split('.').next().unwrap().to_string()
    }
}
