//! Packages of SUSE: `rpm` tells what is installed, `zypper` does the rest and answers in XML.

use super::dnf::rpm_installed;
use super::installed_packages::Installed;
use super::manager::{Call, Job, PackageManager, Planned, Refusal, read_text};
use super::version::{Order, rpm_order};
use super::wanted::Wanted;
use super::wish::Options;
use crate::state::Read;
use zester_host::process::read_tools::{
    ReadTool, ZYPPER_DIST_UPGRADE, ZYPPER_INSTALL, ZYPPER_REMOVE, ZYPPER_UPDATE,
};
use zester_host::{BoxFuture, Exit, Fault, FaultKind};

const LOCKS: &str = "/etc/zypp/locks";
/// It succeeded, and says that somebody should restart or log in again.
const INFORMATIONAL: std::ops::RangeInclusive<i32> = 100..=103;

pub(crate) struct Zypper;

impl PackageManager for Zypper {
    fn name(&self) -> &'static str {
        "zypper"
    }

    fn order(&self) -> Order {
        rpm_order
    }

    fn installed<'a>(&'a self, cx: Read<'a>) -> BoxFuture<'a, Result<Installed, Fault>> {
        Box::pin(async move {
            let mut found = rpm_installed(cx).await?;
            if let Some(text) = read_text(cx.host, LOCKS)? {
                let names = text.lines().filter_map(|line| line.strip_prefix("solvable_name:"));
                names.for_each(|name| found.hold(name.trim().to_string()));
            }
            Ok(found)
        })
    }

    fn calls(&self, job: &Job, now: &Installed) -> Result<Vec<Call>, Fault> {
        let Job { install, latest, everything, remove, purge, options } = job;
        let mut calls = Vec::new();
        let gone: Vec<String> = remove.iter().chain(purge).cloned().collect();
        if !gone.is_empty() {
            calls.push(call(ZYPPER_REMOVE, "remove", gone));
        }
        let (newer, new): (Vec<&String>, Vec<&String>) = latest.iter().partition(|name| now.contains(name));
        let pinned = install.iter().any(|wanted| wanted.version.is_some());
        let install: Vec<String> =
            install.iter().flat_map(arguments).chain(new.into_iter().cloned()).collect();
        if !install.is_empty() && !options.only_upgrade {
            let words = install_words(options, pinned).into_iter().chain(install);
            calls.push(call(ZYPPER_INSTALL, "install", words));
        } else if !install.is_empty() {
            calls.push(call(
                ZYPPER_UPDATE,
                "update",
                install_words(options, false).into_iter().chain(install),
            ));
        }
        if !newer.is_empty() {
            let words = install_words(options, false).into_iter().chain(newer.into_iter().cloned());
            calls.push(call(ZYPPER_UPDATE, "update", words));
        }
        match everything {
            Some(true) => {
                calls.push(call(ZYPPER_DIST_UPGRADE, "dist-upgrade", install_words(options, false)))
            }
            Some(false) => calls.push(call(ZYPPER_UPDATE, "update", install_words(options, false))),
            None => {}
        }
        Ok(calls)
    }

    fn read_plan(&self, _: &Call, exit: &Exit, _: &Installed) -> Result<Vec<Planned>, Refusal> {
        match exit.code {
            Some(code) if code == 0 || INFORMATIONAL.contains(&code) => Ok(parse_plan(&exit.stdout.text)),
            _ => Err(self.refusal(exit)),
        }
    }

    fn refusal(&self, exit: &Exit) -> Refusal {
        let errors = exit.stdout.text.split("<message type=\"error\">").skip(1);
        let errors = errors.filter_map(|rest| rest.split("</message>").next()).map(unescaped);
        let plain =
            exit.stdout.text.lines().filter(|line| line.starts_with("No provider of")).map(str::to_string);
        let errors: Vec<String> = errors.chain(plain).collect();
        if errors.is_empty() {
            return Refusal::of(exit.failure("zypper"));
        }
        let unknown =
            errors.iter().all(|error| error.contains("No provider of") || error.contains("not found"));
        let kind = if unknown { FaultKind::NotFound } else { FaultKind::CommandFailed };
        let quoted = errors.iter().flat_map(|error| error.split('\'').skip(1).step_by(2));
        let names = quoted.filter_map(|name| name.split_whitespace().next()).map(str::to_string).collect();
        let reasons: Vec<&str> = errors.iter().map(|error| error.trim().trim_end_matches('.')).collect();
        Refusal { fault: Fault::new(kind, format!("zypper refuses: {}", reasons.join("; "))), names }
    }

    fn refresh(&self) -> Vec<String> {
        act("refresh", Vec::new())
    }

    fn is_stale(&self, fault: &Fault) -> bool {
        ["No provider of", "not found", "404"].iter().any(|mark| fault.message.contains(mark))
    }

    fn hold(&self, names: &[String], on: bool) -> Option<Vec<String>> {
        Some(act(if on { "addlock" } else { "removelock" }, names.to_vec()))
    }
}

fn act(verb: &str, words: Vec<String>) -> Vec<String> {
    let fixed = ["zypper", "--non-interactive", verb].map(String::from).into_iter();
    fixed.chain(words).collect()
}

fn call(tool: ReadTool, verb: &str, words: impl IntoIterator<Item = String>) -> Call {
    let words: Vec<String> = words.into_iter().collect();
    Call { tool, question: words.clone(), act: act(verb, words) }
}

fn install_words(options: &Options, pinned: bool) -> Vec<String> {
    let mut words = vec!["--auto-agree-with-licenses".to_string()];
    words.extend(
        options.recommends.map(|yes| if yes { "--recommends" } else { "--no-recommends" }.to_string()),
    );
    words.extend(options.from.iter().map(|from| format!("--from={from}")));
    if pinned {
        words.push("--oldpackage".into());
    }
    if options.download {
        words.push("--download-only".into());
    }
    if options.skip_verify {
        words.push("--allow-unsigned-rpm".into());
    }
    words
}

fn arguments(wanted: &Wanted) -> Vec<String> {
    match (&wanted.source, wanted.spec()) {
        (Some(file), _) => vec![file.clone()],
        (None, None) => vec![wanted.name.clone()],
        (None, Some(spec)) => {
            spec.comparisons().map(|(sign, version)| format!("{}{sign}{version}", wanted.name)).collect()
        }
    }
}

fn unescaped(text: &str) -> String {
    let pairs = [("&apos;", "'"), ("&quot;", "\""), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")];
    pairs.iter().fold(text.to_string(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// The packages of `<install-summary>`, by the element that they stand in.
fn parse_plan(text: &str) -> Vec<Planned> {
    let mut plan = Vec::new();
    let mut removes = false;
    for element in text.split('<').skip(1) {
        match element.split([' ', '>']).next() {
            Some("to-remove") => removes = true,
            Some(section) if section.starts_with("to-") => removes = false,
            Some("solvable") => {
                let value = |name: &str| {
                    let (_, rest) = element.split_once(&format!(" {name}=\""))?;
                    rest.split('"').next().map(unescaped)
                };
                let (Some("package"), Some(name), Some(edition)) =
                    (value("type").as_deref(), value("name"), value("edition"))
                else {
                    continue;
                };
                plan.push(match removes {
                    true => Planned { name, old: Some(edition), new: None },
                    false => Planned { name, old: value("edition-old"), new: Some(edition) },
                });
            }
            _ => {}
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_host::process::fake::exit;

    /// What zypper 1.14 printed on a root of its own.
    const UPGRADE: &str = "<?xml version='1.0'?>
<stream>
<message type=\"info\">Loading repository data...</message>
<install-summary download-size=\"5569\" space-usage-diff=\"0\" packages-to-change=\"1\">
<to-upgrade>
<solvable type=\"package\" name=\"zester-test-hello\" edition=\"2.0-1\" arch=\"noarch\" edition-old=\"1.0-1\" arch-old=\"noarch\" summary=\"hello\">
<description>hello</description></solvable>
</to-upgrade>
<to-remove>
<solvable type=\"package\" name=\"zester-test-lib\" edition=\"2.0-1\" arch=\"noarch\" summary=\"lib\">
<description>lib</description></solvable>
</to-remove>
</install-summary>
</stream>
";
    const UNKNOWN: &str = "<stream>
<message type=\"info\">&apos;nosuch&apos; not found in package names. Trying capabilities.</message>
<message type=\"error\">No provider of &apos;nosuch&apos; found.</message>
</stream>
";

    #[test]
    fn the_plan_of_zypper_is_read_from_its_xml() {
        let plan = parse_plan(UPGRADE);
        let hello = Planned {
            name: "zester-test-hello".into(),
            old: Some("1.0-1".into()),
            new: Some("2.0-1".into()),
        };
        let lib = Planned { name: "zester-test-lib".into(), old: Some("2.0-1".into()), new: None };
        assert_eq!(plan, [hello, lib]);
    }

    #[test]
    fn what_zypper_does_not_know_is_named() {
        let refusal = Zypper.refusal(&exit(104, UNKNOWN, ""));
        assert_eq!(refusal.names, ["nosuch"]);
        assert_eq!(refusal.fault.kind, FaultKind::NotFound);
        assert_eq!(refusal.fault.message, "zypper refuses: No provider of 'nosuch' found");
    }
}
