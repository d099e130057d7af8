//! Packages of Fedora, Red Hat and their children: `rpm` tells what is installed, `dnf` does the rest.

use super::installed_packages::Installed;
use super::manager::{Call, Job, PackageManager, Planned, Refusal, read_text};
use super::version::{Order, rpm_order};
use super::wanted::Wanted;
use super::wish::Options;
use crate::state::Read;
use zester_host::process::read_tools::{DNF_PLAN, RPM_ALL};
use zester_host::{BoxFuture, Exit, Fault, FaultKind};

const RPM_FORMAT: &str = "%{NAME}\\t%{EPOCHNUM}\\t%{VERSION}-%{RELEASE}\\n";
/// Where the plugin that holds packages keeps its list.
const LOCKS: &str = "/etc/dnf/plugins/versionlock.list";

pub(crate) struct Dnf;

impl PackageManager for Dnf {
    fn name(&self) -> &'static str {
        "dnf"
    }

    fn order(&self) -> Order {
        rpm_order
    }

    fn installed<'a>(&'a self, cx: Read<'a>) -> BoxFuture<'a, Result<Installed, Fault>> {
        Box::pin(async move {
            let mut found = rpm_installed(cx).await?;
            if let Some(text) = read_text(cx.host, LOCKS)? {
                text.lines().filter_map(locked_name).for_each(|name| found.hold(name));
            }
            Ok(found)
        })
    }

    fn calls(&self, job: &Job, now: &Installed) -> Result<Vec<Call>, Fault> {
        let Job { install, latest, everything, remove, purge, options } = job;
        let mut calls = Vec::new();
        let gone: Vec<String> = remove.iter().chain(purge).cloned().collect();
        if !gone.is_empty() {
            // What came along is not ours to decide about.
            let keep = ["--setopt=clean_requirements_on_remove=False".to_string()];
            calls.push(call("remove", keep.into_iter().chain(gone)));
        }
        let (newer, new): (Vec<&String>, Vec<&String>) = latest.iter().partition(|name| now.contains(name));
        let install: Vec<String> =
            install.iter().flat_map(arguments).chain(new.into_iter().cloned()).collect();
        if !install.is_empty() {
            let verb = if options.only_upgrade { "upgrade" } else { "install" };
            calls.push(call(verb, install_words(options).into_iter().chain(install)));
        }
        if !newer.is_empty() {
            calls.push(call("upgrade", install_words(options).into_iter().chain(newer.into_iter().cloned())));
        }
        if everything.is_some() {
            calls.push(call("upgrade", install_words(options)));
        }
        Ok(calls)
    }

    fn read_plan(&self, _: &Call, exit: &Exit, now: &Installed) -> Result<Vec<Planned>, Refusal> {
        let said = |words: &str| exit.stdout.text.contains(words) || exit.stderr.text.contains(words);
        match exit.code {
            Some(0) => Ok(parse_plan(&exit.stdout.text, now)),
            // Told to answer every question with no, it aborts once it has shown its plan.
            Some(1) if said("Operation aborted.") => Ok(parse_plan(&exit.stdout.text, now)),
            _ => Err(self.refusal(exit)),
        }
    }

    fn refusal(&self, exit: &Exit) -> Refusal {
        let lines = exit.stderr.text.lines().skip_while(|line| !line.starts_with("Error:"));
        let words: Vec<&str> = lines.map(|line| line.trim().trim_start_matches("Error:").trim()).collect();
        let reason = words.iter().filter(|line| !line.is_empty()).copied().collect::<Vec<_>>().join("; ");
        if reason.is_empty() {
            return Refusal::of(exit.failure("dnf"));
        }
        let named = reason.split_once("Unable to find a match: ").map(|(_, names)| names);
        let kind = if named.is_some() { FaultKind::NotFound } else { FaultKind::CommandFailed };
        let names = named.unwrap_or_default().split_whitespace().map(str::to_string).collect();
        Refusal { fault: Fault::new(kind, format!("dnf refuses: {reason}")), names }
    }

    fn refresh(&self) -> Vec<String> {
        act("makecache", Vec::new())
    }

    fn is_stale(&self, fault: &Fault) -> bool {
        ["Unable to find a match", "No match for argument", "Status code: 404", "No such file or directory"]
            .iter()
            .any(|mark| fault.message.contains(mark))
    }

    fn hold(&self, names: &[String], on: bool) -> Option<Vec<String>> {
        let verb = if on { "add" } else { "delete" };
        Some(act("versionlock", std::iter::once(verb.to_string()).chain(names.iter().cloned()).collect()))
    }
}

fn act(verb: &str, words: Vec<String>) -> Vec<String> {
    let fixed = ["dnf", "-y", "-q", verb].map(String::from).into_iter();
    fixed.chain(words).collect()
}

fn call(verb: &str, words: impl IntoIterator<Item = String>) -> Call {
    let words: Vec<String> = words.into_iter().collect();
    let question = std::iter::once(verb.to_string()).chain(words.clone()).collect();
    Call { tool: DNF_PLAN, question, act: act(verb, words) }
}

fn install_words(options: &Options) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(recommends) = options.recommends {
        let value = if recommends { "True" } else { "False" };
        words.push(format!("--setopt=install_weak_deps={value}"));
    }
    words.extend(options.from.iter().map(|from| format!("--repo={from}")));
    if options.download {
        words.push("--downloadonly".into());
    }
    if options.update_holds {
        words.push("--disableplugin=versionlock".into());
    }
    if options.skip_verify {
        words.push("--nogpgcheck".into());
    }
    words
}

/// `name`, `name-version`, `name >= version`, or a file.
fn arguments(wanted: &Wanted) -> Vec<String> {
    match (&wanted.source, wanted.spec()) {
        (Some(file), _) => vec![file.clone()],
        (None, None) => vec![wanted.name.clone()],
        (None, Some(spec)) if spec.compares() => {
            spec.comparisons().map(|(sign, version)| format!("{} {sign} {version}", wanted.name)).collect()
        }
        (None, Some(_)) => vec![format!("{}-{}", wanted.name, wanted.version.as_deref().unwrap_or_default())],
    }
}

/// Everything that the database of rpm holds.
pub(super) async fn rpm_installed(cx: Read<'_>) -> Result<Installed, Fault> {
    let exit = cx.ask(RPM_ALL, &["--queryformat", RPM_FORMAT]).await?;
    match exit.code {
        Some(0) => Ok(parse_rpm(&exit.stdout.text)),
        _ => Err(exit.failure("rpm")),
    }
}

fn parse_rpm(text: &str) -> Installed {
    Installed::plain(text.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let (name, epoch, version) = (fields.next()?, fields.next()?, fields.next()?);
        // Keys that packages are signed with stand among them.
        let real = name != "gpg-pubkey";
        let version = if epoch == "0" { version.to_string() } else { format!("{epoch}:{version}") };
        real.then_some((name, version))
    }))
}

/// `bash-0:4.4.23-1.fc28.*`
fn locked_name(line: &str) -> Option<String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') || line.starts_with('!') {
        return None;
    }
    line.rsplitn(3, '-').nth(2).map(str::to_string)
}

/// The table of a transaction: `name architecture version repository size` under headings. A long name has a line of its
/// own.
fn parse_plan(text: &str, now: &Installed) -> Vec<Planned> {
    let mut plan = Vec::new();
    let (mut removes, mut row) = (None, Vec::<String>::new());
    for line in text.lines() {
        if line.starts_with("Transaction Summary") {
            break;
        }
        if !line.starts_with(' ') {
            removes = match line.trim_end_matches(':') {
                _ if !line.ends_with(':') => removes,
                heading if heading.starts_with("Removing") => Some(true),
                _ => Some(false),
            };
            row.clear();
            continue;
        }
        let Some(removes) = removes else { continue };
        row.extend(line.split_whitespace().map(str::to_string));
        let [name, _, version, _, ..] = row.as_slice() else { continue };
        let old = now.get(name).cloned();
        plan.push(match removes {
            true => Planned { name: name.clone(), old: old.or_else(|| Some(version.clone())), new: None },
            false => Planned { name: name.clone(), old, new: Some(version.clone()) },
        });
        row.clear();
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_host::process::fake::exit;

    /// What dnf 4.14 printed on a root of its own.
    const INSTALL: &str = "\
Dependencies resolved.
================================================================================
 Package                     Architecture     Version         Repository   Size
================================================================================
Installing:
 zester-test-hello           noarch           1.0-1           t           5.4 k
Installing dependencies:
 zester-test-lib             noarch           2.0-1           t           5.4 k

Transaction Summary
================================================================================
Install  2 Packages

Total size: 11 k
";
    const REMOVE: &str = "\
Dependencies resolved.
================================================================================
 Package                    Architecture    Version           Repository   Size
================================================================================
Removing:
 zester-test-lib            noarch          2.0-1             @t            0  
Removing dependent packages:
 zester-test-hello-with-a-name-that-is-much-too-long-for-the-column
                            noarch          1.0-1             @t            0  

Transaction Summary
================================================================================
Remove  2 Packages
";

    fn planned(name: &str, old: Option<&str>, new: Option<&str>) -> Planned {
        Planned { name: name.into(), old: old.map(Into::into), new: new.map(Into::into) }
    }

    fn nobody() -> Call {
        Call { tool: DNF_PLAN, question: Vec::new(), act: Vec::new() }
    }

    #[test]
    fn the_plan_of_dnf_is_read_from_its_table() {
        let now = Installed::plain([("zester-test-hello", "0.9-1".to_string())]);
        let read = |exit: &Exit| Dnf.read_plan(&nobody(), exit, &now);
        let plan = read(&exit(1, INSTALL, "Operation aborted.\n")).unwrap();
        assert_eq!(
            plan,
            [
                planned("zester-test-hello", Some("0.9-1"), Some("1.0-1")),
                planned("zester-test-lib", None, Some("2.0-1")),
            ]
        );
        let plan = read(&exit(1, REMOVE, "Operation aborted.\n")).unwrap();
        let long = "zester-test-hello-with-a-name-that-is-much-too-long-for-the-column";
        assert_eq!(
            plan,
            [planned("zester-test-lib", Some("2.0-1"), None), planned(long, Some("1.0-1"), None)]
        );
        assert!(
            read(&exit(0, "Dependencies resolved.\nNothing to do.\nComplete!\n", "")).unwrap().is_empty()
        );
    }

    #[test]
    fn what_dnf_does_not_know_is_named() {
        let unknown = "Error: Unable to find a match: nosuch other\n";
        let refusal = Dnf.read_plan(&nobody(), &exit(1, "", unknown), &Installed::default()).unwrap_err();
        assert_eq!(refusal.names, ["nosuch", "other"]);
        assert_eq!(refusal.fault.kind, FaultKind::NotFound);
        assert_eq!(refusal.fault.message, "dnf refuses: Unable to find a match: nosuch other");
        let conflict = "Error: \n Problem: package a-1 conflicts with b\n  - nothing provides c\n";
        let refusal = Dnf.refusal(&exit(1, "", conflict));
        assert_eq!(
            refusal.fault.message,
            "dnf refuses: Problem: package a-1 conflicts with b; - nothing provides c"
        );
    }

    #[test]
    fn versions_and_comparisons_are_said_in_dnfs_way() {
        let said = |version: &str| arguments(&Wanted::exactly("a", version)).join("|");
        assert_eq!(said("1.2-3"), "a-1.2-3");
        assert_eq!(said("1.2*"), "a-1.2*");
        assert_eq!(said(">=1.2,<2"), "a >= 1.2|a < 2");
        let found = parse_rpm("bash\t0\t5.2-1\nvim\t2\t9.0-1\ngpg-pubkey\t0\tx-y\n");
        assert_eq!(found, Installed::plain([("bash", "5.2-1".to_string()), ("vim", "2:9.0-1".to_string())]));
        assert_eq!(locked_name("bash-completion-1:4.4.23-1.fc28.*"), Some("bash-completion".into()));
        assert_eq!(locked_name("# Added lock on Mon"), None);
    }
}
