//! Configuration files: the lowest layer but the defaults (C-8). Flag > environment > `--set` > file > default.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use zester_converge::Error;
use zester_converge::inputs::Renderers;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::merge::Merge;
use zester_model::node::{Mismatch, Node};
use zester_model::source::{FileId, Sources};

mod git;
mod reactor;
mod timing;

pub use git::{GitLayer, GitLayers};
pub use reactor::Reactor;
use timing::Span;
pub use timing::Timing;

/// Lays the named keys of one over another: what `over` says wins.
macro_rules! lay {
    ($under:expr, $over:expr; $($key:ident),+) => { $( $under.$key = $over.$key.or($under.$key.take()); )+ };
}
pub(crate) use lay;

const SCHEDULE_FILE: &str = "schedule.yaml";
const POLICY_FILE: &str = "policy.yaml";
/// What operators may do, where it is kept beside the rest.
const ROLES_FILE: &str = "roles.yaml";

/// The keys a configuration file may have. An unknown one is an error.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub states: Option<PathBuf>,
    pub settings: Option<PathBuf>,
    /// Repositories that a master publishes from; `states` and `settings` lie over them.
    pub states_git: Option<GitLayers>,
    pub settings_git: Option<GitLayers>,
    /// How often those are looked at.
    pub git_poll: Option<Span>,
    /// How settings of several files become one.
    pub settings_merge: Option<Merge>,
    /// A program or a directory that says more of each peel, on a master.
    pub settings_ext: Option<PathBuf>,
    pub facts: Option<PathBuf>,
    pub id: Option<String>,
    pub data_dir: Option<PathBuf>,
    /// What a peel does by itself (D-10).
    pub schedule: Option<PathBuf>,
    /// What a peel does for others, and for whom.
    pub policy: Option<PathBuf>,
    /// Who manages the services of this machine: systemd, openrc, sysv, or a directory of init scripts.
    pub service_provider: Option<String>,
    pub concurrency: Option<u32>,
    /// The environment where a call names none.
    pub env: Option<String>,
    /// What a peel does at its start: `highstate`, `sls` or `top`.
    pub startup_states: Option<String>,
    /// The references of `startup_states: sls`.
    pub sls_list: Option<Vec<String>>,
    pub format: Option<String>,
    pub color: Option<bool>,
    /// Where daemons serve their health.
    pub health: Option<String>,
    /// How much daemons log.
    pub log: Option<String>,
    /// Where a master lets peels enroll, what its door needs, and what it revokes with.
    pub listen: Option<String>,
    pub door: Option<PathBuf>,
    pub revoker: Option<PathBuf>,
    /// Where a peel enrolls, and the pin of the CA there.
    pub master: Option<String>,
    pub pin: Option<String>,
    #[serde(default)]
    pub nats: Nats,
    #[serde(default)]
    pub timing: Timing,
    #[serde(default)]
    pub reactor: Reactor,
    #[serde(default)]
    pub renderers: RendererKeys,
}

/// Renderers that are off unless somebody wants them (S-54).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RendererKeys {
    /// Files that begin with `#!py` are run by python3.
    pub py: Option<bool>,
}

/// How to reach the bus.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// One address, or several with commas between.
    pub url: Option<String>,
    pub creds: Option<PathBuf>,
    /// Certificate of the CA that the servers are signed by.
    pub ca: Option<PathBuf>,
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
            config.lay(read_set(set).map_err(|why| Error::other(format!("--set {set}: {why}")))?);
        }
        config.timing.check().map_err(Error::other)?;
        config.reactor.check().map_err(Error::other)?;
        Ok(config)
    }

    /// Those that may run.
    pub fn renderers(&self) -> Renderers {
        Renderers { python: self.renderers.py.unwrap_or(false) }
    }

    /// What `over` says wins.
    fn lay(&mut self, over: Config) {
        lay!(self, over; states, settings, facts, id, data_dir, schedule, concurrency, format, color, health, log);
        lay!(self, over; env, startup_states, sls_list, service_provider, policy);
        lay!(self, over; states_git, settings_git, git_poll);
        lay!(self, over; settings_merge, settings_ext);
        lay!(self, over; listen, door, revoker, master, pin);
        lay!(self.nats, over.nats; url, creds, ca, replicas);
        lay!(self.renderers, over.renderers; py);
        self.timing.lay(over.timing);
        self.reactor.lay(over.reactor);
    }
}

/// `timing.ack_window=2s`: a dot goes deeper, the value is read as in a file.
fn read_set(set: &str) -> Result<Config, String> {
    let (key, value) = set.split_once('=').ok_or("write KEY=VALUE")?;
    let value = zester_compile::parse_yaml(FileId(0), value).map_err(|diagnostics| {
        diagnostics.first().map_or_else(String::new, |diagnostic| diagnostic.message.clone())
    })?;
    let span = value.span;
    let node = key
        .split('.')
        .rev()
        .fold(value, |inner, part| Node::map(span, vec![(Node::text(span, part), inner)]));
    node.read().map_err(|Mismatch { message, hint, .. }| match hint {
        Some(hint) => format!("{message}; {hint}"),
        None => message,
    })
}

fn read_file(path: &Path) -> Result<Config, Error> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Error::io("read the configuration", path, error))?;
    parse(&path.display().to_string(), &text)
}

/// Reads a text as states are read, so that what is wrong with it is shown at its place.
fn parse(name: &str, text: &str) -> Result<Config, Error> {
    let mut sources = Sources::default();
    let file = sources.add(name, text);
    let read = zester_compile::parse_yaml(file, text).and_then(|node| match node.is_null() {
        true => Ok(Config::default()),
        false => node.read().map_err(|mismatch| vec![misfit(mismatch)]),
    });
    read.map_err(|diagnostics| Error::Diagnostics { diagnostics, sources: Box::new(sources) })
}

fn misfit(mismatch: Mismatch) -> Diagnostic {
    let diagnostic = Diagnostic::new(Kind::Config, mismatch.message).maybe_hint(mismatch.hint);
    match mismatch.span {
        Some(span) => diagnostic.at(span),
        None => diagnostic,
    }
}

fn system_files() -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir("/etc/zester") else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|end| end == "yaml") && !is_other_document(path))
        .collect();
    files.sort();
    files
}

fn user_file() -> Option<PathBuf> {
    Some(user_config_dir()?.join("config.yaml")).filter(|path| path.is_file())
}

fn user_config_dir() -> Option<PathBuf> {
    let base = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = base.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".config")))?;
    Some(base.join("zester"))
}

/// Schedule, policy and roles stand beside the configuration, and are none.
fn is_other_document(path: &Path) -> bool {
    let other = [SCHEDULE_FILE, POLICY_FILE, ROLES_FILE];
    path.file_name().is_some_and(|name| other.iter().any(|other| name == *other))
}

/// Where the schedule of a machine is when nobody names a file.
pub fn default_schedule(root: bool) -> Option<PathBuf> {
    let dir = if root { Some(PathBuf::from("/etc/zester")) } else { user_config_dir() };
    Some(dir?.join(SCHEDULE_FILE))
}

/// Where the policy of a peel is where nobody names another.
pub fn default_policy(root: bool) -> Option<PathBuf> {
    let dir = if root { Some(PathBuf::from("/etc/zester")) } else { user_config_dir() };
    Some(dir?.join(POLICY_FILE))
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

    /// Where each problem of a file stands, what it is, and what to write instead.
    fn told(text: &str) -> Vec<String> {
        let Err(Error::Diagnostics { diagnostics, sources }) = parse("c.yaml", text) else {
            panic!("{text:?} is read")
        };
        let place =
            |diagnostic: &Diagnostic| diagnostic.span.map(|span| sources.place(span)).unwrap_or_default();
        diagnostics
            .iter()
            .map(|diagnostic| format!("{}: {}", place(diagnostic), diagnostic.report(&sources).message))
            .collect()
    }

    #[test]
    #[rule("C-8")]
    fn c8_what_is_wrong_with_a_file_is_shown_at_its_place() {
        for (text, wanted) in [
            ("id: x\nstatse: /srv\n", "c.yaml:2:1: unknown key `statse`; did you mean `states`?"),
            ("timing:\n  ack_windw: 2s\n", "c.yaml:2:3: unknown key `ack_windw`; did you mean `ack_window`?"),
            (
                "states_git: {url: a, branch: b}\n",
                "c.yaml:1:22: unknown key `branch`; the keys are `url`, `ref`, `subdir`",
            ),
            ("timing:\n  ack_window: soon\n", "c.yaml:2:15: `soon` is not a duration"),
            ("concurrency: many\n", "c.yaml:1:14: expected a whole number, found the text `many`"),
            ("color: blue\n", "c.yaml:1:8: expected true or false, found the text `blue`"),
            ("id: a\nid: b\n", "c.yaml:2:1: "),
            ("id: [a\n", "c.yaml:1:5: a `[` is never closed"),
            ("- id\n", "c.yaml:1:1: expected a map"),
        ] {
            let told = told(text);
            assert!(told.len() == 1 && told[0].starts_with(wanted), "{text:?}: {told:?}");
        }
    }

    #[test]
    #[rule("C-8")]
    fn c8_a_value_is_read_as_states_are_read() {
        let config = parse("c.yaml", "id: 007\ncolor: yes\nnats: {replicas: 3}\n").unwrap();
        assert_eq!((config.id.as_deref(), config.color), (Some("007"), Some(true)));
        assert_eq!(config.nats.replicas, Some(3));
    }

    #[test]
    #[rule("C-8")]
    fn c8_set_overrides_a_file_and_a_later_file_an_earlier() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("c.yaml");
        std::fs::write(&file, "id: from-file\nconcurrency: 3\n").unwrap();
        let config = Config::read(Some(&file), &["id=from-set".into()]).unwrap();
        assert_eq!((config.id.as_deref(), config.concurrency), (Some("from-set"), Some(3)));
        let wrong = Config::read(Some(&file), &["nonsense".into()]).unwrap_err().to_string();
        assert_eq!(wrong, "--set nonsense: write KEY=VALUE");
        let wrong = Config::read(Some(&file), &["idd=x".into()]).unwrap_err().to_string();
        assert_eq!(wrong, "--set idd=x: unknown key `idd`; did you mean `id`?");
    }

    #[test]
    #[rule("C-8")]
    fn c8_an_empty_file_is_fine() {
        assert!(parse("c.yaml", "# nothing yet\n\n").is_ok());
        assert!(parse("c.yaml", "").is_ok());
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
