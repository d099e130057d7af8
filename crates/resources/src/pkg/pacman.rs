//! Packages of Arch: `pacman` for everything.

use super::installed_packages::Installed;
use super::manager::{Call, Job, PackageManager, Planned, Refusal};
use super::version::{Order, rpm_order};
use super::wanted::Wanted;
use crate::state::Read;
use zester_host::process::read_tools::{PACMAN_ALL, PACMAN_PLAN};
use zester_host::{BoxFuture, Exit, Fault, FaultKind};

pub(crate) struct Pacman;

impl PackageManager for Pacman {
    fn name(&self) -> &'static str {
        "pacman"
    }

    fn order(&self) -> Order {
        rpm_order
    }

    fn installed<'a>(&'a self, cx: Read<'a>) -> BoxFuture<'a, Result<Installed, Fault>> {
        Box::pin(async move {
            let exit = cx.ask(PACMAN_ALL, &[]).await?;
            match exit.code {
                Some(0) => Ok(Installed::plain(
                    exit.stdout
                        .text
                        .lines()
                        .filter_map(|line| line.split_once(' '))
                        .map(|(name, version)| (name, version.to_string())),
                )),
                _ => Err(exit.failure("pacman")),
            }
        })
    }

    fn calls(&self, job: &Job, _: &Installed) -> Result<Vec<Call>, Fault> {
        let Job { install, latest, everything, remove, purge, options } = job;
        if options.only_upgrade || options.recommends.is_some() {
            let message =
                "pacman knows neither recommended packages nor upgrades of those alone that are installed";
            return Err(Fault::new(FaultKind::Unsupported, message)
                .hint("leave out `install_recommends` and `only_upgrade`"));
        }
        let mut calls = Vec::new();
        // What depends on them goes too, as with other managers.
        for (names, how) in [(remove, "-R"), (purge, "-Rn")] {
            if !names.is_empty() {
                calls.push(call(&[how, "--cascade"], names.clone()));
            }
        }
        let (files, named): (Vec<&Wanted>, Vec<&Wanted>) =
            install.iter().partition(|wanted| wanted.source.is_some());
        if !files.is_empty() {
            calls.push(call(&["-U"], files.into_iter().filter_map(|wanted| wanted.source.clone()).collect()));
        }
        let repository = |name: &str| match &options.from {
            Some(from) => format!("{from}/{name}"),
            None => name.to_string(),
        };
        let mut words: Vec<String> = Vec::new();
        for wanted in named {
            match wanted.spec() {
                None => words.push(repository(&wanted.name)),
                Some(spec) => words.extend(
                    spec.comparisons()
                        .map(|(sign, version)| format!("{}{sign}{version}", repository(&wanted.name))),
                ),
            }
        }
        words.extend(latest.iter().map(|name| repository(name)));
        if !words.is_empty() {
            let how: &[&str] = if options.download { &["-Sw"] } else { &["-S", "--needed"] };
            calls.push(call(how, words));
        }
        if everything.is_some() {
            calls.push(call(&["-Su"], Vec::new()));
        }
        Ok(calls)
    }

    /// `name version` a line, for what comes and for what goes alike.
    fn read_plan(&self, call: &Call, exit: &Exit, now: &Installed) -> Result<Vec<Planned>, Refusal> {
        if exit.code != Some(0) {
            return Err(self.refusal(exit));
        }
        let removes = call.question.iter().any(|word| word.starts_with("-R"));
        let lines = exit.stdout.text.lines().filter_map(|line| line.split_once(' '));
        let planned = lines.map(|(name, version)| match removes {
            true => Planned { name: name.into(), old: Some(version.into()), new: None },
            false => Planned { name: name.into(), old: now.get(name).cloned(), new: Some(version.into()) },
        });
        Ok(planned.filter(|planned| planned.old != planned.new).collect())
    }

    fn refusal(&self, exit: &Exit) -> Refusal {
        let errors: Vec<&str> =
            exit.stderr.text.lines().filter_map(|line| line.strip_prefix("error: ")).map(str::trim).collect();
        if errors.is_empty() {
            return Refusal::of(exit.failure("pacman"));
        }
        let unknown: Vec<String> = errors
            .iter()
            .filter_map(|error| error.strip_prefix("target not found: "))
            .map(str::to_string)
            .collect();
        let kind = if unknown.len() == errors.len() { FaultKind::NotFound } else { FaultKind::CommandFailed };
        let why = exit.stdout.text.lines().filter_map(|line| line.strip_prefix(":: "));
        let reasons: Vec<&str> = errors.into_iter().chain(why).collect();
        Refusal { fault: Fault::new(kind, format!("pacman refuses: {}", reasons.join("; "))), names: unknown }
    }

    fn refresh(&self) -> Vec<String> {
        act(&["-Sy"], Vec::new())
    }

    fn is_stale(&self, fault: &Fault) -> bool {
        ["target not found", "404", "failed retrieving file"].iter().any(|mark| fault.message.contains(mark))
    }
}

fn act(how: &[&str], words: Vec<String>) -> Vec<String> {
    let fixed = ["pacman", "--noconfirm"].into_iter().chain(how.iter().copied());
    fixed.map(String::from).chain(words).collect()
}

fn call(how: &[&str], words: Vec<String>) -> Call {
    let question = how.iter().map(ToString::to_string).chain(words.clone()).collect();
    Call { tool: PACMAN_PLAN, question, act: act(how, words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_host::process::fake::exit;

    /// What pacman 6.0 printed on a root of its own.
    #[test]
    fn the_plan_of_pacman_is_read_from_its_lines() {
        let pacman = Pacman;
        let now = Installed::plain([("zester-test-lib", "1.0-1".to_string())]);
        let job = Job { latest: vec!["zester-test-hello".into()], ..Job::default() };
        let call = &pacman.calls(&job, &now).unwrap()[0];
        assert_eq!(call.act.join(" "), "pacman --noconfirm -S --needed zester-test-hello");
        let plan =
            pacman.read_plan(call, &exit(0, "zester-test-lib 2.0-1\nzester-test-hello 2.0-1\n", ""), &now);
        let names: Vec<(String, Option<String>)> =
            plan.unwrap().into_iter().map(|one| (one.name, one.old)).collect();
        assert_eq!(
            names,
            [("zester-test-lib".into(), Some("1.0-1".into())), ("zester-test-hello".into(), None)]
        );
        let job = Job { remove: vec!["zester-test-lib".into()], ..Job::default() };
        let call = &pacman.calls(&job, &now).unwrap()[0];
        let plan = pacman
            .read_plan(call, &exit(0, "zester-test-hello 1.0-1\nzester-test-lib 1.0-1\n", ""), &now)
            .unwrap();
        assert!(plan.iter().all(|planned| planned.new.is_none()) && plan.len() == 2);
    }

    #[test]
    fn what_pacman_refuses_is_named() {
        let refusal = Pacman.refusal(&exit(1, "", "error: target not found: nosuch\n"));
        assert_eq!(
            (refusal.fault.kind, refusal.names.as_slice()),
            (FaultKind::NotFound, &["nosuch".to_string()][..])
        );
        let breaks =
            ":: removing zester-test-lib breaks dependency 'zester-test-lib' required by zester-test-hello\n";
        let failed = "error: failed to prepare transaction (could not satisfy dependencies)\n";
        let refusal = Pacman.refusal(&exit(1, breaks, failed));
        assert_eq!(refusal.fault.kind, FaultKind::CommandFailed);
        assert!(refusal.fault.message.contains("breaks dependency"), "{}", refusal.fault);
    }
}
