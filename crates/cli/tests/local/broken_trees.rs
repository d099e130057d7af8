//! Broken state trees, and the exact words that point at what is wrong with them (C-7).
//!
//! Each directory of `broken/` holds a tree and `expected.txt`, what `zester apply web` prints. `ZESTER_BLESS=1` writes
//! the files anew; read them before you keep them.

use crate::scratch::Scratch;
use std::path::Path;
use std::process::Command;
use zester_rule::rule;

#[test]
#[rule("S-3", "C-7")]
fn s3_c7_every_broken_tree_is_explained_word_for_word() {
    let trees = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/local/broken");
    let data = tempfile::tempdir().unwrap();
    let bless = std::env::var_os("ZESTER_BLESS").is_some();
    let mut names: Vec<_> = std::fs::read_dir(&trees).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert!(names.len() >= 10);
    let mut wrong = Vec::new();
    for tree in names {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zester"));
        command.args(["apply", "web", "--id", "test"]).current_dir(&tree).env("ZESTER_DATA_DIR", data.path());
        let output = command.env("NO_COLOR", "1").output().unwrap();
        let found = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", tree.display());
        let file = tree.join("expected.txt");
        if bless {
            std::fs::write(&file, &found).unwrap();
        }
        if found != std::fs::read_to_string(&file).unwrap_or_default() {
            wrong.push(format!("{}:\n{found}", tree.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[rule("S-3", "S-40")]
fn s40_what_is_wrong_is_said_once_and_advice_is_counted_as_what_it_is_called() {
    let scratch = Scratch::new();
    scratch.write("states/c.zy", "web:\n  pkg.installed: []\n  git.latest: []\n");
    let said = scratch.zester(&["lint"]).stdout;
    assert!(!said.contains("nothing orders"), "{said}");
    assert!(said.ends_with("1 file: 1 error, 0 warnings\n"), "{said}");
    scratch.write("states/c.zy", "web:\n  pkg.installed: []\n  file.managed: [{path: /etc/x}]\n");
    let said = scratch.zester(&["lint"]).stdout;
    assert!(said.contains("warning: nothing orders") && said.ends_with("0 errors, 1 warning\n"), "{said}");
}
