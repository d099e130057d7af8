//! Packages of Alpine: apk's own book, and `apk` itself.

use super::installed_packages::Installed;
use super::manager::{Call, Job, PackageManager, Planned, Refusal, read_text};
use super::version::{Order, apk_order};
use super::wanted::Wanted;
use crate::state::Read;
use zester_host::process::read_tools::APK_PLAN;
use zester_host::{BoxFuture, Exit, Fault, FaultKind};

const INSTALLED: &str = "/lib/apk/db/installed";

pub(crate) struct Apk;

impl PackageManager for Apk {
    fn name(&self) -> &'static str {
        "apk"
    }

    fn order(&self) -> Order {
        apk_order
    }

    fn installed<'a>(&'a self, cx: Read<'a>) -> BoxFuture<'a, Result<Installed, Fault>> {
        Box::pin(async move {
            let book = read_text(cx.host, INSTALLED)?;
            let missing = || Fault::new(FaultKind::NotFound, format!("there is no {INSTALLED}"));
            Ok(parse_book(&book.ok_or_else(missing)?))
        })
    }

    fn calls(&self, job: &Job, _: &Installed) -> Result<Vec<Call>, Fault> {
        let Job { install, latest, everything, remove, purge, options } = job;
        if options.recommends.is_some() || options.only_upgrade || options.download {
            let message = "apk knows neither recommended packages, nor upgrades alone, nor downloads alone";
            return Err(Fault::new(FaultKind::Unsupported, message)
                .hint("leave out `install_recommends` and `only_upgrade`"));
        }
        let mut calls = Vec::new();
        if !remove.is_empty() {
            calls.push(call("del", &[], remove.clone()));
        }
        if !purge.is_empty() {
            calls.push(call("del", &["--purge"], purge.clone()));
        }
        let from = |name: String| match &options.from {
            Some(repository) => format!("{name}@{repository}"),
            None => name,
        };
        let mut words: Vec<String> = install.iter().map(argument).map(from).collect();
        words.extend(latest.iter().cloned().map(from));
        if !words.is_empty() {
            let untrusted = install.iter().any(|wanted| wanted.source.is_some()) || options.skip_verify;
            let mut how: Vec<&str> = if latest.is_empty() { Vec::new() } else { vec!["--upgrade"] };
            how.extend(untrusted.then_some("--allow-untrusted"));
            calls.push(call("add", &how, words));
        }
        if everything.is_some() {
            calls.push(call("upgrade", &[], Vec::new()));
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
        let text = format!("{}\n{}", exit.stdout.text, exit.stderr.text);
        let reasons = text.lines().skip_while(|line| !line.starts_with("ERROR: "));
        let reasons: Vec<&str> = reasons
            .map(|line| line.trim_start_matches("ERROR: ").trim())
            .filter(|line| !line.is_empty())
            .collect();
        if reasons.is_empty() {
            return Refusal::of(exit.failure("apk"));
        }
        let names: Vec<String> = reasons
            .iter()
            .filter_map(|line| line.split_once(" (no such package)"))
            .map(|(name, _)| name.to_string())
            .collect();
        let kind = if names.is_empty() { FaultKind::CommandFailed } else { FaultKind::NotFound };
        Refusal { fault: Fault::new(kind, format!("apk refuses: {}", reasons.join(" "))), names }
    }

    fn refresh(&self) -> Vec<String> {
        vec!["apk".into(), "update".into()]
    }

    fn is_stale(&self, fault: &Fault) -> bool {
        ["no such package", "unable to select packages", "package mentioned in index not found"]
            .iter()
            .any(|mark| fault.message.contains(mark))
    }
}

fn call(verb: &str, how: &[&str], words: Vec<String>) -> Call {
    let how = how.iter().map(ToString::to_string);
    let said: Vec<String> = std::iter::once(verb.to_string()).chain(how).chain(words).collect();
    let act = ["apk", "--no-interactive"].map(String::from).into_iter().chain(said.clone()).collect();
    Call { tool: APK_PLAN, question: said, act }
}

/// `name`, `name=1.2-r0`, `name=~1.2` for what begins like that, `name>=1.2`, or a file.
fn argument(wanted: &Wanted) -> String {
    match (&wanted.source, wanted.spec()) {
        (Some(file), _) => file.clone(),
        (None, None) => wanted.name.clone(),
        (None, Some(spec)) => {
            let parts = spec.comparisons().map(|(sign, version)| match version.strip_suffix('*') {
                Some(beginning) => format!("=~{}", beginning.trim_end_matches('.')),
                None => format!("{sign}{version}"),
            });
            format!("{}{}", wanted.name, parts.collect::<String>())
        }
    }
}

/// Paragraphs of one-letter fields.
fn parse_book(text: &str) -> Installed {
    Installed::plain(text.split("\n\n").filter_map(|paragraph| {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name));
        Some((field("P:")?, field("V:")?.to_string()))
    }))
}

/// `(1/2) Installing name (version)`, `Upgrading name (old -> new)`, `Purging name (version)`.
fn parse_plan(text: &str) -> Vec<Planned> {
    let line = |line: &str| {
        let (_, rest) = line.strip_prefix('(')?.split_once(") ")?;
        let (verb, rest) = rest.split_once(' ')?;
        let (name, versions) = rest.split_once(" (")?;
        let versions = versions.split(')').next()?;
        let (old, new) = match (verb, versions.split_once(" -> ")) {
            ("Installing", _) => (None, Some(versions)),
            ("Purging", _) => (Some(versions), None),
            ("Upgrading" | "Downgrading", Some((old, new))) => (Some(old), Some(new)),
            _ => return None,
        };
        Some(Planned { name: name.into(), old: old.map(Into::into), new: new.map(Into::into) })
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_host::process::fake::exit;

    /// As apk-tools 2.14 writes it.
    #[test]
    fn the_plan_of_apk_is_read_from_its_own_words() {
        let text = "(1/3) Installing oniguruma (6.9.8-r1)\n(2/3) Upgrading jq (1.6-r3 -> 1.7.1-r0)\n(3/3) Purging less (643-r0)\n\
                    Executing busybox-1.36.1-r2.trigger\nOK: 8 MiB in 16 packages\n";
        let planned = |name: &str, old: Option<&str>, new: Option<&str>| Planned {
            name: name.into(),
            old: old.map(Into::into),
            new: new.map(Into::into),
        };
        assert_eq!(
            parse_plan(text),
            [
                planned("oniguruma", None, Some("6.9.8-r1")),
                planned("jq", Some("1.6-r3"), Some("1.7.1-r0")),
                planned("less", Some("643-r0"), None),
            ]
        );
    }

    #[test]
    fn apks_book_and_refusals_are_read() {
        let book = "C:Q1abc=\nP:musl\nV:1.2.4-r2\nA:x86_64\n\nC:Q1def=\nP:busybox\nV:1.36.1-r2\nF:bin\nR:busybox\n\n";
        let found = parse_book(book);
        assert_eq!(found.get("musl").map(String::as_str), Some("1.2.4-r2"));
        assert_eq!(found.versions().len(), 2);
        let refused = "ERROR: unable to select packages:\n  nosuch (no such package):\n    required by: world[nosuch]\n";
        let refusal = Apk.refusal(&exit(1, refused, ""));
        assert_eq!(
            (refusal.fault.kind, refusal.names.as_slice()),
            (FaultKind::NotFound, &["nosuch".to_string()][..])
        );
    }

    #[test]
    fn versions_are_said_in_apks_way() {
        let said = |version: &str| argument(&Wanted::exactly("jq", version));
        assert_eq!(
            (said("1.6-r3").as_str(), said("1.6.*").as_str(), said(">=1.6,<2").as_str()),
            ("jq=1.6-r3", "jq=~1.6", "jq>=1.6<2")
        );
    }
}
