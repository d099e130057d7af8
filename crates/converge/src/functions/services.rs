//! `service.*`: questions about services, and orders to them.

use super::{Access, Arguments, CallContext, Function, Takes, text};
use serde_json::{Value as Json, json};
use std::future::Future;
use zester_host::services::{self, Asking, ServiceAct, Telling, check_name, no_such};
use zester_host::{Fault, Launch, Query};
use zester_model::limits;

const NAME: &[Takes] = &[text("name")];

const fn order(
    name: &'static str,
    doc: &'static str,
    call: fn(&CallContext<'_>, &Arguments) -> Result<Json, String>,
) -> Function {
    Function { name, access: Access::Command, takes: NAME, doc, call }
}

pub(super) const TABLE: &[Function] = &[
    AVAILABLE,
    DISABLE,
    DISABLED,
    ENABLE,
    ENABLED,
    GET_ALL,
    MISSING,
    RELOAD,
    RESTART,
    START,
    STATUS,
    STOP,
    SYSTEMCTL_RELOAD,
];

const AVAILABLE: Function = super::read_only(
    "service.available",
    NAME,
    "service.available NAME: whether there is such a service",
    |place, args| {
        let name = named(args)?;
        ask(place, async |asking| {
            let manager = services::manager(asking.host)?;
            Ok(json!(manager.status(asking, &name).await?.is_some()))
        })
    },
);

const DISABLED: Function = super::read_only(
    "service.disabled",
    NAME,
    "service.disabled NAME: whether a service does not start with the machine",
    |place, args| starts(place, args).map(|starts| json!(!starts)),
);
const ENABLED: Function = super::read_only(
    "service.enabled",
    NAME,
    "service.enabled NAME: whether a service starts with the machine",
    |place, args| starts(place, args).map(|starts| json!(starts)),
);
const MISSING: Function = super::read_only(
    "service.missing",
    NAME,
    "service.missing NAME: whether there is no such service",
    |place, args| {
        let found = (AVAILABLE.call)(place, args)?;
        Ok(json!(found == json!(false)))
    },
);

const GET_ALL: Function =
    super::read_only("service.get_all", &[], "service.get_all: the names of all services", |place, _| {
        ask(place, async |asking| Ok(json!(services::manager(asking.host)?.all(asking).await?)))
    });

const STATUS: Function =
    super::read_only("service.status", NAME, "service.status NAME: whether a service runs", |place, args| {
        let name = named(args)?;
        ask(place, async |asking| {
            let manager = services::manager(asking.host)?;
            let status = manager.status(asking, &name).await?;
            let status = status.ok_or_else(|| no_such(&name, manager.as_ref()))?;
            Ok(json!(status.running))
        })
    });

const START: Function = order("service.start", "service.start NAME: starts a service", |place, args| {
    tell(place, args, ServiceAct::Start)
});
const STOP: Function = order("service.stop", "service.stop NAME: stops a service", |place, args| {
    tell(place, args, ServiceAct::Stop)
});
const RESTART: Function =
    order("service.restart", "service.restart NAME: stops a service and starts it", |place, args| {
        tell(place, args, ServiceAct::Restart)
    });
const RELOAD: Function =
    order("service.reload", "service.reload NAME: lets a service read its files again", |place, args| {
        tell(place, args, ServiceAct::Reload)
    });
const ENABLE: Function =
    order("service.enable", "service.enable NAME: lets a service start with the machine", |place, args| {
        tell(place, args, ServiceAct::Enable)
    });
const DISABLE: Function = order(
    "service.disable",
    "service.disable NAME: keeps a service from starting with the machine",
    |place, args| tell(place, args, ServiceAct::Disable),
);

const SYSTEMCTL_RELOAD: Function = Function {
    name: "service.systemctl_reload",
    access: Access::Command,
    takes: &[],
    doc: "service.systemctl_reload: lets systemd read its unit files again",
    call: |place, _| {
        let mut launch = Launch::argv(["systemctl", "daemon-reload"]);
        launch.timeout = Some(limits::TEMPLATE_COMMAND_TIMEOUT);
        let exit = place.handle.block_on(place.processes.run(&launch, None, place.cancel));
        let exit = exit.map_err(|fault| fault.to_string())?;
        match exit.code {
            Some(0) => Ok(json!(true)),
            _ => Err(exit.stderr.text.lines().next().unwrap_or("systemctl failed").to_string()),
        }
    },
};

fn starts(place: &CallContext<'_>, args: &Arguments) -> Result<bool, String> {
    let name = named(args)?;
    let told = ask(place, async |asking| {
        let manager = services::manager(asking.host)?;
        let status = manager.status(asking, &name).await?;
        let status = status.ok_or_else(|| no_such(&name, manager.as_ref()))?;
        Ok(json!(status.enabled))
    })?;
    Ok(told == json!(true))
}

fn named(args: &Arguments) -> Result<String, String> {
    let name = args.text(0, "name")?;
    check_name(&name).map(|()| name)
}

fn ask<'a, F>(place: &'a CallContext<'a>, question: impl FnOnce(Asking<'a>) -> F) -> Result<Json, String>
where
    F: Future<Output = Result<Json, Fault>>,
{
    let CallContext { host, processes, cancel, .. } = place;
    let asking = Asking { host: *host, query: Query::through(*processes), cancel };
    place.handle.block_on(question(asking)).map_err(|fault| fault.to_string())
}

/// True once it is done; whatever is not done is an error.
fn tell(place: &CallContext<'_>, args: &Arguments, act: ServiceAct) -> Result<Json, String> {
    let name = named(args)?;
    let CallContext { host, processes, cancel, .. } = place;
    let telling = Telling { host: *host, processes: *processes, cancel, live: None, no_block: false };
    let told = async {
        let manager = services::manager(telling.host)?;
        if manager.status(telling.asking(), &name).await?.is_none() {
            return Err(no_such(&name, manager.as_ref()));
        }
        manager.act(act, &name, &telling).await
    };
    place.handle.block_on(told).map_err(|fault| fault.to_string())?;
    Ok(json!(true))
}

#[cfg(test)]
mod tests {
    use crate::functions::{Arguments, CallContext, find};
    use serde_json::{Map, Value as Json, json};
    use tokio::runtime::Handle;
    use tokio_util::sync::CancellationToken;
    use zester_host::overlay::Overlay;
    use zester_host::process::fake::{Scripted, command_line, exit};
    use zester_host::{HostWrite, Owner};

    fn systemd() -> Overlay {
        let host = Overlay::empty();
        for path in ["/run", "/run/systemd", "/run/systemd/system"] {
            host.make_directory(path.as_ref(), 0o755, Owner { uid: 0, gid: 0 }).unwrap();
        }
        host
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn services_are_asked_and_told() {
        let processes = Scripted::new().with(|launch| {
            let line = command_line(launch);
            Some(Ok(match line.split(' ').next_back() {
                Some("nginx") => exit(0, "LoadState=loaded\nActiveState=active\nSubState=running\n", ""),
                Some("--plain") => exit(0, "nginx.service enabled enabled\n", ""),
                _ => exit(0, "LoadState=not-found\nActiveState=inactive\n", ""),
            }))
        });
        let (host, none, cancel, handle) =
            (systemd(), Json::Null, CancellationToken::new(), Handle::current());
        let place = CallContext {
            host: &host,
            processes: &processes,
            handle: &handle,
            facts: &none,
            settings: &none,
            origins: &[],
            cancel: &cancel,
            cut_output: true,
        };
        let call = |function: &str, words: &[&str]| {
            let positional = words.iter().map(|word| json!(word)).collect();
            let arguments = Arguments { positional, named: Map::new() };
            tokio::task::block_in_place(|| find(function).unwrap().answer(&place, &arguments))
        };
        for (function, words, wanted) in [
            ("service.status", &["nginx"][..], json!(true)),
            ("service.available", &["nginx"], json!(true)),
            ("service.available", &["none"], json!(false)),
            ("service.get_all", &[], json!(["nginx"])),
            ("service.restart", &["nginx"], json!(true)),
            ("service.enable", &["nginx"], json!(true)),
        ] {
            assert_eq!(call(function, words), Ok(wanted), "{function} {words:?}");
        }
        assert_eq!(call("service.status", &["none"]), Err("systemd knows no service `none`".into()));
        assert_eq!(call("service.stop", &["none"]), Err("systemd knows no service `none`".into()));
        assert_eq!(call("service.stop", &["-f"]), Err("`-f` cannot name a service".into()));
        let orders = processes.ran().into_iter().filter(|line| line.contains("--no-ask-password"));
        assert_eq!(
            orders.collect::<Vec<_>>(),
            ["systemctl --no-ask-password restart nginx", "systemctl --no-ask-password enable nginx"]
        );
    }
}
