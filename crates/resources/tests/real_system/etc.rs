//! What lies in `/etc`, on a copy of it: the test runs again where that copy is mounted over it, and where the machine has a
//! name of its own.

use crate::{Bench, has_program, is_root, passed_once, ran};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use zester_testkit::skip;

/// Set where a test runs again on its copies.
const COPIED: &str = "ZESTER_TEST_COPIED_ETC";

/// Runs a test of this file again, with copies of what it changes in the place of the originals.
fn again(test: &str) {
    // Locks come and go while others change accounts of this machine.
    let script = "set -e; top=$1; shift; mount -t tmpfs tmpfs $top; tar -C / --exclude='*.lock' -c etc | tar -C $top -x; cp -a /usr/lib/locale $top/locale; \
        mount --bind $top/etc /etc; mount --bind $top/locale /usr/lib/locale; exec \"$@\"";
    let temp = tempfile::tempdir().unwrap();
    let mut again = std::process::Command::new("unshare");
    again.args(["-m", "-u", "sh", "-c", script, "sh"]).arg(temp.path()).arg(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture"]).env(COPIED, "1");
    passed_once(&mut again);
}

fn can_copy() -> bool {
    is_root() && ran(&["unshare", "-m", "-u", "mount", "-t", "tmpfs", "tmpfs", "/mnt"])
}

/// The files that these kinds may touch.
fn files() -> BTreeMap<&'static str, String> {
    let read = |path: &'static str| {
        let content = match std::fs::read_link(path) {
            Ok(target) => target.display().to_string(),
            Err(_) => std::fs::read_to_string(path).unwrap_or_else(|_| "none".into()),
        };
        (path, content)
    };
    [
        "/etc/hosts",
        "/etc/hostname",
        "/etc/localtime",
        "/etc/timezone",
        "/etc/default/locale",
        "/etc/ssh/ssh_known_hosts",
    ]
    .map(read)
    .into()
}

#[test]
fn names_zones_and_hosts_are_set_and_taken_back() {
    if !can_copy() || !has_program("hostname") || !Path::new("/usr/share/zoneinfo/Europe/Berlin").exists() {
        skip!("only root can mount a copy of /etc, on a machine with hostname and time zones");
    }
    if std::env::var_os(COPIED).is_none() {
        return again("etc::names_zones_and_hosts_are_set_and_taken_back");
    }
    let bench = Bench::new();
    let before = files();
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHc1Lp0n9uTcCq0S3DkVv3cG1A2p7cU0m1x5Zt8r2qQk";
    let states = [
        ("host.present", json!({ "name": "zester-test.example", "ip": ["192.0.2.7", "2001:db8::7"] })),
        ("host.only", json!({ "name": "192.0.2.7", "hostnames": ["a.example", "zester-test.example"] })),
        ("host.absent", json!({ "name": "a.example" })),
        ("timezone.system", json!({ "name": "Europe/Berlin" })),
        ("locale.system", json!({ "name": "de_DE.UTF-8" })),
        ("hostname.system", json!({ "name": "zester-test" })),
        ("ssh_known_hosts.present", json!({ "name": "zester-test.example", "key": key })),
    ];
    let applied: Vec<_> = states.iter().map(|(kind, params)| bench.apply(kind, params)).collect();
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap();
    assert!(hosts.contains("192.0.2.7\tzester-test.example\n2001:db8::7\tzester-test.example\n"), "{hosts}");
    assert_eq!(std::fs::read_link("/etc/localtime").unwrap(), Path::new("/usr/share/zoneinfo/Europe/Berlin"));
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap(), "zester-test\n");
    let left = ["/etc/hosts", "/etc/default/locale", "/etc/ssh/ssh_known_hosts"]
        .map(|path| (path, std::fs::read_to_string(path).unwrap()));
    // Drift by hand, of each: the check shows it, apply mends it, and its revert leads back to it.
    std::fs::write("/etc/hosts", hosts.replace("192.0.2.7\t", "192.0.2.8\t")).unwrap();
    std::fs::write("/proc/sys/kernel/hostname", "other\n").unwrap();
    std::fs::remove_file("/etc/localtime").unwrap();
    std::os::unix::fs::symlink("/usr/share/zoneinfo/UTC", "/etc/localtime").unwrap();
    std::fs::write("/etc/default/locale", "LANG=C\n").unwrap();
    std::fs::write("/etc/ssh/ssh_known_hosts", "").unwrap();
    let drifted = files();
    for (at, shown) in [
        (0, "+192.0.2.7"),
        (3, "Europe/Berlin"),
        (4, "de_DE.UTF-8"),
        (5, "zester-test"),
        (6, "+zester-test.example"),
    ] {
        let (kind, params) = &states[at];
        let drift = bench.drift(kind, params).unwrap_or_else(|| panic!("{kind} sees nothing"));
        assert!(drift.contains(shown), "{kind}: {drift}");
        let mended = bench.apply(kind, params);
        assert!(bench.revert(&mended).changed, "{kind}");
        assert_eq!(files(), drifted, "{kind}");
    }
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap(), "other\n");
    for (path, text) in &left {
        std::fs::write(path, text).unwrap();
    }
    std::fs::write("/proc/sys/kernel/hostname", "zester-test\n").unwrap();
    bench.apply(states[3].0, &states[3].1);
    for one in applied.iter().rev() {
        assert!(bench.revert(one).changed);
    }
    assert_eq!(files(), before);
}

#[test]
fn a_locale_is_made_and_taken_back() {
    if !can_copy() || !has_program("locale-gen") || !Path::new("/usr/share/i18n/SUPPORTED").exists() {
        skip!("only root can mount a copy of the locales, on a machine with locale-gen");
    }
    if std::env::var_os(COPIED).is_none() {
        return again("etc::a_locale_is_made_and_taken_back");
    }
    let bench = Bench::new();
    let list = std::fs::read_to_string("/etc/locale.gen").unwrap();
    let made = bench.apply("locale.present", &json!({ "name": "de_DE.UTF-8" }));
    let all = std::process::Command::new("locale").arg("-a").output().unwrap();
    assert!(String::from_utf8(all.stdout).unwrap().lines().any(|name| name == "de_DE.utf8"));
    bench.revert(&made);
    assert_eq!(std::fs::read_to_string("/etc/locale.gen").unwrap(), list);
}
