//! `service.running`: a service that runs.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::{Checking, Forced};
use crate::params::{Invalid, Time, params};
use crate::resource::{Resource, Want};
use crate::service::{self, How, ServiceState};
use crate::state::Read;
use std::time::Duration;
use zester_host::{Fault, FaultKind};

/// A service that runs.
#[params(kind = "service.running", primary = "name", manual = "service_running.md")]
pub struct Running {
    /// The service, as its manager knows it.
    name: String,
    /// Whether it starts with the machine. Unset: as it is.
    enable: Option<bool>,
    /// `true` reloads it when a state that it watches has changed; otherwise it is restarted.
    #[param(default)]
    reload: bool,
    /// How long it is given after it was started, before it is looked at.
    init_delay: Option<Time>,
    /// `true` does not wait until it has started, and does not look whether it did.
    #[param(default)]
    no_block: bool,
    /// `true` stops and starts it where it would be restarted.
    #[param(default)]
    full_restart: bool,
    /// `true` takes a mask off first.
    #[param(default)]
    unmask: bool,
    /// A text from the command line of its process, for a script that cannot tell whether it runs.
    sig: Option<String>,
}

impl Resource for Running {
    type State = ServiceState;
    const UNPREDICTABLE: bool = true;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &ServiceState, cx: &Checking<'_>) -> Result<Want<ServiceState>, Fault> {
        if !now.known {
            return Err(service::missing(&self.name, cx.host));
        }
        if now.masked && !self.unmask {
            let message = format!("`{}` is masked: nothing can start it", self.name);
            return Err(Fault::new(FaultKind::Unsupported, message).hint("`unmask: true` takes the mask off"));
        }
        // What is masked has not said whether it starts with the machine.
        let enabled = match self.enable {
            Some(wanted) if now.masked => Some(wanted),
            wanted => now.enabling(&self.name, wanted)?,
        };
        let runs = match &self.sig {
            Some(sig) => service::has_process(sig, &Read::of_check(cx)).await?,
            None => now.running,
        };
        let running = if runs { now.running } else { true };
        let to = ServiceState { running, enabled, masked: false, ..now.clone() };
        // What starts now has read everything already.
        Ok(if runs && cx.forced == Some(Forced::Watch) { Want::Act(to) } else { Want::Be(to) })
    }

    fn how(&self) -> How {
        let init_delay = self.init_delay.map_or(Duration::ZERO, |time| time.0);
        How {
            init_delay,
            no_block: self.no_block,
            reload: self.reload,
            full_restart: self.full_restart,
            sig: self.sig.clone(),
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = service::refuse_odd_name(&self.name);
        if self.sig.as_ref().is_some_and(|sig| sig.is_empty()) {
            invalid.push(Invalid::new("sig", "every process has an empty text in its command line"));
        }
        if self.reload && self.full_restart {
            invalid.push(Invalid::new("full_restart", "it is either reloaded or restarted"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(ManagedItem::Service(self.name.clone()), "running");
        Claims::of(claim.with("enable", self.enable))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::service::fake_init::fake_init;
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("service.running", params, promise, move |host| fake_init(host, world))
    };
    vec![
        case(json!({ "name": "web" }), Promise::Clean, "web active enabled"),
        case(json!({ "name": "web" }), Promise::Converges, "web inactive enabled"),
        case(json!({ "name": "web", "enable": true }), Promise::Converges, "web active disabled"),
        case(json!({ "name": "web", "enable": true }), Promise::Converges, "web inactive disabled"),
        case(json!({ "name": "web", "enable": false }), Promise::Converges, "web inactive enabled"),
        case(json!({ "name": "web", "enable": true }), Promise::Fails, "web inactive static"),
        case(json!({ "name": "web", "enable": false }), Promise::Clean, "web active static"),
        case(json!({ "name": "web" }), Promise::Fails, "db active enabled"),
        case(json!({ "name": "web" }), Promise::Fails, "web inactive masked"),
        case(json!({ "name": "broken" }), Promise::Fails, "broken failed enabled"),
        case(json!({ "name": "broken", "no_block": true }), Promise::Acts, "broken failed enabled"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Applying;
    use crate::laws::{FewFiles, bind_json};
    use crate::service::fake_init::fake_init;
    use serde_json::json;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;
    use zester_host::Query;
    use zester_host::overlay::Overlay;
    use zester_host::process::fake::{Scripted, exit};
    use zester_rule::rule;

    /// What a state does when it is forced: the words of its explanation, and the orders that were given.
    async fn forced(params: serde_json::Value, world: &str, forced: Option<Forced>) -> (String, Vec<String>) {
        let host = Arc::new(Overlay::empty());
        let processes = fake_init(&host, world);
        let bound = bind_json("service.running", &params).ok().unwrap();
        let cancel = CancellationToken::new();
        let query = Query::through(processes.as_ref());
        let host: &Overlay = &host;
        let cx = Checking { host, query, files: &FewFiles, forced, dry_run: false, cancel: &cancel };
        let Some(drift) = bound.check(&cx).await.unwrap() else { return (String::new(), Vec::new()) };
        let change = bound.apply(&drift, &Applying::new(host, processes.as_ref(), &cancel)).await.unwrap();
        let ran = processes.ran().into_iter().filter(|line| !line.contains(" show "));
        (change.diff, ran.map(|line| line.replace("systemctl --no-ask-password ", "")).collect())
    }

    #[tokio::test]
    #[rule("S-14")]
    async fn s14_a_watched_change_restarts_what_runs_or_reloads_it() {
        let watch = Some(Forced::Watch);
        for (params, world, forced_by, diff, ran) in [
            (json!({"name": "web"}), "web active enabled", watch, "web: restarted\n", &["restart web"][..]),
            (
                json!({"name": "web", "reload": true}),
                "web active enabled",
                watch,
                "web: reloaded\n",
                &["reload web"],
            ),
            (
                json!({"name": "web"}),
                "web inactive enabled",
                watch,
                "web: stopped → running\n",
                &["start web"],
            ),
            (
                json!({"name": "web", "enable": true}),
                "web active disabled",
                watch,
                "web: disabled → enabled\nweb: restarted\n",
                &["enable web", "restart web"],
            ),
            (
                json!({"name": "web", "full_restart": true}),
                "web active enabled",
                watch,
                "web: restarted\n",
                &["stop web", "start web"],
            ),
            (
                json!({"name": "web", "unmask": true}),
                "web inactive masked",
                None,
                "web: stopped → running\nweb: masked → not masked\n",
                &["unmask web", "start web"],
            ),
            (json!({"name": "web"}), "web active enabled", Some(Forced::Prereq), "", &[]),
            (json!({"name": "web"}), "web active enabled", None, "", &[]),
        ] {
            assert_eq!(
                forced(params, world, forced_by).await,
                (diff.to_string(), ran.iter().map(ToString::to_string).collect())
            );
        }
    }

    #[tokio::test]
    #[rule("S-44")]
    async fn s44_a_service_that_is_not_there_is_something_that_was_not_found() {
        let host = Arc::new(Overlay::empty());
        let processes = fake_init(&host, "db active enabled");
        let cancel = CancellationToken::new();
        let query = Query::through(processes.as_ref());
        let bound = bind_json("service.running", &json!({"name": "web"})).ok().unwrap();
        let cx =
            Checking { host: &*host, query, files: &FewFiles, forced: None, dry_run: true, cancel: &cancel };
        let fault = bound.check(&cx).await.err().unwrap();
        assert_eq!(
            (fault.kind, fault.message.as_str()),
            (FaultKind::NotFound, "systemd knows no service `web`")
        );
    }

    #[tokio::test]
    async fn without_a_service_manager_the_state_says_so() {
        let host = Overlay::empty();
        let processes = Scripted::new().with(|_| Some(Ok(exit(0, "", ""))));
        let cancel = CancellationToken::new();
        let query = Query::through(&processes);
        let bound = bind_json("service.running", &json!({"name": "web"})).ok().unwrap();
        let cx =
            Checking { host: &host, query, files: &FewFiles, forced: None, dry_run: true, cancel: &cancel };
        let fault = bound.check(&cx).await.err().unwrap();
        assert!(fault.message.starts_with("no service manager runs here"), "{fault}");
    }

    #[tokio::test]
    #[rule("S-43")]
    async fn s43_a_service_that_does_not_stay_up_is_a_failure_that_touched_something() {
        let host = Arc::new(Overlay::empty());
        let processes = fake_init(&host, "broken failed disabled");
        let cancel = CancellationToken::new();
        let query = Query::through(processes.as_ref());
        let bound = bind_json("service.running", &json!({"name": "broken", "enable": true})).ok().unwrap();
        let cx =
            Checking { host: &*host, query, files: &FewFiles, forced: None, dry_run: false, cancel: &cancel };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        let fault =
            bound.apply(&drift, &Applying::new(&*host, processes.as_ref(), &cancel)).await.err().unwrap();
        assert_eq!(fault.message, "`broken` was told to start and is failed (failed)");
        assert!(fault.touched);
        let undo = fault.undo.unwrap();
        assert_eq!(undo["from"], json!({"known": true, "running": false, "enabled": false, "masked": false}));
        assert_eq!(undo["to"], json!({"known": true, "running": true, "enabled": true, "masked": false}));
    }

    #[test]
    fn a_name_that_is_an_option_is_refused() {
        let told = bind_json("service.running", &json!({"name": "-f"})).err().unwrap();
        assert_eq!(told[0].message, "`name` of service.running: `-f` cannot name a service");
    }
}
