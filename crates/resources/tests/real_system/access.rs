//! Access lists, and what a common name leads to: with `setfacl` and `update-alternatives`.

use crate::{Bench, has_program, is_root, ran};
use serde_json::json;
use std::path::Path;
use std::process::Command;
use zester_testkit::skip;

fn told(words: &[&str]) -> String {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn rights_of_somebody_come_change_and_go() {
    if !is_root() || !has_program("setfacl") {
        skip!("only root gives rights to others, with setfacl (acl)");
    }
    let temp = tempfile::tempdir().unwrap();
    let directory = temp.path().canonicalize().unwrap().join("a b");
    std::fs::create_dir(&directory).unwrap();
    let path = directory.display().to_string();
    if !ran(&["setfacl", "-m", "u:nobody:r", "--", &path]) || !ran(&["setfacl", "-b", "--", &path]) {
        skip!("access lists cannot be set here");
    }
    let bench = Bench::new();
    let list = || told(&["getfacl", "--absolute-names", "--", &path]);
    let before = list();
    let own = json!({ "name": path, "acl_type": "user", "acl_name": "nobody", "perms": "rwx" });
    let inherited = json!({ "name": path, "acl_type": "default:group", "acl_name": "daemon", "perms": "rx" });
    let first = bench.apply("acl.present", &own);
    let second = bench.apply("acl.present", &inherited);
    let both = list();
    assert!(both.contains("user:nobody:rwx\n") && both.contains("default:group:daemon:r-x\n"), "{both}");
    // Drift by hand: it is shown, and nothing else.
    assert!(ran(&["setfacl", "-m", "u:nobody:r--", "--", &path]));
    let drift = bench.drift("acl.present", &own).unwrap();
    assert!(
        drift.starts_with(&format!("{path}: user:nobody: r-- → rwx\n"))
            || drift.contains("user:nobody: r-- → rwx"),
        "{drift}"
    );
    assert!(!drift.contains("daemon"), "{drift}");
    bench.apply("acl.present", &own);
    assert_eq!(list(), both);
    let gone = bench.apply("acl.absent", &json!({ "name": path, "acl_type": "user", "acl_name": "nobody" }));
    assert!(!list().contains("nobody"));
    for applied in [gone, second, first] {
        assert!(bench.revert(&applied).changed);
    }
    assert_eq!(list(), before);
}

#[test]
fn what_a_name_leads_to_is_offered_chosen_and_taken_back() {
    const NAME: &str = "zester-test-alternative";
    if !is_root() || !has_program("update-alternatives") {
        skip!("only root chooses what names lead to, with update-alternatives");
    }
    let bench = Bench::new();
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let _clean = crate::Finally(|| {
        ran(&["update-alternatives", "--remove-all", NAME]);
    });
    let link = top.join("link");
    let program = |name: &str| {
        let path = top.join(name);
        std::fs::write(&path, "").unwrap();
        path
    };
    let (one, two) = (program("one"), program("two"));
    let offer = |path: &Path, priority: i64| json!({ "name": NAME, "link": link, "path": path, "priority": priority });
    let first = bench.apply("alternatives.install", &offer(&one, 10));
    let second = bench.apply("alternatives.install", &offer(&two, 20));
    let leads_to = || std::fs::canonicalize(&link).unwrap();
    assert_eq!(leads_to(), two);
    let chosen = json!({ "name": NAME, "path": one });
    let set = bench.apply("alternatives.set", &chosen);
    assert_eq!(leads_to(), one);
    // Drift by hand.
    assert!(ran(&["update-alternatives", "--auto", NAME]));
    let drift = bench.drift("alternatives.set", &chosen).unwrap();
    assert_eq!(drift, format!("{NAME}: {}, the best → {}\n", two.display(), one.display()));
    bench.apply("alternatives.set", &chosen);
    assert_eq!(leads_to(), one);
    assert!(bench.revert(&set).changed);
    assert_eq!(leads_to(), two);
    let gone = bench.apply("alternatives.remove", &json!({ "name": NAME, "path": two }));
    assert_eq!(leads_to(), one);
    for applied in [gone, second, first] {
        assert!(bench.revert(&applied).changed);
    }
    assert!(
        !link.exists()
            && told(&["update-alternatives", "--get-selections"]).lines().all(|line| !line.starts_with(NAME))
    );
}
