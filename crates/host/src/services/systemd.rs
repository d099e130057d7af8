//! Services of systemd, through `systemctl`.

use super::{Asking, ServiceAct, ServiceManager, ServiceStatus, Telling, failed, found};
use crate::fault::{Fault, FaultKind};
use crate::files::HostRead;
use crate::process::{BoxFuture, Question};
use std::path::Path;

/// Where unit files of the administrator are.
const UNIT_FILES: &str = "/etc/systemd/system";

pub(super) struct Systemd;

impl ServiceManager for Systemd {
    fn name(&self) -> &'static str {
        "systemd"
    }

    fn status<'a>(
        &'a self,
        asking: Asking<'a>,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<ServiceStatus>, Fault>> {
        Box::pin(async move {
            let status = parse_show(&show(asking, service).await?)?;
            if status.is_none() && is_unit_file(asking.host, service)? {
                // Written a moment ago, or only in a dry run.
                let detail = "not loaded yet".to_string();
                return Ok(Some(ServiceStatus {
                    running: false,
                    enabled: Some(false),
                    masked: false,
                    detail,
                }));
            }
            Ok(status)
        })
    }

    fn all<'a>(&'a self, asking: Asking<'a>) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        Box::pin(async move {
            let exit = asking.query.ask(Question::UnitFiles, asking.cancel).await?;
            match exit.code {
                Some(0) => Ok(parse_unit_files(&exit.stdout.text)),
                _ => Err(failed("systemctl list-unit-files", &exit)),
            }
        })
    }

    fn act<'a>(
        &'a self,
        act: ServiceAct,
        service: &'a str,
        telling: &'a Telling<'a>,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            // A unit file that was changed since systemd read it: what follows would go by the old one.
            let shown = show(telling.asking(), service).await?;
            if value(&shown, "NeedDaemonReload") == "yes" {
                telling.run(&["systemctl", "--no-ask-password", "daemon-reload"]).await?;
            }
            let starts = matches!(
                act,
                ServiceAct::Start | ServiceAct::Stop | ServiceAct::Restart | ServiceAct::Reload
            );
            let at_once = !starts || !telling.no_block;
            let words = ["systemctl", "--no-block", "--no-ask-password", act.word(), service];
            match at_once {
                true => telling.run(&[&words[..1], &words[2..]].concat()).await,
                false => telling.run(&words).await,
            }
        })
    }
}

async fn show(asking: Asking<'_>, service: &str) -> Result<String, Fault> {
    let exit = asking.query.ask(Question::Unit { name: service }, asking.cancel).await?;
    match exit.code {
        Some(0) => Ok(exit.stdout.text),
        _ => Err(failed("systemctl show", &exit)),
    }
}

/// Whether the administrator has a file for it.
fn is_unit_file(host: &dyn HostRead, service: &str) -> Result<bool, Fault> {
    let name = if service.ends_with(".service") { service.to_string() } else { format!("{service}.service") };
    Ok(found(host, &Path::new(UNIT_FILES).join(name))?.is_some())
}

/// `systemctl show`: one `Key=value` a line.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap_or_default()
}

fn parse_show(text: &str) -> Result<Option<ServiceStatus>, Fault> {
    let value = |key: &str| value(text, key);
    let (load, active, sub, file) =
        (value("LoadState"), value("ActiveState"), value("SubState"), value("UnitFileState"));
    if load == "not-found" {
        return Ok(None);
    }
    if active.is_empty() {
        let message = "systemctl show did not say how the service is";
        return Err(Fault::new(FaultKind::CommandFailed, message));
    }
    let enabled = match file {
        "enabled" | "enabled-runtime" => Some(true),
        "disabled" => Some(false),
        // Nothing to enable: it has no [Install] section, was made by a generator, or is masked.
        _ => None,
    };
    let masked = if load == "masked" { ", masked" } else { "" };
    let fixed = if enabled.is_none() && !file.is_empty() && masked.is_empty() { file } else { "" };
    let fixed = if fixed.is_empty() { String::new() } else { format!(", {fixed}") };
    Ok(Some(ServiceStatus {
        running: matches!(active, "active" | "reloading" | "refreshing"),
        enabled,
        masked: load == "masked",
        detail: format!("{active} ({sub}){masked}{fixed}"),
    }))
}

/// `nginx.service enabled enabled`, one a line.
fn parse_unit_files(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.split_whitespace().next()?.strip_suffix(".service"));
    let mut names: Vec<String> = names.filter(|name| !name.ends_with('@')).map(str::to_string).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{HostWrite, NewFile, Owner};
    use crate::overlay::Overlay;
    use crate::process::Query;
    use crate::process::fake::{Scripted, command_line, exit};
    use tokio_util::sync::CancellationToken;
    use zester_rule::rule;

    /// As systemd 252 of Debian 12 prints it, in its own order.
    fn show(load: &str, active: &str, sub: &str, file: &str) -> String {
        format!(
            "Id=nginx.service\nLoadState={load}\nActiveState={active}\nSubState={sub}\nUnitFileState={file}\n"
        )
    }

    #[test]
    fn what_systemctl_shows_is_read() {
        for (load, active, sub, file, running, enabled, detail) in [
            ("loaded", "active", "running", "enabled", true, Some(true), "active (running)"),
            ("loaded", "active", "exited", "static", true, None, "active (exited), static"),
            ("loaded", "inactive", "dead", "disabled", false, Some(false), "inactive (dead)"),
            ("loaded", "failed", "failed", "enabled", false, Some(true), "failed (failed)"),
            ("loaded", "reloading", "reload", "enabled", true, Some(true), "reloading (reload)"),
            (
                "loaded",
                "activating",
                "auto-restart",
                "enabled",
                false,
                Some(true),
                "activating (auto-restart)",
            ),
            (
                "loaded",
                "deactivating",
                "stop-sigterm",
                "enabled",
                false,
                Some(true),
                "deactivating (stop-sigterm)",
            ),
            ("loaded", "active", "running", "enabled-runtime", true, Some(true), "active (running)"),
            ("loaded", "active", "running", "generated", true, None, "active (running), generated"),
            ("masked", "inactive", "dead", "masked", false, None, "inactive (dead), masked"),
            ("loaded", "active", "running", "", true, None, "active (running)"),
        ] {
            let status = parse_show(&show(load, active, sub, file)).unwrap().unwrap();
            assert_eq!(
                status,
                ServiceStatus { running, enabled, masked: load == "masked", detail: detail.into() }
            );
        }
        assert_eq!(parse_show(&show("not-found", "inactive", "dead", "")).unwrap(), None);
    }

    #[tokio::test]
    async fn a_unit_file_that_was_changed_is_read_again_before_anything_is_done() {
        let processes = Scripted::new().with(|launch| {
            let line = command_line(launch);
            let reload = if line.ends_with("old") { "yes" } else { "no" };
            Some(Ok(exit(0, &format!("LoadState=loaded\nNeedDaemonReload={reload}\n"), "")))
        });
        let (host, cancel) = (Overlay::empty(), CancellationToken::new());
        let telling =
            Telling { host: &host, processes: &processes, cancel: &cancel, live: None, no_block: false };
        Systemd.act(ServiceAct::Restart, "old", &telling).await.unwrap();
        Systemd.act(ServiceAct::Restart, "new", &Telling { no_block: true, ..telling }).await.unwrap();
        let orders: Vec<String> =
            processes.ran().into_iter().filter(|line| !line.contains(" show ")).collect();
        let wanted = [
            "systemctl --no-ask-password daemon-reload",
            "systemctl --no-ask-password restart old",
            "systemctl --no-block --no-ask-password restart new",
        ];
        assert_eq!(orders, wanted);
    }

    #[tokio::test]
    #[rule("S-30")]
    async fn s30_a_unit_file_that_an_earlier_state_would_write_is_a_service() {
        let processes =
            Scripted::new().on("systemctl show", exit(0, &show("not-found", "inactive", "dead", ""), ""));
        let (host, cancel, root) = (Overlay::empty(), CancellationToken::new(), Owner { uid: 0, gid: 0 });
        for path in ["/etc", "/etc/systemd", UNIT_FILES] {
            host.make_directory(path.as_ref(), 0o755, root).unwrap();
        }
        let asking = Asking { host: &host, query: Query::through(&processes), cancel: &cancel };
        assert_eq!(Systemd.status(asking, "app").await.unwrap(), None);
        let file = NewFile { content: b"[Service]", mode: 0o644, owner: root };
        host.put_file("/etc/systemd/system/app.service".as_ref(), &file).unwrap();
        let status = Systemd.status(asking, "app").await.unwrap().unwrap();
        assert_eq!((status.running, status.enabled), (false, Some(false)));
    }

    #[test]
    fn an_answer_that_says_nothing_is_no_service_that_is_down() {
        assert!(parse_show("").is_err());
        assert!(parse_show("Failed to connect to bus\n").is_err());
    }

    /// The real systemctl on a root directory, where no systemd runs: only what it tells of a unit is recorded.
    struct OnRoot {
        root: tempfile::TempDir,
        runner: crate::process::Runner,
    }

    impl crate::process::Processes for OnRoot {
        fn run<'a>(
            &'a self,
            launch: &'a crate::process::Launch,
            live: Option<crate::process::OutputSink>,
            cancel: &'a CancellationToken,
        ) -> BoxFuture<'a, Result<crate::process::Exit, Fault>> {
            let mut launch = launch.clone();
            if command_line(&launch).contains(" show ") {
                let told = exit(0, &show("loaded", "inactive", "dead", "disabled"), "");
                return Box::pin(std::future::ready(Ok(told)));
            }
            if let crate::process::Program::Argv(words) = &mut launch.program {
                words.insert(1, format!("--root={}", self.root.path().display()));
            }
            Box::pin(async move { self.runner.run(&launch, live, cancel).await })
        }
    }

    #[tokio::test]
    async fn the_real_systemctl_enables_and_masks() {
        if !Path::new("/usr/bin/systemctl").exists() {
            zester_testkit::skip!("needs systemctl");
        }
        let processes = OnRoot { root: tempfile::tempdir().unwrap(), runner: crate::process::Runner::new() };
        let at = |name: &str| processes.root.path().join(name);
        for name in ["etc/systemd/system", "usr/lib/systemd/system"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let unit = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";
        std::fs::write(at("usr/lib/systemd/system/zester-test.service"), unit).unwrap();
        let (host, cancel) = (Overlay::empty(), CancellationToken::new());
        let telling =
            Telling { host: &host, processes: &processes, cancel: &cancel, live: None, no_block: true };
        let wanted = at("etc/systemd/system/multi-user.target.wants/zester-test.service");
        let mask = at("etc/systemd/system/zester-test.service");
        let tell = async |act| Systemd.act(act, "zester-test", &telling).await.unwrap();
        tell(ServiceAct::Enable).await;
        assert!(wanted.symlink_metadata().is_ok());
        tell(ServiceAct::Disable).await;
        assert!(wanted.symlink_metadata().is_err());
        tell(ServiceAct::Mask).await;
        assert_eq!(std::fs::read_link(&mask).unwrap(), Path::new("/dev/null"));
        tell(ServiceAct::Unmask).await;
        assert!(mask.symlink_metadata().is_err());
    }

    #[test]
    fn unit_files_are_services_by_their_names() {
        let text = "nginx.service      enabled enabled\ngetty@.service     enabled enabled\n\
                    cron.service       enabled enabled\nssh.socket         disabled enabled\n";
        assert_eq!(parse_unit_files(text), ["cron", "nginx"]);
    }
}
