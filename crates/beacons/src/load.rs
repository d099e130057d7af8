//! `load`: a machine that has more to do than it can.

use crate::level::{Condition, LevelKind, Levels, When};
use crate::{Data, Eyes, Kind, Moment, Seen};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// The averages of `/proc/loadavg`, in their order.
const AVERAGES: [&str; 3] = ["1m", "5m", "15m"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// `1m`, `5m` and `15m`, and from which load on each is too much.
    averages: BTreeMap<String, f64>,
    /// The thresholds are for one processor.
    #[serde(default)]
    per_cpu: bool,
}

pub(crate) struct Load {
    averages: BTreeMap<String, f64>,
    per_cpu: bool,
    levels: Levels,
}

/// Each average, in parts of a processor where that is asked for.
type Averages = BTreeMap<String, f64>;

impl Kind for Load {
    const NAME: &'static str = "load";
    const INTERVAL: Duration = Duration::from_secs(30);
    type Config = Config;
    type Sample = Averages;

    fn new(config: Config, when: When) -> Result<Load, String> {
        let Config { averages, per_cpu } = config;
        if averages.is_empty() {
            return Err("`averages` names nothing to watch; write `averages: {5m: 4.0}`".into());
        }
        if let Some(other) = averages.keys().find(|key| !AVERAGES.contains(&key.as_str())) {
            return Err(format!("there is no average of `{other}`; write 1m, 5m or 15m"));
        }
        if let Some(wrong) = averages.values().find(|value| !value.is_finite() || **value < 0.0) {
            return Err(format!("`{wrong}` is no load"));
        }
        Ok(Load { averages, per_cpu, levels: Levels::new("over", LevelKind::Alarm, when) })
    }

    async fn look(&mut self, eyes: &Eyes) -> Result<Seen<Averages>, String> {
        let text = eyes.text("/proc/loadavg").await?;
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let shared_by = if self.per_cpu { processors } else { 1 };
        parse(&text, shared_by).map(Seen::all).ok_or_else(|| "/proc/loadavg has no three numbers".into())
    }

    fn decide(&mut self, sample: &Averages, now: Moment) -> Vec<Data> {
        let conditions = self.averages.iter().filter_map(|(average, threshold)| {
            let load = *sample.get(average)?;
            let data = Data::from_iter([
                ("average".to_string(), json!(average)),
                ("load".to_string(), json!(load)),
                ("threshold".to_string(), json!(threshold)),
            ]);
            Some(Condition { key: average.clone(), on: load >= *threshold, data })
        });
        self.levels.observe(conditions.collect(), now.run)
    }
}

fn parse(text: &str, shared_by: usize) -> Option<Averages> {
    let mut words = text.split_whitespace();
    let mut averages = Averages::new();
    for average in AVERAGES {
        let load: f64 = words.next()?.parse().ok()?;
        averages.insert(average.into(), (load / shared_by.max(1) as f64 * 100.0).round() / 100.0);
    }
    Some(averages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("R-21")]
    fn r21_each_average_has_a_threshold_of_its_own() {
        let averages = BTreeMap::from([("1m".to_string(), 8.0), ("15m".to_string(), 2.0)]);
        let mut load = Load::new(Config { averages, per_cpu: false }, When::default()).ok().unwrap();
        let mut told = Vec::new();
        for (second, text) in
            [(0, "1.00 9.00 1.99 1/2 3"), (30, "9.00 9.00 2.00 1/2 3"), (60, "7.00 9.00 2.10 1/2 3")]
        {
            let now = Moment { run: Duration::from_secs(second), wall: 0 };
            for event in load.decide(&parse(text, 1).unwrap(), now) {
                told.push(format!("{second} {} {} {}", event["average"], event["load"], event["over"]));
            }
        }
        assert_eq!(told, ["30 \"15m\" 2.0 true", "30 \"1m\" 9.0 true", "60 \"1m\" 7.0 false"]);
    }

    #[test]
    fn the_load_of_one_processor_is_a_share_of_all() {
        assert_eq!(parse("8.00 4.00 2.00 1/2 3", 4).unwrap()["1m"], 2.0);
        assert_eq!(parse("8.00 x", 1), None);
    }
}
