//! Several states that make the same directory at once.

use super::{Bench, bind, snapshot};
use serde_json::{Value as Json, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Barrier;
use zester_rule::rule;

const ROUNDS: usize = 50;

fn states(top: &Path) -> Vec<(&'static str, Json)> {
    let file =
        |name: &str| ("file.managed", json!({ "path": top.join(name), "content": name, "makedirs": true }));
    vec![
        ("file.directory", json!({ "path": top.join("a"), "makedirs": true })),
        ("file.directory", json!({ "path": top.join("a/b"), "makedirs": true })),
        file("a/f"),
        file("a/b/f"),
        file("a/b/c/f"),
        file("a/b/c/g"),
    ]
}

#[test]
#[rule("S-58")]
fn s58_losing_the_race_for_a_directory_is_success() {
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let states = states(&top);
        let start = Barrier::new(states.len());
        let one = &|(kind, params): &(&'static str, Json)| {
            let (bench, bound) = (Bench::new(), bind(kind, params.clone()));
            let drift = bench.check(&*bound).unwrap().expect("something to do");
            start.wait();
            let (applied, record) = bench.act(&*bound, drift);
            applied.unwrap_or_else(|fault| panic!("{kind} {params}: {fault}"));
            (*kind, record.unwrap())
        };
        let applied: Vec<(&str, Json)> = std::thread::scope(|scope| {
            let tasks: Vec<_> = states.iter().map(|state| scope.spawn(move || one(state))).collect();
            tasks.into_iter().map(|task| task.join().unwrap()).collect()
        });
        for (kind, params) in &states {
            assert!(Bench::new().check(&*bind(kind, params.clone())).unwrap().is_none(), "{kind} {params}");
        }
        // Files first, directories after them, deepest first; whoever made one removes it.
        let bench = Bench::new();
        for (kind, record) in applied.iter().rev() {
            bench.revert(kind, record, false).unwrap();
        }
        assert_eq!(snapshot(&top).len(), 1, "{:?}", snapshot(&top));
    }
}

#[test]
#[rule("S-58")]
fn s58_a_directory_that_somebody_else_made_meanwhile_is_not_ours_to_remove() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let bench = Bench::new();
    let bound = bind("file.directory", json!({ "path": top.join("d"), "mode": "0711" }));
    let drift = bench.check(&*bound).unwrap().unwrap();
    std::fs::create_dir(top.join("d")).unwrap();
    std::fs::set_permissions(top.join("d"), std::fs::Permissions::from_mode(0o750)).unwrap();
    let before = snapshot(&top);
    let (applied, record) = bench.act(&*bound, drift);
    applied.unwrap();
    assert!(bench.check(&*bound).unwrap().is_none());
    assert!(bench.revert("file.directory", &record.unwrap(), false).unwrap().changed);
    assert_eq!(snapshot(&top), before);
}
