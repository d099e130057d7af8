//! A directory of a test's own, and the binary in it.

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub struct Scratch {
    temp: tempfile::TempDir,
}

/// What one call printed and how it ended.
pub struct Done {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Done {
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {:?} / {:?}", self.stdout, self.stderr))
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

impl Scratch {
    pub fn new() -> Scratch {
        let temp = tempfile::Builder::new().prefix("zester-test-").tempdir().unwrap();
        std::fs::create_dir(temp.path().join("states")).unwrap();
        Scratch { temp }
    }

    /// A scratch with one state file, `c`. `@T@` stands for the directory.
    pub fn with(text: &str) -> Scratch {
        let scratch = Scratch::new();
        scratch.write("states/c.zy", text);
        scratch
    }

    pub fn root(&self) -> &Path {
        self.temp.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Fills `@T@`.
    pub fn fill(&self, text: &str) -> String {
        text.replace("@T@", &self.root().display().to_string())
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, self.fill(text)).unwrap();
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zester"));
        command.args(words.iter().map(|word| self.fill(word)));
        command.current_dir(self.root()).env("NO_COLOR", "1").env("ZESTER_DATA_DIR", self.path("data"));
        command.env_remove("ZESTER_FORMAT").stdin(Stdio::null());
        command
    }

    pub fn zester(&self, words: &[&str]) -> Done {
        self.command(words).output().unwrap().into()
    }

    /// The same with `--format json`, parsed.
    pub fn json(&self, words: &[&str]) -> Json {
        let mut all = words.to_vec();
        all.extend(["--format", "json"]);
        self.zester(&all).json()
    }

    pub fn spawn(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Waits until something is so; a test that waits longer than this has failed.
pub fn wait_for(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !so() {
        assert!(Instant::now() < deadline, "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
