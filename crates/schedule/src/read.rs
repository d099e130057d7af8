//! A schedule as the user wrote it: what is wrong with it is told at its place.

use crate::entry::{Entry, Splay};
use crate::limits::{ENTRIES_MAX, INTERVAL_MIN, MAXRUNNING_MAX, NAME_BYTES_MAX, SPAN_MAX, TIMEOUT_DEFAULT};
use crate::when::{CronTimes, When, known_zone, moment};
use serde_json::{Map, Value as Json};
use std::time::Duration;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::duration;
use zester_model::node::{Mismatch, Node, ScalarType, Value};
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;
use zester_wire::UnixMillis;

/// The words of an entry. Those of Salt mean what they mean there.
const WORDS: &[&str] = &[
    "function",
    "args",
    "kwargs",
    "interval",
    "seconds",
    "minutes",
    "hours",
    "days",
    "cron",
    "timezone",
    "splay",
    "maxrunning",
    "run_on_start",
    "after",
    "until",
    "catch_up",
    "return_job",
    "enabled",
    "timeout",
];
/// Spans that add up to the interval, and how many seconds each counts.
const SPANS: [(&str, u64); 4] = [("seconds", 1), ("minutes", 60), ("hours", 3_600), ("days", 86_400)];
/// Salt's words that have no place here, and what to write instead.
const INSTEAD: &[(&str, &str)] = &[
    ("when", "write the time as `cron`, with a `timezone` if it is not the machine's"),
    ("once", "write the time as `cron`, and `until` a little later"),
    ("range", "write the hours into `cron`, as in `*/10 8-17 * * *`"),
    ("skip_during_range", "write the hours into `cron`, as in `*/10 8-17 * * *`"),
    ("job_args", "write `args`"),
    ("job_kwargs", "write `kwargs`"),
    ("jid_include", "it is always so"),
    ("returner", "results travel to the masters; `return_job: false` keeps them on the peel"),
];

/// Judges a function with its arguments.
pub type Check = dyn Fn(&str, &[Json], &Map<String, Json>) -> Result<(), String>;

/// What a schedule is read with.
pub struct Reading<'a> {
    /// Where it was written, for whoever lists it.
    pub source: &'a str,
    /// The zone of this machine: that of times without one.
    pub local_zone: &'a str,
    /// Whether there is such a function and it takes such words; or a sentence that says what is wrong.
    pub check: &'a Check,
}

/// Something that is wrong with a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduleError {
    /// The keys that lead to it, for a schedule that has no places.
    pub path: Vec<String>,
    pub span: Span,
    pub message: String,
    pub hint: Option<String>,
}

impl ScheduleError {
    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::new(Kind::Config, self.message.clone()).at(self.span).maybe_hint(self.hint.clone())
    }

    /// In one sentence, without its place.
    pub fn sentence(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{}; {hint}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Reads a schedule: every entry, or everything that is wrong.
pub fn read(node: &Node, reading: &Reading<'_>) -> Result<Vec<Entry>, Vec<ScheduleError>> {
    if node.is_null() {
        return Ok(Vec::new());
    }
    let mut reader = Reader { reading, problems: Vec::new(), path: Vec::new() };
    let entries = reader.all(node);
    if reader.problems.is_empty() { Ok(entries) } else { Err(reader.problems) }
}

struct Reader<'a> {
    reading: &'a Reading<'a>,
    problems: Vec<ScheduleError>,
    path: Vec<String>,
}

/// The values of one entry by their words.
struct Words<'n> {
    span: Span,
    given: Vec<(&'n str, &'n Node, &'n Node)>,
}

impl<'n> Words<'n> {
    fn get(&self, word: &str) -> Option<&'n Node> {
        self.given.iter().find(|(given, ..)| *given == word).map(|(_, _, value)| *value)
    }
}

impl Reader<'_> {
    /// Tells a problem. What stands behind `; ` in the sentence is advice.
    fn tell(&mut self, span: Span, word: Option<&str>, sentence: &str) {
        let Mismatch { message, hint, .. } = Mismatch::with_advice(sentence);
        let path = self.path.iter().cloned().chain(word.map(str::to_string)).collect();
        self.problems.push(ScheduleError { path, span, message, hint });
    }

    fn all(&mut self, node: &Node) -> Vec<Entry> {
        let Some(map) = node.as_map() else {
            self.tell(
                node.span,
                None,
                &format!("expected a map of entries by name, found {}", node.describe()),
            );
            return Vec::new();
        };
        // Salt's switch for all of them.
        let all_enabled =
            map.iter().find(|(key, value)| key.as_text() == Some("enabled") && value.as_map().is_none());
        let enabled = all_enabled.and_then(|(_, value)| self.truth(value, "enabled")).unwrap_or(true);
        let named =
            map.iter().filter(|(key, value)| key.as_text() != Some("enabled") || value.as_map().is_some());
        let named: Vec<_> = named.collect();
        if named.len() > ENTRIES_MAX {
            let count = named.len();
            self.tell(
                node.span,
                None,
                &format!("a schedule may have {ENTRIES_MAX} entries, this one has {count}"),
            );
            return Vec::new();
        }
        let mut entries = Vec::new();
        for (key, value) in named {
            let name = key.as_text().unwrap_or_default().to_string();
            if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
                let why = format!("the name of an entry is a text of 1 to {NAME_BYTES_MAX} bytes");
                self.tell(key.span, None, &why);
                continue;
            }
            self.path = vec![name.clone()];
            if let Some(mut entry) = self.entry(name, value) {
                entry.enabled &= enabled;
                entries.push(entry);
            }
            self.path.clear();
        }
        entries
    }

    fn entry(&mut self, name: String, node: &Node) -> Option<Entry> {
        let Some(map) = node.as_map() else {
            self.tell(
                node.span,
                None,
                &format!("expected a map, found {}; it needs a `function` and its times", node.describe()),
            );
            return None;
        };
        let problems = self.problems.len();
        let mut words = Words { span: node.span, given: Vec::new() };
        for (key, value) in map {
            let word = key.as_text().unwrap_or_default();
            if WORDS.contains(&word) {
                words.given.push((word, key, value));
            } else {
                self.unknown(key.span, word);
            }
        }
        let function = match words.get("function") {
            Some(node) => self.text(node, "function").unwrap_or_default(),
            None => {
                self.tell(
                    words.span,
                    None,
                    "its `function` is missing; write `function: state.apply`, or another",
                );
                String::new()
            }
        };
        let (args, kwargs) = (self.args(&words), self.kwargs(&words));
        if self.problems.len() == problems
            && let Err(why) = (self.reading.check)(&function, &args, &kwargs)
        {
            let span = words.get("function").map_or(words.span, |node| node.span);
            self.tell(span, Some("function"), &why);
        }
        let when = self.when(&words);
        let splay = self.splay(&words, when.as_ref());
        let (after, until) = (self.moment(&words, "after"), self.moment(&words, "until"));
        if let (Some(after), Some(until)) = (after, until)
            && after >= until
        {
            let span = words.get("until").map_or(words.span, |node| node.span);
            self.tell(span, Some("until"), "`until` is not later than `after`; it would never run");
        }
        let maxrunning = self.maxrunning(&words);
        let timeout = match words.get("timeout") {
            Some(node) => self.span_of(node, "timeout").unwrap_or_default(),
            None => TIMEOUT_DEFAULT,
        };
        if timeout.is_zero() && self.problems.len() == problems {
            let span = words.get("timeout").map_or(words.span, |node| node.span);
            self.tell(span, Some("timeout"), "`timeout` must be more than nothing");
        }
        let mut flag = |word: &str, default: bool| match words.get(word) {
            Some(node) => self.truth(node, word).unwrap_or(default),
            None => default,
        };
        let entry = Entry {
            run_on_start: flag("run_on_start", false),
            catch_up: flag("catch_up", false),
            return_job: flag("return_job", true),
            enabled: flag("enabled", true),
            source: self.reading.source.to_string(),
            when: when?,
            name,
            function,
            args,
            kwargs,
            splay,
            maxrunning,
            after,
            until,
            timeout,
        };
        (self.problems.len() == problems).then_some(entry)
    }

    fn unknown(&mut self, span: Span, word: &str) {
        let instead =
            INSTEAD.iter().find(|(salts, _)| *salts == word).map(|(_, instead)| (*instead).to_string());
        let hint = instead.or_else(|| did_you_mean(word, WORDS.iter().copied()));
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        self.tell(span, Some(word), &format!("unknown key `{word}`{hint}"));
    }

    fn when(&mut self, words: &Words<'_>) -> Option<When> {
        let zone = match words.get("timezone") {
            Some(node) => {
                let zone = self.text(node, "timezone")?;
                if let Err(why) = known_zone(&zone) {
                    self.tell(node.span, Some("timezone"), &why);
                    return None;
                }
                zone
            }
            None => self.reading.local_zone.to_string(),
        };
        let spans: Vec<&(&str, &Node, &Node)> =
            words.given.iter().filter(|(word, ..)| SPANS.iter().any(|(span, _)| span == word)).collect();
        let (interval, cron) = (words.get("interval"), words.get("cron"));
        let of_spans = spans.first().map(|(word, key, _)| (*word, key.span));
        let of_interval = interval.map(|node| ("interval", node.span));
        match (of_interval.or(of_spans), cron) {
            (Some((word, _)), Some(cron)) => {
                let why = format!("`{word}` and `cron` both say when; keep one of them");
                self.tell(cron.span, Some("cron"), &why);
                None
            }
            (None, None) => {
                self.tell(words.span, None, "it says nowhere when to run; write `interval: 30m`, or `cron`");
                None
            }
            (None, Some(node)) => {
                let text = self.text(node, "cron")?;
                match CronTimes::parse(&text, &zone) {
                    Ok(times) => Some(When::Cron(Box::new(times))),
                    Err(why) => {
                        self.tell(node.span, Some("cron"), &why);
                        None
                    }
                }
            }
            (Some((word, span)), None) => {
                if let (Some(_), Some((other, span))) = (interval, of_spans) {
                    let why = format!("`interval` and `{other}` both say how often; keep one of them");
                    self.tell(span, Some(other), &why);
                    return None;
                }
                let every = match interval {
                    Some(node) => self.span_of(node, "interval")?,
                    None => self.sum(&spans)?,
                };
                if every < INTERVAL_MIN {
                    self.tell(span, Some(word), "the shortest interval is one second");
                    return None;
                }
                Some(When::Every(every))
            }
        }
    }

    fn sum(&mut self, spans: &[&(&str, &Node, &Node)]) -> Option<Duration> {
        let mut sum = Duration::ZERO;
        for (word, _, node) in spans {
            let seconds = SPANS.iter().find(|(span, _)| span == word).map_or(1, |(_, seconds)| *seconds);
            let count = match &node.value {
                Value::Scalar(scalar) => match scalar.scalar_type {
                    ScalarType::Int(count) => u64::try_from(count).ok(),
                    _ => None,
                },
                Value::List(_) | Value::Map(_) => None,
            };
            let Some(count) = count else {
                self.tell(
                    node.span,
                    Some(word),
                    &format!("expected a number of {word}, found {}", node.describe()),
                );
                return None;
            };
            sum = sum.saturating_add(Duration::from_secs(count.saturating_mul(seconds)));
        }
        if sum > SPAN_MAX {
            let span = spans.first().map(|(_, key, _)| key.span)?;
            self.tell(span, None, "the interval is longer than a year");
            return None;
        }
        Some(sum)
    }

    fn splay(&mut self, words: &Words<'_>, when: Option<&When>) -> Splay {
        let Some(node) = words.get("splay") else { return Splay::default() };
        let splay = match node.as_map() {
            None => self.span_of(node, "splay").map(|to| Splay { from: Duration::ZERO, to }),
            Some(map) => self.splay_range(map),
        };
        let Some(splay) = splay else { return Splay::default() };
        if splay.from > splay.to {
            self.tell(node.span, Some("splay"), "its `start` is after its `end`");
        }
        if let Some(When::Every(every)) = when
            && splay.to >= *every
        {
            let why = "the splay is as long as the interval; runs would meet the next ones, keep it shorter";
            self.tell(node.span, Some("splay"), why);
        }
        splay
    }

    fn splay_range(&mut self, map: &[(Node, Node)]) -> Option<Splay> {
        let mut splay = Splay::default();
        for (key, value) in map {
            match key.as_text() {
                Some("start") => splay.from = self.span_of(value, "splay")?,
                Some("end") => splay.to = self.span_of(value, "splay")?,
                _ => {
                    let word = key.as_text().unwrap_or_default();
                    self.tell(
                        key.span,
                        Some("splay"),
                        &format!("unknown key `{word}`; a splay has `start` and `end`"),
                    );
                    return None;
                }
            }
        }
        Some(splay)
    }

    fn maxrunning(&mut self, words: &Words<'_>) -> usize {
        let Some(node) = words.get("maxrunning") else { return 1 };
        let count = match &node.value {
            Value::Scalar(scalar) => match scalar.scalar_type {
                ScalarType::Int(count) => usize::try_from(count).ok(),
                _ => None,
            },
            Value::List(_) | Value::Map(_) => None,
        };
        match count.filter(|count| (1..=MAXRUNNING_MAX).contains(count)) {
            Some(count) => count,
            None => {
                let found = node.describe();
                let why = format!("expected a number from 1 to {MAXRUNNING_MAX}, found {found}");
                self.tell(node.span, Some("maxrunning"), &why);
                1
            }
        }
    }

    fn moment(&mut self, words: &Words<'_>, word: &str) -> Option<UnixMillis> {
        let node = words.get(word)?;
        let text = self.text(node, word)?;
        let zone = words.get("timezone").and_then(Node::as_text).unwrap_or(self.reading.local_zone);
        // A zone that there is not was told.
        let zone = known_zone(zone).ok()?;
        match moment(&text, &zone) {
            Ok(moment) => Some(moment),
            Err(why) => {
                self.tell(node.span, Some(word), &why);
                None
            }
        }
    }

    fn args(&mut self, words: &Words<'_>) -> Vec<Json> {
        let Some(node) = words.get("args").filter(|node| !node.is_null()) else { return Vec::new() };
        match node.as_list() {
            Some(items) => items.iter().map(Node::to_json).collect(),
            None => {
                self.tell(
                    node.span,
                    Some("args"),
                    &format!("expected a list, found {}; write `args: [web]`", node.describe()),
                );
                Vec::new()
            }
        }
    }

    fn kwargs(&mut self, words: &Words<'_>) -> Map<String, Json> {
        let Some(node) = words.get("kwargs").filter(|node| !node.is_null()) else { return Map::new() };
        match node.to_json() {
            Json::Object(map) => map,
            _ => {
                let found = node.describe();
                self.tell(
                    node.span,
                    Some("kwargs"),
                    &format!("expected a map, found {found}; write `kwargs: {{test: true}}`"),
                );
                Map::new()
            }
        }
    }

    fn text(&mut self, node: &Node, word: &str) -> Option<String> {
        match node.as_text().filter(|_| !node.is_null()) {
            Some(text) => Some(text.to_string()),
            None => {
                self.tell(node.span, Some(word), &format!("expected a text, found {}", node.describe()));
                None
            }
        }
    }

    fn truth(&mut self, node: &Node, word: &str) -> Option<bool> {
        if let Value::Scalar(scalar) = &node.value
            && let ScalarType::Bool(truth) = scalar.scalar_type
        {
            return Some(truth);
        }
        self.tell(node.span, Some(word), &format!("expected true or false, found {}", node.describe()));
        None
    }

    fn span_of(&mut self, node: &Node, word: &str) -> Option<Duration> {
        let text = self.text(node, word)?;
        match duration::parse(&text) {
            Ok(span) if span <= SPAN_MAX => Some(span),
            Ok(_) => {
                self.tell(node.span, Some(word), &format!("`{text}` is longer than a year"));
                None
            }
            Err(why) => {
                self.tell(node.span, Some(word), &why);
                None
            }
        }
    }
}
