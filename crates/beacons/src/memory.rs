//! `memory`: memory that runs out.

use crate::level::{Condition, LevelKind, Levels, When};
use crate::params::Percent;
use crate::{Data, Eyes, Kind, Moment, Seen};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// From which share on too much is used.
    percent: Percent,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Usage {
    used_percent: f64,
    /// What a program could still get without swapping.
    available_bytes: u64,
}

pub(crate) struct Memory {
    threshold: f64,
    levels: Levels,
}

impl Kind for Memory {
    const NAME: &'static str = "memory";
    const ALIASES: &'static [&'static str] = &["memusage"];
    const INTERVAL: Duration = Duration::from_secs(30);
    type Config = Config;
    type Sample = Usage;

    fn new(config: Config, when: When) -> Result<Memory, String> {
        Ok(Memory { threshold: config.percent.0, levels: Levels::new("over", LevelKind::Alarm, when) })
    }

    async fn look(&mut self, eyes: &Eyes) -> Result<Seen<Usage>, String> {
        let text = eyes.text("/proc/meminfo").await?;
        parse(&text).map(Seen::all).ok_or_else(|| "/proc/meminfo does not say how much is available".into())
    }

    fn decide(&mut self, sample: &Usage, now: Moment) -> Vec<Data> {
        let data = Data::from_iter([
            ("used_percent".to_string(), json!(sample.used_percent)),
            ("available_bytes".to_string(), json!(sample.available_bytes)),
            ("threshold".to_string(), json!(self.threshold)),
        ]);
        let on = sample.used_percent >= self.threshold;
        self.levels.observe(vec![Condition { key: String::new(), on, data }], now.run)
    }
}

fn parse(text: &str) -> Option<Usage> {
    let kib = |key: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().trim_end_matches("kB").trim_end().parse().ok()
    };
    let (total, available) = (kib("MemTotal").filter(|total| *total > 0)?, kib("MemAvailable")?);
    let used = total.saturating_sub(available);
    let used_percent = (used as f64 / total as f64 * 1000.0).round() / 10.0;
    Some(Usage { used_percent, available_bytes: available.saturating_mul(1024) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("R-21")]
    fn r21_memory_is_over_its_threshold_and_back() {
        let mut memory = Memory::new(Config { percent: Percent(80.0) }, When::default()).ok().unwrap();
        let mut told = Vec::new();
        for (second, available) in [(0, 500), (30, 200), (60, 100), (90, 900)] {
            let text = format!("MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    {available} kB\n");
            let now = Moment { run: Duration::from_secs(second), wall: 0 };
            let events = memory.decide(&parse(&text).unwrap(), now);
            told.extend(
                events
                    .into_iter()
                    .map(|event| (second, event["over"].clone(), event["used_percent"].clone())),
            );
        }
        assert_eq!(told, [(30, json!(true), json!(80.0)), (90, json!(false), json!(10.0))]);
    }

    #[test]
    fn what_does_not_say_it_is_not_read_as_none() {
        assert_eq!(parse("MemTotal: 1000 kB\n"), None);
        assert_eq!(parse("MemTotal: 0 kB\nMemAvailable: 0 kB\n"), None);
    }
}
