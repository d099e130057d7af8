//! The state of a service, which all kinds about services share.

#[cfg(test)]
pub(crate) mod fake_init;

use crate::claims::ManagedItem;
use crate::context::Explanation;
use crate::params::Invalid;
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use zester_host::process::read_tools::PGREP;
use zester_host::services::{self, Asking, ServiceAct, ServiceStatus, Telling, no_such};
use zester_host::{Fault, FaultKind, HostRead};

/// How a service is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceState {
    /// Whether there is such a service.
    pub(crate) known: bool,
    pub(crate) running: bool,
    /// Whether it starts with the machine; none where that is not for anybody to decide.
    pub(crate) enabled: Option<bool>,
    /// Nothing and nobody can start it.
    #[serde(default)]
    pub(crate) masked: bool,
    /// The manager's own word for it.
    #[serde(skip)]
    pub(crate) detail: String,
}

/// How a service is told.
#[derive(Clone, Default)]
pub(crate) struct How {
    /// How long it is given after it was started, before it is looked at.
    pub(crate) init_delay: Duration,
    pub(crate) no_block: bool,
    /// Of one that runs and uses what has changed: it is told to read that anew, instead of starting anew.
    pub(crate) reload: bool,
    /// It is stopped and started, where it would be restarted.
    pub(crate) full_restart: bool,
    /// It runs where a process has this in its command line, whatever its manager says.
    pub(crate) sig: Option<String>,
}

impl How {
    fn refresh(&self) -> ServiceAct {
        if self.reload { ServiceAct::Reload } else { ServiceAct::Restart }
    }
}

/// Whether there is a process with this in its command line.
pub(crate) async fn has_process(sig: &str, cx: &Read<'_>) -> Result<bool, Fault> {
    let exit = cx.ask(PGREP, &[sig]).await?;
    match exit.code {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err(exit.failure("pgrep")),
    }
}

impl ServiceState {
    /// Starting with the machine, as wanted. What cannot be enabled is no service to enable.
    pub(crate) fn enabling(&self, name: &str, wanted: Option<bool>) -> Result<Option<bool>, Fault> {
        match (wanted, self.enabled) {
            // What never starts by itself is disabled.
            (None, enabled) | (Some(false), enabled @ None) => Ok(enabled),
            (Some(wanted), Some(_)) => Ok(Some(wanted)),
            (Some(true), None) => {
                let message = format!("`{name}` cannot be enabled: it is {}", self.detail);
                Err(Fault::new(FaultKind::Unsupported, message).hint("leave out `enable`"))
            }
        }
    }
}

impl State for ServiceState {
    type Key = String;
    type How = How;

    fn item(name: &String) -> ManagedItem {
        ManagedItem::Service(name.clone())
    }

    async fn current(name: &String, cx: &Read<'_>) -> Result<ServiceState, Fault> {
        let asking = Asking { host: cx.host, query: cx.query, cancel: cx.cancel };
        let status = services::manager(cx.host)?.status(asking, name).await?;
        Ok(status.map_or_else(ServiceState::default, |ServiceStatus { running, enabled, masked, detail }| {
            ServiceState { known: true, running, enabled, masked, detail }
        }))
    }

    async fn enforce(step: &Step<'_, ServiceState>, cx: &Write<'_, ServiceState>) -> Result<(), Fault> {
        let Step { key: name, from, to, how, acts } = step;
        let manager = services::manager(cx.host)?;
        let telling = Telling {
            host: cx.host,
            processes: &cx.processes,
            cancel: cx.cancel,
            live: cx.live.clone(),
            no_block: how.no_block,
        };
        if to.masked != from.masked {
            let act = if to.masked { ServiceAct::Mask } else { ServiceAct::Unmask };
            cx.reached(ServiceState { masked: to.masked, ..(*from).clone() });
            manager.act(act, name, &telling).await?;
        }
        if to.enabled != from.enabled {
            let act = if to.enabled == Some(true) { ServiceAct::Enable } else { ServiceAct::Disable };
            cx.reached(ServiceState { enabled: to.enabled, masked: to.masked, ..(*from).clone() });
            manager.act(act, name, &telling).await?;
        }
        let act = match (from.running, to.running) {
            (false, true) => ServiceAct::Start,
            (true, false) => ServiceAct::Stop,
            _ if *acts => how.refresh(),
            _ => return Ok(()),
        };
        if cx.cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        cx.reached((*to).clone());
        if act == ServiceAct::Restart && how.full_restart {
            manager.act(ServiceAct::Stop, name, &telling).await?;
            manager.act(ServiceAct::Start, name, &telling).await?;
        } else {
            manager.act(act, name, &telling).await?;
        }
        if how.no_block {
            return Ok(());
        }
        if act != ServiceAct::Stop && !how.init_delay.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(how.init_delay) => {}
                () = cx.cancel.cancelled() => return Err(Fault::canceled()),
            }
        }
        let mut now = ServiceState::current(name, &cx.read()).await?;
        if let Some(sig) = &how.sig {
            now.running = has_process(sig, &cx.read()).await?;
        }
        if now.running != (act != ServiceAct::Stop) {
            let (told, detail) = (act.word(), if now.known { now.detail.as_str() } else { "gone" });
            let message = format!("`{name}` was told to {told} and is {detail}");
            return Err(Fault::new(FaultKind::CommandFailed, message));
        }
        Ok(())
    }

    fn describe(step: &Step<'_, ServiceState>, done: bool) -> Explanation {
        let Step { key: name, from, to, how, acts } = step;
        let mut told = Explanation::default();
        let mut tell = |key: &str, old: bool, new: bool, words: [&str; 2]| {
            if old != new {
                let word = |value: bool| words[usize::from(value)];
                told.diff.push_str(&format!("{name}: {} → {}\n", word(old), word(new)));
                told.details.insert(key.into(), json!({ "old": old, "new": new }));
            }
        };
        tell("running", from.running, to.running, ["stopped", "running"]);
        tell("enabled", from.enabled == Some(true), to.enabled == Some(true), ["disabled", "enabled"]);
        tell("masked", from.masked, to.masked, ["not masked", "masked"]);
        if *acts && from.running == to.running {
            let would = if done { "" } else { "would be " };
            told.diff.push_str(&format!("{name}: {would}{}ed\n", how.refresh().word()));
            told.details.insert("refresh".into(), json!(how.refresh().word()));
        }
        told
    }

    fn is_gone(&self) -> bool {
        !self.known
    }
}

/// The name goes onto a command line.
pub(crate) fn refuse_odd_name(name: &str) -> Vec<Invalid> {
    services::check_name(name).err().map(|message| Invalid::new("name", message)).into_iter().collect()
}

/// The fault for a service that is not there.
pub(crate) fn missing(name: &str, host: &dyn HostRead) -> Fault {
    match services::manager(host) {
        Ok(manager) => no_such(name, manager.as_ref()),
        Err(fault) => fault,
    }
}
