//! Who installs packages on a machine: one file a manager, chosen by what the machine is.
//!
//! A manager is words and their answers: what to say to plan or to make a transaction, and what its output means. Starting
//! it, waiting for it and never cutting it (S-32) is for [`super::session`] alone.

use super::apk::Apk;
use super::apt::Apt;
use super::dnf::Dnf;
use super::installed_packages::Installed;
use super::pacman::Pacman;
use super::version::Order;
use super::wanted::Wanted;
use super::wish::Options;
use super::zypper::Zypper;
use crate::state::Read;
use crate::tree;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zester_host::process::read_tools::ReadTool;
use zester_host::{BoxFuture, Exit, Fault, FaultKind, HostRead};
use zester_model::limits::FILE_BYTES_MAX;

/// One line of what a transaction is going to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

/// One transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) install: Vec<Wanted>,
    /// Installed, and the newest there is.
    pub(crate) latest: Vec<String>,
    /// Everything that is installed; whether others may come or go for it.
    pub(crate) everything: Option<bool>,
    pub(crate) remove: Vec<String>,
    pub(crate) purge: Vec<String>,
    pub(crate) options: Options,
}

/// One call of a manager: how to ask what it would do, and how to have it done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) tool: ReadTool,
    pub(crate) question: Vec<String>,
    pub(crate) act: Vec<String>,
}

/// Why a manager will not do it.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// `NotFound` for what it does not know, which may come with other package lists.
    pub(crate) fault: Fault,
    /// The packages that it names.
    pub(crate) names: Vec<String>,
}

impl Refusal {
    pub(crate) fn of(fault: Fault) -> Refusal {
        Refusal { fault, names: Vec::new() }
    }
}

/// What a check may ask.
pub(crate) type Versions = BTreeMap<String, Vec<String>>;

/// Who installs packages.
pub(crate) trait PackageManager: Send + Sync {
    /// `apt`, `dnf`, `apk`, `pacman`, `zypper`
    fn name(&self) -> &'static str;

    fn order(&self) -> Order;

    /// Everything that is installed.
    fn installed<'a>(&'a self, cx: Read<'a>) -> BoxFuture<'a, Result<Installed, Fault>>;

    /// The calls that make up a transaction; one, wherever the manager can say all in one.
    fn calls(&self, job: &Job, now: &Installed) -> Result<Vec<Call>, Fault>;

    /// What an answer to the question of a call means.
    fn read_plan(&self, call: &Call, exit: &Exit, now: &Installed) -> Result<Vec<Planned>, Refusal>;

    /// Why a call failed.
    fn refusal(&self, exit: &Exit) -> Refusal;

    /// How it fetches what it knows of packages.
    fn refresh(&self) -> Vec<String>;

    /// Whether it knows of any packages at all.
    fn has_lists(&self, _host: &dyn HostRead) -> Result<bool, Fault> {
        Ok(true)
    }

    /// Whether somebody named a repository here whose packages were never fetched: what there is, is not known in full.
    fn lacks_lists(&self, _host: &dyn HostRead) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Whether a failure may be gone once the lists were fetched anew.
    fn is_stale(&self, fault: &Fault) -> bool;

    /// How packages are held in their version, or no longer; none where it cannot be done.
    fn hold(&self, _names: &[String], _on: bool) -> Option<Vec<String>> {
        None
    }

    /// Whether it refuses because an earlier transaction was cut.
    fn is_interrupted(&self, _fault: &Fault) -> bool {
        false
    }

    /// What is to be done first, because an earlier transaction was cut.
    fn repair(&self, _host: &dyn HostRead) -> Result<Option<Vec<String>>, Fault> {
        Ok(None)
    }

    /// The versions that can be had, newest first, of a manager that takes no comparisons itself.
    fn available<'a>(
        &'a self,
        _names: &'a [String],
        _cx: Read<'a>,
    ) -> BoxFuture<'a, Result<Option<Versions>, Fault>> {
        Box::pin(async { Ok(None) })
    }

    /// What its processes find in their environment.
    fn environment(&self) -> Vec<(String, String)> {
        vec![("LC_ALL".into(), "C".into())]
    }
}

/// By what the system calls itself, then by what lies there.
const FAMILIES: [(&str, &str); 13] = [
    ("debian", "apt"),
    ("ubuntu", "apt"),
    ("fedora", "dnf"),
    ("rhel", "dnf"),
    ("centos", "dnf"),
    ("rocky", "dnf"),
    ("almalinux", "dnf"),
    ("amzn", "dnf"),
    ("suse", "zypper"),
    ("opensuse", "zypper"),
    ("sles", "zypper"),
    ("arch", "pacman"),
    ("alpine", "apk"),
];
const TRACES: [(&str, &str); 5] = [
    ("/var/lib/dpkg/status", "apt"),
    ("/lib/apk/db/installed", "apk"),
    ("/var/lib/pacman/local", "pacman"),
    ("/usr/bin/zypper", "zypper"),
    ("/usr/bin/dnf", "dnf"),
];

/// Who manages packages here.
pub(crate) fn manager(host: &dyn HostRead) -> Result<Arc<dyn PackageManager>, Fault> {
    let named = match by_system(host)? {
        Some(name) => Some(name),
        None => by_traces(host)?,
    };
    Ok(match named {
        Some("apt") => Arc::new(Apt),
        Some("dnf") => Arc::new(Dnf),
        Some("zypper") => Arc::new(Zypper),
        Some("pacman") => Arc::new(Pacman),
        Some("apk") => Arc::new(Apk),
        _ => {
            let message =
                "packages cannot be managed here: there is neither apt, dnf, zypper, pacman nor apk";
            return Err(Fault::new(FaultKind::Unsupported, message)
                .hint("a machine without packages can be managed by files and commands"));
        }
    })
}

fn by_system(host: &dyn HostRead) -> Result<Option<&'static str>, Fault> {
    for path in ["/etc/os-release", "/usr/lib/os-release"] {
        if let Some(text) = read_text(host, path)? {
            return Ok(system_of(&text));
        }
    }
    Ok(None)
}

/// A text of the system, wherever links lead; none where there is no such file. Names of maintainers may be written in
/// whatever way.
pub(super) fn read_text(host: &dyn HostRead, path: &str) -> Result<Option<String>, Fault> {
    let real = tree::behind_links(host, &tree::resolve_again(host, Path::new(path))?)?;
    if host.stat(&real)?.is_none() {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&host.read(&real, FILE_BYTES_MAX)?).into_owned()))
}

fn system_of(os_release: &str) -> Option<&'static str> {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches(['"', '\'']).to_string())
    };
    let names = [value("ID"), value("ID_LIKE")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    names.split_whitespace().find_map(|name| {
        let family = name.split('-').next().unwrap_or(name);
        FAMILIES.iter().find(|(known, _)| *known == name || *known == family).map(|(_, manager)| *manager)
    })
}

fn by_traces(host: &dyn HostRead) -> Result<Option<&'static str>, Fault> {
    for (path, name) in TRACES {
        if host.stat(&host.real_path(Path::new(path))?)?.is_some() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Managers may be asked by anybody, and act for root alone.
pub(crate) fn may_act(host: &dyn HostRead) -> Result<(), Fault> {
    if host.me().uid == 0 {
        return Ok(());
    }
    Err(Fault::new(FaultKind::Denied, "only root can change what is installed").hint("run it as root"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_host::overlay::Overlay;

    #[test]
    fn the_manager_follows_from_what_the_system_calls_itself() {
        for (text, manager) in [
            ("ID=debian\n", "apt"),
            ("NAME=x\nID=ubuntu\nID_LIKE=debian\n", "apt"),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "apt"),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "dnf"),
            ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "zypper"),
            ("ID=arch\n", "pacman"),
            ("ID=alpine\n", "apk"),
        ] {
            assert_eq!(system_of(text), Some(manager), "{text}");
        }
        assert_eq!(system_of("ID=plan9\n"), None);
    }

    #[test]
    fn where_there_is_none_that_is_said() {
        let fault = manager(&Overlay::empty()).err().unwrap();
        assert_eq!(fault.kind, FaultKind::Unsupported);
        assert!(fault.message.starts_with("packages cannot be managed here"), "{fault}");
    }
}
