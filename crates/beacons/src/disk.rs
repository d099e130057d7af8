//! `disk`: file systems that fill up.

use crate::level::{Condition, LevelKind, Levels, When};
use crate::limits::THINGS_MAX;
use crate::params::Percent;
use crate::{Data, Eyes, Kind, Moment, Seen, blocking, shown};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Paths, and from which share on their file system is too full.
    mounts: BTreeMap<String, Percent>,
}

/// How full a file system is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// As `df` counts it: what only root may use is neither used nor free.
    used_percent: f64,
    free_bytes: u64,
}

pub(crate) struct Disk {
    mounts: BTreeMap<PathBuf, f64>,
    levels: Levels,
}

impl Kind for Disk {
    const NAME: &'static str = "disk";
    const ALIASES: &'static [&'static str] = &["diskusage"];
    const INTERVAL: Duration = Duration::from_secs(60);
    type Config = Config;
    type Sample = BTreeMap<String, Usage>;

    fn new(config: Config, when: When) -> Result<Disk, String> {
        let mounts: BTreeMap<PathBuf, f64> =
            config.mounts.into_iter().map(|(path, percent)| (path.into(), percent.0)).collect();
        if mounts.is_empty() || mounts.len() > THINGS_MAX {
            return Err(format!("`mounts` names 1 to {THINGS_MAX} paths"));
        }
        if let Some(path) = mounts.keys().find(|path| !path.is_absolute()) {
            return Err(format!("`{}` is no absolute path; begin it with `/`", path.display()));
        }
        Ok(Disk { mounts, levels: Levels::new("over", LevelKind::Alarm, when) })
    }

    async fn look(&mut self, _: &Eyes) -> Result<Seen<Self::Sample>, String> {
        let paths: Vec<PathBuf> = self.mounts.keys().cloned().collect();
        blocking(move || {
            let mut seen = Seen::all(BTreeMap::new());
            for path in paths {
                match usage(&path) {
                    Ok(usage) => drop(seen.sample.insert(shown(&path), usage)),
                    Err(why) => seen.problems.push(why),
                }
            }
            Ok(seen)
        })
        .await
    }

    fn decide(&mut self, sample: &Self::Sample, now: Moment) -> Vec<Data> {
        let conditions = sample.iter().filter_map(|(path, usage)| {
            let threshold = *self.mounts.get(Path::new(path))?;
            let data = Data::from_iter([
                ("mount".to_string(), json!(path)),
                ("used_percent".to_string(), json!(usage.used_percent)),
                ("free_bytes".to_string(), json!(usage.free_bytes)),
                ("threshold".to_string(), json!(threshold)),
            ]);
            Some(Condition { key: path.clone(), on: usage.used_percent >= threshold, data })
        });
        self.levels.observe(conditions.collect(), now.run)
    }
}

fn usage(path: &Path) -> Result<Usage, String> {
    let found = rustix::fs::statvfs(path).map_err(|error| {
        let error = std::io::Error::from(error);
        format!("cannot see how full {} is: {}", path.display(), crate::plain(&error))
    })?;
    let used = found.f_blocks.saturating_sub(found.f_bfree);
    Ok(Usage {
        used_percent: share(used, found.f_bavail),
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
    })
}

/// With one digit after the point: more only looks like news.
fn share(used: u64, free: u64) -> f64 {
    let all = used.saturating_add(free);
    if all == 0 { 0.0 } else { (used as f64 / all as f64 * 1000.0).round() / 10.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("R-21")]
    fn r21_a_disk_is_too_full_from_its_threshold_on_and_long_enough() {
        let mounts = BTreeMap::from([("/".to_string(), Percent(90.0))]);
        let when = When { hold: Duration::from_secs(30), ..When::default() };
        let mut disk = Disk::new(Config { mounts }, when).ok().unwrap();
        let mut told = Vec::new();
        for (second, used_percent) in
            [(0, 89.9), (10, 90.0), (20, 95.0), (30, 80.0), (40, 91.0), (60, 92.0), (70, 93.5)]
        {
            let sample = BTreeMap::from([("/".to_string(), Usage { used_percent, free_bytes: 7 })]);
            let now = Moment { run: Duration::from_secs(second), wall: 0 };
            told.extend(disk.decide(&sample, now).into_iter().map(|event| (second, json!(event))));
        }
        let event = json!({
            "mount": "/", "used_percent": 93.5, "free_bytes": 7, "threshold": 90.0, "over": true, "previous": false
        });
        assert_eq!(told, [(70, event)]);
    }

    #[test]
    fn a_share_is_what_df_says() {
        assert_eq!(share(0, 0), 0.0);
        assert_eq!(share(1, 2), 33.3);
        assert_eq!(share(10, 0), 100.0);
    }

    #[tokio::test]
    async fn a_file_system_is_seen_and_one_that_is_not_there_is_told() {
        let eyes = Eyes {
            files: std::sync::Arc::new(zester_host::overlay::Overlay::empty()),
            processes: std::sync::Arc::new(zester_host::process::fake::Scripted::new()),
            root: "/".into(),
        };
        let mounts =
            BTreeMap::from([("/".to_string(), Percent(90.0)), ("/not/there".to_string(), Percent(90.0))]);
        let seen = Disk::new(Config { mounts }, When::default()).ok().unwrap().look(&eyes).await.unwrap();
        assert_eq!(seen.sample.len(), 1);
        assert_eq!(seen.problems, ["cannot see how full /not/there is: no such file or directory"]);
    }
}
