//! The real host and the one in memory do the same with the same calls.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests, their helpers included")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::real::Real;
use zester_host::{FaultKind, FileKind, HostRead, HostWrite, NewFile};
use zester_rule::rule;

const LIMIT: u64 = 1 << 20;

fn file<'a>(host: &dyn HostWrite, content: &'a str, mode: u32) -> NewFile<'a> {
    NewFile { content: content.as_bytes(), mode, owner: host.me() }
}

/// Runs a check on a real directory, on an overlay above a real directory, and on an empty machine in memory.
fn everywhere(check: impl Fn(&dyn HostWrite, &Path)) {
    let real = tempfile::tempdir().unwrap();
    check(&Real::new(), real.path());
    let below = tempfile::tempdir().unwrap();
    check(&Overlay::over(Arc::new(Real::new())), below.path());
    assert_eq!(std::fs::read_dir(below.path()).unwrap().count(), 0, "an overlay writes nothing below");
    let memory = Overlay::empty();
    memory.make_directory("/t".as_ref(), 0o755, memory.me()).unwrap();
    check(&memory, "/t".as_ref());
}

#[test]
fn a_file_is_put_with_its_content_mode_and_owner() {
    everywhere(|host, dir| {
        let path = dir.join("f");
        assert_eq!(host.stat(&path).unwrap(), None);
        host.put_file(&path, &file(host, "one", 0o640)).unwrap();
        host.put_file(&path, &file(host, "two", 0o4711)).unwrap();
        let meta = host.stat(&path).unwrap().unwrap();
        assert_eq!((meta.kind, meta.mode, meta.size, meta.uid), (FileKind::File, 0o4711, 3, host.me().uid));
        assert_eq!(host.read(&path, LIMIT).unwrap(), b"two");
        assert_eq!(host.read(&path, 2).unwrap_err().kind, FaultKind::Unsupported);
        assert_eq!(host.list(dir).unwrap(), ["f"]);
    });
}

#[test]
fn parents_must_exist_and_be_directories() {
    everywhere(|host, dir| {
        let missing = dir.join("no/f");
        assert_eq!(host.put_file(&missing, &file(host, "", 0o644)).unwrap_err().kind, FaultKind::NotFound);
        assert_eq!(host.stat(&missing).unwrap(), None);
        host.put_file(&dir.join("f"), &file(host, "", 0o644)).unwrap();
        assert!(host.put_file(&dir.join("f/g"), &file(host, "", 0o644)).is_err());
        assert_eq!(host.stat(&dir.join("f/g")).unwrap(), None);
        assert!(host.make_directory(&dir.join("f"), 0o755, host.me()).is_err());
    });
}

#[test]
fn links_are_followed_inside_a_path_and_at_its_end_only_when_asked() {
    everywhere(|host, dir| {
        host.make_directory(&dir.join("d"), 0o755, host.me()).unwrap();
        host.put_file(&dir.join("d/f"), &file(host, "inside", 0o644)).unwrap();
        host.put_link(&dir.join("l"), "d".as_ref(), host.me()).unwrap();
        host.put_link(&dir.join("m"), &dir.join("l/../d/f"), host.me()).unwrap();
        host.put_link(&dir.join("gone"), "nowhere".as_ref(), host.me()).unwrap();
        assert_eq!(host.read(&dir.join("l/f"), LIMIT).unwrap(), b"inside");
        assert_eq!(host.read(&dir.join("m"), LIMIT).unwrap(), b"inside");
        assert_eq!(host.stat(&dir.join("l")).unwrap().unwrap().kind, FileKind::Link);
        assert_eq!(host.stat_followed(&dir.join("l")).unwrap().unwrap().kind, FileKind::Directory);
        assert_eq!(host.stat_followed(&dir.join("gone")).unwrap(), None);
        assert_eq!(host.read_link(&dir.join("l")).unwrap(), Path::new("d"));
        assert_eq!(host.list(&dir.join("l")).unwrap(), ["f"]);
        assert_eq!(host.real_path(&dir.join("l/g")).unwrap(), dir.join("d/g"));
        assert_eq!(host.real_path(&dir.join("l/no/g")).unwrap(), dir.join("d/no/g"));
        assert_eq!(host.real_path(&dir.join("l")).unwrap(), dir.join("l"));
        host.put_link(&dir.join("loop"), "loop".as_ref(), host.me()).unwrap();
        assert!(host.stat_followed(&dir.join("loop")).is_err());
        // Replaced itself, not what it leads to.
        host.put_file(&dir.join("m"), &file(host, "own", 0o600)).unwrap();
        assert_eq!(host.read(&dir.join("d/f"), LIMIT).unwrap(), b"inside");
    });
}

#[test]
fn a_directory_goes_only_when_it_is_empty_and_comes_back_empty() {
    everywhere(|host, dir| {
        let d = dir.join("d");
        host.make_directory(&d, 0o711, host.me()).unwrap();
        host.put_file(&d.join("f"), &file(host, "", 0o644)).unwrap();
        assert!(host.remove_directory(&d).is_err());
        assert!(host.remove_file(&d).is_err());
        host.remove_file(&d.join("f")).unwrap();
        host.remove_directory(&d).unwrap();
        assert_eq!(host.stat(&d).unwrap(), None);
        assert_eq!(host.remove_file(&d).unwrap_err().kind, FaultKind::NotFound);
        host.make_directory(&d, 0o755, host.me()).unwrap();
        assert!(host.list(&d).unwrap().is_empty());
    });
}

#[test]
fn what_is_moved_is_there_and_not_here_and_replaces_nothing() {
    everywhere(|host, dir| {
        host.make_directory(&dir.join("d"), 0o755, host.me()).unwrap();
        host.put_file(&dir.join("d/f"), &file(host, "moved", 0o644)).unwrap();
        host.rename(&dir.join("d"), &dir.join("e")).unwrap();
        assert_eq!(host.read(&dir.join("e/f"), LIMIT).unwrap(), b"moved");
        assert_eq!(host.stat(&dir.join("d")).unwrap(), None);
        host.put_file(&dir.join("g"), &file(host, "", 0o644)).unwrap();
        assert!(host.rename(&dir.join("g"), &dir.join("e")).is_err());
    });
}

#[test]
fn mode_and_times_are_set_on_the_thing_itself() {
    everywhere(|host, dir| {
        let path = dir.join("f");
        host.put_file(&path, &file(host, "x", 0o600)).unwrap();
        host.set_mode(&path, 0o000).unwrap();
        host.set_mode(&path, 0o751).unwrap();
        host.set_times(&path, 1_500_000_000, 2_000_000_001).unwrap();
        let meta = host.stat(&path).unwrap().unwrap();
        assert_eq!((meta.mode, meta.mtime_ns, meta.atime_ns), (0o751, 2_000_000_001, 1_500_000_000));
        host.put_link(&dir.join("l"), "f".as_ref(), host.me()).unwrap();
        host.set_owner(&dir.join("l"), host.me()).unwrap();
        assert_eq!(host.stat(&dir.join("l")).unwrap().unwrap().kind, FileKind::Link);
    });
}

#[test]
#[rule("S-30")]
fn s30_an_overlay_hides_and_shows_what_lies_below() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| -> PathBuf { dir.path().join(name) };
    std::fs::create_dir(path("d")).unwrap();
    std::fs::write(path("d/below"), "below").unwrap();
    std::os::unix::fs::symlink("d", path("l")).unwrap();
    let host = Overlay::over(Arc::new(Real::new()));
    assert_eq!(host.read(&path("l/below"), LIMIT).unwrap(), b"below");
    host.put_file(&path("l/above"), &file(&host, "above", 0o644)).unwrap();
    assert_eq!(host.list(&path("d")).unwrap(), ["above", "below"]);
    host.set_mode(&path("d/below"), 0o400).unwrap();
    assert_eq!(host.read(&path("d/below"), LIMIT).unwrap(), b"below");
    host.remove_file(&path("d/below")).unwrap();
    host.remove_file(&path("d/above")).unwrap();
    host.remove_directory(&path("d")).unwrap();
    assert_eq!(host.stat_followed(&path("l")).unwrap(), None);
    host.make_directory(&path("d"), 0o755, host.me()).unwrap();
    assert!(host.list(&path("l")).unwrap().is_empty(), "a new directory shows nothing of the old one");
    assert_eq!(host.stat(&path("d/below")).unwrap(), None);
    assert_eq!(std::fs::read(path("d/below")).unwrap(), b"below");
    assert_ne!(std::fs::metadata(path("d/below")).unwrap().permissions().mode() & 0o777, 0o400);
}

#[test]
fn a_failed_write_leaves_no_temp_file_and_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let host = Real::new();
    let path = dir.path().join("f");
    std::fs::create_dir(&path).unwrap();
    assert!(host.put_file(&path, &file(&host, "x", 0o644)).is_err());
    assert!(host.put_link(&path, "x".as_ref(), host.me()).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_file_is_replaced_and_never_rewritten() {
    let dir = tempfile::tempdir().unwrap();
    let host = Real::new();
    let path = dir.path().join("f");
    std::fs::write(&path, "old").unwrap();
    let before = std::fs::metadata(&path).unwrap().ino();
    let mut reader = std::fs::File::open(&path).unwrap();
    host.put_file(&path, &file(&host, "new", 0o600)).unwrap();
    assert_ne!(std::fs::metadata(&path).unwrap().ino(), before);
    let mut seen = String::new();
    std::io::Read::read_to_string(&mut reader, &mut seen).unwrap();
    assert_eq!(seen, "old", "who had it open goes on with the old one");
}

#[test]
fn what_is_no_file_is_not_read_and_does_not_hang() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    let host = Real::new();
    assert_eq!(host.stat(&pipe).unwrap().unwrap().kind, FileKind::Special(zester_host::Special::Pipe));
    assert_eq!(host.read(&pipe, LIMIT).unwrap_err().kind, FaultKind::InTheWay);
}

#[test]
fn accounts_are_found_and_the_unknown_are_not() {
    let host = Real::new();
    assert_eq!(host.user("root").unwrap().unwrap().uid, 0);
    assert_eq!(host.user("root").unwrap().unwrap().uid, 0);
    assert_eq!(host.group("root").unwrap().unwrap().gid, 0);
    assert_eq!(host.user("nobody-by-this-name").unwrap(), None);
}

#[test]
fn file_capabilities_are_not_carried_to_new_content_and_notes_of_users_are() {
    use rustix::fs::XattrFlags;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, "old").unwrap();
    // CAP_NET_BIND_SERVICE, permitted and effective, as setcap writes it.
    let mut capability = [0_u8; 20];
    capability[..8].copy_from_slice(&[1, 0, 0, 2, 0, 4, 0, 0]);
    let set = rustix::fs::setxattr(&path, "security.capability", &capability, XattrFlags::empty())
        .and_then(|()| rustix::fs::setxattr(&path, "user.note", b"kept", XattrFlags::empty()));
    if let Err(error) = set {
        zester_testkit::skip!("extended attributes cannot be set here: {error}");
    }
    let host = Real::new();
    host.put_file(&path, &file(&host, "new", 0o755)).unwrap();
    let mut value = [0_u8; 64];
    assert_eq!(rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap(), 4);
    let gone = rustix::fs::getxattr(&path, "security.capability", &mut value[..]).unwrap_err();
    assert_eq!(gone, rustix::io::Errno::NODATA);
}

#[test]
#[rule("S-31")]
fn s31_what_an_owner_allowed_and_noted_does_not_go_to_the_file_of_another() {
    use rustix::fs::XattrFlags;
    let host = Real::new();
    if host.me().uid != 0 {
        zester_testkit::skip!("only root can prepare a file of somebody else");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    std::fs::write(&path, "theirs").unwrap();
    // Version 2: the owner, user 65534 may read, the group nothing, the mask, others nothing.
    let mut list = vec![2_u8, 0, 0, 0];
    for (tag, right, id) in
        [(1_u16, 6_u16, u32::MAX), (2, 4, 65534), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)]
    {
        list.extend(tag.to_le_bytes().into_iter().chain(right.to_le_bytes()).chain(id.to_le_bytes()));
    }
    let set = rustix::fs::setxattr(&path, "system.posix_acl_access", &list, XattrFlags::empty())
        .and_then(|()| rustix::fs::setxattr(&path, "user.note", b"theirs", XattrFlags::empty()));
    if let Err(error) = set {
        zester_testkit::skip!("access lists cannot be set here: {error}");
    }
    std::os::unix::fs::chown(&path, Some(12345), Some(12345)).unwrap();
    let holds = |name: &str| rustix::fs::getxattr(&path, name, &mut [0_u8; 256][..]).is_ok();
    let theirs = zester_host::Owner { uid: 12345, gid: 12345 };
    host.put_file(&path, &NewFile { content: b"still theirs", mode: 0o640, owner: theirs }).unwrap();
    assert!(holds("system.posix_acl_access") && holds("user.note"));
    host.put_file(&path, &file(&host, "ours", 0o640)).unwrap();
    assert!(!holds("system.posix_acl_access") && !holds("user.note"));
}

#[test]
fn a_directory_that_a_killed_process_was_making_gives_way_and_is_swept() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let host = Real::new();
    // What make_directory leaves when it dies after mkdir: only a name of its own.
    let half = || {
        host.make_directory(&top.join("d"), 0o755, host.me()).unwrap();
        std::fs::remove_dir(top.join("d")).unwrap();
        let digest = zester_host::digest::sha256_hex(b"d");
        std::fs::create_dir(top.join(format!(".zester-{}", &digest[..16]))).unwrap();
    };
    half();
    assert_eq!(host.stat(&top.join("d")).unwrap(), None, "nobody saw it");
    host.make_directory(&top.join("d"), 0o711, host.me()).unwrap();
    assert_eq!(host.list(&top).unwrap(), ["d"]);
    assert_eq!(host.stat(&top.join("d")).unwrap().unwrap().mode, 0o711);
    half_swept(&host, &top, half);
}

fn half_swept(host: &Real, top: &Path, half: impl Fn()) {
    std::fs::remove_dir(top.join("d")).unwrap();
    half();
    host.sweep(&top.join("d")).unwrap();
    assert!(host.list(top).unwrap().is_empty());
}

#[test]
fn a_link_has_the_group_that_was_asked_for_also_where_the_directory_gives_another() {
    let host = Real::new();
    if host.me().uid != 0 {
        println!("only root can give a directory to another group");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::os::unix::fs::chown(&top, Some(0), Some(7)).unwrap();
    std::fs::set_permissions(&top, std::fs::Permissions::from_mode(0o2755)).unwrap();
    let owner_of = |path: &Path| {
        let meta = std::fs::symlink_metadata(path).unwrap();
        (meta.uid(), meta.gid())
    };
    host.put_link(&top.join("l"), "f".as_ref(), host.me()).unwrap();
    assert_eq!(owner_of(&top.join("l")), (host.me().uid, host.me().gid));
    let other = zester_host::Owner { uid: 8, gid: 9 };
    host.put_link(&top.join("l"), "f".as_ref(), other).unwrap();
    assert_eq!(owner_of(&top.join("l")), (8, 9));
}
