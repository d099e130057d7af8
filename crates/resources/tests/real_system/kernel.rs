//! Mounts, settings of the kernel, the packet filter: in namespaces of their own where they could disturb anybody.

use crate::{Bench, Finally, has_program, is_root, passed_once, ran};
use serde_json::json;
use std::path::Path;
use zester_testkit::skip;

fn mounted(place: &Path) -> Option<String> {
    let info = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = place.display().to_string();
    info.lines().find(|line| line.split(' ').nth(4) == Some(&place)).map(str::to_string)
}

#[test]
fn a_tmpfs_is_mounted_remounted_and_taken_back() {
    if !is_root() {
        skip!("only root can mount");
    }
    let bench = Bench::new();
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let (place, table) = (top.join("mnt"), top.join("fstab"));
    std::fs::write(&table, "# table\n").unwrap();
    let path = place.display().to_string();
    let _clean = Finally(|| {
        ran(&["umount", &path]);
    });
    let params = |options: serde_json::Value| json!({ "name": place, "device": "tmpfs", "fstype": "tmpfs", "mkmnt": true, "opts": options, "config": table });
    if !ran(&["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]) {
        skip!("nothing can be mounted here");
    }
    let first = bench.apply("mount.mounted", &params(json!(["size=1m", "mode=0750"])));
    assert!(mounted(&place).unwrap().contains("size=1024k"));
    assert_eq!(
        std::fs::read_to_string(&table).unwrap(),
        format!("# table\ntmpfs\t{path}\ttmpfs\tsize=1m,mode=0750\t0 0\n")
    );
    let other = bench.apply("mount.mounted", &params(json!("size=2m,mode=0750,noatime")));
    assert!(mounted(&place).unwrap().contains("size=2048k"));
    assert!(bench.revert(&other).changed);
    assert!(mounted(&place).unwrap().contains("size=1024k"), "{:?}", mounted(&place));

    // Drift by hand.
    assert!(ran(&["umount", &path]));
    assert!(
        bench
            .drift("mount.mounted", &params(json!("size=1m,mode=0750")))
            .unwrap()
            .contains("nothing mounted → tmpfs")
    );
    bench.apply("mount.mounted", &params(json!("size=1m,mode=0750")));
    let unmounted =
        bench.apply("mount.unmounted", &json!({ "name": place, "config": table, "persist": true }));
    assert_eq!((mounted(&place), std::fs::read_to_string(&table).unwrap().as_str()), (None, "# table\n"));
    bench.revert(&unmounted);
    assert!(mounted(&place).unwrap().contains("size=1024k"));
    assert!(bench.revert(&first).changed);
    assert_eq!(mounted(&place), None);
    assert!(!place.exists());
    assert_eq!(std::fs::read_to_string(&table).unwrap(), "# table\n");
}

#[test]
fn a_setting_of_the_kernel_is_set_and_taken_back() {
    const KEY: &str = "net.ipv4.tcp_keepalive_intvl";
    const PATH: &str = "/proc/sys/net/ipv4/tcp_keepalive_intvl";
    if !is_root() || !has_program("sysctl") || !Path::new(PATH).exists() {
        skip!("only root can set the kernel, with sysctl");
    }
    let before = std::fs::read_to_string(PATH).unwrap();
    // Written as it is: where that fails, all of /proc/sys is read-only.
    if std::fs::write(PATH, &before).is_err() {
        skip!("/proc/sys is read-only here");
    }
    let bench = Bench::new();
    let _clean = Finally(|| drop(std::fs::write(PATH, &before)));
    let temp = tempfile::tempdir().unwrap();
    let config = temp.path().join("99.conf");
    let params = json!({ "name": KEY, "value": 74, "config": config });
    let set = bench.apply("sysctl.present", &params);
    assert_eq!(std::fs::read_to_string(PATH).unwrap(), "74\n");
    assert_eq!(std::fs::read_to_string(&config).unwrap(), format!("{KEY} = 74\n"));
    std::fs::write(PATH, "73\n").unwrap();
    assert_eq!(bench.drift("sysctl.present", &params).unwrap(), format!("{KEY}: 73 → 74\n"));
    bench.apply("sysctl.present", &params);
    assert!(bench.revert(&set).changed);
    assert_eq!(std::fs::read_to_string(PATH).unwrap(), before);
    assert!(!config.exists());
}

/// Set where a test runs again in a network of its own.
pub(crate) const OWN_NETWORK: &str = "ZESTER_TEST_OWN_NETWORK";

/// Runs this test once more in a network of its own; false there.
fn again_in_own_network(test: &str) -> bool {
    if std::env::var_os(OWN_NETWORK).is_some() {
        return false;
    }
    again_in_own_network_with(test, &[]);
    true
}

pub(crate) fn again_in_own_network_with(test: &str, environment: &[(&str, &str)]) {
    let mut again = std::process::Command::new("unshare");
    again.arg("-n").arg(std::env::current_exe().unwrap()).args(["--exact", test, "--nocapture"]);
    passed_once(again.env(OWN_NETWORK, "1").envs(environment.iter().copied()));
}

#[test]
fn rules_and_chains_of_the_packet_filter_come_and_go() {
    if !is_root() || !has_program("iptables") || !has_program("iptables-save") {
        skip!("only root can filter packets, with iptables");
    }
    if !ran(&["unshare", "-n", "iptables", "-S"]) {
        skip!("there is no packet filter in a network of its own");
    }
    if again_in_own_network("kernel::rules_and_chains_of_the_packet_filter_come_and_go") {
        return;
    }
    let bench = Bench::new();
    let saved = || {
        let output = std::process::Command::new("iptables").arg("-S").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let before = saved();
    let chain = bench.apply("iptables.chain_present", &json!({ "name": "zester-test" }));
    let ssh = json!({ "chain": "INPUT", "proto": "tcp", "dport": 22, "connstate": "NEW", "jump": "ACCEPT", "comment": "let in" });
    let first = bench.apply("iptables.append", &ssh);
    let jump = json!({ "chain": "INPUT", "proto": "tcp", "dports": [80, 443], "jump": "zester-test" });
    let second = bench.apply("iptables.insert", &jump);
    let with_both = saved();
    let deleted = bench.apply("iptables.delete", &jump);
    bench.revert(&deleted);
    assert_eq!(saved(), with_both, "it is back where it was");
    let flushed = bench.apply("iptables.flush", &json!({ "chain": "INPUT" }));
    bench.revert(&flushed);
    assert_eq!(saved(), with_both);
    let policy = bench.apply("iptables.set_policy", &json!({ "chain": "FORWARD", "policy": "DROP" }));
    for applied in [policy, second, first, chain] {
        assert!(bench.revert(&applied).changed);
    }
    assert_eq!(saved(), before);
}

#[test]
fn tables_chains_and_rules_of_nftables_come_and_go() {
    if !is_root() || !has_program("nft") {
        skip!("only root can filter packets, with nft");
    }
    if !ran(&["unshare", "-n", "nft", "list", "ruleset"]) {
        skip!("there is no nftables in a network of its own");
    }
    if again_in_own_network("kernel::tables_chains_and_rules_of_nftables_come_and_go") {
        return;
    }
    let bench = Bench::new();
    let listed = || {
        let output = std::process::Command::new("nft").args(["-s", "list", "ruleset"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let before = listed();
    let table = bench.apply("nftables.table_present", &json!({ "name": "zester", "family": "inet" }));
    let about = |mut params: serde_json::Value| {
        params["family"] = json!("inet");
        params["table"] = json!("zester");
        params
    };
    let input =
        about(json!({ "name": "input", "table_type": "filter", "hook": "input", "priority": "filter" }));
    let base = bench.apply("nftables.chain_present", &input);
    let web = bench.apply("nftables.chain_present", &about(json!({ "name": "web" })));
    let rules = [
        json!({ "proto": "tcp", "dport": 22, "connstate": "NEW,ESTABLISHED", "jump": "ACCEPT", "comment": "let in" }),
        json!({ "source": "! 10.0.0.1/32", "if": "eth+", "proto": "udp", "sports": ["53", "123:124"], "jump": "drop", "counter": true }),
        json!({ "icmp-type": "echo-request", "proto": "icmp", "limit": "5/min", "jump": "accept" }),
        json!({ "source": "10.0.0.0/8", "jump": "REJECT", "reject-with": "icmp-host-prohibited" }),
        json!({ "proto": "tcp", "jump": "return" }),
        json!({ "jump": "LOG", "log-prefix": "rest: " }),
        json!({ "destination": "fe80::/10", "arguments": ["ip6 hoplimit 255"], "jump": "accept" }),
    ];
    let mut applied = Vec::new();
    for mut rule in rules {
        rule["chain"] = json!("input");
        applied.push(bench.apply("nftables.append", &about(rule)));
    }
    let jump =
        about(json!({ "chain": "input", "proto": "tcp", "dports": [443, 80], "jump": "web", "position": 2 }));
    applied.push(bench.apply("nftables.insert", &jump));
    let whole = listed();
    assert!(whole.lines().nth(4).unwrap().contains("jump web"), "{whole}");

    let deleted = bench.apply("nftables.delete", &jump);
    bench.revert(&deleted);
    assert_eq!(listed(), whole, "it is back where it was");
    let policy = bench.apply("nftables.set_policy", &about(json!({ "chain": "input", "policy": "DROP" })));
    assert!(listed().contains("policy drop"));
    assert!(bench.revert(&policy).changed);
    for (kind, params) in [
        ("nftables.flush", about(json!({ "chain": "input" }))),
        ("nftables.table_absent", json!({ "name": "zester", "family": "inet" })),
    ] {
        let gone = bench.apply(kind, &params);
        assert!(bench.revert(&gone).changed);
        assert_eq!(listed(), whole, "{kind}");
    }
    // Drift by hand.
    assert!(ran(&["nft", "flush", "chain", "inet", "zester", "web"]));
    assert!(ran(&["nft", "flush", "chain", "inet", "zester", "input"]));
    assert!(bench.drift("nftables.insert", &jump).unwrap().contains("+tcp dport { 443, 80 } jump web"));
    bench.apply("nftables.insert", &jump);
    bench.apply("nftables.delete", &jump);
    for applied in [web, base, table] {
        assert!(bench.revert(&applied).changed);
    }
    assert_eq!(listed(), before);
}
