//! The real apt, on a repository of tiny packages that the test builds itself. The packages are the machine's own to hold
//! for a moment, under names that nobody else has; lists, caches and sources lie in a directory of the test.

use crate::bound::Bound;
use crate::context::{Applying, Change, Checking, Reverting};
use crate::laws::{FewFiles, MemoryBlobStore, bind_json};
use crate::{apply_together, check_together};
use serde_json::{Value as Json, json};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::real::Real;
use zester_host::{BoxFuture, Exit, Fault, HostRead, Launch, OutputSink, Processes, Query};
use zester_rule::rule;

/// A repository, and an apt that knows no other.
struct Repository {
    directory: tempfile::TempDir,
    runner: Runner,
    packages: Vec<String>,
    /// One test at a time has dpkg for itself.
    _turn: File,
}

/// Every command finds the configuration of the test in its environment.
impl Processes for Repository {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        let mut launch = launch.clone();
        launch.environment.push(("APT_CONFIG".into(), self.at("apt.conf").display().to_string()));
        Box::pin(async move { self.runner.run(&launch, live, cancel).await })
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _gone = Command::new("dpkg").args(["--purge", "--force-all"]).args(&self.packages).output();
    }
}

impl Repository {
    fn new() -> Repository {
        let turn = dpkg_turn();
        let directory = tempfile::tempdir().unwrap();
        let made = Repository { directory, runner: Runner::new(), packages: Vec::new(), _turn: turn };
        for name in ["pool", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(made.at(name)).unwrap();
        }
        let root = made.at("").display().to_string();
        let list = format!("deb [trusted=yes] file:{root}pool ./\n");
        fs::write(made.at("sources.list"), list).unwrap();
        let conf = format!(
            "Dir::Etc::sourcelist \"{root}sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::State::lists \"{root}lists\";\nDir::Cache \"{root}cache\";\nAPT::Sandbox::User \"root\";\n"
        );
        fs::write(made.at("apt.conf"), conf).unwrap();
        made
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Builds a package with nothing in it but a configuration file.
    fn offer(&mut self, name: &str, version: &str, needs: &str) {
        let tree = self.at("build").join(format!("{name}-{version}"));
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("etc")).unwrap();
        fs::write(tree.join("etc").join(name), version).unwrap();
        fs::write(tree.join("DEBIAN/conffiles"), format!("/etc/{name}\n")).unwrap();
        let needs = if needs.is_empty() { String::new() } else { format!("Depends: {needs}\n") };
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: test <t@localhost>\n{needs}Description: test\n"
        );
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        let file = self.at("pool").join(format!("{name}_{version}_all.deb"));
        run(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&tree).arg(file));
        self.packages.push(name.to_string());
    }

    fn publish(&self) {
        let scanned = Command::new("dpkg-scanpackages")
            .args(["--multiversion", "."])
            .current_dir(self.at("pool"))
            .output();
        fs::write(self.at("pool/Packages"), scanned.unwrap().stdout).unwrap();
        run(Command::new("apt-get").args(["-q", "update"]).env("APT_CONFIG", self.at("apt.conf")));
    }

    async fn check(&self, kind: &str, params: &Json) -> Result<Option<String>, Fault> {
        let (host, cancel) = (Real::new(), CancellationToken::new());
        let bound = bind_json(kind, params).ok().unwrap();
        let found = bound.check(&self.checking(&host, &cancel)).await?;
        Ok(found.map(|drift| bound.explain(&drift, false).diff))
    }

    fn checking<'a>(&'a self, host: &'a Real, cancel: &'a CancellationToken) -> Checking<'a> {
        let query = Query::through(self);
        Checking { host, query, files: &FewFiles, forced: None, dry_run: false, cancel }
    }

    async fn apply(&self, states: &[(&str, Json)]) -> Vec<Result<Change, Fault>> {
        let (host, cancel) = (Real::new(), CancellationToken::new());
        let level: Vec<Box<dyn Bound>> =
            states.iter().map(|(kind, params)| bind_json(kind, params).ok().unwrap()).collect();
        let members: Vec<_> = level.iter().map(|bound| bound.packages().unwrap()).collect();
        let found = check_together(&members, &self.checking(&host, &cancel)).await;
        let drifts: Vec<_> =
            found.into_iter().map(|found| found.unwrap().expect("something to do")).collect();
        let acts: Vec<_> = level.iter().map(|bound| bound.packages().unwrap()).zip(&drifts).collect();
        apply_together(&acts, &Applying::new(&host, self, &cancel)).await
    }

    async fn revert(&self, kind: &str, record: &Json) -> Result<Change, Fault> {
        let (host, cancel, blobs) = (Real::new(), CancellationToken::new(), MemoryBlobStore::default());
        let left = Default::default();
        let cx = Reverting {
            host: &host,
            processes: self,
            blobs: &blobs,
            cancel: &cancel,
            force: false,
            left: &left,
        };
        crate::revert(kind, record, &cx).await
    }
}

/// Tests run side by side, and there is one dpkg.
pub(crate) fn dpkg_turn() -> File {
    let turn = File::create(std::env::temp_dir().join("zester-test-dpkg.lock")).unwrap();
    turn.lock().unwrap();
    turn
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// `ii`, `hi`, `rc`; nothing for what dpkg does not know.
fn status(name: &str) -> String {
    let told =
        Command::new("dpkg-query").args(["-W", "-f=${db:Status-Abbrev}${Version}", name]).output().unwrap();
    String::from_utf8_lossy(&told.stdout).trim().replace(' ', "")
}

fn cannot_run() -> Option<&'static str> {
    let there = |program: &str| Path::new("/usr/bin").join(program).exists();
    if Real::new().me().uid != 0 {
        return Some("only root installs packages");
    }
    (!["apt-get", "dpkg-deb", "dpkg-scanpackages"].into_iter().all(there)).then_some("needs apt and dpkg-dev")
}

#[tokio::test]
#[rule("S-31")]
async fn s31_the_real_apt_installs_holds_upgrades_removes_and_purges() {
    if let Some(reason) = cannot_run() {
        zester_testkit::skip!("{reason}");
    }
    let mut repository = Repository::new();
    repository.offer("zester-test-lib", "1.0", "");
    repository.offer("zester-test-app", "1.0", "zester-test-lib");
    repository.publish();
    let app = json!({ "name": "zester-test-app" });
    let told = repository.check("pkg.installed", &app).await.unwrap();
    assert_eq!(told.as_deref(), Some("zester-test-app: new, 1.0\nzester-test-lib: new, 1.0\n"));
    let installed = repository.apply(&[("pkg.installed", app.clone())]).await.remove(0).unwrap();
    assert_eq!((status("zester-test-app"), status("zester-test-lib")), ("ii1.0".into(), "ii1.0".into()));
    assert_eq!(repository.check("pkg.installed", &app).await.unwrap(), None);
    assert_eq!(repository.check("pkg.latest", &app).await.unwrap(), None);
    // Held, it stays; let go, the newest comes.
    repository.apply(&[("pkg.held", app.clone())]).await.remove(0).unwrap();
    assert_eq!(status("zester-test-app"), "hi1.0");
    assert_eq!(repository.check("pkg.held", &app).await.unwrap(), None);
    repository.offer("zester-test-app", "1.1", "zester-test-lib");
    repository.publish();
    let refused = repository.check("pkg.latest", &app).await;
    assert!(refused.is_err() || refused.unwrap().is_none(), "what is held is not upgraded unasked");
    repository.apply(&[("pkg.unheld", app.clone())]).await.remove(0).unwrap();
    let newer =
        repository.check("pkg.installed", &json!({ "name": "zester-test-app", "version": ">=1.1" })).await;
    assert_eq!(newer.unwrap().as_deref(), Some("zester-test-app: 1.0 → 1.1\n"));
    let upgraded = repository.apply(&[("pkg.latest", app.clone())]).await.remove(0).unwrap();
    assert_eq!(
        (status("zester-test-app").as_str(), upgraded.diff.as_str()),
        ("ii1.1", "zester-test-app: 1.0 → 1.1\n")
    );
    repository.revert("pkg.latest", &upgraded.undo.unwrap()).await.unwrap();
    assert_eq!(status("zester-test-app"), "ii1.0");
    // Removed, its configuration is left; purged, nothing is.
    repository.apply(&[("pkg.removed", app.clone())]).await.remove(0).unwrap();
    assert_eq!(status("zester-test-app"), "rc1.0");
    assert_eq!(repository.check("pkg.removed", &app).await.unwrap(), None);
    repository.apply(&[("pkg.purged", app.clone())]).await.remove(0).unwrap();
    assert_eq!(status("zester-test-app"), "");
    assert_eq!(repository.check("pkg.purged", &app).await.unwrap(), None);
    assert!(!Path::new("/etc/zester-test-app").exists());
    // The revert of the first installation takes what it brought along.
    assert!(repository.revert("pkg.installed", &installed.undo.unwrap()).await.unwrap().changed);
    assert!(!status("zester-test-lib").starts_with("ii"));
}

#[tokio::test]
async fn the_real_apt_serves_a_level_in_one_transaction_and_names_who_is_to_blame() {
    if let Some(reason) = cannot_run() {
        zester_testkit::skip!("{reason}");
    }
    let mut repository = Repository::new();
    repository.offer("zester-test-one", "1.0", "");
    repository.offer("zester-test-two", "1.0", "");
    repository.offer("zester-test-broken", "1.0", "zester-test-nobody-has-this");
    repository.publish();
    let state = |name: &str| ("pkg.installed", json!({ "name": name, "refresh": false }));
    let mut done = repository.apply(&[state("zester-test-one"), state("zester-test-two")]).await;
    assert!(done.iter().all(Result::is_ok), "{done:?}");
    assert_eq!(done.remove(1).unwrap().diff, "zester-test-two: new, 1.0\n");
    let (host, cancel) = (Real::new(), CancellationToken::new());
    let level: Vec<Box<dyn Bound>> = [
        state("zester-test-broken"),
        ("pkg.removed", json!({ "name": "zester-test-one" })),
        state("zester-test-nobody-knows"),
    ]
    .iter()
    .map(|(kind, params)| bind_json(kind, params).ok().unwrap())
    .collect();
    let members: Vec<_> = level.iter().map(|bound| bound.packages().unwrap()).collect();
    let found = check_together(&members, &repository.checking(&host, &cancel)).await;
    let words: Vec<String> =
        found.into_iter().map(|found| found.err().map(|fault| fault.message).unwrap_or_default()).collect();
    assert!(words[0].starts_with("apt refuses: Unable to correct problems"), "{words:?}");
    assert_eq!(words[1], "");
    assert_eq!(words[2], "apt refuses: Unable to locate package zester-test-nobody-knows");
}
