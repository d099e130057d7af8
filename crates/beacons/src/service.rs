//! `service`: services that start and stop.

use crate::level::{Condition, LevelKind, Levels, When};
use crate::params::Names;
use crate::{Data, Eyes, Kind, Moment, Seen};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_host::Query;
use zester_host::services::{self, Asking, check_name, no_such};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The services to watch.
    services: Names,
}

pub(crate) struct Service {
    services: Vec<String>,
    levels: Levels,
}

impl Kind for Service {
    const NAME: &'static str = "service";
    const INTERVAL: Duration = Duration::from_secs(10);
    type Config = Config;
    /// Whether each of them runs.
    type Sample = BTreeMap<String, bool>;

    fn new(config: Config, when: When) -> Result<Service, String> {
        let services = config.services.0;
        services.iter().try_for_each(|service| check_name(service))?;
        Ok(Service { services, levels: Levels::new("running", LevelKind::State, when) })
    }

    async fn look(&mut self, eyes: &Eyes) -> Result<Seen<Self::Sample>, String> {
        let files = eyes.files.clone();
        let found = tokio::task::spawn_blocking(move || services::manager(files.as_ref())).await;
        let manager = found.map_err(|error| error.to_string())?.map_err(|fault| fault.to_string())?;
        let cancel = CancellationToken::new();
        let asking = Asking {
            host: eyes.files.as_ref(),
            query: Query::through(eyes.processes.as_ref()),
            cancel: &cancel,
        };
        let mut seen = Seen::all(BTreeMap::new());
        for service in &self.services {
            match manager.status(asking, service).await {
                Ok(Some(status)) => drop(seen.sample.insert(service.clone(), status.running)),
                // It surely does not run.
                Ok(None) => {
                    seen.sample.insert(service.clone(), false);
                    seen.problems.push(no_such(service, manager.as_ref()).to_string());
                }
                Err(fault) => seen.problems.push(fault.to_string()),
            }
        }
        Ok(seen)
    }

    fn decide(&mut self, sample: &Self::Sample, now: Moment) -> Vec<Data> {
        let conditions = sample.iter().map(|(service, running)| Condition {
            key: service.clone(),
            on: *running,
            data: Data::from_iter([("service".to_string(), json!(service))]),
        });
        self.levels.observe(conditions.collect(), now.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::sync::Arc;
    use zester_host::overlay::Overlay;
    use zester_host::process::fake::{Scripted, command_line, exit};
    use zester_host::{HostWrite, Owner};
    use zester_rule::rule;

    fn at(seconds: u64) -> Moment {
        Moment { run: Duration::from_secs(seconds), wall: 0 }
    }

    fn sample(running: bool) -> BTreeMap<String, bool> {
        BTreeMap::from([("nginx".to_string(), running)])
    }

    fn service(names: &[&str]) -> Service {
        let services = Names(names.iter().map(ToString::to_string).collect());
        Service::new(Config { services }, When::default()).ok().unwrap()
    }

    #[test]
    #[rule("R-17")]
    fn r17_a_service_that_stops_is_one_event_and_the_first_look_is_the_baseline() {
        let mut service = service(&["nginx"]);
        assert!(service.decide(&sample(true), at(0)).is_empty());
        let told = service.decide(&sample(false), at(10));
        assert_eq!(json!(told), json!([{"service": "nginx", "running": false, "previous": true}]));
        assert!(service.decide(&sample(false), at(20)).is_empty());
        let told = service.decide(&sample(true), at(30));
        assert_eq!(json!(told), json!([{"service": "nginx", "running": true, "previous": false}]));
    }

    #[tokio::test]
    async fn a_manager_that_does_not_answer_is_no_service_that_stopped() {
        let host = Overlay::empty();
        for path in ["/run", "/run/systemd", "/run/systemd/system"] {
            host.make_directory(Path::new(path), 0o755, Owner { uid: 0, gid: 0 }).unwrap();
        }
        let processes = Scripted::new().with(|launch| {
            let line = command_line(launch);
            Some(Ok(match line.split(' ').next_back() {
                Some("nginx") => exit(0, "LoadState=loaded\nActiveState=active\nSubState=running\n", ""),
                Some("gone") => exit(0, "LoadState=not-found\nActiveState=inactive\n", ""),
                _ => exit(1, "", "Failed to connect to bus\n"),
            }))
        });
        let eyes = Eyes { files: Arc::new(host), processes: Arc::new(processes), root: "/".into() };
        let seen = service(&["nginx", "gone", "dbus"]).look(&eyes).await.unwrap();
        assert_eq!(json!(seen.sample), json!({"nginx": true, "gone": false}));
        assert_eq!(seen.problems.len(), 2, "{:?}", seen.problems);
        assert_eq!(seen.problems[0], "systemd knows no service `gone`");
    }
}
