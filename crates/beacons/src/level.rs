//! What is on or off: when a change of it is worth an event. Pure: samples and times in, events out.

use crate::Data;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// When a beacon tells what it sees.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// How long it must be so before it counts.
    pub hold: Duration,
    /// Only changes are told.
    pub onchange: bool,
    /// What is seen first is told too.
    pub emit_at_start: bool,
}

impl Default for When {
    fn default() -> When {
        When { hold: Duration::ZERO, onchange: true, emit_at_start: false }
    }
}

/// One thing that is watched, as it was seen.
#[derive(Clone, Debug)]
pub struct Condition {
    /// Which of the things of a beacon.
    pub key: String,
    pub on: bool,
    /// What an event says beside that.
    pub data: Data,
}

/// What the first look and the later ones mean.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LevelKind {
    /// It is one way or the other, and either is as good: the first look is the baseline.
    State,
    /// On is an alarm: where it is on at the first look, that is news, and off is not.
    Alarm,
}

/// What counts of one thing.
#[derive(Copy, Clone, Debug)]
struct Level {
    on: bool,
    /// Since when it looks otherwise.
    otherwise_since: Option<Duration>,
}

/// The things of one beacon, each on or off.
#[derive(Debug)]
pub struct Levels {
    /// What an event calls it: `running`, `over`.
    field: &'static str,
    kind: LevelKind,
    when: When,
    known: BTreeMap<String, Level>,
}

impl Levels {
    pub fn new(field: &'static str, kind: LevelKind, when: When) -> Levels {
        Levels { field, kind, when, known: BTreeMap::new() }
    }

    /// What is worth an event in what was seen now. A thing that was not seen stays what it was.
    pub fn observe(&mut self, conditions: Vec<Condition>, now: Duration) -> Vec<Data> {
        conditions.into_iter().filter_map(|condition| self.observe_one(condition, now)).collect()
    }

    fn observe_one(&mut self, condition: Condition, now: Duration) -> Option<Data> {
        let Condition { key, on, data } = condition;
        let When { hold, onchange, emit_at_start } = self.when;
        let (field, kind) = (self.field, self.kind);
        let is_first = !self.known.contains_key(&key);
        let first = if kind == LevelKind::Alarm && !emit_at_start { false } else { on };
        let level = self.known.entry(key).or_insert(Level { on: first, otherwise_since: None });
        if is_first && emit_at_start {
            return Some(event(data, field, on, None));
        }
        if on != level.on {
            let since = *level.otherwise_since.get_or_insert(now);
            if now.saturating_sub(since) < hold {
                return None;
            }
            let previous = std::mem::replace(&mut level.on, on);
            level.otherwise_since = None;
            return Some(event(data, field, on, Some(previous)));
        }
        level.otherwise_since = None;
        let repeats = !onchange && (on || kind == LevelKind::State) && !is_first;
        repeats.then(|| event(data, field, on, Some(on)))
    }
}

fn event(mut data: Data, field: &str, on: bool, previous: Option<bool>) -> Data {
    data.insert(field.into(), on.into());
    data.insert("previous".into(), json!(previous));
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    /// What is seen, one letter a second (`+` on, `-` off, `?` not seen), and what is told of it: at which second, the new
    /// value and the one before.
    fn told(kind: LevelKind, when: When, seen: &str) -> Vec<String> {
        let mut levels = Levels::new("on", kind, when);
        let mut told = Vec::new();
        for (second, letter) in (0..).zip(seen.chars()) {
            let condition = Condition { key: "x".into(), on: letter == '+', data: Data::new() };
            let conditions = if letter == '?' { Vec::new() } else { vec![condition] };
            for event in levels.observe(conditions, Duration::from_secs(second)) {
                told.push(format!("{second}:{}<{}", event["on"], event["previous"]));
            }
        }
        told
    }

    fn hold(seconds: u64) -> When {
        When { hold: Duration::from_secs(seconds), ..When::default() }
    }

    const NONE: &[&str] = &[];

    #[test]
    #[rule("R-17", "R-21")]
    fn r17_what_is_told_of_what_is_seen() {
        let start = When { emit_at_start: true, ..When::default() };
        let always = When { onchange: false, ..When::default() };
        for (kind, when, seen, wanted) in [
            // Transitions only, and the first look is the baseline.
            (LevelKind::State, hold(0), "++++", NONE),
            (LevelKind::State, hold(0), "----", NONE),
            (LevelKind::State, hold(0), "++--+", &["2:false<true", "4:true<false"]),
            (LevelKind::State, hold(0), "-+", &["1:true<false"]),
            // What was not seen is neither.
            (LevelKind::State, hold(0), "+??+", NONE),
            (LevelKind::State, hold(0), "+??-", &["3:false<true"]),
            // Flapping inside `for` is nothing, whichever way it ends.
            (LevelKind::State, hold(3), "+--+--+--+", NONE),
            (LevelKind::State, hold(3), "+--+----", &["7:false<true"]),
            (LevelKind::State, hold(3), "+----++++", &["4:false<true", "8:true<false"]),
            // A look that saw nothing does not begin it anew.
            (LevelKind::State, hold(3), "+-??-", &["4:false<true"]),
            // An alarm that is there at the first look is news; that there is none is not.
            (LevelKind::Alarm, hold(0), "---", NONE),
            (LevelKind::Alarm, hold(0), "++-", &["0:true<false", "2:false<true"]),
            (LevelKind::Alarm, hold(2), "+++", &["2:true<false"]),
            (LevelKind::Alarm, hold(2), "+-+-+-", NONE),
            // Whatever is first, if it is asked for.
            (LevelKind::State, start, "++-", &["0:true<null", "2:false<true"]),
            (LevelKind::Alarm, start, "--+", &["0:false<null", "2:true<false"]),
            // Each look, if it is asked for; of an alarm while it lasts.
            (LevelKind::State, always, "+++-", &["1:true<true", "2:true<true", "3:false<true"]),
            (LevelKind::Alarm, always, "-++--", &["1:true<false", "2:true<true", "3:false<true"]),
        ] {
            assert_eq!(told(kind, when, seen), wanted, "{kind:?} {when:?} {seen}");
        }
    }

    #[test]
    fn each_thing_is_for_itself() {
        let mut levels = Levels::new("running", LevelKind::State, hold(0));
        let seen = |one: bool, other: bool| {
            [("a", one), ("b", other)].map(|(key, on)| {
                let data = Data::from_iter([("service".to_string(), json!(key))]);
                Condition { key: key.into(), on, data }
            })
        };
        assert!(levels.observe(seen(true, false).to_vec(), Duration::ZERO).is_empty());
        let told = levels.observe(seen(true, true).to_vec(), Duration::from_secs(1));
        assert_eq!(json!(told), json!([{"service": "b", "running": true, "previous": false}]));
    }
}
