//! A fleet of `zester up`, which ends with this value.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// In which `/proc` counts the time of a process, on every Linux that we run on.
const TICKS_PER_SECOND: f64 = 100.0;

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
        Up::start_with(zester, scratch, &[])
    }

    /// The same with more words on its command line.
    pub fn start_with(zester: &Path, scratch: &Path, words: &[String]) -> Result<Up, String> {
        let fail = |error: std::io::Error| format!("zester up: {error}");
        let mut process = Command::new(zester)
            .args(["up", "--peels", "1", "--format", "json"])
            .args(words)
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
        let id = processes()?.into_iter().find(|id| self.is_child(*id, who)).ok_or_else(missing)?;
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

    /// What the server of this fleet has used of the processors so far.
    pub fn server_cpu_ms(&self) -> Result<f64, String> {
        let missing = || "the server of this fleet was not found".to_string();
        let id = processes()?.into_iter().find(|id| self.is_server(*id)).ok_or_else(missing)?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).map_err(|error| error.to_string())?;
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks =
            |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
        Ok((ticks(11) + ticks(12)) * 1000.0 / TICKS_PER_SECOND)
    }

    fn is_server(&self, id: u32) -> bool {
        let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
        name.trim() == "nats-server" && self.is_parent_of(id)
    }

    fn is_parent_of(&self, id: u32) -> bool {
        let parent = format!("PPid:\t{}", self.process.id());
        status(id).is_some_and(|status| status.lines().any(|line| line == parent))
    }

    fn is_child(&self, id: u32, who: &str) -> bool {
        let words = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
        words.get(1..3) == Some(&[who.as_bytes(), b"run"]) && self.is_parent_of(id)
    }
}

fn processes() -> Result<Vec<u32>, String> {
    let entries = std::fs::read_dir("/proc").map_err(|error| error.to_string())?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
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
