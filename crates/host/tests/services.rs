//! A service manager of init scripts that starts and stops a real process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::real::Real;
use zester_host::services::{Asking, Provider, ServiceAct, ServiceManager, ServiceStatus, Telling, manager};
use zester_host::{FaultKind, Query, services};

/// A script as Debian's skeleton has them: the process is known by its pid file.
const SCRIPT: &str = r#"#!/bin/sh
pid_file="$(dirname "$0")/worker.pid"
alive() { [ -f "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null; }
stop() { alive && kill "$(cat "$pid_file")"; while alive; do sleep 0.01; done; rm -f "$pid_file"; }
start() { alive || { sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >"$pid_file"; env >"$pid_file.env"; }; }
case "$1" in
  start) start ;;
  stop) stop ;;
  restart) stop; start ;;
  reload) alive && touch "$pid_file.reloaded" ;;
  status) alive && exit 0; [ -f "$pid_file" ] && exit 1; exit 3 ;;
  *) echo "Usage: $0 {start|stop|restart|reload|status}"; exit 2 ;;
esac
"#;

fn script(directory: &Path, name: &str, text: &str) {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

struct Machine {
    directory: tempfile::TempDir,
    host: Real,
    runner: Runner,
    cancel: CancellationToken,
}

impl Machine {
    fn asking(&self) -> Asking<'_> {
        Asking { host: &self.host, query: Query::through(&self.runner), cancel: &self.cancel }
    }

    async fn status(&self, manager: &dyn ServiceManager) -> Option<ServiceStatus> {
        manager.status(self.asking(), "worker").await.unwrap()
    }

    async fn act(&self, manager: &dyn ServiceManager, act: ServiceAct) -> Result<(), zester_host::Fault> {
        let telling = Telling {
            host: &self.host,
            processes: &self.runner,
            cancel: &self.cancel,
            live: None,
            no_block: false,
        };
        manager.act(act, "worker", &telling).await
    }

    fn pid(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("worker.pid")).unwrap()
    }
}

/// One test, because the provider is configured once a process.
#[tokio::test]
async fn init_scripts_manage_a_real_process() {
    let directory = tempfile::tempdir().unwrap();
    script(directory.path(), "worker", SCRIPT);
    script(directory.path(), "silent", "#!/bin/sh\necho \"Usage: $0 {start|stop}\" >&2\nexit 3\n");
    std::fs::write(directory.path().join("README"), "no script").unwrap();
    services::configure(Provider::Scripts(directory.path().into()));
    let machine =
        Machine { directory, host: Real::new(), runner: Runner::new(), cancel: CancellationToken::new() };
    let manager = manager(&machine.host).unwrap();
    let manager = manager.as_ref();

    assert_eq!(manager.all(machine.asking()).await.unwrap(), ["silent", "worker"]);
    let stopped =
        ServiceStatus { running: false, enabled: None, masked: false, detail: "not running".into() };
    assert_eq!(machine.status(manager).await, Some(stopped.clone()));
    machine.act(manager, ServiceAct::Start).await.unwrap();
    assert!(machine.status(manager).await.unwrap().running);
    let environment = std::fs::read_to_string(machine.directory.path().join("worker.pid.env")).unwrap();
    assert!(!environment.contains("ZESTER_EXEC"), "a service is no command of ours: {environment}");
    let first = machine.pid();
    machine.act(manager, ServiceAct::Reload).await.unwrap();
    assert_eq!(machine.pid(), first);
    assert!(machine.directory.path().join("worker.pid.reloaded").exists());
    machine.act(manager, ServiceAct::Restart).await.unwrap();
    assert_ne!(machine.pid(), first);
    machine.act(manager, ServiceAct::Stop).await.unwrap();
    assert_eq!(machine.status(manager).await, Some(stopped));

    assert_eq!(manager.status(machine.asking(), "absent").await.unwrap(), None);
    assert_eq!(manager.status(machine.asking(), "README").await.unwrap(), None);
    let silent = manager.status(machine.asking(), "silent").await.unwrap_err();
    assert_eq!(silent.kind, FaultKind::Unsupported);
    let failed = machine.act(manager, ServiceAct::Reload).await.unwrap_err();
    assert!(failed.message.contains("worker reload` failed with exit code 1"), "{failed}");
    let enabled = machine.act(manager, ServiceAct::Enable).await.unwrap_err();
    assert!(enabled.message.contains("does not start with the machine"), "{enabled}");
}
