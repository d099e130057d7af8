//! The laws that every kind obeys, whatever it manages.
//!
//! A [`Case`] is a state on a small machine in memory. [`hold`] runs it through all of these, and panics with
//! the law's words where one is broken (it is for tests):
//!
//! - check writes nothing;
//! - after check and apply, check is clean, and a second apply would have nothing to do;
//! - the overlay of a dry run ends up as the machine does;
//! - revert brings back bytes, modes and owners, and a second revert changes nothing;
//! - revert of an intent that never happened changes nothing;
//! - every single host call made to fail ends in a fault and leaves each file whole, and so does dying at any
//!   call; from whatever state that left, revert finds its way back.

#![allow(clippy::panic, clippy::expect_used, reason = "test support: a broken law has to stop the test")]

mod agreement;

pub use agreement::{hold_from_random_states, runs_on};

use crate::bound::{Bound, Drift};
use crate::context::{
    Applying, BlobStore, Change, Checking, Reverting, SourceEntry, SourceSort, StateFileSource,
};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;
use zester_host::digest::sha256_hex;
use zester_host::faulty::{Faulty, Plan};
use zester_host::overlay::{Overlay, UNKNOWN_FILE};
use zester_host::process::fake::Scripted;
use zester_host::{
    Fault, FaultKind, Group, HostRead, HostWrite, NewFile, Owner, Processes, Query, Special, User, Xattrs,
};
use zester_model::limits::FILE_BYTES_MAX;
use zester_model::node::Node;
use zester_model::outcome::Details;
use zester_model::program::Param;
use zester_model::source::{FileId, Span};

/// What the kind promises, beyond the laws for all.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Check is clean after apply, and revert restores all.
    Converges,
    /// Finds nothing to do.
    Clean,
    /// Acts every time; nothing to undo.
    Acts,
    /// Ends in a fault, in check or in apply.
    Fails,
}

type World = Box<dyn Fn(&Arc<Overlay>) -> Arc<dyn Processes>>;

/// One state on one small machine.
pub struct Case {
    pub kind: &'static str,
    pub params: Json,
    pub promise: Promise,
    world: World,
    books: Vec<PathBuf>,
    leaves: Option<(PathBuf, String)>,
}

impl Case {
    /// `world` furnishes the machine and says how its commands answer.
    pub fn new(
        kind: &'static str,
        params: Json,
        promise: Promise,
        world: impl Fn(&Arc<Overlay>) -> Arc<dyn Processes> + 'static,
    ) -> Case {
        let books = ["/var/lib/dpkg", "/run/systemd"].map(PathBuf::from).to_vec();
        Case { kind, params, promise, world: Box::new(world), books, leaves: None }
    }

    /// What stands in a file once it is applied: for what a check alone would not notice, like the place of a rule.
    pub fn leaving(mut self, path: &str, text: &str) -> Case {
        self.leaves = Some((path.into(), text.into()));
        self
    }

    /// Paths where a tool writes down by itself what it was told (`/etc/passwd`): a dry run notes that by name instead, so
    /// they are not compared with its overlay. That a check is clean there is.
    pub fn with_books(mut self, paths: &[&str]) -> Case {
        self.books.extend(paths.iter().map(PathBuf::from));
        self
    }

    fn without_books(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.retain(|path, _| !self.books.iter().any(|book| path.starts_with(book)));
        snapshot
    }

    fn bound(&self) -> Box<dyn Bound> {
        match bind_json(self.kind, &self.params) {
            Ok(bound) => bound,
            Err(diagnostics) => panic!("{}: the case does not bind: {diagnostics:?}", self.kind),
        }
    }

    fn machine(&self) -> Machine {
        let files = Arc::new(Overlay::empty());
        let processes = (self.world)(&files);
        Machine { files, processes, blobs: MemoryBlobStore::default() }
    }
}

/// Binds parameters given as JSON, as tests write them.
pub fn bind_json(
    kind: &str,
    params: &Json,
) -> Result<Box<dyn Bound>, Vec<zester_model::diagnostic::Diagnostic>> {
    let span = Span::start_of(FileId(0));
    let object = params.as_object().cloned().unwrap_or_default();
    let params = object.iter().map(|(name, value)| Param::new(name, span, Node::from_json(span, value)));
    crate::bind(kind, &params.collect::<Vec<_>>(), span)
}

/// Furnishes a machine, one thing a line: `f PATH MODE CONTENT`, `d PATH MODE`, `l PATH TARGET`, `p PATH MODE` for a
/// pipe, `x PATH NAME VALUE` for an extended attribute. There are
/// `/tmp`, the user `web` (33) and its group; no command is known.
pub fn furnish(host: &Arc<Overlay>, things: &str) -> Arc<dyn Processes> {
    host.predict_user(User { name: "web".into(), uid: 33, gid: 33, home: "/srv".into() });
    host.predict_group(Group { name: "web".into(), gid: 33 });
    let owner = Owner { uid: 7, gid: 8 };
    host.make_directory("/tmp".as_ref(), 0o1777, Owner { uid: 0, gid: 0 }).expect("nothing is there");
    for item in things.lines() {
        let words: Vec<&str> = item.splitn(4, ' ').collect();
        let mode = || u32::from_str_radix(words.get(2).copied().unwrap_or("644"), 8).expect("octal digits");
        let made = match words.as_slice() {
            ["f", path, _, content] => {
                let content = content.as_bytes();
                host.put_file(path.as_ref(), &NewFile { content, mode: mode(), owner })
            }
            ["d", path, _] => host.make_directory(path.as_ref(), mode(), owner),
            ["p", path, _] => host.make_special(path.as_ref(), Special::Pipe, mode(), owner),
            ["l", path, target] => host.put_link(path.as_ref(), target.as_ref(), owner),
            ["x", path, name, value] => {
                let xattrs = Xattrs::default().with(name, value.as_bytes());
                host.set_xattrs(path.as_ref(), &xattrs).map(drop)
            }
            other => panic!("cannot furnish with {other:?}"),
        };
        made.unwrap_or_else(|fault| panic!("cannot furnish with {item}: {fault}"));
    }
    Arc::new(Scripted::new())
}

/// A file of several lines, for everybody to read.
pub fn put_text(host: &Arc<Overlay>, path: &str, text: &str) {
    let file = NewFile { content: text.as_bytes(), mode: 0o644, owner: Owner { uid: 0, gid: 0 } };
    host.put_file(path.as_ref(), &file).unwrap_or_else(|fault| panic!("cannot furnish {path}: {fault}"));
}

/// A blob store in memory.
#[derive(Default)]
pub struct MemoryBlobStore(Mutex<HashMap<String, Vec<u8>>>);

impl BlobStore for MemoryBlobStore {
    fn keep(&self, content: &[u8]) -> Result<String, Fault> {
        let name = sha256_hex(content);
        self.0.lock().expect("no panic holds it").insert(name.clone(), content.to_vec());
        Ok(name)
    }

    fn fetch(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let kept = self.0.lock().expect("no panic holds it").get(name).cloned();
        kept.ok_or_else(|| Fault::new(FaultKind::NotFound, format!("the blob store holds no {name}")))
    }
}

/// State files of a test: `run.sh` is a script, everything else is missing. Templates render to themselves.
pub struct FewFiles;

impl StateFileSource for FewFiles {
    fn read(&self, uri: &str) -> Result<Vec<u8>, Fault> {
        match uri.rsplit('/').next() {
            Some("run.sh") => Ok(b"#!/bin/sh\ntrue\n".to_vec()),
            Some("leaf") => Ok(b"leaf\n".to_vec()),
            // What the manual pages speak of.
            Some("setup.sh") => Ok(b"#!/bin/sh\ntrue\n".to_vec()),
            Some("app.conf.jinja") => Ok(b"port = {{ port }}\n".to_vec()),
            Some("example.asc") => Ok(b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n".to_vec()),
            Some("answers.txt") => Ok(b"postfix postfix/mailname string {{ mailname }}\n".to_vec()),
            Some("root.tab") => Ok(b"5 4 * * * /usr/local/bin/backup\n".to_vec()),
            _ => Err(Fault::new(FaultKind::NotFound, format!("there is no state file {uri}"))),
        }
    }

    fn render(&self, _name: &str, text: &str, context: &Details) -> Result<String, Fault> {
        let replaced = context.iter().fold(text.to_string(), |text, (key, value)| {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_string);
            text.replace(&format!("{{{{ {key} }}}}"), &value)
        });
        Ok(replaced)
    }

    fn setting(&self, key: &str) -> Option<Json> {
        match key {
            "app:motd" => Some("hello\n".into()),
            "app:name" => Some("shop".into()),
            "app:port" => Some(8080.into()),
            _ => None,
        }
    }

    fn fact(&self, key: &str) -> Option<Json> {
        (key == "os:name").then(|| "Debian".into())
    }

    /// JSON is YAML.
    fn parse_yaml(&self, text: &str) -> Result<Json, Fault> {
        serde_json::from_str(text).map_err(|error| Fault::new(FaultKind::Unsupported, error.to_string()))
    }

    fn to_yaml(&self, value: &Json) -> Result<String, Fault> {
        Ok(value.to_string())
    }

    fn mode(&self, uri: &str) -> Result<u32, Fault> {
        self.read(uri).map(|_| 0o750)
    }

    fn list(&self, uri: &str) -> Result<Vec<SourceEntry>, Fault> {
        let entry = |path: &str, sort| SourceEntry { path: path.to_string(), sort };
        match uri {
            "salt://app/conf.d" => Ok(vec![entry("leaf", SourceSort::File { mode: 0o644 })]),
            "salt://tree" => Ok(vec![
                entry("branch", SourceSort::Directory { mode: 0o700 }),
                entry("branch/leaf", SourceSort::File { mode: 0o640 }),
                entry("leaf", SourceSort::File { mode: 0o644 }),
            ]),
            _ => Err(Fault::new(FaultKind::NotFound, format!("there is no directory {uri}"))),
        }
    }
}

type Snapshot = BTreeMap<PathBuf, String>;

struct Machine {
    files: Arc<Overlay>,
    processes: Arc<dyn Processes>,
    blobs: MemoryBlobStore,
}

/// What became of check, save_before_image and apply on a host that may fail.
enum Went {
    Clean,
    Applied(Change, Json),
    /// With the record that the journal would hold by then.
    Failed(Option<Json>),
}

impl Machine {
    fn snapshot(&self) -> Snapshot {
        self.files.snapshot().expect("a machine in memory can be read")
    }

    async fn check(
        &self,
        bound: &dyn Bound,
        host: &dyn HostRead,
        query: &dyn Processes,
    ) -> Result<Option<Drift>, Fault> {
        let cancel = CancellationToken::new();
        let query = Query::through(query);
        let cx = Checking { host, query, files: &FewFiles, forced: None, dry_run: false, cancel: &cancel };
        bound.check(&cx).await
    }

    async fn run(
        &self,
        bound: &dyn Bound,
        host: &dyn HostWrite,
        reads: &dyn HostRead,
        processes: &dyn Processes,
    ) -> Went {
        let mut drift = match self.check(bound, reads, processes).await {
            Ok(Some(drift)) => drift,
            Ok(None) => return Went::Clean,
            Err(_) => return Went::Failed(None),
        };
        if bound.save_before_image(&mut drift, reads, &self.blobs).is_err() {
            return Went::Failed(None);
        }
        let record = bound.undo_record(&drift).expect("a drift can be recorded");
        let cancel = CancellationToken::new();
        let cx = Applying::new(host, processes, &cancel);
        match bound.apply(&drift, &cx).await {
            Ok(change) => {
                let record = change.undo.clone().unwrap_or(record);
                Went::Applied(change, record)
            }
            Err(fault) => Went::Failed(Some(fault.undo.map_or(record, |done| *done))),
        }
    }

    async fn run_well(&self, bound: &dyn Bound) -> Went {
        self.run(bound, &*self.files, &*self.files, &*self.processes).await
    }

    async fn revert(
        &self,
        kind: &str,
        record: &Json,
        host: &dyn HostWrite,
        processes: &dyn Processes,
    ) -> Result<Change, Fault> {
        let cancel = CancellationToken::new();
        let left = Default::default();
        let blobs = &self.blobs;
        let cx = Reverting { host, processes, blobs, cancel: &cancel, force: false, left: &left };
        crate::revert(kind, record, &cx).await
    }

    async fn revert_well(&self, kind: &str, record: &Json) -> Change {
        let reverted = self.revert(kind, record, &*self.files, &*self.processes).await;
        reverted.unwrap_or_else(|fault| panic!("{kind}: revert failed: {fault}"))
    }
}

/// Runs a case through all laws that its promise allows.
pub fn hold(case: &Case) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        check_writes_nothing(case).await;
        match case.promise {
            Promise::Fails => fails(case).await,
            Promise::Clean => stays_clean(case).await,
            Promise::Acts => acts(case).await,
            Promise::Converges => {
                converges_and_reverts(case).await;
                dry_run_is_true(case).await;
                never_happened(case).await;
            }
        }
        if case.promise != Promise::Fails {
            survives_faults(case).await;
        }
    });
}

async fn check_writes_nothing(case: &Case) {
    let machine = case.machine();
    let before = machine.snapshot();
    // A check that fails must not have written either.
    drop(machine.check(&*case.bound(), &*machine.files, &*machine.processes).await);
    assert_eq!(machine.snapshot(), before, "{}: check wrote something", case.kind);
}

async fn fails(case: &Case) {
    let machine = case.machine();
    let failed = matches!(machine.run_well(&*case.bound()).await, Went::Failed(_));
    assert!(failed, "{}: it was promised to fail", case.kind);
}

async fn stays_clean(case: &Case) {
    let machine = case.machine();
    let before = machine.snapshot();
    let clean = matches!(machine.run_well(&*case.bound()).await, Went::Clean);
    assert!(clean, "{}: it was promised to find nothing to do", case.kind);
    assert_eq!(machine.snapshot(), before);
}

async fn acts(case: &Case) {
    let machine = case.machine();
    let bound = case.bound();
    for _ in 0..2 {
        let acted = matches!(machine.run_well(&*bound).await, Went::Applied(change, _) if change.changed);
        assert!(acted, "{}: it was promised to act every time", case.kind);
    }
}

async fn converges_and_reverts(case: &Case) {
    let machine = case.machine();
    let bound = case.bound();
    let before = machine.snapshot();
    let Went::Applied(change, record) = machine.run_well(&*bound).await else {
        panic!("{}: apply did not succeed", case.kind);
    };
    assert!(change.changed, "{}: apply says that nothing changed", case.kind);
    if let Some((path, text)) = &case.leaves {
        let there = machine.files.read(path, FILE_BYTES_MAX).expect("the file is there");
        let there = String::from_utf8_lossy(&there);
        assert!(
            there.contains(text),
            "{}: {} does not hold\n{text}\nbut\n{there}",
            case.kind,
            path.display()
        );
    }
    let after = machine.snapshot();
    let again = matches!(machine.run_well(&*bound).await, Went::Clean);
    assert!(again, "{}: check is not clean after apply", case.kind);
    assert_eq!(machine.snapshot(), after, "{}: applying twice differs from once", case.kind);
    if !bound.undoable() {
        return;
    }
    // From the record alone, as it stands in the journal.
    let record: Json = serde_json::from_str(&record.to_string()).expect("a record is JSON");
    let reverted = machine.revert_well(case.kind, &record).await;
    assert!(reverted.changed, "{}: revert says that nothing changed", case.kind);
    assert_eq!(machine.snapshot(), before, "{}: revert did not restore everything", case.kind);
    let again = machine.revert_well(case.kind, &record).await;
    assert!(!again.changed, "{}: reverting twice differs from once", case.kind);
    assert_eq!(machine.snapshot(), before);
}

async fn dry_run_is_true(case: &Case) {
    let machine = case.machine();
    let bound = case.bound();
    let drift = machine.check(&*bound, &*machine.files, &*machine.processes).await;
    let drift = drift.ok().flatten().expect("a case that converges has something to do");
    let below = Arc::clone(&machine.files);
    let overlay = Overlay::over(below);
    let before = machine.snapshot();
    bound.predict(&drift, &overlay).unwrap_or_else(|fault| panic!("{}: predict failed: {fault}", case.kind));
    assert_eq!(machine.snapshot(), before, "{}: a dry run wrote to the machine", case.kind);
    let clean = machine.check(&*bound, &overlay, &*machine.processes).await;
    assert!(matches!(clean, Ok(None)), "{}: check is not clean after its dry run", case.kind);
    let mut predicted = overlay.snapshot().expect("a machine in memory can be read");
    let applied = matches!(machine.run_well(&*bound).await, Went::Applied(..));
    assert!(applied, "{}: apply did not succeed", case.kind);
    let words = "the dry run did not end up as the machine did";
    let ended = machine.snapshot();
    // That it is there is all that was said.
    for (path, line) in predicted.iter_mut().filter(|(_, line)| line.starts_with(UNKNOWN_FILE)) {
        line.clone_from(ended.get(path).unwrap_or_else(|| panic!("{}: {words}", case.kind)));
    }
    assert_eq!(case.without_books(predicted), case.without_books(ended), "{}: {words}", case.kind);
}

async fn never_happened(case: &Case) {
    let machine = case.machine();
    let bound = case.bound();
    if !bound.undoable() {
        return;
    }
    let drift = machine.check(&*bound, &*machine.files, &*machine.processes).await;
    let mut drift = drift.ok().flatten().expect("a case that converges has something to do");
    bound.save_before_image(&mut drift, &*machine.files, &machine.blobs).expect("what is there can be kept");
    let record = bound.undo_record(&drift).expect("a drift can be recorded");
    let before = machine.snapshot();
    let change = machine.revert_well(case.kind, &record).await;
    assert!(!change.changed, "{}: reverting what never happened changed something", case.kind);
    assert_eq!(machine.snapshot(), before);
}

/// Counts the calls of a good run, then runs it again and again with one of them failing.
async fn survives_faults(case: &Case) {
    let (before, after, calls) = {
        let machine = case.machine();
        let before = machine.snapshot();
        let host = Faulty::new(&*machine.files, &*machine.processes, Plan::EmptyHost);
        machine.run(&*case.bound(), &host, &host, &host).await;
        (before, machine.snapshot(), host.calls())
    };
    for number in 0..calls {
        for plan in [Plan::Once(number), Plan::From(number)] {
            survives(case, plan, &before, &after).await;
        }
    }
}

async fn survives(case: &Case, plan: Plan, before: &Snapshot, after: &Snapshot) {
    let machine = case.machine();
    let bound = case.bound();
    let host = Faulty::new(&*machine.files, &*machine.processes, plan);
    let went = machine.run(&*bound, &host, &host, &host).await;
    if host.failed() == 0 {
        return;
    }
    let left = machine.snapshot();
    for (path, line) in &left {
        let known = before.get(path) == Some(line)
            || after.get(path) == Some(line)
            || is_between(path, line, before, after);
        // What a command needs for itself while it runs lives in the temp directory; its books are its own.
        let own = path.starts_with("/tmp") || case.books.iter().any(|book| path.starts_with(book));
        assert!(known || own, "{}, {plan:?}: {} is half done: {line}", case.kind, path.display());
    }
    let record = match went {
        Went::Failed(record) => record,
        // A call may be one of two ways to learn the same (was the directory made meanwhile?); then all must
        // be well.
        Went::Applied(..) | Went::Clean => {
            assert_eq!(&left, after, "{}, {plan:?}: a failed call was passed over", case.kind);
            None
        }
    };
    if let Some(record) = record.filter(|_| bound.undoable()) {
        machine.revert_well(case.kind, &record).await;
        assert_eq!(
            &machine.snapshot(),
            before,
            "{}, {plan:?}: revert after the failure did not restore",
            case.kind
        );
    }
}

/// The same content with attributes of both: owner and mode of an existing thing are two calls.
fn is_between(path: &PathBuf, line: &str, before: &Snapshot, after: &Snapshot) -> bool {
    let fields = |line: &String| -> Vec<String> { line.rsplitn(3, ' ').map(str::to_string).collect() };
    let (Some(before), Some(after)) = (before.get(path), after.get(path)) else { return false };
    let (before, after, line) = (fields(before), fields(after), fields(&line.to_string()));
    line.iter().zip(before.iter().zip(&after)).all(|(line, (before, after))| line == before || line == after)
}
