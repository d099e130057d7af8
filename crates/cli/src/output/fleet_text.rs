//! A call on the fleet for people: a line a peel, what belongs under it, a summary.

use super::paint::Paint;
use super::{duration_words, plain};
use crate::fleet::outcome::{NO_SUCH_PEEL, Outcome, PeelResult, PeelStatus};
use serde_json::Value as Json;
use std::fmt::Write;
use std::time::Duration;
use zester_model::outcome::{Mode, RunResult};
use zester_wire::{Offline, PeelId, UnixMillis};

/// Where the column after the ids stands at most.
const ID_WIDTH_MAX: usize = 40;
/// The column of what happened.
const SUMMARY_WIDTH: usize = 22;
/// An answer up to this long stands on the peel's own line.
const SHORT_ANSWER: usize = 60;
/// What a command printed stands behind the time up to this long: a line fits in 80 columns with a short id.
const SHORT_OUTPUT: usize = 32;
/// Lines of an error that are printed under a peel; JSON has all of it.
const ERROR_LINES_SHOWN: usize = 12;
/// Peels that are named in the summary of those without a return.
const NAMED_MAX: usize = 50;

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

/// One peel: its line, and what belongs under it. `states`: the call was for states, so what commands printed is not the
/// answer.
pub fn peel(id: &PeelId, result: &PeelResult, states: bool, width: usize, paint: Paint) -> String {
    let mut parts = text_of(result, states);
    let mark = match result.status {
        PeelStatus::Success => paint.green("✓"),
        PeelStatus::Failed => paint.red("✗"),
        PeelStatus::Canceled | PeelStatus::Missing | PeelStatus::Unreachable => paint.yellow("!"),
    };
    let time = result.duration_ms.map(duration_words).unwrap_or_default();
    // A long word in the column of summaries would push the time out of sight.
    let summary = std::mem::take(&mut parts.summary);
    let line = format!(
        " {mark} {:<width$}  {summary:<SUMMARY_WIDTH$} {}  {}",
        id.as_str(),
        paint.dim(&format!("{time:>6}")),
        if parts.error.is_empty() { parts.output } else { paint.red(&parts.error) }
    );
    let mut out = line.trim_end().to_string() + "\n";
    for line in parts.below {
        let _infallible = writeln!(out, "     {line}");
    }
    out
}

/// The parts of a peel's answer.
#[derive(Default)]
struct PeelText {
    summary: String,
    error: String,
    /// What a command printed, where it fits on the line.
    output: String,
    below: Vec<String>,
}

fn text_of(result: &PeelResult, states: bool) -> PeelText {
    let run = result.answer.get("states").is_some();
    match serde_json::from_value::<RunResult>(result.answer.clone()) {
        Ok(run_result) if run => text_of_run(&run_result, result, states),
        _ => text_of_answer(result),
    }
}

fn text_of_run(run: &RunResult, result: &PeelResult, states: bool) -> PeelText {
    let changed = match (run.changed, run.mode) {
        (0, _) => String::new(),
        (count, Mode::Apply) => format!("{count} changed"),
        (count, Mode::Check) => format!("{count} would change"),
        (count, Mode::Revert) => format!("{count} reverted"),
    };
    let mut parts = PeelText::default();
    if run.failed > 0 {
        parts.summary = if states { format!("{} failed", run.failed) } else { "failed".to_string() };
        if !changed.is_empty() {
            parts.summary.push_str(&format!(", {changed}"));
        }
        let mut failed = run.states.values().filter(|state| state.failed());
        if let Some(first) = failed.next() {
            let mut lines = first.error.lines();
            let error = lines.next().unwrap_or_default();
            // Of one function there is no need to say which.
            parts.error = if states { format!("{}: {error}", first.name) } else { error.to_string() };
            parts.below.extend(lines.take(ERROR_LINES_SHOWN).map(String::from));
        }
        let rest =
            failed.map(|state| format!("{}: {}", state.name, state.error.lines().next().unwrap_or_default()));
        parts.below.extend(rest);
    } else if run.canceled {
        parts.summary =
            if changed.is_empty() { "canceled".into() } else { format!("canceled after {changed}") };
        parts.error.clone_from(&result.error);
    } else {
        parts.summary = match (changed.is_empty(), states) {
            (false, true) => changed,
            (true, true) => "nothing to do".into(),
            (false, false) => changed.trim_start_matches("1 ").into(),
            // One function has done what it was called for.
            (true, false) => "ok".into(),
        };
    }
    if !states {
        show_output(run, &mut parts);
    }
    parts
}

/// What the one command printed is the answer.
fn show_output(run: &RunResult, parts: &mut PeelText) {
    let texts = run.states.values().flat_map(|state| {
        ["stdout", "stderr"].into_iter().filter_map(|stream| state.details.get(stream).and_then(Json::as_str))
    });
    let lines: Vec<&str> = texts.flat_map(str::lines).collect();
    match lines.as_slice() {
        [] => {}
        [one] if run.failed == 0 && one.chars().count() <= SHORT_OUTPUT => parts.output = one.to_string(),
        _ if run.failed > 0 && !parts.below.is_empty() => {}
        lines => parts.below.extend(lines.iter().map(|line| line.to_string())),
    }
}

fn text_of_answer(result: &PeelResult) -> PeelText {
    let mut parts = PeelText::default();
    let mut errors = result.error.lines();
    parts.error = errors.next().unwrap_or_default().to_string();
    parts.below.extend(errors.take(ERROR_LINES_SHOWN).map(String::from));
    if let Some(errors) = result.answer.get("errors").and_then(Json::as_array) {
        // The document of C-3: what does not compile, each with its place.
        // One alone stands on the line already.
        let first = parts.error.clone();
        parts.below.extend(errors.iter().filter_map(place_of).filter(|text| *text != first));
        return parts;
    }
    let text = plain(&result.answer);
    match text.trim_end_matches('\n') {
        "" => {}
        short if !short.contains('\n') && short.chars().count() <= SHORT_ANSWER => {
            parts.summary = short.to_string()
        }
        long => parts.below.extend(long.lines().map(String::from)),
    }
    parts
}

/// `states/web.zy:3:5: …` of an error that has a place.
fn place_of(error: &Json) -> Option<String> {
    let file = error.get("file")?.as_str()?;
    let number = |key: &str| error.get(key).and_then(Json::as_u64).unwrap_or(1);
    let message = error.get("message").and_then(Json::as_str).unwrap_or_default();
    Some(format!("{file}:{}:{}: {message}", number("line"), number("column")))
}

/// The summary, who is missing and why, and what to do about it.
pub fn ending(outcome: &Outcome, took: Option<Duration>, paint: Paint) -> String {
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
    match outcome.not_asked.len() {
        0 => {}
        count => {
            let text = format!("{count} not asked: {}", outcome.not_asked_why);
            let _infallible = writeln!(out, "{}", paint.yellow(&text));
        }
    }
    if outcome.unnamed > 0 {
        let text = format!("{} more did not return; the list of their names is gone", outcome.unnamed);
        let _infallible = writeln!(out, "{}", paint.yellow(&text));
    }
    out.push_str(&absent(outcome, paint));
    out
}

fn absent(outcome: &Outcome, paint: Paint) -> String {
    let is_absent =
        |result: &&PeelResult| matches!(result.status, PeelStatus::Missing | PeelStatus::Unreachable);
    let absent: Vec<(&PeelId, &PeelResult)> =
        outcome.peels.iter().filter(|(_, result)| is_absent(result)).collect();
    let mut out = String::new();
    for (peel, result) in absent.iter().take(NAMED_MAX) {
        let why = result.error.lines().next().unwrap_or_default();
        let _infallible = writeln!(out, "{} {peel}  {why}", paint.yellow("missing:"));
    }
    if absent.len() > NAMED_MAX {
        let _infallible = writeln!(out, "and {} more", absent.len() - NAMED_MAX);
    }
    let recorded = outcome.recorded && outcome.jids.len() == 1 && outcome.status != "running";
    let asked = absent.iter().any(|(_, result)| result.error != NO_SUCH_PEEL);
    if let (Some(jid), true) = (outcome.jids.last(), asked && recorded) {
        let again = format!("ask them again: zester job retry {jid} --missing");
        let _infallible = writeln!(out, "{}", paint.dim(&again));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;
    use zester_rule::rule;

    fn line(answer: Json, error: &str, states: bool) -> String {
        let status = if error.is_empty() { PeelStatus::Success } else { PeelStatus::Failed };
        let result = PeelResult { status, duration_ms: Some(2100), error: error.into(), answer };
        peel(&PeelId::parse("web-01").unwrap(), &result, states, 8, Paint::new(false))
    }

    fn run(changed: usize, error: &str, stdout: &str) -> Json {
        let state = json!({
            "name": "cmd.run:x", "changed": changed > 0, "diff": "", "duration_ms": 1, "details": {"stdout": stdout},
            "error": error, "skipped": false, "skip_reason": "", "level": 0,
        });
        json!({
            "mode": "apply", "test": false, "success": error.is_empty(), "canceled": false, "changed": changed,
            "failed": usize::from(!error.is_empty()), "skipped": 0, "total_duration_ms": 1, "run_id": "r",
            "states": {"cmd.run:x": state},
        })
    }

    #[test]
    fn a_peel_has_one_line_that_says_what_happened() {
        assert_eq!(line(run(3, "", "noise"), "", true), " ✓ web-01    3 changed                2.1s\n");
        assert_eq!(line(run(0, "", ""), "", true), " ✓ web-01    nothing to do            2.1s\n");
        assert_eq!(line(json!(true), "", false), " ✓ web-01    true                     2.1s\n");
    }

    #[test]
    fn failures_stand_on_the_line_and_their_words_under_it() {
        let text = line(run(0, "exit code 7 not in [0]\ncurl: no", ""), "1 state failed", true);
        assert!(
            text.contains("1 failed") && text.contains("cmd.run:x: exit code 7 not in [0]\n     curl: no\n"),
            "{text}"
        );
        let text = line(Json::Null, "peel busy: execution queue full", false);
        assert!(text.ends_with("2.1s  peel busy: execution queue full\n"), "{text}");
    }

    #[test]
    #[rule("C-7")]
    fn c7_what_does_not_compile_is_told_with_its_place() {
        let error = json!({"kind": "yaml", "message": "no", "file": "states/a.zy", "line": 3, "column": 5});
        let text = line(json!({"error": error, "errors": [error]}), "no", true);
        assert!(text.ends_with("  no\n     states/a.zy:3:5: no\n"), "{text}");
        let text = line(json!({"error": error, "errors": [error]}), "states/a.zy:3:5: no", true);
        assert_eq!(text.matches("states/a.zy:3:5").count(), 1, "{text}");
        let text =
            line(json!({"error": {}, "errors": [{"message": "no states", "file": null}]}), "no states", true);
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn what_a_command_printed_is_the_answer() {
        let text = line(run(1, "", "Linux web-01\n"), "", false);
        assert_eq!(text, " ✓ web-01    changed                  2.1s  Linux web-01\n");
        let text = line(run(1, "", &"x".repeat(50)), "", false);
        assert_eq!(text, format!(" ✓ web-01    changed                  2.1s\n     {}\n", "x".repeat(50)));
        let text = line(run(1, "", "one\ntwo\n"), "", false);
        assert!(text.ends_with("\n     one\n     two\n"), "{text}");
        let text = line(json!({"a": 1, "b": [2]}), "", false);
        assert!(text.contains("\n     a: 1\n     b:\n"), "{text}");
    }

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
        let text = ending(&direct, None, Paint::new(false));
        assert!(!text.contains("retry"), "there is no record to retry: {text}");
        let recorded = Outcome { recorded: true, ..direct };
        let text = ending(&recorded, Some(Duration::from_secs(4)), Paint::new(false));
        assert_eq!(
            text,
            "\n1 succeeded  1 missing  1 unreachable   4.0s\nmissing: web-2  never acknowledged the job\nmissing: web-3  unreachable\nask them again: zester job retry 2hPx2Kd8VnR7YmWqTz4PLsCfNjA --missing\n"
        );
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
    fn one_function_that_fails_is_not_named_again() {
        let text = line(run(0, "exit code 3 not in [0]", ""), "1 state failed", false);
        assert_eq!(text, " ✗ web-01    failed                   2.1s  exit code 3 not in [0]\n");
    }

    #[test]
    fn the_head_says_how_long_it_may_take() {
        let text = |timeout| head("job x", 24, timeout, Paint::new(false));
        assert_eq!(text(Duration::from_secs(300)), "job x  24 peels  timeout 5m\n");
        assert_eq!(text(Duration::from_secs(30)), "job x  24 peels  timeout 30s\n");
    }
}
