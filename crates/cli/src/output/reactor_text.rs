//! The rules of the reactor and its ledger for people.

use super::control::one_line;
use super::event_text::clock;
use super::paint::Paint;
use super::shell::cut;
use super::wrap::WIDTH;
use super::{duration_words, fleet_text};
use crate::commands::reactor::Report;
use std::fmt::Write;
use std::time::Duration;
use zester_wire::ledger::NO_ORIGIN;
use zester_wire::{LedgerEntry, ReactorTestReply, RuleList, RuleStatus, TestedBlock, UnixMillis};

/// Differences of a replay that are shown one by one; JSON has more.
const DIFFERENCES_SHOWN: usize = 100;

/// One decision of a replay that is not what happened. Empty words: there was none.
#[derive(Clone, Debug)]
pub struct Difference {
    pub event: String,
    pub key: String,
    pub rule: String,
    pub block: String,
    pub before: String,
    pub now: String,
    pub reason: String,
}

/// What the rules would do.
pub fn tested(key: &str, reply: &ReactorTestReply, paint: Paint) -> String {
    let mut out = String::new();
    let rules = fleet_text::count_of(reply.rules.len(), "rule");
    let match_word = if reply.rules.len() == 1 { "matches" } else { "match" };
    let of = format!("revision {} at {}", reply.revision, reply.master);
    let _infallible =
        writeln!(out, "{}  {rules} {match_word}  {}", paint.bold(&one_line(key)), paint.dim(&of));
    for rule in &reply.rules {
        let sign = if rule.errors.is_empty() { paint.green("✓") } else { paint.red("✗") };
        let _infallible = writeln!(out, " {sign} {}  {}", rule.rule, paint.dim(&format!("'{}'", rule.glob)));
        for error in &rule.errors {
            error.lines().for_each(|line| {
                let _infallible = writeln!(out, "     {line}");
            });
        }
        if rule.errors.is_empty() && rule.blocks.is_empty() {
            let _infallible = writeln!(out, "     {}", paint.dim("nothing to do for this event"));
        }
        rule.blocks.iter().for_each(|block| self::block(block, &mut out, paint));
    }
    let _infallible = writeln!(out, "{}", paint.dim("nothing was executed"));
    out
}

fn block(block: &TestedBlock, out: &mut String, paint: Paint) {
    let reach = block.targets.map(|targets| match targets {
        0 => paint.yellow("  no peel matches"),
        _ => paint.dim(&format!("  {}", fleet_text::count_of(targets as usize, "peel"))),
    });
    let name = one_line(&block.block);
    let _infallible = writeln!(out, "   {name}: {}{}", paint.cyan(&block.action), reach.unwrap_or_default());
    for (field, value) in block.rendered.iter().filter(|(_, value)| !value.is_null()) {
        let shown = match value.as_str() {
            Some(text) => one_line(text),
            None => one_line(&value.to_string()),
        };
        let _infallible = writeln!(out, "     {field}: {}", cut(&shown, WIDTH * 4));
    }
}

fn guards(rule: &RuleStatus, now: UnixMillis, paint: Paint) -> String {
    let mut words = Vec::new();
    if !rule.open_until.is_zero() {
        let left = duration_words(zester_wire::time::as_millis(rule.open_until.since(now)));
        words.push(paint.red(&format!("stopped by its breaker for {left}")));
    }
    if rule.fires > 0 {
        words.push(format!("{} in the last minute", fleet_text::count_of(rule.fires as usize, "fire")));
    }
    if rule.throttle > Duration::ZERO {
        let every = duration_words(zester_wire::time::as_millis(rule.throttle)).replace(".0s", "s");
        words.push(format!("at most every {every} a source"));
    }
    words.join(", ")
}

fn listed<'r>(rules: impl Iterator<Item = &'r RuleStatus>, now: UnixMillis, paint: Paint) -> String {
    let mut out = String::new();
    for rule in rules {
        let guards = guards(rule, now, paint);
        let _infallible = writeln!(out, " {}  {}", paint.cyan(&format!("'{}'", rule.glob)), rule.rule);
        if !guards.is_empty() {
            let _infallible = writeln!(out, "     {guards}");
        }
    }
    out
}

/// All rules in use.
pub fn rules(list: &RuleList, now: UnixMillis, paint: Paint) -> String {
    let count = fleet_text::count_of(list.rules.len() + list.more as usize, "rule");
    let mut out = match list.revision {
        0 => format!("no rules: no revision has reached {}\n", list.master),
        revision => format!("{count}, revision {revision} at {}\n", list.master),
    };
    out.push_str(&listed(list.rules.iter(), now, paint));
    if list.more > 0 {
        let _infallible = writeln!(out, "{}", paint.dim(&format!("and {} more", list.more)));
    }
    let stopped: Vec<&RuleStatus> = list.rules.iter().filter(|rule| !rule.open_until.is_zero()).collect();
    if let Some(rule) = stopped.first() {
        let _infallible = writeln!(out, "let it react again: zester reactor breaker close {}", rule.rule);
    }
    if !list.problems.is_empty() {
        let _infallible = writeln!(out, "{}", paint.red("a newer revision is not in use:"));
        list.problems.iter().flat_map(|problem| problem.lines()).for_each(|line| {
            let _infallible = writeln!(out, "  {line}");
        });
    }
    out
}

/// Which rules match a key, and which do not.
pub fn why(
    key: &str,
    matching: &[&RuleStatus],
    others: &[&RuleStatus],
    now: UnixMillis,
    paint: Paint,
) -> String {
    let count = fleet_text::count_of(matching.len(), "rule");
    let verb = if matching.len() == 1 { "matches" } else { "match" };
    let mut out = format!("{}  {count} {verb}\n", paint.bold(&one_line(key)));
    out.push_str(&listed(matching.iter().copied(), now, paint));
    if !others.is_empty() {
        let _infallible = writeln!(out, "{}", paint.dim("not:"));
    }
    for rule in others {
        let line = format!(" '{}'  {}", rule.glob, rule.rule);
        let why = match key.split_once('/') {
            Some((_, tag)) if rule.glob == tag => "  (the key begins with the origin)",
            _ => "",
        };
        let _infallible = writeln!(out, "{}{why}", paint.dim(&line));
    }
    out
}

/// The word of a decision, in the colour of how it went.
pub fn decision(word: &str, paint: Paint) -> String {
    match word {
        "dispatched" | "sent" | "logged" => paint.green(word),
        "duplicate" | "nothing" => paint.dim(word),
        "render_error" | "validate_error" | "error" | "exhausted" | "refused" | "aborted" => paint.red(word),
        _ => paint.yellow(word),
    }
}

/// What an event is matched by, as far as the ledger knows it.
pub fn event_key(origin: &str, tag: &str) -> String {
    match (origin, tag) {
        (NO_ORIGIN, "") => "events of nobody that is known".to_string(),
        (origin, "") => origin.to_string(),
        (origin, tag) => format!("{origin}/{tag}"),
    }
}

/// What was decided, oldest first.
pub fn history(entries: &[LedgerEntry], more: usize, since: Duration, paint: Paint) -> String {
    if entries.is_empty() {
        let span = duration_words(zester_wire::time::as_millis(since)).replace(".0s", "s");
        return format!("nothing in the last {span}; --since 7d looks further back\n");
    }
    let mut out = String::new();
    if more > 0 {
        let all = entries.len() + more;
        let _infallible = writeln!(out, "{}", paint.dim(&format!("{more} earlier ones: --limit {all}")));
    }
    for entry in entries {
        let key = one_line(&event_key(&entry.origin, &entry.tag));
        // Whole: the ids of events about jobs have long beginnings in common.
        let id = one_line(&entry.event_id);
        let _infallible = write!(out, "{}  {}", paint.dim(&clock(entry.at)), paint.cyan(&key));
        let _infallible = match id.is_empty() {
            true => writeln!(out),
            false => writeln!(out, "  {}", paint.dim(&id)),
        };
        let _infallible = writeln!(out, "     {}", what(entry, paint));
    }
    out
}

/// `reactor.restart restart: dispatched  service.restart to web-01  rxn-…`
pub fn what(entry: &LedgerEntry, paint: Paint) -> String {
    let who = match (entry.rule.as_str(), entry.block.as_str()) {
        ("", _) => "dropped".to_string(),
        (rule, "") => rule.to_string(),
        (rule, block) => format!("{rule} {}", one_line(block)),
    };
    let mut line = format!("{who}: {}", decision(&entry.decision, paint));
    if !entry.reason.is_empty() {
        let _infallible = write!(line, "  {}", cut(&one_line(&entry.reason), WIDTH * 2));
    }
    if let Some(jid) = &entry.jid {
        let _infallible = write!(line, "  {}", paint.dim(jid.as_str()));
    }
    if entry.unwritten > 0 {
        let _infallible = write!(line, "  and {} more alike", entry.unwritten);
    }
    line
}

/// What a replay came to.
pub fn replayed(report: &Report, paint: Paint) -> String {
    let events = fleet_text::count_of(report.events, "event");
    let mut out = format!("{events}: {} dropped, {} met no rule\n", report.dropped, report.unmatched);
    for ((rule, word), count) in &report.would {
        let _infallible = writeln!(out, "  {rule}: {} {count}×", decision(word, paint));
    }
    let _infallible = writeln!(out, "{} as it was, {} different", report.same, report.different);
    if report.not_met > 0 {
        let decisions = fleet_text::count_of(report.not_met, "decision");
        let why = "about events that left the stream, or came earlier: not compared";
        let _infallible = writeln!(out, "{}", paint.dim(&format!("{decisions} {why}")));
    }
    for one in report.differences.iter().take(DIFFERENCES_SHOWN) {
        let who = match (one.rule.as_str(), one.block.as_str()) {
            ("", _) => "the event".to_string(),
            (rule, "") => rule.to_string(),
            (rule, block) => format!("{rule} {}", one_line(block)),
        };
        // `nothing` is a decision of its own: a file that rendered to nothing.
        let change = match (one.before.as_str(), one.now.as_str()) {
            ("", now) => format!("would be {}, and was not decided", decision(now, paint)),
            (before, "") => format!("was {}, and would not be decided", decision(before, paint)),
            (before, now) => format!("was {}, would be {}", decision(before, paint), decision(now, paint)),
        };
        let (key, event) = (paint.cyan(&one_line(&one.key)), paint.dim(&one_line(&one.event)));
        let _infallible = writeln!(out, "{key}  {event}\n     {who}: {change}");
    }
    let more = report.different.saturating_sub(DIFFERENCES_SHOWN);
    if more > 0 {
        let _infallible = writeln!(out, "{}", paint.dim(&format!("and {more} more: --format json")));
    }
    let _infallible = writeln!(out, "{}", paint.dim("nothing was executed"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_nobody_knows_are_told_without_a_key_of_half() {
        let entry = LedgerEntry { origin: "_unknown".into(), unwritten: 5, ..LedgerEntry::default() };
        let text = history(&[entry], 0, Duration::from_secs(60), Paint::new(false));
        let first = text.lines().next().unwrap();
        assert!(first.ends_with("  events of nobody that is known"), "{text}");
    }

    #[test]
    fn ids_of_events_are_shown_whole_so_that_they_can_be_asked_for() {
        let ids = ["job-3Ouil8N9hj2WmHHdCSpunp7u95I-finalized", "job-3Ouil8N9hj2WmHHdCSpunp7u95I-dispatched"];
        let entry = |id: &str| LedgerEntry { event_id: id.into(), ..LedgerEntry::default() };
        let text = history(&ids.map(entry), 0, Duration::from_secs(60), Paint::new(false));
        for id in ids {
            assert!(text.contains(id), "{text}");
        }
    }
}
