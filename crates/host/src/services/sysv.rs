//! Services as scripts in `/etc/init.d`, as LSB describes them: `SCRIPT start|stop|restart|reload|status`.
//!
//! A script gets an environment of its own, as `service` gives it one: what it starts must not depend on who asked.

use super::{
    Asking, SYSTEM_PATH, ServiceAct, ServiceManager, ServiceStatus, Telling, failed, found, names, no_masks,
};
use crate::fault::{Fault, FaultKind};
use crate::files::{FileKind, HostRead};
use crate::process::{BoxFuture, Exit, Question};
use std::path::{Path, PathBuf};

pub(super) const SCRIPTS: &str = "/etc/init.d";
/// The runlevels of a machine that is up.
const LEVELS: [&str; 4] = ["/etc/rc2.d", "/etc/rc3.d", "/etc/rc4.d", "/etc/rc5.d"];
/// Who changes which scripts start with the machine, where it is.
const UPDATE_RC: &str = "/usr/sbin/update-rc.d";
const CHKCONFIG: &str = "/sbin/chkconfig";

pub(super) struct Sysv {
    scripts: PathBuf,
    /// They are the scripts of the machine, which may start with it.
    of_system: bool,
}

impl Sysv {
    pub(super) fn of_system() -> Sysv {
        Sysv { scripts: SCRIPTS.into(), of_system: true }
    }

    pub(super) fn of_scripts(scripts: PathBuf) -> Sysv {
        Sysv { scripts, of_system: false }
    }

    fn script(&self, service: &str) -> PathBuf {
        self.scripts.join(service)
    }

    async fn switch(&self, on: bool, service: &str, telling: &Telling<'_>) -> Result<(), Fault> {
        let is_there = |path: &str| Ok::<_, Fault>(found(telling.host, Path::new(path))?.is_some());
        if !self.of_system {
            let message = format!("what is in {} does not start with the machine", self.scripts.display());
            return Err(Fault::new(FaultKind::Unsupported, message).hint("leave out `enable`"));
        }
        if is_there(UPDATE_RC)? {
            if on {
                telling.run(&[UPDATE_RC, service, "defaults"]).await?;
            }
            return telling.run(&[UPDATE_RC, service, if on { "enable" } else { "disable" }]).await;
        }
        if is_there(CHKCONFIG)? {
            return telling.run(&[CHKCONFIG, service, if on { "on" } else { "off" }]).await;
        }
        let message =
            format!("`{service}` cannot be enabled here: there is neither update-rc.d nor chkconfig");
        Err(Fault::new(FaultKind::Unsupported, message))
    }
}

impl ServiceManager for Sysv {
    fn name(&self) -> &'static str {
        "sysv"
    }

    fn status<'a>(
        &'a self,
        asking: Asking<'a>,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<ServiceStatus>, Fault>> {
        Box::pin(async move {
            let script = self.script(service);
            if !is_script(asking.host, &script)? {
                return Ok(None);
            }
            let question = Question::InitScript { script: &script };
            let exit = asking.query.ask(question, asking.cancel).await?;
            let (running, detail) = judge(&script, &exit)?;
            let enabled = if self.of_system { Some(starts(asking.host, service)?) } else { None };
            Ok(Some(ServiceStatus { running, enabled, masked: false, detail: detail.into() }))
        })
    }

    fn all<'a>(&'a self, asking: Asking<'a>) -> BoxFuture<'a, Result<Vec<String>, Fault>> {
        Box::pin(async move { scripts(asking.host, &self.scripts) })
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
                ServiceAct::Enable => self.switch(true, service, telling).await,
                ServiceAct::Disable => self.switch(false, service, telling).await,
                other => {
                    let script = self.script(service).display().to_string();
                    let path = format!("PATH={SYSTEM_PATH}");
                    telling.run(&["env", "-i", &path, "TERM=dumb", &script, other.word()]).await
                }
            }
        })
    }
}

/// A file that can be executed.
pub(super) fn is_script(host: &dyn HostRead, path: &Path) -> Result<bool, Fault> {
    let found = found(host, path)?;
    Ok(found.is_some_and(|(_, meta)| meta.kind == FileKind::File && meta.mode & 0o111 != 0))
}

/// The names of all scripts in a directory.
pub(super) fn scripts(host: &dyn HostRead, directory: &Path) -> Result<Vec<String>, Fault> {
    let mut scripts = Vec::new();
    for name in names(host, directory)? {
        let shown = name.to_string_lossy().into_owned();
        if super::check_name(&shown).is_ok() && is_script(host, &directory.join(&name))? {
            scripts.push(shown);
        }
    }
    Ok(scripts)
}

/// Whether a link like `S01nginx` starts it in a runlevel of a machine that is up.
fn starts(host: &dyn HostRead, service: &str) -> Result<bool, Fault> {
    for level in LEVELS {
        let links = names(host, Path::new(level))?;
        let starts = |link: &str| {
            let numbered = link.strip_prefix('S').and_then(|rest| rest.strip_suffix(service));
            numbered.is_some_and(|number| number.len() == 2 && number.bytes().all(|c| c.is_ascii_digit()))
        };
        if links.iter().any(|link| link.to_str().is_some_and(starts)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What `SCRIPT status` means by its exit code (LSB). A script that does not know the word says how it is used.
fn judge(script: &Path, exit: &Exit) -> Result<(bool, &'static str), Fault> {
    let told = format!("{}\n{}", exit.stdout.text, exit.stderr.text).to_lowercase();
    if exit.code != Some(0) && told.contains("usage:") {
        let message = format!("{} does not tell its status", script.display());
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    match exit.code {
        Some(0) => Ok((true, "running")),
        Some(1 | 2) => Ok((false, "dead, and its pid or lock file is still there")),
        Some(3) => Ok((false, "not running")),
        _ => Err(failed(&format!("{} status", script.display()), exit)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{HostWrite, Owner};
    use crate::overlay::Overlay;
    use crate::process::fake::exit;

    #[test]
    fn the_status_of_a_script_is_its_exit_code() {
        let script = Path::new("/etc/init.d/x");
        assert!(judge(script, &exit(0, "x is running.\n", "")).unwrap().0);
        for code in [1, 2, 3] {
            assert!(!judge(script, &exit(code, "x is not running ... failed!\n", "")).unwrap().0);
        }
        assert!(judge(script, &exit(4, "", "")).is_err(), "unknown is not stopped");
        let usage = judge(script, &exit(3, "Usage: /etc/init.d/x {start|stop}\n", "")).unwrap_err();
        assert_eq!(usage.message, "/etc/init.d/x does not tell its status");
    }

    #[test]
    fn a_link_with_its_number_starts_a_service_and_that_of_another_does_not() {
        let (host, root) = (Overlay::empty(), Owner { uid: 0, gid: 0 });
        host.make_directory("/etc".as_ref(), 0o755, root).unwrap();
        host.make_directory("/etc/rc3.d".as_ref(), 0o755, root).unwrap();
        for link in ["S01cron", "K01nginx", "S02my-dbus"] {
            host.put_link(&Path::new("/etc/rc3.d").join(link), "../init.d/x".as_ref(), root).unwrap();
        }
        for (service, enabled) in [("cron", true), ("nginx", false), ("dbus", false), ("my-dbus", true)] {
            assert_eq!(starts(&host, service).unwrap(), enabled, "{service}");
        }
    }
}
