//! The owner of a tree can swap a directory for a link at any moment. Nothing outside may be touched.

use super::{Bench, bind, is_root, snapshot};
use rustix::fs::{CWD, RenameFlags};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zester_testkit::skip;

fn rounds() -> usize {
    if std::env::var_os("ZESTER_SOAK").is_some() { 10_000 } else { 300 }
}

/// A tree with a directory and a link of the same contents, one inside and one leading outside.
struct Yard {
    _dir: tempfile::TempDir,
    tree: PathBuf,
    outside: PathBuf,
    owner: u32,
}

impl Yard {
    fn new() -> Yard {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (tree, outside) = (top.join("tree"), top.join("outside"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::create_dir(outside.join("deep")).unwrap();
        for name in ["shadow", "deep/shadow"] {
            std::fs::write(outside.join(name), "secret").unwrap();
        }
        let yard = Yard { _dir: dir, tree, outside, owner: 0 };
        yard.plant();
        yard
    }

    /// Made apart and moved in whole: the swapper may be at work already, and we follow links.
    fn plant(&self) {
        let (old, tree) = (self.tree.with_extension("old"), self.tree.with_extension("new"));
        if std::fs::rename(&self.tree, &old).is_ok() {
            std::fs::remove_dir_all(&old).unwrap();
        }
        std::fs::create_dir_all(tree.join("sub/deep")).unwrap();
        for name in ["sub/shadow", "sub/deep/shadow"] {
            std::fs::write(tree.join(name), "secret").unwrap();
        }
        std::os::unix::fs::symlink(&self.outside, tree.join("link")).unwrap();
        for name in ["link", "sub/shadow", "sub/deep/shadow", "sub/deep", "sub", ""] {
            if self.owner != 0 {
                std::os::unix::fs::lchown(tree.join(name), Some(self.owner), None).unwrap();
            }
        }
        std::fs::rename(tree, &self.tree).unwrap();
    }
}

fn swap(tree: &Path) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(CWD, tree.join("sub"), CWD, tree.join("link"), RenameFlags::EXCHANGE)
}

fn states(tree: &Path, round: usize) -> Vec<(&'static str, Json)> {
    let (dirs, files) = if round.is_multiple_of(2) { ("0711", "0604") } else { ("0755", "0640") };
    vec![
        (
            "file.directory",
            json!({ "path": tree, "mode": dirs, "file_mode": files, "user": "65534",
                    "recurse": ["mode", "user"] }),
        ),
        ("file.managed", json!({ "path": tree.join("sub/shadow"), "mode": files })),
        ("file.managed", json!({ "path": tree.join("sub/deep/shadow"), "content": format!("{round}") })),
        ("file.managed", json!({ "path": tree.join("sub/new/f"), "content": "x", "makedirs": true })),
        ("file.symlink", json!({ "path": tree.join("sub/deep/l"), "target": format!("{round}") })),
        ("file.touch", json!({ "path": tree.join("sub/shadow"), "mtime": round })),
        ("file.absent", json!({ "path": tree })),
    ]
}

#[test]
fn a_directory_that_becomes_a_link_after_the_check_leads_nowhere() {
    if !is_root() {
        skip!("only root gives files away");
    }
    let bench = Bench::new();
    for index in 0..states(Path::new("/"), 0).len() {
        let yard = Yard::new();
        let (kind, params) = states(&yard.tree, 0).swap_remove(index);
        let before = snapshot(&yard.outside);
        let bound = bind(kind, params.clone());
        let drift = bench.check(&*bound).unwrap().expect("something to do");
        swap(&yard.tree).unwrap();
        let (applied, _) = bench.act(&*bound, drift);
        let fault = applied.expect_err(kind);
        assert!(
            fault.message.contains("its path leads through a symbolic link now"),
            "{kind} {params}: {fault}"
        );
        assert_eq!(snapshot(&yard.outside), before, "{kind} {params}");
    }
}

#[test]
fn a_revert_does_not_follow_a_users_link_that_took_the_place_of_a_directory() {
    if !is_root() {
        skip!("only root gives files away");
    }
    let bench = Bench::new();
    for index in 0..states(Path::new("/"), 0).len() - 1 {
        let yard = Yard::new();
        let (kind, params) = states(&yard.tree, 0).swap_remove(index);
        let (_, record) = bench.apply(kind, params);
        swap(&yard.tree).unwrap();
        // A link of root's own would be followed, as the check follows it.
        std::os::unix::fs::lchown(yard.tree.join("sub"), Some(NOBODY), None).unwrap();
        let before = snapshot(&yard.outside);
        let fault = bench.revert(kind, &record, true).expect_err(kind);
        assert!(fault.message.contains("link"), "{kind}: {fault}");
        assert_eq!(snapshot(&yard.outside), before, "{kind}");
    }
}

/// Whose the tree and its links are.
const NOBODY: u32 = 65_534;

#[test]
fn a_link_swapped_in_a_loop_leads_nothing_outside() {
    if !is_root() {
        skip!("only root gives files away");
    }
    swapped_in_a_loop(NOBODY, &["file."]);
}

/// The links inside a tree that is managed as a whole are never followed, whosoever they are.
#[test]
fn a_link_of_roots_swapped_in_a_loop_inside_a_tree_is_not_followed() {
    if !is_root() {
        skip!("only root gives files away");
    }
    swapped_in_a_loop(0, &["file.directory", "file.absent"]);
}

fn swapped_in_a_loop(owner: u32, kinds: &[&str]) {
    let bench = Bench::new();
    let yard = Yard { owner, ..Yard::new() };
    yard.plant();
    let before = snapshot(&yard.outside);
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (stop, tree) = (stop.clone(), yard.tree.clone());
        move || {
            let mut swaps = 0_usize;
            while !stop.load(Ordering::Relaxed) {
                swaps += usize::from(swap(&tree).is_ok());
            }
            swaps
        }
    });
    let mut went = [0_usize; 2];
    for round in 0..rounds() {
        let states = states(&yard.tree, round).into_iter();
        for (kind, params) in states.filter(|(kind, _)| kinds.iter().any(|one| kind.starts_with(one))) {
            // What comes of it depends on the moment; only what is outside counts.
            let bound = bind(kind, params);
            let Ok(Some(drift)) = bench.check(&*bound) else { continue };
            let (applied, record) = bench.act(&*bound, drift);
            went[usize::from(applied.is_ok())] += 1;
            if let Some(record) = record.filter(|_| round.is_multiple_of(3)) {
                drop(bench.revert(kind, &record, round.is_multiple_of(2)));
            }
        }
        assert_eq!(snapshot(&yard.outside), before, "round {round}");
        if !yard.tree.join("sub/shadow").exists() || !yard.tree.join("link").exists() {
            yard.plant();
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    println!("{swaps} swaps, {} failures, {} successes", went[0], went[1]);
    assert!(swaps > 0 && went[1] > 0, "{swaps} swaps, {went:?}");
    assert_eq!(snapshot(&yard.outside), before);
}

#[test]
fn a_path_through_a_link_is_managed_where_it_leads() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    std::fs::create_dir(top.join("run")).unwrap();
    std::os::unix::fs::symlink("run", top.join("var")).unwrap();
    let bench = Bench::new();
    for (kind, params) in [
        ("file.managed", json!({ "path": top.join("var/a/f"), "content": "x", "makedirs": true })),
        ("file.directory", json!({ "path": top.join("var/d"), "mode": "0711" })),
        ("file.symlink", json!({ "path": top.join("var/l"), "target": "x" })),
        ("file.touch", json!({ "path": top.join("var/t") })),
    ] {
        let before = snapshot(&top);
        let (_, record) = bench.apply(kind, params.clone());
        assert!(bench.check(&*bind(kind, params)).unwrap().is_none(), "{kind}");
        assert_ne!(snapshot(&top), before, "{kind}");
        bench.revert(kind, &record, false).unwrap();
        assert_eq!(snapshot(&top), before, "{kind}");
    }
    std::fs::write(top.join("run/f"), "x").unwrap();
    bench.apply("file.absent", json!({ "path": top.join("var/f") }));
    assert!(!top.join("run/f").exists());
}
