//! Jobs and peels for people.

use super::paint::Paint;
use super::{duration_words, fleet_text};
use crate::fleet::outcome::{PeelResult, missing_words};
use std::collections::BTreeMap;
use std::fmt::Write;
use zester_client::{Peel, Returns};
use zester_wire::{Job, JobStatus, Missing, PeelId, UnixMillis};

/// `3m 20s ago`
pub fn ago(moment: UnixMillis, now: UnixMillis) -> String {
    let millis = zester_wire::time::as_millis(now.since(moment));
    match millis {
        _ if moment.is_zero() => "never".to_string(),
        0..1_000 => "just now".to_string(),
        _ => format!("{} ago", duration_words(millis - millis % 1_000).replace(".0s", "s")),
    }
}

fn status(job: &Job, paint: Paint) -> String {
    let word = format!("{:<8}", job.status.as_str());
    match job.status {
        JobStatus::Complete => paint.green(&word),
        JobStatus::Failed => paint.red(&word),
        JobStatus::Partial | JobStatus::Timeout | JobStatus::Canceled => paint.yellow(&word),
        _ => paint.cyan(&word),
    }
}

/// `state.apply web`
fn what(job: &Job) -> String {
    let test = if job.test { " --test" } else { "" };
    // A script of many lines is shown by its first.
    let first = job.state_id.lines().next().unwrap_or_default();
    let more = if first.len() < job.state_id.trim_end().len() { " …" } else { "" };
    format!("{} {first}{more}{test}", job.function).trim().to_string()
}

pub fn list(jobs: &[Job], now: UnixMillis, paint: Paint) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_string();
    }
    let mut out = String::new();
    for job in jobs {
        let counts = match job.status.is_terminal() {
            true => format!("{}/{} ok", job.success_count, job.target_count()),
            false => format!("{} peels", job.target_count()),
        };
        let _infallible = writeln!(
            out,
            "{}  {}  {:<12}  {:<14}  '{}' {}",
            job.jid,
            status(job, paint),
            counts,
            ago(job.created, now),
            job.target_expr,
            what(job)
        );
    }
    out
}

/// One job: what it is, and for each peel where it stands (J-17).
pub fn show(
    job: &Job,
    returns: &Returns,
    missing: &BTreeMap<PeelId, Missing>,
    now: UnixMillis,
    paint: Paint,
) -> String {
    let mut out = String::new();
    let _infallible =
        writeln!(out, "{}  '{}' {}", paint.bold(&format!("job {}", job.jid)), job.target_expr, what(job));
    let by = if job.user.is_empty() { String::new() } else { format!(" by {}", job.user) };
    let _infallible = writeln!(
        out,
        "{}  started {}{by}, timeout {}, master {}",
        status(job, paint).trim_end(),
        ago(job.created, now),
        duration_words(zester_wire::time::as_millis(job.timeout())),
        job.owner.name()
    );
    if !job.reason.is_empty() {
        let _infallible = writeln!(out, "{}", job.reason);
    }
    let (width, states) = (fleet_text::id_width(&job.targets), job.function.starts_with("state."));
    for peel in &job.targets {
        match (returns.get(peel), missing.get(peel)) {
            (Some(ret), why) => {
                out.push_str(&fleet_text::peel(peel, &PeelResult::of_return(ret), states, width, paint));
                if ret.late {
                    out.push_str("     returned after the job had ended\n");
                } else if let Some(why) = why.filter(|why| missing_words(**why) != ret.error) {
                    let _infallible = writeln!(out, "     {}", missing_words(*why));
                }
            }
            (None, Some(Missing::Running)) if !job.status.is_terminal() => {
                let _infallible = writeln!(out, " {} {:<width$}  running", paint.cyan("…"), peel.as_str());
            }
            (None, Some(why)) => {
                let words = missing_words(*why);
                let _infallible = writeln!(out, " {} {:<width$}  {words}", paint.yellow("!"), peel.as_str());
            }
            (None, None) => {
                let _infallible =
                    writeln!(out, " {} {:<width$}  no return", paint.yellow("!"), peel.as_str());
            }
        }
    }
    out
}

pub fn peels(peels: &[Peel], now: UnixMillis, paint: Paint) -> String {
    if peels.is_empty() {
        return "no peel has been seen yet; `zester peel run` makes this machine one\n".to_string();
    }
    let ids: Vec<PeelId> = peels.iter().map(|peel| peel.id.clone()).collect();
    let width = fleet_text::id_width(&ids);
    let mut out = String::new();
    for peel in peels {
        let (mark, word) = match peel.online {
            true => (paint.green("●"), "online "),
            false => (paint.dim("○"), "offline"),
        };
        let line = format!(
            " {mark} {:<width$}  {word}  {:<14}  {:<10}  {}",
            peel.id.as_str(),
            ago(peel.last_seen, now),
            peel.os,
            peel.version
        );
        let _infallible = writeln!(out, "{}", line.trim_end());
    }
    let online = peels.iter().filter(|peel| peel.online).count();
    let _infallible = writeln!(out, "\n{online} of {} online", peels.len());
    out
}
