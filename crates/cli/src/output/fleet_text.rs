//! A call on the fleet for people: how it begins and how it ends.

use super::duration_words;
use super::paint::Paint;
use super::peel_text::{self, Depth, PeelShown};
use super::wrap::{WIDTH, wrap};
use crate::fleet::outcome::{NO_SUCH_PEEL, Outcome, PeelResult, PeelStatus};
use std::fmt::Write;
use std::time::Duration;
use zester_wire::{Jid, Offline, PeelId, UnixMillis};

/// Where the column after the ids stands at most.
const ID_WIDTH_MAX: usize = 40;
/// Peels that are named in the summary of those without a return.
const NAMED_MAX: usize = 50;

/// What is suggested to who had too little time: the first that is longer, with its minutes.
const MORE_TIME: [(&str, u64); 4] = [("10m", 10), ("1h", 60), ("6h", 360), ("1d", 1440)];

/// `job 2hPx2K…  24 peels  timeout 5m`
pub fn head(what: &str, peels: usize, timeout: Duration, paint: Paint) -> String {
    let timeout = zester_wire::time::as_millis(timeout);
    let peels = count_of(peels, "peel");
    format!("{}  {peels}  timeout {}\n", paint.bold(what), whole_words(timeout))
}

/// `1 peel`, `2 peels`.
pub fn count_of(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// `5m` rather than `5m 0s`.
pub fn whole_words(millis: u64) -> String {
    let words = duration_words(millis);
    let words = words.strip_suffix(" 0s").or(words.strip_suffix(" 0m")).unwrap_or(&words);
    match words.strip_suffix(".0s") {
        Some(whole) => format!("{whole}s"),
        None => words.to_string(),
    }
}

/// `2 of 24 peels are offline: web-07, web-09; the first was last seen 3d ago`
pub fn offline(offline: &Offline, targets: usize, now: UnixMillis) -> String {
    let count = usize::try_from(offline.count).unwrap_or(usize::MAX);
    let some: Vec<&str> = offline.some.iter().map(PeelId::as_str).collect();
    let more = if count > some.len() { ", …" } else { "" };
    let are = if count == 1 { "is" } else { "are" };
    let all = count_of(targets.max(count), "peel");
    let since = match (offline.since.is_zero(), count) {
        (true, _) => String::new(),
        (false, 1) => format!(", last seen {}", super::job_text::ago(offline.since, now)),
        (false, _) => format!("; the first was last seen {}", super::job_text::ago(offline.since, now)),
    };
    format!("{count} of {all} {are} offline: {}{more}{since}", some.join(", "))
}

/// The width of the column of ids.
pub fn id_width(peels: &[PeelId]) -> usize {
    peels.iter().map(|peel| peel.as_str().len()).max().unwrap_or(0).min(ID_WIDTH_MAX)
}

/// How the peels of a call are shown: the more of them, the less of each. `recorded`: `zester job show` has the rest.
pub fn peel_shown(function: &str, targets: &[PeelId], recorded: bool) -> PeelShown {
    let depth = match (targets.len(), recorded) {
        (1, true) => Depth::States,
        (1, false) => Depth::Diffs,
        _ => Depth::Line,
    };
    // One state is shown as a call of its kind is.
    let states = function.starts_with("state.") && function != zester_converge::tree_functions::SINGLE;
    PeelShown { states, width: id_width(targets), depth }
}

/// The summary, who is missing and why, and what to do about it.
pub fn ending(outcome: &Outcome, shown: PeelShown, took: Option<Duration>, paint: Paint) -> String {
    if outcome.left {
        let returned = outcome.peels.values().filter(|result| result.duration_ms.is_some()).count();
        let all = count_of(outcome.peels.len(), "peel");
        return format!("\n{returned} of {all} had returned when the view was left\n");
    }
    let mut out = String::from("\n");
    let counted = [
        (PeelStatus::Success, "succeeded", Paint::green as fn(Paint, &str) -> String),
        (PeelStatus::Failed, "failed", Paint::red),
        (PeelStatus::Canceled, "canceled", Paint::yellow),
        (PeelStatus::Missing, "missing", Paint::yellow),
        (PeelStatus::Unreachable, "unreachable", Paint::yellow),
    ];
    let parts = counted.iter().filter_map(|(status, word, painted)| {
        let count = outcome.count(*status);
        let always = *status == PeelStatus::Success;
        (count > 0)
            .then(|| painted(paint, &format!("{count} {word}")))
            .or(always.then(|| format!("0 {word}")))
    });
    let time = took.map(|took| format!("   {}", duration_words(zester_wire::time::as_millis(took))));
    let _infallible = writeln!(out, "{}{}", parts.collect::<Vec<_>>().join("  "), time.unwrap_or_default());
    if outcome.killed {
        let _infallible = writeln!(out, "{}", paint.red("the job was canceled before its end"));
    } else if !outcome.reason.is_empty() {
        let _infallible = writeln!(out, "{}", paint.red(&outcome.reason));
    }
    if !outcome.not_asked.is_empty() {
        let text = format!("{} not asked: {}", outcome.not_asked.len(), outcome.not_asked_why);
        let _infallible = writeln!(out, "{}", paint.yellow(&text));
        let names = format!("  {}", named(&outcome.not_asked));
        let _infallible = writeln!(out, "{}", wrap(&names, WIDTH));
    }
    if outcome.unnamed > 0 {
        let text = format!("{} more did not return; the list of their names is gone", outcome.unnamed);
        let _infallible = writeln!(out, "{}", paint.yellow(&text));
    }
    out.push_str(&absent(outcome, paint));
    if outcome.test {
        out.push_str("a dry run: nothing was changed\n");
    }
    for line in next_steps(outcome, shown) {
        let _infallible = writeln!(out, "{}", paint.dim(&line));
    }
    out
}

/// `web-1, web-2 and 7 more`
fn named(peels: &[PeelId]) -> String {
    let some: Vec<&str> = peels.iter().take(NAMED_MAX).map(PeelId::as_str).collect();
    let more = match peels.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    some.join(", ") + &more
}

fn absentees(outcome: &Outcome) -> impl Iterator<Item = (&PeelId, &PeelResult)> {
    let is_absent =
        |result: &PeelResult| matches!(result.status, PeelStatus::Missing | PeelStatus::Unreachable);
    outcome.peels.iter().filter(move |(_, result)| is_absent(result))
}

fn absent(outcome: &Outcome, paint: Paint) -> String {
    let absent: Vec<(&PeelId, &PeelResult)> = absentees(outcome).collect();
    let mut out = String::new();
    for (peel, result) in absent.iter().take(NAMED_MAX) {
        let why = peel_text::why_missing(result);
        let _infallible = writeln!(out, "{} {peel}  {why}", paint.yellow("missing:"));
    }
    if absent.len() > NAMED_MAX {
        let _infallible = writeln!(out, "and {} more", absent.len() - NAMED_MAX);
    }
    out
}

/// What to type next: where the rest of it can be seen, and how to ask again.
fn next_steps(outcome: &Outcome, shown: PeelShown) -> Vec<String> {
    if !outcome.recorded || outcome.status == "running" {
        return Vec::new();
    }
    let more = outcome.peels.values().any(|result| peel_text::has_more(result, shown));
    let [jid] = outcome.jids.as_slice() else {
        let line = "details: zester job show, with the id of a batch";
        return if more { vec![line.to_string()] } else { Vec::new() };
    };
    let mut steps = Vec::new();
    if more {
        steps.push(format!("details: zester job show {jid}"));
    }
    if outcome.count(PeelStatus::Failed) > 0 {
        steps.push(format!("again: zester job retry {jid} --failed"));
    }
    let asked: Vec<&PeelResult> =
        absentees(outcome).map(|(_, result)| result).filter(|result| result.error != NO_SUCH_PEEL).collect();
    if !asked.is_empty() {
        steps.push(ask_again(jid, asked.iter().any(|result| result.is_late()), outcome.timeout));
    }
    steps
}

/// How to ask the missing again. Who had too little time needs more of it, or the same happens once more.
pub fn ask_again(jid: &Jid, late: bool, timeout: Duration) -> String {
    let longer = MORE_TIME.iter().find(|(_, minutes)| Duration::from_secs(minutes * 60) > timeout);
    match longer.filter(|_| late) {
        Some((words, _)) => format!("again: zester job retry {jid} --missing --timeout {words}"),
        None => format!("again: zester job retry {jid} --missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use zester_rule::rule;
    use zester_wire::Cause;

    const SHOWN: PeelShown = PeelShown { states: true, width: 8, depth: Depth::Line };

    #[test]
    #[rule("J-17")]
    fn j17_the_missing_are_named_with_the_reason() {
        let result = |status, why| PeelResult::without(status, why);
        let peels = BTreeMap::from([
            (PeelId::parse("web-1").unwrap(), result(PeelStatus::Success, "")),
            (PeelId::parse("web-2").unwrap(), result(PeelStatus::Missing, "never acknowledged the job")),
            (PeelId::parse("web-3").unwrap(), result(PeelStatus::Unreachable, "unreachable")),
        ]);
        let jid = zester_wire::Jid::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap();
        let direct = Outcome::of_direct(jid, peels);
        let told = |outcome: &Outcome, took| ending(outcome, SHOWN, took, Paint::new(false));
        let text = told(&direct, None);
        assert!(!text.contains("retry"), "there is no record to retry: {text}");
        let recorded = Outcome { recorded: true, ..direct };
        let text = told(&recorded, Some(Duration::from_secs(4)));
        assert_eq!(
            text,
            "\n1 succeeded  1 missing  1 unreachable   4.0s\nmissing: web-2  never acknowledged the job\nmissing: web-3  unreachable\nagain: zester job retry 2hPx2Kd8VnR7YmWqTz4PLsCfNjA --missing\n"
        );
        // Who had too little time needs more of it, and whoever is away is told since when.
        let mut late = Outcome { timeout: Duration::from_secs(2), ..recorded };
        let ran_out =
            PeelResult { cause: Cause::Deadline, ..result(PeelStatus::Missing, "canceled by the deadline") };
        let away = result(PeelStatus::Unreachable, "unreachable");
        late.peels.insert(PeelId::parse("web-2").unwrap(), ran_out);
        let away = PeelResult { last_seen: "last seen 3d ago".into(), ..away };
        late.peels.insert(PeelId::parse("web-3").unwrap(), away);
        let text = told(&late, None);
        for wanted in [
            "missing: web-2  stopped at the deadline\n",
            "missing: web-3  unreachable, last seen 3d ago\n",
            "\nagain: zester job retry 2hPx2Kd8VnR7YmWqTz4PLsCfNjA --missing --timeout 10m\n",
        ] {
            assert!(text.contains(wanted), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        late.timeout = Duration::from_secs(600);
        assert!(told(&late, None).ends_with("--timeout 1h\n"));
    }

    #[test]
    fn what_was_not_asked_is_named_and_failures_end_with_what_to_do() {
        let peels = BTreeMap::from([(
            PeelId::parse("web-1").unwrap(),
            PeelResult::without(PeelStatus::Failed, "no"),
        )]);
        let jid = Jid::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap();
        let not_asked: Vec<PeelId> = (2..62).map(|at| PeelId::parse(&format!("web-{at}")).unwrap()).collect();
        let outcome = Outcome {
            recorded: true,
            not_asked,
            not_asked_why: "--max-fail was reached".into(),
            test: true,
            ..Outcome::of_direct(jid, peels)
        };
        let text = ending(&outcome, SHOWN, None, Paint::new(false));
        assert!(text.contains("60 not asked: --max-fail was reached\n  web-2, web-3, "), "{text}");
        assert!(text.contains("web-51 and 10 more\n"), "{text}");
        let last =
            "a dry run: nothing was changed\nagain: zester job retry 2hPx2Kd8VnR7YmWqTz4PLsCfNjA --failed\n";
        assert!(text.ends_with(last), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    #[rule("J-25")]
    fn j25_offline_peels_are_counted_and_named_with_the_time() {
        let some = ["web-07", "web-09"].map(|name| PeelId::parse(name).unwrap()).to_vec();
        let now = UnixMillis(1_800_000_000_000);
        let days = UnixMillis(now.0 - 3 * 86_400_000);
        let text = |count, since| offline(&Offline { count, since, some: some.clone() }, 24, now);
        let first = "the first was last seen 3d ago";
        assert_eq!(text(2, days), format!("2 of 24 peels are offline: web-07, web-09; {first}"));
        assert_eq!(text(5, UnixMillis(0)), "5 of 24 peels are offline: web-07, web-09, …");
        let one = Offline { count: 1, since: days, some: some[..1].to_vec() };
        assert_eq!(offline(&one, 1, now), "1 of 1 peel is offline: web-07, last seen 3d ago");
    }

    #[test]
    fn the_head_says_how_long_it_may_take() {
        let text = |timeout| head("job x", 24, timeout, Paint::new(false));
        assert_eq!(text(Duration::from_secs(300)), "job x  24 peels  timeout 5m\n");
        assert_eq!(text(Duration::from_secs(30)), "job x  24 peels  timeout 30s\n");
    }
}
