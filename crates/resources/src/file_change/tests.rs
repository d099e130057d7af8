//! Who else is at a file, and who is to see what it holds.

use crate::context::{Applying, CandidateCheck, Change, Checking, StateFileSource};
use crate::file_managed::Bench;
use crate::laws::{FewFiles, MemoryBlobStore, bind_json};
use crate::{Bound, Drift};
use serde_json::{Value as Json, json};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::faulty::{Faulty, Plan};
use zester_host::process::fake::Scripted;
use zester_host::real::Real;
use zester_host::{BoxFuture, ChangeTracker, Fault, FaultKind, NewFile, Query};
use zester_model::outcome::Details;
use zester_rule::rule;
use zester_secret::{Revealed, SecretText, Secrets};

fn bound(kind: &str, params: &Json) -> Box<dyn Bound> {
    bind_json(kind, params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
}

/// Somebody works on the file while the new content is tried.
struct Meddling<F>(F);

impl<F: Fn() + Send + Sync> CandidateCheck for Meddling<F> {
    fn pass<'a>(&'a self, _candidate: &'a Path) -> BoxFuture<'a, Result<(), Fault>> {
        (self.0)();
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Checks, keeps what is there, and applies after somebody did something.
async fn apply_after(
    bench: &Bench,
    kind: &str,
    params: Json,
    meddle: impl Fn() + Send + Sync,
) -> Result<Change, Fault> {
    let bound = bound(kind, &params);
    let mut drift: Drift = bench.check(&*bound).await.unwrap().expect("something to do");
    bound.save_before_image(&mut drift, &*bench.host, &MemoryBlobStore::default()).unwrap();
    let (processes, cancel) = (Scripted::new(), CancellationToken::new());
    if !bound.check_cmd_first() {
        meddle();
        return bound.apply(&drift, &Applying::new(&*bench.host, &processes, &cancel)).await;
    }
    let check = Meddling(meddle);
    let cx = Applying { candidate_check: Some(&check), ..Applying::new(&*bench.host, &processes, &cancel) };
    bound.apply(&drift, &cx).await
}

fn names(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
#[rule("S-31")]
async fn s31_what_somebody_wrote_a_moment_ago_is_not_overwritten() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let bench = Bench::on("file.managed", Arc::new(Real::new()));
    let path = |name: &str| top.join(name);
    for name in ["edited", "appended", "gone"] {
        fs::write(path(name), "old\n").unwrap();
    }
    let managed = |name: &str| json!({ "path": path(name), "content": "ours\n" });
    let appended = json!({ "path": path("appended"), "text": "ours" });
    let theirs = |name: &'static str| {
        let path = path(name);
        move || fs::write(&path, "theirs\n").unwrap()
    };
    let gone = path("gone");
    for fault in [
        apply_after(&bench, "file.managed", managed("made"), theirs("made")).await.unwrap_err(),
        apply_after(&bench, "file.managed", managed("edited"), theirs("edited")).await.unwrap_err(),
        apply_after(&bench, "file.append", appended, theirs("appended")).await.unwrap_err(),
        apply_after(&bench, "file.managed", managed("gone"), move || fs::remove_file(&gone).unwrap())
            .await
            .unwrap_err(),
    ] {
        assert_eq!(fault.kind, FaultKind::ChangedSince, "{fault}");
        assert!(!fault.touched && fault.hint.as_deref() == Some("run it again"), "{fault}");
    }
    for name in ["made", "edited", "appended"] {
        assert_eq!(fs::read_to_string(path(name)).unwrap(), "theirs\n", "{name}");
    }
    assert_eq!(names(&top), ["appended", "edited", "made"], "nothing is left beside them");
}

#[tokio::test]
#[rule("S-31")]
async fn s31_nor_is_it_inside_a_tree() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let bench = Bench::on("file.recurse", Arc::new(Real::new()));
    for (number, (there, content)) in
        [("leaf", None), ("leaf", Some("old")), ("stray", Some("old"))].into_iter().enumerate()
    {
        let tree = top.join(number.to_string());
        fs::create_dir(&tree).unwrap();
        let path: PathBuf = tree.join(there);
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        let params = json!({ "path": tree, "source": "salt://tree", "clean": true });
        let meddle = || fs::write(&path, "theirs").unwrap();
        let fault = apply_after(&bench, "file.recurse", params, meddle).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::ChangedSince, "{fault}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs", "{number}");
    }
}

#[tokio::test]
#[rule("S-31")]
async fn s31_nor_is_it_removed() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let bench = Bench::on("file.absent", Arc::new(Real::new()));
    let cases = [
        ("file.absent", json!({ "path": top.join("0/f") })),
        ("file.absent", json!({ "path": top.join("1") })),
        ("file.directory", json!({ "path": top.join("2"), "clean": true })),
        ("file.directory", json!({ "path": top.join("3/f"), "force": true })),
        ("file.rename", json!({ "path": top.join("4/f"), "source": top.join("source"), "force": true })),
        ("file.symlink", json!({ "path": top.join("5/f"), "target": "/", "force": true })),
        ("file.hardlink", json!({ "path": top.join("6/f"), "target": top.join("source"), "force": true })),
    ];
    fs::write(top.join("source"), "source").unwrap();
    for (number, (kind, params)) in cases.into_iter().enumerate() {
        let path = top.join(number.to_string()).join("f");
        fs::create_dir(path.parent().unwrap()).unwrap();
        fs::write(&path, "old").unwrap();
        let fault = apply_after(&bench, kind, params, || fs::write(&path, "theirs").unwrap()).await;
        let fault = fault.err().unwrap_or_else(|| panic!("{kind} {number}"));
        assert_eq!(fault.kind, FaultKind::ChangedSince, "{kind}: {fault}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs", "{kind} {number}");
    }
    assert_eq!(fs::read_to_string(top.join("source")).unwrap(), "source");
}

#[tokio::test]
#[rule("S-31")]
async fn s31_nor_does_an_empty_file_or_a_link_take_its_place() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let bench = Bench::on("file.touch", Arc::new(Real::new()));
    fs::write(top.join("source"), "source").unwrap();
    for (kind, params) in [
        ("file.touch", json!({ "path": top.join("f") })),
        ("file.symlink", json!({ "path": top.join("f"), "target": "/" })),
        ("file.hardlink", json!({ "path": top.join("f"), "target": top.join("source") })),
    ] {
        let path = top.join("f");
        let fault = apply_after(&bench, kind, params, || fs::write(&path, "theirs").unwrap()).await;
        let fault = fault.err().unwrap_or_else(|| panic!("{kind}"));
        assert_eq!(fault.kind, FaultKind::ChangedSince, "{kind}: {fault}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs", "{kind}");
        fs::remove_file(&path).unwrap();
    }
}

/// State files of which a text is a secret.
struct SecretFiles(Secrets);

impl StateFileSource for SecretFiles {
    fn read(&self, uri: &str) -> Result<Vec<u8>, Fault> {
        FewFiles.read(uri)
    }
    fn render(&self, name: &str, text: &str, context: &Details) -> Result<String, Fault> {
        FewFiles.render(name, text, context)
    }
    fn setting(&self, _key: &str) -> Option<Json> {
        None
    }
    fn reveal(&self, content: Vec<u8>) -> Result<Revealed, Fault> {
        self.0.reveal(content).map_err(|why| Fault::new(FaultKind::Unsupported, why.to_string()))
    }
}

/// Applies with a secret that the text `SECRET` stands for; `None`: nothing to do.
async fn apply_secret(bench: &Bench, mut params: Json) -> Option<Change> {
    let mut secrets = Secrets::default();
    let chance = &mut |bytes: &mut [u8]| bytes.fill(7);
    let token = secrets.add(SecretText::from("hunter2".to_string()), chance);
    params["content"] = params["content"].as_str().unwrap().replace("SECRET", &token).into();
    let (bound, files) = (bound("file.managed", &params), SecretFiles(secrets));
    let (processes, cancel) = (Scripted::new(), CancellationToken::new());
    let cx = Checking {
        host: &*bench.host,
        query: Query::through(&processes),
        files: &files,
        forced: None,
        dry_run: false,
        cancel: &cancel,
    };
    let drift = bound.check(&cx).await.unwrap()?;
    Some(bound.apply(&drift, &Applying::new(&*bench.host, &processes, &cancel)).await.unwrap())
}

#[tokio::test]
#[rule("D-15")]
async fn d15_a_file_that_begins_to_hold_a_secret_is_closed_unless_a_mode_is_said() {
    let bench = Bench::of("file.managed", "f /f 0644 old\nf /g 0644 hunter2\nf /h 0644 old\nf /i 0700 old");
    let mode = |path: &str| bench.host.stat(path.as_ref()).unwrap().unwrap().mode;
    let change = apply_secret(&bench, json!({ "path": "/f", "content": "SECRET" })).await.unwrap();
    assert_eq!(mode("/f"), 0o640, "a service may read it through its group");
    assert!(
        change.diff.contains("mode: 0644 → 0640 (it holds a secret, and no `mode` is set)"),
        "{}",
        change.diff
    );
    assert!(apply_secret(&bench, json!({ "path": "/f", "content": "SECRET" })).await.is_none());
    // What held it openly is closed as well.
    assert!(apply_secret(&bench, json!({ "path": "/g", "content": "SECRET" })).await.is_some());
    assert_eq!(mode("/g"), 0o640);
    apply_secret(&bench, json!({ "path": "/h", "content": "SECRET", "mode": "0644" })).await.unwrap();
    assert_eq!(mode("/h"), 0o644);
    apply_secret(&bench, json!({ "path": "/i", "content": "SECRET" })).await.unwrap();
    assert_eq!(mode("/i"), 0o700);
    apply_secret(&bench, json!({ "path": "/new", "content": "SECRET" })).await.unwrap();
    assert_eq!(mode("/new"), 0o600);
}

#[tokio::test]
#[rule("D-15")]
async fn d15_what_not_everybody_may_read_is_not_shown_when_it_goes() {
    let bench = Bench::of("file.managed", "f /open 0644 yesterday\nf /closed 0640 yesterday");
    for path in ["/open", "/closed"] {
        let (diff, _) = bench.apply(json!({ "path": path, "content": "today" })).await;
        assert!(diff.contains("+today"), "{diff}");
        assert_eq!(diff.contains("yesterday"), path == "/open", "{diff}");
    }
    let bench = Bench::of("file.recurse", "d /t 0755\nf /t/leaf 0600 yesterday");
    let (diff, _) = bench.apply(json!({ "path": "/t", "source": "salt://tree" })).await;
    assert!(diff.contains("+leaf") && !diff.contains("yesterday"), "{diff}");
    // An edit does not know what is around it, nor what else stands in a line.
    for (kind, params, shown) in [
        ("file.append", json!({ "text": "today" }), "+today"),
        ("file.replace", json!({ "pattern": "user=a", "repl": "user=b" }), "+(not shown"),
    ] {
        let bench = Bench::of(kind, "");
        let content = b"user=a password=yesterday\n";
        let file = NewFile { content, mode: 0o600, owner: bench.host.me() };
        bench.host.put_file("/f".as_ref(), &file).unwrap();
        let mut params = params;
        params["path"] = "/f".into();
        let (diff, _) = bench.apply(params).await;
        assert!(diff.contains(shown) && !diff.contains("yesterday"), "{diff}");
    }
}

#[tokio::test]
#[rule("S-31")]
async fn s31_the_mode_of_a_file_of_any_size_is_set_and_set_back() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().canonicalize().unwrap().join("large");
    fs::File::create(&path).unwrap().set_len(600 << 20).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let bench = Bench::on("file.managed", Arc::new(Real::new()));
    let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    let (_, record) = bench.apply(json!({ "path": path, "mode": "0600" })).await;
    assert_eq!(mode(), 0o600);
    assert!(bench.revert(&record, false).await.unwrap());
    assert_eq!(mode(), 0o644);
    let (_, record) = bench.apply(json!({ "path": path, "mode": "0600" })).await;
    fs::remove_file(&path).unwrap();
    let fault = bench.revert(&record, false).await.unwrap_err();
    assert_eq!((fault.kind, fault.hint.as_deref()), (FaultKind::ChangedSince, Some("`--force` gives it up")));
    assert!(bench.revert(&record, true).await.unwrap());
}

#[tokio::test]
#[rule("S-31")]
async fn s31_that_a_file_loses_its_other_names_is_said() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let (path, other) = (top.join("f"), top.join("other"));
    fs::write(&path, "old").unwrap();
    fs::hard_link(&path, &other).unwrap();
    let bench = Bench::on("file.managed", Arc::new(Real::new()));
    let params = json!({ "path": path, "content": "new" });
    let drift = bench.check(&*bound("file.managed", &params)).await.unwrap().unwrap();
    let explained = bound("file.managed", &params).explain(&drift, false);
    assert_eq!(explained.details["hard_links"], 2);
    let words = format!("{} has 2 names: the other goes on with the old content", path.display());
    assert!(explained.diff.contains(&words), "{}", explained.diff);
    assert_eq!(explained.details["unrestorable"], json!([path]));
    let (_, record) = bench.apply(params).await;
    assert_eq!(fs::read_to_string(&other).unwrap(), "old");
    bench.revert(&record, false).await.unwrap();
    assert_ne!(fs::metadata(&path).unwrap().ino(), fs::metadata(&other).unwrap().ino());
}

/// Each call of an apply fails once, where another state has made the directory meanwhile: whatever was done, the record
/// does not claim that directory.
async fn joins_what_others_made(kind: &'static str, world: &str, params: Json, made: &str) {
    let mut tried = 0;
    loop {
        let bench = Bench::of(kind, world);
        let bound = bound(kind, &params);
        let drift = bench.check(&*bound).await.unwrap().expect("something to do");
        bench.host.make_directory(made.as_ref(), 0o755, bench.host.me()).unwrap();
        let (processes, cancel) = (Scripted::new(), CancellationToken::new());
        let faulty = Faulty::new(&*bench.host, &processes, Plan::Once(tried));
        let tracker = ChangeTracker::new(&faulty);
        let ended = bound.apply(&drift, &Applying::new(&tracker, &processes, &cancel)).await;
        let injected = faulty.failed() > 0;
        if let Err(fault) = ended
            && (fault.touched || tracker.touched())
        {
            let record = fault.undo.as_deref().cloned();
            let record = record.unwrap_or_else(|| bound.undo_record(&drift).unwrap());
            let _ = bench.revert(&record, false).await;
            let there = bench.host.stat(made.as_ref()).unwrap();
            assert!(there.is_some(), "call {tried}: {made} was not ours to remove");
        }
        if !injected {
            break;
        }
        tried += 1;
    }
    assert!(tried > 2, "something was made to fail");
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_change_that_fails_half_way_claims_no_directory_of_another_state() {
    let tree = json!({ "path": "/t", "source": "salt://tree", "user": "web" });
    joins_what_others_made("file.recurse", "d /t 0755", tree, "/t/branch").await;
    let directory = json!({ "path": "/d", "mode": "0700", "user": "web" });
    joins_what_others_made("file.directory", "", directory, "/d").await;
    let below = json!({ "path": "/a/b/f", "content": "new", "makedirs": true });
    joins_what_others_made("file.managed", "", below, "/a").await;
}
