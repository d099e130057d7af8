//! Services of OpenRC: `rc-service` answers and acts, the links below `/etc/runlevels` say what starts with the machine.

use super::{Asking, ServiceAct, ServiceManager, ServiceStatus, Telling, failed, names, no_masks, sysv};
use crate::fault::{Fault, FaultKind};
use crate::files::HostRead;
use crate::process::{BoxFuture, Exit, Question};
use std::path::{Path, PathBuf};

const RUNLEVELS: &str = "/etc/runlevels";
/// Where a service is put that is enabled, as `rc-update add` does.
const RUNLEVEL: &str = "default";

pub(super) struct OpenRc;

impl ServiceManager for OpenRc {
    fn name(&self) -> &'static str {
        "openrc"
    }

    fn status<'a>(
        &'a self,
        asking: Asking<'a>,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<ServiceStatus>, Fault>> {
        Box::pin(async move {
            if !sysv::is_script(asking.host, &Path::new(sysv::SCRIPTS).join(service))? {
                return Ok(None);
            }
            let exit = asking.query.ask(Question::OpenRc { name: service }, asking.cancel).await?;
            let (running, detail) = judge(&exit)?;
            let enabled = Some(!runlevels(asking.host, service)?.is_empty());
            Ok(Some(ServiceStatus { running, enabled, masked: false, detail: detail.into() }))
        })
    }

    fn all<'a>(&'a self, asking: Asking<'a>) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        Box::pin(async move { sysv::scripts(asking.host, Path::new(sysv::SCRIPTS)) })
    }

    fn act<'a>(
        &'a self,
        act: ServiceAct,
        service: &'a str,
        telling: &'a Telling<'a>,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            match act {
                ServiceAct::Mask | ServiceAct::Unmask => Err(no_masks(self)),
                ServiceAct::Enable => telling.run(&["rc-update", "add", service, RUNLEVEL]).await,
                ServiceAct::Disable => telling.run(&["rc-update", "--all", "delete", service]).await,
                other => telling.run(&["rc-service", service, other.word()]).await,
            }
        })
    }
}

/// The runlevels that start a service.
fn runlevels(host: &dyn HostRead, service: &str) -> Result<Vec<PathBuf>, Fault> {
    let mut found = Vec::new();
    for name in names(host, Path::new(RUNLEVELS))? {
        let link = host.real_path(&Path::new(RUNLEVELS).join(name).join(service))?;
        if host.stat(&link)?.is_some() {
            found.push(link);
        }
    }
    Ok(found)
}

/// What `rc-service NAME status` means by its exit code.
fn judge(exit: &Exit) -> Result<(bool, &'static str), Fault> {
    match exit.code {
        Some(0) => Ok((true, "started")),
        Some(3) => Ok((false, "stopped")),
        Some(4) => Ok((false, "stopping")),
        Some(8) => Ok((false, "starting")),
        Some(16) => Ok((false, "inactive")),
        Some(32) => Ok((false, "crashed")),
        _ => Err(Fault { kind: FaultKind::CommandFailed, ..failed("rc-service status", exit) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{HostWrite, NewFile, Owner};
    use crate::overlay::Overlay;
    use crate::process::Query;
    use crate::process::fake::{Scripted, exit};
    use tokio_util::sync::CancellationToken;

    const ROOT: Owner = Owner { uid: 0, gid: 0 };

    fn machine() -> Overlay {
        let host = Overlay::empty();
        for path in ["/etc", "/etc/init.d", "/etc/runlevels", "/etc/runlevels/boot", "/etc/runlevels/default"]
        {
            host.make_directory(path.as_ref(), 0o755, ROOT).unwrap();
        }
        for service in ["sshd", "chronyd"] {
            let file = NewFile { content: b"#!/sbin/openrc-run\n", mode: 0o755, owner: ROOT };
            host.put_file(&Path::new("/etc/init.d").join(service), &file).unwrap();
        }
        host.put_link("/etc/runlevels/default/sshd".as_ref(), "/etc/init.d/sshd".as_ref(), ROOT).unwrap();
        host
    }

    /// The words of Alpine 3.20.
    #[tokio::test]
    async fn a_service_is_what_rc_service_and_the_runlevels_say() {
        let host = machine();
        let processes = Scripted::new()
            .on("rc-service sshd status", exit(0, " * status: started\n", ""))
            .on("rc-service chronyd status", exit(32, " * status: crashed\n", ""));
        let cancel = CancellationToken::new();
        let asking = Asking { host: &host, query: Query::through(&processes), cancel: &cancel };
        let status = async |name| OpenRc.status(asking, name).await.unwrap();
        let sshd =
            ServiceStatus { running: true, enabled: Some(true), masked: false, detail: "started".into() };
        assert_eq!(status("sshd").await, Some(sshd));
        let chronyd =
            ServiceStatus { running: false, enabled: Some(false), masked: false, detail: "crashed".into() };
        assert_eq!(status("chronyd").await, Some(chronyd));
        assert_eq!(status("nginx").await, None);
        assert_eq!(OpenRc.all(asking).await.unwrap(), ["chronyd", "sshd"]);
    }

    #[test]
    fn an_exit_code_that_means_nothing_is_a_fault() {
        assert!(judge(&exit(1, "", "rc-service: service `x' does not exist\n")).is_err());
        assert_eq!(judge(&exit(3, " * status: stopped\n", "")).unwrap(), (false, "stopped"));
    }

    #[tokio::test]
    async fn enabling_is_for_rc_update() {
        let host = machine();
        let processes = Scripted::new().with(|_| Some(Ok(exit(0, "", ""))));
        let cancel = CancellationToken::new();
        let telling =
            Telling { host: &host, processes: &processes, cancel: &cancel, live: None, no_block: false };
        for act in [ServiceAct::Enable, ServiceAct::Disable, ServiceAct::Reload] {
            OpenRc.act(act, "sshd", &telling).await.unwrap();
        }
        let ran = ["rc-update add sshd default", "rc-update --all delete sshd", "rc-service sshd reload"];
        assert_eq!(processes.ran(), ran);
    }
}
