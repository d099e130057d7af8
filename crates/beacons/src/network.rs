//! `network`: interfaces that go up and down.

use crate::level::{Condition, LevelKind, Levels, When};
use crate::params::Names;
use crate::{Data, Eyes, Kind, Moment, Seen, blocking, plain};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The longest name that the kernel gives an interface.
const INTERFACE_BYTES_MAX: usize = 15;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The interfaces to watch.
    interfaces: Names,
}

pub(crate) struct Network {
    interfaces: Vec<String>,
    levels: Levels,
}

impl Kind for Network {
    const NAME: &'static str = "network";
    const ALIASES: &'static [&'static str] = &["network_info"];
    const INTERVAL: Duration = Duration::from_secs(10);
    type Config = Config;
    /// The kernel's word for each: `up`, `down`, `lowerlayerdown`; `absent` where there is no such interface.
    type Sample = BTreeMap<String, String>;

    fn new(config: Config, when: When) -> Result<Network, String> {
        let interfaces = config.interfaces.0;
        let fits = |name: &&String| {
            name.len() <= INTERFACE_BYTES_MAX
                && !name.contains('/')
                && !name.starts_with('.')
                && !name.is_empty()
        };
        match interfaces.iter().find(|name| !fits(name)) {
            Some(name) => Err(format!("`{name}` cannot name an interface")),
            None => Ok(Network { interfaces, levels: Levels::new("up", LevelKind::State, when) }),
        }
    }

    async fn look(&mut self, eyes: &Eyes) -> Result<Seen<Self::Sample>, String> {
        let (names, root) = (self.interfaces.clone(), eyes.root.join("sys/class/net"));
        blocking(move || {
            let mut seen = Seen::all(BTreeMap::new());
            for name in names {
                match state(&root.join(&name)) {
                    Ok(state) => drop(seen.sample.insert(name, state)),
                    Err(why) => seen.problems.push(why),
                }
            }
            Ok(seen)
        })
        .await
    }

    fn decide(&mut self, sample: &Self::Sample, now: Moment) -> Vec<Data> {
        let conditions = sample.iter().map(|(name, state)| Condition {
            key: name.clone(),
            on: is_up(state),
            data: Data::from_iter([
                ("interface".to_string(), json!(name)),
                ("state".to_string(), json!(state)),
            ]),
        });
        self.levels.observe(conditions.collect(), now.run)
    }
}

/// Of loopback and tunnels the kernel does not know; they work.
fn is_up(state: &str) -> bool {
    matches!(state, "up" | "unknown")
}

fn state(directory: &Path) -> Result<String, String> {
    match std::fs::read_to_string(directory.join("operstate")) {
        Ok(text) => Ok(text.trim().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok("absent".into()),
        Err(error) => Err(format!("cannot read {}: {}", directory.display(), plain(&error))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[tokio::test]
    #[rule("R-21")]
    async fn r21_an_interface_that_goes_down_is_told_and_so_is_one_that_vanishes() {
        let root = tempfile::tempdir().unwrap();
        let eyes = Eyes {
            files: std::sync::Arc::new(zester_host::overlay::Overlay::empty()),
            processes: std::sync::Arc::new(zester_host::process::fake::Scripted::new()),
            root: root.path().into(),
        };
        let directory = root.path().join("sys/class/net/eth0");
        std::fs::create_dir_all(&directory).unwrap();
        let config = Config { interfaces: Names(vec!["eth0".into()]) };
        let mut network = Network::new(config, When::default()).ok().unwrap();
        let mut told = Vec::new();
        for state in ["up", "down", "down", "up", ""] {
            match state {
                "" => std::fs::remove_dir_all(&directory).unwrap(),
                state => std::fs::write(directory.join("operstate"), format!("{state}\n")).unwrap(),
            }
            let sample = network.look(&eyes).await.unwrap().sample;
            for event in network.decide(&sample, Moment::default()) {
                told.push(format!("{} {}", event["state"], event["up"]));
            }
        }
        assert_eq!(told, ["\"down\" false", "\"up\" true", "\"absent\" false"]);
    }

    #[test]
    fn a_path_is_no_interface() {
        let config = Config { interfaces: Names(vec!["../x".into()]) };
        assert!(Network::new(config, When::default()).is_err());
    }
}
