//! When an entry is due: every so often, or at the times of a cron expression in a time zone.
//!
//! Zones come from the database that is built in, so that the same words mean the same times on every machine.

use crate::limits::MISSED_COUNTED_MAX;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::time::Duration;
use zester_wire::{UnixMillis, time::as_millis};

/// How a cron expression is written.
const CRON_HINT: &str = "write minute, hour, day, month and weekday, and seconds before them if wanted";
/// How a moment is written.
const MOMENT_HINT: &str = "write `2026-11-20T08:00:00`, or `2026-11-20T08:00:00Z` for UTC";

#[derive(Clone, Debug, PartialEq)]
pub enum When {
    Every(Duration),
    Cron(Box<CronTimes>),
}

/// A cron expression, and the zone that its times are of.
#[derive(Clone, Debug)]
pub struct CronTimes {
    pub text: String,
    pub zone: String,
    cron: Cron,
    time_zone: TimeZone,
}

impl PartialEq for CronTimes {
    fn eq(&self, other: &CronTimes) -> bool {
        (&self.text, &self.zone) == (&other.text, &other.zone)
    }
}

/// The occurrences that passed, from one on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    pub latest: UnixMillis,
    /// The one before the latest; the latest itself where there is none.
    pub before: UnixMillis,
    pub count: u64,
    /// There were more than were counted.
    pub more: bool,
}

impl CronTimes {
    /// What is wrong with it is a sentence with advice behind `; `.
    pub fn parse(text: &str, zone: &str) -> Result<CronTimes, String> {
        let bad = |why: &str| format!("`{text}` is not a cron expression: {why}; {CRON_HINT}");
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let cron = parser.parse(text).map_err(|error| bad(&in_words(&error.to_string())))?;
        let time_zone = known_zone(zone)?;
        let times = CronTimes { text: text.to_string(), zone: zone.to_string(), cron, time_zone };
        match times.after(UnixMillis(0)) {
            Some(_) => Ok(times),
            None => Err(bad("there is no such day")),
        }
    }

    /// The first occurrence after a moment.
    pub fn after(&self, moment: UnixMillis) -> Option<UnixMillis> {
        let next = self.cron.find_next_occurrence(&self.zoned(moment)?, false).ok()?;
        millis(next.timestamp())
    }

    /// The last occurrence up to a moment.
    pub fn up_to(&self, moment: UnixMillis) -> Option<UnixMillis> {
        let last = self.cron.find_previous_occurrence(&self.zoned(moment)?, true).ok()?;
        millis(last.timestamp())
    }

    fn zoned(&self, moment: UnixMillis) -> Option<Zoned> {
        let moment = Timestamp::from_millisecond(i64::try_from(moment.0).ok()?).ok()?;
        Some(moment.to_zoned(self.time_zone.clone()))
    }
}

impl When {
    /// How it was written: another text is another time.
    pub fn text(&self) -> String {
        match self {
            When::Every(span) => format!("every {}", span_text(*span)),
            When::Cron(times) => format!("{} {}", times.text, times.zone),
        }
    }

    /// The first occurrence of something that is new now.
    pub fn first(&self, now: UnixMillis) -> Option<UnixMillis> {
        match self {
            When::Every(span) => Some(now.plus(*span)),
            When::Cron(times) => times.after(now),
        }
    }

    /// The first occurrence after `now`, where `due` is one.
    pub fn following(&self, due: UnixMillis, now: UnixMillis) -> Option<UnixMillis> {
        match self {
            When::Every(_) if due > now => Some(due),
            When::Every(span) => {
                let span = as_millis(*span).max(1);
                let steps = (now.0 - due.0) / span + 1;
                Some(UnixMillis(due.0.saturating_add(steps.saturating_mul(span))))
            }
            When::Cron(times) => times.after(now),
        }
    }

    /// Which occurrences passed from `due`, which is one, up to `now`.
    pub(crate) fn passed(&self, due: UnixMillis, now: UnixMillis) -> Passed {
        match self {
            When::Every(span) => {
                let span = as_millis(*span).max(1);
                let steps = now.0.saturating_sub(due.0) / span;
                let count = (steps + 1).min(MISSED_COUNTED_MAX);
                let at = |steps: u64| UnixMillis(due.0.saturating_add(steps.saturating_mul(span)));
                let (latest, before) = (at(steps), at(steps.saturating_sub(1)));
                Passed { latest, before, count, more: steps + 1 > count }
            }
            When::Cron(times) => {
                let (mut latest, mut before, mut count) = (due, due, 1);
                while let Some(next) = times.after(latest).filter(|next| *next <= now) {
                    if count == MISSED_COUNTED_MAX {
                        let latest = times.up_to(now).unwrap_or(next);
                        let before = times.up_to(UnixMillis(latest.0.saturating_sub(1))).unwrap_or(latest);
                        return Passed { latest, before, count, more: true };
                    }
                    (latest, before, count) = (next, latest, count + 1);
                }
                Passed { latest, before, count, more: false }
            }
        }
    }
}

/// A time zone by its name, or what is wrong with the name.
pub fn known_zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| {
        format!("there is no time zone `{name}`; write one of the IANA names, as in `Europe/Berlin` or `UTC`")
    })
}

/// A moment as the user writes it: with an offset, or in a time zone.
pub(crate) fn moment(text: &str, zone: &TimeZone) -> Result<UnixMillis, String> {
    let text = text.trim();
    let bad = || format!("`{text}` is not a moment; {MOMENT_HINT}");
    if let Ok(moment) = text.parse::<Timestamp>() {
        return millis(moment).ok_or_else(bad);
    }
    let local = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(DateTime::from));
    let zoned = local.ok().and_then(|local| zone.to_zoned(local).ok());
    zoned.and_then(|zoned| millis(zoned.timestamp())).ok_or_else(bad)
}

fn millis(moment: Timestamp) -> Option<UnixMillis> {
    u64::try_from(moment.as_millisecond()).ok().map(UnixMillis)
}

/// A moment in words, in UTC.
pub fn shown(moment: UnixMillis) -> String {
    let moment = i64::try_from(moment.0).ok().and_then(|millis| Timestamp::from_millisecond(millis).ok());
    moment.map_or_else(String::new, |moment| moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// The words of the parser as part of a sentence.
fn in_words(error: &str) -> String {
    let words = error.rsplit_once(": ").map_or(error, |(_, words)| words).trim_end_matches('.');
    let mut letters = words.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    format!("{first}{}", letters.as_str())
}

/// `1h30m`
fn span_text(span: Duration) -> String {
    let (mut left, mut text) = (as_millis(span), String::new());
    for (unit, millis) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        let count = left / millis;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
        left %= millis;
    }
    text
}
