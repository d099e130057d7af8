//! Services of this machine, whoever manages them.
//!
//! [`manager`] says who that is: systemd, OpenRC, or the scripts of `/etc/init.d`. A check asks through [`Asking`], which can
//! start nothing but the named questions; whoever acts goes through [`Telling`].

mod openrc;
mod systemd;
mod sysv;

use crate::fault::{Fault, FaultKind};
use crate::files::{FileKind, HostRead, Meta};
use crate::process::{BoxFuture, Exit, Launch, OutputSink, Processes, Query};
use openrc::OpenRc;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use systemd::Systemd;
use sysv::Sysv;
use tokio_util::sync::CancellationToken;

/// How long a service may take to do what it is told.
const ACT_TIMEOUT: Duration = Duration::from_secs(300);
/// Links one behind the other.
const LINKS_MAX: usize = 16;
/// The longest name of a service.
const NAME_BYTES_MAX: usize = 255;
/// Where programs of the system are, for scripts that get no environment of ours.
pub(crate) const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How a service is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceStatus {
    pub running: bool,
    /// Whether it starts with the machine; none where that is not for anybody to decide.
    pub enabled: Option<bool>,
    /// Nothing and nobody can start it.
    pub masked: bool,
    /// The manager's own word for it.
    pub detail: String,
}

/// What a service can be told.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ServiceAct {
    Start,
    Stop,
    Restart,
    Reload,
    Enable,
    Disable,
    Mask,
    Unmask,
}

impl ServiceAct {
    /// The word that every service manager has for it.
    pub fn word(self) -> &'static str {
        match self {
            ServiceAct::Start => "start",
            ServiceAct::Stop => "stop",
            ServiceAct::Restart => "restart",
            ServiceAct::Reload => "reload",
            ServiceAct::Enable => "enable",
            ServiceAct::Disable => "disable",
            ServiceAct::Mask => "mask",
            ServiceAct::Unmask => "unmask",
        }
    }
}

/// What a question about services goes through.
#[derive(Copy, Clone)]
pub struct Asking<'a> {
    pub host: &'a dyn HostRead,
    pub query: Query<'a>,
    pub cancel: &'a CancellationToken,
}

/// What an order to a service goes through.
pub struct Telling<'a> {
    pub host: &'a dyn HostRead,
    pub processes: &'a dyn Processes,
    pub cancel: &'a CancellationToken,
    pub live: Option<OutputSink>,
    /// Not to wait until it is done, where the manager knows of that.
    pub no_block: bool,
}

impl<'a> Telling<'a> {
    /// For a question between two orders.
    pub fn asking(&self) -> Asking<'a> {
        Asking { host: self.host, query: Query::through(self.processes), cancel: self.cancel }
    }

    async fn run(&self, words: &[&str]) -> Result<(), Fault> {
        let mut launch = Launch::argv(words.iter().copied());
        launch.environment = vec![("LC_ALL".into(), "C".into())];
        launch.timeout = Some(ACT_TIMEOUT);
        let exit = self.processes.run(&launch, self.live.clone(), self.cancel).await?;
        match exit.code {
            _ if exit.canceled => Err(Fault::canceled().touched()),
            _ if exit.timed_out => {
                let message = format!("`{}` did not end in {ACT_TIMEOUT:?}", words.join(" "));
                Err(Fault::new(FaultKind::TimedOut, message).touched())
            }
            Some(0) => Ok(()),
            _ => Err(failed(&words.join(" "), &exit)),
        }
    }
}

/// Who starts and stops services on a machine.
pub trait ServiceManager: Send + Sync {
    /// `systemd`, `openrc`, `sysv`
    fn name(&self) -> &'static str;
    /// How a service is; none where there is no such service. That it cannot be said is a fault.
    fn status<'a>(
        &'a self,
        asking: Asking<'a>,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Option<ServiceStatus>, Fault>>;
    /// The names of all services, sorted.
    fn all<'a>(&'a self, asking: Asking<'a>) -> BoxFuture<'a, Result<Vec<String>, Fault>>;
    /// Tells a service what to do and waits until it is done.
    fn act<'a>(
        &'a self,
        act: ServiceAct,
        service: &'a str,
        telling: &'a Telling<'a>,
    ) -> BoxFuture<'a, Result<(), Fault>>;
}

/// Which manager to use, where somebody says so: its name, or a directory of init scripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    Systemd,
    OpenRc,
    Sysv,
    Scripts(PathBuf),
}

impl FromStr for Provider {
    type Err = String;

    fn from_str(text: &str) -> Result<Provider, String> {
        match text {
            "systemd" => Ok(Provider::Systemd),
            "openrc" => Ok(Provider::OpenRc),
            "sysv" => Ok(Provider::Sysv),
            path if path.starts_with('/') => Ok(Provider::Scripts(path.into())),
            other => Err(format!(
                "`{other}` is no service provider; write systemd, openrc, sysv or a directory of init scripts"
            )),
        }
    }
}

impl Provider {
    fn manager(&self) -> Arc<dyn ServiceManager> {
        match self {
            Provider::Systemd => Arc::new(Systemd),
            Provider::OpenRc => Arc::new(OpenRc),
            Provider::Sysv => Arc::new(Sysv::of_system()),
            Provider::Scripts(directory) => Arc::new(Sysv::of_scripts(directory.clone())),
        }
    }
}

/// What configuration says, for this whole process.
static CONFIGURED: OnceLock<Provider> = OnceLock::new();

/// Uses this manager from now on, whatever the machine looks like. The first word counts.
pub fn configure(provider: Provider) {
    let _the_first_counts = CONFIGURED.set(provider);
}

/// Who manages services here.
pub fn manager(host: &dyn HostRead) -> Result<Arc<dyn ServiceManager>, Fault> {
    match CONFIGURED.get() {
        Some(provider) => Ok(provider.manager()),
        None => Ok(detect(host)?.manager()),
    }
}

/// By what only the init that runs leaves behind; scripts can be used without one.
fn detect(host: &dyn HostRead) -> Result<Provider, Fault> {
    for (path, provider) in [
        ("/run/systemd/system", Provider::Systemd),
        ("/run/openrc", Provider::OpenRc),
        (sysv::SCRIPTS, Provider::Sysv),
    ] {
        if found(host, Path::new(path))?.is_some_and(|(_, meta)| meta.kind == FileKind::Directory) {
            return Ok(provider);
        }
    }
    let message = "no service manager runs here: neither systemd nor OpenRC, and there is no /etc/init.d";
    Err(Fault::new(FaultKind::Unsupported, message).hint("service_provider in the configuration names one"))
}

/// What a path leads to in the end, and where that is; none where nothing is. Also for whoever follows no links.
fn found(host: &dyn HostRead, path: &Path) -> Result<Option<(PathBuf, Meta)>, Fault> {
    let mut path = host.real_path(path)?;
    for _ in 0..LINKS_MAX {
        match host.stat(&path)? {
            Some(meta) if meta.kind == FileKind::Link => {
                let target = host.read_link(&path)?;
                let from = path.parent().map(Path::to_path_buf).unwrap_or_default();
                path = host.real_path(&from.join(target))?;
            }
            found => return Ok(found.map(|meta| (path, meta))),
        }
    }
    Err(Fault::new(FaultKind::Io, format!("there are too many links behind {}", path.display())))
}

/// The names in a directory, wherever that is; none where it is not there.
fn names(host: &dyn HostRead, directory: &Path) -> Result<Vec<OsString>, Fault> {
    match found(host, directory)? {
        Some((path, _)) => host.list(&path),
        None => Ok(Vec::new()),
    }
}

/// A name that can stand on a command line and in a path.
pub fn check_name(service: &str) -> Result<(), String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "@_.:-\\".contains(letter);
    let fits = service.len() <= NAME_BYTES_MAX
        && service.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
        && service.chars().all(plain);
    if fits { Ok(()) } else { Err(format!("`{service}` cannot name a service")) }
}

/// The answer of a manager that has no masks.
fn no_masks(manager: &dyn ServiceManager) -> Fault {
    let message = format!("{} cannot mask a service: only systemd can", manager.name());
    Fault::new(FaultKind::Unsupported, message)
        .hint("service.disabled keeps it from starting with the machine")
}

/// The sentence for a service that is not there.
pub fn no_such(service: &str, manager: &dyn ServiceManager) -> Fault {
    Fault::new(FaultKind::NotFound, format!("{} knows no service `{service}`", manager.name()))
}

fn failed(command: &str, exit: &Exit) -> Fault {
    exit.failure(&format!("`{command}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{HostWrite, Owner};
    use crate::overlay::Overlay;

    fn machine(directories: &[&str]) -> Overlay {
        let host = Overlay::empty();
        for directory in directories {
            for path in Path::new(directory).ancestors().collect::<Vec<_>>().into_iter().rev().skip(1) {
                if host.stat(path).unwrap().is_none() {
                    host.make_directory(path, 0o755, Owner { uid: 0, gid: 0 }).unwrap();
                }
            }
        }
        host
    }

    #[test]
    fn the_manager_is_the_one_that_runs() {
        for (directories, provider) in [
            (&["/run/systemd/system", "/etc/init.d"][..], Provider::Systemd),
            (&["/run/openrc", "/etc/init.d"], Provider::OpenRc),
            (&["/etc/init.d"], Provider::Sysv),
        ] {
            assert_eq!(detect(&machine(directories)).unwrap(), provider);
        }
        let none = detect(&machine(&["/run"])).unwrap_err();
        assert_eq!(none.kind, FaultKind::Unsupported);
        assert!(none.message.starts_with("no service manager runs here: "), "{none}");
    }

    #[test]
    fn a_provider_is_named_or_is_a_directory() {
        assert_eq!("openrc".parse(), Ok(Provider::OpenRc));
        assert_eq!("/srv/init".parse(), Ok(Provider::Scripts("/srv/init".into())));
        assert!("upstart".parse::<Provider>().unwrap_err().contains("write systemd, openrc"));
    }

    #[test]
    fn no_name_of_a_service_is_an_option_or_a_path() {
        for good in ["nginx", "getty@tty1.service", "dbus-org.freedesktop.login1", "dev-sda\\x2d1.swap"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", "-f", "../x", "a b", "a;b", ".hidden", "x/y", "a\nb", &"x".repeat(300)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
