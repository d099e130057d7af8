//! Schedules for people.

use super::job_text::ago;
use super::paint::Paint;
use super::peel_text::{self, Depth, PeelShown};
use super::shell::cut;
use super::wrap::WIDTH;
use super::{duration_words, fleet_text};
use crate::commands::schedule::Said;
use crate::fleet::outcome::PeelResult;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt::Write;
use zester_wire::{PeelId, Return, UnixMillis};

type AllSaid = BTreeMap<PeelId, Said>;

/// The names of the entries that a peel tells of.
pub fn names(answer: &Json) -> Vec<String> {
    entries(answer).iter().map(|entry| text(entry, "name").to_string()).collect()
}

fn entries(answer: &Json) -> &[Json] {
    answer["entries"].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(entry: &'a Json, key: &str) -> &'a str {
    entry[key].as_str().unwrap_or_default()
}

fn moment(value: &Json) -> Option<UnixMillis> {
    value.as_u64().map(UnixMillis)
}

/// `zester schedule list`
pub fn list(said: &AllSaid, now: UnixMillis, paint: Paint) -> String {
    let mut out = String::new();
    for (peel, said) in said {
        let Some(answer) = head(&mut out, peel, said, paint) else { continue };
        let width = entries(answer).iter().map(|entry| text(entry, "name").len()).max().unwrap_or(0);
        for entry in entries(answer) {
            let name = text(entry, "name");
            let _infallible =
                writeln!(out, "  {name:<width$}  {}  {}", text(entry, "function"), times(entry, now));
            for line in below(entry, now, paint) {
                let _infallible = writeln!(out, "  {:<width$}  {line}", "");
            }
        }
    }
    out
}

/// The peel, and what it says of its schedule if it says anything.
fn head<'a>(out: &mut String, peel: &PeelId, said: &'a Said, paint: Paint) -> Option<&'a Json> {
    let name = paint.bold(peel.as_str());
    match said {
        Said::Answer(answer) => {
            let none = if entries(answer).is_empty() { "  nothing is scheduled" } else { "" };
            let _infallible = writeln!(out, "{name}{none}");
            if let Some(problem) = answer["problem"].as_str() {
                let words = format!("broken, the last good one stays in force: {problem}");
                let _infallible = writeln!(out, "  {}", paint.yellow(&words));
            }
            if let Some(unsaved) = answer["unsaved"].as_str() {
                let _infallible = writeln!(out, "  {}", paint.red(unsaved));
            }
            Some(answer)
        }
        Said::Refused(why) | Said::Away(why) => {
            let _infallible = writeln!(out, "{name}  {}", paint.red(why));
            None
        }
    }
}

/// `every 30m, next in 12m`
fn times(entry: &Json, now: UnixMillis) -> String {
    let when = text(entry, "when");
    let next = match (entry["enabled"] == false, moment(&entry["next"])) {
        (true, _) => "disabled".to_string(),
        (_, None) => "no further run".to_string(),
        (_, Some(next)) => {
            let ahead = zester_wire::time::as_millis(next.since(now));
            format!("next in {}", duration_words(ahead - ahead % 1_000).replace(".0s", "s"))
        }
    };
    format!("{when}, {next}")
}

/// What is under way, how the last run ended, and what was missed.
fn below(entry: &Json, now: UnixMillis, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    for run in entry["running"].as_array().into_iter().flatten() {
        let since = moment(&run["started"]).unwrap_or(now);
        lines.push(paint.cyan(&format!("running, began {}", ago(since, now))));
    }
    let last = &entry["last"];
    if let Some(ended) = moment(&last["ended"]) {
        let when = ago(ended, now);
        lines.push(match last["success"] == true {
            true => format!("last run {when}: {}", paint.green("ok")),
            false => {
                let why = text(last, "error");
                format!("last run {when}: {}", paint.red(&cut(&format!("failed, {why}"), WIDTH - 24)))
            }
        });
    }
    if let Some(missed) = entry["missed"].as_u64().filter(|missed| *missed > 0) {
        let when = moment(&entry["last_missed"])
            .map_or_else(String::new, |last| format!(", the last {}", ago(last, now)));
        lines.push(paint.yellow(&format!("{missed} missed{when}")));
    }
    lines
}

/// `zester schedule show`
pub fn show(said: &AllSaid, now: UnixMillis, paint: Paint) -> String {
    let mut out = String::new();
    for (peel, said) in said {
        let Some(answer) = head(&mut out, peel, said, paint) else { continue };
        for entry in entries(answer) {
            let (name, function) = (text(entry, "name"), text(entry, "function"));
            let _infallible = writeln!(out, "  {}  {function}  {}", paint.bold(name), times(entry, now));
            let _infallible = writeln!(out, "    from {}", text(entry, "source"));
            for line in below(entry, now, paint).iter().filter(|line| !line.starts_with("last run")) {
                let _infallible = writeln!(out, "    {line}");
            }
            let results = entry["results"].as_array().map_or(&[][..], Vec::as_slice);
            if results.is_empty() {
                let _infallible = writeln!(out, "    it has not run yet");
            }
            for result in
                results.iter().filter_map(|result| serde_json::from_value::<Return>(result.clone()).ok())
            {
                let _infallible = writeln!(out, "    {}  {}", result.jid, ago(result.ts, now));
                for line in result_text(&result, paint).lines() {
                    let _infallible = writeln!(out, "    {line}");
                }
            }
        }
    }
    out
}

/// One result as `zester job show` shows it.
fn result_text(ret: &Return, paint: Paint) -> String {
    let function = ret.schedule.as_ref().map_or("", |run| run.function.as_str());
    let of_one = fleet_text::peel_shown(function, std::slice::from_ref(&ret.peel), true);
    let shown = PeelShown { depth: Depth::Diffs, ..of_one };
    peel_text::peel(&ret.peel, &PeelResult::of_return(ret), shown, paint)
}

/// `zester schedule run`
pub fn started(name: &str, said: &AllSaid, paint: Paint) -> String {
    let mut out = String::new();
    for (peel, said) in said {
        let _infallible = match said {
            Said::Answer(answer) => {
                writeln!(out, "{}  started `{name}`  {}", paint.bold(peel.as_str()), text(answer, "jid"))
            }
            Said::Refused(why) | Said::Away(why) => {
                writeln!(out, "{}  {}", paint.bold(peel.as_str()), paint.red(why))
            }
        };
    }
    let _infallible = writeln!(out, "{}", paint.dim(&format!("more: zester schedule show {name}")));
    out
}

/// `zester job list --scheduled`
pub fn results(results: &[Return], now: UnixMillis, paint: Paint) -> String {
    if results.is_empty() {
        return "no results of schedules\n".to_string();
    }
    let mut out = String::new();
    for result in results {
        let Some(run) = &result.schedule else { continue };
        let word = if result.success { paint.green("ok    ") } else { paint.red("failed") };
        let (jid, peel, when) = (&result.jid, &result.peel, ago(result.ts, now));
        let _infallible = writeln!(out, "{jid}  {word}  {peel}  {when}  {} ({})", run.name, run.function);
    }
    out
}

/// `zester job show` of a scheduled run.
pub fn result(ret: &Return, now: UnixMillis, paint: Paint) -> String {
    let mut out = String::new();
    let (name, function) =
        ret.schedule.as_ref().map_or(("", ""), |run| (run.name.as_str(), run.function.as_str()));
    let _infallible = writeln!(out, "{}  {function}", paint.bold(&format!("job {}", ret.jid)));
    let when = ago(ret.ts, now);
    let _infallible = writeln!(out, "of the schedule of {}: `{name}`, ended {when}", ret.peel);
    out.push_str(&result_text(ret, paint));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    fn said(answer: Json) -> AllSaid {
        let peel = |name: &str| PeelId::parse(name).unwrap();
        BTreeMap::from([
            (peel("web-1"), Said::Answer(answer)),
            (peel("web-2"), Said::Answer(json!({ "entries": [], "problem": null }))),
            (peel("web-3"), Said::Away("unreachable".into())),
        ])
    }

    #[test]
    #[rule("D-10")]
    fn d10_a_list_says_what_is_next_and_how_the_last_run_ended() {
        let last = json!({ "ended": NOW.0 - 120_000, "success": false, "error": "exit code 1" });
        let entry = json!({
            "name": "backup", "function": "cmd.run", "when": "every 30m", "enabled": true,
            "next": NOW.0 + 90_000, "running": [], "last": last, "missed": 2, "last_missed": NOW.0 - 3_600_000,
        });
        let text = list(
            &said(
                json!({ "entries": [entry], "problem": "s.yaml:1:1: bad", "unsaved": "cannot be written" }),
            ),
            NOW,
            Paint::new(false),
        );
        let wanted = "web-1\n  broken, the last good one stays in force: s.yaml:1:1: bad\n  cannot be written\n  backup  cmd.run  every 30m, next in 1m 30s\n          \
                      last run 2m 0s ago: failed, exit code 1\n          2 missed, the last 1h 0m ago\nweb-2  nothing is scheduled\nweb-3  unreachable\n";
        assert_eq!(text, wanted);
    }
}
