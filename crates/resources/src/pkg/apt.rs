//! Packages of Debian and its children: dpkg's own book, `apt-get` and `apt-mark`.

use super::apt_lists::{self, LISTS};
use super::installed_packages::{self, Installed};
use super::manager::{Call, Job, PackageManager, Planned, Refusal, Versions, read_text};
use super::version::{Order, deb_order};
use super::wanted::Wanted;
use super::wish::Options;
use crate::state::Read;
use std::path::Path;
use zester_host::process::read_tools::{APT_FETCH, APT_PLAN, APT_VERSIONS};
use zester_host::{BoxFuture, Exit, Fault, FaultKind, HostRead, Question};
use zester_model::outcome::Details;

const FORMAT: &str = "${db:Status-Abbrev}\\t${Package}\\t${Architecture}\\t${Version}\\n";
/// How long to wait for another package manager to let go of the lock.
const LOCK_WAIT: &str = "DPkg::Lock::Timeout=600";
/// What dpkg knows to be installed.
const DPKG_STATUS: &str = "/var/lib/dpkg/status";
/// Where an interrupted dpkg leaves its unfinished work.
const UPDATES: &str = "/var/lib/dpkg/updates";

pub(crate) struct Apt;

impl PackageManager for Apt {
    fn name(&self) -> &'static str {
        "apt"
    }

    fn order(&self) -> Order {
        deb_order
    }

    /// From dpkg's own book, in one read however many are asked for. What an interrupted dpkg has not yet put there, only
    /// dpkg itself can tell.
    fn installed<'a>(&'a self, cx: Read<'a>) -> BoxFuture<'a, Result<Installed, Fault>> {
        Box::pin(async move {
            if has_updates(cx.host)? {
                let question = Question::Packages { format: FORMAT, names: &[] };
                let exit = cx.query.ask(question, cx.cancel).await?;
                return match exit.code {
                    Some(0) => Ok(installed_packages::parse_dpkg_query(&exit.stdout.text)),
                    _ => Err(exit.failure("dpkg-query")),
                };
            }
            let book = read_text(cx.host, DPKG_STATUS)?
                .ok_or_else(|| Fault::new(FaultKind::NotFound, format!("there is no {DPKG_STATUS}")))?;
            Ok(installed_packages::parse_dpkg_status(&book))
        })
    }

    fn calls(&self, job: &Job, _: &Installed) -> Result<Vec<Call>, Fault> {
        let Job { install, latest, everything, remove, purge, options } = job;
        let mut calls = Vec::new();
        if !purge.is_empty() {
            calls.push(call(&[], "purge", purge.clone()));
        }
        let latest = latest.iter().map(|name| argument(&Wanted::any(name), options));
        let mut words: Vec<String> =
            install.iter().map(|wanted| argument(wanted, options)).chain(latest).collect();
        if words.is_empty() && !remove.is_empty() {
            calls.push(call(&[], "remove", remove.clone()));
        } else if !words.is_empty() {
            // One transaction for both: what ends with `-` goes.
            words.extend(remove.iter().map(|name| format!("{name}-")));
            let pinned = install.iter().any(|wanted| wanted.version.is_some());
            calls.push(call(&install_options(options, pinned), "install", words));
        }
        if let Some(whole) = everything {
            let verb = if *whole { "dist-upgrade" } else { "upgrade" };
            calls.push(call(&install_options(options, false), verb, Vec::new()));
        }
        if options.download {
            calls.iter_mut().for_each(|call| call.tool = APT_FETCH);
        }
        Ok(calls)
    }

    fn read_plan(&self, _: &Call, exit: &Exit, _: &Installed) -> Result<Vec<Planned>, Refusal> {
        match exit.code {
            Some(0) => Ok(parse_plan(&exit.stdout.text)),
            _ => Err(self.refusal(exit)),
        }
    }

    fn refusal(&self, exit: &Exit) -> Refusal {
        let reasons = exit.stderr.text.lines().filter_map(|line| line.strip_prefix("E: "));
        let reasons: Vec<&str> = reasons.map(|reason| reason.trim_end().trim_end_matches('.')).collect();
        if reasons.is_empty() {
            return Refusal::of(exit.failure("apt-get"));
        }
        let going = parse_removed(&exit.stdout.text);
        let mut message = format!("apt refuses: {}", reasons.join("; "));
        let mut details = Details::new();
        if !going.is_empty() {
            message.push_str(&format!("; it would remove {}", going.join(", ")));
            details.insert("would_remove".into(), going.into());
        }
        let unknown = reasons.iter().all(|reason| UNKNOWN.iter().any(|mark| reason.contains(mark)));
        let kind = if unknown { FaultKind::NotFound } else { FaultKind::CommandFailed };
        let names = reasons.iter().flat_map(|reason| named_in(reason)).collect();
        Refusal { fault: Fault::new(kind, message).details(details), names }
    }

    fn refresh(&self) -> Vec<String> {
        apt_get(&[], "update", Vec::new())
    }

    fn has_lists(&self, host: &dyn HostRead) -> Result<bool, Fault> {
        if host.stat_followed(Path::new(LISTS))?.is_none() {
            return Ok(false);
        }
        let names = host.list(Path::new(LISTS))?;
        Ok(names.iter().any(|name| name.to_string_lossy().contains("_Packages")))
    }

    fn lacks_lists(&self, host: &dyn HostRead) -> Result<bool, Fault> {
        apt_lists::lacks_one(host)
    }

    fn is_stale(&self, fault: &Fault) -> bool {
        let marks = ["Failed to fetch", "404"];
        UNKNOWN.iter().chain(&marks).any(|mark| fault.message.contains(mark))
    }

    fn hold(&self, names: &[String], on: bool) -> Option<Vec<String>> {
        let verb = if on { "hold" } else { "unhold" };
        Some(["apt-mark", verb].into_iter().map(String::from).chain(names.iter().cloned()).collect())
    }

    fn is_interrupted(&self, fault: &Fault) -> bool {
        fault.message.contains("dpkg was interrupted")
    }

    fn repair(&self, host: &dyn HostRead) -> Result<Option<Vec<String>>, Fault> {
        let words = ["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"];
        Ok(has_updates(host)?.then(|| words.map(String::from).to_vec()))
    }

    /// Apt takes a version or a pattern and no comparison: it is asked what there is.
    fn available<'a>(
        &'a self,
        names: &'a [String],
        cx: Read<'a>,
    ) -> BoxFuture<'a, Result<Option<Versions>, Fault>> {
        Box::pin(async move {
            let words: Vec<&str> = names.iter().map(String::as_str).collect();
            let exit = cx.ask(APT_VERSIONS, &words).await?;
            match exit.code {
                Some(0) => Ok(Some(parse_madison(&exit.stdout.text))),
                _ => Err(self.refusal(&exit).fault),
            }
        })
    }

    fn environment(&self) -> Vec<(String, String)> {
        vec![
            ("DEBIAN_FRONTEND".into(), "noninteractive".into()),
            ("APT_LISTCHANGES_FRONTEND".into(), "none".into()),
            ("NEEDRESTART_MODE".into(), "l".into()),
            ("LC_ALL".into(), "C".into()),
        ]
    }
}

/// A transaction is under way, or was cut.
fn has_updates(host: &dyn HostRead) -> Result<bool, Fault> {
    let updates = host.real_path(Path::new(UPDATES))?;
    Ok(host.stat(&updates)?.is_some() && !host.list(&updates)?.is_empty())
}

/// `name`, `name=version`, `name/release`, or a file, as apt takes it.
fn argument(wanted: &Wanted, options: &Options) -> String {
    match (&wanted.source, &wanted.version, &options.from) {
        (Some(file), ..) => file.clone(),
        (None, Some(version), _) => format!("{}={version}", wanted.name),
        (None, None, Some(release)) => format!("{}/{release}", wanted.name),
        (None, None, None) => wanted.name.clone(),
    }
}

fn install_options(options: &Options, pinned: bool) -> Vec<String> {
    let mut words: Vec<&str> = match options.recommends {
        Some(true) => vec!["--install-recommends"],
        Some(false) => vec!["--no-install-recommends"],
        None => Vec::new(),
    };
    if pinned {
        words.push("--allow-downgrades");
    }
    if options.only_upgrade {
        words.push("--only-upgrade");
    }
    if options.update_holds {
        words.push("--allow-change-held-packages");
    }
    if options.skip_verify {
        words.push("--allow-unauthenticated");
    }
    if options.download {
        words.extend(["--download-only", "--reinstall"]);
    }
    if let Some(release) = &options.from {
        words.extend(["-t", release]);
    }
    words.into_iter().map(String::from).collect()
}

/// What follows `apt-get`: the same words for the plan and for the act.
fn apt_words(options: &[String], verb: &str, words: Vec<String>) -> Vec<String> {
    let fixed = ["-y", "-q", "-o", LOCK_WAIT, "-o", "Dpkg::Options::=--force-confdef"];
    let more = ["-o", "Dpkg::Options::=--force-confold"];
    let fixed = fixed.iter().chain(&more).map(ToString::to_string);
    fixed.chain(options.iter().cloned()).chain([verb.to_string()]).chain(words).collect()
}

fn apt_get(options: &[String], verb: &str, words: Vec<String>) -> Vec<String> {
    std::iter::once("apt-get".to_string()).chain(apt_words(options, verb, words)).collect()
}

fn call(options: &[String], verb: &str, words: Vec<String>) -> Call {
    let question = apt_words(options, verb, words.clone());
    Call { tool: APT_PLAN, question, act: apt_get(options, verb, words) }
}

/// The names under `The following packages will be REMOVED:`, which apt prints also where it then refuses.
fn parse_removed(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.ends_with("packages will be REMOVED:")).skip(1);
    let names = lines.take_while(|line| line.starts_with(' ')).flat_map(str::split_whitespace);
    names.map(|name| name.trim_end_matches('*').to_string()).collect()
}

/// `Inst name [old] (new origin [architecture])`, `Remv name [old]`, and of what is only fetched `'uri' file size hash`.
fn parse_plan(text: &str) -> Vec<Planned> {
    let mut plan = Vec::new();
    for line in text.lines() {
        if line.starts_with('\'') {
            plan.extend(line.split(' ').nth(1).and_then(parse_file_name));
            continue;
        }
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

/// `hello_1%3a2.10-3_amd64.deb`
fn parse_file_name(file: &str) -> Option<Planned> {
    let mut parts = file.strip_suffix(".deb")?.split('_');
    let (name, version) = (parts.next()?, parts.next()?);
    Some(Planned { name: name.to_string(), old: None, new: Some(version.replace("%3a", ":")) })
}

/// `hello | 2.10-3 | http://deb.debian.org/debian bookworm/main amd64 Packages`, newest first.
fn parse_madison(text: &str) -> Versions {
    let mut found = Versions::new();
    for line in text.lines() {
        let mut fields = line.split('|').map(str::trim);
        let (Some(name), Some(version), Some(origin)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if !origin.ends_with("Sources") {
            found.entry(name.to_string()).or_default().push(version.to_string());
        }
    }
    for versions in found.values_mut() {
        versions.sort_by(|left, right| deb_order(right, left));
        versions.dedup();
    }
    found
}

/// What apt says of packages and versions that are not in its lists.
const UNKNOWN: [&str; 5] = [
    "Unable to locate package",
    "has no installation candidate",
    "was not found",
    "Couldn't find any package",
    "is not available",
];

/// The packages that a reason is about: all that it quotes, and what follows its fixed words.
fn named_in(reason: &str) -> Vec<String> {
    let quoted = reason.split('\'').skip(1).step_by(2).map(str::to_string);
    let located = reason.strip_prefix("Unable to locate package ").map(str::to_string);
    quoted.chain(located).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_host::process::fake::exit;

    #[test]
    fn the_plan_of_apt_is_read_from_its_own_words() {
        let text = "Reading package lists...\nInst libssl3 [3.0.1-1] (3.0.2-1 Debian:12/stable [amd64]) []\n\
                    Inst hello (2.10-3 Debian:12.15/oldstable [amd64])\nConf hello (2.10-3 Debian:12.15/oldstable [amd64])\n\
                    Remv bash [5.2.15-2+b8]\n\
                    'http://deb.debian.org/pool/main/h/hello/hello_2.10-3_amd64.deb' hello_1%3a2.10-3_amd64.deb 53092 MD5Sum:x\n";
        let planned = |name: &str, old: Option<&str>, new: Option<&str>| Planned {
            name: name.into(),
            old: old.map(Into::into),
            new: new.map(Into::into),
        };
        let expected = [
            planned("libssl3", Some("3.0.1-1"), Some("3.0.2-1")),
            planned("hello", None, Some("2.10-3")),
            planned("bash", Some("5.2.15-2+b8"), None),
            planned("hello", None, Some("1:2.10-3")),
        ];
        assert_eq!(parse_plan(text), expected);
    }

    #[test]
    fn what_can_be_had_is_read_newest_first() {
        let text = "     hello |     2.10-3 | http://deb.debian.org/debian bookworm/main amd64 Packages\n     hello |    2.12-1 | file:/r ./ Packages\n\
             \x20    hello |     2.10-3 | http://deb.debian.org/debian bookworm/main Sources\n";
        assert_eq!(parse_madison(text)["hello"], ["2.12-1", "2.10-3"]);
    }

    #[test]
    fn a_refusal_names_whom_it_is_about() {
        let names = |stderr: &str| Apt.refusal(&exit(100, "", stderr)).names;
        assert_eq!(names("E: Unable to locate package nosuch\n"), ["nosuch"]);
        assert_eq!(names("E: Version '9.9' for 'hello' was not found\n"), ["9.9", "hello"]);
        assert_eq!(names("E: Package 'foo' has no installation candidate\n"), ["foo"]);
        assert!(names("E: Unmet dependencies\n").is_empty());
    }

    #[test]
    fn installing_and_removing_is_one_call() {
        let job = Job {
            install: vec![Wanted::any("a"), Wanted::exactly("b", "1")],
            remove: vec!["c".into()],
            ..Job::default()
        };
        let calls = Apt.calls(&job, &Installed::default()).unwrap();
        assert_eq!(calls.len(), 1);
        assert!(calls[0].act.join(" ").ends_with("--allow-downgrades install a b=1 c-"), "{calls:?}");
        let job = Job { remove: vec!["c".into()], purge: vec!["d".into()], ..Job::default() };
        let calls = Apt.calls(&job, &Installed::default()).unwrap();
        let ends: Vec<String> = calls.iter().map(|call| call.act[call.act.len() - 2..].join(" ")).collect();
        assert_eq!(ends, ["purge d", "remove c"]);
    }
}
