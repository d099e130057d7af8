//! Jobs and peels for people.

use super::paint::Paint;
use super::{duration_words, fleet_text};
use crate::fleet::outcome::{PeelResult, missing_words};
use std::collections::{BTreeMap, BTreeSet};
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
    let counts = |job: &Job| match job.status.is_terminal() {
        true => format!("{}/{} ok", job.success_count, job.target_count()),
        false => fleet_text::count_of(job.target_count() as usize, "peel"),
    };
    // The id alone takes a third of a line: every other column is as wide as it must be.
    let columns: Vec<[String; 2]> = jobs.iter().map(|job| [counts(job), ago(job.created, now)]).collect();
    let width = |at: usize| columns.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let (counts_width, ago_width) = (width(0), width(1));
    let mut out = String::new();
    for (job, [counts, ago]) in jobs.iter().zip(&columns) {
        let _infallible = writeln!(
            out,
            "{}  {}  {counts:<counts_width$}  {ago:<ago_width$}  '{}' {}",
            job.jid,
            status(job, paint),
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
        fleet_text::whole_words(zester_wire::time::as_millis(job.timeout())),
        job.owner.name()
    );
    if !job.reason.is_empty() {
        let _infallible = writeln!(out, "{}", job.reason);
    }
    let shown: Vec<PeelId> = if job.has_targets() {
        job.targets.clone()
    } else {
        let _infallible = writeln!(
            out,
            "the list of its {} targets is gone; who returned is shown, and who is known to be missing",
            job.target_count()
        );
        BTreeSet::from_iter(returns.keys().chain(missing.keys()).cloned()).into_iter().collect()
    };
    let (width, states) = (fleet_text::id_width(&shown), job.function.starts_with("state."));
    for peel in &shown {
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
                let words = match (*why, job.status) {
                    (Missing::Running, JobStatus::Canceled) => "told to stop; its return is not here yet",
                    (why, _) => missing_words(why),
                };
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

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::Map;
    use std::time::Duration;
    use zester_rule::rule;
    use zester_wire::{Jid, MasterId, TargetList};

    /// A job that runs on these.
    pub fn job(targets: &[PeelId]) -> Job {
        let now = UnixMillis(1_800_000_000_000);
        Job {
            v: 1,
            jid: Jid::new(now, [7; 16]),
            function: "test.ping".into(),
            args: Map::new(),
            state_id: String::new(),
            targets: targets.to_vec(),
            target_expr: "*".into(),
            timeout: Duration::from_secs(60),
            deadline: now.plus(Duration::from_secs(60)),
            status: JobStatus::Running,
            created: now,
            updated: now,
            user: "me".into(),
            owner: MasterId::new("m-1", "boot").unwrap(),
            epoch: 1,
            dispatch_epoch: 1,
            reclaim_count: 0,
            return_count: 0,
            success_count: 0,
            metadata: Map::new(),
            positionals: Vec::new(),
            test: false,
            reason: String::new(),
            missing: BTreeMap::new(),
            request: Vec::new(),
            claim_until: UnixMillis(0),
            target_digest: None,
            target_list: TargetList::of(targets),
            rest: BTreeMap::new(),
        }
    }

    #[test]
    #[rule("J-17")]
    fn j17_a_large_job_names_its_missing_and_says_when_it_cannot() {
        let names: Vec<PeelId> =
            (0..1_000).map(|at| PeelId::parse(&format!("web-{at:04}")).unwrap()).collect();
        let job = Job { status: JobStatus::Partial, ..job(&names) };
        let missing = BTreeMap::from([(names[999].clone(), Missing::Unreachable)]);
        let shown = |job: &Job| show(job, &Returns::new(), &missing, job.created, Paint::new(false));
        let whole = shown(&job);
        assert!(whole.contains("! web-0999  unreachable\n"), "{whole}");
        assert_eq!(whole.lines().count(), 1_002);
        let without_list = shown(&job.recorded());
        assert!(without_list.contains("the list of its 1000 targets is gone"), "{without_list}");
        assert!(without_list.contains("! web-0999  unreachable\n"), "{without_list}");
    }
}
