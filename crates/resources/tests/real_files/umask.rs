//! What new things are allowed does not depend on who runs it.

use super::{Bench, bind};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use zester_rule::rule;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
#[rule("S-60")]
fn s60_the_umask_of_the_caller_has_no_say_in_new_files_and_directories() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let caller = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let bench = Bench::new();
    for (kind, params) in [
        ("file.managed", json!({ "path": top.join("a/b/f"), "content": "x", "makedirs": true })),
        ("file.directory", json!({ "path": top.join("d/e"), "makedirs": true })),
        ("file.touch", json!({ "path": top.join("t/t"), "makedirs": true })),
        ("file.symlink", json!({ "path": top.join("l/l"), "target": "x", "makedirs": true })),
    ] {
        bench.apply(kind, params.clone());
        assert!(bench.check(&*bind(kind, params)).unwrap().is_none(), "{kind}");
    }
    rustix::process::umask(caller);
    for directory in ["a", "a/b", "d", "d/e", "t", "l"] {
        assert_eq!(mode(&top.join(directory)), 0o755, "{directory}");
    }
    for file in ["a/b/f", "t/t"] {
        assert_eq!(mode(&top.join(file)), 0o644, "{file}");
    }
}
