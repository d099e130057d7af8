//! Jobs and peels for people.

use super::paint::Paint;
use super::peel_text::{self, Depth, PeelShown};
use super::shell::{self, cut};
use super::wrap::WIDTH;
use super::{duration_words, fleet_text};
use crate::fleet::outcome::{PeelResult, missing_words};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use zester_client::{Peel, Returns};
use zester_wire::{Cause, Job, JobStatus, Missing, PeelId, UnixMillis};

/// Letters of a call that `job show` prints: a few lines of a terminal.
const CALL_SHOWN: usize = 4 * WIDTH;
/// Lines of what changed on all peels together; JSON has all of it.
const CHANGES_SHOWN: usize = 400;

/// Letters of a commit.
const COMMIT_SHOWN: usize = 12;

/// One job with all that is known of it.
pub struct Shown<'a> {
    pub job: &'a Job,
    pub returns: &'a Returns,
    pub missing: &'a BTreeMap<PeelId, Missing>,
    /// When those who are unreachable were last seen, in words.
    pub last_seen: &'a BTreeMap<PeelId, String>,
    pub now: UnixMillis,
}

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

/// The jobs, and how many more there are.
pub fn list(jobs: &[Job], more: usize, now: UnixMillis, paint: Paint) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_string();
    }
    let counts = |job: &Job| {
        let counts = match job.status.is_terminal() {
            true => format!("{}/{} ok", job.success_count, job.target_count()),
            false => fleet_text::count_of(job.target_count() as usize, "peel"),
        };
        match job.unknown_peels.len() {
            0 => counts,
            unknown => format!("{counts}, {unknown} unknown"),
        }
    };
    // The id alone takes a third of a line: every other column is as wide as it must be.
    let columns: Vec<[String; 2]> = jobs.iter().map(|job| [counts(job), ago(job.created, now)]).collect();
    let width = |at: usize| columns.iter().map(|row| row[at].len()).max().unwrap_or(0);
    let (counts_width, ago_width) = (width(0), width(1));
    let calls: Vec<String> = jobs.iter().map(shell::call).collect();
    let used = "2hPx2Kd8VnR7YmWqTz4PLsCfNjA  complete  ".len() + counts_width + 2 + ago_width + 2;
    let longest = calls.iter().map(|call| call.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for ((job, call), [counts, ago]) in jobs.iter().zip(&calls).zip(&columns) {
        let line = format!("{}  {}  {counts:<counts_width$}  {ago:<ago_width$}", job.jid, status(job, paint));
        // All of them behind the time, or each under its job: so that they can be read down.
        let _infallible = match used + longest <= WIDTH {
            true => writeln!(out, "{line}  {call}"),
            false => writeln!(out, "{}\n    {}", line.trim_end(), cut(call, WIDTH - 4)),
        };
    }
    if more > 0 {
        let all = jobs.len() + more;
        let _infallible =
            writeln!(out, "{}", paint.dim(&format!("and {more} more: zester job list --limit {all}")));
    }
    out
}

/// Which published states ran on how many peels (D-13).
fn revisions(returns: &Returns) -> Vec<(Option<String>, usize)> {
    let mut ran: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for ret in returns.values() {
        let words = ret.revision.as_ref().map(|revision| {
            let of =
                |what: &str, number: Option<u64>| number.map(|number| format!("{what} revision {number}"));
            let commit = cut(&revision.commit, COMMIT_SHOWN);
            let commit = if commit.is_empty() { None } else { Some(format!("commit {commit}")) };
            let parts = [of("states", revision.states), commit, of("settings", revision.settings)];
            parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
        });
        *ran.entry(words).or_default() += 1;
    }
    ran.into_iter().collect()
}

/// One job: what it is, and for each peel where it stands (J-17).
pub fn show(shown: &Shown<'_>, paint: Paint) -> String {
    let Shown { job, returns, missing, last_seen, now } = *shown;
    let mut out = String::new();
    let (head, call) = (format!("job {}", job.jid), cut(&shell::call(job), CALL_SHOWN));
    let between = if head.len() + 2 + call.chars().count() <= WIDTH { "  " } else { "\n" };
    let _infallible = writeln!(out, "{}{between}{call}", paint.bold(&head));
    let by = if job.user.is_empty() { String::new() } else { format!(" by {}", job.user) };
    let _infallible = writeln!(
        out,
        "{}  started {}{by}, timeout {}, owner: {}",
        status(job, paint).trim_end(),
        ago(job.created, now),
        fleet_text::whole_words(zester_wire::time::as_millis(job.timeout())),
        job.owner.name()
    );
    if !job.reason.is_empty() {
        let _infallible = writeln!(out, "{}", job.reason);
    }
    let ran = revisions(returns);
    if let [(Some(only), _)] = ran.as_slice() {
        let _infallible = writeln!(out, "{only}");
    } else if ran.iter().any(|(words, _)| words.is_some()) {
        for (words, count) in &ran {
            let words = words.as_deref().unwrap_or("files of its own");
            let _infallible = writeln!(out, "{words} on {}", fleet_text::count_of(*count, "peel"));
        }
    }
    let peels: Vec<PeelId> = if job.has_targets() {
        job.targets.iter().chain(&job.unknown_peels).cloned().collect()
    } else {
        let _infallible = writeln!(
            out,
            "the list of its {} targets is gone; who returned is shown, and who is known to be missing",
            job.target_count()
        );
        BTreeSet::from_iter(returns.keys().chain(missing.keys()).cloned()).into_iter().collect()
    };
    let mut as_shown =
        PeelShown { depth: Depth::Diffs, ..fleet_text::peel_shown(&job.function, &peels, true) };
    let (width, mut below, mut left_out) = (as_shown.width, 0, 0);
    for peel in &peels {
        match (returns.get(peel), missing.get(peel)) {
            (Some(ret), why) => {
                let result = PeelResult::of_return_in(ret, job.status);
                left_out += usize::from(peel_text::has_more(&result, as_shown));
                let text = peel_text::peel(peel, &result, as_shown, paint);
                below += text.lines().count() - 1;
                if below > CHANGES_SHOWN {
                    as_shown.depth = Depth::Line;
                }
                out.push_str(&text);
                let told = missing_words(*why.unwrap_or(&Missing::Unknown));
                if matches!(result.cause, Cause::Deadline | Cause::Canceled) {
                    // Its line says all of it.
                } else if ret.late {
                    out.push_str("     returned after the job had ended\n");
                } else if why.is_some() && told != ret.error {
                    let _infallible = writeln!(out, "     {told}");
                }
            }
            (None, Some(Missing::Running)) if !job.status.is_terminal() => {
                let _infallible = writeln!(out, " {} {:<width$}  running", paint.cyan("…"), peel.as_str());
            }
            (None, why) => {
                let words = match (why, last_seen.get(peel)) {
                    (Some(Missing::Running), _) if job.status == JobStatus::Canceled => {
                        "told to stop; its return is not here yet".to_string()
                    }
                    (Some(Missing::Unreachable), Some(seen)) => format!("unreachable, {seen}"),
                    (Some(why), _) => missing_words(*why).to_string(),
                    (None, _) => "no return".to_string(),
                };
                let _infallible = writeln!(out, " {} {:<width$}  {words}", paint.yellow("!"), peel.as_str());
            }
        }
    }
    if left_out > 0 {
        let peels = fleet_text::count_of(left_out, "more peel");
        let text = format!("what changed on {peels} is not shown here; --format json has all of it");
        let _infallible = writeln!(out, "{}", paint.dim(&text));
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
            unknown_peels: Vec::new(),
            request: Vec::new(),
            claim_until: UnixMillis(0),
            target_digest: None,
            target_list: TargetList::of(targets),
            rest: BTreeMap::new(),
        }
    }

    #[test]
    #[rule("J-17")]
    fn j17_names_that_no_peel_has_are_shown_and_marked() {
        let (web, ghost) = (PeelId::parse("web-1").unwrap(), PeelId::parse("ghost").unwrap());
        let job = Job {
            status: JobStatus::Complete,
            success_count: 1,
            unknown_peels: vec![ghost.clone()],
            ..job(&[web])
        };
        let missing = BTreeMap::from([(ghost, Missing::UnknownPeel)]);
        let (now, returns, last_seen) = (job.created, Returns::new(), BTreeMap::new());
        let shown = Shown { job: &job, returns: &returns, missing: &missing, last_seen: &last_seen, now };
        let shown = show(&shown, Paint::new(false));
        assert!(shown.contains("! ghost  there is no peel of this name\n"), "{shown}");
        let listed = list(std::slice::from_ref(&job), 0, job.created, Paint::new(false));
        assert!(listed.contains("1/1 ok, 1 unknown"), "{listed}");
    }

    #[test]
    #[rule("J-17")]
    fn j17_a_large_job_names_its_missing_and_says_when_it_cannot() {
        let names: Vec<PeelId> =
            (0..1_000).map(|at| PeelId::parse(&format!("web-{at:04}")).unwrap()).collect();
        let job = Job { status: JobStatus::Partial, ..job(&names) };
        let missing = BTreeMap::from([(names[999].clone(), Missing::Unreachable)]);
        let (returns, last_seen) = (Returns::new(), BTreeMap::new());
        let shown = |job: &Job| {
            let (now, returns, missing, last_seen) = (job.created, &returns, &missing, &last_seen);
            show(&Shown { job, returns, missing, last_seen, now }, Paint::new(false))
        };
        let whole = shown(&job);
        assert!(whole.contains("! web-0999  unreachable\n"), "{whole}");
        assert_eq!(whole.lines().count(), 1_002);
        let without_list = shown(&job.recorded());
        assert!(without_list.contains("the list of its 1000 targets is gone"), "{without_list}");
        assert!(without_list.contains("! web-0999  unreachable\n"), "{without_list}");
    }

    #[test]
    fn what_was_asked_is_shown_whole_and_a_list_fits() {
        let call = |state_id: &str| Job {
            function: "cmd.run".into(),
            state_id: state_id.into(),
            status: JobStatus::Complete,
            ..job(&[PeelId::parse("web-01").unwrap()])
        };
        let jobs = [call("id"), call(&"sleep 1; ".repeat(40))];
        let text = list(&jobs, 7, jobs[0].created, Paint::new(false));
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        for wanted in ["just now\n    '*' cmd.run id\n", "just now\n    '*' cmd.run 'sleep 1; "] {
            assert!(text.contains(wanted), "{text}");
        }
        let one = list(&jobs[..1], 0, jobs[0].created, Paint::new(false));
        assert!(one.ends_with("just now  '*' cmd.run id\n"), "{one}");
        assert!(text.ends_with("and 7 more: zester job list --limit 9\n"), "{text}");
        let now = jobs[0].created;
        let (returns, missing, last_seen) = (Returns::new(), BTreeMap::new(), BTreeMap::new());
        let one = Shown { job: &jobs[0], returns: &returns, missing: &missing, last_seen: &last_seen, now };
        let text = show(&one, Paint::new(false));
        assert!(text.contains("  '*' cmd.run id\n") && text.contains(", owner: m-1\n"), "{text}");
    }
}
