//! What kinds about services share: how a service is, what must be told to it, and how that is taken back.

#[cfg(test)]
pub(crate) mod fake_init;

use crate::resource::{Applying, Change, Checking, Explanation, Invalid, Reverting};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;
use zester_host::files::PredictedService;
use zester_host::overlay::Overlay;
use zester_host::services::{self, Asking, ServiceAct, ServiceStatus, Telling, no_such};
use zester_host::{Fault, FaultKind, HostRead, Query};
use zester_model::outcome::Details;

/// What is to be told to a service, and how it was before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    pub(crate) service: String,
    /// Whether it is to run; none: as it is.
    pub(crate) run: Option<bool>,
    /// Whether it is to start with the machine; none: as it is.
    pub(crate) enable: Option<bool>,
    /// It runs, and is told that something it uses has changed.
    pub(crate) refresh: Option<Refresh>,
}

/// What a service that runs is told when something that it uses has changed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Refresh {
    Restart,
    Reload,
}

impl Refresh {
    fn act(self) -> ServiceAct {
        match self {
            Refresh::Restart => ServiceAct::Restart,
            Refresh::Reload => ServiceAct::Reload,
        }
    }
}

impl Drift {
    pub(crate) fn explain(&self, done: bool) -> Explanation {
        let mut words = Vec::new();
        let mut details = Details::new();
        let mut tell = |wanted: Option<bool>, key: &str, names: [&str; 2]| {
            if let Some(wanted) = wanted {
                let name = |value: bool| names[usize::from(value)];
                words.push(format!("{}: {} → {}\n", self.service, name(!wanted), name(wanted)));
                details.insert(key.into(), json!({ "old": !wanted, "new": wanted }));
            }
        };
        tell(self.run, "running", ["stopped", "running"]);
        tell(self.enable, "enabled", ["disabled", "enabled"]);
        if let Some(refresh) = self.refresh {
            let verb = match (refresh, done) {
                (Refresh::Restart, true) => "restarted",
                (Refresh::Restart, false) => "would be restarted",
                (Refresh::Reload, true) => "reloaded",
                (Refresh::Reload, false) => "would be reloaded",
            };
            words.push(format!("{}: {verb}\n", self.service));
            details.insert("refresh".into(), json!(refresh));
        }
        Explanation { diff: words.concat(), details }
    }

    pub(crate) fn predict(&self, overlay: &Overlay) {
        let predicted = PredictedService { running: self.run, enabled: self.enable };
        overlay.predict_service(&self.service, predicted);
    }
}

/// The name goes onto a command line.
pub(crate) fn refuse_odd_name(name: &str) -> Vec<Invalid> {
    let message = services::check_name(name).err();
    message.map(|message| Invalid { parameter: "name", message, hint: None }).into_iter().collect()
}

/// How a service is, with what earlier states of a dry run would make of it.
pub(crate) async fn look(name: &str, cx: &Checking<'_>) -> Result<Option<ServiceStatus>, Fault> {
    let asking = Asking { host: cx.host, query: cx.query, cancel: cx.cancel };
    let status = services::manager(cx.host)?.status(asking, name).await?;
    let PredictedService { running, enabled } = cx.host.predicted_service(name);
    Ok(status.map(|status| ServiceStatus {
        running: running.unwrap_or(status.running),
        enabled: enabled.or(status.enabled),
        ..status
    }))
}

/// The fault for a service that is not there.
pub(crate) fn missing(name: &str, host: &dyn HostRead) -> Fault {
    match services::manager(host) {
        Ok(manager) => no_such(name, manager.as_ref()),
        Err(fault) => fault,
    }
}

/// What is to be changed about starting with the machine. A service that cannot be enabled is no service to enable.
pub(crate) fn switched(
    name: &str,
    wanted: Option<bool>,
    status: &ServiceStatus,
) -> Result<Option<bool>, Fault> {
    match (wanted, status.enabled) {
        (None, _) => Ok(None),
        (Some(wanted), Some(enabled)) => Ok(Some(wanted).filter(|wanted| *wanted != enabled)),
        // What never starts by itself is disabled.
        (Some(false), None) => Ok(None),
        (Some(true), None) => {
            let message = format!("`{name}` cannot be enabled: it is {}", status.detail);
            Err(Fault::new(FaultKind::Unsupported, message).hint("leave out `enable`"))
        }
    }
}

/// How a drift is carried out.
#[derive(Copy, Clone, Default)]
pub(crate) struct How {
    /// How long a service is given after it was started, before it is looked at.
    pub(crate) init_delay: Duration,
    pub(crate) no_block: bool,
}

/// Tells the service all of it. What was begun before something failed is told with the fault.
pub(crate) async fn apply(drift: &Drift, how: How, cx: &Applying<'_>) -> Result<Change, Fault> {
    let mut begun = Drift { run: None, enable: None, refresh: None, ..drift.clone() };
    match tell(drift, &mut begun, how, cx).await {
        Ok(()) => {
            let Explanation { diff, details } = drift.explain(true);
            Ok(Change { changed: true, diff, details, undo: None })
        }
        Err(fault) => {
            // What was begun may have done something; a revert looks how it is.
            let undo = serde_json::to_value(&begun).unwrap_or_default();
            Err(if begun.is_nothing() { fault } else { fault.having_done(undo) })
        }
    }
}

impl Drift {
    fn is_nothing(&self) -> bool {
        self.run.is_none() && self.enable.is_none() && self.refresh.is_none()
    }
}

async fn tell(drift: &Drift, begun: &mut Drift, how: How, cx: &Applying<'_>) -> Result<(), Fault> {
    if cx.cancel.is_cancelled() {
        return Err(Fault::canceled());
    }
    let manager = services::manager(cx.host)?;
    let telling = Telling {
        host: cx.host,
        processes: cx.processes,
        cancel: cx.cancel,
        live: cx.live.clone(),
        no_block: how.no_block,
    };
    let service = drift.service.as_str();
    if let Some(enable) = drift.enable {
        let act = if enable { ServiceAct::Enable } else { ServiceAct::Disable };
        begun.enable = Some(enable);
        manager.act(act, service, &telling).await?;
    }
    let act = match (drift.run, drift.refresh) {
        (Some(true), _) => ServiceAct::Start,
        (Some(false), _) => ServiceAct::Stop,
        (None, Some(refresh)) => refresh.act(),
        (None, None) => return Ok(()),
    };
    if cx.cancel.is_cancelled() {
        return Err(Fault::canceled());
    }
    (begun.run, begun.refresh) = (drift.run, drift.refresh);
    manager.act(act, service, &telling).await?;
    if how.no_block {
        return Ok(());
    }
    if act != ServiceAct::Stop && !how.init_delay.is_zero() {
        tokio::select! {
            () = tokio::time::sleep(how.init_delay) => {}
            () = cx.cancel.cancelled() => return Err(Fault::canceled()),
        }
    }
    let wanted = act != ServiceAct::Stop;
    let status = manager.status(telling.asking(), service).await?;
    let runs = status.as_ref().is_some_and(|status| status.running);
    if runs != wanted {
        let detail = status.map_or_else(|| "gone".to_string(), |status| status.detail);
        let told = act.word();
        let message = format!("`{service}` was told to {told} and is {detail}");
        return Err(Fault::new(FaultKind::CommandFailed, message));
    }
    Ok(())
}

/// Takes back what was told, where it is still so. A restart cannot be taken back.
pub(crate) async fn revert(undo: &Drift, cx: &Reverting<'_>) -> Result<Change, Fault> {
    let manager = services::manager(cx.host)?;
    let asking = Asking { host: cx.host, query: Query::through(cx.processes), cancel: cx.cancel };
    let Some(status) = manager.status(asking, &undo.service).await? else { return Ok(Change::default()) };
    let run = undo.run.filter(|run| *run == status.running).map(|run| !run);
    let enable = undo.enable.filter(|enable| Some(*enable) == status.enabled).map(|enable| !enable);
    if run.is_none() && enable.is_none() {
        return Ok(Change::default());
    }
    let back = Drift { run, enable, refresh: None, service: undo.service.clone() };
    let applying = Applying::new(cx.host, cx.processes, cx.cancel);
    apply(&back, How::default(), &applying).await
}
