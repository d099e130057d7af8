//! Configuration files: the lowest layer but the defaults (C-8). Flag > environment > `--set` > file > default.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use zester_converge::Error;
use zester_model::suggest::did_you_mean;

mod timing;

pub use timing::Timing;

/// Lays the named keys of one over another: what `over` says wins.
macro_rules! lay {
    ($under:expr, $over:expr; $($key:ident),+) => { $( $under.$key = $over.$key.or($under.$key.take()); )+ };
}
pub(crate) use lay;

/// The keys a configuration file may have. An unknown one is an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub states: Option<PathBuf>,
    pub settings: Option<PathBuf>,
    pub facts: Option<PathBuf>,
    pub id: Option<String>,
    pub data_dir: Option<PathBuf>,
    pub concurrency: Option<u32>,
    pub format: Option<String>,
    pub color: Option<bool>,
    /// Where daemons serve their health.
    pub health: Option<String>,
    /// How much daemons log.
    pub log: Option<String>,
    #[serde(default)]
    pub nats: Nats,
    #[serde(default)]
    pub timing: Timing,
}

/// How to reach the bus.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// One address, or several with commas between.
    pub url: Option<String>,
    pub creds: Option<PathBuf>,
    /// Copies of each stream.
    pub replicas: Option<usize>,
}

impl Config {
    /// `--config`, else `/etc/zester/*.yaml` in the order of their names, then the user's; then `--set`.
    pub fn read(given: Option<&Path>, sets: &[String]) -> Result<Config, Error> {
        let mut config = Config::default();
        match given {
            Some(path) => config.lay(read_file(path)?),
            None => {
                for path in system_files().into_iter().chain(user_file()) {
                    config.lay(read_file(&path)?);
                }
            }
        }
        for set in sets {
            let (key, value) =
                set.split_once('=').ok_or_else(|| Error::other(format!("--set {set}: write KEY=VALUE")))?;
            let over = parse(&nested(key, value))
                .map_err(|why| Error::other(format!("--set {set}: {}", without_place(&why))))?;
            config.lay(over);
        }
        config.timing.check().map_err(Error::other)?;
        Ok(config)
    }

    /// What `over` says wins.
    fn lay(&mut self, over: Config) {
        lay!(self, over; states, settings, facts, id, data_dir, concurrency, format, color, health, log);
        lay!(self.nats, over.nats; url, creds, replicas);
        self.timing.lay(over.timing);
    }
}

/// `timing.ack_window`, `2s` as the YAML that a file would have.
fn nested(key: &str, value: &str) -> String {
    let mut text = String::new();
    for (depth, part) in key.split('.').enumerate() {
        if depth > 0 {
            text.push('\n');
        }
        text.push_str(&"  ".repeat(depth));
        text.push_str(part);
        text.push(':');
    }
    format!("{text} {value}\n")
}

fn parse(text: &str) -> Result<Config, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Config::default());
    }
    serde_saphyr::from_str(text).map_err(|error| with_hint(&error.to_string()))
}

/// The reader's words; of an unknown key, only where it stands and which one was meant.
fn with_hint(why: &str) -> String {
    let unknown = || {
        let (before, rest) = why.split_once("unknown field `")?;
        let (wrong, rest) = rest.split_once('`')?;
        let (_, known) = rest.lines().next()?.split_once("expected ")?;
        let known = known.trim_start_matches("one of ");
        let names = known.split(", ").map(|key| key.trim_matches('`'));
        let hint = did_you_mean(wrong, names).unwrap_or_else(|| format!("the keys are {known}"));
        Some(format!("{}unknown key `{wrong}`; {hint}", before.trim_start_matches("error: ")))
    };
    // The first line says it all; the picture below it would name a file `<input>`.
    let plain = || why.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
    unknown().unwrap_or_else(plain)
}

/// `line 2 column 9: …` of words that stand on no line.
fn without_place(why: &str) -> &str {
    match why.split_once(": ") {
        Some((place, rest)) if place.starts_with("line ") => rest,
        _ => why,
    }
}

fn read_file(path: &Path) -> Result<Config, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Error::io("read the configuration", path, error))?;
    parse(&text).map_err(|why| Error::other(format!("{}: {why}", path.display())))
}

fn system_files() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/etc/zester") else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

fn user_file() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(base.join("zester/config.yaml")).filter(|path| path.is_file())
}

/// `/var/lib/zester`, or the user's state directory when not root (C-9).
pub fn default_data_dir(root: bool) -> Result<PathBuf, Error> {
    if root {
        return Ok(PathBuf::from("/var/lib/zester"));
    }
    user_state_dir().ok_or_else(|| {
        Error::other(
            "there is no place to remember runs in: HOME is not set; name a directory with --data-dir",
        )
    })
}

/// The user's own, `~/.local/state/zester`, where the environment says who that is.
pub fn user_state_dir() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
    Some(state?.join("zester"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use zester_rule::rule;

    #[test]
    #[rule("C-8")]
    fn c8_an_unknown_key_is_an_error_that_names_it() {
        let error = parse("statse: /srv\n").unwrap_err();
        assert!(error.contains("statse"), "{error}");
        assert!(error.contains("did you mean `states`?"), "{error}");
        let error = parse("timing:\n  ack_windw: 2s\n").unwrap_err();
        assert!(error.contains("`ack_windw`") && error.contains("did you mean `ack_window`?"), "{error}");
    }

    #[test]
    #[rule("C-8")]
    fn c8_set_overrides_a_file_and_a_later_file_an_earlier() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("c.yaml");
        std::fs::write(&file, "id: from-file\nconcurrency: 3\n").unwrap();
        let config = Config::read(Some(&file), &["id=from-set".into()]).unwrap();
        assert_eq!((config.id.as_deref(), config.concurrency), (Some("from-set"), Some(3)));
        assert!(Config::read(Some(&file), &["nonsense".into()]).is_err());
    }

    #[test]
    #[rule("C-8")]
    fn c8_an_empty_file_is_fine() {
        assert!(parse("# nothing yet\n\n").is_ok());
    }

    #[test]
    #[rule("C-10")]
    fn c10_the_timings_are_keys_and_a_dot_goes_deeper() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("c.yaml");
        std::fs::write(&file, "timing:\n  ack_window: 9s\n  peel_ttl: 1m\nnats:\n  url: nats://a:1\n")
            .unwrap();
        let sets =
            ["timing.ack_window=500ms", "timing.orphan_misses=3", "timing.lease_ttl=7", "nats.replicas=1"];
        let config = Config::read(Some(&file), &sets.map(String::from)).unwrap();
        let timing = config.timing.over_defaults();
        assert_eq!(timing.ack_window, Duration::from_millis(500));
        assert_eq!((timing.peel_ttl, timing.lease_ttl), (Duration::from_secs(60), Duration::from_secs(7)));
        assert_eq!((timing.orphan_misses, timing.kill_grace), (3, Duration::from_secs(5)));
        assert_eq!((config.nats.url.as_deref(), config.nats.replicas), (Some("nats://a:1"), Some(1)));
        let wrong = Config::read(Some(&file), &["timing.ack_window=soon".into()]).unwrap_err().to_string();
        assert!(wrong.contains("=soon: `soon` is not a duration") && wrong.lines().count() == 1, "{wrong}");
        for nothing in ["timing.master_ttl=0s", "timing.peel_heartbeat=0", "timing.orphan_misses=0"] {
            let wrong = Config::read(Some(&file), &[nothing.into()]).unwrap_err().to_string();
            assert!(wrong.contains("must be more than nothing"), "{wrong}");
        }
        assert!(Config::read(Some(&file), &["timing.ack_window=0s".into()]).is_ok());
    }
}
