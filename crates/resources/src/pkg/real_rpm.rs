//! The real dnf, zypper and rpm, on a root directory of the test's own, with packages that it builds itself.

use super::dnf::Dnf;
use super::manager::{Job, PackageManager, Planned};
use super::wanted::Wanted;
use super::zypper::Zypper;
use crate::state::Read;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::real::Real;
use zester_host::{
    BoxFuture, Exit, Fault, FaultKind, HostRead, Launch, OutputSink, Processes, Program, Query, Question,
};

/// Every call of a tool gets the words that keep it to the root of the test.
pub(super) struct Aside {
    directory: tempfile::TempDir,
    runner: Runner,
}

impl Processes for Aside {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        let mut launch = launch.clone();
        if let Program::Argv(words) = &mut launch.program {
            let (root, pool) = (self.at("root").display().to_string(), self.at("pool").display().to_string());
            let aside = match words.first().map(String::as_str) {
                Some("dnf") => vec![
                    format!("--installroot={root}"),
                    "--releasever=1".into(),
                    "--disablerepo=*".into(),
                    format!("--repofrompath=zester-test,file://{pool}"),
                    "--setopt=zester-test.gpgcheck=0".into(),
                ],
                Some("pacman") => vec!["--config".into(), self.at("pacman.conf").display().to_string()],
                Some("zypper") => vec!["--root".into(), root, "--no-gpg-checks".into()],
                _ => vec!["--root".into(), root],
            };
            words.splice(1..1, aside);
        }
        Box::pin(async move { self.runner.run(&launch, live, cancel).await })
    }
}

impl Aside {
    pub(super) fn new() -> Aside {
        let made = Aside { directory: tempfile::tempdir().unwrap(), runner: Runner::new() };
        for name in ["root/etc/yum.repos.d", "pool"] {
            fs::create_dir_all(made.at(name)).unwrap();
        }
        made
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn offer(&self, name: &str, version: &str, needs: &str) {
        let needs = if needs.is_empty() { String::new() } else { format!("Requires: {needs}\n") };
        let spec = format!(
            "Name: {name}\nVersion: {version}\nRelease: 1\nSummary: test\nLicense: MIT\nBuildArch: noarch\n{needs}\
             %description\ntest\n%files\n"
        );
        let file = self.at(&format!("{name}.spec"));
        fs::write(&file, spec).unwrap();
        let define = |name: &str, path: PathBuf| format!("{name} {}", path.display());
        let mut build = Command::new("rpmbuild");
        build.args(["-bb", "--define", &define("_topdir", self.at("build"))]);
        succeed(build.args(["--define", &define("_rpmdir", self.at("pool"))]).arg(file));
    }

    fn publish(&self) {
        succeed(Command::new("createrepo_c").arg(self.at("pool")));
    }

    fn read<'a>(&'a self, host: &'a Real, cancel: &'a CancellationToken) -> Read<'a> {
        Read { host, query: Query::through(self), cancel }
    }

    /// What the tool would do, and what it then does.
    pub(super) async fn carry_out(
        &self,
        manager: &dyn PackageManager,
        job: &Job,
    ) -> Result<Vec<Planned>, Fault> {
        let (host, cancel) = (Real::new(), CancellationToken::new());
        let now = manager.installed(self.read(&host, &cancel)).await?;
        let mut plan = Vec::new();
        for call in manager.calls(job, &now)? {
            let question = Question::Read { tool: call.tool, words: &call.question };
            let exit = Query::through(self).ask(question, &cancel).await?;
            plan.extend(manager.read_plan(&call, &exit, &now).map_err(|refusal| refusal.fault)?);
            let exit = self.run(&Launch::argv(call.act), None, &cancel).await?;
            if exit.code != Some(0) {
                return Err(manager.refusal(&exit).fault);
            }
        }
        Ok(plan)
    }

    pub(super) async fn has(&self, manager: &dyn PackageManager, name: &str) -> Option<String> {
        let (host, cancel) = (Real::new(), CancellationToken::new());
        manager.installed(self.read(&host, &cancel)).await.unwrap().get(name).cloned()
    }
}

pub(super) fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

pub(super) fn planned(name: &str, old: Option<&str>, new: Option<&str>) -> Planned {
    Planned { name: name.into(), old: old.map(Into::into), new: new.map(Into::into) }
}

/// Installs an old version with what it needs, upgrades it, removes both, and is told what is not there.
async fn lives(aside: &Aside, manager: &dyn PackageManager) {
    // Something stays to the end: zypper cannot do with a database that holds nothing at all.
    let base = Job { install: vec![Wanted::any("zester-test-base")], ..Job::default() };
    assert_eq!(aside.carry_out(manager, &base).await.unwrap().len(), 1);
    let old = Job { install: vec![Wanted::exactly("zester-test-app", "1.0")], ..Job::default() };
    let mut plan = aside.carry_out(manager, &old).await.unwrap();
    plan.sort_by(|left, right| left.name.cmp(&right.name));
    let wanted =
        [planned("zester-test-app", None, Some("1.0-1")), planned("zester-test-lib", None, Some("1.0-1"))];
    assert_eq!(plan, wanted);
    assert_eq!(aside.has(manager, "zester-test-app").await.as_deref(), Some("1.0-1"));
    let latest = Job { latest: vec!["zester-test-app".into()], ..Job::default() };
    let plan = aside.carry_out(manager, &latest).await.unwrap();
    assert_eq!(plan, [planned("zester-test-app", Some("1.0-1"), Some("2.0-1"))]);
    assert!(aside.carry_out(manager, &latest).await.unwrap().is_empty());
    let gone = Job { remove: vec!["zester-test-lib".into()], ..Job::default() };
    assert_eq!(aside.carry_out(manager, &gone).await.unwrap().len(), 2);
    assert_eq!(aside.has(manager, "zester-test-app").await, None);
    let unknown = Job { install: vec![Wanted::any("zester-test-nobody-has-this")], ..Job::default() };
    let refused = aside.carry_out(manager, &unknown).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::NotFound, "{refused}");
    assert!(refused.message.contains("zester-test-nobody-has-this"), "{refused}");
}

fn repository() -> Aside {
    let aside = Aside::new();
    aside.offer("zester-test-base", "1.0", "");
    aside.offer("zester-test-lib", "1.0", "");
    aside.offer("zester-test-app", "1.0", "zester-test-lib");
    aside.offer("zester-test-app", "2.0", "zester-test-lib");
    aside.publish();
    aside
}

fn lacks(program: &str) -> bool {
    let there = |program: &str| Path::new("/usr/bin").join(program).exists();
    Real::new().me().uid != 0 || ![program, "rpm", "rpmbuild", "createrepo_c"].into_iter().all(there)
}

#[tokio::test]
async fn the_real_dnf_installs_upgrades_and_removes_on_a_root_of_its_own() {
    if lacks("dnf") {
        zester_testkit::skip!("needs root, dnf, rpmbuild and createrepo_c");
    }
    lives(&repository(), &Dnf).await;
}

#[tokio::test]
async fn the_real_zypper_installs_upgrades_and_removes_on_a_root_of_its_own() {
    if lacks("zypper") {
        zester_testkit::skip!("needs root, zypper, rpmbuild and createrepo_c");
    }
    let aside = repository();
    let pool = format!("file://{}", aside.at("pool").display());
    let root = aside.at("root").display().to_string();
    for words in [&["addrepo", "--no-refresh", "--no-gpgcheck", &pool, "zester-test"][..], &["refresh"]] {
        succeed(
            Command::new("zypper")
                .args(["--root", &root, "--non-interactive", "--no-gpg-checks"])
                .args(words),
        );
    }
    lives(&aside, &Zypper).await;
}
