//! A service that zones can let in, as firewalld keeps it for good.

use super::zone_state::{between, change, failure};
use crate::claims::ManagedItem;
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zester_host::Fault;
use zester_host::process::read_tools::FIREWALLD_SERVICE;

/// What firewalld answers where there is no such service.
const INVALID_SERVICE: i32 = 101;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceState {
    pub(super) exists: bool,
    pub(super) ports: BTreeSet<String>,
    pub(super) protocols: BTreeSet<String>,
}

impl State for ServiceState {
    type Key = String;
    type How = ();

    fn item(service: &String) -> ManagedItem {
        ManagedItem::Named("firewalld service", service.clone())
    }

    async fn current(service: &String, cx: &Read<'_>) -> Result<ServiceState, Fault> {
        let exit = cx.ask(FIREWALLD_SERVICE, &[service]).await?;
        match exit.code {
            Some(0) => {}
            Some(INVALID_SERVICE) => return Ok(ServiceState::default()),
            _ => return Err(failure(&exit, &format!("`firewall-cmd --info-service={service}`"))),
        }
        let words = |name: &str| {
            let line = exit
                .stdout
                .text
                .lines()
                .find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_default().split_whitespace().map(str::to_string).collect()
        };
        Ok(ServiceState { exists: true, ports: words("ports"), protocols: words("protocols") })
    }

    async fn enforce(step: &Step<'_, ServiceState>, cx: &Write<'_, ServiceState>) -> Result<(), Fault> {
        let Step { key: service, from, to, .. } = step;
        let tell = async |words: &[&str]| cx.run(&[&["firewall-cmd"], words].concat()).await.map(drop);
        if to.exists && !from.exists {
            tell(&["--permanent", &format!("--new-service={service}")]).await?;
        }
        if to.exists {
            let named = format!("--service={service}");
            for (noun, old, new) in
                [("port", &from.ports, &to.ports), ("protocol", &from.protocols, &to.protocols)]
            {
                change(&named, noun, old, new, cx).await?;
            }
        } else if from.exists {
            tell(&["--permanent", &format!("--delete-service={service}")]).await?;
        }
        tell(&["--reload"]).await
    }

    /// Everything comes one at a time.
    fn is_between(&self, before: &ServiceState, after: &ServiceState) -> bool {
        between(&self.ports, &before.ports, &after.ports)
            && between(&self.protocols, &before.protocols, &after.protocols)
    }
}
