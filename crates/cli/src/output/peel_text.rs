//! One peel for people: its line, and what belongs under it.

use super::paint::Paint;
use super::picture::{self, Picture};
use super::run_text::{self, DIFF_LINES_SHOWN, Shown};
use super::shell::cut;
use super::wrap::{WIDTH, wrap};
use super::{duration_words, plain};
use crate::fleet::outcome::{PeelResult, PeelStatus};
use serde_json::Value as Json;
use std::fmt::Write;
use zester_model::outcome::{RunResult, StateResult};
use zester_wire::{Cause, PeelId};

/// The column of what happened.
const SUMMARY_WIDTH: usize = 22;
/// An answer up to this long stands on the peel's own line.
const SHORT_ANSWER: usize = 60;
/// What a command printed stands behind the time up to this long: a line fits in 80 columns with a short id.
const SHORT_OUTPUT: usize = 32;
/// Lines of an error that are printed under a peel; JSON has all of it.
const ERROR_LINES_SHOWN: usize = 12;
/// States that are named under a peel; JSON has all of them.
const STATES_SHOWN: usize = 20;
/// What stands under a peel begins here.
const INDENT: usize = 5;

/// Why a peel that had the work has no answer: its time was over.
pub const AT_THE_DEADLINE: &str = "stopped at the deadline";

/// How much of what a peel did is shown.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The names of states, as far as they fit on the line: there are many peels.
    Line,
    /// A line for each state that changed or failed.
    States,
    /// And what it changed.
    Diffs,
}

/// How a peel is shown.
#[derive(Copy, Clone, Debug)]
pub struct PeelShown {
    /// The call was for states, so what commands printed is not the answer.
    pub states: bool,
    /// The width of the column of ids.
    pub width: usize,
    pub depth: Depth,
}

/// One peel: its line, and what belongs under it.
pub fn peel(id: &PeelId, result: &PeelResult, shown: PeelShown, paint: Paint) -> String {
    let width = shown.width;
    let parts = text_of(result, shown, paint);
    let mark = match result.status {
        PeelStatus::Success => paint.green("✓"),
        PeelStatus::Failed => paint.red("✗"),
        PeelStatus::Canceled | PeelStatus::Missing | PeelStatus::Unreachable => paint.yellow("!"),
    };
    let time = result.duration_ms.map(duration_words).unwrap_or_default();
    let summary = &parts.summary;
    let head = format!(
        " {mark} {:<width$}  {summary:<SUMMARY_WIDTH$} {}",
        id.as_str(),
        paint.dim(&format!("{time:>6}"))
    );
    let room = room(width, summary);
    let behind = match parts.error.is_empty() {
        true => parts.output,
        false if parts.error.chars().count() <= room => paint.red(&parts.error),
        false => String::new(),
    };
    let mut out = format!("{head}  {behind}").trim_end().to_string() + "\n";
    if parts.error.chars().count() > room {
        let error = wrap(&format!("{:INDENT$}{}", "", parts.error), WIDTH);
        for line in error.lines() {
            let _infallible = writeln!(out, "{}", paint.red(line));
        }
    }
    for line in parts.below {
        let _infallible = writeln!(out, "{:INDENT$}{line}", "");
    }
    out
}

/// What is left of the line behind the time.
fn room(width: usize, summary: &str) -> usize {
    let used = 3 + width + 2 + SUMMARY_WIDTH.max(summary.chars().count()) + 1 + 6 + 2;
    WIDTH.saturating_sub(used)
}

/// Why a peel is missing, in a few words.
pub fn why_missing(result: &PeelResult) -> String {
    match result.status {
        PeelStatus::Missing if result.cause == Cause::Deadline => at_the_deadline(result),
        PeelStatus::Unreachable if !result.last_seen.is_empty() => {
            format!("unreachable, {}", result.last_seen)
        }
        _ => result.error.lines().next().unwrap_or_default().to_string(),
    }
}

/// Past the masters nobody but the caller has a deadline, and says how long it was.
fn at_the_deadline(result: &PeelResult) -> String {
    match result.error.starts_with("timeout after") {
        true => result.error.clone(),
        false => AT_THE_DEADLINE.to_string(),
    }
}

/// Whether there is more to see of it than its line says.
pub fn has_more(result: &PeelResult, shown: PeelShown) -> bool {
    let Some(run) = run_of(result) else { return false };
    match (shown.states, shown.depth) {
        (_, Depth::Diffs) => false,
        (true, Depth::Line) => run.states.values().any(|state| state.changed || state.failed()),
        (true, Depth::States) => run.states.values().any(run_text::has_diff),
        (false, Depth::States) => false,
        (false, Depth::Line) => run.states.values().any(run_text::has_diff),
    }
}

/// The parts of a peel's answer.
#[derive(Default)]
struct PeelText {
    summary: String,
    error: String,
    /// What stands behind the time: what a command printed, or the names of states.
    output: String,
    below: Vec<String>,
}

fn run_of(result: &PeelResult) -> Option<RunResult> {
    result.answer.get("states")?;
    serde_json::from_value(result.answer.clone()).ok()
}

fn text_of(result: &PeelResult, shown: PeelShown, paint: Paint) -> PeelText {
    match run_of(result) {
        Some(run) => text_of_run(&run, result, shown, paint),
        None => text_of_answer(result, paint),
    }
}

/// Why a return is not the function's own answer, in a word.
fn stopped(result: &PeelResult) -> Option<String> {
    match result.cause {
        _ if result.status == PeelStatus::Success => None,
        Cause::Deadline => Some(at_the_deadline(result)),
        Cause::Canceled => Some("canceled".into()),
        Cause::Interrupted => Some("interrupted".into()),
        Cause::Busy | Cause::Expired | Cause::Refused => Some("refused".into()),
        Cause::Finished | Cause::Unknown if result.status == PeelStatus::Canceled => Some("canceled".into()),
        Cause::Finished | Cause::Unknown => None,
    }
}

fn text_of_run(run: &RunResult, result: &PeelResult, shown: PeelShown, paint: Paint) -> PeelText {
    let done = run_text::done(run);
    let mut parts = PeelText::default();
    let by_state = shown.states && shown.depth != Depth::Line;
    if let Some(word) = stopped(result) {
        parts.summary = word;
        parts.output = if done.is_empty() { String::new() } else { format!("after {done}") };
    } else if run.failed > 0 {
        parts.summary = if shown.states { format!("{} failed", run.failed) } else { "failed".to_string() };
        if !done.is_empty() {
            parts.summary.push_str(&format!(", {done}"));
        }
        if !by_state {
            tell_failures(run, shown.states, &mut parts);
        }
    } else if run.canceled {
        parts.summary = if done.is_empty() { "canceled".into() } else { format!("canceled after {done}") };
        parts.error.clone_from(&result.error);
    } else {
        parts.summary = match (done.is_empty(), shown.states) {
            (false, true) => done,
            (true, true) => "nothing to do".into(),
            (false, false) => done.trim_start_matches("1 ").into(),
            // One function has done what it was called for.
            (true, false) => "ok".into(),
        };
        if shown.states && !by_state {
            parts.output = names(run, room(shown.width, &parts.summary));
        }
    }
    match (shown.states, by_state) {
        (true, true) => parts.below.extend(states(run, shown.depth, paint)),
        (true, false) => {}
        (false, _) => show_output(run, shown, &mut parts, paint),
    }
    parts
}

/// The first failure on the line, with its own words under it, and the others by name.
fn tell_failures(run: &RunResult, states: bool, parts: &mut PeelText) {
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
}

/// What changed, by name, as far as there is room.
fn names(run: &RunResult, room: usize) -> String {
    let changed: Vec<&str> =
        run.states.values().filter(|state| state.changed).map(|state| state.name.as_str()).collect();
    let more = |left: usize| if left > 0 { format!(" and {left} more") } else { String::new() };
    let fits = |count: &usize| {
        let text = changed[..*count].join(", ") + &more(changed.len() - count);
        (text.chars().count() <= room).then_some(text)
    };
    let Some(first) = changed.first() else { return String::new() };
    let shortened = || {
        let more = more(changed.len() - 1);
        cut(first, room.saturating_sub(more.len())) + &more
    };
    (1..=changed.len()).rev().find_map(|count| fits(&count)).unwrap_or_else(shortened)
}

/// A line for each state that changed or failed, and what it changed.
fn states(run: &RunResult, depth: Depth, paint: Paint) -> Vec<String> {
    let told: Vec<&StateResult> =
        run.states.values().filter(|state| state.changed || state.failed()).collect();
    let (some, left) = told.split_at(told.len().min(STATES_SHOWN));
    let shown = Shown {
        mode: run.mode,
        width: run_text::name_width(some.iter().map(|state| state.name.as_str())),
        output: false,
        diff_lines: (depth == Depth::Diffs).then_some(DIFF_LINES_SHOWN),
    };
    let texts = some.iter().map(|state| run_text::state(state, shown, paint));
    // They begin with a blank already.
    let mut lines: Vec<String> =
        texts.flat_map(|text| text.lines().map(|line| line[1..].to_string()).collect::<Vec<_>>()).collect();
    if !left.is_empty() {
        lines.push(paint.dim(&format!("… and {} more states; --format json has all of them", left.len())));
    }
    lines
}

/// What the one command printed is the answer; of a function that printed nothing, what it changed.
fn show_output(run: &RunResult, shown: PeelShown, parts: &mut PeelText, paint: Paint) {
    let texts = run.states.values().flat_map(|state| {
        ["stdout", "stderr"].into_iter().filter_map(|stream| state.details.get(stream).and_then(Json::as_str))
    });
    let lines: Vec<&str> = texts.flat_map(str::lines).collect();
    match lines.as_slice() {
        [] if shown.depth != Depth::Line => {
            let diffs = run.states.values().flat_map(|state| run_text::diff(state, DIFF_LINES_SHOWN, paint));
            parts.below.extend(diffs);
        }
        [] => {}
        [one] if run.failed == 0 && one.chars().count() <= SHORT_OUTPUT => parts.output = one.to_string(),
        _ if run.failed > 0 && !parts.below.is_empty() => {}
        lines => parts.below.extend(lines.iter().map(|line| line.to_string())),
    }
}

fn text_of_answer(result: &PeelResult, paint: Paint) -> PeelText {
    let mut parts = PeelText { summary: stopped(result).unwrap_or_default(), ..PeelText::default() };
    let by_time = result.cause == Cause::Deadline;
    let mut errors = result.error.lines().filter(|_| !by_time);
    parts.error = errors.next().unwrap_or_default().to_string();
    if parts.error == parts.summary {
        parts.error.clear();
    }
    parts.below.extend(errors.take(ERROR_LINES_SHOWN).map(String::from));
    if parts.summary.is_empty() {
        parts.summary = match result.status {
            PeelStatus::Success => String::new(),
            PeelStatus::Failed => "error".into(),
            PeelStatus::Canceled => "canceled".into(),
            PeelStatus::Missing => "missing".into(),
            PeelStatus::Unreachable => {
                parts.error.clear();
                why_missing(result)
            }
        };
    }
    if let Some(errors) = result.answer.get("errors").and_then(Json::as_array) {
        // The document of C-3: what does not compile, each with its place.
        // One alone stands on the line already.
        let first = parts.error.clone();
        parts.below.extend(errors.iter().filter_map(place_of).filter(|text| *text != first));
        return parts;
    }
    if let Some(picture) = Picture::of_document(&result.answer) {
        parts.below.extend(picture::text(&picture, paint).lines().map(String::from));
        return parts;
    }
    let text = plain(&result.answer);
    match text.trim_end_matches('\n') {
        "" if result.status == PeelStatus::Success && result.answer.is_null() => {
            parts.summary = "no value".into();
        }
        "" => {}
        short
            if parts.summary.is_empty() && !short.contains('\n') && short.chars().count() <= SHORT_ANSWER =>
        {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    fn shown(result: &PeelResult, states: bool, depth: Depth) -> String {
        let shown = PeelShown { states, width: 8, depth };
        peel(&PeelId::parse("web-01").unwrap(), result, shown, Paint::new(false))
    }

    fn line(answer: Json, error: &str, states: bool) -> String {
        let status = if error.is_empty() { PeelStatus::Success } else { PeelStatus::Failed };
        let result = PeelResult { duration_ms: Some(2100), answer, ..PeelResult::without(status, error) };
        shown(&result, states, Depth::Line)
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
        assert_eq!(
            line(run(3, "", "noise"), "", true),
            " ✓ web-01    3 changed                2.1s  cmd.run:x\n"
        );
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
        assert!(text.contains("web-01    error  "), "the column is never empty: {text}");
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
    fn one_function_that_fails_is_not_named_again() {
        let text = line(run(0, "exit code 3 not in [0]", ""), "1 state failed", false);
        assert_eq!(text, " ✗ web-01    failed                   2.1s  exit code 3 not in [0]\n");
    }

    fn states(names: &[&str], diff: &str) -> Json {
        let state = |name: &str| {
            json!({
                "name": name, "changed": true, "diff": diff, "duration_ms": 1, "details": {}, "error": "",
                "skipped": false, "skip_reason": "", "level": 0,
            })
        };
        let states: serde_json::Map<String, Json> =
            names.iter().map(|name| (name.to_string(), state(name))).collect();
        json!({
            "mode": "check", "test": true, "success": true, "canceled": false, "changed": names.len(), "failed": 0,
            "skipped": 0, "total_duration_ms": 1, "run_id": "r", "states": states,
        })
    }

    fn good(answer: Json) -> PeelResult {
        PeelResult { duration_ms: Some(8), answer, ..PeelResult::without(PeelStatus::Success, "") }
    }

    #[test]
    #[rule("C-4")]
    fn c4_what_changed_is_named_as_far_as_it_fits_and_shown_where_there_is_room() {
        let diff = "--- /etc/x\n+++ /etc/x\n@@ -0,0 +1 @@\n+hi\n";
        let result = good(states(&["file.managed:a", "file.managed:b"], diff));
        assert_eq!(
            shown(&result, true, Depth::Line),
            " ✓ web-01    2 would change            8ms  file.managed:a, file.managed:b\n"
        );
        let many = ["file.managed:/etc/nginx/conf.d/the-first-of-many", "file.managed:b", "file.managed:c"];
        let text = shown(&good(states(&many, diff)), true, Depth::Line);
        assert!(text.ends_with("… and 2 more\n") && text.trim_end().chars().count() <= WIDTH, "{text}");

        let text = shown(&result, true, Depth::States);
        assert!(text.contains("\n     ✓ file.managed:a  1ms     would change\n"), "{text}");
        assert!(!text.contains("+hi"), "{text}");
        let text = shown(&result, true, Depth::Diffs);
        assert_eq!(text.matches("\n         +hi\n").count(), 2, "{text}");
        // Of one function, what it changed needs no name.
        let one = good(states(&["file.managed:a"], diff));
        assert!(shown(&one, false, Depth::States).ends_with("\n     @@ -0,0 +1 @@\n     +hi\n"));
        let line = |states| PeelShown { states, width: 8, depth: Depth::Line };
        assert!(has_more(&one, line(true)) && has_more(&one, line(false)));
        let names: Vec<String> = (0..25).map(|at| format!("test.nop:{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = shown(&good(states(&names, "")), true, Depth::Diffs);
        assert!(text.contains("… and 5 more states; --format json has all of them"), "{text}");
    }

    #[test]
    #[rule("S-59")]
    fn s59_a_revert_is_counted_as_on_one_machine() {
        let mut answer = states(&["file.managed:a", "cmd.run:b"], "");
        answer["mode"] = json!("revert");
        answer["states"]["cmd.run:b"]["details"]["forced"] = json!("watch");
        let text = shown(&good(answer), true, Depth::Line);
        assert!(text.starts_with(" ✓ web-01    1 reverted, 1 refreshed    8ms  file.managed:a, "), "{text}");
    }

    #[test]
    #[rule("J-17")]
    fn j17_one_outcome_has_one_word() {
        let stopped = |cause, status, error: &str| {
            let mut answer = run(0, "canceled", "");
            answer["canceled"] = json!(true);
            let result =
                PeelResult { duration_ms: Some(2100), answer, cause, ..PeelResult::without(status, error) };
            shown(&result, false, Depth::Line)
        };
        let at = stopped(Cause::Deadline, PeelStatus::Missing, "canceled by the deadline: canceled");
        assert_eq!(at, " ! web-01    stopped at the deadline   2.1s\n");
        let direct = stopped(Cause::Deadline, PeelStatus::Missing, "timeout after 2s");
        assert_eq!(direct, " ! web-01    timeout after 2s         2.1s\n");
        let killed = stopped(Cause::Canceled, PeelStatus::Canceled, "canceled");
        assert_eq!(killed, " ! web-01    canceled                 2.1s\n");
        let refused =
            PeelResult { cause: Cause::Busy, ..PeelResult::without(PeelStatus::Failed, "queue full") };
        assert_eq!(
            shown(&refused, false, Depth::Line),
            " ✗ web-01    refused                        queue full\n"
        );
        let away = PeelResult::without(PeelStatus::Unreachable, "unreachable");
        assert_eq!(shown(&away, false, Depth::Line), " ! web-01    unreachable\n");
    }

    #[test]
    #[rule("C-12")]
    fn c12_a_graph_reads_as_it_does_on_one_machine() {
        let graph = json!({
            "levels": [["file.managed:conf"], ["cmd.run:note"]],
            "edges": [{"from": "file.managed:conf", "to": "cmd.run:note", "kind": "onchanges"}],
        });
        let text = shown(&good(graph), true, Depth::States);
        let wanted = "     level 0\n       file.managed:conf\n     level 1\n       cmd.run:note\n           onchanges file.managed:conf\n";
        assert!(text.ends_with(wanted), "{text}");
    }

    #[test]
    fn a_long_error_stands_under_its_peel_and_fits() {
        let long = "there is no file for `nosuch`: looked for `nosuch.zy` and `nosuch/init.zy`, and the same with `.sls`";
        let text = line(json!({"error": {}, "errors": []}), long, true);
        assert!(
            text.starts_with(" ✗ web-01    error                    2.1s\n     there is no file"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }
}
