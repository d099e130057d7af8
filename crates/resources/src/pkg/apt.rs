//! Packages of Debian and its children, through `dpkg-query` and `apt-get`.
//!
//! A transaction is never signalled: cutting `dpkg` leaves a broken machine (S-32). One `apt-get` runs at a
//! time in this process, and waits for the lock of others. One that was cut by a crash is repaired before
//! anything else.

use crate::context::Applying;
use crate::pkg::installed_packages::{self, Installed};
use serde::Serialize;
use std::path::Path;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use zester_host::{Exit, Fault, FaultKind, HostRead, Launch, Query, Question};
use zester_model::limits::FILE_BYTES_MAX;
use zester_model::outcome::Details;

const FORMAT: &str = "${db:Status-Abbrev}\\t${Package}\\t${Architecture}\\t${Version}\\n";
/// How long to wait for another package manager to let go of the lock.
const LOCK_WAIT: &str = "DPkg::Lock::Timeout=600";
/// Where apt keeps what it knows of packages; without any it knows nothing, as in a fresh container.
const LISTS: &str = "/var/lib/apt/lists";
/// What dpkg knows to be installed.
const DPKG_STATUS: &str = "/var/lib/dpkg/status";
/// Where an interrupted dpkg leaves its unfinished work.
const UPDATES: &str = "/var/lib/dpkg/updates";

/// Two of them would only wait for each other's lock, and report what the other did as their own.
static APT_LOCK: Mutex<()> = Mutex::const_new(());

/// One line of what apt is going to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) old: Option<String>,
    pub(crate) new: Option<String>,
}

fn quiet(words: Vec<String>) -> Launch {
    let mut launch = Launch::argv(words);
    launch.environment = vec![
        ("DEBIAN_FRONTEND".into(), "noninteractive".into()),
        ("APT_LISTCHANGES_FRONTEND".into(), "none".into()),
        ("NEEDRESTART_MODE".into(), "l".into()),
        ("LC_ALL".into(), "C".into()),
    ];
    launch
}

/// What follows `apt-get`: the same words for the plan and for the act.
fn apt_words(options: &[&str], verb: &str, words: &[String]) -> Vec<String> {
    let fixed = ["-y", "-q", "-o", LOCK_WAIT, "-o", "Dpkg::Options::=--force-confdef"];
    let more = ["-o", "Dpkg::Options::=--force-confold"];
    let options = fixed.iter().chain(&more).chain(options).map(ToString::to_string);
    options.chain([verb.to_string()]).chain(words.iter().cloned()).collect()
}

fn apt_get(options: &[&str], verb: &str, words: &[String]) -> Launch {
    quiet(std::iter::once("apt-get".to_string()).chain(apt_words(options, verb, words)).collect())
}

/// What is installed of the given names, in every architecture.
pub(crate) async fn installed(
    query: Query<'_>,
    names: &[String],
    cancel: &CancellationToken,
) -> Result<Installed, Fault> {
    let names: Vec<String> = names.iter().cloned().chain([installed_packages::NATIVE.to_string()]).collect();
    let question = Question::Packages { format: FORMAT, names: &names };
    let exit = query.ask(question, cancel).await.map_err(no_apt)?;
    // It exits with 1 when one of the names is unknown, which is an answer too.
    match exit.code {
        Some(0 | 1) => Ok(installed_packages::parse_dpkg_query(&exit.stdout.text)),
        _ => Err(exit.failure("dpkg-query")),
    }
}

/// Everything that is installed, from dpkg's own book.
fn all_installed(host: &dyn HostRead) -> Result<Installed, Fault> {
    let installed_packages = host.read(&host.real_path(Path::new(DPKG_STATUS))?, FILE_BYTES_MAX)?;
    Ok(installed_packages::parse_dpkg_status(&String::from_utf8_lossy(&installed_packages)))
}

/// What apt would do, without doing it. Its refusal is a fault: `NotFound` for what it does not know, which may
/// come with other package lists, and with the names of all that would have to go.
pub(crate) async fn simulate(
    query: Query<'_>,
    options: &[&str],
    verb: &str,
    words: &[String],
    cancel: &CancellationToken,
) -> Result<Vec<Planned>, Fault> {
    let words = apt_words(options, verb, words);
    let exit = query.ask(Question::Plan { words: &words }, cancel).await.map_err(no_apt)?;
    match exit.code {
        Some(0) => Ok(parse_plan(&exit.stdout.text)),
        _ => Err(refused(&exit)),
    }
}

/// Why apt will not do it, in its own words.
fn refused(exit: &Exit) -> Fault {
    let reasons = exit.stderr.text.lines().filter_map(|line| line.strip_prefix("E: "));
    let reasons: Vec<&str> = reasons.map(|reason| reason.trim_end().trim_end_matches('.')).collect();
    let going = parse_removed(&exit.stdout.text);
    let mut message = match reasons.is_empty() {
        true => return exit.failure("apt-get"),
        false => format!("apt refuses: {}", reasons.join("; ")),
    };
    let mut details = Details::new();
    if !going.is_empty() {
        message.push_str(&format!("; it would remove {}", going.join(", ")));
        details.insert("would_remove".into(), going.into());
    }
    let unknown = reasons.iter().all(|reason| UNKNOWN.iter().any(|mark| reason.contains(mark)));
    let kind = if unknown { FaultKind::NotFound } else { FaultKind::CommandFailed };
    Fault::new(kind, message).details(details)
}

/// A transaction that a crash has cut; whoever acts completes it first.
pub(crate) fn is_interrupted(fault: &Fault) -> bool {
    fault.message.contains("dpkg was interrupted")
}

/// The names under `The following packages will be REMOVED:`, which apt prints also where it then refuses.
fn parse_removed(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.ends_with("packages will be REMOVED:")).skip(1);
    let names = lines.take_while(|line| line.starts_with(' ')).flat_map(str::split_whitespace);
    names.map(|name| name.trim_end_matches('*').to_string()).collect()
}

/// Whether apt knows of any packages at all.
pub(crate) fn has_lists(host: &dyn HostRead) -> Result<bool, Fault> {
    if host.stat_followed(Path::new(LISTS))?.is_none() {
        return Ok(false);
    }
    let names = host.list(Path::new(LISTS))?;
    Ok(names.iter().any(|name| name.to_string_lossy().contains("_Packages")))
}

/// `Inst name [old] (new origin [architecture])` and `Remv name [old]`.
fn parse_plan(text: &str) -> Vec<Planned> {
    let mut plan = Vec::new();
    for line in text.lines() {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        if verb != "Inst" && verb != "Remv" && verb != "Purg" {
            continue;
        }
        let name = rest.split(' ').next().unwrap_or_default().to_string();
        let between = |open: char, close: char| {
            let (_, after) = rest.split_once(open)?;
            after.split(close).next()?.split(' ').next().map(str::to_string)
        };
        let before_new = rest.split('(').next().unwrap_or_default();
        let old = before_new.contains('[').then(|| between('[', ']')).flatten();
        let new = (verb == "Inst").then(|| between('(', ')')).flatten();
        plan.push(Planned { name, old, new });
    }
    plan
}

/// Apt may be asked by anybody, and acts for root alone.
pub(crate) fn may_act(host: &dyn HostRead) -> Result<(), Fault> {
    if host.me().uid == 0 {
        return Ok(());
    }
    Err(Fault::new(FaultKind::Denied, "only root can change what is installed").hint("run it as root"))
}

fn no_apt(fault: Fault) -> Fault {
    if fault.kind != FaultKind::NotFound {
        return fault;
    }
    let message = format!("packages cannot be managed here: {}", fault.message);
    Fault::new(FaultKind::Unsupported, message).hint("only apt is known so far")
}

/// A turn at the package manager: nobody else of this process has one meanwhile.
pub(crate) struct AptSession<'a> {
    cx: &'a Applying<'a>,
    /// A cancel came while a transaction ran; it was let finish.
    pub(crate) canceled: bool,
    _held: tokio::sync::MutexGuard<'static, ()>,
}

impl<'a> AptSession<'a> {
    /// Waits for its turn, and repairs what an interrupted dpkg left.
    pub(crate) async fn take(cx: &'a Applying<'a>) -> Result<AptSession<'a>, Fault> {
        let held = tokio::select! {
            held = APT_LOCK.lock() => held,
            () = cx.cancel.cancelled() => return Err(Fault::canceled()),
        };
        let mut session = AptSession { cx, canceled: false, _held: held };
        session.repair().await?;
        Ok(session)
    }

    async fn repair(&mut self) -> Result<(), Fault> {
        let updates = self.cx.host.real_path(Path::new(UPDATES))?;
        let begun = self.cx.host.stat(&updates)?.is_some() && !self.cx.host.list(&updates)?.is_empty();
        if begun {
            let launch = quiet(
                ["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"]
                    .map(String::from)
                    .to_vec(),
            );
            self.transact(launch, "dpkg --configure -a").await?;
        }
        Ok(())
    }

    /// Runs to its end, whatever is cancelled meanwhile.
    async fn transact(&mut self, mut launch: Launch, program: &str) -> Result<(), Fault> {
        if self.cx.cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        launch.uninterruptible = true;
        let exit =
            self.cx.processes.run(&launch, self.cx.live.clone(), self.cx.cancel).await.map_err(no_apt)?;
        self.canceled |= exit.canceled;
        if exit.code == Some(0) { Ok(()) } else { Err(exit.failure(program)) }
    }

    /// Installs. Where apt does not know a package and may be asked anew, its lists are refreshed once.
    pub(crate) async fn install(
        &mut self,
        options: &[&str],
        words: &[String],
        refresh: Option<bool>,
    ) -> Result<(), Fault> {
        if refresh == Some(true) {
            self.update().await?;
        }
        let tried = self.transact(apt_get(options, "install", words), "apt-get install").await;
        match tried {
            Err(fault) if refresh.is_none() && is_stale(&fault) => {
                self.update().await?;
                self.transact(apt_get(options, "install", words), "apt-get install").await
            }
            other => other,
        }
    }

    pub(crate) async fn remove(&mut self, words: &[String]) -> Result<(), Fault> {
        self.transact(apt_get(&[], "remove", words), "apt-get remove").await
    }

    async fn update(&mut self) -> Result<(), Fault> {
        let launch = apt_get(&[], "update", &[]);
        let exit =
            self.cx.processes.run(&launch, self.cx.live.clone(), self.cx.cancel).await.map_err(no_apt)?;
        match exit.code {
            _ if exit.canceled => Err(Fault::canceled()),
            Some(0) => Ok(()),
            _ => Err(exit.failure("apt-get update")),
        }
    }

    pub(crate) fn installed(&self) -> Result<Installed, Fault> {
        all_installed(self.cx.host)
    }

    /// A turn that did not go well, with what it changed all the same: a transaction that a cancel let finish, or one
    /// that stopped half-way (S-43).
    pub(crate) fn failed(
        &self,
        fault: Fault,
        touched: bool,
        details: Details,
        done: &impl Serialize,
    ) -> Fault {
        let mut fault = fault.details(details);
        if self.canceled {
            fault.details.insert("uninterruptible".into(), true.into());
        }
        match serde_json::to_value(done) {
            Ok(undo) if touched => fault.having_done(undo),
            _ => Fault { touched, ..fault },
        }
    }
}

/// What apt says of packages and versions that are not in its lists.
const UNKNOWN: [&str; 4] = [
    "Unable to locate package",
    "has no installation candidate",
    "was not found",
    "Couldn't find any package",
];

/// The lists are missing or too old: packages unknown, or gone from the mirror.
fn is_stale(fault: &Fault) -> bool {
    let marks = ["Failed to fetch", "404"];
    UNKNOWN.iter().chain(&marks).any(|mark| fault.message.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_of_apt_is_read_from_its_own_words() {
        let text = "Reading package lists...\nInst libssl3 [3.0.1-1] (3.0.2-1 Debian:12/stable [amd64]) []\n\
                    Inst hello (2.10-3 Debian:12.15/oldstable [amd64])\nConf hello (2.10-3 Debian:12.15/oldstable [amd64])\n\
                    Remv bash [5.2.15-2+b8]\n";
        let planned = |name: &str, old: Option<&str>, new: Option<&str>| Planned {
            name: name.into(),
            old: old.map(Into::into),
            new: new.map(Into::into),
        };
        let expected = [
            planned("libssl3", Some("3.0.1-1"), Some("3.0.2-1")),
            planned("hello", None, Some("2.10-3")),
            planned("bash", Some("5.2.15-2+b8"), None),
        ];
        assert_eq!(parse_plan(text), expected);
    }
}
