//! Removing a directory that holds more than files: what can come back does, the rest is named.

use super::{Bench, bind, is_root, snapshot};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::json;
use std::os::unix::net::UnixListener;
use zester_rule::rule;
use zester_testkit::skip;

#[test]
#[rule("S-31")]
fn s31_a_socket_that_cannot_come_back_is_named_and_the_rest_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let tree = top.join("tree");
    std::fs::create_dir_all(tree.join("sub")).unwrap();
    let socket = tree.join("sub/app.sock");
    drop(UnixListener::bind(&socket).unwrap());
    rustix::fs::mknodat(CWD, tree.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o620), 0).unwrap();
    std::fs::write(tree.join("a"), "first").unwrap();
    std::fs::write(tree.join("z"), "last").unwrap();
    let before = snapshot(&top);

    let bench = Bench::new();
    let bound = bind("file.absent", json!({ "path": tree }));
    let drift = bench.check(&*bound).unwrap().unwrap();
    let explained = bound.explain(&drift, false);
    let words = format!("no revert can bring back {}: it is a socket", socket.display());
    assert!(explained.diff.contains(&words), "{}", explained.diff);
    assert_eq!(explained.details["unrestorable"], json!([socket]));
    let (applied, record) = bench.act(&*bound, drift);
    assert_eq!(applied.unwrap().details["unrestorable"], json!([socket]));
    assert!(!tree.exists());

    let record = record.unwrap();
    let restored = |name: &str| format!("restored {}", tree.join(name).display());
    let came_back = vec![
        format!("restored {}", tree.display()),
        restored("a"),
        restored("pipe"),
        restored("sub"),
        restored("z"),
    ];
    // The second time nothing is left to do.
    for came_back in [came_back, Vec::new()] {
        let fault = bench.revert("file.absent", &record, false).unwrap_err();
        let words = format!("{} was a socket, which cannot be restored", socket.display());
        let besides: String = came_back.iter().map(|line| format!("; {line}")).collect();
        assert_eq!(fault.message, format!("{words}{besides}"));
        assert_eq!(fault.details["unrestored"], json!([socket]));
        assert_eq!(fault.details.get("restored").cloned().unwrap_or(json!([])), json!(came_back));
        let mut rest = before.clone();
        rest.remove(&socket);
        assert_eq!(snapshot(&top), rest, "everything else is back");
    }
    // Whoever listens there is started again: nothing is missing any more.
    let _listener = UnixListener::bind(&socket).unwrap();
    assert!(!bench.revert("file.absent", &record, false).unwrap().changed);
}

#[test]
#[rule("S-31")]
fn s31_a_revert_says_that_it_changed_something_before_it_failed_and_force_gives_a_socket_up() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().canonicalize().unwrap().join("tree");
    std::fs::create_dir(&tree).unwrap();
    drop(UnixListener::bind(tree.join("app.sock")).unwrap());
    std::fs::write(tree.join("f"), "text").unwrap();
    let bench = Bench::new();
    let (_, record) = bench.apply("file.absent", json!({ "path": tree }));
    let first = bench.revert("file.absent", &record, false).unwrap_err();
    assert!(first.touched, "the file came back");
    let second = bench.revert("file.absent", &record, false).unwrap_err();
    assert!(!second.touched, "nothing was left to do");
    assert!(bench.revert("file.absent", &record, true).is_ok());
    assert_eq!(std::fs::read_to_string(tree.join("f")).unwrap(), "text");
}

#[test]
#[rule("S-31")]
fn s31_a_device_comes_back_with_its_numbers() {
    if !is_root() {
        skip!("only root makes devices");
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let device = top.join("null");
    let made = rustix::fs::mknodat(
        CWD,
        &device,
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o640),
        rustix::fs::makedev(1, 3),
    );
    if made.is_err() {
        skip!("devices cannot be made here");
    }
    let stat = rustix::fs::lstat(&device).unwrap();
    let bench = Bench::new();
    let (_, record) = bench.apply("file.absent", json!({ "path": device }));
    assert!(!device.exists());
    assert!(bench.revert("file.absent", &record, false).unwrap().changed);
    let again = rustix::fs::lstat(&device).unwrap();
    assert_eq!((again.st_rdev, again.st_mode), (stat.st_rdev, stat.st_mode));
}

/// Where the test runs once more as somebody who is not root.
const DIRECTORY: &str = "ZESTER_TEST_DIRECTORY";

#[test]
#[rule("S-31")]
fn s31_what_belongs_to_another_comes_back_as_our_own_and_its_owner_is_named() {
    if let Ok(top) = std::env::var(DIRECTORY) {
        return remove_what_is_roots(top.as_ref());
    }
    if !is_root() {
        skip!("only root can leave a file of another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap().join("top");
    std::fs::create_dir(&top).unwrap();
    for name in ["f", "g"] {
        std::fs::write(top.join(name), "of root").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o4754);
        std::fs::set_permissions(top.join(name), mode).unwrap();
    }
    for path in [dir.path(), &top] {
        std::os::unix::fs::chown(path, Some(4711), Some(4711)).unwrap();
    }
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    let name = "special::s31_what_belongs_to_another_comes_back_as_our_own_and_its_owner_is_named";
    again.args(["--exact", name, "--nocapture"]).env(DIRECTORY, &top).current_dir("/");
    std::os::unix::process::CommandExt::uid(&mut again, 4711);
    std::os::unix::process::CommandExt::gid(&mut again, 4711);
    let Ok(ended) = again.output() else { skip!("this program can only be started by root") };
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{}{said}", String::from_utf8_lossy(&ended.stdout));
}

fn remove_what_is_roots(top: &std::path::Path) {
    use std::os::unix::fs::MetadataExt;
    let bench = Bench::new();
    let path = top.join("f");
    let bound = bind("file.absent", json!({ "path": path }));
    let drift = bench.check(&*bound).unwrap().unwrap();
    let explained = bound.explain(&drift, false);
    let words = format!("no revert of ours can bring back the owner 0:0 of {}", path.display());
    assert!(explained.diff.contains(&words), "{}", explained.diff);
    assert_eq!(explained.details["unrestorable"], json!([path]));
    let (applied, record) = bench.act(&*bound, drift);
    assert_eq!(applied.unwrap().details["unrestorable"], json!([path]));
    let record = record.unwrap();
    for begins in [format!("restored {}", path.display()), format!("{} is back", path.display())] {
        let fault = bench.revert("file.absent", &record, false).unwrap_err();
        let words = format!("{begins}, but not its owner 0:0, which only root can give");
        assert_eq!(fault.message, words);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "of root");
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!((meta.uid(), meta.mode() & 0o7777), (4711, 0o704));
    }
    assert!(!bench.revert("file.absent", &record, true).unwrap().changed);
    // By force at once.
    let (_, record) = bench.apply("file.absent", json!({ "path": top.join("g") }));
    assert!(bench.revert("file.absent", &record, true).unwrap().changed);
    assert_eq!(std::fs::read_to_string(top.join("g")).unwrap(), "of root");
}
