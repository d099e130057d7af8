//! Repositories and packages of apt, on copies of what apt and dpkg keep: the test runs again where those are mounted over
//! the originals.

use crate::{Bench, has_program, is_root, passed_once, ran};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use zester_rule::rule;
use zester_testkit::skip;

/// Set where a test runs again on its copies.
const COPIED: &str = "ZESTER_TEST_COPIED_APT";
const NAME: &str = "zester-test-newer";

fn again(test: &str) {
    let script = "set -e; top=$1; shift; mount -t tmpfs tmpfs $top; for d in etc var/lib/dpkg var/lib/apt; do \
        mkdir -p $top/$d; tar -C / --exclude='*.lock' --exclude='lock*' -c $d | tar -C $top -x; mount --bind $top/$d /$d; done; \
        mount -t tmpfs tmpfs /var/cache/apt; mkdir -p /var/cache/apt/archives/partial; \
        rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/*; : > /etc/apt/sources.list; exec \"$@\"";
    let temp = tempfile::tempdir().unwrap();
    let mut again = Command::new("unshare");
    again.args(["-m", "sh", "-c", script, "sh"]).arg(temp.path()).arg(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env(COPIED, "1");
    passed_once(&mut again);
}

/// A directory of packages with nothing in them but a configuration file.
fn pool(directory: &Path, versions: &[&str]) {
    for version in versions {
        let tree = directory.with_extension(version);
        fs::create_dir_all(tree.join("DEBIAN")).unwrap();
        fs::create_dir_all(tree.join("etc")).unwrap();
        fs::create_dir_all(directory).unwrap();
        fs::write(tree.join("etc").join(NAME), version).unwrap();
        let control = format!(
            "Package: {NAME}\nVersion: {version}\nArchitecture: all\nMaintainer: test <t@localhost>\nDescription: test\n"
        );
        fs::write(tree.join("DEBIAN/control"), control).unwrap();
        let (tree, file) = (tree.display().to_string(), directory.join(format!("{version}.deb")));
        assert!(ran(&["dpkg-deb", "--build", "--root-owner-group", &tree, &file.display().to_string()]));
    }
    let scanned =
        Command::new("dpkg-scanpackages").args(["--multiversion", "."]).current_dir(directory).output();
    fs::write(directory.join("Packages"), scanned.unwrap().stdout).unwrap();
}

fn version() -> String {
    let told = Command::new("dpkg-query").args(["-W", "-f=${db:Status-Abbrev}${Version}", NAME]).output();
    String::from_utf8(told.unwrap().stdout).unwrap().replace(' ', "")
}

#[test]
#[rule("S-31", "S-44")]
fn a_repository_that_was_just_named_is_asked_before_anything_is_installed() {
    let programs = ["apt-get", "dpkg-deb", "dpkg-scanpackages", "unshare"];
    if !is_root() || !programs.into_iter().all(has_program) {
        skip!("only root installs packages, with apt and dpkg-dev");
    }
    if !ran(&["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]) {
        skip!("nothing can be mounted here");
    }
    if std::env::var_os(COPIED).is_none() {
        return again("packages::a_repository_that_was_just_named_is_asked_before_anything_is_installed");
    }
    let bench = Bench::new();
    let temp = tempfile::tempdir().unwrap();
    let (old, new) = (temp.path().join("old"), temp.path().join("new"));
    pool(&old, &["1.0"]);
    pool(&new, &["2.0"]);
    let line = |pool: &Path| format!("deb [trusted=yes] file:{} ./", pool.display());
    // Somebody added the first and fetched its lists.
    fs::write("/etc/apt/sources.list", line(&old) + "\n").unwrap();
    assert!(ran(&["apt-get", "-q", "-o", "APT::Sandbox::User=root", "update"]));
    fs::write("/etc/apt/apt.conf.d/99zester-test", "APT::Sandbox::User \"root\";\n").unwrap();

    let repository = json!({ "name": line(&new), "file": "/etc/apt/sources.list.d/new.list" });
    let named = bench.apply("pkgrepo.managed", &repository);
    let installed = bench.apply("pkg.installed", &json!({ "name": NAME }));
    assert_eq!(version(), "ii2.0", "the newest of both");
    assert_eq!(installed.change.diff, format!("{NAME}: new, 2.0\n"));
    // Drift by hand: it is shown, mended, and taken back.
    assert!(ran(&["dpkg", "--purge", NAME]));
    assert_eq!(
        bench.drift("pkg.installed", &json!({ "name": NAME })).unwrap(),
        format!("{NAME}: new, 2.0\n")
    );
    let mended = bench.apply("pkg.installed", &json!({ "name": NAME }));
    assert!(bench.revert(&mended).changed);
    assert_eq!(version(), "");
    fs::write("/etc/apt/sources.list.d/new.list", "# nothing\n").unwrap();
    let drift = bench.drift("pkgrepo.managed", &repository).unwrap();
    assert!(drift.contains(&format!("+{}", line(&new))), "{drift}");
    let again = bench.apply("pkgrepo.managed", &repository);
    assert!(bench.revert(&again).changed);
    fs::remove_file("/etc/apt/sources.list.d/new.list").unwrap();
    drop(named);
}
