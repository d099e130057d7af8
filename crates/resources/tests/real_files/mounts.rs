//! What is mounted inside a directory is another's.

use super::{Bench, bind, is_root};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use zester_rule::rule;
use zester_testkit::skip;

/// Mounted for as long as the test runs.
struct Mount(PathBuf);

impl Mount {
    fn bind(from: &Path, to: &Path) -> Option<Mount> {
        let mounted = Command::new("mount").arg("--bind").args([from, to]).output();
        mounted.is_ok_and(|ended| ended.status.success()).then(|| Mount(to.to_path_buf()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[test]
#[rule("S-31")]
fn s31_what_is_mounted_inside_is_neither_removed_nor_given_away() {
    if !is_root() {
        skip!("only root mounts");
    }
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let (tree, other) = (top.join("tree"), top.join("other"));
    for path in [tree.join("sub/mnt"), other.clone()] {
        std::fs::create_dir_all(path).unwrap();
    }
    std::fs::write(other.join("theirs"), "text").unwrap();
    std::fs::write(tree.join("file"), "mine").unwrap();
    let point = tree.join("sub/mnt");
    let Some(mount) = Mount::bind(&other, &point) else { skip!("this machine lets nobody mount") };

    let bench = Bench::new();
    for path in [&tree, &point] {
        let fault = bench.check(&*bind("file.absent", json!({ "path": path }))).err().unwrap();
        let words = format!("{} is a mount point, and what is mounted there is not removed", point.display());
        assert_eq!(fault.message, words);
    }
    let (change, record) =
        bench.apply("file.directory", json!({ "path": tree, "user": "7", "recurse": ["user"] }));
    assert!(
        change.diff.contains(&format!("left alone: {} is a mount point\n", point.display())),
        "{}",
        change.diff
    );
    assert_eq!(std::fs::metadata(tree.join("sub")).unwrap().uid(), 7);
    assert_eq!(std::fs::metadata(&point).unwrap().uid(), 0);
    assert_eq!(std::fs::metadata(other.join("theirs")).unwrap().uid(), 0);
    bench.revert("file.directory", &record, false).unwrap();
    drop(mount);

    let single = Mount::bind(&other.join("theirs"), &tree.join("file")).unwrap();
    let fault = bench.check(&*bind("file.absent", json!({ "path": tree }))).err().unwrap();
    assert!(fault.message.contains("file is a mount point"), "{fault}");
    drop(single);
    bench.apply("file.absent", json!({ "path": tree }));
    assert_eq!(std::fs::read_to_string(other.join("theirs")).unwrap(), "text");
}
