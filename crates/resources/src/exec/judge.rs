//! How a command ended, in details and in a verdict.

use std::time::Duration;
use zester_host::{Captured, Exit, Fault, FaultKind};
use zester_model::limits::STDERR_TAIL_LINES;
use zester_model::outcome::Details;

pub(super) fn details(command: String, exit: &Exit) -> Details {
    let mut details = Details::new();
    details.insert("command".into(), command.into());
    details.insert("exit_code".into(), exit.code.into());
    details.insert("stdout".into(), exit.stdout.text.clone().into());
    details.insert("stderr".into(), exit.stderr.text.clone().into());
    details.insert("pid".into(), exit.pid.into());
    details.insert("timed_out".into(), exit.timed_out.into());
    details.insert("signal".into(), exit.signal.into());
    let marks = [("stdout", &exit.stdout), ("stderr", &exit.stderr)];
    for (name, captured) in marks {
        let Captured { lossy, truncated, .. } = captured;
        for (mark, set) in [("lossy", lossy), ("truncated", truncated)] {
            if *set {
                details.insert(format!("{name}_{mark}"), true.into());
            }
        }
    }
    if !exit.survivors.is_empty() {
        details.insert("survivors".into(), exit.survivors.clone().into());
    }
    details
}

/// Success, or what to say. A `creates` that exists now wins over any exit code.
pub(super) fn judge(
    exit: &Exit,
    returns: &[i64],
    created: bool,
    timeout: Option<Duration>,
) -> Result<(), Fault> {
    if exit.canceled {
        return Err(Fault::canceled());
    }
    if exit.timed_out {
        let after = timeout.unwrap_or_default();
        return Err(Fault::new(FaultKind::TimedOut, format!("timed out after {after:?}")));
    }
    if created {
        return Ok(());
    }
    let verdict = match (exit.code, exit.signal) {
        (Some(code), _) if returns.contains(&i64::from(code)) => return Ok(()),
        (Some(code), _) => format!("exit code {code} not in {returns:?}"),
        (None, Some(signal)) => format!("killed by signal {signal}{}", name_of(signal)),
        (None, None) => "it could not be waited for".to_string(),
    };
    let tail = tail(&exit.stderr.text);
    let separator = if tail.is_empty() { "" } else { "\n" };
    let message = format!("desired state failed: {verdict}{separator}{tail}");
    Err(Fault::new(FaultKind::CommandFailed, message))
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        6 => " (SIGABRT)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

/// The last lines of stderr, where the reason usually stands.
fn tail(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.trim_end().lines().collect();
    lines[lines.len().saturating_sub(STDERR_TAIL_LINES)..].join("\n")
}

pub(super) fn malformed(why: String) -> Fault {
    Fault::new(FaultKind::Unsupported, format!("the command cannot be split into words: {why}"))
}
