//! What several package states of one level do together.

use super::fake_apt::fake_apt;
use crate::bound::{Bound, Drift};
use crate::context::{Applying, Change, Checking, Reverting};
use crate::laws::{FewFiles, MemoryBlobStore, bind_json};
use crate::{apply_together, check_together, revert_together};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, exit};
use zester_host::{
    BoxFuture, Exit, Fault, FaultKind, HostRead, HostWrite, Launch, OutputSink, Processes, Query,
};
use zester_rule::rule;

struct World {
    host: Arc<Overlay>,
    apt: Arc<Scripted>,
    cancel: CancellationToken,
}

type Level = Vec<Box<dyn Bound>>;

fn level(states: &[(&str, Json)]) -> Level {
    states.iter().map(|(kind, params)| bind_json(kind, params).ok().unwrap()).collect()
}

impl World {
    fn with(packages: &str) -> World {
        let host = Arc::new(Overlay::empty());
        let apt = fake_apt(&host, packages);
        World { host, apt, cancel: CancellationToken::new() }
    }

    async fn check(&self, level: &Level, dry_run: bool) -> Vec<Result<Option<Drift>, Fault>> {
        let query = Query::through(&*self.apt);
        let cx = Checking {
            host: &*self.host,
            query,
            files: &FewFiles,
            forced: None,
            dry_run,
            cancel: &self.cancel,
        };
        let members: Vec<_> = level.iter().map(|bound| bound.packages().unwrap()).collect();
        check_together(&members, &cx).await
    }

    async fn apply(&self, level: &Level) -> Vec<Result<Change, Fault>> {
        let drifts: Vec<Drift> =
            self.check(level, false).await.into_iter().map(|found| found.unwrap().unwrap()).collect();
        self.act(level, &drifts).await
    }

    async fn act(&self, level: &Level, drifts: &[Drift]) -> Vec<Result<Change, Fault>> {
        self.act_through(&*self.apt, level, drifts).await
    }

    async fn act_through(
        &self,
        processes: &dyn Processes,
        level: &Level,
        drifts: &[Drift],
    ) -> Vec<Result<Change, Fault>> {
        let cx = Applying::new(&*self.host, processes, &self.cancel);
        let members: Vec<_> = level.iter().map(|bound| bound.packages().unwrap()).zip(drifts).collect();
        apply_together(&members, &cx).await
    }

    async fn revert(&self, records: &[Json]) -> Vec<Result<Change, Fault>> {
        let blobs = MemoryBlobStore::default();
        let cx = Reverting {
            host: &*self.host,
            processes: &*self.apt,
            blobs: &blobs,
            cancel: &self.cancel,
            force: false,
            left: &Default::default(),
        };
        let records: Vec<(&'static str, &Json)> =
            records.iter().map(|record| ("pkg.installed", record)).collect();
        revert_together(&records, &cx).await
    }

    fn calls(&self) -> Vec<String> {
        let ran = self.apt.ran();
        let short = |line: &String| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let verb = ["install", "remove", "purge", "update", "hold", "unhold", "upgrade", "dist-upgrade"];
            let verb = words.iter().find(|word| verb.contains(word)).copied().unwrap_or_default();
            let asks = if words.contains(&"--simulate") { "-s " } else { "" };
            format!("{} {asks}{verb}", words[0])
        };
        ran.iter().map(short).collect()
    }

    fn book(&self) -> String {
        String::from_utf8(self.host.read("/var/lib/dpkg/status".as_ref(), 1 << 20).unwrap()).unwrap()
    }
}

fn installed(name: &str) -> (&'static str, Json) {
    ("pkg.installed", json!({ "name": name }))
}

fn twenty() -> Level {
    level(&(0..20).map(|number| installed(&format!("pack-{number}"))).collect::<Vec<_>>())
}

#[tokio::test]
async fn twenty_states_are_one_plan_and_one_transaction() {
    let world = World::with("");
    let changes = world.apply(&twenty()).await;
    assert_eq!(world.calls(), ["apt-get -s install", "apt-get install"]);
    for (number, change) in changes.into_iter().enumerate() {
        let change = change.unwrap();
        assert_eq!(change.diff, format!("pack-{number}: new, 1\n"));
        assert_eq!(change.undo.unwrap()["moves"].as_object().unwrap().len(), 1);
    }
    // All there: one look, and nothing is started.
    let world = World::with(&(0..20).map(|number| format!("pack-{number} 1 ")).collect::<String>());
    assert!(world.check(&twenty(), false).await.into_iter().all(|found| found.unwrap().is_none()));
    assert!(world.calls().is_empty());
}

#[tokio::test]
#[rule("S-30")]
async fn s30_a_dry_run_of_a_level_asks_for_one_plan() {
    let world = World::with("sl 5");
    let mut states: Vec<(&str, Json)> = (0..20).map(|number| installed(&format!("pack-{number}"))).collect();
    states.push(("pkg.removed", json!({ "name": "sl" })));
    states.push(("pkg.latest", json!({ "name": "hello" })));
    let level = level(&states);
    let found = world.check(&level, true).await;
    assert_eq!(world.calls(), ["apt-get -s install"]);
    let told =
        |index: usize| level[index].explain(found[index].as_ref().unwrap().as_ref().unwrap(), false).diff;
    assert_eq!(told(0), "pack-0: new, 1\n");
    assert_eq!(told(20), "sl: 5 → removed\n");
    assert_eq!(told(21), "hello: new, 2.10\nlibhello: new, 1\n");
}

#[tokio::test]
async fn a_package_that_nobody_knows_fails_its_own_state_and_no_other() {
    let world = World::with("");
    let level = level(&[
        installed("pack-1"),
        installed("no-such"),
        ("pkg.installed", json!({ "name": "hello", "version": "9.9", "refresh": false })),
        installed("sl"),
    ]);
    let mut found = world.check(&level, true).await;
    // There are no lists at all here: they would be fetched first.
    assert!(found[1].as_ref().unwrap().is_some());
    let fault = found.remove(2).err().unwrap();
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (FaultKind::NotFound, "apt refuses: Version '9.9' for 'hello' was not found")
    );
    assert!(found[0].as_ref().unwrap().is_some() && found[2].as_ref().unwrap().is_some());
}

#[tokio::test]
#[rule("S-43")]
async fn s43_a_transaction_that_is_refused_serves_whom_it_can() {
    let world = World::with("");
    let level = level(&[installed("pack-1"), installed("no-such"), installed("sl")]);
    let drifts: Vec<Drift> =
        world.check(&level, false).await.into_iter().map(|found| found.unwrap().unwrap()).collect();
    let mut ended = world.act(&level, &drifts).await;
    let fault = ended.remove(1).unwrap_err();
    assert!(!fault.touched && fault.undo.is_none(), "{fault}");
    assert!(fault.message.contains("Unable to locate package no-such"), "{fault}");
    assert!(ended.into_iter().all(|ended| ended.unwrap().changed));
    assert!(world.book().contains("Package: pack-1") && world.book().contains("Package: sl"));
}

#[tokio::test]
#[rule("S-43")]
async fn s43_what_versions_cannot_prove_is_tried_again_beside_a_refused_state() {
    let world = World::with("hello 2.9 libhello 1");
    let beside = level(&[("pkg.latest", json!({ "name": "hello" })), installed("no-such")]);
    let mut ended = world.apply(&beside).await;
    ended.remove(1).unwrap_err();
    assert_eq!(ended.remove(0).unwrap().diff, "hello: 2.9 → 2.10\n");

    let world = World::with("hello 2.9 libhello 1");
    let beside = level(&[("pkg.uptodate", json!({ "name": "all" })), installed("no-such")]);
    let mut ended = world.apply(&beside).await;
    ended.remove(1).unwrap_err();
    assert_eq!(ended.remove(0).unwrap().diff, "hello: 2.9 → 2.10\n");
}

#[tokio::test]
async fn upgrades_that_nobody_named_are_those_of_pkg_uptodate() {
    for first in [true, false] {
        let world = World::with("hello 2.9 libhello 1");
        let mut states = vec![installed("pack-1"), installed("sl")];
        states.insert(if first { 0 } else { 2 }, ("pkg.uptodate", json!({ "name": "all" })));
        let level = level(&states);
        let found = world.check(&level, true).await;
        let told: Vec<String> = level
            .iter()
            .zip(&found)
            .map(|(bound, found)| bound.explain(found.as_ref().unwrap().as_ref().unwrap(), false).diff)
            .collect();
        let uptodate = if first { 0 } else { 2 };
        assert_eq!(told[uptodate], "hello: 2.9 → 2.10\n", "{told:?}");
        let changes = world.apply(&level).await;
        assert_eq!(changes[uptodate].as_ref().unwrap().diff, "hello: 2.9 → 2.10\n");
    }
}

#[tokio::test]
#[rule("S-31")]
async fn s31_what_two_states_brought_goes_with_both_and_what_was_there_stays() {
    let world = World::with("sl 5");
    let before = world.book();
    let level = level(&[installed("hello"), installed("libhello"), installed("pack-1")]);
    let changes = world.apply(&level).await;
    let records: Vec<Json> = changes.into_iter().map(|change| change.unwrap().undo.unwrap()).collect();
    assert_eq!(records[0]["moves"].as_object().unwrap().len(), 1, "{}", records[0]);
    assert_eq!(records[1]["moves"].as_object().unwrap().len(), 1, "{}", records[1]);
    // Alone, the library is still needed.
    let alone = world.revert(&records[1..2]).await.remove(0).unwrap_err();
    assert_eq!(alone.message, "removing libhello would also remove hello");
    let together = world.revert(&records).await;
    assert!(together.into_iter().all(|reverted| reverted.unwrap().changed));
    assert_eq!(world.book(), before);
    // One of them not being ours to remove does not keep the others.
    world.apply(&level).await;
    let others = [records[1].clone(), records[2].clone()];
    let mut some = world.revert(&others).await;
    assert!(some.remove(1).unwrap().changed);
    assert_eq!(some.remove(0).unwrap_err().kind, FaultKind::ChangedSince);
}

#[tokio::test]
async fn states_that_want_it_made_otherwise_have_a_transaction_of_their_own() {
    let world = World::with("");
    let level = level(&[
        installed("pack-1"),
        ("pkg.installed", json!({ "name": "pack-2", "install_recommends": false })),
        ("pkg.installed", json!({ "name": "pack-3", "hold": true })),
    ]);
    let changes = world.apply(&level).await;
    assert!(changes.iter().all(|change| change.as_ref().unwrap().changed));
    assert_eq!(changes[2].as_ref().unwrap().diff, "pack-3: new, 1\npack-3: held\n");
    let calls =
        ["apt-get -s install", "apt-get -s install", "apt-get install", "apt-get install", "apt-mark hold"];
    assert_eq!(world.calls(), calls);
}

#[tokio::test]
async fn whatever_else_is_held_can_be_let_go() {
    let world = World::with("sl 5 libhello 1 !libhello held");
    let level = level(&[("pkg.held", json!({ "name": "x", "pkgs": ["sl"], "replace": true }))]);
    let before = world.book();
    let change = world.apply(&level).await.remove(0).unwrap();
    assert_eq!(change.diff, "libhello: no longer held\nsl: held\n");
    world.revert(&[change.undo.unwrap()]).await.remove(0).unwrap();
    assert_eq!(world.book(), before);
}

#[tokio::test]
async fn a_purge_takes_what_a_removal_left() {
    let world = World::with("");
    let left = "Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n\n\
                Package: old\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n\n";
    let file = zester_host::NewFile { content: left.as_bytes(), mode: 0o644, owner: self::owner() };
    zester_host::HostWrite::put_file(&*world.host, "/var/lib/dpkg/status".as_ref(), &file).unwrap();
    let removed = level(&[("pkg.removed", json!({ "name": "old" }))]);
    assert!(world.check(&removed, true).await.remove(0).unwrap().is_none());
    let purged = level(&[("pkg.purged", json!({ "name": "old" }))]);
    assert!(world.check(&purged, true).await.remove(0).unwrap().is_some());
    assert_eq!(world.calls(), ["apt-get -s purge"]);
}

fn owner() -> zester_host::Owner {
    zester_host::Owner { uid: 0, gid: 0 }
}

/// Apt, whose transactions somebody comes before, or cuts short.
struct Meanwhile<'a> {
    apt: &'a Scripted,
    before: Option<Launch>,
    refuses: Option<Exit>,
    /// Cancelled while dpkg is at it, so that its book has to be asked for.
    cancels: Option<&'a World>,
    transactions: std::sync::atomic::AtomicUsize,
}

impl<'a> Meanwhile<'a> {
    fn of(apt: &'a Scripted) -> Meanwhile<'a> {
        Meanwhile { apt, before: None, refuses: None, cancels: None, transactions: Default::default() }
    }
}

impl Processes for Meanwhile<'_> {
    fn run<'b>(
        &'b self,
        launch: &'b Launch,
        live: Option<OutputSink>,
        cancel: &'b CancellationToken,
    ) -> BoxFuture<'b, Result<Exit, Fault>> {
        Box::pin(async move {
            if !launch.uninterruptible {
                let exit = self.apt.run(launch, live, cancel).await?;
                return Ok(Exit { canceled: cancel.is_cancelled(), ..exit });
            }
            self.transactions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if let Some(other) = &self.before {
                self.apt.run(other, None, cancel).await?;
            }
            if let Some(world) = self.cancels {
                let begun = zester_host::NewFile { content: b"", mode: 0o644, owner: owner() };
                world.host.put_file("/var/lib/dpkg/updates/0001".as_ref(), &begun)?;
                world.cancel.cancel();
            }
            match &self.refuses {
                Some(exit) => Ok(exit.clone()),
                None => self.apt.run(launch, live, cancel).await,
            }
        })
    }
}

async fn due(world: &World, level: &Level) -> Vec<Drift> {
    world.check(level, false).await.into_iter().map(|found| found.unwrap().unwrap()).collect()
}

#[tokio::test]
#[rule("S-31")]
async fn s31_what_another_program_installed_meanwhile_is_told_and_not_recorded() {
    let world = World::with("");
    let level = level(&[installed("hello")]);
    let drifts = due(&world, &level).await;
    let other = Some(Launch::argv(["apt-get", "install", "sl"]));
    let processes = Meanwhile { before: other, ..Meanwhile::of(&world.apt) };
    let change = world.act_through(&processes, &level, &drifts).await.remove(0).unwrap();
    let record = change.undo.unwrap();
    let names: Vec<&String> = record["moves"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["hello", "libhello"]);
    assert_eq!(change.details["others"], json!({ "sl": { "old": null, "new": "5" } }));
    world.revert(&[record]).await.remove(0).unwrap();
    assert!(world.book().contains("Package: sl") && !world.book().contains("hello"), "{}", world.book());
}

#[tokio::test]
#[rule("S-32", "S-43")]
async fn s43_a_cancelled_transaction_is_recorded_as_it_was_and_not_as_it_was_planned() {
    let world = World::with("");
    let level = level(&[installed("hello")]);
    let drifts = due(&world, &level).await;
    let refuses = Some(Exit { canceled: true, ..exit(100, "", "") });
    let processes = Meanwhile { refuses, cancels: Some(&world), ..Meanwhile::of(&world.apt) };
    let fault = world.act_through(&processes, &level, &drifts).await.remove(0).unwrap_err();
    assert_eq!(fault.undo, None, "{fault}");
    assert_eq!(fault.details["uninterruptible"], json!(true));
}

#[tokio::test]
#[rule("S-43")]
async fn s43_a_lock_that_nobody_gets_is_not_tried_again_for_each() {
    let world = World::with("");
    let level = level(&[installed("pack-1"), installed("pack-2"), installed("sl")]);
    let drifts = due(&world, &level).await;
    let locked = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)\n";
    let processes = Meanwhile { refuses: Some(exit(100, "", locked)), ..Meanwhile::of(&world.apt) };
    let ended = world.act_through(&processes, &level, &drifts).await;
    assert!(ended.into_iter().all(|ended| ended.unwrap_err().message.contains("Could not get lock")));
    assert_eq!(processes.transactions.into_inner(), 1);
}
