//! Running an executable of the custom facts: bounded in time and output, and nothing of it left behind.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use zester_model::limits::OUTPUT_DRAIN;

/// How long to sleep between two looks at the child: short at first, as most programs end soon.
const LOOK_FIRST: Duration = Duration::from_micros(500);
const LOOK_LAST: Duration = Duration::from_millis(20);

/// What a program may take.
#[derive(Copy, Clone, Debug)]
pub struct Bounds {
    pub time: Duration,
    pub output_bytes: usize,
}

/// Runs a program without arguments and gives its output, or says in a sentence why there is none.
pub fn run(path: &Path, bounds: Bounds) -> Result<String, String> {
    let mut child = Command::new(path)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its own group, so that whatever it starts can be ended with it.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let output = gather(child.stdout.take(), bounds.output_bytes);
    let complaint = gather(child.stderr.take(), bounds.output_bytes);
    let in_time = wait_for_end(&child, Instant::now() + bounds.time);
    // The child is not reaped yet, so its id cannot belong to anybody else: the group is surely its own.
    end_group(&child);
    let status = child.wait().map_err(|error| format!("cannot be waited for: {error}"))?;
    if !in_time {
        return Err(format!("took longer than {} s", bounds.time.as_secs_f32()));
    }
    // A process that left the group may hold the output open for ever.
    let output = output.recv_timeout(OUTPUT_DRAIN).map_err(|_| "left its output open".to_string())?;
    // Before the status: a program whose output was cut off usually dies of that.
    if output.len() > bounds.output_bytes {
        return Err(format!("printed more than {} bytes", bounds.output_bytes));
    }
    if !status.success() {
        return Err(describe(status, &complaint));
    }
    String::from_utf8(output).map_err(|_| "printed what is not UTF-8".to_string())
}

/// Reads on a thread of its own up to one byte past the bound; the pipe is then closed, which ends an endless writer.
fn gather(pipe: Option<impl Read + Send + 'static>, bytes_max: usize) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let reader = move || {
        let mut content = Vec::new();
        if let Some(pipe) = pipe {
            // What could be read before an error is all there is.
            let _ = pipe.take(bytes_max as u64 + 1).read_to_end(&mut content);
        }
        // Nobody listens any more if the run was given up.
        let _ = sender.send(content);
    };
    // Without a thread there is no output, which the receiver learns from the sender being gone.
    let _ = std::thread::Builder::new().spawn(reader);
    receiver
}

/// Whether the child ended before the deadline. It is only looked at: reaping comes after its group was ended.
fn wait_for_end(child: &Child, deadline: Instant) -> bool {
    let Some(pid) = Pid::from_raw(child.id() as i32) else { return false };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let mut pause = LOOK_FIRST;
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(Some(_)) => return true,
            Ok(None) if Instant::now() >= deadline => return false,
            Ok(None) => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LOOK_LAST);
            }
            Err(_) => return false,
        }
    }
}

fn end_group(child: &Child) {
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // An error means that the group is gone already.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

fn describe(status: ExitStatus, complaint: &Receiver<Vec<u8>>) -> String {
    let said = complaint.recv_timeout(OUTPUT_DRAIN).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    match said.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => format!("failed ({status}): {line}"),
        None => format!("failed ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use zester_rule::rule;

    fn script(dir: &tempfile::TempDir, body: &str) -> std::path::PathBuf {
        let path = dir.path().join("fact");
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn outcome(body: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        run(&script(&dir, body), Bounds { time: Duration::from_secs(5), output_bytes: 1000 })
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_program_says_its_facts() {
        assert_eq!(outcome("echo '{\"a\": 1}'"), Ok("{\"a\": 1}\n".into()));
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_failing_program_is_described_by_its_last_words() {
        assert_eq!(outcome("echo so >&2; echo sad >&2; exit 3"), Err("failed (exit status: 3): sad".into()));
    }

    #[test]
    #[rule("D-7")]
    fn d7_endless_output_is_cut_off() {
        for body in ["yes", "head -c 2000 /dev/zero"] {
            assert_eq!(outcome(body), Err("printed more than 1000 bytes".into()));
        }
        assert_eq!(outcome("printf '\\377'"), Err("printed what is not UTF-8".into()));
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_program_that_does_not_end_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("child");
        let body = format!("sleep 60 & echo $! > {}; sleep 60", mark.display());
        let bounds = Bounds { time: Duration::from_millis(300), output_bytes: 1000 };
        let clock = Instant::now();
        let told = run(&script(&dir, &body), bounds).unwrap_err();
        assert!(told.contains("longer than 0.3 s"), "{told}");
        assert!(clock.elapsed() < Duration::from_secs(10));
        let child = std::fs::read_to_string(mark).unwrap();
        // The child has been re-parented and may wait to be reaped, but it sleeps no more.
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let status =
                std::fs::read_to_string(format!("/proc/{}/status", child.trim())).unwrap_or_default();
            if !status.contains("State:\tS") && !status.contains("State:\tR") {
                break;
            }
            assert!(Instant::now() < deadline, "still there: {status}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
