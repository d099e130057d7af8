//! Running the executables of the custom facts: bounded in time and output, nothing of them left behind, and ended with
//! the run that asked for facts (S-46).

use crate::local_host::LocalHost;
use std::path::Path;
use tokio_util::sync::CancellationToken;
use zester_facts::Bounds;
use zester_host::{Exit, Launch};

/// Runs a program without arguments and gives its output, or says in a sentence why there is none. Blocks.
pub fn run(
    path: &Path,
    bounds: Bounds,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let launch = Launch {
        cwd: Some("/".into()),
        timeout: Some(bounds.time),
        output_kept: bounds.output_bytes,
        leaves_nothing: true,
        ..Launch::argv([path.display().to_string()])
    };
    let exit = local_host
        .handle
        .block_on(local_host.processes.run(&launch, None, cancel))
        .map_err(|fault| format!("cannot be started: {}", fault.message))?;
    if exit.canceled {
        return Err("was ended with the run".to_string());
    }
    if exit.timed_out {
        return Err(format!("took longer than {} s", bounds.time.as_secs_f32()));
    }
    if exit.stdout.truncated {
        return Err(format!("printed more than {} bytes", bounds.output_bytes));
    }
    if exit.code != Some(0) {
        return Err(describe(&exit));
    }
    if exit.stdout.lossy {
        return Err("printed what is not UTF-8".to_string());
    }
    Ok(exit.stdout.text)
}

fn describe(exit: &Exit) -> String {
    let status = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_string(),
    };
    match exit.stderr.text.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(line) => format!("failed ({status}): {line}"),
        None => format!("failed ({status})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use std::time::{Duration, Instant};
    use zester_host::process::Runner;
    use zester_rule::rule;

    struct Bench {
        dir: tempfile::TempDir,
        runtime: tokio::runtime::Runtime,
        cancel: CancellationToken,
    }

    impl Bench {
        fn new() -> Bench {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            Bench {
                dir: tempfile::tempdir().unwrap(),
                runtime: runtime.unwrap(),
                cancel: CancellationToken::new(),
            }
        }

        fn run(&self, body: &str, time: Duration) -> Result<String, String> {
            let path = self.dir.path().join("fact");
            let body = body.replace("@T@", &self.dir.path().display().to_string());
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let local_host = LocalHost {
                files: Arc::new(zester_host::real::Real::new()),
                processes: Arc::new(Runner::new()),
                handle: self.runtime.handle().clone(),
                events: None,
            };
            run(&path, Bounds { time, output_bytes: 1000 }, &local_host, &self.cancel)
        }

        /// Whether the process whose number a script left is still there.
        fn lives(&self) -> bool {
            let pid = std::fs::read_to_string(self.dir.path().join("pid")).unwrap();
            let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
            !status.is_empty() && !status.contains("State:\tZ")
        }
    }

    const LONG: Duration = Duration::from_secs(30);

    fn outcome(body: &str) -> Result<String, String> {
        Bench::new().run(body, LONG)
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_program_says_its_facts() {
        assert_eq!(outcome("echo '{\"a\": 1}'"), Ok("{\"a\": 1}\n".into()));
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_failing_program_is_described_by_its_last_words() {
        assert_eq!(outcome("echo so >&2; echo sad >&2; exit 3"), Err("failed (exit code 3): sad".into()));
    }

    #[test]
    #[rule("D-7")]
    fn d7_too_much_output_and_what_is_no_text_are_refused() {
        assert_eq!(outcome("head -c 2000 /dev/zero"), Err("printed more than 1000 bytes".into()));
        assert_eq!(outcome("printf '\\377'"), Err("printed what is not UTF-8".into()));
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_program_that_does_not_end_is_ended_with_its_children() {
        let bench = Bench::new();
        let body = "setsid sleep 60 & echo $! > @T@/pid; yes";
        let told = bench.run(body, Duration::from_millis(500)).unwrap_err();
        assert!(told.contains("longer than 0.5 s"), "{told}");
        assert!(!bench.lives());
    }

    #[test]
    #[rule("D-7")]
    fn d7_what_a_program_leaves_in_the_background_is_ended_with_it() {
        let bench = Bench::new();
        bench.run("sleep 60 >&- 2>&- & echo $! > @T@/pid", LONG).unwrap();
        assert!(!bench.lives());
    }

    #[test]
    #[rule("S-46")]
    fn s46_a_program_dies_with_the_run_that_asked_for_facts() {
        let bench = Bench::new();
        let (begun, cancel) = (bench.dir.path().join("pid"), bench.cancel.clone());
        let canceller = std::thread::spawn(move || {
            let deadline = Instant::now() + LONG;
            while !begun.exists() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            cancel.cancel();
        });
        let clock = Instant::now();
        let told =
            bench.run("(setsid sleep 60 & echo $! > @T@/pid.new; mv @T@/pid.new @T@/pid); sleep 60", LONG);
        canceller.join().unwrap();
        assert_eq!(told, Err("was ended with the run".into()));
        assert!(!bench.lives());
        assert!(clock.elapsed() < LONG, "it was waited for");
    }
}
