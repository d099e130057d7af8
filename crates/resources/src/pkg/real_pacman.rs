//! The real pacman, on a root directory of the test's own, with packages and a repository that it writes itself.

use super::manager::Job;
use super::pacman::Pacman;
use super::real_rpm::{Aside, planned, succeed};
use super::wanted::Wanted;
use std::fs;
use std::path::Path;
use std::process::Command;
use zester_host::digest::sha256_hex;
use zester_host::real::Real;
use zester_host::{FaultKind, HostRead};

/// A root of its own, and a pacman that knows one repository.
fn root() -> Aside {
    let aside = Aside::new();
    let at = |name: &str| aside.at(name).display().to_string();
    for name in ["root/var/lib/pacman", "cache", "gpg"] {
        fs::create_dir_all(aside.at(name)).unwrap();
    }
    let (root, pool) = (at("root"), at("pool"));
    let conf = format!(
        "[options]\nRootDir = {root}\nDBPath = {root}/var/lib/pacman\nCacheDir = {}\nLogFile = {}\nGPGDir = {}\nHookDir = {root}/hooks\n\
         Architecture = auto\nSigLevel = Never\n[zester-test]\nServer = file://{pool}\n",
        at("cache"),
        at("log"),
        at("gpg")
    );
    fs::write(aside.at("pacman.conf"), conf).unwrap();
    aside
}

/// Writes the packages and the list of them: a repository has one version of each.
fn publish(aside: &Aside, packages: &[(&str, &str, &str)]) {
    let lists = aside.at("lists");
    let _none = fs::remove_dir_all(&lists);
    for (name, version, needs) in packages {
        let build = aside.at(&format!("build-{name}-{version}"));
        fs::create_dir_all(build.join("etc")).unwrap();
        fs::write(build.join("etc").join(name), version).unwrap();
        let depend = if needs.is_empty() { String::new() } else { format!("depend = {needs}\n") };
        let info = format!(
            "pkgname = {name}\npkgbase = {name}\npkgver = {version}\npkgdesc = test\nbuilddate = 1700000000\npackager = test\n\
             size = 1\narch = any\n{depend}"
        );
        fs::write(build.join(".PKGINFO"), info).unwrap();
        let file = format!("{name}-{version}-any.pkg.tar.gz");
        let path = aside.at("pool").join(&file);
        succeed(Command::new("tar").arg("-czf").arg(&path).args([".PKGINFO", "etc"]).current_dir(&build));
        let content = fs::read(&path).unwrap();
        let needs = if needs.is_empty() { String::new() } else { format!("%DEPENDS%\n{needs}\n\n") };
        let entry = format!(
            "%FILENAME%\n{file}\n\n%NAME%\n{name}\n\n%VERSION%\n{version}\n\n%CSIZE%\n{}\n\n%ISIZE%\n1\n\n%SHA256SUM%\n{}\n\n\
             %ARCH%\nany\n\n{needs}",
            content.len(),
            sha256_hex(&content)
        );
        fs::create_dir_all(lists.join(format!("{name}-{version}"))).unwrap();
        fs::write(lists.join(format!("{name}-{version}/desc")), entry).unwrap();
    }
    let list = aside.at("pool/zester-test.db");
    let entries = packages.iter().map(|(name, version, _)| format!("{name}-{version}"));
    succeed(Command::new("tar").arg("-czf").arg(&list).arg("-C").arg(&lists).args(entries));
    let conf = aside.at("pacman.conf").display().to_string();
    succeed(Command::new("pacman").args(["--config", &conf, "--noconfirm", "-Syy"]));
}

#[tokio::test]
async fn the_real_pacman_installs_upgrades_and_removes_on_a_root_of_its_own() {
    if Real::new().me().uid != 0 || !Path::new("/usr/bin/pacman").exists() {
        zester_testkit::skip!("needs root and pacman (pacman-package-manager)");
    }
    let (aside, pacman) = (root(), Pacman);
    let (app, lib) = ("zester-test-app", "zester-test-lib");
    let base = ("zester-test-base", "1.0-1", "");
    publish(&aside, &[base, (lib, "1.0-1", ""), (app, "1.0-1", lib)]);
    // Of a root that holds nothing at all pacman says only that it failed; a real one holds pacman.
    let conf = aside.at("pacman.conf").display().to_string();
    succeed(Command::new("pacman").args(["--config", &conf, "--noconfirm", "-S", base.0]));
    let old = Job { install: vec![Wanted::exactly(app, "1.0")], ..Job::default() };
    let mut plan = aside.carry_out(&pacman, &old).await.unwrap();
    plan.sort_by(|left, right| left.name.cmp(&right.name));
    assert_eq!(plan, [planned(app, None, Some("1.0-1")), planned(lib, None, Some("1.0-1"))]);
    assert_eq!(aside.has(&pacman, app).await.as_deref(), Some("1.0-1"));
    assert_eq!(fs::read_to_string(aside.at("root/etc").join(app)).unwrap(), "1.0-1");
    assert!(aside.carry_out(&pacman, &old).await.unwrap().is_empty(), "it is there");

    publish(&aside, &[base, (lib, "1.0-1", ""), (app, "2.0-1", lib)]);
    let latest = Job { latest: vec![app.into()], ..Job::default() };
    let plan = aside.carry_out(&pacman, &latest).await.unwrap();
    assert_eq!(plan, [planned(app, Some("1.0-1"), Some("2.0-1"))]);
    assert!(aside.carry_out(&pacman, &latest).await.unwrap().is_empty());
    let all = Job { everything: Some(false), ..Job::default() };
    assert!(aside.carry_out(&pacman, &all).await.unwrap().is_empty(), "nothing is newer");

    let gone = Job { remove: vec![lib.into()], ..Job::default() };
    assert_eq!(aside.carry_out(&pacman, &gone).await.unwrap().len(), 2, "with what needs it");
    assert_eq!(aside.has(&pacman, app).await, None);
    let unknown = Job { install: vec![Wanted::any("zester-test-nobody-has-this")], ..Job::default() };
    let refused = aside.carry_out(&pacman, &unknown).await.unwrap_err();
    assert_eq!(refused.kind, FaultKind::NotFound, "{refused}");
    assert!(refused.message.contains("zester-test-nobody-has-this"), "{refused}");
}
