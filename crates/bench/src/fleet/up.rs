//! A fleet of `zester up`, which ends with this value.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

pub struct Up {
    process: Child,
    pub url: String,
}

#[derive(Copy, Clone, Debug, Default)]
pub struct Memory {
    pub resident_mb: f64,
    /// Pages of the program itself, which processes of the same program share.
    pub files_mb: f64,
    /// Pages that nobody else has.
    pub own_mb: f64,
    pub threads: f64,
}

impl Up {
    /// Comes back when the peel is online.
    pub fn start(zester: &Path, scratch: &Path) -> Result<Up, String> {
        let fail = |error: std::io::Error| format!("zester up: {error}");
        let mut process = Command::new(zester)
            .args(["up", "--peels", "1", "--format", "json"])
            // Not where another `up` of this user leaves its address.
            .env("XDG_RUNTIME_DIR", scratch)
            .current_dir(scratch)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(fail)?;
        let stdout = process.stdout.take();
        // From here on the process ends with the value, whatever goes wrong.
        let mut up = Up { process, url: String::new() };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).map_err(fail)?;
        }
        let told: Json = serde_json::from_str(&line).map_err(|_| format!("zester up said: {line}"))?;
        up.url = told["url"].as_str().unwrap_or_default().to_string();
        Ok(up)
    }

    /// The memory of the `zester WHO run` of this fleet.
    pub fn memory_of(&self, who: &str) -> Result<Memory, String> {
        let missing = || format!("no process of `zester {who} run` was found");
        let entries = std::fs::read_dir("/proc").map_err(|error| error.to_string())?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
        let id = ids.into_iter().find(|id| self.is_child(*id, who)).ok_or_else(missing)?;
        let status = status(id).ok_or_else(missing)?;
        let number = |key: &str| -> f64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        Ok(Memory {
            resident_mb: number("VmRSS") / 1024.0,
            files_mb: number("RssFile") / 1024.0,
            own_mb: number("RssAnon") / 1024.0,
            threads: number("Threads"),
        })
    }

    fn is_child(&self, id: u32, who: &str) -> bool {
        let parent = format!("PPid:\t{}", self.process.id());
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        words.get(1..3) == Some(&[who.as_bytes(), b"run"])
            && status(id).is_some_and(|status| status.lines().any(|line| line == parent))
    }
}

fn status(id: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{id}/status")).ok()
}

impl Drop for Up {
    fn drop(&mut self) {
        // It takes its children down by itself.
        if let Ok(id) = i32::try_from(self.process.id()) {
            let _gone_already = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let _status = self.process.wait();
    }
}
