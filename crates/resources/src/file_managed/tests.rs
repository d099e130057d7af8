use crate::context::{Applying, Checking, Reverting};
use crate::laws::{Case, FewFiles, MemoryBlobStore, Promise, bind_json, furnish};
use crate::{Bound, Drift};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::overlay::Overlay;
use zester_host::process::fake::Scripted;
use zester_host::{Fault, FaultKind, FileKind, HostWrite, NewFile, Query};
use zester_rule::rule;

const HELLO: &str = "sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

pub(crate) fn cases() -> Vec<Case> {
    let served = |mut params: Json, promise, world: &'static str| {
        params["path"] = json!("/f");
        Case::new("file.managed", params, promise, move |host| {
            host.serve("https://host/hello", b"hello");
            host.serve("https://host/other", b"other");
            let digits = HELLO.trim_start_matches("sha256=");
            host.serve(
                "https://host/sums",
                format!("{}  other\n{digits}  hello\n", "0".repeat(64)).as_bytes(),
            );
            furnish(host, world)
        })
    };
    let case = |params, promise, world: &'static str| {
        Case::new("file.managed", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "path": "/f", "content": "new" }), Promise::Converges, ""),
        case(json!({ "path": "/f", "content": "new" }), Promise::Converges, "f /f 0604 old"),
        case(json!({ "path": "/f", "content": "old" }), Promise::Clean, "f /f 0604 old"),
        case(
            json!({ "path": "/f", "content": "new", "mode": "0600", "user": "web", "backup": true }),
            Promise::Converges,
            "f /f 0640 old\nx /f user.note text\nx /f security.capability rights\nx /f system.posix_acl_access list",
        ),
        case(
            json!({ "path": "/f", "mode": "0600", "user": "web" }),
            Promise::Converges,
            "f /f 0640 old\nx /f user.note text\nx /f security.capability rights",
        ),
        case(
            json!({ "path": "/f", "content": "new", "mode": "0600", "user": "web" }),
            Promise::Converges,
            "f /f 0604 old",
        ),
        case(
            json!({ "path": "/f", "mode": "4755", "user": "web", "group": "9" }),
            Promise::Converges,
            "f /f 0604 old",
        ),
        case(json!({ "path": "/f", "replace": false, "content": "new" }), Promise::Clean, "f /f 0604 old"),
        case(json!({ "path": "/f", "create": false, "content": "new" }), Promise::Clean, ""),
        case(json!({ "path": "/a/b/f", "content": "new", "makedirs": true }), Promise::Converges, ""),
        case(json!({ "path": "/a/b/f", "content": "new" }), Promise::Fails, ""),
        case(json!({ "path": "/f/g", "content": "new", "makedirs": true }), Promise::Fails, "f /f 0644 file"),
        case(json!({ "path": "/d", "content": "new" }), Promise::Fails, "d /d 0755"),
        case(json!({ "path": "/l", "content": "new" }), Promise::Converges, "f /f 0644 file\nl /l f"),
        case(
            json!({ "path": "/l", "content": "new", "follow_symlinks": false }),
            Promise::Converges,
            "f /f 0644 file\nl /l f",
        ),
        case(json!({ "path": "/l", "content": "new" }), Promise::Converges, "d /d 0755\nl /l d/f"),
        case(json!({ "path": "/l", "content": "new" }), Promise::Fails, "l /l no/f"),
        case(json!({ "path": "/l", "content": "new" }), Promise::Fails, "l /l l"),
        case(json!({ "path": "/l/f", "content": "new" }), Promise::Converges, "d /d 0755\nl /l d"),
        case(
            json!({ "path": "/f", "content": "new", "backup": true, "user": "web" }),
            Promise::Converges,
            "f /f 0604 old",
        ),
        case(
            json!({ "path": "/f", "content": "new", "backup": true }),
            Promise::Converges,
            "f /f 0604 old\nf /f~ 0640 older",
        ),
        case(
            json!({ "path": "/f", "content": "new", "backup": ".orig" }),
            Promise::Converges,
            "f /f 0604 old\nl /f.orig f",
        ),
        case(
            json!({ "path": "/f", "content": "new", "backup": true }),
            Promise::Fails,
            "f /f 0604 old\nd /f~ 0755",
        ),
        case(json!({ "path": "/f", "content": "new", "user": "nobody-here" }), Promise::Fails, ""),
        case(json!({ "path": "/f", "source": "/src" }), Promise::Converges, "f /src 0600 from here"),
        case(json!({ "path": "/f", "source": ["salt://nope", "salt://run.sh"] }), Promise::Converges, ""),
        case(json!({ "path": "/f", "source": "salt://nope" }), Promise::Fails, ""),
        case(json!({ "path": "/f", "contents_pillar": "app:motd" }), Promise::Converges, ""),
        case(json!({ "path": "/f", "content": "", "allow_empty": false }), Promise::Fails, ""),
        case(json!({ "path": "/f", "contents_grains": "os:name" }), Promise::Converges, ""),
        case(json!({ "path": "/f", "contents_grains": "os:none" }), Promise::Fails, ""),
        case(
            json!({ "path": "/f", "source": "/src", "mode": "keep" }),
            Promise::Converges,
            "f /src 0601 here",
        ),
        case(json!({ "path": "/f", "source": "salt://run.sh", "mode": "keep" }), Promise::Converges, ""),
        case(
            json!({ "path": "/f", "source": "/src", "source_hash": HELLO }),
            Promise::Converges,
            "f /src 0600 hello",
        ),
        case(
            json!({ "path": "/f", "source": "/src", "source_hash": HELLO }),
            Promise::Fails,
            "f /src 0600 other",
        ),
        case(json!({ "path": "/f", "content": "ä", "encoding": "latin-1" }), Promise::Converges, ""),
        case(json!({ "path": "/f", "content": "ä", "encoding": "ascii" }), Promise::Fails, ""),
        case(json!({ "path": "/f", "content": "a", "tmp_dir": "/none" }), Promise::Fails, ""),
        served(json!({ "source": "https://host/hello", "source_hash": HELLO }), Promise::Converges, ""),
        served(
            json!({ "source": "https://host/hello", "source_hash": HELLO, "mode": "0600" }),
            Promise::Converges,
            "f /f 0644 hello",
        ),
        served(
            json!({ "source": "https://host/hello", "source_hash": HELLO }),
            Promise::Clean,
            "f /f 0644 hello",
        ),
        served(
            json!({ "source": "https://host/hello", "skip_verify": true }),
            Promise::Converges,
            "f /f 0644 old",
        ),
        served(
            json!({ "source": "https://host/hello", "source_hash": "https://host/sums" }),
            Promise::Converges,
            "",
        ),
        served(json!({ "source": "https://host/other", "source_hash": HELLO }), Promise::Fails, ""),
        served(
            json!({ "source": ["https://host/none", "https://host/hello"], "source_hash": HELLO }),
            Promise::Converges,
            "",
        ),
        served(json!({ "source": "https://host/none", "source_hash": HELLO }), Promise::Fails, ""),
    ]
}

/// A machine, a blob store, and the state under test.
pub(crate) struct Bench {
    kind: &'static str,
    pub(crate) host: Arc<dyn HostWrite>,
    blobs: MemoryBlobStore,
    processes: Scripted,
    cancel: CancellationToken,
    left: crate::context::LeftDirs,
}

impl Bench {
    fn new(things: &str) -> Bench {
        Bench::of("file.managed", things)
    }

    pub(crate) fn of(kind: &'static str, things: &str) -> Bench {
        let host = Arc::new(Overlay::empty());
        furnish(&host, things);
        Bench::on(kind, host)
    }

    pub(crate) fn on(kind: &'static str, host: Arc<dyn HostWrite>) -> Bench {
        Bench {
            kind,
            host,
            blobs: MemoryBlobStore::default(),
            processes: Scripted::new(),
            cancel: CancellationToken::new(),
            left: Default::default(),
        }
    }

    pub(crate) async fn check(&self, bound: &dyn Bound) -> Result<Option<Drift>, Fault> {
        let cx = Checking {
            host: &*self.host,
            query: Query::through(&self.processes),
            files: &FewFiles,
            forced: None,
            dry_run: false,
            cancel: &self.cancel,
        };
        bound.check(&cx).await
    }

    /// Applies and returns the diff and the undo record.
    pub(crate) async fn apply(&self, params: Json) -> (String, Json) {
        let bound = bind_json(self.kind, &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
        let mut drift = self.check(&*bound).await.unwrap().expect("something to do");
        bound.save_before_image(&mut drift, &*self.host, &self.blobs).unwrap();
        let record = bound.undo_record(&drift).unwrap();
        let cx = Applying::new(&*self.host, &self.processes, &self.cancel);
        (bound.apply(&drift, &cx).await.unwrap().diff, record)
    }

    pub(crate) async fn revert(&self, record: &Json, force: bool) -> Result<bool, Fault> {
        let cx = Reverting {
            host: &*self.host,
            processes: &self.processes,
            blobs: &self.blobs,
            cancel: &self.cancel,
            force,
            left: &self.left,
        };
        crate::revert(self.kind, record, &cx).await.map(|change| change.changed)
    }

    fn content(&self, path: &str) -> String {
        String::from_utf8(self.host.read(path.as_ref(), 1000).unwrap()).unwrap()
    }
}

#[tokio::test]
#[rule("S-31")]
async fn s31_what_somebody_changed_since_is_not_overwritten_but_by_force() {
    let bench = Bench::new("f /f 0604 old");
    let (_, record) = bench.apply(json!({ "path": "/f", "content": "new" })).await;
    let theirs = NewFile { content: b"theirs", mode: 0o644, owner: bench.host.me() };
    bench.host.put_file("/f".as_ref(), &theirs).unwrap();
    let fault = bench.revert(&record, false).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::ChangedSince);
    assert!(fault.message.contains("/f was changed since"), "{fault}");
    assert_eq!(bench.content("/f"), "theirs");
    assert!(bench.revert(&record, true).await.unwrap());
    assert_eq!(bench.content("/f"), "old");
}

#[tokio::test]
#[rule("S-31")]
async fn s31_directories_made_by_makedirs_go_only_if_empty() {
    let bench = Bench::new("");
    let (_, record) = bench.apply(json!({ "path": "/a/b/f", "content": "new", "makedirs": true })).await;
    let theirs = NewFile { content: b"theirs", mode: 0o644, owner: bench.host.me() };
    bench.host.put_file("/a/other".as_ref(), &theirs).unwrap();
    assert!(bench.revert(&record, false).await.unwrap());
    assert!(bench.host.stat("/a/b".as_ref()).unwrap().is_none());
    assert_eq!(bench.content("/a/other"), "theirs");
}

#[tokio::test]
#[rule("S-30")]
async fn s30_the_diff_shows_content_mode_and_owner() {
    let bench = Bench::new("f /f 0604 old");
    let (diff, _) =
        bench.apply(json!({ "path": "/f", "content": "new\n", "mode": "0600", "user": "web" })).await;
    assert!(diff.contains("-old") && diff.contains("+new"), "{diff}");
    assert!(diff.contains("mode: 0604 → 0600\n") && diff.contains("owner: 7:8 → 33:8\n"), "{diff}");
}

#[tokio::test]
async fn secrets_are_not_shown() {
    let bench = Bench::new("f /f 0604 old-secret");
    let (diff, record) =
        bench.apply(json!({ "path": "/f", "content": "s3cret", "show_changes": false })).await;
    assert_eq!(diff, "content differs (not shown)\n");
    assert!(!record.to_string().contains("s3cret"), "{record}");
}

#[tokio::test]
async fn a_backup_keeps_the_old_file_beside_the_new_one() {
    let bench = Bench::new("f /f 0604 old");
    bench.apply(json!({ "path": "/f", "content": "new", "backup": true })).await;
    assert_eq!((bench.content("/f"), bench.content("/f~")), ("new".into(), "old".into()));
    bench.apply(json!({ "path": "/f", "content": "newer", "backup": ".orig" })).await;
    assert_eq!(bench.content("/f.orig"), "new");
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_backup_goes_with_the_change_and_an_older_one_comes_back() {
    let bench = Bench::new("f /f 0604 old\nf /g 0604 old\nf /g~ 0640 older");
    let (_, record) = bench.apply(json!({ "path": "/f", "content": "new", "backup": true })).await;
    assert!(bench.revert(&record, false).await.unwrap());
    assert_eq!(bench.content("/f"), "old");
    assert_eq!(bench.host.stat("/f~".as_ref()).unwrap(), None);
    let (_, record) = bench.apply(json!({ "path": "/g", "content": "new", "backup": true })).await;
    assert_eq!(bench.content("/g~"), "old");
    assert!(bench.revert(&record, false).await.unwrap());
    assert_eq!((bench.content("/g"), bench.content("/g~")), ("old".into(), "older".into()));
    assert!(!bench.revert(&record, false).await.unwrap());
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_directory_that_was_moved_and_linked_since_is_followed_by_the_revert() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("app")).unwrap();
    std::fs::write(top.join("app/f"), "old").unwrap();
    let bench = Bench::on("file.managed", Arc::new(zester_host::real::Real::new()));
    let (_, record) = bench.apply(json!({ "path": top.join("app/f"), "content": "new" })).await;
    let made = json!({ "path": top.join("app/x/y/g"), "content": "new", "makedirs": true });
    let (_, deep) = bench.apply(made).await;
    std::fs::rename(top.join("app"), top.join("moved")).unwrap();
    std::os::unix::fs::symlink("moved", top.join("app")).unwrap();
    assert!(bench.revert(&record, false).await.unwrap());
    assert_eq!(std::fs::read_to_string(top.join("moved/f")).unwrap(), "old");
    if bench.host.me().uid == 0 {
        std::os::unix::fs::lchown(top.join("app"), Some(7), Some(7)).unwrap();
        let fault = bench.revert(&deep, true).await.unwrap_err();
        assert!(fault.message.contains("app is a link of user 7 that leads to"), "{fault}");
        assert!(fault.hint.as_ref().unwrap().contains("put the directory back"), "{fault:?}");
        std::os::unix::fs::lchown(top.join("app"), Some(0), Some(0)).unwrap();
    }
    assert!(bench.revert(&deep, false).await.unwrap());
    assert!(!top.join("moved/x").exists());
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_candidate_that_was_half_written_goes_with_the_revert() {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    std::fs::write(top.join("f"), "old").unwrap();
    let bench = Bench::on("file.managed", Arc::new(zester_host::real::Real::new()));
    let (_, record) = bench.apply(json!({ "path": top.join("f"), "content": "new" })).await;
    let named = |prefix: &str, name: &str| {
        format!("{prefix}{}", &zester_host::digest::sha256_hex(name.as_bytes())[..16])
    };
    let candidate = named(".zester-check-", "f");
    for left in [named(".zester-", &candidate), candidate] {
        std::fs::write(top.join(left), "ne").unwrap();
    }
    assert!(bench.revert(&record, false).await.unwrap());
    let names: Vec<_> = std::fs::read_dir(&top).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["f"]);
}

#[test]
#[rule("S-57")]
fn s57_what_makes_another_file_is_another_intent() {
    let claims = |mut params: Json| {
        params["path"] = "/f".into();
        bind_json("file.managed", &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}")).claims()
    };
    let differ = |one: Json, other: Json| claims(one).owned[0].disagrees(&claims(other).owned[0]);
    for (one, other, aspect) in [
        (json!({ "content": "hi" }), json!({ "contents": "hi" }), Some("content")),
        (json!({ "content": "hi\n" }), json!({ "contents": "hi" }), None),
        (json!({ "contents": "hi", "contents_newline": false }), json!({ "content": "hi" }), None),
        (json!({ "source": "x", "contents_newline": true }), json!({ "source": "x" }), Some("content")),
        (
            json!({ "content": "{{ x }}", "template": "jinja" }),
            json!({ "contents": "{{ x }}", "template": "jinja" }),
            Some("content"),
        ),
        (json!({ "content": "hi", "replace": false }), json!({ "content": "hi" }), Some("replace")),
        (json!({ "mode": "0600" }), json!({ "content": "hi", "replace": false }), None),
        (
            json!({ "content": "hi", "follow_symlinks": false }),
            json!({ "content": "hi" }),
            Some("follow_symlinks"),
        ),
    ] {
        assert_eq!(differ(one.clone(), other.clone()), aspect, "{one} {other}");
    }
}

#[tokio::test]
#[rule("S-47")]
async fn s47_contents_ends_with_a_newline_and_content_is_verbatim() {
    let bench = Bench::new("");
    for (path, params, holds) in [
        ("/a", json!({ "contents": "hello" }), "hello\n"),
        ("/b", json!({ "content": "hello" }), "hello"),
        ("/c", json!({ "text": "hello" }), "hello"),
        ("/d", json!({ "contents": "hello\n" }), "hello\n"),
        ("/e", json!({ "contents": ["a", "b"], "contents_newline": false }), "a\nb"),
        ("/f", json!({ "contents": "hello\n", "contents_newline": false }), "hello"),
        ("/g", json!({ "content": "hello", "contents_newline": true }), "hello\n"),
        ("/h", json!({ "content": "hello\n", "contents_newline": false }), "hello\n"),
        ("/i", json!({ "contents": "" }), ""),
        ("/j", json!({ "contents": 1 }), "1\n"),
    ] {
        let mut params = params;
        params["path"] = path.into();
        bench.apply(params.clone()).await;
        assert_eq!(bench.content(path), holds, "{params}");
    }
}

#[tokio::test]
#[rule("S-47")]
async fn s47_a_link_is_followed_unless_the_state_says_otherwise() {
    let bench = Bench::new("f /f 0604 old\nl /l f");
    let (_, record) = bench.apply(json!({ "path": "/l", "content": "new" })).await;
    assert_eq!(bench.content("/f"), "new");
    assert_eq!(bench.host.stat("/l".as_ref()).unwrap().unwrap().kind, FileKind::Link);
    bench.revert(&record, false).await.unwrap();
    assert_eq!(bench.content("/f"), "old");
    let (diff, record) =
        bench.apply(json!({ "path": "/l", "content": "new", "follow_symlinks": false })).await;
    assert!(diff.starts_with("replaces the link to f\n"), "{diff}");
    assert_eq!((bench.content("/f"), bench.content("/l")), ("old".into(), "new".into()));
    bench.revert(&record, false).await.unwrap();
    assert_eq!(bench.host.read_link("/l".as_ref()).unwrap(), std::path::Path::new("f"));
}

#[tokio::test]
async fn root_follows_the_link_of_a_user_only_to_what_is_theirs() {
    let bench =
        Bench::new("d /home 0755\nf /home/own 0644 own\nl /home/f own\nl /home/bad /tmp/f\nl /home/tmp /tmp");
    let root = NewFile { content: b"root's", mode: 0o600, owner: bench.host.me() };
    bench.host.put_file("/tmp/f".as_ref(), &root).unwrap();
    bench.apply(json!({ "path": "/home/f", "content": "new" })).await;
    assert_eq!(bench.content("/home/own"), "new");
    for path in ["/home/bad", "/home/tmp/f", "/home/tmp/new"] {
        let bound = bind_json("file.managed", &json!({ "path": path, "content": "new" })).ok().unwrap();
        let fault = bench.check(&*bound).await.err().expect(path);
        assert!(fault.message.contains("is a link of user 7 that leads to /tmp"), "{fault}");
    }
    assert_eq!(bench.content("/tmp/f"), "root's");
}

#[tokio::test]
async fn content_is_byte_exact_and_a_list_is_lines() {
    let bench = Bench::new("");
    bench.apply(json!({ "path": "/one", "content": 1 })).await;
    bench.apply(json!({ "path": "/lines", "content": ["a", "b"] })).await;
    bench.apply(json!({ "path": "/ended", "content": "x", "contents_newline": true })).await;
    assert_eq!(bench.content("/one"), "1");
    assert_eq!(bench.content("/lines"), "a\nb\n");
    assert_eq!(bench.content("/ended"), "x\n");
}

#[tokio::test]
async fn a_template_is_rendered_with_defaults_under_context() {
    let bench = Bench::new("");
    let context = json!({ "path": "/t", "content": "{{ a }} {{ b }}", "template": "jinja",
        "defaults": { "a": "default", "b": "default" }, "context": { "b": 2 } });
    bench.apply(context).await;
    assert_eq!(bench.content("/t"), "default 2");
}

#[tokio::test]
async fn a_new_file_without_content_is_empty_and_has_the_usual_mode() {
    let bench = Bench::new("");
    let (diff, _) = bench.apply(json!({ "path": "/f" })).await;
    assert_eq!(diff, "new empty file\n");
    assert_eq!(bench.host.stat("/f".as_ref()).unwrap().unwrap().mode, 0o644);
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_directory_that_two_states_share_goes_with_the_last_of_them() {
    let bench = Bench::new("");
    let (_, first) = bench.apply(json!({ "path": "/d/e/first", "content": "1", "makedirs": true })).await;
    let (_, second) = bench.apply(json!({ "path": "/d/e/second", "content": "2", "makedirs": true })).await;
    assert!(bench.revert(&first, false).await.unwrap());
    assert!(bench.host.stat("/d/e".as_ref()).unwrap().is_some(), "the second file is still inside");
    assert!(bench.revert(&second, false).await.unwrap());
    assert!(bench.host.stat("/d".as_ref()).unwrap().is_none());
}

#[tokio::test]
#[rule("S-30")]
async fn s30_what_has_the_digest_already_is_not_fetched() {
    // There is no server: fetching would be a fault.
    let bench = Bench::new("f /f 0604 hello");
    let params = json!({ "path": "/f", "source": "https://host/hello", "source_hash": HELLO });
    let bound = bind_json("file.managed", &params).ok().unwrap();
    assert!(bench.check(&*bound).await.unwrap().is_none());
    let bench = Bench::new("f /f 0604 other");
    let fault = bench.check(&*bound).await.err().unwrap();
    assert!(fault.message.contains("https://host/hello"), "{fault}");
}

#[tokio::test]
async fn a_source_that_nobody_vouches_for_is_refused_or_warned_of() {
    let bound = |params: Json| bind_json("file.managed", &params);
    let unsaid = bound(json!({ "path": "/f", "source": "https://host/x" })).err().unwrap();
    assert!(unsaid[0].message.contains("nothing says what `https://host/x` is to be"), "{unsaid:?}");
    for bad in ["sha256=12", "sums.txt", "ftp://host/sums"] {
        let params = json!({ "path": "/f", "source": "https://host/x", "source_hash": bad });
        assert!(bound(params).err().unwrap()[0].message.contains("`source_hash`"), "{bad}");
    }
    let secret =
        bound(json!({ "path": "/f", "source": "https://me:pw@host/x", "skip_verify": true })).err().unwrap();
    assert!(secret[0].hint.as_ref().unwrap().contains("a password in an address"), "{secret:?}");
    let host = Arc::new(Overlay::empty());
    host.serve("https://host/x", b"x");
    let bench = Bench::on("file.managed", host);
    let bound = bound(json!({ "path": "/f", "source": "https://host/x", "skip_verify": true })).ok().unwrap();
    let drift = bench.check(&*bound).await.unwrap().unwrap();
    let warning = bound.explain(&drift, false).details["warning"].to_string();
    assert!(warning.contains("was not verified"), "{warning}");
}
