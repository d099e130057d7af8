//! A run for people: a line a state, what changed under it, a summary (C-4).

use super::control::one_line;
use super::duration_words;
use super::paint::Paint;
use std::fmt::Write;
use zester_compile::Ask;
use zester_converge::plan::Plan;
use zester_model::outcome::{Mode, RunResult, StateResult};
use zester_model::source::Sources;

/// Lines of one diff that are printed; JSON has all of it.
pub const DIFF_LINES_SHOWN: usize = 60;
/// Lines of an error that are printed under its state.
const ERROR_LINES_SHOWN: usize = 12;
/// Where the column after the names stands at most.
const NAME_WIDTH_MAX: usize = 48;

/// What the first line says: `web  7 states, 3 levels`.
pub fn heading(plan: &Plan, mode: Mode, paint: Paint) -> String {
    let (states, levels) = (plan.graph.len(), plan.graph.level_count());
    let plural = |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let what = match mode {
        Mode::Apply => "",
        Mode::Check => "  dry run",
        Mode::Revert => "  revert",
    };
    let none = match plan.inputs.ask {
        Ask::Highstate if states == 0 => {
            let id = one_line(&plan.inputs.id);
            format!(
                "top.zy gives {id} no states: no target in it matches this id, or what matches is empty\n"
            )
        }
        _ => String::new(),
    };
    format!(
        "{}  {}, {}{what}\n{none}",
        paint.bold(&one_line(&plan.asked)),
        plural(states, "state"),
        plural(levels, "level")
    )
}

/// The width of the name column of a run.
pub fn name_width<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(|name| one_line(name).chars().count()).max().unwrap_or(0).min(NAME_WIDTH_MAX)
}

/// How much of a run is shown.
#[derive(Copy, Clone, Debug)]
pub struct Shown {
    pub mode: Mode,
    /// The width of the name column.
    pub width: usize,
    /// What commands printed: whoever calls one function wants to see its answer.
    pub output: bool,
    /// Lines of each diff; none: no diff at all.
    pub diff_lines: Option<usize>,
}

/// One state: its line, and what belongs under it.
pub fn state(result: &StateResult, shown: Shown, paint: Paint) -> String {
    let Shown { mode, width, output, diff_lines } = shown;
    let (mark, words) = verdict(result, mode, paint);
    let time = if result.skipped { String::new() } else { duration_words(result.duration_ms) };
    let name = one_line(&result.name);
    let pad = " ".repeat(width.saturating_sub(name.chars().count()));
    let line = format!(" {mark} {name}{pad}  {}  {words}", paint.dim(&format!("{time:<6}")));
    let mut out = line.trim_end().to_string() + "\n";
    let printed: Vec<&str> = match output {
        true => ["stdout", "stderr"].iter().flat_map(|stream| printed(result, stream)).collect(),
        false => Vec::new(),
    };
    // The error of a command repeats the end of what it printed.
    for line in under(result, diff_lines, paint).iter().filter(|line| !printed.contains(&line.as_str())) {
        let _ = writeln!(out, "     {line}");
    }
    for line in printed {
        let _ = writeln!(out, "     {line}");
    }
    out
}

fn printed<'a>(result: &'a StateResult, stream: &str) -> std::str::Lines<'a> {
    result.details.get(stream).and_then(|text| text.as_str()).unwrap_or_default().lines()
}

fn forced(result: &StateResult, mode: Mode) -> Option<String> {
    let by: Vec<String> = result
        .details
        .get("forced_by")?
        .as_array()?
        .iter()
        .filter_map(|name| name.as_str().map(one_line))
        .collect();
    Some(match result.details.get("forced")?.as_str()? {
        "watch" if mode == Mode::Revert => format!("because {} was reverted", by.join(", ")),
        "watch" if mode == Mode::Check => format!("because {} would change", by.join(", ")),
        "watch" => format!("because {} changed", by.join(", ")),
        "pending_refresh" => "because of a pending refresh from an earlier run".to_string(),
        _ => format!("before {} changes", by.join(", ")),
    })
}

fn verdict(result: &StateResult, mode: Mode, paint: Paint) -> (String, String) {
    if result.failed() {
        let first = result.error.lines().next().unwrap_or_default();
        return (paint.red("✗"), paint.red(first));
    }
    if result.skipped {
        return (paint.dim("·"), paint.dim(&format!("skipped: {}", skip_words(result, mode))));
    }
    if !result.changed {
        let words = if result.diff.contains('\n') { "" } else { &result.diff };
        return (paint.dim("="), paint.dim(words));
    }
    let one_line = !result.diff.is_empty() && !result.diff.trim_end().contains('\n');
    let did = match mode {
        Mode::Apply => "changed",
        Mode::Check => "would change",
        Mode::Revert => "reverted",
    };
    let did = if one_line { result.diff.trim_end() } else { did };
    if result.unknown() {
        return (paint.yellow("?"), did.to_string());
    }
    match forced(result, mode) {
        Some(why) => (paint.cyan("↻"), format!("{did}, {why}")),
        None => (paint.green("✓"), did.to_string()),
    }
}

/// Why it was skipped; in a dry run, why it would be.
fn skip_words(result: &StateResult, mode: Mode) -> String {
    let because = result.details.get("because").and_then(|names| names.as_array());
    let names: Vec<String> =
        because.into_iter().flatten().filter_map(|name| name.as_str().map(one_line)).collect();
    let names = names.join(", ");
    let did_not = if mode == Mode::Check { "would not" } else { "did not" };
    match result.skip_reason.as_str() {
        "require_failed" => format!("needs {names}, which {did_not} succeed"),
        "onchanges_not_met" => format!("onchanges not met ({names} {did_not} change)"),
        "onfail_not_met" => format!("onfail not met ({names} {did_not} fail)"),
        "prereq_not_met" => format!("prereq not met ({names} would not change)"),
        "failhard_abort" if mode == Mode::Check => format!("{names} would fail, and is failhard"),
        "failhard_abort" => format!("{names} failed, and is failhard"),
        other => other.to_string(),
    }
}

fn under(result: &StateResult, diff_lines: Option<usize>, paint: Paint) -> Vec<String> {
    if result.failed() {
        let rest: Vec<&str> = result.error.lines().skip(1).collect();
        return rest.iter().take(ERROR_LINES_SHOWN).map(|line| line.to_string()).collect();
    }
    diff_lines.map(|most| diff(result, most, paint)).unwrap_or_default()
}

/// What a state changed, where that takes more than one line: so many of them, and how many are left out.
pub fn diff(result: &StateResult, most: usize, paint: Paint) -> Vec<String> {
    if !has_diff(result) {
        return Vec::new();
    }
    let lines: Vec<&str> = result.diff.lines().collect();
    let mut shown: Vec<String> = lines.iter().take(most).map(|line| diff_line(line, paint)).collect();
    if lines.len() > most {
        shown.push(paint.dim(&format!("… {} more lines", lines.len() - most)));
    }
    shown
}

/// What it changed takes more than one line.
pub fn has_diff(result: &StateResult) -> bool {
    result.changed && result.diff.trim_end().contains('\n')
}

fn diff_line(line: &str, paint: Paint) -> String {
    match line.as_bytes().first() {
        _ if line.starts_with("+++") || line.starts_with("---") => paint.bold(line),
        Some(b'+') => paint.green(line),
        Some(b'-') => paint.removed(line),
        Some(b'@') => paint.cyan(line),
        _ => line.to_string(),
    }
}

/// In a revert: actions that ran because of it (S-59).
fn refreshed(result: &RunResult) -> usize {
    let forced = |state: &&StateResult| state.changed && state.details.contains_key("forced");
    match result.mode {
        Mode::Revert => result.states.values().filter(forced).count(),
        Mode::Apply | Mode::Check => 0,
    }
}

/// `2 changed`, `1 would change, 1 unknown`, `1 reverted, 1 refreshed`; empty where there is nothing of it.
pub fn done(result: &RunResult) -> String {
    let refreshed = refreshed(result);
    let plainly = result.changed.saturating_sub(refreshed).saturating_sub(result.unknown);
    let word = match result.mode {
        Mode::Apply => "changed",
        Mode::Check => "would change",
        Mode::Revert => "reverted",
    };
    let parts = [(plainly, word), (result.unknown, "unknown"), (refreshed, "refreshed")];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    parts.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
}

/// The summary, and every failure once more with its place.
pub fn ending(result: &RunResult, plan: Option<&Plan>, undoable: bool, paint: Paint) -> String {
    let mut out = String::from("\n");
    let unchanged = result.states.len() - result.changed - result.failed - result.skipped;
    let refreshed = refreshed(result);
    let changed = match result.mode {
        Mode::Apply => format!("{} changed", result.changed),
        Mode::Check => format!("{} would change", result.changed.saturating_sub(result.unknown)),
        Mode::Revert => format!("{} reverted", result.changed.saturating_sub(refreshed)),
    };
    let paint_if = |count: usize, text: String, painted: fn(Paint, &str) -> String| {
        if count > 0 { painted(paint, &text) } else { text }
    };
    let mut parts = vec![paint_if(result.changed, changed, Paint::green), format!("{unchanged} unchanged")];
    if refreshed > 0 {
        parts.insert(1, paint.green(&format!("{refreshed} refreshed")));
    }
    if result.unknown > 0 {
        parts.insert(1, paint.yellow(&format!("{} unknown", result.unknown)));
    }
    parts.push(paint_if(result.failed, format!("{} failed", result.failed), Paint::red));
    parts.push(paint_if(result.skipped, format!("{} skipped", result.skipped), Paint::yellow));
    let _ = write!(out, "{}   {}", parts.join("  "), duration_words(result.total_duration_ms));
    out.push_str(if result.mode == Mode::Check { "   nothing was changed\n" } else { "\n" });
    if result.canceled && !result.timed_out {
        let _ = writeln!(out, "{}", paint.red("canceled before the end"));
    }
    if !result.error.is_empty() {
        let _ = writeln!(out, "{}", paint.red(&result.error));
    }
    let place = |name: &str| plan.and_then(|plan| place_of(plan, &plan.sources, name)).unwrap_or_default();
    for state in result.states.values().filter(|state| state.failed()) {
        let _ = write!(out, "{} {}", paint.red("failed:"), one_line(&state.name));
        // A revert of a run knows no file, and a call has none.
        let _ = match place(&state.name) {
            place if place.is_empty() => writeln!(out),
            place => writeln!(out, "  {}", paint.dim(&place)),
        };
    }
    if undoable {
        let _ = writeln!(out, "{}", paint.dim(&format!("undo: zester revert --run {}", result.run_id)));
    }
    out
}

/// `states/web/init.zy:31` of a state.
fn place_of(plan: &Plan, sources: &Sources, name: &str) -> Option<String> {
    if plan.call {
        return None;
    }
    let state = plan.program.states.iter().find(|state| state.name.as_str() == name)?;
    Some(format!("{}:{}", sources.path(state.span.file), state.span.line))
}
