//! Access lists, capabilities and notes of users are part of what stood there.

use super::{Bench, bind, is_root, snapshot};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use zester_rule::rule;
use zester_testkit::skip;

const LIST: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
const CAPABILITY: &str = "security.capability";
const GAMES: u32 = 60;
const NOBODY: u32 = 65_534;
/// CAP_NET_BIND_SERVICE, permitted and effective, as setcap writes it.
const RIGHTS: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Tags of the entries of a list.
const OWNER: u16 = 1;
const USER: u16 = 2;
const GROUP: u16 = 4;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// As the kernel takes it: a version, and tag, rights and id of each entry.
fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// `u::rw- u:nobody:r-- g::--- m::r-- o::---`: the mode says 0640, and the group may nothing.
fn closed_to_its_group() -> Vec<u8> {
    let nobody_in_particular = u32::MAX;
    list(&[
        (OWNER, 6, nobody_in_particular),
        (USER, 4, NOBODY),
        (GROUP, 0, nobody_in_particular),
        (MASK, 4, nobody_in_particular),
        (OTHER, 0, nobody_in_particular),
    ])
}

fn set(path: &Path, name: &str, value: &[u8]) -> Result<(), Errno> {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())
}

fn get(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = [0_u8; 65_536];
    match rustix::fs::lgetxattr(path, name, &mut value[..]) {
        Ok(length) => Some(value[..length].to_vec()),
        Err(Errno::NODATA) => None,
        Err(error) => panic!("{name} of {}: {error}", path.display()),
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

/// A secret of root's that the mode seems to open to a group, and the list does not.
fn secret(path: &Path) -> Result<(), Errno> {
    std::fs::write(path, "secret").unwrap();
    std::os::unix::fs::chown(path, Some(0), Some(GAMES)).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o640)).unwrap();
    set(path, LIST, &closed_to_its_group())
}

#[test]
#[rule("S-31")]
fn s31_a_file_comes_back_with_its_access_list() {
    if !is_root() {
        skip!("only root gives files away");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("secret");
    if let Err(error) = secret(&path) {
        skip!("access lists cannot be set here: {error}");
    }
    let before = snapshot(&path);
    let bench = Bench::new();
    let (_, record) = bench.apply("file.absent", json!({ "path": path }));
    assert!(bench.revert("file.absent", &record, false).unwrap().changed);
    assert_eq!(get(&path, LIST), Some(closed_to_its_group()));
    assert_eq!(snapshot(&path), before);
    assert!(!bench.revert("file.absent", &record, false).unwrap().changed, "nothing is left to do");
}

#[test]
#[rule("S-31")]
fn s31_a_tree_comes_back_with_what_was_noted_and_given_in_it() {
    if !is_root() {
        skip!("only root gives rights to programs");
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().canonicalize().unwrap().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let (program, plain, link) = (tree.join("program"), tree.join("plain"), tree.join("link"));
    std::fs::write(&program, "#!").unwrap();
    std::fs::write(&plain, "text").unwrap();
    std::os::unix::fs::chown(&program, Some(1), Some(1)).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    std::os::unix::fs::symlink("plain", &link).unwrap();
    let given: Vec<(&Path, &str, Vec<u8>)> = vec![
        (&tree, DEFAULT, closed_to_its_group()),
        (&tree, "user.note", b"of the tree".to_vec()),
        (&program, "user.note", b"\xff\x00binary".to_vec()),
        (&program, CAPABILITY, RIGHTS.to_vec()),
        (&link, "trusted.note", b"of the link".to_vec()),
    ];
    for (path, name, value) in &given {
        if let Err(error) = set(path, name, value) {
            skip!("{name} cannot be set here: {error}");
        }
    }
    let before = snapshot(&tree);
    let bench = Bench::new();
    let (change, record) = bench.apply("file.absent", json!({ "path": tree }));
    assert!(!change.details.contains_key("unrestorable"), "{:?}", change.details);
    bench.revert("file.absent", &record, false).unwrap();
    assert_eq!(snapshot(&tree), before);
    for (path, name, value) in &given {
        assert_eq!(get(path, name).as_ref(), Some(value), "{name} of {}", path.display());
    }
    assert_eq!(get(&plain, LIST), None, "it had none, whatever its directory gives to new files");
}

#[test]
#[rule("S-31")]
fn s31_a_program_that_was_replaced_gets_its_rights_back() {
    if !is_root() {
        skip!("only root gives rights to programs");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("program");
    let bench = Bench::new();
    for params in [
        json!({ "path": path, "content": "new" }),
        json!({ "path": path, "content": "new", "user": "65534" }),
    ] {
        std::fs::write(&path, "old").unwrap();
        if let Err(error) = set(&path, CAPABILITY, &RIGHTS) {
            skip!("capabilities cannot be set here: {error}");
        }
        let before = snapshot(&path);
        let (_, record) = bench.apply("file.managed", params.clone());
        assert_eq!(get(&path, CAPABILITY), None, "{params}: new content has no rights");
        bench.revert("file.managed", &record, false).unwrap();
        assert_eq!(snapshot(&path), before, "{params}");
        assert_eq!(get(&path, CAPABILITY).as_deref(), Some(&RIGHTS[..]), "{params}");
    }
}

#[test]
#[rule("S-31")]
fn s31_an_access_list_that_cannot_come_back_leaves_the_group_outside() {
    if !is_root() {
        skip!("only root gives files away");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("secret");
    if let Err(error) = secret(&path) {
        skip!("access lists cannot be set here: {error}");
    }
    let bench = Bench::new();
    let (_, mut record) = bench.apply("file.absent", json!({ "path": path }));
    // A list that no kernel takes stands for one that this file system does not know.
    record["steps"][0]["xattrs"]["kept"][LIST] = json!("none");
    for _ in 0..2 {
        let fault = bench.revert("file.absent", &record, false).unwrap_err();
        let words = format!("restored {}, but not its {LIST} (", path.display());
        assert!(fault.message.starts_with(&words), "{fault}");
        assert!(fault.message.ends_with("; it is closed to its group"), "{fault}");
        assert_eq!(fault.details["unrestored"], json!([path]));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "secret");
        assert_eq!((mode(&path), get(&path, LIST)), (0o600, None));
    }
    let given_up = bench.revert("file.absent", &record, true).unwrap();
    assert_eq!(given_up.diff, format!("restored {} without its {LIST}", path.display()));
    assert_eq!(mode(&path), 0o600);
}

#[test]
#[rule("S-31")]
fn s31_a_directory_that_lacks_an_attribute_gets_its_files_back_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().canonicalize().unwrap().join("tree");
    std::fs::create_dir(&tree).unwrap();
    std::fs::write(tree.join("f"), "text").unwrap();
    if let Err(error) = set(&tree, "user.note", b"text") {
        skip!("extended attributes cannot be set here: {error}");
    }
    let bench = Bench::new();
    let (_, mut record) = bench.apply("file.absent", json!({ "path": tree }));
    record["steps"][0]["xattrs"] = json!({ "unkept": ["user.note"] });
    let fault = bench.revert("file.absent", &record, false).unwrap_err();
    let words =
        format!("restored {0}, but not its user.note (it was not kept); restored {0}/f", tree.display());
    assert_eq!(fault.message, words);
    assert_eq!(std::fs::read_to_string(tree.join("f")).unwrap(), "text");
}

#[test]
#[rule("S-31")]
fn s31_what_is_too_large_to_be_kept_is_named_before_it_goes() {
    // Few file systems hold so large a one; that in memory does.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    std::fs::write(&path, "text").unwrap();
    if let Err(error) = set(&path, "user.large", &[b'x'; 65_536]) {
        skip!("so large an attribute cannot be set here: {error}");
    }
    let bound = bind("file.absent", json!({ "path": path }));
    let bench = Bench::new();
    let explained = bound.explain(&bench.check(&*bound).unwrap().unwrap(), false);
    assert_eq!(explained.details["unrestorable"], json!([path]));
    let words = format!("no revert can bring back user.large of {}: it cannot be kept", path.display());
    assert!(explained.diff.contains(&words), "{}", explained.diff);
}

#[test]
#[rule("S-31")]
fn s31_a_backup_is_closed_to_whom_its_file_is() {
    if !is_root() {
        skip!("only root gives files away");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("secret");
    if let Err(error) = secret(&path) {
        skip!("access lists cannot be set here: {error}");
    }
    let bench = Bench::new();
    bench.apply("file.managed", json!({ "path": path, "content": "new", "backup": true }));
    for path in [path.clone(), path.with_file_name("secret~")] {
        assert_eq!(get(&path, LIST), Some(closed_to_its_group()), "{}", path.display());
        assert_eq!(mode(&path), 0o640);
    }
}

#[test]
#[rule("S-31")]
fn s31_a_record_from_before_extended_attributes_were_kept_still_reverts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("f");
    std::fs::write(&path, "text").unwrap();
    let _ = set(&path, "user.note", b"text");
    let before = snapshot(&path);
    let bench = Bench::new();
    let (_, mut record) = bench.apply("file.absent", json!({ "path": path }));
    record["steps"][0].as_object_mut().unwrap().remove("xattrs");
    assert!(bench.revert("file.absent", &record, false).unwrap().changed);
    assert_eq!(snapshot(&path), before);
}

#[test]
#[rule("S-31")]
fn s31_a_program_that_is_given_away_keeps_its_capabilities() {
    if !is_root() {
        skip!("only root gives files away");
    }
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().canonicalize().unwrap().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let program = tree.join("program");
    std::fs::write(&program, "#!").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    if let Err(error) = set(&program, CAPABILITY, &RIGHTS) {
        skip!("rights cannot be given to programs here: {error}");
    }
    let bench = Bench::new();
    let given = |uid: u32| {
        assert_eq!(get(&program, CAPABILITY).as_deref(), Some(&RIGHTS[..]), "owned by {uid}");
        assert_eq!(std::fs::metadata(&program).unwrap().uid(), uid);
    };
    let all = json!({ "path": tree, "user": "nobody", "recurse": ["user"] });
    let (_, record) = bench.apply("file.directory", all);
    given(NOBODY);
    assert!(bench.revert("file.directory", &record, false).unwrap().changed);
    given(0);
    let (_, record) =
        bench.apply("file.managed", json!({ "path": program, "user": "nobody", "mode": "0755" }));
    given(NOBODY);
    assert!(bench.revert("file.managed", &record, false).unwrap().changed);
    given(0);
    // A process that was killed between the two.
    let bound = bind("file.directory", json!({ "path": tree, "user": "nobody", "recurse": ["user"] }));
    let drift = bench.check(&*bound).unwrap().unwrap();
    let record = bound.undo_record(&drift).unwrap();
    std::os::unix::fs::chown(&program, Some(NOBODY), None).unwrap();
    assert_eq!(get(&program, CAPABILITY), None);
    bench.revert("file.directory", &record, false).unwrap();
    given(0);
}

#[test]
#[rule("S-47")]
fn s47_new_content_opens_a_file_to_nobody_to_whom_the_old_one_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let path = top.join("secret");
    std::fs::write(&path, "secret").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    // What is made in here from now on may be read by somebody else too.
    if let Err(error) = set(&top, DEFAULT, &closed_to_its_group()) {
        skip!("access lists cannot be set here: {error}");
    }
    let bench = Bench::new();
    bench.apply("file.managed", json!({ "path": path, "content": "another" }));
    assert_eq!(get(&path, LIST), None, "the list of the directory is for what is new in it");
    assert_eq!(mode(&path), 0o640);
    let new = top.join("new");
    bench.apply("file.managed", json!({ "path": new, "content": "new", "mode": "0640" }));
    assert!(get(&new, LIST).is_some());
}
